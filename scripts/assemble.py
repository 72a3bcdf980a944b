"""Job of rule assemble."""

from pathlib import Path

from umimill.assemble import Settings, assemble
from umimill.job import run_job, split_item

bucket = snakemake.wildcards.bucket
with run_job(snakemake, "assemble", "model", bucket=bucket) as meter:
    assemble(
        Path(snakemake.input.plan),
        Path(snakemake.input.families),
        split_item(bucket)[0],
        Settings(
            minimum_reads=snakemake.params.minimum_reads,
            floor=snakemake.params.floor,
            mates=2 if snakemake.params.paired else 1,
        ),
        (Path(snakemake.output.mate1), Path(snakemake.output.mate2)),
        Path(snakemake.output.molecules),
        meter,
    )
