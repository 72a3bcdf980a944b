"""What the families of one sample say about it: molecules, error rate, sizes, equal payloads.

Everything comes from sums that add up over buckets. Floats are made by + - * / alone, in a fixed
order, so that every machine gets the same ones.

An error child lies one base from its parent, so errors show as pairs of neighbours above what
chance gives. Reads of one type of error from a molecule of N reads are Binomial(N, e / 3), so at
each barcode position 3 sum(t) children are expected, t = 1 - (1 - e / 3)^N, and 3 sum(t^2) pairs
of children of one parent. A family's reads stand for N where there are two or more; of molecules
read once the errors have no parent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from umimill.kernels.score import EXACT_SIZES, GROWTH, SIZE_BINS
from umimill.likelihood import (
    MOST_ERROR,
    ordered_sum,
    phred_errors,
    quality_errors,
    whole_power,
)
from umimill.payloads import DraftPairs, payload_shares

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# Observations that the composition starts with: families copy the bases of few molecules.
COMPOSITION_PRIOR = 20.0
# Where chance pairs are many and payloads cannot tell them apart, their excess is not seen.
MOST_OCCUPANCY = 0.05
MOST_CLONALITY = 0.5
DEVIATIONS = 3.0
# The census is within so many standard errors of the quality by chance.
STANDARD_ERRORS = 2.0
# The formula of chance is off by so much of the occupancy.
CHANCE_DOUBT = 0.25
LEAST_QUALITY_SHARE = 0.2
DEFAULT_ERROR = 1e-3
LEAST_ALONE = 0.05
# Of the families of one size at least so many are taken to be molecules, and as many as the square
# root of those that are not.
LEAST_MOLECULES = 0.01
# Families that say "as many reads as a family of its size suggests".
GROWTH_PRIOR = 10.0


@dataclass(frozen=True)
class Sums:
    """The sums of a sample over all its buckets.

    Attributes:
        width: w of its leaves.
        sizes: i64[m], reads of a family, ascending.
        counts: i64[m], families of that many reads.
        composition: i64[32, 4], families by base at a barcode position.
        phreds: i64[94], barcode bases of reads by Phred.
        wrong: i64[2], reads of which one base alone is wrong, and wrong bases, as Phreds have it.
        pairs: i64[32, 2], pairs of neighbours by position >= w: all, compatible.
        pair_sizes: i64[64], compatible ones with twice the reads of the smaller one, by its reads.
        cells: i64[3], families in cells, the sum over these of the families of their cell, and the
            bases of a cell barcode; zeros without cells.
        drafts: pairs of random families.
    """

    width: int
    sizes: Integers
    counts: Integers
    composition: Integers
    phreds: Integers
    wrong: Integers
    pairs: Integers
    pair_sizes: Integers
    cells: Integers
    drafts: DraftPairs


@dataclass(frozen=True)
class Estimates:
    """What is taken to be true of a sample; floats are for tables and the report.

    Attributes:
        length: bases of the barcode.
        families: families.
        reads: their reads.
        molecules: families that are no error of another one.
        composition: f64[32, 4].
        space: S = 1 / P(two barcodes are equal); with cells, that they share their cell too.
        occupancy: families / space.
        crowd: families that share a family's cell, itself among them; all without cells.
        density: neighbours of another payload, over those that the composition gives; from 1 on.
        clonality: share of random pairs of families with compatible payloads.
        equal_payloads: share of random pairs with the same payload.
        unrelated: f64[33, 33], P(another payload, mismatches | compared).
        excess: compatible neighbours above chance.
        chance: those expected by chance.
        alone: share of wrong bases whose read has no other in its UMI.
        error_census: error of a barcode base from pairs; None where it cannot be told.
        error_quality: the same from qualities; None where there are none.
        error: the one that is used.
        basis: "census", "quality", "both" or "default": where it is from.
        errors: f64[256], error of a base by half-Phred.
        sizes: f64[SIZE_BINS], share of molecules of one exact size, by bin.
        growth: f64[GROWTH + 1], share of molecules of so many reads, up to a factor.
    """

    length: int
    families: int
    reads: int
    molecules: float
    composition: Floats
    space: float
    occupancy: float
    crowd: float
    density: float
    clonality: float
    equal_payloads: float
    unrelated: Floats
    excess: float
    chance: float
    alone: float
    error_census: float | None
    error_quality: float | None
    error: float
    basis: str
    errors: Floats
    sizes: Floats
    growth: Floats


def estimate(sums: Sums) -> Estimates:
    """Estimate everything of a sample; it may have no family, or one."""
    families = int(sums.counts.sum())
    seen = sums.composition.sum(1)
    # Of barcodes of several lengths, the places that most of them have.
    length = int((2 * seen >= max(1, families)).sum())
    # Bases of cells are corrected by other means: errors and neighbours are those of UMIs.
    cell = min(int(sums.cells[2]), length)
    places = range(max(sums.width, cell), length)
    composition = shrunk_composition(sums, families, length)
    umi_space, near, crowding = neighbourhood(composition[cell:length], places.start - cell)
    crowd = cell_crowd(sums, families)
    occupancy = crowd / umi_space
    clonality = sums.drafts.clonality
    crowded = crowd * crowding * clonality
    # Neighbours of a family at the places of the census, by chance, whatever their payload.
    rate = occupancy * near / (1.0 + crowded)
    every, pairs = sums.pairs[places.start : length].sum(0).tolist()
    density = neighbour_density(every - pairs, families * rate / 2 * (1.0 - clonality), clonality)
    rate *= density * clonality
    chance = rate * max(families - 1, 0) / 2
    excess = pairs - chance
    blind = clonality > MOST_CLONALITY and occupancy > MOST_OCCUPANCY
    doubt = CHANCE_DOUBT * (occupancy * clonality + crowded) * chance
    deviation = square_root(max(chance + doubt * doubt, 1.0))
    by_quality = quality_error(sums.phreds)
    alone = lone_share(sums.wrong) if by_quality is not None else 1.0
    told = places and not blind and excess > DEVIATIONS * deviation
    seen = solve_error(sums.sizes, sums.counts, excess, len(places)) if told else None
    spread = square_root(max(pairs + doubt * doubt, 1.0)) / excess if told else 0.0
    lone, basis = chosen_error(seen, spread, None if by_quality is None else by_quality * alone)
    census = None if seen is None else whole_error(seen, by_quality, alone)
    bases = length - cell
    scale = bases / len(places) if places else 1.0
    children = (
        measured_children(sums, rate, scale)
        if census is not None
        else expected_children(sums, lone, bases)
    )
    counts = molecule_counts(sums, children, bases * lone)
    molecules = ordered_sum(counts)
    error = whole_error(lone, by_quality, alone)
    equal, unrelated = payload_shares(sums.drafts)
    return Estimates(
        length=length,
        families=families,
        reads=int((sums.sizes * sums.counts).sum()),
        molecules=molecules,
        composition=composition,
        space=umi_space * max(1, families) / crowd,
        occupancy=occupancy,
        crowd=crowd,
        density=density,
        clonality=clonality,
        equal_payloads=equal,
        unrelated=unrelated,
        excess=excess,
        chance=chance,
        alone=alone,
        error_census=census,
        error_quality=by_quality,
        error=error,
        basis=basis,
        errors=effective_errors(error, by_quality),
        sizes=size_shares(sums.sizes, counts),
        growth=growth_shares(sums.sizes, counts),
    )


def neighbourhood(composition: Floats, first: int) -> tuple[float, float, float]:
    """Return how close random barcodes are.

    Keys that many molecules have count once, so that frequent ones have fewer neighbours than the
    squares of their shares say: by 1 - molecules * crowding, to first order.

    Args:
        composition: f64[L, 4], shares of the bases of a barcode.
        first: place from which on neighbours may differ.

    Returns:
        (1 / P(two are equal); P(they are neighbours at a place from `first` on) over P(equal);
        crowding).
    """
    equal, triple, near, near_triple = 1.0, 1.0, 0.0, 0.0
    for place, row in enumerate(composition):
        second, third = ordered_sum(row * row), ordered_sum(row * row * row)
        equal *= second
        triple *= third
        if place >= first:
            near += (1.0 - second) / second
            near_triple += (second - third) / third
    crowding = triple * near_triple / (equal * near) - equal if near > 0 else 0.0
    return 1.0 / equal, near, max(crowding, 0.0)


def cell_crowd(sums: Sums, families: int) -> float:
    """Return how many families share a family's cell, itself among them, in the mean; at least 1.

    Without cells all families do.
    """
    inside, together, _ = (int(one) for one in sums.cells)
    return max(1.0, together / inside if inside else float(families))


def neighbour_density(found: int, expected: float, clonality: float) -> float:
    """Return how much closer barcodes lie than their composition says, 1 where it cannot be told.

    They do where their bases depend on one another. Neighbours of another payload are no errors, so
    they tell.

    Args:
        found: pairs of neighbours with another payload.
        expected: the same from the composition.
        clonality: share of random pairs with compatible payloads.
    """
    if clonality > MOST_CLONALITY or found <= expected + DEVIATIONS * square_root(expected + 1.0):
        return 1.0
    return found / max(expected, 1e-12)


def square_root(value: float) -> float:
    """Return the square root of a number from 1 on, by Newton's steps."""
    root = value
    for _ in range(100):
        better = (root + value / root) / 2
        if better >= root:
            break
        root = better
    return root


def shrunk_composition(sums: Sums, families: int, length: int) -> Floats:
    """Return f64[32, 4], shares of bases by position, even where little is known.

    Children repeat the bases of their parents, so only as many families count as are no child.
    """
    children = int(sums.pair_sizes.sum())
    cell = min(int(sums.cells[2]), length)
    places = max(1, length - max(sums.width, cell))
    single = max(families - children * max(1, length - cell) / places, families / 50)
    seen = np.maximum(1, sums.composition.sum(1))[:, None]
    prior = COMPOSITION_PRIOR / 4
    shares: Floats = (single * (sums.composition / seen) + prior) / (single + COMPOSITION_PRIOR)
    shares[sums.composition.sum(1) == 0] = 0.25
    return shares


def solve_error(sizes: Integers, counts: Integers, excess: float, places: int) -> float:
    """Return the error that makes `excess` pairs at so many places, by bisection."""
    several = sizes >= 2
    reads, weights = sizes[several], counts[several].astype(np.float64)
    low, high = 0.0, 0.5
    for _ in range(50):
        error = (low + high) / 2
        share = 1.0 - whole_power(1.0 - error / 3, reads)
        expected = 3 * places * ordered_sum(weights * (share + share * share))
        low, high = (error, high) if expected < excess else (low, error)
    return (low + high) / 2


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


def measured_children(sums: Sums, rate: float, scale: float) -> Floats:
    """Return f64[64], error children by reads: pairs with a family of twice as many, less chance.

    Args:
        sums: sums.
        rate: neighbours that a family has by chance at the places of the census.
        scale: places of the barcode over those of the census.
    """
    children = np.zeros(64)
    families = int(sums.counts.sum())
    for index, reads in enumerate(sums.sizes.tolist()):
        if reads >= 63:
            break
        larger = int(sums.counts[np.searchsorted(sums.sizes, 2 * reads) :].sum())
        by_chance = int(sums.counts[index]) * rate * (larger / families)
        children[reads] = max(0.0, int(sums.pair_sizes[reads]) - by_chance) * scale
    return children


def expected_children(sums: Sums, error: float, length: int) -> Floats:
    """Return f64[64], error children by reads as the error rate has it: Binomial(reads, e / 3)."""
    children = np.zeros(64)
    sizes = sums.sizes.astype(np.float64)
    weights = sums.counts * (3.0 * length) * whole_power(1.0 - error / 3, sums.sizes)
    odds = error / 3 / (1.0 - error / 3)
    for reads in range(1, 64):
        weights = weights * np.maximum(sizes - (reads - 1), 0.0) / reads * odds
        children[reads] = ordered_sum(weights[sums.sizes >= 2 * reads])
    return children


def molecule_counts(sums: Sums, children: Floats, barcode_error: float) -> Floats:
    """Return f64[m], families less children by size, never fewer than a small share of them."""
    counts = sums.counts.astype(np.float64)
    result = np.maximum(counts, 0.0)
    for index, reads in enumerate(sums.sizes.tolist()):
        if reads >= 63:
            break
        gone = float(children[reads])
        if reads == 1:
            # A molecule of two reads, one of them wrong, is no pair of the one kind counted.
            twice = counts[index + 1] if sums.sizes[index + 1 : index + 2].tolist() == [2] else 0
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
