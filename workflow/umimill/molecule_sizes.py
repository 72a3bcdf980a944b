"""How many molecules have how many reads: families of each size less the errors among them.

Floats are made by + - * / alone, in a fixed order, so that every machine gets the same ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from umimill.kernels.score import EXACT_SIZES, GROWTH, SIZE_BINS
from umimill.likelihood import ordered_sum, square_root, whole_power

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# Of the families of one size at least so many are taken to be molecules, and as many as the square
# root of those that are not.
LEAST_MOLECULES = 0.01
# Families that say "as many reads as a family of its size suggests".
GROWTH_PRIOR = 10.0


def beyond_chance(sizes: Integers, counts: Integers, seen: Integers, rate: float) -> Floats:
    """Return f64[64], families beside one of twice their reads, by reads, less those by chance.

    Args:
        sizes: i64[m], reads of a family, ascending.
        counts: i64[m], families of that many reads.
        seen: i64[64], families beside one of twice their reads or more, by reads.
        rate: families that are beside one by chance, whatever their reads.
    """
    beyond = np.zeros(64)
    families = int(counts.sum())
    for index, reads in enumerate(sizes.tolist()):
        if reads >= 63:
            break
        larger = int(counts[np.searchsorted(sizes, 2 * reads) :].sum())
        by_chance = int(counts[index]) * rate * (larger / families)
        beyond[reads] = max(0.0, int(seen[reads]) - by_chance)
    return beyond


def expected_children(sizes: Integers, counts: Integers, error: float, length: int) -> Floats:
    """Return f64[64], error children by reads as the error rate has it: Binomial(reads, e / 3)."""
    children = np.zeros(64)
    weights = counts * (3.0 * length) * whole_power(1.0 - error / 3, sizes)
    odds = error / 3 / (1.0 - error / 3)
    for reads in range(1, 64):
        weights = weights * np.maximum(sizes - (reads - 1.0), 0.0) / reads * odds
        children[reads] = ordered_sum(weights[sizes >= 2 * reads])
    return children


def molecule_counts(
    sizes: Integers, counts: Integers, others: Floats, barcode_error: float
) -> Floats:
    """Return f64[m], families of each size that are molecules, never fewer than a small share.

    Args:
        sizes: i64[m], reads of a family, ascending.
        counts: i64[m], families of that many reads.
        others: f64[64], families that are no molecules, by reads.
        barcode_error: error of a barcode.
    """
    result = counts.astype(np.float64)
    for index, reads in enumerate(sizes.tolist()):
        if reads >= 63:
            break
        gone = float(others[reads])
        if reads == 1:
            # A molecule of two reads, one of them wrong, is no pair of the one kind counted.
            twice = counts[index + 1] if sizes[index + 1 : index + 2].tolist() == [2] else 0
            gone += 2 * barcode_error * float(twice)
        count = float(counts[index])
        least = max(LEAST_MOLECULES * count, square_root(gone) if gone > 1 else 0.0)
        result[index] = max(count - gone, min(least, count))
    return result


def size_bounds() -> Integers:
    """Return i64[SIZE_BINS + 1], first size of each bin of kernels.score.size_bin."""
    exact = list(range(EXACT_SIZES + 1))
    above = [(4 + quarter) << bits for bits in range(2, 30) for quarter in range(4)]
    above[0] = EXACT_SIZES + 1
    return np.array([*exact, *above, 1 << 32], np.int64)


def size_shares(sizes: Integers, counts: Floats) -> Floats:
    """Return f64[SIZE_BINS], the share of molecules of one exact size, by its bin; never 0."""
    bounds = size_bounds()
    number = np.searchsorted(bounds, sizes, side="right") - 1
    total = np.bincount(number, counts, SIZE_BINS)
    # Half a family a doubling: a size twice as large as all seen is half as likely as one.
    prior = np.full(SIZE_BINS, 0.125)
    prior[1 : EXACT_SIZES + 1] = 0.5 / np.arange(1, EXACT_SIZES + 1)
    prior[0] = 0.0
    total = total + prior
    shares: Floats = total / ordered_sum(total) / np.diff(bounds)
    shares[0] = shares[1]
    return shares


def growth_shares(sizes: Integers, counts: Floats) -> Floats:
    """Return f64[GROWTH + 1], how often molecules have so many reads, up to a factor; slot 0 is 0.

    Built from the mean reads that a molecule has beyond those seen, (n + 1) P(n + 1) / P(n); where
    there are few families it is drawn to n, what a family's size alone suggests. Most molecules
    seen once in a shallow library have no second read to be wrong.
    """
    seen = np.zeros(GROWTH + 2)
    few = sizes <= GROWTH + 1
    seen[sizes[few]] = counts[few]
    shares = np.zeros(GROWTH + 1)
    shares[1] = 1.0
    for reads in range(1, GROWTH):
        more = (reads + 1) * float(seen[reads + 1]) + GROWTH_PRIOR * reads
        rate = more / (float(seen[reads]) + GROWTH_PRIOR)
        rate = min(max(rate, reads / 50), 3.0 * reads + 1.0)
        shares[reads + 1] = shares[reads] * rate / (reads + 1)
    return shares
