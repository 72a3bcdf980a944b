"""Calls of cells: against naive rules, where cells are known, and where none can be told."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import oracle_place
from umimill.cell_calls import Call, call_knee, call_ordmag, count_sizes, ordmag_least, rank_curve

sizes_strategy = st.lists(st.integers(1, 3000), min_size=1, max_size=300)


def sizes_of(molecules: list[int]) -> list[tuple[int, int]]:
    return sorted(Counter(molecules).items())


@given(sizes_strategy, st.integers(1, 400))
def test_ordmag_of_a_number_of_cells(molecules: list[int], expected: int) -> None:
    least = ordmag_least(sizes_of(molecules), expected)
    assert least == oracle_place.ordmag(molecules, expected)


@given(sizes_strategy)
def test_calls_hold_what_they_say(molecules: list[int]) -> None:
    for call in (call_ordmag(sizes_of(molecules)), call_knee(sizes_of(molecules))):
        if call.least is None:
            assert (call.cells, call.molecules) == (0, 0)
        else:
            held = [size for size in molecules if size >= call.least]
            assert (call.cells, call.molecules) == (len(held), sum(held))
    knee = call_knee(sizes_of(molecules))
    assert knee.least is None or knee.least * len(molecules) >= 10 * sum(molecules)


def library(cells: int, ambient: int, seed: int) -> list[int]:
    """Cells of about 5,000 molecules, and empty droplets of a few."""
    rng = np.random.default_rng(seed)
    held = np.maximum(1, rng.lognormal(np.log(5000), 0.5, cells)).astype(int)
    return [*held.tolist(), *(rng.geometric(0.1, ambient)).tolist()]


def test_cells_among_empty_droplets_are_called() -> None:
    for cells in (50, 1000, 5000):
        molecules = library(cells, 100_000, cells)
        ordmag, knee = call_ordmag(sizes_of(molecules)), call_knee(sizes_of(molecules))
        assert abs(ordmag.cells - cells) <= 0.02 * cells + 1
        # Where the curve begins to fall the smallest cells are behind it.
        assert 0.6 * cells <= knee.cells <= cells


def test_cells_alone_have_no_knee() -> None:
    molecules = library(2000, 0, 3)
    assert call_knee(sizes_of(molecules)) == Call("knee", None, 0, 0)
    assert call_ordmag(sizes_of(molecules)).cells >= 1950


def test_nothing_is_called_of_nothing() -> None:
    assert call_ordmag([]) == call_ordmag([(0, 7)]) == Call("ordmag", None, 0, 0)
    assert call_knee([]) == call_knee([(5, 100)]) == Call("knee", None, 0, 0)
    assert rank_curve([(0, 4)]) == []
    # Cells of one molecule each are as good as another.
    assert call_ordmag([(1, 9)]) == Call("ordmag", 1, 9, 9)


@given(sizes_strategy)
def test_curve_goes_from_the_first_to_the_last(molecules: list[int]) -> None:
    curve = rank_curve(sizes_of(molecules))
    ranked = sorted(molecules, reverse=True)
    assert curve == [(rank, ranked[rank - 1]) for rank, _ in curve]
    assert curve[0][0] == 1
    assert curve[-1] == (len(ranked), ranked[-1])


def test_sizes_are_counted_over_pieces() -> None:
    pieces = [np.array([3, 1, 3]), np.array([], np.int64), np.array([1])]
    assert count_sizes(pieces) == {1: 2, 3: 2}
