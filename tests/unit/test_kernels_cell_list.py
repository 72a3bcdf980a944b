"""Lists of cell barcodes: their text, finding a barcode, rows on the list and not."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle_place
from kernel_cases import dna, pack_key
from kernel_wrappers import find_cell
from umimill.cell_list import CELL_COUNT, make_cell_list
from umimill.fastq import base_codes
from umimill.kernels import cell_list as kernels
from umimill.partition import HOT, sorted_order


def keys_of(cells: Sequence[str]) -> Any:
    return np.array([pack_key(cell) for cell in cells], np.uint64)


LINE_ENDS = ("\n", "\r\n", "\r")


def parse(text: bytes, length: int) -> tuple[int, list[int], list[int]]:
    """Return the fault, the keys, and what `place` has."""
    place = np.zeros(3, np.int64)
    keys = np.zeros(len(text) + 2, np.uint64)
    lines = np.frombuffer(text, np.uint8)
    fault = kernels.parse_barcodes(lines, lines.size, base_codes(), length, keys, place)
    return fault, keys[: int(place[1])].tolist(), place.tolist()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", " ", "\t"]),
            st.one_of(dna(5, 5), dna(5, 5, "acgt"), st.just("")),
            st.sampled_from(["", "-1", "-12"]),
            st.sampled_from(["", " ", "\t"]),
            st.sampled_from(LINE_ENDS),
        ),
        max_size=20,
    )
)
def test_barcodes_are_read(lines: list[tuple[str, str, str, str, str]]) -> None:
    text = "".join(
        before + cell + (number if cell else "") + behind + end
        for before, cell, number, behind, end in lines
    ).encode()
    fault, keys, place = parse(text, 5)
    assert fault == kernels.GOOD
    assert keys == [int(pack_key(cell)) for cell in oracle_place.listed_lines(text)]
    assert place[0] == len(text.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")) - 1


@pytest.mark.parametrize("end", LINE_ENDS)
@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("ACGNA", kernels.NO_BASE),
        ("ACG A", kernels.NO_BASE),
        ("ACGTA-x", kernels.NO_BASE),
        ("-1", kernels.NO_BASE),
        ("ACGT", kernels.OTHER_LENGTH),
        ("ACGTAC", kernels.OTHER_LENGTH),
        ("A" * 40, kernels.OTHER_LENGTH),
    ],
)
def test_faults(line: str, fault: int, end: str) -> None:
    text = end.join(("ACGTA", "", line, "CCCCC", ""))
    found, keys, place = parse(text.encode(), 5)
    assert found == fault
    assert keys == [int(pack_key("ACGTA"))]
    assert place[0] == 2
    assert text.encode()[place[2] :].startswith(line.encode())


@given(st.sets(dna(3, 3)))
def test_each_barcode_is_found(cells: set[str]) -> None:
    listed = make_cell_list(keys_of(sorted(cells)), 3)
    order = sorted(cells)
    for cell in oracle_place.all_barcodes(3):
        expected = order.index(cell) if cell in cells else -1
        assert find_cell(listed, pack_key(cell)) == expected


def test_long_and_crowded_barcodes_are_found() -> None:
    draw = random.Random(2)
    for length in (1, 16, 31):
        head = "ACGT"[: length // 6]
        cells = {(head + "".join(draw.choices("ACGT", k=length)))[:length] for _ in range(400)}
        order = sorted(cells)
        listed = make_cell_list(keys_of(order), length)
        assert [find_cell(listed, pack_key(cell)) for cell in order] == list(range(len(order)))
        for cell in order[:50]:
            other = cell[:-1] + ("A" if cell[-1] != "A" else "C")
            assert (find_cell(listed, pack_key(other)) >= 0) == (other in cells)


@given(
    st.lists(st.tuples(st.integers(0, 2), dna(2, 2), dna(2, 2), st.booleans()), max_size=40),
    st.sets(dna(2, 2), min_size=1),
)
def test_rows_are_split(rows: list[tuple[int, str, str, bool]], cells: set[str]) -> None:
    hot = np.zeros(len(rows), HOT)
    for entry, (sample, cell, umi, unknown) in zip(hot, rows, strict=True):
        entry["sample"], entry["key"], entry["n_mask"] = sample, pack_key(cell + umi), unknown
        entry["cell_length"] = entry["umi_length"] = 2
    listed = make_cell_list(keys_of(sorted(cells)), 2)
    order = sorted_order(hot, len(rows))
    on, off = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    counts = np.zeros(len(rows), CELL_COUNT)
    sizes = kernels.split_rows(hot, order, listed, on, off, counts)
    good = [row for row in order.tolist() if rows[row][1] in cells and not rows[row][3]]
    assert on[: sizes[0]].tolist() == good
    assert off[: sizes[1]].tolist() == [row for row in order.tolist() if row not in good]
    found = counts[: sizes[2]][["sample", "cell", "reads"]].tolist()
    names = sorted(cells)
    expected = Counter((rows[row][0], names.index(rows[row][1])) for row in good)
    assert found == [(*place, reads) for place, reads in sorted(expected.items())]


def test_counts_are_added_up_to_the_most() -> None:
    reads = np.array([5, 0, (1 << 32) - 3], np.uint32)
    counts = np.array([(0, 2, 0, 0), (2, 9, 0, 0), (0, 1, 0, 0)], CELL_COUNT)
    kernels.add_counts(counts, reads)
    assert reads.tolist() == [8, 0, (1 << 32) - 1]
