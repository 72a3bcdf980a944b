"""Names of the files that a run is for."""

from __future__ import annotations

from collections.abc import Sequence

SAMPLES_FOLDER = "results/samples"
UNMATCHED_FOLDER = "results/unmatched"
LINEAGE_FOLDER = "results/lineage"
SAMPLE_TABLES = ("molecules.parquet", "families.parquet", "sizes.tsv", "ledger.tsv")
CELL_TABLES = ("cells.parquet", "cell_calls.tsv", "cell_ranks.tsv", "cell_profile.tsv")
# One gather job for so many samples, at most 16 jobs a library. Where stages are jobs of their own
# samples are large: four of 2 M reads each take 4 s to gather, a job half a second to start.
RUN_SAMPLES = 2
MOST_RUNS = 16


def _mates(paired: bool) -> tuple[str, ...]:
    return ("_R1", "_R2") if paired else ("",)


def fastq_files(sample: str, *, paired: bool) -> list[str]:
    """Return the consensus files of a sample, one a mate."""
    folder = f"{SAMPLES_FOLDER}/{sample}"
    return [f"{folder}/{sample}.consensus{mate}.fastq.gz" for mate in _mates(paired)]


def table_files(sample: str, *, cells: bool = False) -> list[str]:
    """Return the tables of a sample, which may have cell barcodes."""
    endings = [*SAMPLE_TABLES, *(CELL_TABLES if cells else ())]
    return [f"{SAMPLES_FOLDER}/{sample}/{sample}.{ending}" for ending in endings]


def unmatched_files(library: str, *, paired: bool) -> list[str]:
    """Return the files of a library's unmatched templates, one a mate."""
    folder = f"{UNMATCHED_FOLDER}/{library}"
    return [f"{folder}/{library}.unmatched{mate}.fastq.gz" for mate in _mates(paired)]


def lineage_file(library: str) -> str:
    """Return the table of what became of a library's reads."""
    return f"{LINEAGE_FOLDER}/{library}/{library}.lineage.parquet"


def sample_runs(samples: Sequence[str]) -> list[tuple[str, ...]]:
    """Cut samples into runs of near-equal number, one a gather job."""
    count = max(1, min(MOST_RUNS, len(samples) // RUN_SAMPLES))
    bounds = [len(samples) * run // count for run in range(count + 1)]
    return [tuple(samples[bounds[run] : bounds[run + 1]]) for run in range(count)]
