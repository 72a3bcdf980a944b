"""How alike the payloads of random families are: what equal drafts of two neighbours are worth.

The drafts of two families of one molecule differ where one was misread. Those of two molecules do
too where the molecules have the same payload, and else as clones, genes or genomes differ. How
often each is so is measured on random pairs of the sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.kernels.drafts import LEAST_COMPARED, count_near, spread_masks
from umimill.kernels.score import DRAFT, ERROR_CLASSES, FIRST_CLASS
from umimill.likelihood import (
    FINE,
    MOST_ERROR,
    binomial,
    ln_unit,
    ordered_sum,
    phred_errors,
    quality_errors,
    same_shares,
)

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# Bands of compared bases in which the mismatches of unrelated pairs are counted.
BAND_STARTS = (LEAST_COMPARED, 17, 23, 29)
DRAW_REACH = 16
# Families that a payload is looked for among: of the draws, those that know most of their bases.
MOST_DRAWN = 1 << 9
# What the variance of numbers may be more than their mean by chance: three times the root of
# 2 / MOST_DRAWN.
CHANCE_SPREAD = 0.19
LEAST_NUMBER = 1e-6
EM_ROUNDS = 50
# Share of a binomial in the mismatches of unrelated pairs, for what was never seen.
RANDOM_SHARE = 0.05
# A draft of several reads is not better than this: the rest is PCR and misplaced starts.
DRAFT_FLOOR = 2e-4


@dataclass(frozen=True)
class DraftPairs:
    """Pairs of random families of a sample.

    Attributes:
        errors: i64[k], class of their drafts' error.
        compared: i64[k], bases known in both drafts.
        mismatches: i64[k], bases of them that differ.
    """

    errors: Integers
    compared: Integers
    mismatches: Integers

    @property
    def clonality(self) -> float:
        """Share of compatible pairs, with those that have no evidence; 1 where there is no pair."""
        if not self.compared.size:
            return 1.0
        close = self.mismatches <= (3 * self.compared + 16) // 32
        return int((close | (self.compared < LEAST_COMPARED)).sum()) / self.compared.size


def single_draft_factor(phreds: Integers) -> float:
    """Return the mean error over the error of the mean Phred, of Phreds from 10 on.

    A draft's quality is a mean of Phreds, which one bad base hardly lowers.
    """
    good = phreds[10:]
    total = int(good.sum())
    if not total:
        return 1.0
    half = (2 * int((good * np.arange(10, 94)).sum()) + total // 2) // total
    factor = ordered_sum(good * phred_errors()[10:]) / total / float(quality_errors()[half])
    return min(max(factor, 1.0), 30.0)


def draft_error_table(phreds: Integers) -> Integers:
    """Return i64[2, 256], 2^20 times the error of a draft's base: of one read, of more.

    Args:
        phreds: i64[94], bases of the sample by Phred.
    """
    single = quality_errors() * single_draft_factor(phreds)
    errors = np.stack([single, quality_errors()]) + DRAFT_FLOOR
    table: Integers = np.rint(np.minimum(errors, MOST_ERROR) * FINE).astype(np.int64)
    return table


def pair_draws(draws: Array, errors: Integers) -> DraftPairs:
    """Pair each draw with the DRAW_REACH behind it.

    Args:
        draws: DRAW[*] of one sample, sorted by hash.
        errors: i64[2, 256], 2^20 times the error of a draft's base.
    """
    left, right = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for step in range(1, min(DRAW_REACH, draws.size - 1) + 1):
        left.append(np.arange(draws.size - step))
        right.append(np.arange(step, draws.size))
    first, second = np.concatenate(left), np.concatenate(right)
    error = errors[np.where(draws["reads"] == 1, 0, 1), draws["draft_quality"]]
    return DraftPairs(
        error_classes(error[first] + error[second]), *compare_drafts(draws, first, second)
    )


def error_classes(errors: Integers) -> Integers:
    """Return kernels.score.error_class of an array of errors in 2^-20, at least 2."""
    bits = np.frexp(errors.astype(np.float64))[1].astype(np.int64)
    half = (errors >> (bits - 2)) & 1
    classes: Integers = np.clip(2 * bits + half - FIRST_CLASS, 0, ERROR_CLASSES - 1)
    return classes


def compare_drafts(draws: Array, left: Integers, right: Integers) -> tuple[Integers, Integers]:
    """Return (bases known in both, bases of them that differ) of pairs of draws, i64[*] each."""
    known = draws["mask"][left] & draws["mask"][right]
    apart = draws["draft"][left] ^ draws["draft"][right]
    mismatches = np.zeros(left.size, np.int64)
    for base in range(DRAFT):
        differs = ((apart >> np.uint64(2 * base)) & np.uint64(3)) != 0
        mismatches += differs & ((known >> np.uint32(base)) & np.uint32(1) != 0)
    return np.bitwise_count(known).astype(np.int64), mismatches


def drawn_tables(draws: Array, errors: Integers) -> dict[str, Array]:
    """Return the tables of the families that payloads are looked for among, by their names.

    How many of the families drawn have a payload says how frequent it is, but by chance more or
    less. The less these numbers differ by more than chance, the more weight has their mean.

    Args:
        draws: DRAW[*] of one sample, sorted by hash.
        errors: i64[2, 256], 2^20 times the error of a draft's base.
    """
    known = np.bitwise_count(draws["mask"])
    least = max(LEAST_COMPARED, 3 * int(known.max(initial=0)) // 4)
    drawn = draws[known >= least][:MOST_DRAWN]
    lanes = np.empty(drawn.size, np.uint64)
    spread_masks(drawn["mask"].copy(), lanes)
    near = np.empty(drawn.size, np.int64)
    count_near(drawn["draft"].copy(), lanes, near)
    mean, weight = number_weight(near)
    error = errors[np.where(drawn["reads"] == 1, 0, 1), drawn["draft_quality"]]
    logs = ln_unit(np.maximum([(near == 0).sum(), weight, (1.0 - weight) * mean], LEAST_NUMBER))
    tables = {
        "hash": drawn["hash"],
        "draft": drawn["draft"],
        "lanes": lanes,
    }
    room = {name: np.zeros(MOST_DRAWN, np.uint64) for name in tables}
    for name, values in tables.items():
        room[name][: drawn.size] = values
    return {
        "drawn": np.array([drawn.size, int(error.sum()) // max(1, drawn.size), *logs], np.int64),
        **{f"drawn_{name}": values for name, values in room.items()},
    }


def number_weight(near: Integers) -> tuple[float, float]:
    """Return (mean, weight of a family's own number) of others with its payload.

    A number is its expectation and chance, of which the variance is the mean; what is more is due
    to the payloads.

    Args:
        near: i64[n], how many others have each family's payload.
    """
    if not near.size:
        return 0.0, 1.0
    mean = ordered_sum(near) / near.size
    spread = ordered_sum((near - mean) * (near - mean)) / near.size
    more = max(spread - mean * (1.0 + CHANCE_SPREAD), 0.0)
    return mean, more / max(more + mean, LEAST_NUMBER)


def payload_shares(pairs: DraftPairs) -> tuple[float, Floats]:
    """Split random pairs of families into those of equal payloads and the rest.

    Expectation and maximisation over the classes of error: pairs with equal payloads differ as
    `same_shares` says, the others as is left, in bands of compared bases.

    Returns:
        (share of equal payloads, f64[33, 33] P(another payload, mismatches | compared)).
    """
    side = DRAFT + 1
    told = pairs.compared >= LEAST_COMPARED
    cells = (pairs.errors * side + pairs.compared) * side + pairs.mismatches
    cell, count = np.unique(cells[told], return_counts=True)
    weight = count.astype(np.float64)
    mismatches, compared = cell % side, cell // side % side
    same = same_shares().reshape(-1)[cell]
    bands = np.searchsorted(BAND_STARTS, np.arange(side), side="right")
    flat = bands[compared] * side + mismatches
    equal = 0.5
    other = binomial(MOST_ERROR)
    for _ in range(EM_ROUNDS):
        one = equal * same
        two = (1.0 - equal) * other[compared, mismatches]
        first = weight * (one / (one + two))
        equal = (ordered_sum(first) + 0.5) / (int(told.sum()) + 1.0)
        rest = np.bincount(flat, weight - first, (len(BAND_STARTS) + 1) * side)
        other = unrelated_shares(rest.astype(np.float64).reshape(-1, side)[bands])
    return equal, (1.0 - equal) * other


def unrelated_shares(counts: Floats) -> Floats:
    """Return f64[33, 33], shares of mismatches by compared bases from counts of the same shape."""
    spread = counts + 0.5 / (DRAFT + 1)
    totals = np.cumsum(spread, axis=1)[:, -1:]
    shares: Floats = (1.0 - RANDOM_SHARE) * spread / totals + RANDOM_SHARE * binomial(MOST_ERROR)
    return shares
