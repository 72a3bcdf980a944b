rule probe:
    input:
        reads=unit_reads,
    output:
        probe="results/probe/{library}/{unit}.json",
        metrics="results/probe/{library}/{unit}.metrics.json",
    log:
        "logs/probe/{library}/{unit}.log",
    benchmark:
        "benchmarks/probe/{library}/{unit}.jsonl"
    conda:
        "../../envs/stage.yaml"
    threads: 1
    resources:
        mem_mb=400,
        runtime=10,
    params:
        algorithm=ALGORITHM_VERSION,
        version=__version__,
        library=lambda wildcards: wildcards.library,
        layouts=library_layouts,
    script:
        "../../scripts/probe.py"


rule cells:
    input:
        cell_list=library_cell_list,
    output:
        cells=intermediate("results/cells/{library}.cells"),
        metrics="results/cells/{library}.metrics.json",
    log:
        "logs/cells/{library}.log",
    benchmark:
        "benchmarks/cells/{library}.jsonl"
    wildcard_constraints:
        library=LISTED,
    conda:
        "../../envs/stage.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=10,
    params:
        algorithm=ALGORITHM_VERSION,
        version=__version__,
        library=lambda wildcards: wildcards.library,
        length=library_cell_length,
    script:
        "../../scripts/cells.py"


rule checkout:
    input:
        reads=unit_reads,
        probes=library_probes,
    output:
        **(
            {"unmatched": intermediate("results/partition/{library}/{unit}/{part}.unmatched")}
            if CONFIG.unmatched
            else {}
        ),
        **(
            {"names": intermediate("results/partition/{library}/{unit}/{part}.names")}
            if CONFIG.lineage
            else {}
        ),
        rows=intermediate("results/partition/{library}/{unit}/{part}.rows"),
        partial=intermediate("results/partition/{library}/{unit}/{part}.partial"),
        metrics="results/partition/{library}/{unit}/{part}.metrics.json",
    log:
        "logs/checkout/{library}/{unit}/{part}.log",
    benchmark:
        "benchmarks/checkout/{library}/{unit}/{part}.jsonl"
    wildcard_constraints:
        library=NOT_LISTED,
    conda:
        "../../envs/stage.yaml"
    threads: 2
    resources:
        mem_mb=400,
        runtime=240,
    params:
        algorithm=ALGORITHM_VERSION,
        version=__version__,
        library=lambda wildcards: wildcards.library,
        layouts=library_layouts,
        units=library_units,
        limit=CONFIG.limit_reads,
        minimum_umi_quality=CONFIG.min_umi_quality,
    script:
        "../../scripts/checkout.py"


use rule checkout as checkout_listed with:
    input:
        reads=unit_reads,
        probes=library_probes,
        cells="results/cells/{library}.cells",
    output:
        **(
            {"unmatched": intermediate("results/partition/{library}/{unit}/{part}.unmatched")}
            if CONFIG.unmatched
            else {}
        ),
        **(
            {"names": intermediate("results/partition/{library}/{unit}/{part}.names")}
            if CONFIG.lineage
            else {}
        ),
        rows=intermediate("results/partition/{library}/{unit}/{part}.rows"),
        partial=intermediate("results/partition/{library}/{unit}/{part}.partial"),
        unplaced=intermediate("results/partition/{library}/{unit}/{part}.unplaced"),
        metrics="results/partition/{library}/{unit}/{part}.metrics.json",
    wildcard_constraints:
        library=LISTED,


rule place:
    input:
        cells="results/cells/{library}.cells",
        unplaced=library_unplaced,
    output:
        rows=intermediate("results/place/{library}.rows"),
        metrics="results/place/{library}.metrics.json",
    log:
        "logs/place/{library}.log",
    benchmark:
        "benchmarks/place/{library}.jsonl"
    wildcard_constraints:
        library=LISTED,
    conda:
        "../../envs/stage.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=120,
    params:
        algorithm=ALGORITHM_VERSION,
        version=__version__,
        library=lambda wildcards: wildcards.library,
    script:
        "../../scripts/place.py"


rule plan:
    input:
        partitions=partitions,
        partials=partials,
    output:
        plan=intermediate("results/plan/{library}/of-{buckets}.plan"),
        metrics="results/plan/{library}/of-{buckets}.metrics.json",
    log:
        "logs/plan/{library}/of-{buckets}.log",
    benchmark:
        "benchmarks/plan/{library}/of-{buckets}.jsonl"
    conda:
        "../../envs/stage.yaml"
    threads: 1
    resources:
        mem_mb=400,
        runtime=10,
    params:
        algorithm=ALGORITHM_VERSION,
        version=__version__,
        library=lambda wildcards: wildcards.library,
        layouts=library_layouts,
        placement=CONFIG.placement,
    script:
        "../../scripts/plan.py"
