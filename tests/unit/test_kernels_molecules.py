"""Molecules of cells against lists."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from kernel_cases import dna, pack_key, staged, templates
from oracle import Template
from umimill.cells import MOLECULE
from umimill.fates import FATE
from umimill.kernels import molecules as kernels
from umimill.partition import sorted_order
from umimill.tally import FAMILY

barcodes_strategy = st.one_of(
    st.tuples(st.just(""), dna(1, 2, "AG")), st.tuples(dna(1, 1, "AG"), dna(1, 2, "AG"))
)


# -- cells -----------------------------------------------------------------------------------------


def cut(
    reads: Sequence[int],
    samples: Sequence[int],
    starts: Any,
    limits: Sequence[int],
    keys: Sequence[int] | None = None,
) -> Any:
    """Cut families, each of another key unless told otherwise; those of no reads were moved."""
    table, fates = np.zeros(len(reads), FAMILY), np.zeros(len(reads), FATE)
    table["sample"] = samples
    table["key"] = np.arange(len(reads)) if keys is None else keys
    fates["reads"], fates["moved"] = reads, np.array(reads, np.int64) == 0
    # What a family had, and what it had where it was moved away, do not count.
    table["reads"] = 99
    fates["reads"][fates["moved"] == 1] = 50
    ends = np.full(len(reads) + 1, -1, np.int64)
    starts, bounds = np.array(starts, np.uint8), np.array(limits, np.int64)
    count = kernels.cut_cells(table, starts, fates, bounds, ends)
    edges = [0, *ends[:count].tolist()]
    return [list(range(*pair)) for pair in pairwise(edges)]


@st.composite
def sorted_families(draw: st.DrawFn) -> list[tuple[int, int, bool]]:
    """Draw (reads, sample, whether a group starts); a sample is at least one group."""
    samples = sorted(draw(st.lists(st.integers(0, 2), max_size=40)))
    rows: list[tuple[int, int, bool]] = []
    for sample in samples:
        reads = draw(st.one_of(st.integers(0, 4), st.integers(0, 40)))
        start = draw(st.integers(0, 5)) == 0 or not rows or rows[-1][1] != sample
        rows.append((reads, sample, start))
    return rows


@given(sorted_families(), st.lists(st.integers(1, 16), min_size=3, max_size=3))
def test_cells_are_the_oracle(rows: list[tuple[int, int, bool]], limits: list[int]) -> None:
    reads = [one[0] for one in rows]
    starts = [one[2] for one in rows]
    own = [limits[one[1]] for one in rows]
    cells = cut(reads, [one[1] for one in rows], starts, limits)
    assert cells == oracle.cut_cells(reads, starts, own)
    assert [number for cell in cells for number in cell] == list(range(len(rows)))
    for cell in cells:
        # The reads of a cell lie in one group, and only one of one key is large.
        held = [number for number in cell if reads[number]]
        assert not any(
            starts[n] for first, last in pairwise(held) for n in range(first + 1, last + 1)
        )
        assert len(held) <= 1 or sum(reads[number] for number in cell) < 2 * own[held[-1]]
    for cell in cells:
        # Cells behind the end of a cell do not depend on what came before it.
        rest = slice(cell[-1] + 1, None)
        again = cut(reads[rest], [one[1] for one in rows][rest], starts[rest], limits)
        assert [[number + cell[-1] + 1 for number in one] for one in again] == cells[
            cells.index(cell) + 1 :
        ]


@pytest.mark.parametrize(
    ("reads", "starts", "cells"),
    [
        ([], [], []),
        ([3], [0], [[0]]),
        ([3, 4, 3, 3], [0, 0, 0, 0], [[0, 1, 2], [3]]),
        ([3, 10, 3], [0, 0, 0], [[0], [1], [2]]),
        ([3, 9, 3], [0, 0, 0], [[0, 1], [2]]),
        ([3, 3, 3], [0, 1, 0], [[0], [1, 2]]),
        ([3, 3, 3], [1, 0, 1], [[0, 1], [2]]),
        ([9, 9], [0, 0], [[0, 1]]),
        ([10, 10], [0, 0], [[0], [1]]),
        # Keys that were moved away end no cell, but lie before one that is large.
        ([0, 0, 3], [0, 1, 1], [[0, 1, 2]]),
        ([0, 10, 0], [0, 0, 0], [[0], [1], [2]]),
        ([3, 0, 0, 3], [0, 1, 0, 0], [[0], [1, 2, 3]]),
    ],
)
def test_cells_of_ten_reads(reads: list[int], starts: list[int], cells: list[list[int]]) -> None:
    assert cut(reads, [0] * len(reads), starts, [10]) == cells


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), max_size=20),
    st.integers(1, 16),
    st.integers(0, 30),
)
def test_cells_hold_whole_keys(keys: list[list[int]], limit: int, seed: int) -> None:
    """Cells are those of the keys' reads, however many families share them."""
    starts = np.random.default_rng(seed).random(len(keys)) < 0.2
    totals = [sum(reads) for reads in keys]
    cells = cut(totals, [0] * len(keys), starts, [limit])
    numbers = [number for number, reads in enumerate(keys) for _ in reads]
    # Only the first family of a key can be the first of a group.
    first = [number == 0 or one != numbers[number - 1] for number, one in enumerate(numbers)]
    rows = cut(
        [one for reads in keys for one in reads],
        [0] * len(numbers),
        [starts[one] and begins for one, begins in zip(numbers, first, strict=True)],
        [limit],
        numbers,
    )
    assert [sorted({numbers[row] for row in cell}) for cell in rows] == cells
    assert [row for cell in rows for row in cell] == list(range(len(numbers)))


# -- molecules and their rows ----------------------------------------------------------------------


@st.composite
def keys_of_families(draw: st.DrawFn) -> list[tuple[int, str, str, list[tuple[int, bool]]]]:
    """Draw (sample, cell, UMI, families) in order; a family is (number, whether it was moved)."""
    barcodes = st.tuples(st.integers(0, 1), barcodes_strategy)
    drawn = draw(st.lists(barcodes, max_size=8, unique=True))
    found = []
    for sample, (cell, umi) in sorted(
        drawn, key=lambda one: (one[0], "".join(one[1]), len(one[1][0]))
    ):
        moved = draw(st.lists(st.booleans(), min_size=1, max_size=5))
        stayed = draw(st.permutations(range(moved.count(False))))
        numbers = iter(stayed)
        found.append((sample, cell, umi, [(0 if one else next(numbers), one) for one in moved]))
    return found


def tables_of(keys: Sequence[Any]) -> tuple[Any, Any]:
    """Return FAMILY[n] and FATE[n]."""
    rows = [
        (sample, cell, umi, family, *fate)
        for sample, cell, umi, fates in keys
        for family, fate in enumerate(fates)
    ]
    table, held = np.zeros(len(rows), FAMILY), np.zeros(len(rows), FATE)
    for row, (sample, cell, umi, family, number, moved) in enumerate(rows):
        table[row]["sample"], table[row]["key"] = sample, pack_key(cell + umi)
        table[row]["cell_length"], table[row]["umi_length"] = len(cell), len(umi)
        table[row]["family"], table[row]["reads"] = family, 3
        held[row]["number"], held[row]["moved"] = number, moved
        held[row]["reads"], held[row]["families"] = 100 + row, 1 + row
        held[row]["several"], held[row]["status"] = row % 2, row % 3
    return table, held


@given(keys_of_families())
def test_molecules_are_families_that_stayed(keys: list[Any]) -> None:
    """In the order of their keys, and of their numbers within a key."""
    table, fates = tables_of(keys)
    molecules = np.zeros(table.size, MOLECULE)
    count = kernels.list_molecules(table, fates, molecules)
    expected, row = [], 0
    for sample, cell, umi, families in keys:
        stayed = []
        for number, moved in families:
            if not moved:
                said = 100 + row, 1 + row, row % 2, row % 3
                stayed.append((number, sample, pack_key(cell + umi), len(cell), len(umi), *said))
            row += 1
        expected += sorted(stayed)
    names = ["number", "sample", "key", "cell_length", "umi_length"]
    names += ["reads", "families", "several", "status"]
    assert [tuple(one[names].tolist()) for one in molecules[:count]] == expected
    assert not molecules[count:]["umi_length"].any()
    assert kernels.first_unordered(molecules[:count]) == -1


@given(keys_of_families(), st.lists(st.tuples(st.integers(0, 99), st.integers(-1, 3)), max_size=20))
def test_molecules_of_rows(keys: list[Any], rows: list[tuple[int, int]]) -> None:
    table, fates = tables_of(keys)
    if not table.size:
        return
    family_of = np.array([family % table.size for family, _ in rows], np.int64)
    given = np.array([one for _, one in rows], np.int64)
    numbers = np.full(len(rows), 77)
    kernels.number_rows(family_of, fates, given, numbers)
    for family, arrived, number in zip(family_of, given, numbers.tolist(), strict=True):
        # A row of a family that was moved away is still in its partition file; one that was moved
        # here stays.
        gone = fates[family]["moved"] == 1 and arrived < 0
        assert number == (-1 if gone else int(fates[family]["number"]))


@st.composite
def numbered_rows(draw: st.DrawFn) -> tuple[list[Template], list[int]]:
    """Draw rows and the molecule of its key of each, without gaps; -1 = moved away."""
    rows = draw(st.lists(templates(longest=9, barcode=barcodes_strategy), max_size=20))
    drawn = draw(st.lists(st.integers(-1, 2), min_size=len(rows), max_size=len(rows)))
    numbers = []
    for row, number in zip(rows, drawn, strict=True):
        own = zip(rows, drawn, strict=True)
        met = sorted({n for one, n in own if one.order == row.order and n >= 0})
        numbers.append(met.index(number) if number >= 0 else -1)
    return rows, numbers


def order(rows: Sequence[Template], numbers: Sequence[int], sizes: Sequence[int]) -> Any:
    """Order rows by molecule, of which these reads are due: (result, molecules, ordered)."""
    hot, *_ = staged(rows, 4)
    by_key = sorted_order(hot, len(rows))
    held = sorted({(row.order, n) for row, n in zip(rows, numbers, strict=True) if n >= 0})
    molecules = np.zeros(len(held), MOLECULE)
    groups = oracle.molecules(rows, numbers)
    for entry, (_, number), group, due in zip(molecules, held, groups, sizes, strict=True):
        entry["sample"], entry["key"] = group[0].sample, pack_key(group[0].barcode)
        entry["cell_length"], entry["umi_length"] = len(group[0].cell), len(group[0].umi)
        entry["number"], entry["reads"] = number, due
    ordered = np.full(len(rows), -9)
    found = kernels.order_rows(hot, by_key, np.array(numbers, np.int64), molecules, ordered)
    return found, molecules, ordered.tolist()


@given(numbered_rows())
def test_rows_are_ordered_by_molecule(case: tuple[list[Template], list[int]]) -> None:
    rows, numbers = case
    groups = list(oracle.molecules(rows, numbers))
    found, molecules, ordered = order(rows, numbers, [len(group) for group in groups])
    assert found == sum(len(group) for group in groups)
    assert set(ordered[found:]) <= {-9}
    at = 0
    for entry, group in zip(molecules, groups, strict=True):
        assert int(entry["first"]) == at
        assert [rows[row] for row in ordered[at : at + len(group)]] == group
        lengths = [max(len(row.payload[mate]) for row in group) for mate in range(2)]
        assert [int(entry["length_1"]), int(entry["length_2"])] == lengths
        at += len(group)


@given(numbered_rows(), st.integers(0, 19), st.sampled_from([-1, 1]))
def test_rows_too_many_or_too_few(
    case: tuple[list[Template], list[int]], place: int, change: int
) -> None:
    rows, numbers = case
    sizes = [len(group) for group in oracle.molecules(rows, numbers)]
    if sizes:
        sizes[place % len(sizes)] += change
        assert order(rows, numbers, sizes)[0] == -1


@given(keys_of_families(), st.integers(0, 11), st.integers(0, 11))
def test_first_unordered(keys: list[Any], first: int, second: int) -> None:
    table, fates = tables_of(keys)
    molecules = np.zeros(table.size, MOLECULE)
    molecules = molecules[: kernels.list_molecules(table, fates, molecules)]
    if first < molecules.size and second < molecules.size:
        molecules[first] = molecules[second].copy()

    def place(one: Any) -> tuple[int, ...]:
        length = int(one["umi_length"]) + int(one["cell_length"])
        lengths = length, int(one["cell_length"])
        return int(one["sample"]), int(one["key"]), *lengths, int(one["number"])

    places = [place(one) for one in molecules]
    bad = [row for row in range(1, len(places)) if places[row - 1] >= places[row]]
    assert kernels.first_unordered(molecules) == (bad[0] if bad else -1)
