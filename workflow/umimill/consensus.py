"""The quality model of a consensus as integer tables.

A read's base b with error e votes ln(1 - e) - ln(e / 3) for b against each other base; sums of
votes are log-likelihoods up to a constant that all four share, so the posterior of the called base
is 1 / (1 + sum over the others of exp(-difference)), with equal priors. The quality of a column is
-10 log10(p_error + floor): the floor stands for errors that all reads of a molecule share (first
copy, first cycle), which no number of reads can vote away.

All tables are whole numbers made with decimal arithmetic: sums do not depend on order, and every
machine gets the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext

import numpy as np
import numpy.typing as npt

from umimill.kernels.consensus import VOTE_BITS, Model
from umimill.patterns import error_probability

# One vote unit is 1/1024 nat. Probabilities are in units of 2^-40.
VOTE_UNITS = 1024
ONE = 1 << 40
# exp(-d / 1024) rounds to 0 of 2^-40 from here on.
LAST_DIFFERENCE = 29_102
# Binary places of exp(-1 / 1024), and of its powers below 2^-40.
_PLACES = 120
_GUARD = 64
LEAST_QUALITY = 2
MOST_QUALITY = 93


@dataclass(frozen=True)
class Tables:
    """Tables of the consensus.

    Attributes:
        votes: i64[94], vote of a base by its Phred.
        losers: u64[LAST_DIFFERENCE + 1], 2^40 exp(-d / 1024).
        thresholds: u64[94], a column has quality k or better where p_error + floor is at most
            thresholds[k]; 0 above the floor's quality.
        floor: 2^40 times the floor.
    """

    votes: npt.NDArray[np.int64]
    losers: npt.NDArray[np.uint64]
    thresholds: npt.NDArray[np.uint64]
    floor: int


def make_tables(floor: float) -> Tables:
    """Make the tables for a floor, such as 1e-4."""
    with localcontext() as context:
        context.prec = 60
        exact_floor = Decimal(str(floor))
        votes = []
        for quality in range(94):
            error = error_probability(quality)
            ratio = ((1 - error) / (error / 3)).ln() * VOTE_UNITS
            votes.append(max(0, int(ratio.to_integral_value())))
        step = int((Decimal(-1) / VOTE_UNITS).exp() * (1 << _PLACES))
        ten = Decimal(10).ln()
        # A hair above: the logarithm of 1e-5 may come out as 4.999...
        exact_best = -10 * exact_floor.ln() / ten + Decimal("1e-40")
        best = int(exact_best.to_integral_value(rounding=ROUND_FLOOR))
        thresholds = [0] * 94
        for quality in range(LEAST_QUALITY, min(best, MOST_QUALITY) + 1):
            edge = (-(Decimal(quality) - Decimal("0.5")) / 10 * ten).exp() * ONE
            thresholds[quality] = int(edge.to_integral_value(rounding=ROUND_FLOOR))
        fixed_floor = int((exact_floor * ONE).to_integral_value())
    return Tables(
        np.array(votes, np.int64),
        _powers(step),
        np.array(thresholds, np.uint64),
        fixed_floor,
    )


def _powers(step: int) -> npt.NDArray[np.uint64]:
    """Return 2^40 step^d, rounded, for d up to LAST_DIFFERENCE; `step` in fixed point."""
    powers, value = [], ONE << _GUARD
    for _ in range(LAST_DIFFERENCE + 1):
        powers.append(value)
        value = value * step >> _PLACES
    half = 1 << (_GUARD - 1)
    return np.array([(one + half) >> _GUARD for one in powers], np.uint64)


def column_error(tables: Tables, differences: tuple[int, int, int]) -> int:
    """Return 2^40 p_error of a column whose losing bases are `differences` vote units behind."""
    rest = sum(int(tables.losers[min(one, LAST_DIFFERENCE)]) for one in differences)
    return (rest << 20) // ((ONE + rest) >> 20)


def column_quality(tables: Tables, error: int) -> int:
    """Return the quality of a column with 2^40 p_error = `error`."""
    for quality in range(MOST_QUALITY, LEAST_QUALITY, -1):
        if error + tables.floor <= int(tables.thresholds[quality]):
            return quality
    return LEAST_QUALITY


def make_model(floor: float) -> Model:
    """Return the tables as the kernels take them, with those of columns where all reads agree."""
    tables = make_tables(floor)
    # Three bases that are all so far behind: column_error and column_quality, for all distances.
    rest = np.uint64(3) * tables.losers
    errors = (rest << np.uint64(20)) // ((np.uint64(ONE) + rest) >> np.uint64(20))
    best = int(np.count_nonzero(tables.thresholds)) + LEAST_QUALITY - 1
    # Thresholds fall with quality, errors with distance.
    edges = tables.thresholds[LEAST_QUALITY + 1 : best + 1][::-1]
    passed = edges.size - np.searchsorted(edges, errors + np.uint64(tables.floor))
    qualities = (LEAST_QUALITY + passed).astype(np.uint8)
    # A vote carries a read in its high bits, so one sum counts both.
    votes = tables.votes + (1 << VOTE_BITS)
    return Model(votes, tables.losers, tables.thresholds, tables.floor, errors, qualities)
