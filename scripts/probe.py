"""Job of rule probe."""

from pathlib import Path

from umimill.job import run_job
from umimill.probe import probe

with run_job(snakemake, "probe", "match", unit=snakemake.wildcards.unit) as meter:
    probe(
        [Path(path) for path in snakemake.input.reads],
        snakemake.params.layouts,
        Path(snakemake.output.probe),
        meter,
    )
