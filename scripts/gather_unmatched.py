"""Job of the gather_unmatched rules."""

from pathlib import Path

from umimill.gather import gather_unmatched
from umimill.job import run_job

with run_job(snakemake, "gather_unmatched", "write") as meter:
    gather_unmatched(
        [Path(path) for path in snakemake.input.pieces],
        snakemake.params.parts,
        [Path(path) for path in snakemake.output.fastq],
        meter,
    )
