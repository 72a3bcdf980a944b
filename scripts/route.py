"""Job of rule route."""

from pathlib import Path

from umimill.job import run_job
from umimill.route import route

with run_job(snakemake, "route", "write") as meter:
    route(
        Path(snakemake.input.plan),
        Path(snakemake.input.settled),
        [Path(path) for path in snakemake.input.outboxes],
        Path(snakemake.output.routes),
        meter,
    )
