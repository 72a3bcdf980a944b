"""Statuses: is a family that was corrected to no other a molecule?

A family beside a larger one on the same barcode may be a chimera of it, or reads of it that start
some bases beside; a read whose barcode has many unsure bases may be of any molecule. All are judged
by posterior, in whole numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inline_kernel, kernel
from umimill.kernels.drafts import DRAFT_BASES, are_compatible
from umimill.kernels.families import compare
from umimill.kernels.queries import MOST_UNSURE, UNSURE_MISREAD
from umimill.kernels.score import (
    FINE_BITS,
    ONE_BITS,
    EdgeModel,
    exp_fine,
    ln_factorial,
    ln_one,
    ln_whole,
    score_independent,
    to_unit,
)
from umimill.kernels.tally import SHIFTED

U = np.uint64

# 3 is kernels.settle.DROPPED_STATUS.
MOLECULE, CHIMERA_SUSPECT, UNRESOLVED, SHIFT = 0, 1, 2, 4
# A chimera has one end of its molecule: of so many sampled bases at one end all but one agree.
END_BASES = 8
END_MISMATCHES = 1
# Behind an end, so many bases show whether they are another payload's.
LEAST_BEHIND = 6
# 1024 ln 0.05: the share of chimeras that show neither end.
LN_NEITHER_END = -3068
# None were seen.
NO_CHIMERAS = -(1 << 50)
# Columns of the sums of count_minors.
SHARING, MIXED, FIRST_READS, SHIFTS, EVEN, EVEN_SHIFTS = range(6)
MINORS = 6
# A molecule of so many times the reads, or fewer, has no reads enough to be shifted.
EVEN_RATIO = 4
MOST_LN_MEAN = 20 << FINE_BITS
MOST_BELOW = 1 << 17
MOST_TERMS = 4096


class StatusModel(NamedTuple):
    """What tells molecules from others, by sample.

    Attributes:
        errors: i64[S, 256], 2^30 e of a barcode base by its half-Phred.
        lone: i64[S], 2^30 times the share of reads whose molecule has no other.
        chimeras: i64[S], fine ln(chimeric reads of a read), or NO_CHIMERAS: of those that share an
            end with their molecule, be it that they are misread at the other one.
        neither: i64[S], the same of those that share none.
        sharing: i64[S, 2], 1024 ln P(two molecules do not, do share an end).
        shifts: i64[S], fine ln(shifted reads of a read), or NO_CHIMERAS.
        apart: i64[S], fine ln(chimeric and shifted reads of a read), or NO_CHIMERAS.
        beside: i64[S], 1024 ln P(a molecule is as if it were another one, shifted).
    """

    errors: Any
    lone: Any
    chimeras: Any
    neither: Any
    sharing: Any
    shifts: Any
    apart: Any
    beside: Any


@inline_kernel
def base_differs(draft: Any, mask: Any, other: Any, other_mask: Any, position: int) -> int:
    """Return 1 or 0 where a base is known in both drafts, else -1."""
    bit = U(31 - position)
    if ((U(mask) & U(other_mask)) >> bit) & U(1) == U(0):
        return -1
    return np.int64(((draft ^ other) >> U(62 - 2 * position)) & U(3) != U(0))


@inline_kernel
def share_an_end(draft: Any, mask: Any, other: Any, other_mask: Any) -> bool:
    """Return whether two drafts agree at their first or last END_BASES bases known in both."""
    for side in range(2):
        known = 0
        mismatches = 0
        for step in range(DRAFT_BASES):
            position = step if side == 0 else DRAFT_BASES - 1 - step
            found = base_differs(draft, mask, other, other_mask, position)
            if found < 0:
                continue
            known += 1
            mismatches += found
            if known == END_BASES or mismatches > END_MISMATCHES:
                break
        if known == END_BASES and mismatches <= END_MISMATCHES:
            return True
    return False


@inline_kernel
def is_flagged(family: Any) -> bool:
    """Return whether most reads of a family fit the first one of its key some bases beside."""
    return (np.int64(family["flags"]) & SHIFTED) != 0


@kernel
def count_minors(families: Any, minors: Any, sizes: Any) -> None:
    """Add up what tells of chimeras.

    Args:
        families: FAMILY[n], whole keys.
        minors: i64[S, 6], added to: families of one read beside a larger one of their key that
            share an end with it, those of them that are another payload behind it; the reads of all
            first families; reads of families that are shifted (kernels.tally.SHIFTED) to one of
            more than EVEN_RATIO times their reads; families beside one of at most EVEN_RATIO times
            theirs, and how many of these are shifted.
        sizes: i64[S, 64], added to: families beside a larger one of their key, of twice their reads
            or more, that share an end with it or are shifted, by reads (63 = 63 or more).
    """
    first = 0
    for row in range(families.size):
        sample = families[row]["sample"]
        if row == 0 or compare(families[first], families[row]) != 0:
            first = row
            minors[sample, FIRST_READS] += np.int64(families[row]["reads"])
            continue
        main = families[first]
        reads = np.int64(families[row]["reads"])
        shifted = is_flagged(families[row])
        if np.int64(main["reads"]) <= EVEN_RATIO * reads:
            minors[sample, EVEN] += 1
            minors[sample, EVEN_SHIFTS] += shifted
        elif shifted:
            minors[sample, SHIFTS] += reads
        if np.int64(main["reads"]) < 2 * reads:
            continue
        shared = share_an_end(
            main["draft"], main["mask"], families[row]["draft"], families[row]["mask"]
        )
        if shared or shifted:
            sizes[sample, min(reads, 63)] += 1
        if reads == 1 and not shifted:
            minors[sample, SHARING] += shared
            minors[sample, MIXED] += is_mixed(
                main["draft"], main["mask"], families[row]["draft"], families[row]["mask"]
            )


@inline_kernel
def is_mixed(draft: Any, mask: Any, other: Any, other_mask: Any) -> bool:
    """Return whether two drafts agree at one end, and no more than by chance behind that.

    A chimera of another payload does; misread bases lie scattered.
    """
    for side in range(2):
        known = mismatches = behind = 0
        for step in range(DRAFT_BASES):
            position = step if side == 0 else DRAFT_BASES - 1 - step
            found = base_differs(draft, mask, other, other_mask, position)
            if found < 0:
                continue
            if mismatches <= END_MISMATCHES:
                known += 1
            mismatches += found
            behind += mismatches > END_MISMATCHES
        differ = mismatches - END_MISMATCHES
        if known > END_BASES and behind >= LEAST_BEHIND and 2 * differ >= behind:
            return True
    return False


@kernel
def count_sharing(drafts: Any, lag: int) -> tuple[int, int]:
    """Count random pairs of families of different payloads, and those that share an end.

    Args:
        drafts: DRAW[n] of one sample.
        lag: how far behind a family its partner is.

    Returns:
        (pairs, those that share an end).
    """
    pairs = 0
    sharing = 0
    for row in range(drafts.size - lag):
        one, other = drafts[row], drafts[row + lag]
        if are_compatible(one["draft"], one["mask"], other["draft"], other["mask"]):
            continue
        pairs += 1
        if share_an_end(one["draft"], one["mask"], other["draft"], other["mask"]):
            sharing += 1
    return pairs, sharing


@inline_kernel
def ln_at_least(reads: int, large: int, ln_rate: int, model: EdgeModel) -> int:
    """Return 1024 ln P(X >= reads), X ~ Poisson of what `large` reads have at a rate, fine ln.

    A term and the series of those behind it over it: of `reads` and more where that is above the
    mean, else of what is left of 1 by fewer.
    """
    one = np.int64(1) << ONE_BITS
    ln_mean = min(ln_whole(model.log, large) + ln_rate, MOST_LN_MEAN)
    mean = exp_fine(ln_mean)
    above = ln_mean < ln_whole(model.log, reads)
    # Means beyond any number that is not above them are as good as certain.
    if not above and reads > MOST_BELOW:
        return np.int64(0)
    first = reads if above else reads - 1
    term = first * ln_mean - ln_factorial(model.log, model.factorial, first)
    term -= mean >> (ONE_BITS - FINE_BITS)
    total = share = one
    step = first
    for _ in range(MOST_TERMS):
        if above:
            step += 1
            share = (share * (mean // step)) >> ONE_BITS
        else:
            share = (share * ((step << 45) // (mean >> 15))) >> ONE_BITS
            step -= 1
        if share == 0:
            break
        total += share
    term += ln_one(model.log, total)
    if above:
        return min(np.int64(0), to_unit(term))
    fewer = min(exp_fine(min(term, np.int64(0))), one - 1)
    return to_unit(ln_one(model.log, one - fewer))


@inline_kernel
def is_chimera(
    family: Any, reads: int, main: Any, main_reads: int, model: EdgeModel, status: StatusModel
) -> bool:
    """Return whether a family is a chimera of the main one rather than another molecule."""
    sample = np.int64(family["sample"])
    shared = share_an_end(main["draft"], main["mask"], family["draft"], family["mask"])
    ln_rate = status.chimeras[sample] if shared else status.neither[sample]
    if ln_rate == NO_CHIMERAS:
        return False
    chimera = ln_at_least(reads, main_reads, ln_rate, model)
    if not shared:
        chimera += LN_NEITHER_END
    molecule = score_independent(family, sample, model)
    molecule += status.sharing[sample, np.int64(shared)]
    return chimera >= molecule


@inline_kernel
def is_shift(
    family: Any, reads: int, main_reads: int, model: EdgeModel, status: StatusModel
) -> bool:
    """Return whether a family is shifted reads of the main one rather than another molecule."""
    sample = np.int64(family["sample"])
    if not is_flagged(family) or status.shifts[sample] == NO_CHIMERAS:
        return False
    shift = ln_at_least(reads, main_reads, status.shifts[sample], model)
    return shift >= score_independent(family, sample, model) + status.beside[sample]


@inline_kernel
def is_unresolved(
    family: Any, quality: Any, row: int, model: EdgeModel, status: StatusModel
) -> bool:
    """Return whether a family of one read is rather a misread barcode of an unknown molecule.

    Barcodes one base away, and all that its MOST_UNSURE worst bases may have been, were asked for
    (queries.py), and none was its parent. What is left is misreading that was not asked for,
    against the chance that its molecule has no other read.
    """
    sample = np.int64(family["sample"])
    errors = status.errors[sample]
    misread = model.misread[sample]
    start = np.int64(family["cell_length"])
    stop = start + np.int64(family["umi_length"])
    unsure = 0
    for position in range(start, stop):
        unsure += np.int64(misread[quality[row, position]] >= UNSURE_MISREAD)
    if unsure <= MOST_UNSURE:
        return False
    one = np.int64(1) << ONE_BITS
    # That all of the worst are right, that all others are, and the odds that one of these is not.
    worst_right = others_right = one
    odds = np.int64(0)
    for position in range(start, stop):
        error = errors[quality[row, position]]
        worse = 0
        for other in range(start, stop):
            beside = errors[quality[row, other]]
            worse += np.int64(beside > error or (beside == error and other < position))
        if worse < MOST_UNSURE:
            worst_right = (worst_right * (one - error)) >> ONE_BITS
        else:
            others_right = (others_right * (one - error)) >> ONE_BITS
            odds += (error << FINE_BITS) // (one - error)
    # Any of the worst wrong and no other; or one of the others alone.
    asked = others_right + ((((others_right * worst_right) >> ONE_BITS) * odds) >> FINE_BITS)
    missed = max(np.int64(0), one - asked)
    lone = status.lone[sample]
    return ((one - lone) >> 15) * (missed >> 15) > lone


@kernel
def judge(families: Any, quality: Any, fates: Any, model: EdgeModel, status: StatusModel) -> None:
    """Judge the families that were not corrected.

    Args:
        families: FAMILY[n], whole keys.
        quality: u8[n, B], half-Phred of the barcode's bases.
        fates: FATE[n]; status is filled.
        model: tables of the library.
        status: the same.
    """
    start = 0
    while start < families.size:
        main = np.int64(start)
        most = np.int64(0)
        stop = start
        while stop < families.size and compare(families[start], families[stop]) == 0:
            # What was moved away left its chimeras behind.
            reads = np.int64(families[stop]["reads"])
            if fates[stop]["moved"] == 0:
                reads = np.int64(fates[stop]["reads"])
            if reads > most:
                main, most = np.int64(stop), reads
            stop += 1
        for row in range(start, stop):
            fate = fates[row]
            if fate["moved"] == 1:
                continue
            reads = np.int64(fate["reads"])
            if row != start and is_shift(families[row], reads, most, model, status):
                fate["status"] = SHIFT
                # It is of the first one's molecule, wherever that went.
                fate["root_key"] = fates[start]["root_key"]
                fate["root_family"] = fates[start]["root_family"]
            elif row != main and is_chimera(
                families[row], reads, families[main], most, model, status
            ):
                fate["status"] = CHIMERA_SUSPECT
            elif families[row]["reads"] == 1 and is_unresolved(
                families[row], quality, row, model, status
            ):
                fate["status"] = UNRESOLVED
        start = stop


@kernel
def judge_misread(families: Any, edges: Any, fates: Any, status: StatusModel) -> None:
    """Judge the families of one read that are misread for certain, by their best parents.

    Either one of several parents may be it, or the payload is not that of the only one: a chimera
    or a shifted read with a misread barcode lies beside its molecule.

    Args:
        families: FAMILY[n], whole keys.
        edges: EDGE[n], best parents.
        fates: FATE[n] after `judge`; status is set.
        status: tables of the library.
    """
    for row in range(families.size):
        edge, fate = edges[row], fates[row]
        if fate["moved"] == 1 or fate["status"] != MOLECULE or families[row]["reads"] > 1:
            continue
        if edge["parent_reads"] == 0:
            continue
        sample = np.int64(families[row]["sample"])
        odds = np.int64(edge["ln_error"]) - np.int64(edge["ln_independent"])
        if odds + np.int64(edge["payload"]) >= 0:
            if edge["score"] < 0:
                fate["status"] = UNRESOLVED
        elif (
            edge["payload"] < 0
            and status.apart[sample] != NO_CHIMERAS
            and odds + to_unit(status.apart[sample]) >= 0
        ):
            fate["status"] = CHIMERA_SUSPECT
