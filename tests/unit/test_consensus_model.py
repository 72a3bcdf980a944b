"""The integer tables of the quality model against a posterior in floats."""

from __future__ import annotations

import math
from decimal import localcontext
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from umimill.consensus import (
    LAST_DIFFERENCE,
    ONE,
    VOTE_UNITS,
    column_error,
    column_quality,
    make_model,
    make_tables,
)

FLOORS = (0.1, 3e-4, 1e-4, 7.37e-5, 1e-5, 1e-6, 1e-9)
TABLES = {floor: make_tables(floor) for floor in FLOORS}
RT = TABLES[1e-4]
# 64-bit arithmetic leaves 20 bits of the divisor, and three weights are rounded to 2^-40.
RELATIVE_ERROR = 2**-19
ABSOLUTE_ERROR = 3 * 2**-40


def error_of(quality: int) -> float:
    return min(0.75, 10 ** (-quality / 10))


def posterior_error(behind: tuple[int, int, int]) -> float:
    rest = sum(math.exp(-one / VOTE_UNITS) for one in behind)
    return rest / (1 + rest)


def test_votes_are_log_likelihood_ratios() -> None:
    for quality, vote in enumerate(RT.votes.tolist()):
        error = error_of(quality)
        assert abs(vote - VOTE_UNITS * math.log((1 - error) / (error / 3))) <= 0.5 + 1e-6
    assert RT.votes[:2].tolist() == [0, 0]
    assert (np.diff(RT.votes[1:]) > 0).all()


def test_losers_are_exponentials() -> None:
    exact = ONE * np.exp(-np.arange(LAST_DIFFERENCE + 1) / VOTE_UNITS)
    assert np.abs(RT.losers - exact).max() <= 0.5 + 1e-3


def test_the_table_of_losers_ends_where_nothing_is_left() -> None:
    assert RT.losers[-2:].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("floor", "best"),
    [
        (0.1, 10),
        (3e-4, 35),
        (1e-4, 40),
        (7.37e-5, 41),
        (1e-5, 50),
        (1e-6, 60),
        (1e-9, 90),
    ],
)
def test_no_quality_is_above_the_floor(floor: float, best: int) -> None:
    assert column_quality(TABLES[floor], 0) == best
    assert best <= -10 * math.log10(floor) + 1e-9
    assert TABLES[floor].floor == pytest.approx(floor * ONE, abs=0.5)
    assert not TABLES[floor].thresholds[best + 1 :].any()


@given(st.floats(1e-9, 0.1))
def test_any_floor_is_kept(floor: float) -> None:
    tables = make_tables(floor)
    assert column_quality(tables, 0) <= -10 * math.log10(floor) + 1e-9
    assert column_quality(tables, 0) >= math.floor(-10 * math.log10(floor) - 1e-9)


behind_strategy = st.one_of(st.integers(0, 3000), st.integers(0, 40_000))


@given(behind_strategy, behind_strategy, behind_strategy, st.sampled_from(FLOORS))
def test_quality_is_that_of_floats(first: int, second: int, third: int, floor: float) -> None:
    tables = TABLES[floor]
    behind = first, second, third
    error = column_error(tables, behind)
    exact = posterior_error(behind)
    assert abs(error / ONE - exact) <= RELATIVE_ERROR * exact + ABSOLUTE_ERROR
    wanted = -10 * math.log10(exact + floor)
    best = column_quality(tables, 0)
    quality = column_quality(tables, error)
    assert 2 <= quality <= best
    if abs(wanted - math.floor(wanted) - 0.5) > 1e-4:
        assert quality == min(max(2, round(wanted)), best)


@given(behind_strategy, behind_strategy, behind_strategy, st.integers(1, 5000))
def test_more_votes_are_a_better_quality(first: int, second: int, third: int, more: int) -> None:
    less = column_error(RT, (first, second, third))
    better = column_error(RT, (first + more, second, third))
    assert better <= less * (1 + RELATIVE_ERROR)
    if better <= less:
        assert column_quality(RT, better) >= column_quality(RT, less)


def test_quality_falls_with_the_error() -> None:
    errors = [round(ONE * 10 ** (-step / 40)) for step in range(400)]
    qualities = [column_quality(RT, error) for error in errors]
    assert all(first <= second for first, second in pairwise(qualities))
    assert set(qualities) == {*range(2, 41)}


@pytest.mark.parametrize("floor", FLOORS)
def test_columns_that_agree_have_the_same_answer(floor: float) -> None:
    model, tables = make_model(floor), TABLES[floor]
    lists = oracle.Tables(
        tables.votes.tolist(), tables.losers.tolist(), tables.thresholds.tolist(), tables.floor
    )
    steps = [*range(0, 3000, 7), *range(3000, LAST_DIFFERENCE + 1, 101), LAST_DIFFERENCE]
    for difference in steps:
        behind = difference, difference, difference
        error = column_error(tables, behind)
        assert int(model.errors[difference]) == error == oracle.column_error(lists, behind)
        quality = int(model.qualities[difference])
        assert quality == column_quality(tables, error) == oracle.column_quality(lists, error)
    # A vote counts its read above bit 40.
    assert (model.votes - tables.votes).tolist() == [1 << 39] * 94


@given(
    st.lists(st.tuples(st.sampled_from("ACGT"), st.integers(2, 60)), min_size=1, max_size=12),
)
def test_votes_add_up_to_the_posterior(reads: list[tuple[str, int]]) -> None:
    """From the errors of the reads, without a table."""
    likelihoods = {
        base: math.prod(
            1 - error_of(quality) if letter == base else error_of(quality) / 3
            for letter, quality in reads
        )
        for base in "ACGT"
    }
    votes = {
        base: sum(int(RT.votes[quality]) for letter, quality in reads if letter == base)
        for base in "ACGT"
    }
    best = max("ACGT", key=lambda base: votes[base])
    total = sum(likelihoods.values())
    exact = (total - likelihoods[best]) / total
    behind = [votes[best] - votes[base] for base in "ACGT" if base != best]
    error = column_error(RT, (behind[0], behind[1], behind[2])) / ONE
    # Every vote was rounded to half a unit.
    assert error == pytest.approx(exact, rel=len(reads) / VOTE_UNITS + 1e-5, abs=ABSOLUTE_ERROR)


def test_a_tie_of_two_bases_is_q3() -> None:
    assert column_quality(RT, column_error(RT, (0, 20_000, 20_000))) == 3
    assert column_quality(RT, column_error(RT, (0, 0, 0))) == 2


def test_tables_do_not_depend_on_digits() -> None:
    with localcontext() as context:
        context.prec = 9
        again = make_tables(1e-4)
    for name in ("votes", "losers", "thresholds"):
        assert np.array_equal(getattr(again, name), getattr(RT, name))
    assert again.floor == RT.floor
