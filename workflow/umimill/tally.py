"""tally: count the families of a bucket, in bounded memory.

Rows of a flush are sorted by key, so each piece that is read gives a sorted table of families.
Tables are merged two by two as they come, like to like in size; what does not fit the budget is
written to scratch as one sorted table, and all are merged, piece by piece, at the end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockWriter
from umimill.kernels import families as kernels
from umimill.metrics import Meter
from umimill.partition import PartitionFile
from umimill.plan import read_plan

FAMILY = np.dtype(
    [
        ("key", "<u8"),
        ("reads", "<u8"),
        ("sample", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
        ("padding", "<u4"),
    ]
)
READ_ROWS = 1 << 15
MERGE_ROWS = 1 << 14
# Merging makes a third table as large as the two, and what is read needs room as well.
TABLE_SHARE = 0.3

Table = npt.NDArray[Any]


def merge(first: Table, second: Table) -> Table:
    """Merge two sorted tables, FAMILY[*]."""
    merged = np.empty(first.size + second.size, FAMILY)
    return merged[: kernels.merge_families(first, second, merged)]


class FamilyTable:
    """A table of families that spills to scratch what exceeds its budget.

    Args:
        budget_bytes: most bytes of tables in memory.
        scratch: folder for spilled tables.

    Attributes:
        spill_bytes: bytes written to scratch and read back.
        peak_bytes: most bytes of tables in memory.
    """

    def __init__(self, budget_bytes: int, scratch: Path) -> None:
        self._budget = budget_bytes
        self._scratch = scratch
        self._tables: list[Table] = []
        self._spilled: list[Path] = []
        self.spill_bytes = 0
        self.peak_bytes = 0

    def add(self, table: Table) -> None:
        """Take a sorted table; its memory is the table's own afterwards."""
        while self._tables and self._tables[-1].size <= 2 * table.size:
            table = merge(self._tables.pop(), table)
        self._tables.append(table.copy())
        held = sum(one.nbytes for one in self._tables)
        self.peak_bytes = max(self.peak_bytes, held)
        if held > self._budget:
            self._spill()

    def _merge_all(self) -> Table:
        while len(self._tables) > 1:
            second = self._tables.pop()
            self._tables.append(merge(self._tables.pop(), second))
        return self._tables.pop() if self._tables else np.empty(0, FAMILY)

    def _spill(self) -> None:
        table = self._merge_all()
        path = self._scratch / f"{len(self._spilled)}.families"
        table.tofile(path)
        self._spilled.append(path)
        self.spill_bytes += table.nbytes

    def pieces(self) -> Iterator[Table]:
        """Yield the whole table in order, in pieces; a key is in one piece."""
        if not self._spilled:
            yield self._merge_all()
            return
        if self._tables:
            self._spill()
        pending: list[Table] = [np.empty(0, FAMILY) for _ in self._spilled]
        files = [path.open("rb") for path in self._spilled]
        try:
            while True:
                for number, file in enumerate(files):
                    if not pending[number].size:
                        pending[number] = np.fromfile(file, FAMILY, MERGE_ROWS)
                heads = [number for number, table in enumerate(pending) if table.size]
                if not heads:
                    return
                last = _earliest([pending[number][-1:] for number in heads])
                piece = np.empty(0, FAMILY)
                for number in heads:
                    count = kernels.rows_through(pending[number], last)
                    piece = merge(piece, pending[number][:count])
                    pending[number] = pending[number][count:]
                yield piece
        finally:
            for file in files:
                file.close()


def _earliest(rows: list[Table]) -> Table:
    first = rows[0]
    for row in rows[1:]:
        if kernels.rows_through(row, first):
            first = row
    return first.copy()


def tally(
    plan_path: Path,
    bucket: int,
    output: Path,
    meter: Meter,
    *,
    scratch: Path | None = None,
    table_bytes: int | None = None,
) -> None:
    """Count the families of a bucket.

    Args:
        plan_path: plan of the library.
        bucket: number of the bucket, from 0.
        output: table of families to write.
        meter: metrics of the job.
        scratch: folder for what does not fit; None is the system's.
        table_bytes: memory for tables; None takes it from the budget.
    """
    plan = read_plan(plan_path)
    groups = plan.bucket_groups(bucket)
    reads = np.zeros(len(plan.samples), np.int64)
    budget = table_bytes or int(meter.budget_bytes * TABLE_SHARE)
    with (
        tempfile.TemporaryDirectory(prefix="umimill-", dir=scratch) as folder,
        BlockWriter(output) as writer,
    ):
        table = FamilyTable(budget, Path(folder))
        if groups.size:
            leaves = int(groups[0]["leaf_start"]), int(groups[-1]["leaf_stop"])
            for path in plan.partitions:
                with PartitionFile(path) as part:
                    _count_part(part, leaves, table, meter)
        start, rows = writer.append(np.empty(0, FAMILY)), 0
        for piece in table.pieces():
            with meter.clock("write"):
                kernels.sum_reads(piece, reads)
                writer.append(piece)
                rows += piece.size
        writer.list_array("families", start, (rows,), FAMILY)
        writer.finish({"bucket": bucket})
        meter.written_bytes = writer.offset
    meter.umi_memory_bytes = table.peak_bytes
    meter.umi_spill_bytes = table.spill_bytes
    meter.counters["families"] = rows
    for number, sample in enumerate(plan.samples):
        meter.count(sample, "families", int(reads[number]))


def _count_part(
    part: PartitionFile, leaves: tuple[int, int], table: FamilyTable, meter: Meter
) -> None:
    # Zeros: the padding of a row is written to disk too.
    families = np.zeros(READ_ROWS, FAMILY)
    for run in part.runs(0, *leaves):
        for start in range(run.row_start, run.row_stop, READ_ROWS):
            stop = min(start + READ_ROWS, run.row_stop)
            with meter.clock("decode"):
                hot = part.read_hot(run.flush, start, stop)
            meter.reads += stop - start
            meter.read_bytes += hot.nbytes
            with meter.clock("sort"):
                count = kernels.count_families(hot, families)
                table.add(families[:count])
