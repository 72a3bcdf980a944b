"""Acceptance of anchored layouts by the posterior of the best sample."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import kernel, merged_kernel
from umimill.kernels.bases import pack_text
from umimill.kernels.match import (
    ALLOWED,
    AMBIGUOUS,
    ASSIGNED,
    NO_SCORE,
    OWN_START,
    OWN_STOP,
    PERFECT,
    POSITION,
    REACH,
    SAMPLE,
    SHARE,
    UNMATCHED,
    Foreign,
    Letters,
    Match,
    Mates,
    Patterns,
    Read,
    log2_of,
    note_match,
    reads_of,
    score_positions,
    side_range,
)
from umimill.kernels.tags import near_tags, tag_mismatches

U = np.uint64

# Fixed point of posteriors: 2^40 is the best row's weight.
WEIGHT_BITS = 40
# A row farther behind the best weighs nothing: ten thousand of them would weigh 0.0006 of it.
ROW_BITS = 24
# A weight times 99 must fit 64 bits.
MOST_DOUBLINGS = 16


class RowScratch(NamedTuple):
    """Buffers of a worker.

    Attributes:
        rows: i64[R + 1], rows that are looked at.
        scores: i64[R], of each of these.
        sums: u64[S], weights of their samples.
        words: u64[3], packed bases.
    """

    rows: Any
    scores: Any
    sums: Any
    words: Any


@merged_kernel
def list_rows(patterns: Patterns, read: Read, letters: Letters, scratch: RowScratch) -> int:
    """List the rows that may weigh anything beside the best; return their number.

    Rows that differ in a tag alone are told by its mismatches, see tags.py; else it is all rows.
    """
    tags = patterns.tags
    start = patterns.tag_start
    if not tags.shape[1] or patterns.rows[0, REACH] > read.length:
        for row in range(patterns.rows.shape[0]):
            scratch.rows[row] = row
        return patterns.rows.shape[0]
    pack_text(read.text, read.bases + start, min(32, read.length - start), scratch.words, 0)
    word = scratch.words[0]
    span = ROW_BITS * 1024 + patterns.most_share
    near = near_tags(patterns, word, read, 0, letters, span, NO_SCORE)
    if near.count == 1:
        scratch.rows[0] = near.row
        return 1
    count = 0
    # Without a branch, which would be guessed wrongly.
    for row in range(tags.shape[0]):
        scratch.rows[count] = row
        count += tag_mismatches(tags, row, word, near.mask) <= near.allowed
    return count


@merged_kernel
def weight_of(weights: Any, difference: int) -> Any:
    """Return 2^40 * 2^(difference / 1024) as u64, at most about 2^56."""
    whole = (difference + 1023) >> 10
    if whole <= -WEIGHT_BITS:
        return U(0)
    weight = weights[(whole << 10) - difference]
    if whole <= 0:
        return weight >> U(-whole)
    return weight << U(min(whole, MOST_DOUBLINGS))


@merged_kernel
def weigh_positions(
    patterns: Patterns,
    start: int,
    stop: int,
    read: Read,
    base_scores: Any,
    letters: Letters,
) -> tuple[int, bool]:
    """Weigh rows start..stop of the table of positions.

    Returns:
        (score of their bases under the unit's composition, whether all match at Q20 or better).
    """
    background = np.int64(0)
    exact = True
    for index in range(start, stop):
        place = patterns.positions[index, POSITION]
        code = np.int64(letters.codes[read.text[read.bases + place]])
        background += base_scores[code]
        quality = np.int64(read.text[read.qualities + place]) - letters.quality_offset
        exact &= (patterns.positions[index, ALLOWED] >> code) & 1 == 1 and quality >= 20
    return background, exact


@merged_kernel
def match_anchored(
    patterns: Patterns,
    read_1: Read,
    read_2: Read,
    foreign: Foreign,
    letters: Letters,
    scratch: RowScratch,
) -> Match:
    """Decide by the posterior of the best sample, >= 0.99, against all others and a foreign read.

    A read that holds the layout exactly at Q20 or better is not refused for being one of many
    foreign reads' chance matches: their expected number is reported instead.

    Args:
        patterns: rows, all anchored.
        read_1: mate 1.
        read_2: mate 2; length 0 where there is none.
        foreign: the alternative.
        letters: see Letters.
        scratch: see RowScratch.
    """
    rows, sums = patterns.rows, scratch.sums
    best = NO_SCORE
    best_row = np.int64(-1)
    count = list_rows(patterns, read_1, letters, scratch)
    for number in range(count):
        row = scratch.rows[number]
        scratch.scores[number] = NO_SCORE
        sums[rows[row, SAMPLE]] = U(0)
        if rows[row, REACH] > read_1.length or rows[row, REACH + 1] > read_2.length:
            continue
        score = -rows[row, SHARE]
        for side in range(2):
            read = read_1 if side == 0 else read_2
            start, stop = rows[row, OWN_START + side], rows[row, OWN_STOP + side]
            score += score_positions(patterns, start, stop, read, 0, letters)
        scratch.scores[number] = score
        if score > best:
            best = score
            best_row = row
    if best_row < 0:
        return Match(UNMATCHED, -1, 0, 0, NO_SCORE)
    total = U(0)
    for number in range(count):
        if scratch.scores[number] > best - ROW_BITS * 1024:
            weight = weight_of(patterns.weights, scratch.scores[number] - best)
            sums[rows[scratch.rows[number], SAMPLE]] += weight
            total += weight
    winner = rows[best_row, SAMPLE]
    for number in range(count):
        sample = rows[scratch.rows[number], SAMPLE]
        if sums[sample] > sums[winner] or (sums[sample] == sums[winner] and sample < winner):
            winner = sample
    if rows[best_row, SAMPLE] != winner:
        # Several rows of one sample may add up to more than the single best row.
        best_row = np.int64(-1)
        highest = NO_SCORE
        for number in range(count):
            row = scratch.rows[number]
            if rows[row, SAMPLE] == winner and (best_row < 0 or scratch.scores[number] > highest):
                best_row = row
                highest = scratch.scores[number]
    against = total - sums[winner]
    if rows[best_row, PERFECT] + rows[best_row, PERFECT + 1] == 0:
        if against * U(99) > sums[winner]:
            return Match(AMBIGUOUS, best_row, 0, 0, best)
        return Match(ASSIGNED, best_row, 0, 0, best)
    exact = True
    background = np.int64(0)
    for part in range(4):
        side = part >> 1
        read = read_1 if side == 0 else read_2
        if part & 1:
            start, stop = rows[best_row, OWN_START + side], rows[best_row, OWN_STOP + side]
        else:
            start, stop = side_range(patterns, side)
            # Own positions are in the score already.
            best += score_positions(patterns, start, stop, read, 0, letters)
        weighed, held = weigh_positions(patterns, start, stop, read, foreign.base_scores, letters)
        background += weighed
        exact &= held
    # The weight of a foreign read on the scale of the best row: prior odds times likelihood ratio,
    # times the samples among which the prior of a genuine read is shared.
    difference = foreign.prior + background + log2_of(patterns.log2, patterns.samples) - best
    alien = weight_of(patterns.weights, difference)
    if exact:
        alien = U(0)
    if (against + alien) * U(99) <= sums[winner]:
        return Match(ASSIGNED, best_row, 0, 0, best)
    refusal = AMBIGUOUS if against > alien else UNMATCHED
    return Match(refusal, best_row, 0, 0, best)


@kernel
def weigh_templates(
    mates: Mates,
    start: int,
    stop: int,
    patterns: Patterns,
    foreign: Foreign,
    letters: Letters,
    scratch: RowScratch,
    matches: Any,
) -> None:
    """Match templates [start, stop) of a chunk by posterior.

    Args:
        mates: the chunk.
        start: first template.
        stop: end.
        patterns: layouts of the library, all anchored.
        foreign: the alternative.
        letters: see Letters.
        scratch: see RowScratch.
        matches: i32[>= stop, MATCH_COLUMNS]; rows start..stop are filled.
    """
    for index in range(start, stop):
        read_1, read_2 = reads_of(mates, index)
        match = match_anchored(patterns, read_1, read_2, foreign, letters, scratch)
        note_match(matches, index, match, 0)
