"""Job of rule settle."""

from pathlib import Path

from umimill.job import run_job
from umimill.settle import Sources, make_rule, settle

SOURCES = ("families", "edges", "queries")
with run_job(snakemake, "settle", "sort") as meter:
    settle(
        Path(snakemake.input.plan),
        Sources(
            *([Path(path) for path in snakemake.input[name]] for name in SOURCES),
        ),
        Path(snakemake.input.model),
        make_rule(snakemake.params.method, snakemake.params.minimum_posterior),
        Path(snakemake.output.settled),
        meter,
    )
