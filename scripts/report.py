"""Job of rule report."""

from pathlib import Path

from umimill.job import run_job
from umimill.report import report

with run_job(snakemake, "report", "write") as meter, meter.clock("write"):
    meter.reads = report(
        Path("results/metrics"),
        snakemake.params.sheet,
        Path(snakemake.output.page),
        Path(snakemake.output.samples),
        *map(Path, snakemake.input.estimate),
    )
