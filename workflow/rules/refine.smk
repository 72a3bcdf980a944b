rule tally:
    input:
        plan=library_plan,
    output:
        families=intermediate("results/tally/{library}/{bucket}.families"),
        metrics="results/tally/{library}/{bucket}.metrics.json",
    log:
        "logs/tally/{library}/{bucket}.log",
    benchmark:
        "benchmarks/tally/{library}/{bucket}.jsonl"
    conda:
        "../../envs/stage.yaml"
    threads: 1
    resources:
        mem_mb=400,
        runtime=60,
    params:
        algorithm=ALGORITHM_VERSION,
        version=__version__,
        library=lambda wildcards: wildcards.library,
    script:
        "../../scripts/tally.py"


rule model:
    input:
        plan=library_plan,
        families=library_families,
    output:
        model="results/model/{library}/of-{buckets}.model",
        metrics="results/model/{library}/of-{buckets}.metrics.json",
    log:
        "logs/model/{library}/of-{buckets}.log",
    benchmark:
        "benchmarks/model/{library}/of-{buckets}.jsonl"
    conda:
        "../../envs/stage.yaml"
    threads: 1
    resources:
        mem_mb=400,
        runtime=20,
    params:
        algorithm=ALGORITHM_VERSION,
        version=__version__,
        library=lambda wildcards: wildcards.library,
    script:
        "../../scripts/model.py"


rule link:
    input:
        plan=library_plan,
        model=library_file("model", "model"),
    output:
        edges=intermediate("results/link/{library}/{bucket}.edges"),
        queries=intermediate("results/link/{library}/{bucket}.queries"),
        metrics="results/link/{library}/{bucket}.metrics.json",
    log:
        "logs/link/{library}/{bucket}.log",
    benchmark:
        "benchmarks/link/{library}/{bucket}.jsonl"
    conda:
        "../../envs/stage.yaml"
    threads: 1
    resources:
        mem_mb=400,
        runtime=60,
    params:
        algorithm=ALGORITHM_VERSION,
        version=__version__,
        library=lambda wildcards: wildcards.library,
    script:
        "../../scripts/link.py"


rule settle:
    input:
        plan=library_plan,
        families=library_families,
        edges=library_edges,
        queries=library_queries,
        model=library_file("model", "model"),
    output:
        settled=intermediate("results/settle/{library}/of-{buckets}.settled"),
        metrics="results/settle/{library}/of-{buckets}.metrics.json",
    log:
        "logs/settle/{library}/of-{buckets}.log",
    benchmark:
        "benchmarks/settle/{library}/of-{buckets}.jsonl"
    conda:
        "../../envs/stage.yaml"
    threads: 1
    resources:
        mem_mb=400,
        runtime=60,
    params:
        algorithm=ALGORITHM_VERSION,
        version=__version__,
        library=lambda wildcards: wildcards.library,
        method=CONFIG.refine_method,
        minimum_posterior=CONFIG.min_posterior,
    script:
        "../../scripts/settle.py"


rule move:
    input:
        plan=library_plan,
        families="results/tally/{library}/{bucket}.families",
        edges="results/link/{library}/{bucket}.edges",
        settled=library_file("settle", "settled"),
        model=library_file("model", "model"),
    output:
        outbox=intermediate("results/move/{library}/{bucket}.outbox"),
        fates=intermediate("results/move/{library}/{bucket}.fates"),
        metrics="results/move/{library}/{bucket}.metrics.json",
    log:
        "logs/move/{library}/{bucket}.log",
    benchmark:
        "benchmarks/move/{library}/{bucket}.jsonl"
    conda:
        "../../envs/stage.yaml"
    threads: 1
    resources:
        mem_mb=400,
        runtime=60,
    params:
        algorithm=ALGORITHM_VERSION,
        version=__version__,
        library=lambda wildcards: wildcards.library,
        judge=CONFIG.refine_method == "posterior",
    script:
        "../../scripts/move.py"


rule route:
    input:
        plan=library_plan,
        settled="results/settle/{library}/of-{buckets}.settled",
        outboxes=library_outboxes,
    output:
        routes="results/route/{library}/of-{buckets}.json",
        metrics="results/route/{library}/of-{buckets}.metrics.json",
    log:
        "logs/route/{library}/of-{buckets}.log",
    benchmark:
        "benchmarks/route/{library}/of-{buckets}.jsonl"
    conda:
        "../../envs/stage.yaml"
    threads: 1
    resources:
        mem_mb=400,
        runtime=20,
    params:
        algorithm=ALGORITHM_VERSION,
        version=__version__,
        library=lambda wildcards: wildcards.library,
    script:
        "../../scripts/route.py"
