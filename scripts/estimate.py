"""Job of rule estimate."""

from pathlib import Path

from umimill.errors import job_errors, tell
from umimill.estimate import Wanted, estimate, estimate_lines

log_path = snakemake.log[0]
with job_errors(log_path):
    output = Path(snakemake.output.estimate)
    libraries = [Wanted(**library) for library in snakemake.params.libraries]
    found = estimate(libraries, snakemake.params.limit, output)
    lines = estimate_lines(found, snakemake.threads, output.parent)
    tell("".join(f"{line}\n" for line in lines), log_path)
