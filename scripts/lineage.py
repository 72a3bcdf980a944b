"""Job of the lineage rules."""

from pathlib import Path

from umimill.job import run_job
from umimill.lineage import Sources, lineage

with run_job(snakemake, "lineage", "compress") as meter:
    lineage(
        Sources(
            index=Path(snakemake.input.index),
            units=snakemake.params.units,
            names=[Path(path) for path in snakemake.input.names],
            fragments=[Path(path) for path in snakemake.input.fragments],
        ),
        snakemake.params.parts,
        Path(snakemake.output.table),
        meter,
    )
