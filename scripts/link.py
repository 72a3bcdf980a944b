"""Job of rule link."""

from pathlib import Path

from umimill.job import run_job, split_item
from umimill.link import Outputs, link
from umimill.model import read_tables

model = Path(snakemake.input.model)
bucket = snakemake.wildcards.bucket
with run_job(snakemake, "link", "match", bucket=bucket) as meter:
    link(
        Path(snakemake.input.plan),
        read_tables(model),
        split_item(bucket)[0],
        model,
        Outputs(Path(snakemake.output.edges), Path(snakemake.output.queries)),
        meter,
    )
