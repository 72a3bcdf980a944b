"""Output cells of a bucket: runs of whole keys of about 8,000 reads, with their rows.

Where a cell ends depends on the data alone. A key with more rows than fit is voted on as its rows
are read, with sums alone in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.drafts import draft_strides
from umimill.errors import UmimillError
from umimill.fates import Settled, SettledTable
from umimill.kernels import consensus as kernels
from umimill.kernels import molecules as molecule_kernels
from umimill.kernels.settle import DROPPED_STATUS
from umimill.lineage_rows import LineageWriter, lineage_rows
from umimill.loading import RowLoader, make_batch, moved_rows, row_origins
from umimill.metrics import Meter
from umimill.placing import find_families
from umimill.plan import Plan

MOLECULE = np.dtype(
    [
        ("key", "<u8"),
        ("reads", "<u8"),
        ("error_sum", "<u8"),
        ("base_votes", "<u8"),
        ("disagreements", "<u8"),
        ("quality_sum_1", "<u8"),
        ("quality_sum_2", "<u8"),
        ("first", "<u8"),
        ("offset", "<u8"),
        ("length_1", "<u4"),
        ("length_2", "<u4"),
        ("depth_min", "<u4"),
        ("depth_max", "<u4"),
        ("called", "<u4"),
        ("families", "<u4"),
        ("sample", "<u2"),
        ("number", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
        ("several", "u1"),
        ("status", "u1"),
        ("kept", "u1"),
        ("padding", "u1", (7,)),
    ]
)
# 8,000 rows of 100 bases are about what the second-level cache holds: half the time a row of
# larger batches. Longer reads make smaller cells.
CELL_READS = 8192
CELL_BASES = 1 << 20
LEAST_CELL_READS = 16

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Single:
    """Molecules of one key that were voted on as their rows were read.

    Attributes:
        molecules: MOLECULE[m].
        votes: the sums of each.
    """

    molecules: Array
    votes: tuple[kernels.Votes, ...]


@dataclass(frozen=True)
class Cell:
    """Families of an output cell and their rows, or the sums of a key that does not fit.

    Attributes:
        settled: families of the cell with their fates.
        batch: rows of the cell.
        given: i64[rows], family of a row that was moved here, else -1.
        votes: buffers.
        moved: MOVED[rows], where moved rows came from, if the lineage of rows is wanted.
        single: set where the rows were too many, and then `batch` is empty.
    """

    settled: Settled
    batch: kernels.Batch
    given: Array
    votes: kernels.Votes
    moved: Array | None = None
    single: Single | None = None


class CellReader:
    """Cuts a bucket into cells and loads their rows.

    Args:
        plan: plan of the library.
        bucket: number of the bucket.
        table: families of the bucket and their fates.
        loader: rows of the bucket, those of its outboxes included.
        model: tables of the vote, for keys that do not fit.
        wanted: which molecules get a record.
        batch_bytes: most bytes of rows in memory for one cell.
        hash_sums: u64[2, S], hashes of rows that were voted on as they were read, moved ones in
            the second row.
        lineage: takes the lineage of such rows, where it is wanted.
    """

    def __init__(
        self,
        plan: Plan,
        bucket: int,
        table: SettledTable,
        loader: RowLoader,
        model: kernels.Model,
        wanted: Filter,
        batch_bytes: int,
        hash_sums: npt.NDArray[np.uint64],
        lineage: LineageWriter | None = None,
    ) -> None:
        self._plan = plan
        self._lineage = lineage
        self._table = table
        self._loader = loader
        self._model = model
        self._wanted = wanted
        self._batch_bytes = batch_bytes
        self._hash_sums = hash_sums
        self._barcode_width = max((part.barcode_width for part in loader.parts), default=1)
        groups = plan.bucket_groups(bucket)
        rows, size = int(groups["rows"].sum()), int(groups["bytes"].sum())
        self._row_bytes = size / rows if rows else 1.0
        self._group_stops = groups["leaf_stop"]
        self._limits = cell_limits(plan.rows, plan.bases)
        self._strides = draft_strides(plan.rows, plan.bases, plan.tile)

    def cells(self, meter: Meter) -> Iterator[Cell]:
        """Yield the cells of the bucket in order."""
        held: Settled | None = None
        for piece in self._table.pieces():
            settled = piece if held is None else held.with_more(piece)
            *whole, last = self._cut(settled)
            for start, stop in whole:
                yield from self._load(settled.part(start, stop), meter)
            # The last cell may go on in the next piece of the table.
            held = settled.part(*last)
        if held is not None:
            yield from self._load(held, meter)

    def _cut(self, settled: Settled) -> list[tuple[int, int]]:
        families = settled.families
        leaf = self._plan.leaves_of(families["sample"], families["key"])
        group = np.searchsorted(self._group_stops, leaf, side="right")
        starts = np.diff(group, prepend=group[:1]).astype(bool).astype(np.uint8)
        ends = np.zeros(families.size + 2, np.int64)
        count = molecule_kernels.cut_cells(families, starts, settled.fates, self._limits, ends[1:])
        return list(zip(ends[:count].tolist(), ends[1 : count + 1].tolist(), strict=True))

    def _load(self, settled: Settled, meter: Meter) -> Iterator[Cell]:
        roots = settled.fates["moved"] == 0
        reads = int(settled.fates["reads"][roots].sum())
        meter.reads += reads
        last = settled.families[-1:].copy()
        if not reads:
            # Every family of it was moved away: its rows are passed over.
            for _ in self._loader.pieces_through(last):
                pass
            return
        with meter.clock("decode"):
            if reads * self._row_bytes > self._batch_bytes and settled.is_one_key():
                yield self._load_single(settled, last)
                return
            pieces = self._loader.through(last)
            batch = make_batch(pieces, self._barcode_width)
            given = moved_rows(pieces)
            moved = row_origins(pieces) if self._lineage else None
        longest = int(max(batch.hot["length_1"].max(), batch.hot["length_2"].max()))
        yield Cell(settled, batch, given, make_votes(longest), moved)

    def _load_single(self, settled: Settled, last: Array) -> Cell:
        molecules = find_molecules(settled, self._wanted)
        most = int(molecules["reads"].max())
        if most > kernels.MOST_READS:
            raise UmimillError(
                f"one barcode has {most:,} reads; at most {kernels.MOST_READS:,} can vote: is the "
                "UMI where the layout says?"
            )
        votes = [make_votes(256) for _ in molecules]
        counts = np.zeros(molecules.size, np.int64)
        for piece in self._loader.pieces_through(last):
            batch = make_batch([piece], self._barcode_width)
            given = moved_rows([piece])
            order = np.arange(batch.hot.size)
            numbers, family_of = number_rows(settled, batch, order, given, self._strides)
            if self._lineage:
                rows = np.flatnonzero(numbers >= 0)
                families = settled.families["family"][family_of[rows]]
                origins = row_origins([piece])[rows]
                owners = molecules[numbers[rows]]
                self._lineage.add(
                    lineage_rows(batch.hot[rows], families, given[rows], origins, owners)
                )
            sums = self._hash_sums[int(piece.moved is not None)]
            for number, molecule in enumerate(molecules):
                rows = np.flatnonzero(numbers == number)
                if not rows.size:
                    continue
                lengths = batch.hot["length_1"][rows].max(), batch.hot["length_2"][rows].max()
                molecule["length_1"] = max(molecule["length_1"], lengths[0])
                molecule["length_2"] = max(molecule["length_2"], lengths[1])
                votes[number] = widen_votes(votes[number], int(max(lengths)))
                begin = int(counts[number] == 0)
                kernels.add_rows(batch, rows, begin, self._model, votes[number], sums)
                counts[number] += rows.size
        for molecule, count in zip(molecules, counts.tolist(), strict=True):
            check_rows(count, int(molecule["reads"]))
        batch = make_batch([], self._barcode_width)
        single = Single(molecules, tuple(votes))
        return Cell(settled, batch, np.empty(0, np.int64), votes[0], single=single)


@dataclass(frozen=True)
class Filter:
    """Which molecules get a record.

    Attributes:
        minimum_reads: those of fewer reads do not.
        suspects: whether families that are taken for no molecule do.
    """

    minimum_reads: int
    suspects: bool = False


def find_molecules(settled: Settled, wanted: Filter) -> Array:
    """Return what became of families, in the order of records, MOLECULE[*]."""
    molecules = np.zeros(settled.families.size, MOLECULE)
    count = molecule_kernels.list_molecules(settled.families, settled.fates, molecules)
    molecules = molecules[:count].copy()
    molecules["kept"] = molecules["reads"] >= wanted.minimum_reads
    unwanted = molecules["status"] != 0
    if wanted.suspects:
        unwanted = molecules["status"] == DROPPED_STATUS
    molecules["kept"][unwanted] = 0
    return molecules


def number_rows(
    settled: Settled, batch: kernels.Batch, order: Array, given: Array, strides: Array
) -> tuple[Array, Array]:
    """Return which molecule of its key each row belongs to, and which family.

    i64[n] both: -1 for the molecule of a row that was moved away; the family's number in `settled`.

    Args:
        settled: families that hold the keys of the rows.
        batch: rows.
        order: i64[n], rows by key.
        given: i64[n], family of a row that was moved here, else -1.
        strides: i64[S], see draft_strides.
    """
    family_of = find_families(batch, order, given, settled.families, strides)
    numbers = np.empty(batch.hot.size, np.int64)
    molecule_kernels.number_rows(family_of, settled.fates, given, numbers)
    return numbers, family_of


def make_votes(width: int) -> kernels.Votes:
    """Make the buffers of a vote for reads of up to `width` bases."""
    return kernels.Votes(
        np.zeros((2, 4, width), np.int64),
        np.zeros(64, np.int64),
        np.zeros(width + 64, np.int64),
        np.zeros(width + 64, np.uint8),
        np.zeros(width + 64, np.uint8),
    )


def cell_limits(rows: npt.NDArray[np.int64], bases: npt.NDArray[np.int64]) -> Array:
    """Return the reads at which a cell of each sample ends, i64[S], from its mean read length."""
    mean = np.maximum(1, bases // np.maximum(1, rows))
    limits: Array = np.clip(CELL_BASES // mean, LEAST_CELL_READS, CELL_READS)
    return limits


def widen_votes(votes: kernels.Votes, width: int) -> kernels.Votes:
    """Return buffers for reads of `width` bases that hold the same sums."""
    held = votes.planes.shape[2]
    if width <= held:
        return votes
    wider = make_votes(max(width, 2 * held))
    wider.planes[:, :, :held] = votes.planes
    wider.barcode[:] = votes.barcode
    return wider


def check_rows(found: int, counted: int) -> None:
    """Make sure that a cell has the rows that tally counted.

    Raises:
        UmimillError: where it has not.
    """
    if found != counted:
        raise UmimillError(
            f"a cell has {found:,} rows but {counted:,} were counted; delete results/tally and "
            "run again"
        )
