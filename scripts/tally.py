"""Job of rule tally."""

from pathlib import Path

from umimill.job import run_job, split_item
from umimill.tally import tally

bucket = snakemake.wildcards.bucket
with run_job(snakemake, "tally", "sort", bucket=bucket) as meter:
    tally(
        Path(snakemake.input.plan),
        split_item(bucket)[0],
        Path(snakemake.output.families),
        meter,
        scratch=Path(snakemake.resources.tmpdir),
    )
