"""Acceptance of anchored layouts by the posterior of the best sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import kernel, merged_kernel
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

U = np.uint64

# Fixed point of posteriors: 2^40 is the best row's weight.
WEIGHT_BITS = 40
# A weight times 99 must fit 64 bits.
MOST_DOUBLINGS = 16


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
    row_scores: Any,
    sums: Any,
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
        row_scores: i64[R], scratch.
        sums: u64[S], scratch.
    """
    rows = patterns.rows
    positions = patterns.positions
    scores = patterns.scores
    best = NO_SCORE
    best_row = -1
    for row in range(rows.shape[0]):
        row_scores[row] = NO_SCORE
        if rows[row, REACH] > read_1.length or rows[row, REACH + 1] > read_2.length:
            continue
        score = -rows[row, SHARE]
        for side in range(2):
            read = read_1 if side == 0 else read_2
            score += score_positions(
                positions,
                scores,
                rows[row, OWN_START + side],
                rows[row, OWN_STOP + side],
                read,
                0,
                letters,
            )
        row_scores[row] = score
        if score > best:
            best = score
            best_row = row
    if best_row < 0:
        return Match(UNMATCHED, -1, 0, 0, NO_SCORE)
    sums[:] = U(0)
    for row in range(rows.shape[0]):
        if row_scores[row] != NO_SCORE:
            sums[rows[row, SAMPLE]] += weight_of(patterns.weights, row_scores[row] - best)
    total = U(0)
    winner = np.int64(0)
    for sample in range(sums.size):
        total += sums[sample]
        if sums[sample] > sums[winner]:
            winner = np.int64(sample)
    if rows[best_row, SAMPLE] != winner:
        # Several rows of one sample may add up to more than the single best row.
        best_row = -1
        for row in range(rows.shape[0]):
            if rows[row, SAMPLE] == winner and (
                best_row < 0 or row_scores[row] > row_scores[best_row]
            ):
                best_row = row
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
            best += score_positions(positions, scores, start, stop, read, 0, letters)
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
    row_scores: Any,
    sums: Any,
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
        row_scores: i64[R], scratch.
        sums: u64[S], scratch.
        matches: i32[>= stop, MATCH_COLUMNS]; rows start..stop are filled.
    """
    for index in range(start, stop):
        read_1, read_2 = reads_of(mates, index)
        match = match_anchored(patterns, read_1, read_2, foreign, letters, row_scores, sums)
        note_match(matches, index, match, 0)
