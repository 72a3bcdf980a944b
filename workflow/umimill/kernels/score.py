"""The score of an edge: is a family the misread barcode of another, or a molecule of its own?

    score = ln_error - ln_independent + payload

- ln_error: how many families of c reads, wrong at this one base, a parent of C reads has. By
  sequencing, a molecule of C + c reads has c of them wrong in this way: P(C + c) / P(C) *
  (C + c over c) * (e / 3)^c, e the error of the child's own mean Phred, and all other bases of a
  single read right; P is how often a molecule has so many reads; where it is smooth this is a
  Poisson's C^c / c!. By PCR, an error of cycle t is in 2^-t of the copies: P(C + c) / P(C) *
  (C + c) / (c (c - 1)) * u / ln 2, c >= 2, u errors by neighbour and cycle.
- ln_independent: how many molecules have this very barcode and c reads.
- payload: how much likelier the child's draft is as the parent's, misread, than as that of some
  other family of the sample: of those drawn at random (near ones count by how they would be
  misread), and for payloads that none of these has, as the drafts of random pairs differ.

A log-likelihood is a whole number: inside in FINE = 1 / 2^20 nat, outside in 1 / 1024 nat. All
tables are of the library's model (model.py); what is in them is estimated in census.py and
payloads.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inline_kernel, kernel
from umimill.kernels.drafts import LEAST_COMPARED, compare_lanes, mask_to_lanes, mismatch_limit
from umimill.kernels.families import hash_family

U = np.uint64

FINE_BITS = 20
UNIT_BITS = 10
# From fine to unit, and half a unit to round by.
STEP_BITS = FINE_BITS - UNIT_BITS
HALF_STEP = 1 << (STEP_BITS - 1)

# Tables of whole numbers go up to here.
EXACT = 4096
LN_TWO = 762_123_384_786  # 2^40 ln(2)
HALF_LN_TWO_PI = 963_577  # fine
LN_CYCLE = -12_839_839  # fine, ln of 1e-5 / 3 / ln 2, of 1e-5 errors of PCR by base and cycle

# Sizes up to here have a bin each; above there are four to a doubling.
EXACT_SIZES = 16
SIZE_BINS = 129
# Parent and child together have at most so many reads where the spread of sizes is looked up.
GROWTH = 32

# Cells are told from four bases on: a bucket never ends inside of one.
LEAST_CELL = 4

DRAFT = 32
# Classes of the error of two drafts, two to a doubling, from 2^-14 on.
ERROR_CLASSES = 32
FIRST_CLASS = 14
MOST_PAYLOAD = 30 << UNIT_BITS
# A drawn family with this many mismatches or more is of another payload; P in 2^-NEAR_BITS.
NEAR = 8
NEAR_BITS = 40
MOST_TERM = 1 << 29
MOST_SCORE = 1 << 30
IMPOSSIBLE = -(1 << 50)

# Probabilities are in 2^-ONE_BITS.
ONE_BITS = 30


class EdgeModel(NamedTuple):
    """Tables of a library, by sample where their first dimension is S.

    Attributes:
        log: i64[EXACT + 1], fine ln(i); 0 for 0.
        factorial: i64[EXACT + 1], fine ln(i!).
        softplus: i64[*], 1024 ln(1 + exp(-i / 1024)) until that is 0.
        misread: i64[S, 256], fine ln(e / 3) of a barcode base by its half-Phred.
        right: i64[S, 256], fine ln(1 - e) by half-Phred.
        misses: i64[S], 2^30 E / 3, E the mean error of a barcode base.
        growth: i64[S, GROWTH + 1], fine ln of how often a molecule has so many reads, up to a
            constant; slot 0 unused.
        reads: i64[S], fine ln(reads).
        families: i64[S], fine ln(number of molecules' families).
        cell_families: i64[S], the same of those that share the cell of one.
        sizes: i64[S, SIZE_BINS], fine ln(share of those of one exact size), by bin.
        composition: i64[S, 32, 4], fine ln(share of a base at a barcode position).
        draft_errors: i64[S, 2, 256], 2^20 times the error of a draft's base by its half-Phred: of
            one read, of more.
        same: i64[ERROR_CLASSES, 33, 33], 1024 ln P(mismatches | one molecule), by class of error,
            compared bases and mismatches.
        unrelated: i64[S, 33, 33], 1024 ln P(another payload, mismatches | two molecules).
        clonal: i64[S], 1024 ln P(equal payloads | two molecules).
        ways: i64[33, 33], 1024 ln of how many drafts differ from one at so many of the bases
            compared, by compared bases and mismatches.
        near: i64[ERROR_CLASSES, 33, NEAR], 2^NEAR_BITS P(one such draft | one molecule).
        drawn: i64[S, 5], families drawn of the sample, 2^20 times the error of their drafts, and
            1024 ln of: how many of them have a payload of their own; the weight of the number of
            them that a payload has; what is added to that, see payloads.drawn_tables.
        drawn_hash: u64[S, *], kernels.families.hash_family of those.
        drawn_draft: u64[S, *], their drafts.
        drawn_lanes: u64[S, *], their masks in lanes.
    """

    log: Any
    factorial: Any
    softplus: Any
    misread: Any
    right: Any
    misses: Any
    growth: Any
    reads: Any
    families: Any
    cell_families: Any
    sizes: Any
    composition: Any
    draft_errors: Any
    same: Any
    unrelated: Any
    clonal: Any
    ways: Any
    near: Any
    drawn: Any
    drawn_hash: Any
    drawn_draft: Any
    drawn_lanes: Any


@inline_kernel
def ln_whole(log: Any, value: int) -> int:
    """Return fine ln(value), value >= 1: the table, and straight lines between above it."""
    shift = 0
    while (value >> shift) > EXACT - 1:
        shift += 1
    top = value >> shift
    rest = value - (top << shift)
    slope = log[top + 1] - log[top]
    return log[top] + ((slope * rest) >> shift) + ((shift * LN_TWO) >> (40 - FINE_BITS))


@inline_kernel
def ln_factorial(log: Any, factorial: Any, value: int) -> int:
    """Return fine ln(value!), by Stirling's series above the table."""
    if value <= EXACT:
        return factorial[value]
    ln_value = ln_whole(log, value)
    series = (1 << FINE_BITS) // (12 * value)
    return value * (ln_value - (1 << FINE_BITS)) + (ln_value >> 1) + HALF_LN_TWO_PI + series


@inline_kernel
def size_bin(reads: int) -> int:
    """Return the bin of a size: itself up to EXACT_SIZES, then four to a doubling."""
    if reads <= EXACT_SIZES:
        return reads
    bits = 5
    while (reads >> bits) > 0:
        bits += 1
    return EXACT_SIZES + 1 + 4 * (bits - 5) + ((reads >> (bits - 3)) & 3)


@inline_kernel
def to_unit(fine: int) -> int:
    """Round fine to 1/1024 nat."""
    return (fine + HALF_STEP) >> STEP_BITS


@inline_kernel
def exp_fine(value: int) -> int:
    """Return 2^ONE_BITS exp(value / 2^FINE_BITS), value <= MOST_LN_MEAN; 0 below 1."""
    if value < -((ONE_BITS + 1) << FINE_BITS):
        return np.int64(0)
    ln_two = np.int64(LN_TWO >> (40 - FINE_BITS))
    shift = value // ln_two
    rest = (value - shift * ln_two) << (ONE_BITS - FINE_BITS)
    total = term = np.int64(1) << ONE_BITS
    for number in range(1, 13):
        term = ((term * rest) >> ONE_BITS) // number
        total += term
    return total << shift if shift >= 0 else total >> -shift


@inline_kernel
def ln_one(log: Any, value: int) -> int:
    """Return fine ln(value / 2^ONE_BITS), value >= 1."""
    return ln_whole(log, value) - ((ONE_BITS * LN_TWO) >> (40 - FINE_BITS))


@inline_kernel
def log_add(softplus: Any, first: int, second: int) -> int:
    """Return 1024 ln(exp(first / 1024) + exp(second / 1024))."""
    most = max(first, second)
    apart = most - min(first, second)
    return most + softplus[apart] if apart < softplus.size else most


@inline_kernel
def error_class(error: int) -> int:
    """Return the class of an error in 2^-20, two classes to a doubling."""
    bits = 0
    while (error >> bits) > 0:
        bits += 1
    half = (error >> (bits - 2)) & 1 if bits > 1 else 0
    return min(max(2 * bits + half - FIRST_CLASS, 0), ERROR_CLASSES - 1)


@inline_kernel
def draft_error(family: Any, errors: Any) -> int:
    """Return 2^20 times the error of a family's draft; errors: i64[2, 256] of its sample."""
    return errors[0 if family["reads"] == 1 else 1, family["draft_quality"]]


@kernel
def sum_near(
    draft: Any, lanes: Any, error: int, hashes: Any, sample: int, model: EdgeModel
) -> tuple[int, int]:
    """Add up how likely the families drawn of a sample have a draft.

    Args:
        draft: the draft.
        lanes: its mask in lanes.
        error: 2^20 times its error.
        hashes: (u64, u64), of two families that are left out.
        sample: the sample.
        model: tables.

    Returns:
        (2^NEAR_BITS times the sum, families that it is of).
    """
    near = model.near[error_class(error + model.drawn[sample, 1])]
    total = np.int64(0)
    count = model.drawn[sample, 0]
    left_out = 0
    for number in range(count):
        mismatches, compared = compare_lanes(
            draft, lanes, model.drawn_draft[sample, number], model.drawn_lanes[sample, number]
        )
        if mismatches >= NEAR or compared < LEAST_COMPARED:
            continue
        hashed = model.drawn_hash[sample, number]
        if hashed == hashes[0] or hashed == hashes[1]:
            left_out += 1
        else:
            total += near[compared, mismatches]
    return total, count - left_out


@inline_kernel
def score_payload(child: Any, child_key: Any, parent: Any, sample: int, model: EdgeModel) -> int:
    """Return 1024 ln(P(drafts | one molecule) / P(drafts | two)); 0 without evidence.

    Args:
        child: a family, or a query of one.
        child_key: its key.
        parent: a family.
        sample: their sample.
        model: tables.
    """
    lanes, other_lanes = mask_to_lanes(child["mask"]), mask_to_lanes(parent["mask"])
    mismatches, compared = compare_lanes(child["draft"], lanes, parent["draft"], other_lanes)
    if compared < LEAST_COMPARED:
        return np.int64(0)
    errors = model.draft_errors[sample]
    error, other_error = draft_error(child, errors), draft_error(parent, errors)
    same = model.same[error_class(error + other_error), compared, mismatches]
    two = log_add(
        model.softplus, model.clonal[sample] + same, model.unrelated[sample, compared, mismatches]
    )
    # Clones are few: a number of mismatches that no two of them have must not speak for an error.
    if mismatches > mismatch_limit(compared):
        return min(max(same - two, -MOST_PAYLOAD), 0)
    hashes = (
        hash_family(child_key, child["family"], child["umi_length"], child["cell_length"]),
        hash_family(parent["key"], parent["family"], parent["umi_length"], parent["cell_length"]),
    )
    total, count = sum_near(child["draft"], lanes, error, hashes, sample, model)
    if count > 0:
        # Either may be the one that is misread.
        if mismatches > 0 and total > 0:
            other, _ = sum_near(parent["draft"], other_lanes, other_error, hashes, sample, model)
            total = min(total, other)
        alike = model.drawn[sample, 4] + same
        if total > 0:
            seen = ln_whole(model.log, total) - ((NEAR_BITS * LN_TWO) >> (40 - FINE_BITS))
            weighed = model.drawn[sample, 3] + to_unit(seen) + model.ways[compared, mismatches]
            alike = log_add(model.softplus, alike, weighed)
        unseen = model.drawn[sample, 2] + model.unrelated[sample, compared, mismatches]
        two = log_add(model.softplus, alike, unseen) - to_unit(ln_whole(model.log, count))
    return min(max(same - two, -MOST_PAYLOAD), MOST_PAYLOAD)


@inline_kernel
def ln_polymerase(log: Any, few: int, many: int) -> int:
    """Return fine ln of how many PCR errors few of few + many copies of a molecule carry.

    For one certain neighbour of its barcode. An error of cycle t is in 2^-t of the copies, so that
    with u errors a cycle those of c reads of n are n u / ln 2 / (c (c - 1)). Those of one read are
    among the errors of its bases. None is in more than a third: families of about as many reads are
    two molecules, for few molecules have an error of the first cycle.
    """
    if few == 1 or 2 * few > many:
        return IMPOSSIBLE
    return LN_CYCLE + ln_whole(log, few + many) - ln_whole(log, few) - ln_whole(log, few - 1)


@inline_kernel
def score_error(
    few: int, many: int, child_misread: int, parent_misread: int, sample: int, model: EdgeModel
) -> int:
    """Return 1024 ln of the rate at which a family of `many` reads has this child of `few`.

    A read is misread in this way with these chances. Of two families of one size either may be
    wrong.
    """
    ways = -ln_factorial(model.log, model.factorial, few)
    growth = np.int64(0)
    if few + many <= GROWTH:
        growth = model.growth[sample, few + many] - model.growth[sample, many]
        ways += growth + model.factorial[few + many] - model.factorial[many]
    else:
        ways += few * ln_whole(model.log, many)
    ways -= (many * model.misses[sample]) >> (30 - FINE_BITS)
    sequencing = to_unit(ways + few * child_misread)
    if few == many:
        sequencing = log_add(model.softplus, sequencing, to_unit(ways + few * parent_misread))
    return log_add(
        model.softplus, sequencing, to_unit(growth + ln_polymerase(model.log, few, many))
    )


@inline_kernel
def ln_others_right(
    family: Any, quality: Any, row: int, position: int, sample: int, model: EdgeModel
) -> int:
    """Return fine ln P(all bases of a read's UMI but one were read right); 0 of more reads.

    A read comes to a barcode as likely whatever its qualities, from near or far: from one place
    near by it comes if its other bases are right. Several reads on one barcode are right there.
    """
    total = np.int64(0)
    if family["reads"] > 1:
        return total
    cell = np.int64(family["cell_length"])
    for place in range(cell, cell + np.int64(family["umi_length"])):
        if place != position:
            total += model.right[sample, quality[row, place]]
    return total


@inline_kernel
def score_independent(family: Any, sample: int, model: EdgeModel) -> int:
    """Return 1024 ln of the expected number of molecules with a family's key and reads.

    Of those in its cell, where it has one: what other cells are called does not matter then.
    """
    cell_length = np.int64(family["cell_length"])
    total = model.sizes[sample, size_bin(np.int64(family["reads"]))]
    start = np.int64(0)
    if cell_length < LEAST_CELL:
        total += model.families[sample]
    else:
        total += model.cell_families[sample]
        start = cell_length
    key = family["key"]
    for place in range(start, cell_length + np.int64(family["umi_length"])):
        total += model.composition[sample, place, np.int64((key >> U(62 - 2 * place)) & U(3))]
    return to_unit(total)


@inline_kernel
def score_edge(
    families: Any,
    quality: Any,
    child: int,
    other_families: Any,
    other_quality: Any,
    parent: int,
    position: int,
    model: EdgeModel,
) -> Any:
    """Score the edge from a family to one that ranks above it, one substitution away.

    Args:
        families: FAMILY[n].
        quality: u8[n, B], half-Phred of the barcode's bases.
        child: row of `families`.
        other_families: FAMILY[m], may be the same array.
        other_quality: u8[m, B].
        parent: row of `other_families`: same sample and lengths, at least as many reads.
        position: barcode position at which the keys differ, from 0.
        model: tables.

    Returns:
        (score, ln_error, ln_independent, payload), i64 in 1/1024 nat; score is the log of the
        posterior odds that the child is an error of the parent.
    """
    few = families[child]
    many = other_families[parent]
    sample = np.int64(few["sample"])
    reads = np.int64(few["reads"])
    error = score_error(
        reads,
        np.int64(many["reads"]),
        model.misread[sample, quality[child, position]]
        + ln_others_right(few, quality, child, position, sample, model),
        model.misread[sample, other_quality[parent, position]]
        + ln_others_right(many, other_quality, parent, position, sample, model),
        sample,
        model,
    )
    independent = score_independent(few, sample, model)
    error = min(max(error, -MOST_TERM), MOST_TERM)
    independent = min(max(independent, -MOST_TERM), MOST_TERM)
    payload = score_payload(few, few["key"], many, sample, model)
    score = min(max(error - independent + payload, -MOST_SCORE), MOST_SCORE)
    return score, error, independent, payload


@inline_kernel
def ranks_above(
    families: Any, quality: Any, row: int, other_families: Any, other_quality: Any, other: int
) -> bool:
    """Return whether a row of `families` ranks above a row of `other_families`.

    By reads, then the sum of the barcode's qualities, then the smaller key, then smaller family.
    """
    first, second = families[row], other_families[other]
    if first["reads"] != second["reads"]:
        return first["reads"] > second["reads"]
    better = np.int64(0)
    for place in range(quality.shape[1]):
        better += np.int64(quality[row, place]) - np.int64(other_quality[other, place])
    if better != 0:
        return better > 0
    if first["key"] != second["key"]:
        return first["key"] < second["key"]
    return first["family"] < second["family"]
