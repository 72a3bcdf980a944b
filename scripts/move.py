"""Job of rule move."""

from pathlib import Path

from umimill.job import run_job, split_item
from umimill.move import Outputs, Sources, move

bucket = snakemake.wildcards.bucket
with run_job(snakemake, "move", "sort", bucket=bucket) as meter:
    move(
        Path(snakemake.input.plan),
        Sources(
            families=Path(snakemake.input.families),
            edges=Path(snakemake.input.edges),
            settled=Path(snakemake.input.settled),
            model=Path(snakemake.input.model),
        ),
        split_item(bucket)[0],
        Outputs(Path(snakemake.output.outbox), Path(snakemake.output.fates)),
        meter,
        judge=snakemake.params.judge,
    )
