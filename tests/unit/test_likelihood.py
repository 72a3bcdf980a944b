"""The tables of logarithms and likelihoods against math's floats."""

from __future__ import annotations

import math
from decimal import localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle_score
from umimill import barcode_error, likelihood
from umimill.kernels import score
from umimill.likelihood import FINE, UNIT


def test_logarithms_and_factorials() -> None:
    logs, factorials = likelihood.log_tables()
    assert logs[0] == factorials[0] == 0
    for value in range(1, score.EXACT + 1):
        assert abs(logs[value] - FINE * math.log(value)) <= 0.5 + 1e-6
        assert abs(factorials[value] - FINE * math.lgamma(value + 1)) <= 0.5 + 1e-3


def test_constants_of_the_kernel() -> None:
    assert round(FINE * math.log(2 * math.pi) / 2) == score.HALF_LN_TWO_PI
    assert round(FINE * math.log(oracle_score.POLYMERASE / 3 / math.log(2))) == score.LN_CYCLE
    share = oracle_score.POLYMERASE / 3 / math.log(2)
    assert share == pytest.approx(barcode_error.PCR_ERROR, rel=1e-4)
    assert round(2**40 * math.log(2)) == score.LN_TWO


def test_softplus_goes_on_until_nothing_is_left() -> None:
    table = likelihood.softplus_table()
    exact = UNIT * np.log1p(np.exp(-np.arange(table.size) / UNIT))
    assert np.abs(table - exact).max() <= 0.5 + 1e-6
    assert UNIT * math.log1p(math.exp(-table.size / UNIT)) < 0.5


def test_errors_of_half_phreds() -> None:
    errors = likelihood.quality_errors()
    for half in range(256):
        assert errors[half] == pytest.approx(min(0.75, 10 ** (-half / 20)), rel=1e-12)
    assert likelihood.phred_errors().tolist() == pytest.approx(errors[:188:2].tolist(), rel=1e-12)


@given(st.floats(1e-300, 1e300))
def test_logarithm_of_any_float(value: float) -> None:
    assert abs(int(likelihood.ln_fine(value)) - FINE * math.log(value)) <= 2
    assert abs(int(likelihood.ln_unit(value)) - UNIT * math.log(value)) <= 0.51


def test_logarithm_of_powers_of_two_and_arrays() -> None:
    values = np.array([[2.0**power for power in range(-40, 41)]])
    assert likelihood.ln_fine(values).shape == values.shape
    for power, fine in zip(range(-40, 41), likelihood.ln_fine(values)[0].tolist(), strict=True):
        assert abs(fine - FINE * power * math.log(2)) <= 1.5


@given(st.lists(st.floats(-1e6, 1e6), max_size=40))
def test_sums_are_in_order(values: list[float]) -> None:
    total = 0.0
    for value in values:
        total += value
    assert likelihood.ordered_sum(values) == total


@given(st.floats(0, 1), st.integers(0, 10**6))
def test_powers(base: float, exponent: int) -> None:
    wanted = base**exponent
    assert float(likelihood.whole_power(base, exponent)) == pytest.approx(wanted, 1e-9, 1e-300)


@pytest.mark.parametrize("error", [1e-4, 0.01, 0.75])
def test_binomials(error: float) -> None:
    table = likelihood.binomial(error)
    for compared in range(33):
        for differ in range(33):
            wanted = math.comb(compared, differ) * error**differ
            wanted *= (1 - error) ** (compared - differ) if differ <= compared else 0
            assert table[compared, differ] == pytest.approx(wanted, 1e-9)


def test_overdispersed_is_beta_binomial() -> None:
    """B(k + 1, n - k + 9) / B(1, 9) is a ratio of factorials."""
    table = likelihood.overdispersed()
    for compared in (0, 1, 12, 32):
        for differ in range(compared + 1):
            beta = Fraction(
                math.factorial(differ) * math.factorial(compared - differ + 8),
                math.factorial(compared + 9),
            )
            wanted = math.comb(compared, differ) * beta * 9
            assert table[compared, differ] == pytest.approx(float(wanted), 1e-12)
        assert not table[compared, compared + 1 :].any()


def test_each_class_of_error_is_stood_for_by_one_inside() -> None:
    errors = [likelihood.class_error(number) for number in range(score.ERROR_CLASSES)]
    assert errors == sorted(errors)
    for scaled in (1, 64, 95, 96, 127, 128, 1000, 1500, 3000, 100_000, 600_000):
        middle = oracle_score.error_class(scaled / 2**20)
        assert min(abs(middle - one) for one in errors) < 1e-12
        if 64 <= scaled < 600_000:
            assert middle == pytest.approx(scaled / 2**20, rel=0.26)


def test_shares_of_one_molecule() -> None:
    shares = likelihood.same_shares()
    assert shares.sum(2) == pytest.approx(np.ones(shares.shape[:2]))
    for number in (0, 9, 20, 31):
        error = likelihood.class_error(number)
        for compared, differ in ((12, 0), (12, 12), (32, 0), (32, 3), (20, 11)):
            wanted = oracle_score.same(error, compared, differ)
            assert shares[number, compared, differ] == pytest.approx(wanted, 1e-9)
            assert abs(likelihood.same_table()[number, compared, differ] / UNIT) == pytest.approx(
                abs(math.log(max(wanted, 1e-30))), abs=0.51 / UNIT
            )


def test_threshold_is_the_least_score_of_a_posterior() -> None:
    for posterior in (0.01, 0.5, 0.8, 0.95, 0.999999):
        least = likelihood.posterior_threshold(posterior)
        assert 1 / (1 + math.exp(-least / UNIT)) >= posterior * (1 - 1e-12)
        assert 1 / (1 + math.exp(-(least - 1) / UNIT)) < posterior
    assert likelihood.posterior_threshold(0.5) == 0


def test_tables_do_not_depend_on_digits() -> None:
    makers = (likelihood.log_tables, likelihood.softplus_table, likelihood.quality_errors)
    with localcontext() as context:
        context.prec = 9
        for make in makers:
            assert np.array_equal(make.__wrapped__(), make())
        assert likelihood.posterior_threshold(0.95) == 3016
