"""What is run, how it is run, and what came of it: a library, knobs and a finished run."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from umimill.checkout import RECORD_BLOCK


@dataclass(frozen=True)
class Library:
    """What is run.

    Attributes:
        layouts: rows (sample, layout, layout of read 2 or None).
        units: files of each unit, one or two.
        name: the library.
        minimum_reads, minimum_umi_quality, floor, method, minimum_posterior: as in the config.
        cell_list: file of cell barcodes, or None.
    """

    layouts: Sequence[tuple[str, str, str | None]]
    units: Mapping[str, Sequence[Path]]
    name: str = "L1"
    minimum_reads: int = 1
    minimum_umi_quality: int = 0
    floor: float = 1e-4
    method: str = "posterior"
    minimum_posterior: float = 0.5
    suspects: bool = False
    placement: str = "auto"
    cell_list: Path | None = None

    @property
    def paired(self) -> bool:
        """Whether templates are pairs."""
        return len(next(iter(self.units.values()))) == 2

    @property
    def samples(self) -> list[str]:
        """Samples in order."""
        return sorted({row[0] for row in self.layouts})


@dataclass(frozen=True)
class Knobs:
    """How it is run.

    Attributes:
        buckets, parts, threads: numbers of them.
        staging_bytes: rows that checkout holds before a flush; 1 = flushes of 256 rows.
        tally_bytes: rows that tally holds; 1 = each key is read in passes.
        table_bytes: edges that settle holds; 1 = each bucket's go to scratch.
        block_bytes: families that link holds.
        batch_bytes: rows that assemble holds; 1 = each cell of one key is streamed.
        record_block: records that go to one part in one go. It moves the blocks of the unmatched
            file, so it is no free knob: the package has one value.
        unmatched: whether to write the unmatched file.
        lineage: whether to write the table of all reads.
        span_records, shelf_bytes: records that lineage puts in order at a time, and rows it holds.
        mem_mb: memory of a job, more than any baseline of a test process.
    """

    buckets: int = 1
    parts: int = 1
    threads: int = 1
    staging_bytes: int | None = None
    tally_bytes: int | None = None
    table_bytes: int | None = None
    block_bytes: int | None = None
    batch_bytes: int | None = None
    record_block: int = RECORD_BLOCK
    unmatched: bool = True
    lineage: bool = True
    span_records: int | None = None
    shelf_bytes: int | None = None
    mem_mb: int = 8000


class Record(NamedTuple):
    """A consensus record."""

    name: str
    tags: dict[str, str]
    bases: str
    qualities: bytes


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        library: what was run.
        folder: its folder.
        outputs: data outputs: FASTQ, Parquet, TSV, by path below `results`.
        jobs: metrics of all jobs, in the order in which they ran.
    """

    library: Library
    folder: Path
    outputs: dict[str, Path]
    jobs: list[dict[str, Any]]

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each data output."""
        return {
            name: hashlib.sha256(path.read_bytes()).hexdigest()
            for name, path in self.outputs.items()
        }

    def of(self, stage: str) -> list[dict[str, Any]]:
        """Return the metrics of a stage's jobs."""
        return [job for job in self.jobs if job["stage"] == stage]

    def total(self, stage: str, key: str) -> Any:
        """Add up a metric, or a counter, over a stage's jobs."""
        return sum(job.get(key, job["counters"].get(key, 0)) for job in self.of(stage))

    def ledger(self) -> dict[tuple[str, str | None, str], int]:
        """Return {(stage, sample or None, line): templates}, without lines of zero."""
        total: Counter[tuple[str, str | None, str]] = Counter()
        for job in self.jobs:
            for entry in job["ledger"]:
                total[job["stage"], entry["sample"], entry["line"]] += entry["templates"]
        return {line: count for line, count in total.items() if count}

    def line(self, name: str, sample: str | None = None, stage: str = "checkout") -> int:
        """Return one number of the ledger."""
        return self.ledger().get((stage, sample, name), 0)

    def molecules(self, sample: str) -> list[dict[str, Any]]:
        """Return the rows of a sample's molecules.parquet."""
        path = self.outputs[f"samples/{sample}/{sample}.molecules.parquet"]
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows

    def records(self, sample: str, mate: int = 1) -> list[Record]:
        """Return the consensus records of a sample, one mate's."""
        ending = f"_R{mate}" if self.library.paired else ""
        return list(
            read_consensus(self.outputs[f"samples/{sample}/{sample}.consensus{ending}.fastq.gz"])
        )


def read_consensus(path: Path) -> Iterator[Record]:
    """Read a consensus file with zlib, which shares nothing with the compressor that wrote it."""
    lines = gzip.decompress(path.read_bytes()).decode("ascii").splitlines()
    for first in range(0, len(lines), 4):
        name, comment = lines[first][1:].split(" ")
        tags = dict((tag[:2], tag[5:]) for tag in comment.split("\t"))
        qualities = bytes(ord(letter) - 33 for letter in lines[first + 3])
        yield Record(name, tags, lines[first + 1], qualities)
