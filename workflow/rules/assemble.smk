rule assemble:
    input:
        plan=library_plan,
        families="results/tally/{library}/{bucket}.families",
        fates="results/move/{library}/{bucket}.fates",
        routes=library_file("route", "json"),
    output:
        **(
            {"lineage": intermediate("results/assemble/{library}/{bucket}.lineage")}
            if CONFIG.lineage
            else {}
        ),
        mate1=intermediate("results/assemble/{library}/{bucket}.mate1"),
        mate2=intermediate("results/assemble/{library}/{bucket}.mate2"),
        molecules=intermediate("results/assemble/{library}/{bucket}.molecules"),
        metrics="results/assemble/{library}/{bucket}.metrics.json",
    log:
        "logs/assemble/{library}/{bucket}.log",
    benchmark:
        "benchmarks/assemble/{library}/{bucket}.jsonl"
    conda:
        "../../envs/stage.yaml"
    threads: assemble_threads
    resources:
        mem_mb=500,
        runtime=120,
    params:
        algorithm=ALGORITHM_VERSION,
        version=__version__,
        library=lambda wildcards: wildcards.library,
        paired=lambda wildcards: LIBRARIES[wildcards.library].paired,
        minimum_reads=CONFIG.min_reads,
        suspects=CONFIG.suspects,
        floor=CONFIG.floor,
    script:
        "../../scripts/assemble.py"


rule index:
    input:
        partitions,
        partials,
        library_outboxes,
        plan=index_plan,
        mate1=buckets("assemble", "mate1"),
        mate2=buckets("assemble", "mate2"),
        molecules=buckets("assemble", "molecules"),
        families=library_families,
        fates=buckets("move", "fates"),
        routes=library_file("route", "json"),
        model=library_file("model", "model"),
        probes=library_probes,
        jobs=library_jobs,
    output:
        index="results/index/{library}.json",
        jobs="results/metrics/{library}/jobs.json",
        ledger="results/metrics/{library}/ledger.tsv",
        sizes="results/metrics/{library}/sizes.tsv",
        samples="results/metrics/{library}/samples.tsv",
        barcodes="results/metrics/{library}/barcodes.tsv",
        outcomes="results/metrics/{library}/outcomes.tsv",
        posteriors="results/metrics/{library}/posteriors.tsv",
        corrections="results/metrics/{library}/corrections.tsv",
        umi_errors="results/metrics/{library}/umi_errors.tsv",
        family_sizes="results/metrics/{library}/family_sizes.tsv",
        ranks="results/metrics/{library}/ranks.tsv",
        provenance="results/metrics/{library}/provenance.json",
        metrics="results/metrics/{library}/index.json",
    log:
        "logs/index/{library}.log",
    benchmark:
        "benchmarks/index/{library}.jsonl"
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
        reads=library_reads,
        buckets=lambda wildcards: bucket_number(wildcards.library),
        parts=CONFIG.parts,
        floor=CONFIG.floor,
        minimum_reads=CONFIG.min_reads,
        method=CONFIG.refine_method,
        minimum_posterior=CONFIG.min_posterior,
        suspects=CONFIG.suspects,
        cell_list=library_cell_list,
        limit_reads=CONFIG.limit_reads,
    script:
        "../../scripts/index.py"


# Names of the files of a sample depend on whether its library is paired, so each library has rules
# of its own: one for a run of samples.
for library in STAGED:
    for number, samples in enumerate(gather_runs(library)):

        rule:
            name:
                f"gather_{library.name}_{number + 1}"
            input:
                library_fragments(library.name),
                index=f"results/index/{library.name}.json",
            output:
                fastq=[
                    path
                    for sample in samples
                    for path in fastq_files(sample, paired=library.paired)
                ],
                tables=[
                    path
                    for sample in samples
                    for path in table_files(sample, cells=sample in CELL_SAMPLES)
                ],
                metrics=f"results/metrics/{library.name}/gather.{number + 1}.json",
            log:
                f"logs/gather/{library.name}.{number + 1}.log",
            benchmark:
                f"benchmarks/gather/{library.name}.{number + 1}.jsonl"
            conda:
                "../../envs/stage.yaml"
            threads: 1
            resources:
                mem_mb=500,
                runtime=60,
            params:
                algorithm=ALGORITHM_VERSION,
                version=__version__,
                library=library.name,
                samples=list(samples),
                cells=[sample for sample in samples if sample in CELL_SAMPLES],
                paired=library.paired,
            script:
                "../../scripts/gather.py"

    if CONFIG.unmatched:

        rule:
            name:
                f"gather_unmatched_{library.name}"
            input:
                pieces=library_parts(library.name, "unmatched"),
            output:
                fastq=unmatched_files(library.name, paired=library.paired),
                metrics=f"results/unmatched/{library.name}/{library.name}.metrics.json",
            log:
                f"logs/gather_unmatched/{library.name}.log",
            benchmark:
                f"benchmarks/gather_unmatched/{library.name}.jsonl"
            conda:
                "../../envs/stage.yaml"
            threads: 1
            resources:
                mem_mb=400,
                runtime=60,
            params:
                algorithm=ALGORITHM_VERSION,
                version=__version__,
                library=library.name,
                parts=CONFIG.parts,
            script:
                "../../scripts/gather_unmatched.py"

    if CONFIG.lineage:

        rule:
            name:
                f"lineage_{library.name}"
            input:
                index=f"results/index/{library.name}.json",
                names=library_parts(library.name, "names"),
                fragments=library_buckets(library.name, "assemble", "lineage"),
            output:
                table=lineage_file(library.name),
                metrics=f"results/lineage/{library.name}/{library.name}.metrics.json",
            log:
                f"logs/lineage/{library.name}.log",
            benchmark:
                f"benchmarks/lineage/{library.name}.jsonl"
            conda:
                "../../envs/stage.yaml"
            threads: 1
            resources:
                mem_mb=500,
                runtime=60,
            params:
                algorithm=ALGORITHM_VERSION,
                version=__version__,
                library=library.name,
                units=[unit.unit for unit in library.units],
                parts=CONFIG.parts,
            script:
                "../../scripts/lineage.py"
