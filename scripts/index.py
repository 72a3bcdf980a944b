"""Job of rule index."""

from pathlib import Path

from umimill.index import index
from umimill.job import run_job
from umimill.library_tables import LibrarySettings

parameters = snakemake.params
reads = parameters.reads
settings = LibrarySettings(
    library=parameters.library,
    layouts=parameters.layouts,
    reads=reads,
    probes=dict(zip(reads, map(Path, snakemake.input.probes), strict=True)),
    buckets=parameters.buckets,
    parts=parameters.parts,
    floor=parameters.floor,
    minimum_reads=parameters.minimum_reads,
)
with run_job(snakemake, "index", "write") as meter:
    index(
        Path(snakemake.input.plan),
        [[Path(path) for path in snakemake.input[mate]] for mate in ("mate1", "mate2")],
        [Path(path) for path in snakemake.input.molecules],
        [Path(path) for path in snakemake.input.jobs],
        Path(snakemake.output.index),
        Path(snakemake.output.jobs).parent,
        settings,
        meter,
    )
