"""Job of rule index."""

from pathlib import Path

from umimill.index import Fragments, index
from umimill.job import run_job
from umimill.library_tables import LibrarySettings

parameters = snakemake.params
reads = parameters.reads
settings = LibrarySettings(
    library=parameters.library,
    layouts=parameters.layouts,
    reads=reads,
    probes=dict(zip(reads, map(Path, snakemake.input.probes), strict=True)),
    model=Path(snakemake.input.model),
    buckets=parameters.buckets,
    parts=parameters.parts,
    floor=parameters.floor,
    minimum_reads=parameters.minimum_reads,
    method=parameters.method,
    minimum_posterior=parameters.minimum_posterior,
    suspects=parameters.suspects,
)


def paths(name):
    """Return the paths of an input."""
    return [Path(path) for path in snakemake.input[name]]


with run_job(snakemake, "index", "write") as meter:
    index(
        Path(snakemake.input.plan),
        Fragments(
            mates=(paths("mate1"), paths("mate2")),
            molecules=paths("molecules"),
            families=paths("families"),
            fates=paths("fates"),
        ),
        Path(snakemake.input.routes),
        paths("jobs"),
        Path(snakemake.output.index),
        Path(snakemake.output.jobs).parent,
        settings,
        meter,
    )
