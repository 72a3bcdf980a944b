# A job makes all of several small libraries. What it makes goes to a folder a library, from which a
# rule a library puts it in its place (0.04 s): so a library that fails fails alone.
for number, run in enumerate(SMALL_RUNS):

    rule:
        name:
            f"small_{number + 1}"
        input:
            small_reads(run),
        output:
            [temp(directory(f"results/small/{library.name}")) for library in run],
        log:
            f"logs/small/{number + 1}.log",
        benchmark:
            f"benchmarks/small/{number + 1}.jsonl"
        conda:
            "../../envs/stage.yaml"
        threads: small_threads
        resources:
            # All kernels in one process: compiling them, once, takes 520 MB, loading them 280.
            mem_mb=800,
            runtime=240,
        params:
            algorithm=ALGORITHM_VERSION,
            version=__version__,
            libraries=[small_library(library) for library in run],
            wishes={
                "limit_reads": CONFIG.limit_reads,
                "min_umi_quality": CONFIG.min_umi_quality,
                "placement": CONFIG.placement,
                "refine_method": CONFIG.refine_method,
                "min_posterior": CONFIG.min_posterior,
                "floor": CONFIG.floor,
                "min_reads": CONFIG.min_reads,
                "unmatched": CONFIG.unmatched,
                "suspects": CONFIG.suspects,
                "lineage": CONFIG.lineage,
            },
        script:
            "../../scripts/small.py"

    for library in run:

        rule:
            name:
                f"publish_{library.name}"
            input:
                made=f"results/small/{library.name}",
            output:
                small_files(library),
            log:
                f"logs/publish/{library.name}.log",
            localrule: True
            conda:
                "../../envs/stage.yaml"
            params:
                folders=lambda wildcards, input, output: sorted(
                    {path.removeprefix("results/").rpartition("/")[0] for path in output}
                ),
            shell:
                "if [ -e {input.made}/failed.txt ]; then"
                " cp {input.made}/failed.txt {log}; rm -r {input.made};"
                # Snakemake ends its own lines late, so this one begins with an end.
                " printf '\\n%s\\n' \"$(cat {log})\" >&2; exit 1; fi; "
                "for folder in {params.folders}; do"
                " mv -t results/$folder {input.made}/$folder/*; done 2> {log}"
