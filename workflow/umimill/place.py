"""place: rows whose cell barcode is not on the list, given to a listed cell where that is sure.

A sample at a time, in the order of keys. What was placed is one more partition file, which later
stages read like that of a part; what was not has ended here, as a line of the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.cell_list import list_bytes, read_cell_list
from umimill.errors import UmimillError
from umimill.kernels import place as kernels
from umimill.kernels.cell_list import CellList, add_counts
from umimill.kernels.consensus import Batch
from umimill.kernels.near_cells import Near, most_near
from umimill.kernels.place import PlaceModel
from umimill.kernels.survey import ERROR_BITS, FAR, NEAR, OWN_FACTOR, OWN_KEYS, Survey, survey_rows
from umimill.likelihood import (
    ln_unit,
    log_tables,
    phred_errors,
    posterior_threshold,
    softplus_table,
)
from umimill.loading import RowLoader, make_batch
from umimill.metrics import Meter
from umimill.move import staged_arrays
from umimill.partition import HOT, PartitionFile, sorted_order
from umimill.partition_writer import PartitionWriter, Staging

# A read is placed where the listed cell is so much likelier than all else.
LEAST_POSTERIOR = 0.975
# An error above is no error: a random base differs three times in four.
MOST_ERROR = 0.75
STAGING_SHARE = 0.3
MOST_STAGING_BYTES = 32_000_000
BATCH_SHARE = 0.3
BATCH_ROWS = 1 << 14
# What a row takes beside its own bytes: order, target, sorting.
ROW_BYTES = 150

# In the order of kernels.place.
COUNTERS = ("placed_one_base", "placed_unknown_base", "placed_two_bases")

CROWDED = np.dtype([("cell", "<u8"), ("keys", "<i8"), ("around", "<i8"), ("reads", "<i8")])
OWN = np.dtype([("cell", "<u8"), ("weight", "<i8")])

Array = npt.NDArray[Any]


def looks_two_away(cells: int, length: int) -> bool:
    """Return whether the list is so sparse that cells two bases away may be looked at.

    That is where not one barcode in four is two bases from one on the list by chance.
    """
    return cells * 18 * length * (length - 1) <= 1 << (2 * length)


def make_place_model(
    listed: CellList, reads: npt.NDArray[np.uint32], sums: Array, composition: Array
) -> PlaceModel:
    """Make the tables that the rows of a sample are judged by.

    Args:
        listed: the list.
        reads: u32[n], reads of each listed cell.
        sums: i64[3], see kernels.survey.Survey.
        composition: i64[32, 4], bases of the rows far from all cells.
    """
    length = int(listed.length[0])
    errors = np.minimum(phred_errors(), MOST_ERROR)
    seen = int((reads > 0).sum())
    once = int((reads == 1).sum())
    # What Good and Turing say of a cell that was not seen. Where none was read once it is as much
    # as nothing.
    unseen = max(once, 1e-6) / max(1, reads.size - seen)
    # Of barcodes that are no misreadings, some lie near a cell by chance.
    covered = min(0.5, seen * 3 * length / 4**length)
    other = max(1, int(sums[FAR])) / (1.0 - covered)
    shares = (composition + 1) / (composition.sum(axis=1, keepdims=True) + 4)
    return PlaceModel(
        log=log_tables()[0],
        softplus=softplus_table(),
        misread=ln_unit(errors / 3 / (1.0 - errors)),
        right=ln_unit(1.0 - errors),
        unseen=ln_unit(np.array([unseen])),
        other=ln_unit(np.array([other])),
        composition=ln_unit(shares),
        threshold=np.array([posterior_threshold(LEAST_POSTERIOR)]),
        two=np.array([int(looks_two_away(listed.cells.size, length))]),
    )


def own_cells(crowded: Array, sums: Array, length: int, listed_reads: int) -> Array:
    """Return the barcodes that are cells of their own, though on no list, OWN[*].

    Args:
        crowded: CROWDED[n], ascending.
        sums: i64[3], see kernels.survey.Survey.
        length: bases of a cell.
        listed_reads: reads on the list.
    """
    # Errors of one kind at one base, of a read.
    errors = (int(sums[NEAR]) << ERROR_BITS) // max(1, 3 * length * listed_reads)
    expected = crowded["around"].astype(object) * errors * OWN_FACTOR
    found = (crowded["keys"].astype(object) - OWN_KEYS << ERROR_BITS) > expected
    chosen = crowded[found.astype(bool)]
    own = np.zeros(chosen.size, OWN)
    own["cell"], own["weight"] = chosen["cell"], ln_unit(chosen["reads"])
    return own


class PlacedWriter:
    """Takes placed rows, and writes them sorted by their new keys.

    What was read as their cell is kept as in an outbox (partition.MOVED).

    Args:
        writer: the file.
        staging: rows in memory.
        listed: the list.

    Attributes:
        hash_sums: u64[S], hashes of the rows as they were read, placed or not.
        templates: i64[S, 2], rows placed, and rows that were not.
    """

    def __init__(self, writer: PartitionWriter, staging: Staging, listed: CellList) -> None:
        self._writer = writer
        self._staging = staging
        self._listed = listed
        self.hash_sums = np.zeros(writer.samples, np.uint64)
        self.templates = np.zeros((writer.samples, 2), np.int64)

    def add(self, batch: Batch, order: Array, target: Array) -> None:
        """Copy the rows of a batch that have a target, and count all.

        Args:
            batch: rows.
            order: i64[n], rows by key.
            target: i64[n], number of each row's cell in the list, or -1.
        """
        longest = int(max(batch.hot["length_1"].max(), batch.hot["length_2"].max()))
        scratch = np.zeros(longest + 128, np.uint8)
        done = 0
        while True:
            done = kernels.stage_placed(
                batch,
                order,
                done,
                target,
                self._listed,
                staged_arrays(self._staging),
                scratch,
                self.hash_sums,
                self.templates,
            )
            if done == order.size:
                return
            row = batch.hot[order[done]]
            self._writer.flush(self._staging)
            self._staging.reserve_row(int(row["length_1"]) + int(row["length_2"]))

    def finish(self, samples: Sequence[str]) -> None:
        """Write what is left and give the file its name."""
        self._writer.flush(self._staging)
        self._writer.finish({"samples": list(samples), "placed": True})


class Placer:
    """Places the rows of one sample after the other.

    Args:
        files: unplaced rows of all parts.
        listed: the list.
        output: takes the placed rows.
        rows: rows at a time.
        meter: metrics of the job.

    Attributes:
        counters: i64[3], see kernels.place.
        own: barcodes that are cells of their own.
    """

    def __init__(
        self,
        files: Sequence[PartitionFile],
        listed: CellList,
        output: PlacedWriter,
        rows: int,
        meter: Meter,
    ) -> None:
        most = most_near(int(listed.length[0]))
        self._files = files
        self._listed = listed
        self._output = output
        self._rows = rows
        self._meter = meter
        self._near = Near(*(np.zeros(most, np.int64) for _ in range(4)))
        self._width = max(file.barcode_width for file in files)
        self.own = 0
        self.counters = np.zeros(3, np.int64)

    def place(self, sample: int) -> None:
        """Place the rows of a sample."""
        bases = self._files[0].leaves.bases
        loader = RowLoader(self._files, int(bases[sample]), int(bases[sample + 1]))
        if not loader.run_count:
            return
        marks = loader.marks()
        with self._meter.clock("sort"):
            reads = self._listed_reads(sample)
            survey, crowded = self._survey(loader, reads)
        model = make_place_model(self._listed, reads, survey.sums, survey.composition)
        length = int(self._listed.length[0])
        own = own_cells(crowded, survey.sums, length, int(reads.sum(dtype=np.int64)))
        self.own += own.size
        loader.rewind(marks)
        with self._meter.clock("match"):
            for batch, order in self._batches(loader):
                self._meter.reads += order.size
                target = np.empty(order.size, np.int64)
                kernels.place_rows(
                    batch.hot,
                    order,
                    batch.barcode_quality,
                    self._listed,
                    reads,
                    model,
                    own,
                    self._near,
                    target,
                    self.counters,
                )
                self._output.add(batch, order, target)
        self._meter.read_bytes += loader.read_bytes

    def _listed_reads(self, sample: int) -> npt.NDArray[np.uint32]:
        reads = np.zeros(self._listed.cells.size, np.uint32)
        for file in self._files:
            for number in range(int(file.header["count_flushes"])):
                counts = file.read(f"cells_{number}")
                start, stop = np.searchsorted(counts["sample"], [sample, sample + 1])
                add_counts(counts[start:stop].copy(), reads)
        return reads

    def _survey(self, loader: RowLoader, reads: Array) -> tuple[Survey, Array]:
        survey = Survey(
            np.zeros(2, np.uint64),
            np.zeros(2, np.int64),
            np.zeros(3, np.int64),
            np.zeros((32, 4), np.int64),
        )
        found = []
        end = (np.empty(0, HOT), np.empty(0, np.int64))
        rows = ((batch.hot, order) for batch, order in self._batches(loader))
        for hot, order in chain(rows, [end]):
            crowded = np.zeros(order.size // OWN_KEYS + 2, CROWDED)
            count = survey_rows(hot, order, self._listed, reads, self._near, survey, crowded)
            found.append(crowded[:count])
        return survey, np.concatenate(found)

    def _batches(self, loader: RowLoader) -> Iterator[tuple[Batch, Array]]:
        """Yield rows with their order by key; a key that does not fit comes in several pieces."""
        while True:
            pieces, key = loader.next_keys(self._rows)
            if key is not None:
                for piece in loader.pieces_through(key):
                    yield make_batch([piece], self._width), np.arange(piece.hot.size)
            elif pieces:
                batch = make_batch(pieces, self._width)
                yield batch, sorted_order(batch.hot, batch.hot.size)
            else:
                return


def place(
    unplaced: Sequence[Path],
    cells: Path,
    output: Path,
    meter: Meter,
    *,
    staging_bytes: int | None = None,
    batch_bytes: int | None = None,
) -> None:
    """Place the rows of a library whose cell is not on the list.

    Args:
        unplaced: what checkout set aside, by unit and part.
        cells: the list of cells.
        output: partition file to write.
        meter: metrics of the job.
        staging_bytes: memory for rows before they are written; None takes it from the budget.
        batch_bytes: memory for rows that are read; None takes it from the budget.

    Raises:
        UmimillError: where the rows are not those that checkout wrote.
    """
    listed = read_cell_list(cells)
    budget = max(0, meter.budget_bytes - list_bytes(listed) - 4 * listed.cells.size)
    meter.umi_memory_bytes = list_bytes(listed) + 4 * listed.cells.size
    if staging_bytes is None:
        staging_bytes = min(int(budget * STAGING_SHARE), MOST_STAGING_BYTES)
    if batch_bytes is None:
        batch_bytes = int(budget * BATCH_SHARE)
    with ExitStack() as stack:
        files = [stack.enter_context(PartitionFile(path)) for path in unplaced]
        samples = files[0].header["samples"]
        width = max(file.barcode_width for file in files)
        rows, bases, hashes = (
            np.add.reduce(column)
            for column in zip(*(file.sample_totals() for file in files), strict=True)
        )
        mean = int(bases.sum()) // max(1, int(rows.sum()))
        row_bytes = mean + mean // 4 + 24
        writer = stack.enter_context(PartitionWriter(output, files[0].leaves, width))
        staging = Staging(staging_bytes, width, row_bytes, outbox=True)
        placed = PlacedWriter(writer, staging, listed)
        some = min(
            BATCH_ROWS, max(1, batch_bytes // (HOT.itemsize + width + row_bytes + ROW_BYTES))
        )
        placer = Placer(files, listed, placed, some, meter)
        for sample in range(len(samples)):
            placer.place(sample)
        with meter.clock("write"):
            placed.finish(samples)
        meter.written_bytes = writer.written_bytes
    if (placed.hash_sums != hashes).any():
        raise UmimillError(
            "the rows placed are not the rows that checkout wrote (their hashes differ); delete "
            "results/partition and run again"
        )
    for sample, (found, left) in zip(samples, placed.templates.tolist(), strict=True):
        meter.count(sample, "placed", found)
        meter.count(sample, "off_list", left)
    meter.counters.update(dict(zip(COUNTERS, placer.counters.tolist(), strict=True)))
    meter.counters["cells_of_their_own"] = placer.own
