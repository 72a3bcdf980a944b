"""What the families of one sample say about it: molecules, error rate, sizes, equal payloads.

Everything comes from sums that add up over buckets. Floats are made by + - * / alone, in a fixed
order, so that every machine gets the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from umimill.barcode_error import (
    chosen_error,
    effective_errors,
    error_from_pairs,
    lone_share,
    pair_counts,
    quality_error,
    whole_error,
)
from umimill.likelihood import ordered_sum, square_root
from umimill.molecule_sizes import (
    beyond_chance,
    expected_children,
    growth_shares,
    molecule_counts,
    size_shares,
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
# The formula of chance is off by so much of the occupancy.
CHANCE_DOUBT = 0.25


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
        pair_sizes: i64[32, 64], compatible ones by the reads of both, see kernels.link.count_pairs.
        minor_sizes: i64[64], chimeras and shifted reads by their looks: families that share an end
            with one of their key of twice their reads or more, or are flagged, by reads.
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
    minor_sizes: Integers
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
    by_quality = quality_error(sums.phreds)
    alone = lone_share(sums.wrong) if by_quality is not None else 1.0
    found, spread = None, 0.0
    if len(places) and not blind:
        counted = pair_counts(sums.sizes, sums.counts, sums.pair_sizes, rate, len(places))
        doubt = CHANCE_DOUBT * (occupancy * clonality + crowded)
        found, spread = error_from_pairs(counted, doubt)
    lone, basis = chosen_error(found, spread, None if by_quality is None else by_quality * alone)
    census = None if found is None else whole_error(found, by_quality, alone)
    bases = length - cell
    scale = bases / len(places) if places else 1.0
    own = sums.sizes, sums.counts
    children = (
        beyond_chance(*own, sums.pair_sizes[1:].sum(0), rate) * scale
        if census is not None
        else expected_children(*own, lone, bases)
    )
    # By chance another molecule has a family's barcode, whatever its ends: too many are left.
    parts = beyond_chance(*own, sums.minor_sizes, occupancy)
    counts = molecule_counts(*own, children + parts, bases * lone)
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


def shrunk_composition(sums: Sums, families: int, length: int) -> Floats:
    """Return f64[32, 4], shares of bases by position, even where little is known.

    Children repeat the bases of their parents, so only as many families count as are no child.
    """
    children = int(sums.pair_sizes[1:].sum())
    cell = min(int(sums.cells[2]), length)
    places = max(1, length - max(sums.width, cell))
    single = max(families - children * max(1, length - cell) / places, families / 50)
    seen = np.maximum(1, sums.composition.sum(1))[:, None]
    prior = COMPOSITION_PRIOR / 4
    shares: Floats = (single * (sums.composition / seen) + prior) / (single + COMPOSITION_PRIOR)
    shares[sums.composition.sum(1) == 0] = 0.25
    return shares
