"""Acceptance of anchored layouts by the posterior of the best sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import inline_kernel, inner_kernel
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
    Patterns,
    Read,
    log2_of,
    score_positions,
    side_range,
)

U = np.uint64

# Fixed point of posteriors: 2^40 is the best row's weight.
WEIGHT_BITS = 40
# A weight times 99 must fit 64 bits.
MOST_DOUBLINGS = 16


@inline_kernel
def weight_of(weights: Any, difference: int) -> Any:
    """Return 2^40 * 2^(difference / 1024) as u64, at most about 2^56."""
    whole = (difference + 1023) >> 10
    if whole <= -WEIGHT_BITS:
        return U(0)
    weight = weights[(whole << 10) - difference]
    if whole <= 0:
        return weight >> U(-whole)
    return weight << U(min(whole, MOST_DOUBLINGS))


@inline_kernel
def score_foreign(
    positions: Any, base_scores: Any, start: int, stop: int, read: Read, codes: Any
) -> int:
    """Score the bases at rows start..stop of a table of positions by the unit's composition."""
    total = np.int64(0)
    for index in range(start, stop):
        total += base_scores[codes[read.text[read.bases + positions[index, POSITION]]]]
    return total


@inline_kernel
def holds_exactly(positions: Any, start: int, stop: int, read: Read, letters: Letters) -> bool:
    """Tell whether rows start..stop of a table of positions all match at Q20 or better."""
    for index in range(start, stop):
        place = positions[index, POSITION]
        code = np.int64(letters.codes[read.text[read.bases + place]])
        if code > 3 or not (positions[index, ALLOWED] >> code) & 1:
            return False
        if np.int64(read.text[read.qualities + place]) - letters.quality_offset < 20:
            return False
    return True


@inner_kernel
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
    for side in range(2):
        read = read_1 if side == 0 else read_2
        start, stop = side_range(patterns, side)
        own_start, own_stop = rows[best_row, OWN_START + side], rows[best_row, OWN_STOP + side]
        best += score_positions(positions, scores, start, stop, read, 0, letters)
        background += score_foreign(
            positions, foreign.base_scores, start, stop, read, letters.codes
        )
        background += score_foreign(
            positions, foreign.base_scores, own_start, own_stop, read, letters.codes
        )
        exact &= holds_exactly(positions, start, stop, read, letters)
        exact &= holds_exactly(positions, own_start, own_stop, read, letters)
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
