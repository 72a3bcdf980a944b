"""Libraries of which every run must give the same bytes, and counts of what a run did inside.

The reads are simulated: three units, three samples with reads, one of which has a key of thousands
of reads, and a blank one.
"""

from __future__ import annotations

import functools
import gzip
import itertools
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import Knobs, Library, Run, run_pipeline
from umimill import (
    assemble,
    cells,
    family_blocks,
    family_tables,
    fates,
    gather,
    matching,
    metrics,
    pieces,
    plan,
    roots,
    shelf,
    tables,
)
from umimill.kernels import consensus as kernels
from umimill.route import read_routes
from umimill.simulate import Simulation, SimulationParameters, simulate

HEADS = ("aaACTcagtggtatcaacgcagagt", "aaAGAcagtggtatcaacgcagagt", "aaGCCcagtggtatcaacgcagagt")
WATER_HEAD, SECOND_HEAD = "aaTTGcagtggtatcaacgcagagt", "aaCTTcagtggtatcaacgcagagt"
# What lies behind it tells of a base that was lost.
UMI = "NNNNtNNNNtNNNNctgac"
HOT_READS = 2500
# Reads that a unit's records go to one part by; 8,192 would leave most parts of a small unit empty.
BLOCK = 256

make_model = functools.cache(assemble.make_model)
compile_patterns = functools.cache(matching.compile_patterns)

# -- libraries -------------------------------------------------------------------------------------

Reads = list[tuple[bytes, ...]]


def simulated(**options: Any) -> Simulation:
    """Simulate reads of samples `hot`, `b.1` and `A`."""
    return simulate(
        SimulationParameters(
            samples=("hot", "b.1", "A"), layouts=tuple(head + UMI for head in HEADS), **options
        )
    )


def templates(simulation: Simulation, prefix: bytes) -> list[Reads]:
    """Return templates, a record (name, bases, qualities) a mate."""
    mates = [(simulation.bases1, simulation.qualities1)]
    if simulation.bases2 is not None and simulation.qualities2 is not None:
        mates.append((simulation.bases2, simulation.qualities2))
    return [
        [
            (b"%s%d" % (prefix, number), bases[number].tobytes(), qualities[number].tobytes())
            for bases, qualities in mates
        ]
        for number in range(simulation.names.size)
    ]


def roughen(read: Reads, number: int, *, levels: bool) -> Reads:
    """Cut reads to many lengths, put N into some, and give some units many quality levels."""
    rough = []
    for mate, (name, bases, qualities) in enumerate(read):
        stop = len(bases) - (number * 7 + mate) % 23 * (number % 3 == 0)
        bases, qualities = bases[:stop], qualities[:stop]
        if number % 11 == 0:
            place = stop - 1 - number % 29
            bases = bases[:place] + b"N" + bases[place + 1 :]
        if mate == 0 and number % 17 == 0:
            place = len(HEADS[0]) + number % 4
            bases = bases[:place] + b"N" + bases[place + 1 :]
        elif mate == 0 and number % 19 == 0:
            place = len(HEADS[0]) + 10 + number % 4
            bases, qualities = (one[:place] + one[place + 1 :] for one in (bases, qualities))
        if levels:
            qualities = bytes(
                max(35, byte - (number + place) % 5) for place, byte in enumerate(qualities)
            )
        rough.append((name, bases, qualities))
    return rough


def with_other_payload(read: Reads) -> Reads:
    """Give a read another payload, so that its barcode has a second molecule."""
    complement = bytes.maketrans(b"ACGT", b"TGCA")
    # A few bases behind the UMI, which lies a little further on in some reads.
    starts = (len(HEADS[0]) + len(UMI) + 6, 4)
    return [
        (name, bases[:start] + bases[start:].translate(complement), qualities)
        for start, (name, bases, qualities) in zip(starts, read, strict=False)
    ]


def write_units(folder: Path, reads: Sequence[Reads], bounds: Sequence[float]) -> dict[str, Any]:
    """Write reads as units of unequal size: gzip, plain, gzip of two members."""
    units: dict[str, Any] = {}
    edges = [int(len(reads) * bound) for bound in (0, *bounds, 1)]
    for unit, (start, stop) in enumerate(itertools.pairwise(edges)):
        middle = (start + stop) // 2 if unit == 2 else stop
        paths = []
        for mate in range(len(reads[0])):
            texts = [
                b"@%s\n%s\n+\n%s\n" % roughen(reads[number], number, levels=unit == 1)[mate]
                for number in range(start, stop)
            ]
            members = [b"".join(texts[: middle - start]), b"".join(texts[middle - start :])]
            plain = unit == 1
            path = folder / f"lane{unit}_R{mate + 1}.fastq{'' if plain else '.gz'}"
            path.write_bytes(
                b"".join(one if plain else gzip.compress(one, 1) for one in members if one)
            )
            paths.append(path)
        units[f"L{unit}"] = tuple(paths)
    return units


def make_library(
    folder: Path, *, paired: bool, molecules: int, hot_reads: int, bounds: Sequence[float]
) -> Library:
    """Make a library of three units, three samples with reads (one has a hot key) and one blank.

    The hot key has two molecules.

    Read 2 of pairs has 4 UMI bases more; they are part of the key.
    """
    read2 = 75 if paired else 0
    bulk = simulated(seed=11, molecules=molecules, read2_length=read2, foreign_share=0.05)
    hot = simulated(
        seed=12, molecules=1, mean_reads=hot_reads, sigma_reads=0, read2_length=read2,
        foreign_share=0, shift_share=0, chimera_share=0.02,
    )  # fmt: skip
    deep = templates(hot, b"hot:")
    deep[::10] = [with_other_payload(read) for read in deep[::10]]
    reads = templates(bulk, b"bulk:") + deep
    order = np.random.default_rng(13).permutation(len(reads)).tolist()
    folder.mkdir()
    units = write_units(folder, [reads[number] for number in order], bounds)
    side = "^NNNN" if paired else None
    samples = ("hot", "b.1", "A")
    hot_head = HEADS[int(hot.molecule_sample[0])]
    heads = (hot_head, *(head for head in HEADS if head != hot_head))
    # A water control, and a sample of two rows, of which one finds nothing.
    samples, heads = (*samples, "water", "A"), (*heads, WATER_HEAD, SECOND_HEAD)
    # One library is searched, the other not.
    anchor = "^" if paired else ""
    rows = [
        (sample, anchor + head + UMI, side) for sample, head in zip(samples, heads, strict=True)
    ]
    return Library(rows, units)


# -- what a run did -------------------------------------------------------------------------------


@dataclass
class Watch:
    """Counts of what the package does inside, in the run at hand."""

    streamed: int = 0
    streamed_pieces: int = 0
    several: int = 0
    from_outboxes: int = 0
    cells: list[int] = field(default_factory=list)

    def clear(self) -> None:
        self.streamed = self.streamed_pieces = self.several = self.from_outboxes = 0
        self.cells = []


@contextmanager
def watching() -> Iterator[Watch]:
    """Count streamed keys, pieces, moved rows and cells; keep what only takes time to make."""
    seen = Watch()
    load_single, add_rows = cells.CellReader._load_single, kernels.add_rows
    own_cells, moved_rows = cells.CellReader.cells, cells.moved_rows

    def counting_load(self: Any, settled: Any, last: Any) -> Any:
        seen.streamed += 1
        cell = load_single(self, settled, last)
        seen.several += cell.single.molecules.size > 1
        return cell

    def counting_add(*arguments: Any) -> Any:
        seen.streamed_pieces += 1
        return add_rows(*arguments)

    def counting_moved(pieces: Any) -> Any:
        given = moved_rows(pieces)
        seen.from_outboxes += int((given >= 0).sum())
        return given

    def counting_cells(self: Any, meter: Any) -> Iterator[Any]:
        seen.cells.append(0)
        for cell in own_cells(self, meter):
            seen.cells[-1] += 1
            yield cell

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells.CellReader, "_load_single", counting_load)
        patch.setattr(cells.CellReader, "cells", counting_cells)
        patch.setattr(cells, "moved_rows", counting_moved)
        patch.setattr(kernels, "add_rows", counting_add)
        # Tables that depend on their arguments alone.
        patch.setattr(assemble, "make_model", make_model)
        patch.setattr(matching, "compile_patterns", compile_patterns)
        patch.setattr(metrics, "provenance", lambda started: {"started": str(started)})
        yield seen


@contextmanager
def scaled_down() -> Iterator[None]:
    """Scale down what decides groups, cells and row groups, and pieces of tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "GROUP_ROWS", 100)
        patch.setattr(cells, "CELL_READS", 400)
        patch.setattr(tables, "ROW_GROUP_ROWS", 250)
        patch.setattr(gather, "READ_MOLECULES", 100)
        patch.setattr(fates, "READ_FAMILIES", 90)
        patch.setattr(roots, "READ_FAMILIES", 130)
        patch.setattr(pieces, "LEAST_ROWS", 300)
        patch.setattr(shelf, "READ_ROWS", 50)
        patch.setattr(family_tables, "READ_FAMILIES", 110)
        patch.setattr(family_blocks, "PIECE_ROWS", 70)
        patch.setattr(family_blocks, "PAGE_ROWS", 24)
        yield


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Counts, at real sizes."""
    with watching() as seen:
        yield seen


@pytest.fixture
def scaled() -> Iterator[Watch]:
    """Counts, with sizes scaled down."""
    with watching() as seen, scaled_down():
        yield seen


CLEAN = Knobs(record_block=BLOCK, staging_bytes=1 << 20)


@dataclass(frozen=True)
class Base:
    """A library and its run with plain knobs."""

    library: Library
    run: Run
    hashes: dict[str, str]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Base]:
    """A function that gives the single or the paired library, run once, with sizes scaled down."""

    @functools.cache
    def base(kind: str) -> Base:
        folder = tmp_path_factory.mktemp(kind)
        library = make_library(
            folder / "reads",
            paired=kind == "paired",
            molecules=3000,
            hot_reads=HOT_READS,
            bounds=(0.3, 0.55),
        )
        with watching(), scaled_down():
            run = run_pipeline(library, folder / "run", CLEAN)
        return Base(library, run, run.hashes())

    return base


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is gone at once: a hundred runs would fill a small disk."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def covering(factors: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return cells in which each two values of any two factors meet; always the same ones."""
    draw = random.Random(1)
    names = list(itertools.combinations(factors, 2))
    missing = {
        (first, second, one, other)
        for first, second in names
        for one in factors[first]
        for other in factors[second]
    }

    def pairs(cell: Mapping[str, Any]) -> set[tuple[Any, ...]]:
        return {(first, second, cell[first], cell[second]) for first, second in names}

    cells: list[dict[str, Any]] = []
    while missing:
        drawn = [{name: draw.choice(one) for name, one in factors.items()} for _ in range(300)]
        cells.append(max(drawn, key=lambda cell: len(pairs(cell) & missing)))
        missing -= pairs(cells[-1])
    return cells


def rows_from_elsewhere(run: Run, buckets: int) -> int:
    """Return how often a bucket reads the outbox of another one."""
    home = run.folder / "results"
    routes = read_routes(home / "route" / run.library.name / f"of-{buckets}.json")
    return sum(
        path.name != f"{bucket + 1}-of-{buckets}.outbox"
        for bucket, paths in enumerate(routes.outboxes)
        for path in paths
    )


def different(first: dict[str, str], second: dict[str, str]) -> set[str]:
    """Return the names of the outputs that differ."""
    assert first.keys() == second.keys()
    return {name for name in first if first[name] != second[name]}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Base:
    """A library whose hot key is above the real size of a cell, and whose units have two blocks."""
    folder = tmp_path_factory.mktemp("large")
    library = make_library(
        folder / "reads", paired=False, molecules=6000, hot_reads=9500, bounds=(0.45, 0.75)
    )
    run = run_pipeline(library, folder / "run")
    return Base(library, run, run.hashes())
