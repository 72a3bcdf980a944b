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
from umimill.cells import (
    MOLECULE,
    Cell,
    CellReader,
    Filter,
    check_rows,
    find_molecules,
    make_votes,
    number_rows,
)
from umimill.consensus import make_model
from umimill.drafts import draft_strides
from umimill.fates import FATE, Settled, SettledTable
from umimill.fragments import FragmentWriter
from umimill.kernels import consensus as kernels
from umimill.kernels import molecules as molecule_kernels
from umimill.kernels import text as text_kernels
from umimill.lineage_rows import LineageWriter, lineage_rows
from umimill.loading import RowLoader, make_batch
from umimill.metrics import Meter
from umimill.partition import PartitionFile, sorted_order
from umimill.plan import Plan, read_plan
from umimill.route import read_routes
from umimill.tally import FAMILY

# Bytes of the letters of a record beside bases and names: tags and numbers.
RECORD_BYTES = 176

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Settings:
    """What assemble is asked to do.

    Attributes:
        wanted: which molecules get a record.
        floor: error floor of the quality model.
        mates: 1, or 2 for pairs.
    """

    wanted: Filter
    floor: float
    mates: int


@dataclass(frozen=True)
class Sources:
    """The files that hold a bucket's families.

    Attributes:
        families: tally's table of the bucket.
        fates: move's fates of them.
        routes: route's list of the library.
    """

    families: Path
    fates: Path
    routes: Path


@dataclass(frozen=True)
class Result:
    """What a cell gave.

    Attributes:
        molecules: MOLECULE[*].
        records: records written for each mate.
        blocks: BGZF bytes of each mate.
        sample: sample of the cell.
        hash_sums: u64[2, S], hashes of rows of the partition files, and of outboxes.
        seconds: busy seconds by clock.
        lineage: LINEAGE[*] of its rows, where it is wanted and was not written as they were read.
    """

    molecules: Array
    records: int
    blocks: tuple[bytes, ...]
    sample: int
    hash_sums: npt.NDArray[np.uint64]
    seconds: dict[str, float]
    lineage: Array | None = None


@dataclass(frozen=True)
class _Called:
    """Molecules of a cell with their consensus, mate 1 before mate 2.

    Attributes:
        molecules: MOLECULE[*].
        letters, qualities: u8[*].
        umi: u8[molecules, 32].
        lineage: LINEAGE[*] of their rows, where it is wanted.
    """

    molecules: Array
    letters: Array
    qualities: Array
    umi: Array
    lineage: Array | None = None


class Worker:
    """Makes results of cells; safe to use from several threads at once.

    Args:
        plan: plan of the library.
        settings: see Settings.
    """

    def __init__(self, plan: Plan, settings: Settings) -> None:
        self.model = make_model(settings.floor)
        self._wanted = settings.wanted
        self._mates = settings.mates
        self._samples = len(plan.samples)
        self._strides = draft_strides(plan.rows, plan.bases, plan.tile)
        encoded = [sample.encode() for sample in plan.samples]
        self._names = text_kernels.Names(
            np.frombuffer(b"".join(encoded), np.uint8).copy(),
            np.cumsum([0, *(len(name) for name in encoded)]).astype(np.int64),
        )
        self._longest_name = max(len(name) for name in encoded)

    def warm(self) -> None:
        """Compile or load the kernels on no rows, so that no worker's clock counts it."""
        settled = Settled(np.empty(0, FAMILY), np.empty(0, FATE))
        cell = Cell(settled, make_batch([], 1), np.empty(0, np.int64), make_votes(1))
        self._render(self._call(cell, np.zeros((2, self._samples), np.uint64), {}, 0.0), 0)

    def run(self, cell: Cell) -> Result:
        """Vote on the molecules of a cell, render and compress them."""
        seconds: dict[str, float] = {}
        hash_sums = np.zeros((2, self._samples), np.uint64)
        start = time.perf_counter()
        if cell.single is None:
            called = self._call(cell, hash_sums, seconds, start)
        else:
            called = _Called(cell.single.molecules, *_call_buffers(cell.single.molecules))
            at = 0
            for number, votes in enumerate(cell.single.votes):
                if called.molecules["kept"][number]:
                    at = kernels.call_single(
                        called.molecules,
                        number,
                        self.model,
                        votes,
                        at,
                        called.letters,
                        called.qualities,
                        called.umi,
                    )
        voted = time.perf_counter()
        seconds["model"] = voted - start - seconds.get("sort", 0.0)
        blocks, records = [], 0
        for mate in range(self._mates):
            text, ends, records = self._render(called, mate)
            blocks.append(b"".join(compress_records(text, ends)))
        seconds["compress"] = time.perf_counter() - voted
        molecules = called.molecules
        molecules["first"] = molecules["offset"] = 0
        sample = int(molecules[0]["sample"])
        return Result(molecules, records, tuple(blocks), sample, hash_sums, seconds, called.lineage)

    def _call(
        self, cell: Cell, hash_sums: Array, seconds: dict[str, float], start: float
    ) -> _Called:
        batch = cell.batch
        count = batch.hot.size
        order = sorted_order(batch.hot, count)
        numbers, family_of = number_rows(cell.settled, batch, order, cell.given, self._strides)
        molecules = find_molecules(cell.settled, self._wanted)
        ordered = np.empty(count, np.int64)
        found = molecule_kernels.order_rows(batch.hot, order, numbers, molecules, ordered)
        check_rows(found, int(molecules["reads"].sum()))
        lineage = None
        if cell.moved is not None:
            rows = ordered[:found]
            families = cell.settled.families["family"][family_of[rows]]
            owners = np.repeat(molecules, molecules["reads"].astype(np.int64))
            lineage = lineage_rows(
                batch.hot[rows], families, cell.given[rows], cell.moved[rows], owners
            )
        seconds["sort"] = time.perf_counter() - start
        letters, qualities, umi = _call_buffers(molecules)
        kernels.call_molecules(
            batch,
            ordered,
            cell.given,
            molecules,
            self.model,
            cell.votes,
            letters,
            qualities,
            umi,
            hash_sums,
        )
        return _Called(molecules, letters, qualities, umi, lineage)

    def _render(self, called: _Called, mate: int) -> tuple[Array, Array, int]:
        molecules = called.molecules
        lengths = molecules["length_2" if mate else "length_1"].astype(np.int64)
        width = RECORD_BYTES + 3 * self._longest_name + 8 * 32
        text = np.empty(int(2 * lengths.sum()) + width * molecules.size, np.uint8)
        ends = np.empty(molecules.size, np.int64)
        _, records = text_kernels.render(
            molecules,
            mate,
            self._names,
            called.letters,
            called.qualities,
            called.umi,
            text,
            ends,
        )
        return text, ends, records


def _call_buffers(molecules: Array) -> tuple[Array, Array, Array]:
    emitted = molecules["kept"] == 1
    lengths = molecules["length_1"].astype(np.int64) + molecules["length_2"]
    size = int(lengths[emitted].sum())
    return (
        np.empty(size, np.uint8),
        np.empty(size, np.uint8),
        np.zeros((molecules.size, 32), np.uint8),
    )


def assemble(
    plan_path: Path,
    sources: Sources,
    bucket: int,
    settings: Settings,
    outputs: Sequence[Path],
    molecules_path: Path,
    meter: Meter,
    *,
    lineage_path: Path | None = None,
    batch_bytes: int | None = None,
) -> None:
    """Make the consensus of every molecule of a bucket.

    Args:
        plan_path: plan of the library.
        sources: families of the bucket, and where corrected ones went.
        bucket: number of the bucket, from 0.
        settings: see Settings.
        outputs: FASTQ fragments of mate 1 and 2 to write; the second stays empty without pairs.
        molecules_path: molecule fragment to write.
        meter: metrics of the job.
        lineage_path: file to write for what molecule each read is in, or None.
        batch_bytes: most bytes of rows in memory for one cell; None takes it from the budget.

    Raises:
        UmimillError: where rows and families do not agree, or a file is damaged.
    """
    plan = read_plan(plan_path)
    if batch_bytes is None:
        # A worker holds the rows, their sorted order, the letters and the text of its cells.
        batch_bytes = meter.budget_bytes // (4 * (meter.threads + 1))
    with ExitStack() as stack:
        inbox = read_routes(sources.routes).outboxes[bucket]
        parts = [stack.enter_context(PartitionFile(path)) for path in (*plan.partitions, *inbox)]
        table = stack.enter_context(SettledTable(sources.families, sources.fates))
        writer = stack.enter_context(FragmentWriter(outputs, molecules_path, len(plan.samples)))
        lineage = stack.enter_context(LineageWriter(lineage_path)) if lineage_path else None
        worker = Worker(plan, settings)
        worker.warm()
        loader = RowLoader(parts, *plan.bucket_leaves(bucket))
        reader = CellReader(
            plan,
            bucket,
            table,
            loader,
            worker.model,
            settings.wanted,
            batch_bytes,
            writer.hash_sums,
            lineage,
        )
        for result in _run_ordered(worker, reader.cells(meter), meter.threads):
            for name, seconds in result.seconds.items():
                meter.add_seconds(name, seconds)
            with meter.clock("write"):
                writer.add(result)
                if lineage and result.lineage is not None:
                    lineage.add(result.lineage)
        loader.check_finished()
        writer.finish(plan.samples, MOLECULE, meter)
        if lineage:
            meter.written_bytes += lineage.finish()
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
