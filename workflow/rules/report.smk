rule report:
    input:
        cell_tables(),
        [
            f"results/metrics/{library.name}/{name}"
            for library in CONFIG.libraries
            for name in (*LIBRARY_METRICS, *gather_metrics(library))
        ],
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
