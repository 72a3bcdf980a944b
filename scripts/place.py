"""Job of rule place."""

from pathlib import Path

from umimill.job import run_job
from umimill.place import place

with run_job(snakemake, "place", "match") as meter:
    place(
        [Path(path) for path in snakemake.input.unplaced],
        Path(snakemake.input.cells),
        Path(snakemake.output.rows),
        meter,
    )
