"""Tables of families against counting of strings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernel_wrappers as wrapped
import oracle
from kernel_cases import dna, pack_key, staged, templates
from oracle import Family, Template
from umimill.kernels import families as kernels
from umimill.partition import sorted_order
from umimill.tally import FAMILY

SAMPLES = 3
families_strategy = st.dictionaries(
    st.tuples(st.integers(0, SAMPLES - 1), dna(1, 4, "AGT")), st.integers(1, 9), max_size=12
).map(lambda table: sorted(table.items()))


def table_of(families: Sequence[tuple[Family, int]]) -> Any:
    table = np.zeros(len(families), FAMILY)
    for entry, ((sample, barcode), reads) in zip(table, families, strict=True):
        entry["sample"], entry["reads"], entry["key"] = sample, reads, pack_key(barcode)
        # The first base is the cell's where there are several.
        entry["cell_length"] = int(len(barcode) > 1)
        entry["umi_length"] = len(barcode) - int(len(barcode) > 1)
    return table


def families_of(table: Any) -> list[tuple[Family, int]]:
    found = []
    for entry in table:
        length = int(entry["umi_length"]) + int(entry["cell_length"])
        assert int(entry["cell_length"]) == int(length > 1)
        codes = oracle.unpack([int(entry["key"])], length, 2)
        barcode = "".join("ACGT"[code] for code in codes)
        assert pack_key(barcode) == entry["key"]
        found.append(((int(entry["sample"]), barcode), int(entry["reads"])))
    return found


@given(
    st.tuples(st.integers(0, 2), dna(1, 32, "AT")), st.tuples(st.integers(0, 2), dna(1, 32, "AT"))
)
def test_compare_is_the_order_of_strings(first: Family, second: Family) -> None:
    table = table_of([(first, 1), (second, 1)])
    assert wrapped.compare(table, table, 0, 1) == (first > second) - (first < second)
    # Padding with A is not the same barcode.
    longer = table_of([((0, "AC"), 1), ((0, "ACA"), 1)])
    assert wrapped.compare(longer, longer, 0, 1) == -1


barcodes_strategy = st.one_of(
    st.tuples(st.just(""), dna(1, 1, "AGT")), st.tuples(dna(1, 1, "AGT"), dna(1, 3, "AGT"))
)


@given(st.lists(templates(longest=1, barcode=barcodes_strategy, samples=SAMPLES), max_size=40))
def test_families_are_counted(rows: list[Template]) -> None:
    hot, *_ = staged(rows, 4)
    hot = hot[sorted_order(hot, len(rows))]
    table = np.zeros(len(rows) + 1, FAMILY)
    count = kernels.count_families(hot, table)
    expected = Counter((row.sample, row.barcode) for row in rows)
    assert families_of(table[:count]) == sorted(expected.items())


@given(families_strategy, families_strategy)
def test_merge_is_the_oracle(
    first: list[tuple[Family, int]], second: list[tuple[Family, int]]
) -> None:
    merged = np.zeros(len(first) + len(second), FAMILY)
    count = kernels.merge_families(table_of(first), table_of(second), merged)
    assert families_of(merged[:count]) == oracle.merge(first, second)


@given(families_strategy, st.tuples(st.integers(0, SAMPLES), dna(1, 4, "AGT")))
def test_rows_through_is_the_oracle(families: list[tuple[Family, int]], last: Family) -> None:
    found = kernels.rows_through(table_of(families), table_of([(last, 1)]))
    assert found == sum(family <= last for family, _ in families)


@given(st.lists(templates(longest=1, barcode=barcodes_strategy), max_size=20), st.integers(0, 19))
def test_rows_through_takes_rows_of_a_partition(rows: list[Template], at: int) -> None:
    hot, *_ = staged(rows, 4)
    hot = hot[sorted_order(hot, len(rows))]
    last = (0, "AG") if not rows else (rows[at % len(rows)].sample, rows[at % len(rows)].barcode)
    found = kernels.rows_through(hot, table_of([(last, 1)]))
    assert found == sum((row.sample, row.barcode) <= last for row in rows)


@given(families_strategy)
def test_reads_are_summed(families: list[tuple[Family, int]]) -> None:
    reads = np.ones(SAMPLES, np.int64)
    kernels.sum_reads(table_of(families), reads)
    expected = Counter[int]()
    for (sample, _), count in families:
        expected[sample] += count
    assert (reads - 1).tolist() == [expected[sample] for sample in range(SAMPLES)]


def cut(reads: Sequence[int], samples: Sequence[int], starts: Any, limits: Sequence[int]) -> Any:
    table = np.zeros(len(reads), FAMILY)
    table["reads"], table["sample"] = reads, samples
    ends = np.full(len(reads) + 1, -1, np.int64)
    count = kernels.cut_cells(table, np.array(starts, np.uint8), np.array(limits, np.int64), ends)
    edges = [0, *ends[:count].tolist()]
    return [list(range(*pair)) for pair in pairwise(edges)]


@st.composite
def sorted_families(draw: st.DrawFn) -> list[tuple[int, int, bool]]:
    """Draw (reads, sample, whether a group starts); a sample is at least one group."""
    samples = sorted(draw(st.lists(st.integers(0, 2), max_size=40)))
    rows: list[tuple[int, int, bool]] = []
    for sample in samples:
        reads = draw(st.one_of(st.integers(1, 4), st.integers(1, 40)))
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
        # A cell lies in one group, and only one of one key is large.
        assert not any(starts[number] for number in cell[1:])
        assert len(cell) == 1 or sum(reads[number] for number in cell) < 2 * own[cell[-1]]
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
    ],
)
def test_cells_of_ten_reads(reads: list[int], starts: list[int], cells: list[list[int]]) -> None:
    assert cut(reads, [0] * len(reads), starts, [10]) == cells


@given(families_strategy, st.integers(0, 11), st.integers(0, 11))
def test_first_unordered(families: list[tuple[Family, int]], first: int, second: int) -> None:
    assert kernels.first_unordered(table_of(families)) == -1
    if first < len(families) and second < len(families):
        families[first] = families[second]
    names = [family for family, _ in families]
    bad = [place for place in range(1, len(names)) if names[place - 1] >= names[place]]
    assert kernels.first_unordered(table_of(families)) == (bad[0] if bad else -1)
