"""Naive twin of the score of an edge: floats and math, one formula at a time.

Written from the design. Numbers of a library come as `Facts`; logarithms are natural, not scaled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from oracle import key_of
from oracle_drafts import splitmix64

# Errors of PCR, by base and cycle.
POLYMERASE = 1e-5
NEVER = -1e15


@dataclass(frozen=True)
class Family:
    """A family.

    Attributes:
        barcode: its bases.
        draft: 32 letters, "." where the base is not known.
        reads: reads.
        family: its number.
        cell: bases of the barcode that are the cell's.
        quality: half-Phreds of the barcode's bases.
        draft_quality: half-Phred of the draft's bases.
    """

    barcode: str
    draft: str
    reads: int
    family: int
    quality: tuple[int, ...]
    draft_quality: int
    cell: int = 0


@dataclass(frozen=True)
class Facts:
    """What is taken to be true of a sample.

    Attributes:
        molecules: families of molecules.
        neighbours: the same of those that share the cell of one.
        composition: shares of A, C, G, T by barcode position.
        errors: error of a barcode base by half-Phred.
        error: their mean.
        sizes: share of one size, by the bin that holds it.
        bounds: first size of each bin, and the end.
        growth: how often a molecule has so many reads, up to a factor.
        draft_errors: error of a draft's base by half-Phred, for one read and for more.
        equal: share of random pairs of one payload.
        unrelated: P(another payload, mismatches | compared), by compared and mismatches.
        drawn: hash and draft of families drawn at random.
        drawn_error: error of a base of their drafts.
    """

    molecules: float
    neighbours: float
    composition: Sequence[Sequence[float]]
    errors: Sequence[float]
    error: float
    sizes: Sequence[float]
    bounds: Sequence[int]
    growth: Sequence[float]
    draft_errors: Sequence[Sequence[float]]
    equal: float
    unrelated: Sequence[Sequence[float]]
    drawn: tuple[tuple[int, str], ...] = ()
    drawn_error: float = 0.0


def log_sum(*terms: float) -> float:
    """Return ln of the sum of exp of the terms."""
    most = max(terms)
    return most + math.log(sum(math.exp(max(term - most, -700)) for term in terms))


def polymerase_errors(few: int, reads: int) -> float:
    """Return how many PCR errors to one certain neighbour so many of a molecule's reads carry."""
    return reads * POLYMERASE / 3 / math.log(2) / (few * (few - 1))


def ln_error(facts: Facts, child: Family, parent: Family, position: int) -> float:
    """Return ln of the rate at which the parent has this child."""
    few, many = child.reads, parent.reads
    growth = 0.0
    if few + many < len(facts.growth):
        # A molecule of few + many reads, of which `few` in one way are wrong.
        growth = math.log(facts.growth[few + many]) - math.log(facts.growth[many])
        ways = growth + math.log(math.comb(few + many, few))
    else:
        ways = few * math.log(many) - math.lgamma(few + 1)

    def sequencing(family: Family) -> float:
        error = facts.errors[family.quality[position]]
        others = [at for at in range(family.cell, len(family.quality)) if at != position]
        # A single read has all other bases right.
        right = sum(math.log(1 - facts.errors[family.quality[at]]) for at in others)
        alone = right if family.reads == 1 else 0.0
        return ways + few * math.log(error / 3) + alone - many * facts.error / 3

    terms = [sequencing(child)]
    if few == many:
        terms.append(sequencing(parent))
    if 2 <= few <= many / 2:
        terms.append(growth + math.log(polymerase_errors(few, few + many)))
    return log_sum(*terms)


def ln_independent(facts: Facts, child: Family) -> float:
    """Return ln of the expected number of molecules with this barcode and so many reads."""
    # A cell barcode of fewer than four bases is none.
    cell = child.cell if child.cell >= 4 else 0
    total = math.log(facts.neighbours if cell else facts.molecules)
    for position, base in list(enumerate(child.barcode))[cell:]:
        total += math.log(facts.composition[position]["ACGT".index(base)])
    place = max(at for at, bound in enumerate(facts.bounds[:-1]) if bound <= child.reads)
    return total + math.log(facts.sizes[place])


def error_class(error: float) -> float:
    """Return the error that stands for all within half a doubling, from 2^-14 on."""
    scaled = max(1, round(error * 2**20))
    power = 2.0 ** math.floor(math.log2(scaled))
    lower = power if scaled < 1.5 * power else 1.5 * power
    middle = lower + power / 4
    return min(max(middle, 2.0**6 * 1.25) / 2**20, 0.7)


def same(error: float, compared: int, mismatches: int) -> float:
    """Return P(mismatches | one molecule): a binomial and 1% of a beta-binomial(1, 9)."""
    ways = math.comb(compared, mismatches)

    def beta(first: float, second: float) -> float:
        return math.exp(math.lgamma(first) + math.lgamma(second) - math.lgamma(first + second))

    plain = error**mismatches * (1 - error) ** (compared - mismatches)
    spread = beta(1 + mismatches, 9 + compared - mismatches) / beta(1, 9)
    return ways * (0.99 * plain + 0.01 * spread)


def compare(draft: str, other: str) -> tuple[int, int]:
    """Return (bases known in both drafts, bases of them that differ)."""
    both = [(a, b) for a, b in zip(draft, other, strict=True) if "." not in (a, b)]
    return len(both), sum(a != b for a, b in both)


def hash_of(family: Family) -> int:
    """Return the hash by which a family is drawn."""
    inner = family.family | (len(family.barcode) - family.cell) << 16 | family.cell << 24
    return splitmix64(key_of(family.barcode) ^ splitmix64(inner))


def ways(compared: int, mismatches: int) -> int:
    """Return how many drafts differ from one at so many of the bases compared."""
    return math.comb(compared, mismatches) * 3**mismatches


def density(facts: Facts, family: Family, drawn: Sequence[str]) -> float:
    """Return the sum over families drawn of P(just this draft | that family's molecule)."""
    error = facts.draft_errors[0 if family.reads == 1 else 1][family.draft_quality]
    kind = error_class(error + facts.drawn_error)
    total = 0.0
    for draft in drawn:
        compared, mismatches = compare(family.draft, draft)
        if compared >= 12 and mismatches < 8:
            total += same(kind, compared, mismatches) / ways(compared, mismatches)
    return total


@cache
def numbers(drawn: tuple[tuple[int, str], ...]) -> tuple[float, float, float]:
    """Return how many families drawn have a payload of their own, and a number's weight and more.

    The credibility of the number of others with a family's payload: its variance without chance
    over all of it.
    """
    near = [-1] * len(drawn)
    for at, (_, draft) in enumerate(drawn):
        for _, other in drawn:
            compared, mismatches = compare(draft, other)
            near[at] += compared >= 12 and mismatches <= 1
    mean = sum(near) / len(near)
    more = max(sum((one - mean) ** 2 for one in near) / len(near) - 1.19 * mean, 0)
    weight = more / (more + mean) if mean else 0
    return max(near.count(0), 1e-6), max(weight, 1e-6), max((1 - weight) * mean, 1e-6)


def payload(facts: Facts, child: Family, parent: Family) -> float:
    """Return ln(P(drafts | one molecule) / P(drafts | two))."""
    compared, mismatches = compare(child.draft, parent.draft)
    if compared < 12:
        return 0.0
    error = sum(
        facts.draft_errors[0 if one.reads == 1 else 1][one.draft_quality] for one in (child, parent)
    )
    alike = same(error_class(error), compared, mismatches)
    two = facts.equal * alike + facts.unrelated[compared][mismatches]
    near = mismatches <= (3 * compared + 16) // 32
    pair = hash_of(child), hash_of(parent)
    others = [draft for hashed, draft in facts.drawn if hashed not in pair]
    if near and others:
        sums = [density(facts, one, others) for one in (child, parent)]
        # Of two equal drafts neither is the misread one.
        seen = min(sums) if mismatches else sums[0]
        lone, weight, more = numbers(facts.drawn)
        two = weight * seen * ways(compared, mismatches) + more * alike
        two = (two + lone * facts.unrelated[compared][mismatches]) / len(others)
    most = 30.0 if near else 0.0
    return min(max(math.log(max(alike, 1e-30)) - math.log(two), -30.0), most)


def score(
    facts: Facts, child: Family, parent: Family, position: int
) -> tuple[float, float, float, float]:
    """Return (score, ln_error, ln_independent, payload)."""
    error = ln_error(facts, child, parent, position)
    independent = ln_independent(facts, child)
    likeness = payload(facts, child, parent)
    return error - independent + likeness, error, independent, likeness


def rank(family: Family) -> tuple[int, int, str, int]:
    """Return a key by which a family sorts before those that rank below it."""
    return -family.reads, -sum(family.quality), family.barcode, family.family
