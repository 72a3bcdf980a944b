"""Means over seeds with their 95% interval, and what one tool does better than another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from accuracy.scores import DIRECTION, Scores

# 97.5% quantile of Student's t for 1 .. 30 degrees of freedom.
T_QUANTILE = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
NORMAL_QUANTILE = 1.959964


def t_quantile(freedom: int) -> float:
    """Return the 97.5% quantile of Student's t; above 30 by an expansion good to 1e-4."""
    if freedom <= len(T_QUANTILE):
        return T_QUANTILE[freedom - 1]
    z = NORMAL_QUANTILE
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and half the width of its 95% interval.

    Values that are nan are left out. The mean of none is nan, the interval of fewer than two is.
    """
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return math.nan, math.nan
    if len(known) == 1:
        return known[0], math.nan
    return fmean(known), t_quantile(len(known) - 1) * stdev(known) / math.sqrt(len(known))


def compare(own: Sequence[Scores], other: Sequence[Scores], name: str) -> int:
    """Compare two tools on one score, seed by seed on the same reads.

    Returns:
        1 where `own` is better, -1 where it is worse, 0 where zero is within the 95% interval of
        the mean difference, or where there is only one seed.
    """
    differences = [
        DIRECTION[name] * (getattr(one, name) - getattr(two, name))
        for one, two in zip(own, other, strict=True)
    ]
    mean, half = mean_interval(differences)
    if math.isnan(half) or abs(mean) <= half:
        return 0
    return 1 if mean > 0 else -1


def worse_on(own: Sequence[Scores], other: Sequence[Scores]) -> list[str]:
    """Return the scores on which `own` is worse than `other`, beyond the interval."""
    return [name for name in DIRECTION if compare(own, other, name) < 0]


def is_dominated(own: Sequence[Scores], other: Sequence[Scores]) -> bool:
    """Tell whether `other` is better on a score, beyond the interval, and in no mean worse."""
    if not worse_on(own, other):
        return False
    for name, direction in DIRECTION.items():
        means = [mean_interval([getattr(one, name) for one in many])[0] for many in (own, other)]
        if direction * (means[0] - means[1]) > 0:
            return False
    return True
