"""Job of rule assemble."""

from pathlib import Path

from umimill.assemble import Settings, Sources, assemble
from umimill.cells import Filter
from umimill.job import run_job, split_item

bucket = snakemake.wildcards.bucket
lineage = snakemake.output.get("lineage")
with run_job(snakemake, "assemble", "model", bucket=bucket) as meter:
    assemble(
        Path(snakemake.input.plan),
        Sources(
            families=Path(snakemake.input.families),
            fates=Path(snakemake.input.fates),
            routes=Path(snakemake.input.routes),
        ),
        split_item(bucket)[0],
        Settings(
            wanted=Filter(snakemake.params.minimum_reads, suspects=snakemake.params.suspects),
            floor=snakemake.params.floor,
            mates=2 if snakemake.params.paired else 1,
        ),
        (Path(snakemake.output.mate1), Path(snakemake.output.mate2)),
        Path(snakemake.output.molecules),
        meter,
        lineage_path=Path(lineage) if lineage else None,
    )
