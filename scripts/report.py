"""Job of rule report."""

from pathlib import Path

from umimill.errors import job_errors
from umimill.report import report

with job_errors(snakemake.log[0]):
    report(Path("results/metrics"), snakemake.params.libraries, Path(snakemake.output[0]))
