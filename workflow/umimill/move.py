"""move: the rows of corrected families, copied into an outbox under the key of their root.

An outbox is a partition file: assemble reads it like one. The rows stay in the partition files too,
where assemble passes over them: nothing is rewritten but the few reads whose barcode was wrong.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import ArrayReader, BlockFile, BlockWriter
from umimill.drafts import draft_strides
from umimill.errors import UmimillError
from umimill.fates import FATE, READ_FAMILIES, FateJoiner, Settled, rows_of_bucket, whole_keys
from umimill.kernels import move as kernels
from umimill.kernels.consensus import Batch
from umimill.link import EDGE
from umimill.loading import Piece, RowLoader, make_batch
from umimill.merge_counts import MergeCounts
from umimill.metrics import Meter
from umimill.outcomes import OutcomeCounts
from umimill.partial import PARTIAL_FATE, next_places, partial_batches, partial_fates
from umimill.partition import PartitionFile
from umimill.partition_writer import PartitionWriter, Staging
from umimill.placing import find_families
from umimill.plan import read_plan
from umimill.queries import apply_next
from umimill.tally import BATCH_ROWS

# Rows of the outbox in memory before they are sorted and written.
STAGING_SHARE = 0.3
MOST_STAGING_BYTES = 32_000_000

Array = npt.NDArray[Any]


def staged_arrays(staging: Staging) -> kernels.Staged:
    """Return the arrays of a staging that has room for moved rows."""
    return kernels.Staged(
        staging.hot,
        staging.moved,
        staging.barcode_quality,
        staging.starts,
        staging.cold,
        staging.fill,
        staging.seen,
    )


class Outbox:
    """Takes rows of corrected families, and writes them sorted by their new keys.

    Args:
        writer: the file.
        staging: rows in memory.
        samples: number of samples.

    Attributes:
        hash_sums: u64[S], hashes of the rows as they were read.
        partial_hash_sums: u64[S], the same of rows whose barcode was not fully read, all of them.
        rows: rows of corrected families.
        placed: rows that were placed.
    """

    def __init__(self, writer: PartitionWriter, staging: Staging, samples: int) -> None:
        self._writer = writer
        self._staging = staging
        self.hash_sums = np.zeros(samples, np.uint64)
        self.partial_hash_sums = np.zeros(samples, np.uint64)
        self.rows = self.placed = 0

    def add(self, piece: Piece, settled: Settled, strides: Array) -> None:
        """Copy the rows of a piece whose families were corrected."""
        batch = make_batch([piece], piece.barcode_quality.shape[1])
        order = np.arange(batch.hot.size)
        given = np.full(batch.hot.size, -1, np.int64)
        family_of = find_families(batch, order, given, settled.families, strides)
        scratch = _new_scratch(batch)
        row = 0
        while True:
            before = int(self._staging.fill[0])
            row = kernels.stage_moved(
                batch,
                row,
                settled.families,
                settled.fates,
                family_of,
                staged_arrays(self._staging),
                scratch,
                self.hash_sums,
            )
            self.rows += int(self._staging.fill[0]) - before
            if row == batch.hot.size:
                return
            self._make_room(batch.hot[row])

    def place(self, batch: Batch, order: Array, first_row: int, places: Array) -> None:
        """Copy the rows that were placed.

        Args:
            batch: rows whose barcode was not fully read.
            order: i64[n], their order by key.
            first_row: number of the first of them in the bucket.
            places: PLACE[*] of these rows, by row.
        """
        scratch = _new_scratch(batch)
        index = 0
        while True:
            index = kernels.stage_placed(
                batch,
                order,
                index,
                first_row,
                places,
                staged_arrays(self._staging),
                scratch,
                self.partial_hash_sums,
            )
            if index == order.size:
                break
            self._make_room(batch.hot[order[index]])
        self.placed += places.size

    def finish(self, bucket: int) -> None:
        """Write what is left and give the file its name."""
        self._writer.flush(self._staging)
        self._writer.finish(
            {
                "outbox": True,
                "bucket": bucket,
                "read_hash_sums": self.hash_sums.tolist(),
                "partial_hash_sums": self.partial_hash_sums.tolist(),
            }
        )

    def _make_room(self, row: Any) -> None:
        self._writer.flush(self._staging)
        self._staging.reserve_row(int(row["length_1"]) + int(row["length_2"]))


def _new_scratch(batch: Batch) -> Array:
    longest = int(max(batch.hot["length_1"].max(), batch.hot["length_2"].max()))
    return np.zeros(longest + 128, np.uint8)


@dataclass(frozen=True)
class Outputs:
    """What move writes.

    Attributes:
        outbox: rows of corrected families, a partition file.
        fates: what became of each family, and its best parent, a row each beside tally's table.
    """

    outbox: Path
    fates: Path


@dataclass(frozen=True)
class Sources:
    """What move reads.

    Attributes:
        families: tally's table of the bucket.
        edges: link's edges of its families.
        settled: settle's file of the library.
        model: model of the library.
    """

    families: Path
    edges: Path
    settled: Path
    model: Path


def _write_edges(edges_file: BlockFile, answers: ArrayReader, writer: BlockWriter) -> None:
    """Write the edges of a bucket with the better of them and the answers, piece by piece."""
    total = edges_file.length("edges")
    offset = writer.append(np.empty(0, EDGE))
    for start in range(0, total, READ_FAMILIES):
        edges = edges_file.read("edges", start, start + READ_FAMILIES)
        apply_next(edges, answers, start)
        writer.append(edges)
    writer.list_array("edges", offset, (total,), EDGE)


def _write_partials(
    table: BlockFile, places: ArrayReader, writer: BlockWriter, samples: int
) -> None:
    """Write what became of the rows of a bucket whose barcode was not fully read."""
    counts = np.zeros(samples, np.int64)
    start = writer.append(np.empty(0, PARTIAL_FATE))
    for fates in partial_fates(table, places):
        writer.append(fates)
        counts += np.bincount(fates["sample"], minlength=samples)
    writer.list_array("partials", start, (int(counts.sum()),), PARTIAL_FATE)
    writer.add("sample_partials", counts)


def move(
    plan_path: Path,
    sources: Sources,
    bucket: int,
    outputs: Outputs,
    meter: Meter,
    *,
    judge: bool = True,
    staging_bytes: int | None = None,
) -> None:
    """Copy the rows of a bucket's corrected families into its outbox, and write all fates.

    Args:
        plan_path: plan of the library.
        sources: files to read.
        bucket: number of the bucket, from 0.
        outputs: files to write.
        meter: metrics of the job.
        judge: whether a family may be no molecule but a chimera or an unresolved read.
        staging_bytes: memory for rows before they are written; None takes it from the budget.

    Raises:
        UmimillError: where rows and families do not agree.
    """
    plan = read_plan(plan_path)
    if staging_bytes is None:
        staging_bytes = min(int(meter.budget_bytes * STAGING_SHARE), MOST_STAGING_BYTES)
    strides = draft_strides(plan.rows, plan.bases, plan.tile)
    with ExitStack() as stack:
        joiner = stack.enter_context(FateJoiner(sources.settled, sources.model, bucket))
        settled = stack.enter_context(BlockFile(sources.settled))
        parts = [stack.enter_context(PartitionFile(path)) for path in plan.partitions]
        table = stack.enter_context(BlockFile(sources.families))
        edges_file = stack.enter_context(BlockFile(sources.edges))
        width = max((part.barcode_width for part in parts), default=1)
        writer = stack.enter_context(PartitionWriter(outputs.outbox, plan.leaves, width))
        fate_writer = stack.enter_context(BlockWriter(outputs.fates))
        mean = int(plan.bases.sum()) // max(1, int(plan.rows.sum()))
        staging = Staging(staging_bytes, width, mean + mean // 4 + 24, outbox=True)
        outbox = Outbox(writer, staging, len(plan.samples))
        loader = RowLoader(parts, *plan.bucket_leaves(bucket))
        sample_families = np.zeros(len(plan.samples), np.int64)
        outcomes = OutcomeCounts(len(plan.samples))
        merges = MergeCounts(len(plan.samples))
        _write_edges(edges_file, rows_of_bucket(settled, "answer", bucket), fate_writer)
        answers = rows_of_bucket(settled, "answer", bucket)
        start = fate_writer.append(np.empty(0, FATE))
        passed: Array | None = None
        for first, some in whole_keys(table):
            quality = table.read("quality", first, first + some.size)
            best = edges_file.read("edges", first, first + some.size)
            apply_next(best, answers, first)
            one = Settled(some, joiner.fates(some, quality, best, judge=judge))
            fate_writer.append(one.fates)
            held = sum(array.nbytes for array in (some, quality, best, one.fates))
            meter.umi_memory_bytes = max(meter.umi_memory_bytes, held)
            outcomes.add(some, one.fates)
            merges.add(some, one.fates, best)
            sample_families += np.bincount(some["sample"], minlength=len(plan.samples))
            # Without corrections there is nothing to look for.
            if not one.fates["moved"].any():
                passed = some[-1:].copy()
                continue
            with meter.clock("sort"):
                if passed is not None:
                    for _ in loader.pieces_through(passed):
                        pass
                    passed = None
                for piece in loader.pieces_through(some[-1:].copy()):
                    meter.reads += piece.hot.size
                    outbox.add(piece, one, strides)
        fate_writer.list_array("fates", start, (table.length("families"),), FATE)
        fate_writer.add("sample_families", sample_families)
        with meter.clock("sort"):
            partial_parts = [stack.enter_context(PartitionFile(one)) for one in plan.partials]
            places = rows_of_bucket(settled, "place", bucket)
            row = 0
            for batch, order in partial_batches(
                RowLoader(partial_parts, *plan.bucket_leaves(bucket)), BATCH_ROWS
            ):
                outbox.place(batch, order, row, next_places(places, row, order.size))
                row += order.size
        places = rows_of_bucket(settled, "place", bucket)
        _write_partials(table, places, fate_writer, len(plan.samples))
        fate_writer.add("outcomes", outcomes.rows())
        for name, rows in merges.arrays().items():
            fate_writer.add(name, rows)
        with meter.clock("write"):
            outbox.finish(bucket)
            fate_writer.finish({"bucket": bucket})
        left = joiner.left()
        meter.read_bytes = loader.read_bytes
        meter.written_bytes = writer.written_bytes + fate_writer.offset
    meter.counters["moved_rows"] = outbox.rows
    meter.counters["placed_rows"] = outbox.placed
    if outbox.rows != joiner.corrected_reads or left:
        raise UmimillError(
            f"{outbox.rows:,} rows were moved but {joiner.corrected_reads:,} reads corrected, and "
            f"{left:,} corrections are of no family; delete results/tally and run again"
        )
