"""tally: find and count the families of a bucket, in flat memory.

Rows come in key order, whole keys at a time, from all runs of the bucket; the table is written as
it is made. A key with more rows than are held at a time is read in three passes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockWriter
from umimill.drafts import batch_drafts, buffer_bytes, draft_strides, make_clusters
from umimill.family_blocks import SortedRows
from umimill.kernels import tally as kernels
from umimill.kernels.consensus import Batch
from umimill.loading import RowLoader, make_batch
from umimill.metrics import Meter
from umimill.pair_census import count_pairs
from umimill.partial import list_partials
from umimill.partition import PartitionFile, sorted_order
from umimill.plan import Plan, read_plan
from umimill.tally_sums import FamilySums

FAMILY = np.dtype(
    [
        ("key", "<u8"),
        ("draft", "<u8"),
        ("mask", "<u4"),
        ("reads", "<u4"),
        ("sample", "<u2"),
        ("family", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
        ("draft_quality", "u1"),
        ("flags", "u1"),
    ]
)
# Rows at a time: what they and their drafts take stays in the cache. Of many runs more: files are
# read and checked in pages, of which a few rows of each run would be a small part.
BATCH_ROWS = 1 << 14
RUN_ROWS = 1 << 9
BATCH_SHARE = 0.3
# What a row takes beside its own bytes: order, draft, family.
ROW_BYTES = 200
# Families as they are read back, when their pairs are counted.
CENSUS_SHARE = 0.4
COPY_BYTES = 1 << 20

Array = npt.NDArray[Any]


class FamilyReader:
    """Makes families from the rows of a bucket.

    Args:
        loader: rows of the bucket.
        plan: plan of the library.
        rows: rows at a time.
        phreds: those of reads' barcodes are counted.
        meter: metrics of the job.

    Attributes:
        streamed: keys that were read in passes, so far.
    """

    def __init__(
        self, loader: RowLoader, plan: Plan, rows: int, phreds: kernels.Phreds, meter: Meter
    ) -> None:
        self._loader = loader
        self._rows = rows
        self._meter = meter
        self._phreds = phreds
        self.streamed = 0
        self._strides = draft_strides(plan.rows, plan.bases, plan.tile)
        self._width = max((part.barcode_width for part in loader.parts), default=0)
        self._clusters = make_clusters()
        most = max(rows, self._clusters.leader.size)
        # Zeros: every byte of a table is written to disk.
        self._families = np.zeros(most, FAMILY)
        self._quality = np.zeros((most, self._width), np.uint8)
        held = (*self._clusters, self._families, self._quality)
        meter.umi_memory_bytes = buffer_bytes(held)

    def pieces(self) -> Iterator[tuple[Array, Array]]:
        """Yield the families of some keys and their barcode qualities; valid until the next."""
        while True:
            with self._meter.clock("decode"):
                pieces, key = self._loader.next_keys(self._rows)
                batch = make_batch(pieces, self._width)
            if key is not None:
                count = self._stream(key)
            elif batch.hot.size:
                count = self._tally(batch, sort=len(pieces) > 1)
            else:
                return
            yield self._families[:count], self._quality[:count]

    def _tally(self, batch: Batch, *, sort: bool) -> int:
        self._meter.reads += batch.hot.size
        with self._meter.clock("decode"):
            drafts = batch_drafts(batch, self._strides)
        with self._meter.clock("sort"):
            rows = batch.hot.size
            order = sorted_order(batch.hot, rows) if sort else np.arange(rows, dtype=np.int64)
            return int(
                kernels.tally_rows(
                    batch,
                    drafts,
                    self._strides,
                    order,
                    self._clusters,
                    self._families,
                    self._quality,
                    self._phreds,
                )
            )

    def _stream(self, key: Array) -> int:
        self.streamed += 1
        start = self._loader.marks()
        self._between(kernels.BEGIN, key)
        self._pass(kernels.COLLECT, key)
        self._between(kernels.CHOOSE, key)
        self._loader.rewind(start)
        self._pass(kernels.ADD, key)
        self._between(kernels.CALL, key)
        self._loader.rewind(start)
        self._meter.reads += self._pass(kernels.ASSIGN, key)
        return self._between(kernels.FINISH, key)

    def _between(self, step: int, key: Array) -> int:
        with self._meter.clock("sort"):
            count = kernels.between_passes(step, key, self._clusters, self._families, self._quality)
            return int(count)

    def _pass(self, step: int, key: Array) -> int:
        rows = 0
        for piece in self._loader.pieces_through(key):
            with self._meter.clock("decode"):
                batch = make_batch([piece], self._width)
                drafts = batch_drafts(batch, self._strides)
            with self._meter.clock("sort"):
                kernels.pass_rows(
                    step,
                    batch,
                    drafts,
                    self._strides,
                    self._clusters,
                    self._families,
                    self._phreds,
                )
            rows += batch.hot.size
        return rows


def tally(
    plan_path: Path,
    bucket: int,
    output: Path,
    meter: Meter,
    *,
    scratch: Path | None = None,
    batch_bytes: int | None = None,
) -> None:
    """Find and count the families of a bucket.

    Args:
        plan_path: plan of the library.
        bucket: number of the bucket, from 0.
        output: table of families to write.
        meter: metrics of the job.
        scratch: folder for the column that is written behind the others; None is the system's.
        batch_bytes: most bytes of rows and of what is made of them; None takes it from the budget.

    Raises:
        UmimillError: where a file is damaged.
    """
    plan = read_plan(plan_path)
    groups = plan.bucket_groups(bucket)
    sums = FamilySums(len(plan.samples))
    if batch_bytes is None:
        batch_bytes = int(meter.budget_bytes * BATCH_SHARE)
    with ExitStack() as stack:
        parts = [stack.enter_context(PartitionFile(path)) for path in plan.partitions]
        writer = stack.enter_context(BlockWriter(output))
        column = stack.enter_context(tempfile.TemporaryFile(prefix="umimill-", dir=scratch))
        leaves = (0, 0)
        if groups.size:
            leaves = (int(groups[0]["leaf_start"]), int(groups[-1]["leaf_stop"]))
        loader = RowLoader(parts, *leaves)
        rows = batch_rows(groups, loader.run_count, batch_bytes)
        start, count = writer.append(np.empty(0, FAMILY)), 0
        reader = FamilyReader(loader, plan, rows, sums.phreds, meter)
        for families, quality in reader.pieces():
            with meter.clock("write"):
                writer.append(families)
                column.write(memoryview(quality).cast("B"))
                sums.add(families)
                count += families.size
        with meter.clock("write"):
            writer.list_array("families", start, (count,), FAMILY)
            width = max((part.barcode_width for part in parts), default=0)
            _append_column(writer, column, count, width)
            sums.write(writer)
        with meter.clock("sort"):

            def read_back(first: int, last: int) -> Array:
                meter.umi_read_back_bytes += (last - first) * FAMILY.itemsize
                return writer.read_back(start + first * FAMILY.itemsize, last - first, FAMILY)

            table = SortedRows(count, read_back)
            pairs, pair_sizes = count_pairs(
                table, plan.leaves, *leaves, block_bytes=int(meter.budget_bytes * CENSUS_SHARE)
            )
        with meter.clock("write"):
            partial_parts = [stack.enter_context(PartitionFile(one)) for one in plan.partials]
            strides = draft_strides(plan.rows, plan.bases, plan.tile)
            partials = list_partials(partial_parts, leaves, strides, rows, writer)
            writer.add("pairs", pairs)
            writer.add("pair_sizes", pair_sizes)
            writer.finish({"bucket": bucket})
        meter.read_bytes, meter.written_bytes = loader.read_bytes, writer.offset
    meter.counters |= {"families": count, "streamed": reader.streamed}
    for number, sample in enumerate(plan.samples):
        meter.count(sample, "families", int(sums.reads[number]))
        meter.count(sample, "partial", int(partials[number]))


def batch_rows(groups: Array, runs: int, batch_bytes: int) -> int:
    """Return how many rows of a bucket to hold at a time.

    Args:
        groups: GROUP[*] of the bucket.
        runs: runs that they are read from.
        batch_bytes: most bytes of rows and of what is made of them.
    """
    rows, size = int(groups["rows"].sum()), int(groups["bytes"].sum())
    # A row is there as it was read and as it is put together.
    row_bytes = 2 * size // max(1, rows) + ROW_BYTES
    return min(max(BATCH_ROWS, RUN_ROWS * runs), max(1, batch_bytes // row_bytes))


def _append_column(writer: BlockWriter, column: BinaryIO, rows: int, width: int) -> None:
    """Append barcode qualities, u8[rows, width]: their place is known when all rows are."""
    start = writer.append(np.empty(0, np.uint8))
    column.seek(0)
    while data := column.read(COPY_BYTES):
        writer.append_bytes(data)
    writer.list_array("quality", start, (rows, width), np.dtype(np.uint8))
