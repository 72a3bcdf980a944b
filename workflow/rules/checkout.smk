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
        rows=intermediate("results/partition/{library}/{unit}/{part}.rows"),
        metrics="results/partition/{library}/{unit}/{part}.metrics.json",
    log:
        "logs/checkout/{library}/{unit}/{part}.log",
    benchmark:
        "benchmarks/checkout/{library}/{unit}/{part}.jsonl"
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
        minimum_umi_quality=CONFIG.min_umi_quality,
    script:
        "../../scripts/checkout.py"


rule plan:
    input:
        partitions=partitions,
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
