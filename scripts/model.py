"""Job of rule model."""

from pathlib import Path

from umimill.job import run_job
from umimill.model import model

with run_job(snakemake, "model", "model") as meter:
    model(
        Path(snakemake.input.plan),
        [Path(path) for path in snakemake.input.families],
        Path(snakemake.output.model),
        meter,
    )
