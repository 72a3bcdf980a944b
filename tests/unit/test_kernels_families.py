"""Tables of families against counting of strings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import kernel_wrappers as wrapped
import oracle
from kernel_cases import dna, pack_key, staged, templates
from oracle import Family, Template
from oracle_drafts import splitmix64
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


@given(
    st.lists(templates(longest=1, barcode=barcodes_strategy), min_size=1, max_size=20),
    st.integers(0, 19),
)
def test_rows_before_a_row(rows: list[Template], at: int) -> None:
    hot, *_ = staged(rows, 4)
    hot = hot[sorted_order(hot, len(rows))]
    at %= len(rows)
    orders = sorted(row.order for row in rows)
    found = kernels.rows_before(hot, hot[at : at + 1])
    assert found == sum(order < orders[at] for order in orders)


@given(families_strategy, st.integers(1, 10))
def test_families_are_summed(families: list[tuple[Family, int]], small: int) -> None:
    reads = np.ones(SAMPLES, np.int64)
    composition = np.zeros((SAMPLES, 32, 4), np.int64)
    sizes = np.zeros((SAMPLES, small), np.int64)
    kernels.sum_families(table_of(families), reads, composition, sizes)
    expected = Counter[int]()
    letters = Counter[tuple[int, int, int]]()
    counted = Counter[tuple[int, int]]()
    for (sample, barcode), count in families:
        expected[sample] += count
        counted[sample, count] += 1
        letters.update((sample, at, "ACGT".index(base)) for at, base in enumerate(barcode))
    assert (reads - 1).tolist() == [expected[sample] for sample in range(SAMPLES)]
    assert {tuple(at): composition[tuple(at)] for at in np.argwhere(composition)} == letters
    assert {tuple(at): sizes[tuple(at)] for at in np.argwhere(sizes)} == {
        at: number for at, number in counted.items() if at[1] < small
    }


@given(families_strategy)
def test_hashes_that_families_are_drawn_by(families: list[tuple[Family, int]]) -> None:
    table = table_of(families)
    table["family"] = np.arange(len(families)) * 7919
    hashes = np.zeros(len(families), np.uint64)
    kernels.hash_families(table, hashes)
    for row, found in zip(table, hashes.tolist(), strict=True):
        inner = int(row["family"]) + (int(row["umi_length"]) << 16)
        inner += int(row["cell_length"]) << 24
        assert found == splitmix64(int(row["key"]) ^ splitmix64(inner))
