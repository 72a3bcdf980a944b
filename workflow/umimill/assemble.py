"""assemble: the rows of a bucket to one consensus a molecule, compressed where they are made.

Work goes by output cells, runs of whole keys of about 8,000 reads, which depend on the data alone.
The main thread reads cells in key order; workers vote, render and compress; results are appended
in key order. A key with more rows than fit is voted on as it is read, with sums alone in memory.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.bgzf import compress_records
from umimill.blockfile import BlockFile
from umimill.consensus import make_model
from umimill.errors import UmimillError
from umimill.fragments import FragmentWriter
from umimill.kernels import consensus as kernels
from umimill.kernels import families as family_kernels
from umimill.kernels import text as text_kernels
from umimill.loading import Piece, RowLoader, make_batch
from umimill.metrics import Meter
from umimill.partition import PartitionFile, sorted_order
from umimill.plan import Plan, read_plan

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
        ("sample", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
    ]
)
# 8,000 rows of 100 bases are about what the second-level cache holds: half the time a row of
# larger batches. Longer reads make smaller cells.
CELL_READS = 8192
CELL_BASES = 1 << 20
LEAST_CELL_READS = 16
READ_FAMILIES = 1 << 16
# Bytes of the letters of a record beside bases and names: tags and numbers.
RECORD_BYTES = 160

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Settings:
    """What assemble is asked to do.

    Attributes:
        minimum_reads: molecules of fewer reads get no record.
        floor: error floor of the quality model.
        mates: 1, or 2 for pairs.
    """

    minimum_reads: int
    floor: float
    mates: int


@dataclass(frozen=True)
class Cell:
    """Rows of an output cell, or the sums of a key that does not fit.

    Attributes:
        batch: rows.
        votes: buffers; with `single` they hold the sums.
        single: MOLECULE[1] of a key whose rows were voted on as they were read, or None.
    """

    batch: kernels.Batch
    votes: kernels.Votes
    single: Array | None


@dataclass(frozen=True)
class Result:
    """What a cell gave.

    Attributes:
        molecules: MOLECULE[*].
        records: records written for each mate.
        blocks: BGZF bytes of each mate.
        sample: sample of the cell.
        hash_sums: u64[S].
        seconds: busy seconds by clock.
    """

    molecules: Array
    records: int
    blocks: tuple[bytes, ...]
    sample: int
    hash_sums: npt.NDArray[np.uint64]
    seconds: dict[str, float]


class Worker:
    """Makes results of cells; safe to use from several threads at once.

    Args:
        samples: sample names.
        settings: see Settings.
    """

    def __init__(self, samples: Sequence[str], settings: Settings) -> None:
        self.model = make_model(settings.floor)
        self._minimum = settings.minimum_reads
        self._mates = settings.mates
        self._samples = len(samples)
        encoded = [sample.encode() for sample in samples]
        self._names = text_kernels.Names(
            np.frombuffer(b"".join(encoded), np.uint8).copy(),
            np.cumsum([0, *(len(name) for name in encoded)]).astype(np.int64),
        )
        self._longest_name = max(len(name) for name in encoded)

    def warm(self) -> None:
        """Compile or load the kernels on no rows, so that no worker's clock counts it."""
        cell = Cell(make_batch([], 1), make_votes(1), None)
        molecules, *called = self._call(cell, np.zeros(self._samples, np.uint64), {}, 0.0)
        self._render(molecules, 0, *called)

    def run(self, cell: Cell) -> Result:
        """Vote on the molecules of a cell, render and compress them."""
        seconds: dict[str, float] = {}
        hash_sums = np.zeros(self._samples, np.uint64)
        start = time.perf_counter()
        if cell.single is None:
            molecules, letters, qualities, umi = self._call(cell, hash_sums, seconds, start)
        else:
            molecules = cell.single
            letters, qualities, umi = _call_buffers(molecules, self._minimum)
            if int(molecules["reads"][0]) >= self._minimum:
                kernels.call_single(molecules, self.model, cell.votes, letters, qualities, umi)
        called = time.perf_counter()
        seconds["model"] = called - start - seconds.get("sort", 0.0)
        blocks, records = [], 0
        for mate in range(self._mates):
            text, ends, records = self._render(molecules, mate, letters, qualities, umi)
            blocks.append(b"".join(compress_records(text, ends)))
        seconds["compress"] = time.perf_counter() - called
        molecules["first"] = molecules["offset"] = 0
        return Result(
            molecules, records, tuple(blocks), int(molecules[0]["sample"]), hash_sums, seconds
        )

    def _call(
        self, cell: Cell, hash_sums: Array, seconds: dict[str, float], start: float
    ) -> tuple[Array, Array, Array, Array]:
        batch = cell.batch
        count = batch.hot.size
        order = sorted_order(batch.hot, count)
        seconds["sort"] = time.perf_counter() - start
        molecules = np.zeros(count, MOLECULE)
        found, _ = kernels.find_molecules(batch.hot, order, molecules, self._minimum)
        molecules = molecules[:found].copy()
        letters, qualities, umi = _call_buffers(molecules, self._minimum)
        kernels.call_molecules(
            batch,
            order,
            molecules,
            self._minimum,
            self.model,
            cell.votes,
            letters,
            qualities,
            umi,
            hash_sums,
        )
        return molecules, letters, qualities, umi

    def _render(
        self, molecules: Array, mate: int, letters: Array, qualities: Array, umi: Array
    ) -> tuple[Array, Array, int]:
        lengths = molecules["length_2" if mate else "length_1"].astype(np.int64)
        width = RECORD_BYTES + 3 * self._longest_name + 8 * 32
        text = np.empty(int(2 * lengths.sum()) + width * molecules.size, np.uint8)
        ends = np.empty(molecules.size, np.int64)
        _, records = text_kernels.render(
            molecules, self._minimum, mate, self._names, letters, qualities, umi, text, ends
        )
        return text, ends, records


def _call_buffers(molecules: Array, minimum: int) -> tuple[Array, Array, Array]:
    emitted = molecules["reads"] >= minimum
    lengths = molecules["length_1"].astype(np.int64) + molecules["length_2"]
    size = int(lengths[emitted].sum())
    return (
        np.empty(size, np.uint8),
        np.empty(size, np.uint8),
        np.zeros((molecules.size, 32), np.uint8),
    )


def make_votes(width: int) -> kernels.Votes:
    """Make the buffers of a vote for reads of up to `width` bases."""
    return kernels.Votes(
        np.zeros((2, 4, width), np.int64),
        np.zeros(64, np.int64),
        np.zeros(width + 64, np.int64),
        np.zeros(width + 64, np.uint8),
        np.zeros(width + 64, np.uint8),
    )


def assemble(
    plan_path: Path,
    families: Path,
    bucket: int,
    settings: Settings,
    outputs: Sequence[Path],
    molecules_path: Path,
    meter: Meter,
    *,
    batch_bytes: int | None = None,
) -> None:
    """Make the consensus of every molecule of a bucket.

    Args:
        plan_path: plan of the library.
        families: tally's table of the bucket.
        bucket: number of the bucket, from 0.
        settings: see Settings.
        outputs: FASTQ fragments of mate 1 and 2 to write; the second stays empty without pairs.
        molecules_path: molecule fragment to write.
        meter: metrics of the job.
        batch_bytes: most bytes of rows in memory for one cell; None takes it from the budget.

    Raises:
        UmimillError: where rows and families do not agree, or a file is damaged.
    """
    plan = read_plan(plan_path)
    groups = plan.bucket_groups(bucket)
    if batch_bytes is None:
        # A worker holds the rows, their sorted order, the letters and the text of its cells.
        batch_bytes = meter.budget_bytes // (4 * (meter.threads + 1))
    with ExitStack() as stack:
        parts = [stack.enter_context(PartitionFile(path)) for path in plan.partitions]
        table = stack.enter_context(BlockFile(families))
        writer = stack.enter_context(
            FragmentWriter(outputs, molecules_path, len(plan.samples), settings.minimum_reads)
        )
        worker = Worker(plan.samples, settings)
        worker.warm()
        leaves = (0, 0)
        if groups.size:
            leaves = (int(groups[0]["leaf_start"]), int(groups[-1]["leaf_stop"]))
        loader = RowLoader(parts, *leaves)
        reader = CellReader(plan, groups, table, loader, worker, batch_bytes, writer.hash_sums)
        for result in _run_ordered(worker, reader.cells(meter), meter.threads):
            for name, seconds in result.seconds.items():
                meter.add_seconds(name, seconds)
            with meter.clock("write"):
                writer.add(result)
        loader.check_finished()
        writer.finish(plan.samples, MOLECULE, meter)
        meter.read_bytes = loader.read_bytes


def _run_ordered(worker: Worker, cells: Iterator[Cell], threads: int) -> Iterator[Result]:
    """Yield results in the order of the cells, with one cell more under way than threads."""
    if threads == 1:
        yield from map(worker.run, cells)
        return
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[Result]] = deque()
        for cell in cells:
            pending.append(pool.submit(worker.run, cell))
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


class CellReader:
    """Cuts a bucket into cells and loads their rows.

    Args:
        plan: plan of the library.
        groups: GROUP[*] of the bucket.
        table: tally's table of families.
        loader: rows of the bucket.
        worker: its model is used for keys that do not fit.
        batch_bytes: most bytes of rows in memory for one cell.
        hash_sums: u64[S], hashes of rows that were voted on as they were read.
    """

    def __init__(
        self,
        plan: Plan,
        groups: Array,
        table: BlockFile,
        loader: RowLoader,
        worker: Worker,
        batch_bytes: int,
        hash_sums: npt.NDArray[np.uint64],
    ) -> None:
        self._table = table
        self._loader = loader
        self._model = worker.model
        self._batch_bytes = batch_bytes
        self._hash_sums = hash_sums
        self._barcode_width = max((part.barcode_width for part in loader.parts), default=0)
        self._leaves = plan.leaves
        rows, size = int(groups["rows"].sum()), int(groups["bytes"].sum())
        self._row_bytes = size / rows if rows else 1.0
        self._group_stops = groups["leaf_stop"]
        self._limits = cell_limits(plan.rows, plan.bases)

    def cells(self, meter: Meter) -> Iterator[Cell]:
        """Yield the cells of the bucket in order."""
        total = self._table.length("families")
        start = 0
        while start < total:
            families = self._table.read("families", start, start + READ_FAMILIES)
            ends = np.empty(families.size + 1, np.int64)
            starts = self._group_starts(families)
            count = family_kernels.cut_cells(families, starts, self._limits, ends)
            whole = start + families.size >= total
            if not whole:
                # The last cell may go on in the next piece of the table.
                count -= 1
            first = 0
            for end in ends[:count].tolist():
                yield self._load(families[first:end], meter)
                first = end
            start += first

    def _group_starts(self, families: Array) -> npt.NDArray[np.uint8]:
        shifts = self._leaves.shifts[families["sample"]]
        # A shift by 64 is undefined; a sample of one leaf has width 0.
        wide = shifts < 64
        leaf = np.where(wide, families["key"] >> np.where(wide, shifts, 0), 0).astype(np.int64)
        leaf += self._leaves.bases[families["sample"]]
        group = np.searchsorted(self._group_stops, leaf, side="right")
        return np.diff(group, prepend=group[:1]).astype(bool).astype(np.uint8)

    def _load(self, families: Array, meter: Meter) -> Cell:
        reads = int(families["reads"].sum())
        meter.reads += reads
        last = families[-1:].copy()
        with meter.clock("decode"):
            if families.size == 1 and reads * self._row_bytes > self._batch_bytes:
                return self._load_single(families, last)
            pieces = self._loader.through(last)
            batch = make_batch(pieces, self._barcode_width)
        check_rows(batch.hot.size, reads)
        longest = int(max(batch.hot["length_1"].max(), batch.hot["length_2"].max()))
        return Cell(batch, make_votes(longest), None)

    def _load_single(self, families: Array, last: Array) -> Cell:
        if int(families["reads"][0]) > kernels.MOST_READS:
            raise UmimillError(
                f"one barcode has {int(families['reads'][0]):,} reads; at most "
                f"{kernels.MOST_READS:,} can vote: is the UMI where the layout says?"
            )
        molecule = np.zeros(1, MOLECULE)
        for name in ("key", "reads", "sample", "umi_length", "cell_length"):
            molecule[name] = families[name]
        votes = make_votes(256)
        rows = 0
        for piece in self._loader.pieces_through(last):
            lengths = piece.hot["length_1"].max(), piece.hot["length_2"].max()
            molecule["length_1"] = max(molecule["length_1"][0], lengths[0])
            molecule["length_2"] = max(molecule["length_2"][0], lengths[1])
            votes = widen_votes(votes, int(max(lengths)))
            self._add(piece, votes, rows == 0)
            rows += piece.hot.size
        check_rows(rows, int(families["reads"].sum()))
        return Cell(make_batch([], self._barcode_width), votes, molecule)

    def _add(self, piece: Piece, votes: kernels.Votes, begin: bool) -> None:
        batch = make_batch([piece], self._barcode_width)
        kernels.add_batch(batch, int(begin), self._model, votes, self._hash_sums)


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
