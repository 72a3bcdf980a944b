rule report:
    input:
        cell_tables(),
        [
            f"results/metrics/{library.name}/{name}"
            for library in CONFIG.libraries
            for name in (*LIBRARY_METRICS, *gather_metrics(library))
        ],
        estimate=["results/report/estimate.json"] if is_large(CONFIG) else [],
    output:
        page=report(
            "results/report/index.html",
            caption="../report/page.rst",
            category="Report",
        ),
        samples="results/report/samples.tsv",
        metrics="results/report/index.metrics.json",
    log:
        "logs/report/index.log",
    benchmark:
        "benchmarks/report/index.jsonl"
    conda:
        "../../envs/stage.yaml"
    threads: 1
    resources:
        mem_mb=800,
        runtime=20,
    params:
        algorithm=ALGORITHM_VERSION,
        version=__version__,
        sheet=sheet_rows(),
    script:
        "../../scripts/report.py"


# Only large runs have it: others are done before it is read.
if is_large(CONFIG):

    rule estimate:
        input:
            [
                path
                for library in CONFIG.libraries
                for unit in library.units
                for path in (unit.read1, unit.read2)
                if path
            ],
        output:
            estimate="results/report/estimate.json",
        log:
            "logs/estimate.log",
        # All cores and the highest priority: it is said before anything else begins.
        priority: 1
        localrule: True
        conda:
            "../../envs/stage.yaml"
        threads: workflow.cores or 1
        params:
            limit=CONFIG.limit_reads,
            libraries=[cost_wanted(library) for library in CONFIG.libraries],
        script:
            "../../scripts/estimate.py"


rule clean_intermediates:
    log:
        "logs/clean_intermediates.log",
    localrule: True
    conda:
        "../../envs/stage.yaml"
    shell:
        "rm -rf results/small results/probe results/cells results/partition results/place results/plan "
        "results/tally results/model "
        "results/link results/settle results/move results/route results/assemble results/index "
        "> {log} 2>&1"
