"""Families of sorted rows: key by key in memory, or one key in passes over its rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import count_bits, inline_kernel, kernel
from umimill.kernels.clusters import (
    FULL,
    LEADERS,
    WAITING,
    Clusters,
    add_leader,
    add_to_leader,
    begin_key,
    choose_leaders,
    collect,
)
from umimill.kernels.consensus import Batch, best_base
from umimill.kernels.drafts import DRAFT_BASES, LEAST_COMPARED, Drafts, find_family
from umimill.kernels.families import compare
from umimill.kernels.score import FINE_BITS, LEAST_CELL, ONE_BITS
from umimill.kernels.starts import is_shifted

U = np.uint64

# FAMILY["flags"]: the key has more families than can be told apart; most reads of the family fit
# the first one of its key where they start some bases beside.
OVERFULL, SHIFTED = 1, 2
# A base of a draft is trusted this far: Phred.
MOST_DRAFT_QUALITY = 40

# Steps of a key: those over all its rows, and those between them.
COLLECT, ADD, ASSIGN = range(3)
BEGIN, CHOOSE, CALL, FINISH = range(4)


class Phreds(NamedTuple):
    """What the Phreds of reads' barcodes add up to, by sample.

    Attributes:
        counts: i64[S, 94], bases of barcodes by Phred.
        wrong: i64[S, 2], in 2^-20: reads of which one base of the UMI is wrong and no other, and
            wrong bases, as the Phreds expect them. Bad bases come together, so that a read that has
            one wrong base often has more.
        odds: i64[94, 2], 2^30 e and 2^30 e / (1 - e) of a base by Phred.
    """

    counts: Any
    wrong: Any
    odds: Any


@inline_kernel
def begin_family(hot: Any, families: Any, number: int) -> None:
    """Write the key of a row into a family without reads."""
    family = families[number]
    family["key"] = hot["key"]
    family["reads"] = 0
    family["sample"] = hot["sample"]
    family["family"] = 0
    family["umi_length"] = hot["umi_length"]
    family["cell_length"] = hot["cell_length"]
    family["flags"] = 0


@inline_kernel
def set_draft(families: Any, number: int, draft: Any, mask: Any, trust: int) -> None:
    """Write a family's draft; `trust` is the sum of Phreds over its known bases."""
    family = families[number]
    family["draft"] = draft
    family["mask"] = np.uint32(mask)
    known = count_bits(mask)
    family["draft_quality"] = (2 * trust) // known if known > 0 else 0


@inline_kernel
def call_leader(clusters: Clusters, leader: int, families: Any, number: int) -> None:
    """Call the draft of a family from its leader's planes."""
    planes = clusters.planes
    draft = U(0)
    mask = U(0)
    trust = np.int64(0)
    for position in range(DRAFT_BASES):
        sum_0, sum_1 = planes[leader, 0, position], planes[leader, 1, position]
        sum_2, sum_3 = planes[leader, 2, position], planes[leader, 3, position]
        best, base = best_base(sum_0, sum_1, sum_2, sum_3)
        if best > 0:
            draft |= U(base) << U(62 - 2 * position)
            mask |= U(1) << U(31 - position)
            margin = 2 * best - (sum_0 + sum_1 + sum_2 + sum_3)
            trust += min(MOST_DRAFT_QUALITY, max(0, margin))
    set_draft(families, number, draft, mask, trust)


@inline_kernel
def call_families(clusters: Clusters, hot: Any, families: Any, start: int) -> None:
    """Call the families of a key into families[start:].

    A family's number is for now that of its leader. Of equal drafts the first will have the reads.
    """
    for leader in range(clusters.state[LEADERS]):
        number = start + leader
        begin_family(hot, families, number)
        families[number]["family"] = leader
        families[number]["flags"] = OVERFULL if clusters.state[FULL] else 0
        call_leader(clusters, leader, families, number)


@inline_kernel
def add_barcode(batch: Batch, row: int, sums: Any, place: int) -> None:
    """Add the Phreds of a row's barcode to sums[place]."""
    for position in range(batch.barcode_quality.shape[1]):
        sums[place, position] += np.int64(batch.barcode_quality[row, position])


@inline_kernel
def assign_row(
    clusters: Clusters,
    batch: Batch,
    drafts: Drafts,
    strides: Any,
    row: int,
    families: Any,
    start: int,
) -> None:
    """Count a row in its family of families[start:]."""
    stop = start + clusters.state[LEADERS]
    found = start
    if stop - start > 1:
        found = find_family(drafts.draft[row], drafts.mask[row], families, start, stop)
    if found < 0:
        clusters.state[WAITING] += 1
        add_barcode(batch, row, clusters.barcode, clusters.leader.size)
        return
    families[found]["reads"] += np.uint32(1)
    # The first leader's family has nearly always the most reads; a flag is for that one alone.
    if found != start:
        stride = strides[batch.hot[row]["sample"]]
        clusters.shifted[families[found]["family"]] += is_shifted(
            batch, row, stride, families[start]["draft"], families[start]["mask"]
        )
    add_barcode(batch, row, clusters.barcode, np.int64(families[found]["family"]))


@inline_kernel
def is_greater(first: Any, second: Any) -> bool:
    """Return whether a family is numbered before another of its key."""
    if first["reads"] != second["reads"]:
        return first["reads"] > second["reads"]
    if first["draft"] != second["draft"]:
        return first["draft"] < second["draft"]
    return first["mask"] < second["mask"]


@inline_kernel
def swap(families: Any, first: int, second: int) -> None:
    """Exchange the fields in which families of one key differ."""
    left, right = families[first], families[second]
    left["draft"], right["draft"] = right["draft"], left["draft"]
    left["mask"], right["mask"] = right["mask"], left["mask"]
    left["reads"], right["reads"] = right["reads"], left["reads"]
    left["family"], right["family"] = right["family"], left["family"]
    left["draft_quality"], right["draft_quality"] = right["draft_quality"], left["draft_quality"]


@inline_kernel
def fill_quality(sums: Any, place: int, family: Any, quality: Any, number: int) -> None:
    """Fill a family's mean Phreds, doubled and rounded, from the sums over its reads."""
    length = np.int64(family["umi_length"]) + np.int64(family["cell_length"])
    reads = np.int64(family["reads"])
    for position in range(quality.shape[1]):
        mean = (4 * sums[place, position] + reads) // (2 * reads)
        quality[number, position] = mean if position < length else 0


@inline_kernel
def finish_key(clusters: Clusters, families: Any, quality: Any, start: int) -> int:
    """Number the families of a key that have reads; return the end of them.

    No read changes its family when one without reads goes.
    """
    stop = start
    for number in range(start, start + clusters.state[LEADERS]):
        if families[number]["reads"] > 0:
            swap(families, stop, number)
            place = stop
            while place > start and is_greater(families[place], families[place - 1]):
                swap(families, place - 1, place)
                place -= 1
            stop += 1
    waiting = clusters.leader.size
    first = np.int64(families[start]["family"])
    families[start]["reads"] += np.uint32(clusters.state[WAITING])
    for position in range(clusters.barcode.shape[1]):
        clusters.barcode[first, position] += clusters.barcode[waiting, position]
    for number in range(start, stop):
        place = np.int64(families[number]["family"])
        is_most = 2 * clusters.shifted[place] > np.int64(families[number]["reads"])
        if number > start and is_most and first == 0:
            families[number]["flags"] |= np.uint8(SHIFTED)
        fill_quality(clusters.barcode, place, families[number], quality, number)
        families[number]["family"] = number - start
    return stop


@inline_kernel
def add_phreds(batch: Batch, row: int, phreds: Phreds) -> None:
    """Count the Phreds of a row's barcode."""
    hot = batch.hot[row]
    cell = np.int64(hot["cell_length"])
    right = one = np.int64(1) << ONE_BITS
    wrong = odds = np.int64(0)
    for position in range(cell + np.int64(hot["umi_length"])):
        phred = batch.barcode_quality[row, position]
        phreds.counts[hot["sample"], phred] += 1
        if position >= cell:
            error = phreds.odds[phred, 0]
            right = (right * (one - error)) >> ONE_BITS
            wrong += error
            odds += phreds.odds[phred, 1]
    phreds.wrong[hot["sample"], 0] += (right * odds) >> (2 * ONE_BITS - FINE_BITS)
    phreds.wrong[hot["sample"], 1] += wrong >> (ONE_BITS - FINE_BITS)


@inline_kernel
def count_single(
    batch: Batch, drafts: Drafts, row: int, families: Any, number: int, quality: Any
) -> None:
    """Write the family of a key with one read. It has no draft where that could say nothing."""
    draft = drafts.draft[row]
    mask = U(drafts.mask[row])
    trust = np.int64(0)
    if count_bits(mask) < LEAST_COMPARED:
        draft = U(0)
        mask = U(0)
    else:
        for position in range(DRAFT_BASES * row, DRAFT_BASES * (row + 1)):
            trust += np.int64(min(MOST_DRAFT_QUALITY, drafts.quality[position]))
    begin_family(batch.hot[row], families, number)
    set_draft(families, number, draft, mask, trust)
    families[number]["reads"] = 1
    for position in range(quality.shape[1]):
        quality[number, position] = 2 * batch.barcode_quality[row, position]


@inline_kernel
def choose_equal(clusters: Clusters, drafts: Drafts, order: Any, start: int, stop: int) -> bool:
    """Make the draft of the rows order[start:stop] the leader if they have all the same."""
    row = order[start]
    draft, mask = drafts.draft[row], drafts.mask[row]
    for index in range(start + 1, stop):
        if drafts.draft[order[index]] != draft or drafts.mask[order[index]] != mask:
            return False
    add_leader(clusters, draft, mask)
    return True


@kernel
def tally_rows(
    batch: Batch,
    drafts: Drafts,
    strides: Any,
    order: Any,
    clusters: Clusters,
    families: Any,
    quality: Any,
    phreds: Phreds,
) -> int:
    """Find the families of whole keys.

    Args:
        batch: rows.
        drafts: their drafts.
        strides: i64[S], that of each sample's drafts.
        order: i64[n], rows in key order.
        clusters: buffers.
        families: FAMILY[>= n], filled.
        quality: u8[>= n, B], mean Phred of the barcode's bases over a family's reads, doubled.
        phreds: those of reads' barcodes are counted.

    Returns:
        Families.
    """
    count = np.int64(0)
    start = 0
    while start < order.size:
        hot = batch.hot[order[start]]
        stop = start + 1
        while stop < order.size and compare(hot, batch.hot[order[stop]]) == 0:
            stop += 1
        for index in range(start, stop):
            add_phreds(batch, order[index], phreds)
        if stop == start + 1:
            count_single(batch, drafts, order[start], families, count, quality)
            count += 1
            start = stop
            continue
        begin_key(clusters, stop - start)
        if not choose_equal(clusters, drafts, order, start, stop):
            for index in range(start, stop):
                collect(clusters, drafts.draft[order[index]], drafts.mask[order[index]])
            choose_leaders(clusters)
        for index in range(start, stop):
            add_to_leader(clusters, drafts, order[index])
        call_families(clusters, hot, families, count)
        for index in range(start, stop):
            assign_row(clusters, batch, drafts, strides, order[index], families, count)
        count = finish_key(clusters, families, quality, count)
        start = stop
    return count


@kernel
def pass_rows(
    step: int,
    batch: Batch,
    drafts: Drafts,
    strides: Any,
    clusters: Clusters,
    families: Any,
    phreds: Phreds,
) -> None:
    """Take some rows of a key through a step: COLLECT, ADD or ASSIGN."""
    for row in range(batch.hot.size):
        if step == COLLECT:
            collect(clusters, drafts.draft[row], drafts.mask[row])
        elif step == ADD:
            add_to_leader(clusters, drafts, row)
        else:
            add_phreds(batch, row, phreds)
            assign_row(clusters, batch, drafts, strides, row, families, 0)


@kernel
def between_passes(step: int, hot: Any, clusters: Clusters, families: Any, quality: Any) -> int:
    """Take a key to its next pass: BEGIN, CHOOSE, CALL or FINISH.

    Args:
        step: the step.
        hot: HOT[>= 1], a row of the key.
        clusters: buffers.
        families: FAMILY[F], filled.
        quality: u8[F, B], filled.

    Returns:
        Families, after the last step.
    """
    if step == BEGIN:
        begin_key(clusters, clusters.draft.size)
    elif step == CHOOSE:
        choose_leaders(clusters)
    elif step == CALL:
        call_families(clusters, hot[0], families, 0)
    else:
        return finish_key(clusters, families, quality, 0)
    return 0


@kernel
def count_cells(families: Any, run: Any, cells: Any) -> None:
    """Add up how many families the cells of each sample have.

    Args:
        families: FAMILY[n], in order.
        run: u64[4], the cell that the families before ended in: sample, its bases, its length, and
            how many families of it were seen; changed.
        cells: i64[S, 3], added to: families in cells, the sum over these of the families of their
            cell; and the longest cell barcode. Cells of fewer than four bases are left out.
    """
    for row in range(families.size):
        length = U(families[row]["cell_length"])
        sample = U(families[row]["sample"])
        # Shorter ones may be cut where a bucket ends: a leaf has up to four bases in common.
        if length < U(LEAST_CELL):
            continue
        bases = families[row]["key"] >> (U(64) - U(2) * length)
        if run[0] != sample or run[1] != bases or run[2] != length:
            run[0] = sample
            run[1] = bases
            run[2] = length
            run[3] = U(0)
        # n^2 - (n - 1)^2: the sum is right wherever the families are cut.
        cells[sample, 0] += 1
        cells[sample, 1] += 2 * np.int64(run[3]) + 1
        cells[sample, 2] = max(cells[sample, 2], np.int64(length))
        run[3] += U(1)
