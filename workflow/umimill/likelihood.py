"""Logarithms as whole numbers: tables that every machine makes alike.

Tables that no library changes are made with decimal arithmetic. Estimates of a library are floats
that only + - * / made, which IEEE rounds alike everywhere; `ln_fine` takes their logarithm from a
table and a short series of the same four operations. libm and numpy's own logarithms differ in the
last bits between CPU models.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.kernels.score import (
    DRAFT,
    ERROR_CLASSES,
    EXACT,
    FINE_BITS,
    FIRST_CLASS,
    LN_TWO,
    NEAR,
    NEAR_BITS,
    UNIT_BITS,
)
from umimill.patterns import error_probability

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

FINE = 1 << FINE_BITS
UNIT = 1 << UNIT_BITS
DIGITS = 40
HALF_PHREDS = 256
# An error above is no error: a random base differs three times in four.
MOST_ERROR = 0.75
# Drafts of one molecule disagree more than their qualities say in one pair of a hundred:
# misplaced starts, chimeras, bases that PCR changed.
OVERDISPERSED = 0.01
OVERDISPERSED_ALPHA, OVERDISPERSED_BETA = 1, 9


@cache
def log_tables() -> tuple[Integers, Integers]:
    """Return i64[EXACT + 1] fine ln(i), 0 for 0, and fine ln(i!)."""
    logs, factorials = [0], [0]
    with localcontext() as context:
        context.prec = DIGITS
        total = Decimal(0)
        for value in range(1, EXACT + 1):
            log = Decimal(value).ln()
            total += log
            logs.append(int((log * FINE).to_integral_value()))
            factorials.append(int((total * FINE).to_integral_value()))
    return np.array(logs, np.int64), np.array(factorials, np.int64)


@cache
def softplus_table() -> Integers:
    """Return i64[*], 1024 ln(1 + exp(-i / 1024)), up to where it rounds to 0."""
    values: list[int] = []
    with localcontext() as context:
        context.prec = DIGITS
        step, power = (Decimal(-1) / UNIT).exp(), Decimal(1)
        while True:
            value = int(((1 + power).ln() * UNIT).to_integral_value())
            if value == 0:
                return np.array(values, np.int64)
            values.append(value)
            power *= step


@cache
def quality_errors() -> Floats:
    """Return f64[256], 10^(-i / 20): the error of a half-Phred, at most 0.75."""
    with localcontext() as context:
        context.prec = DIGITS
        step = (-Decimal(10).ln() / 20).exp()
        errors, value = [], Decimal(1)
        for _ in range(HALF_PHREDS):
            errors.append(float(min(value, Decimal(MOST_ERROR))))
            value *= step
    return np.array(errors)


@cache
def phred_errors() -> Floats:
    """Return f64[94], the error of a Phred."""
    return np.array([float(error_probability(quality)) for quality in range(94)])


def ln_fine(values: Any) -> Integers:
    """Return round(2^20 ln(value)) to within 1, of an array of positive floats."""
    logs, _ = log_tables()
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    # In [2048, 4096]: the table's own precision is kept.
    scaled = mantissa * EXACT
    whole = np.floor(scaled).astype(np.int64)
    rest = (scaled - whole) / whole
    series = rest * (1.0 - rest * 0.5)
    fine = np.rint(series * FINE).astype(np.int64)
    shift = exponent.astype(np.int64) - 12
    result: Integers = logs[whole] + fine + ((shift * LN_TWO) >> (40 - FINE_BITS))
    return result


def ln_unit(values: Any) -> Integers:
    """Return 1024 ln(value) of an array of positive floats, rounded."""
    result: Integers = (ln_fine(values) + (FINE // UNIT // 2)) >> (FINE_BITS - UNIT_BITS)
    return result


def ordered_sum(values: Any) -> float:
    """Return the sum of an array from its first element on.

    numpy's own sum groups the terms as the CPU's vectors are wide.
    """
    flat = np.asarray(values, np.float64).reshape(-1)
    return float(np.cumsum(flat)[-1]) if flat.size else 0.0


def whole_power(base: Any, exponent: Any) -> Floats:
    """Return base ** exponent of arrays, exponents whole and not negative, by multiplication."""
    power, left = np.broadcast_arrays(np.asarray(base, np.float64), np.asarray(exponent, np.int64))
    result = np.ones(left.shape)
    power, left = power.copy(), left.copy()
    while left.any():
        result = np.where(left & 1, result * power, result)
        power = power * power
        left >>= 1
    return result


def square_root(value: float) -> float:
    """Return the square root of a number from 1 on, by Newton's steps."""
    root = value
    for _ in range(100):
        better = (root + value / root) / 2
        if better >= root:
            break
        root = better
    return root


@cache
def binomial_coefficients() -> Floats:
    """Return f64[33, 33]: row n, column k, n over k; 0 where k > n."""
    table = np.zeros((DRAFT + 1, DRAFT + 1))
    table[0, 0] = 1
    for row in range(1, DRAFT + 1):
        table[row, 0] = 1
        table[row, 1:] = table[row - 1, 1:] + table[row - 1, :-1]
    return table


def binomial(error: float) -> Floats:
    """Return f64[33, 33], P(k of n differ) where each base does with probability `error`."""
    compared, differ = np.mgrid[: DRAFT + 1, : DRAFT + 1]
    agree = np.maximum(compared - differ, 0)
    return binomial_coefficients() * whole_power(error, differ) * whole_power(1.0 - error, agree)


@cache
def overdispersed() -> Floats:
    """Return f64[33, 33], the same where the error is Beta-distributed."""
    table = np.zeros((DRAFT + 1, DRAFT + 1))
    for compared in range(DRAFT + 1):
        # P(k + 1) / P(k), from P(0) on; then all of them to a sum of 1.
        value, values = 1.0, []
        for differ in range(compared + 1):
            values.append(value)
            value *= (compared - differ) * (OVERDISPERSED_ALPHA + differ)
            value /= (differ + 1) * (compared - differ - 1 + OVERDISPERSED_BETA)
        table[compared, : compared + 1] = np.array(values) / ordered_sum(values)
    return table


def class_error(number: int) -> float:
    """Return the error that stands for a class of kernels.score.error_class."""
    bits, half = divmod(number + FIRST_CLASS, 2)
    least = (1.0 + 0.5 * half) * float(2 ** (bits - 1))
    # The middle of [1, 1.5) and of [1.5, 2).
    return min(least * (1.25 if half == 0 else 1.75 / 1.5) / FINE, 0.7)


@cache
def same_shares() -> Floats:
    """Return f64[ERROR_CLASSES, 33, 33], P(mismatches | one molecule, compared, class)."""
    return np.stack(
        [
            (1 - OVERDISPERSED) * binomial(class_error(number)) + OVERDISPERSED * overdispersed()
            for number in range(ERROR_CLASSES)
        ]
    )


@cache
def way_counts() -> Floats:
    """Return f64[33, 33], drafts that differ from one at k of n bases; 0 where k > n."""
    differ = np.arange(DRAFT + 1)
    return binomial_coefficients() * whole_power(3.0, differ)


@cache
def ways_table() -> Integers:
    """Return i64[33, 33], 1024 ln of `way_counts`."""
    return ln_unit(np.maximum(way_counts(), 1.0))


@cache
def near_table() -> Integers:
    """Return i64[ERROR_CLASSES, 33, NEAR], 2^NEAR_BITS P(one certain draft | one molecule)."""
    ways = way_counts()[:, :NEAR]
    shares = np.where(ways > 0, same_shares()[:, :, :NEAR] / np.maximum(ways, 1.0), 0.0)
    table: Integers = np.rint(shares * float(1 << NEAR_BITS)).astype(np.int64)
    return table


@cache
def same_table() -> Integers:
    """Return i64[ERROR_CLASSES, 33, 33], 1024 ln of `same_shares`."""
    return ln_unit(np.maximum(same_shares(), 1e-30))


def posterior_threshold(min_posterior: float) -> int:
    """Return the least score, in 1/1024 nat, whose posterior is `min_posterior` or more.

    Args:
        min_posterior: between 0 and 1, both excluded.
    """
    with localcontext() as context:
        context.prec = DIGITS
        posterior = Decimal(str(min_posterior))
        odds = (posterior / (1 - posterior)).ln() * UNIT
        return int(odds.to_integral_value(rounding="ROUND_CEILING"))
