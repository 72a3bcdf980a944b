"""Pairs of barcodes at distance 1 against looking up every change of every base."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import config

import oracle_refine as oracle
from kernel_cases import cases, keys_of
from oracle_refine import Pair
from umimill.kernels import neighbours as kernels
from umimill.neighbours import neighbour_pairs

SIZES = (1, 2, 7, 1 << 12)


def listed(keys: Any, length: int, size: int, **limits: tuple[int, int]) -> list[Pair]:
    """Return all pairs in the order in which they come."""
    found: list[Pair] = []
    for batch in neighbour_pairs(keys, length, batch_pairs=size, **limits):
        assert 0 < batch.first.size <= size
        found += zip(*(buffer.tolist() for buffer in batch), strict=True)
    return found


def check(
    barcodes: Sequence[str],
    bases: tuple[int, int] | None = None,
    rows: tuple[int, int] | None = None,
) -> list[Pair]:
    """Compare all sizes of buffers with each other and with the oracle; return the pairs."""
    length = len(barcodes[0])
    start, stop = rows or (0, len(barcodes))
    begin, end = bases or (0, length)
    keys = keys_of(barcodes)
    found = listed(keys, length, SIZES[-1], rows=(start, stop), bases=(begin, end))
    for size in SIZES[:-1]:
        assert listed(keys, length, size, rows=(start, stop), bases=(begin, end)) == found
    expected = oracle.neighbour_pairs(barcodes[start:stop], begin, end)
    assert sorted(found) == [(one + start, other + start, at) for one, other, at in expected]
    return found


def neighbours_of(barcode: str) -> list[str]:
    return [
        barcode[:place] + letter + barcode[place + 1 :]
        for place in range(len(barcode))
        for letter in "ACGT"
        if letter != barcode[place]
    ]


def random_table(draw: random.Random, length: int, rows: int, letters: str = "ACGT") -> list[str]:
    """Barcodes of which many are one or two changes from another."""
    table = ["".join(draw.choices(letters, k=length))]
    for _ in range(rows):
        kind = draw.random()
        barcode = draw.choice(table)
        if kind < 0.5:
            barcode = draw.choice(neighbours_of(barcode))
        elif kind < 0.7:
            # The same but from one base on.
            place = draw.randint(0, length)
            barcode = barcode[:place] + "".join(draw.choices(letters, k=length - place))
        else:
            barcode = "".join(draw.choices(letters, k=length))
        table.append(barcode)
    return sorted(set(table))


@pytest.mark.parametrize("length", range(1, 33))
def test_every_length_has_all_pairs(length: int) -> None:
    draw = random.Random(length)
    for _ in range(cases(3)):
        table = random_table(draw, length, 150, draw.choice(["AC", "AT", "ACGT"]))
        assert check(table) or len(table) == 1
    # The first and the last key there can be, and all around them.
    ends = {"A" * length, "T" * length}
    check(sorted(ends.union(*(neighbours_of(barcode) for barcode in ends))))


@given(
    st.integers(1, 32),
    st.integers(0, 300),
    st.sampled_from(["A", "AC", "AGT", "ACGT"]),
    st.integers(0, 2**32),
)
def test_some_rows_and_some_bases(length: int, rows: int, letters: str, seed: int) -> None:
    draw = random.Random(seed)
    table = random_table(draw, length, rows, letters)
    begin, end = sorted((draw.randint(0, length), draw.randint(0, length)))
    start, stop = sorted((draw.randint(0, len(table)), draw.randint(0, len(table))))
    check(table, (begin, end), (start, stop))


@pytest.mark.parametrize("length", range(1, 33))
def test_two_passes_over_leaves_have_each_pair_once(length: int) -> None:
    """Pass 1 looks behind the first w bases in each leaf, pass 2 at these in the whole table."""
    width = min(4, length // 2)
    draw = random.Random(length)
    for _ in range(cases(3)):
        table = random_table(draw, length, 250, "AC")
        keys = keys_of(table)
        leaves = [barcode[:width] for barcode in table]
        edges = [row for row in range(len(table)) if row == 0 or leaves[row] != leaves[row - 1]]
        found = []
        for rows in pairwise([*edges, len(table)]):
            found += listed(keys, length, 64, rows=rows, bases=(width, length))
        assert all(leaves[first] == leaves[second] for first, second, _ in found)
        found += listed(keys, length, 64, bases=(0, width))
        assert sorted(found) == oracle.neighbour_pairs(table, 0, length)


def test_the_full_space_of_six_bases() -> None:
    table = ["".join(letters) for letters in product("ACGT", repeat=3 if config.DISABLE_JIT else 6)]
    assert len(check(table)) == len(table) * 3 * len(table[0]) // 2


@pytest.mark.parametrize("center", ["A" * 12, "T" * 12, "G" * 32, "ACGTTGCAACGT", "T" * 32])
def test_a_star(center: str) -> None:
    table = sorted([center, *neighbours_of(center)])
    found = check(table)
    place = table.index(center)
    assert sum(place in pair[:2] for pair in found) == 3 * len(center)
    # And the three at each base are a clique with it.
    assert len(found) == 6 * len(center)


def test_the_deepest_trie_fits_the_state() -> None:
    """A branch of three large siblings at each base, so that all 32 leave ends of nodes to take."""
    draw = random.Random(4)
    table = {"A" * 27 + "".join(letters) for letters in product("ACGT", repeat=3)}
    table = {barcode + "AA" for barcode in table}
    for place in range(27):
        for letter in "CGT":
            rest = 31 - place
            table.add("A" * place + letter + "".join(draw.choices("ACGT", k=rest)))
            table.add("A" * place + letter + "A" * rest)
    barcodes = sorted(table)
    check(barcodes)
    state = np.full(kernels.STATE_WORDS + 1, -7, np.int64)
    kernels.start_pairs(0, len(barcodes), state)
    pairs = kernels.Pairs(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.uint8))
    keys = keys_of(barcodes)
    most = 0
    while kernels.list_pairs(keys, 32, 0, 32, state, pairs) == 1:
        most = max(most, int(state[kernels.LEFT]))
        assert state[-1] == -7
    assert 3 * 27 < most <= kernels.STATE_WORDS - kernels.ENDS


def test_a_search_writes_no_more_than_its_buffers_hold() -> None:
    table = ["".join(letters) for letters in product("ACGT", repeat=3)]
    keys = keys_of(table)
    state = np.zeros(kernels.STATE_WORDS, np.int64)
    kernels.start_pairs(0, keys.size, state)
    room = [np.full(9, 77, kind) for kind in (np.int64, np.int64, np.uint8)]
    pairs = kernels.Pairs(*(buffer[1:8] for buffer in room))
    total = 0
    count = 7
    while count == 7:
        count = kernels.list_pairs(keys, 3, 0, 3, state, pairs)
        total += count
        assert all(buffer[0] == 77 and buffer[8] == 77 for buffer in room)
    assert total == 64 * 9 // 2
    # What is done stays done.
    assert kernels.list_pairs(keys, 3, 0, 3, state, pairs) == 0


@pytest.mark.parametrize("length", [1, 2, 31, 32])
def test_small_tables(length: int) -> None:
    assert listed(keys_of([]), length, 7) == []
    assert check(["G" * length]) == []
    assert check(["A" * length, "A" * (length - 1) + "T"]) == [(0, 1, length - 1)]
    assert check(["G" + "T" * (length - 1), "T" * length]) == [(0, 1, 0)]
    assert check(["A" * length, "A" * (length - 1) + "T"], (0, length - 1)) == []


@pytest.mark.parametrize("length", [2, 31, 32])
def test_two_changes_are_no_pair(length: int) -> None:
    barcode = "A" * length
    for first in range(length - 1):
        for second in range(first + 1, length):
            other = barcode[:first] + "T" + barcode[first + 1 : second] + "G" * (length - second)
            assert check([barcode, other]) == []


def test_rows_cut_anywhere() -> None:
    """What lies behind the rows, in the same branch or another one, is not looked at."""
    table = ["".join(letters) for letters in product("ACGT", repeat=3)]
    for stop in range(17, 65):
        for start in range(0, stop - 16, 7 if config.DISABLE_JIT else 1):
            check(table, rows=(start, stop))


@pytest.mark.parametrize(
    ("keys", "length", "limits"),
    [
        ([0, 1], 0, {}),
        ([0, 1], 33, {}),
        ([0, 1], 2, {"rows": (0, 3)}),
        ([0, 1], 2, {"rows": (1, 0)}),
        ([0, 1], 2, {"rows": (-1, 1)}),
        ([0, 1], 2, {"bases": (0, 3)}),
        ([0, 1], 2, {"bases": (2, 1)}),
        ([0, 1], 2, {"batch_pairs": 0}),
        ([0, 0], 2, {}),
        ([1, 0], 2, {}),
        ([0, 16], 2, {}),
    ],
)
def test_what_cannot_be_searched(keys: list[int], length: int, limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"length|batch|keys"):
        list(neighbour_pairs(np.array(keys, np.uint64), length, **limits))
