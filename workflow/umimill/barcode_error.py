"""The error of a barcode base, from neighbours and from qualities.

An error child lies one base from its parent, so errors show as pairs of neighbours above what
chance gives. Reads of one type of error from a molecule of N reads are Binomial(N, e / 3), and a
family's reads stand for N.

Floats are made by + - * / alone, in a fixed order, so that every machine gets the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.likelihood import (
    MOST_ERROR,
    ordered_sum,
    phred_errors,
    quality_errors,
    square_root,
    whole_power,
)

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# Families of few reads are left out that have together less than this share of all reads: in a deep
# library they are errors and chimeras, whose own neighbours are other errors of their molecule.
LEAST_READS_SHARE = 0.2
# An error is told where its standard error is less than this share of it.
MOST_SPREAD = 1 / 3
# The census is within so many standard errors of the quality by chance.
STANDARD_ERRORS = 2.0
LEAST_QUALITY_SHARE = 0.2
DEFAULT_ERROR = 1e-3
LEAST_ALONE = 0.05
# 1e-5 / 3 / ln 2, see kernels.score.ln_polymerase.
PCR_ERROR = 4.809e-6
MOST_STEPS = 1000
LEAST_STEP = 1e-9


@dataclass(frozen=True)
class Parents:
    """Families by class, of class c those of 2^c reads and more, as parents of errors.

    Attributes:
        slots: f64[C, 1], errors of one kind that they may have, at the places of the census.
        reads: f64[C, 1], their mean reads.
    """

    slots: Floats
    reads: Floats


@dataclass(frozen=True)
class PairCounts:
    """Pairs of neighbours, by class of the larger family and by the reads r of the smaller one.

    Attributes:
        parents: of the classes that are used.
        found: f64[C, R], pairs, r = 1 .. R.
        pcr: f64[C, R], those expected by errors of PCR.
        chance: f64[C, R], those expected by chance.
    """

    parents: Parents
    found: Floats
    pcr: Floats
    chance: Floats


def error_from_pairs(counted: PairCounts, doubt: float) -> tuple[float | None, float]:
    """Return (error of a base from pairs of neighbours, its relative standard error).

    Expectation maximisation: of each kind of pairs the share that is errors by the error so far is
    taken for errors, and their reads over those that could be wrong are the next one.

    Args:
        counted: pairs.
        doubt: relative error of those by chance.

    Returns:
        (None, 0.0) where it cannot be told.
    """
    parents, found = counted.parents, counted.found
    wrong = np.arange(1, found.shape[1] + 1, dtype=np.float64)
    could_be = ordered_sum(parents.slots * parents.reads)
    if not could_be or not found.any():
        return None, 0.0
    others = counted.pcr + counted.chance
    # As if all were errors: from far off, deep families would find no errors at all.
    share = min(ordered_sum(found * wrong) / could_be, MOST_ERROR / 3)
    for _ in range(MOST_STEPS):
        expected = expected_errors(parents, share, found.shape[1])
        # The last of the smaller ones stands for all that have more reads, too.
        reads = np.where(wrong < 63, wrong, np.maximum(wrong, parents.reads * share))
        errors = found * reads * (expected / np.maximum(expected + others, 1e-300))
        before, share = share, min(ordered_sum(errors) / could_be, MOST_ERROR / 3)
        if abs(share - before) <= LEAST_STEP * before:
            break
    expected = expected_errors(parents, share, found.shape[1])
    slope = expected * (wrong - parents.reads * share)
    every = np.maximum(expected + others, 1e-300)
    told = ordered_sum(slope * slope / every)
    if told < 1:
        return None, 0.0
    noise = square_root(told) / told
    bias = doubt * ordered_sum(slope * counted.chance / every) / told
    spread = square_root(1 + bias * bias / (noise * noise)) * noise
    return (3 * share, spread) if spread < MOST_SPREAD else (None, 0.0)


def expected_errors(parents: Parents, share: float, most: int) -> Floats:
    """Return f64[C, most], expected errors by reads r = 1 .. most: Binomial(reads, share)."""
    odds = share / (1.0 - share)
    whole = np.rint(parents.reads).astype(np.int64)
    term = parents.slots * whole_power(1.0 - share, whole)
    columns = []
    for reads in range(1, most + 1):
        term = term * (np.maximum(parents.reads - (reads - 1), 0.0) / reads * odds)
        columns.append(np.where(is_pair(parents.reads - reads, reads), term, 0.0))
    return np.concatenate(columns, axis=1)


def is_pair(larger: Floats, smaller: Any) -> npt.NDArray[np.bool_]:
    """Return whether the larger family has twice the reads, or both have one."""
    found: npt.NDArray[np.bool_] = (larger >= 2 * smaller) | ((larger == 1) & (smaller == 1))
    return found


def pair_counts(
    sizes: Integers, counts: Integers, pairs: Integers, rate: float, places: int
) -> PairCounts:
    """Return the pairs of the sizes that most reads are in, and what is expected of them.

    Args:
        sizes: i64[m], reads of a family, ascending.
        counts: i64[m], families of that many reads.
        pairs: i64[32, 64], see kernels.link.count_pairs.
        rate: neighbours that a family has by chance at the places of the census.
        places: these.
    """
    weights = counts.astype(np.float64)
    # A molecule of N reads, one of them wrong, is a parent of N - 1.
    several = sizes > 1
    parent = size_classes(sizes[several] - 1)
    families = np.bincount(parent, weights[several], pairs.shape[0])
    reads = np.bincount(parent, (weights * sizes)[several], pairs.shape[0])
    share = np.cumsum(reads) + ordered_sum(weights[sizes == 1])
    used = np.flatnonzero((share >= LEAST_READS_SHARE * share[-1]) & (families > 0))
    mean = reads / np.maximum(families, 1.0)
    slots = 3.0 * places * families.astype(np.float64)
    found = pairs[used, 1:].astype(np.float64)
    most = int(np.flatnonzero(found.any(0))[-1]) + 1 if found.any() else 1
    parents = Parents(slots[used, None], mean[used, None])
    smaller = np.arange(1, most + 1, dtype=np.float64)
    pcr, chance = np.zeros((used.size, most)), np.zeros((used.size, most))
    carried = np.where(smaller < 63, smaller * (smaller - 1), 62.0)[1:]
    pcr[:, 1:] = parents.slots * parents.reads * PCR_ERROR / carried
    pcr[~is_pair(parents.reads - smaller, smaller)] = 0.0
    number = size_classes(sizes)
    for column in range(most):
        few = column + 1
        own = ordered_sum(weights[sizes == few] if few < 63 else weights[sizes >= 63])
        large = is_pair(sizes.astype(np.float64), few)
        larger = np.bincount(number[large], weights[large], pairs.shape[0])
        chance[:, column] = own * rate * larger[used] / max(1.0, ordered_sum(weights))
    # Of two of one read each is the larger one.
    chance[used == 0, 0] /= 2
    return PairCounts(parents, found[:, :most], pcr, chance)


def size_classes(sizes: Integers) -> Integers:
    """Return i64[m], floor(log2) of whole numbers from 1 on."""
    bounds = np.int64(1) << np.arange(1, 32)
    return np.searchsorted(bounds, sizes, side="right")


def quality_error(phreds: Integers) -> float | None:
    """Return the mean error that the Phreds say, None where they say nothing."""
    if not phreds[2:].any():
        return None
    return ordered_sum(phreds * phred_errors()) / int(phreds.sum())


def lone_share(wrong: Integers) -> float:
    """Return the share of wrong bases whose read has no other wrong one, as Phreds have it.

    Others leave no neighbour. Bad bases come together: they are far more than chance has it.
    """
    reads, bases = (int(one) for one in wrong)
    return max(LEAST_ALONE, reads / bases) if bases else 1.0


def whole_error(lone: float, by_quality: float | None, alone: float) -> float:
    """Return the error of a base from that of bases whose read has no other wrong one.

    What is more than the qualities say is before the sequencer, where errors do not come together.
    """
    if by_quality is None or lone < by_quality * alone:
        return lone / alone
    return by_quality + (lone - by_quality * alone)


def chosen_error(
    census: float | None, spread: float, by_quality: float | None
) -> tuple[float, str]:
    """Return the error to use, of bases that are wrong alone, and where it is from.

    The census moves the quality's error as far as it differs by more than chance would have it.

    Args:
        census: error from pairs.
        spread: its relative standard error.
        by_quality: error from qualities.
    """
    if by_quality is None:
        return (census, "census") if census is not None else (DEFAULT_ERROR, "default")
    if census is None:
        return by_quality, "quality"
    apart = census - by_quality
    noise = STANDARD_ERRORS * spread * census
    if apart * apart <= noise * noise:
        return by_quality, "quality"
    share = 1.0 - noise * noise / (apart * apart)
    error = by_quality + share * apart
    return max(error, LEAST_QUALITY_SHARE * by_quality), "both"


def effective_errors(error: float, by_quality: float | None) -> Floats:
    """Return f64[256], the error of a base by half-Phred.

    What is more than the qualities say happened before the sequencer saw the base, whatever its
    quality; where they say too much, each is too low by the same factor.
    """
    if by_quality is None:
        return np.full(quality_errors().size, min(error, MOST_ERROR))
    if error >= by_quality:
        return np.minimum(quality_errors() + (error - by_quality), MOST_ERROR)
    return np.minimum(quality_errors() * (error / by_quality), MOST_ERROR)
