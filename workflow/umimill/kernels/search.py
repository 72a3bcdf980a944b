"""Layouts searched along the read: bounded, with the verdicts of scoring every offset."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import count_bits, inline_kernel, inner_kernel
from umimill.kernels.bases import gather_eight
from umimill.kernels.match import (
    AMBIGUOUS,
    ANCHORED,
    ASSIGNED,
    LENGTH,
    NO_SCORE,
    OWN_START,
    OWN_STOP,
    PERFECT,
    REACH,
    SAMPLE,
    UNMATCHED,
    Letters,
    Match,
    Patterns,
    Read,
    log2_of,
    score_positions,
    side_range,
)

U = np.uint64

# The least that a mismatch costs against a match, whatever the quality: 2 - 0.5 log2(4/3) bits for
# a lower-case position at Q0, rounded down.
MISMATCH_COST = 1835
# The same for a base of Q11 or better: 2 + 0.5 |log2(4 e / 3)| with e = 10^-1.1.
CERTAIN_QUALITY = 11
CERTAIN_MISMATCH_COST = 3706
# Bits by which the second-best sample must be behind where layouts are searched along the read.
MARGIN = 5 * 1024


@inline_kernel
def shifted_word(words: Any, at: int) -> Any:
    """Return the 32 bases of a packed read from base `at` on."""
    index = at >> 5
    shift = U(2 * (at & 31))
    return (words[index] << shift) | ((words[index + 1] >> U(1)) >> (U(63) - shift))


@inline_kernel
def window_mismatches(words: Any, at: int, window: Any) -> Any:
    """Return the exact common positions at which the packed read differs, one bit each."""
    bits = shifted_word(words, at) ^ window[0]
    return (bits | (bits >> U(1))) & window[1]


@inline_kernel
def count_close(words: Any, first: int, stop: int, window: Any, allowed: int) -> int:
    """Count the places in [first, stop) whose window differs at no more than `allowed` positions.

    Without a branch in the inner loop, so that it is vectorised.
    """
    bases, mask = window[0], window[1]
    close = np.int64(0)
    for index in range(first >> 5, (stop + 31) >> 5):
        word = words[index]
        following = words[index + 1] >> U(1)
        lowest = max(np.int64(0), first - 32 * index)
        highest = min(np.int64(32), stop - 32 * index)
        for place in range(lowest, highest):
            shift = U(2 * place)
            bits = ((word << shift) | (following >> (U(63) - shift))) ^ bases
            close += count_bits((bits | (bits >> U(1))) & mask) <= allowed
    return close


@inner_kernel
def low_quality_words(read: Read, letters: Letters, scratch: Any, words: Any) -> None:
    """Set both bits of each base below Q11 or unknown in words, u64[*], packed as the bases are."""
    floor = letters.quality_offset + CERTAIN_QUALITY
    for place in range(read.length):
        uncertain = read.text[read.qualities + place] < floor or (
            letters.codes[read.text[read.bases + place]] > 3
        )
        scratch[place] = 3 if uncertain else 0
    for place in range(read.length, (read.length + 31) & ~31):
        scratch[place] = 0
    for index in range((read.length + 31) >> 5):
        word = U(0)
        for quarter in range(4):
            packed = U(0)
            for eighth in range(8):
                packed |= U(scratch[32 * index + 8 * quarter + eighth]) << U(8 * eighth)
            word |= gather_eight(packed) << U(48 - 16 * quarter)
        words[index] = word


@inline_kernel
def score_offset(patterns: Patterns, read: Read, offset: int, letters: Letters, best: Any) -> None:
    """Score all rows at one offset of side 0 and keep the best and the runner-up.

    Args:
        patterns: rows.
        read: mate 1.
        offset: where.
        letters: see Letters.
        best: i64[4], score, row, offset of the best and score of the best other sample; updated.
    """
    rows = patterns.rows
    common = np.int64(0)
    scored = False
    for row in range(rows.shape[0]):
        if offset + rows[row, LENGTH] > read.length or (offset > 0 and rows[row, ANCHORED]):
            continue
        if not scored:
            common = score_positions(
                patterns.positions, patterns.scores, 0, patterns.common_1, read, offset, letters
            )
            scored = True
        score = common + score_positions(
            patterns.positions,
            patterns.scores,
            rows[row, OWN_START],
            rows[row, OWN_STOP],
            read,
            offset,
            letters,
        )
        same = best[1] >= 0 and rows[row, SAMPLE] == rows[best[1], SAMPLE]
        earlier = offset < best[2] or (offset == best[2] and row < best[1])
        if score > best[0] or (score == best[0] and same and earlier):
            if not same:
                best[3] = max(best[3], best[0])
            best[0] = score
            best[1] = row
            best[2] = offset
        elif not same:
            best[3] = max(best[3], score)


@inline_kernel
def match_searched(
    patterns: Patterns,
    read: Read,
    words: Any,
    low_words: Any,
    scratch: Any,
    letters: Letters,
    hint: int,
    best: Any,
) -> Match:
    """Search side 0 of all rows along a read; the verdicts are those of scoring every offset.

    The offset of the hit before (`hint`) is scored first. What a mismatch costs at least then
    bounds how many of them an offset may have among the exact common positions and still matter;
    these are counted by XOR and popcount (24 ns for 91 offsets against 8 us for scoring all).

    Args:
        patterns: rows with no layout on side 1.
        read: mate 1.
        words: u64[*], its bases packed, two words of padding.
        low_words: u64[*], scratch of the same size.
        scratch: u8[*], scratch.
        letters: see Letters.
        hint: offset to look at first.
        best: i64[4], scratch, see score_offset.
    """
    rows = patterns.rows
    shortest = rows[0, LENGTH]
    perfect = np.int64(0)
    for row in range(rows.shape[0]):
        shortest = min(shortest, rows[row, LENGTH])
        perfect = max(perfect, rows[row, PERFECT])
    offsets = read.length - shortest + 1
    if offsets < 1:
        return Match(UNMATCHED, -1, 0, 0, NO_SCORE)
    bar = (
        log2_of(patterns.log2, offsets)
        + log2_of(patterns.log2, rows.shape[0])
        + patterns.error_bits
    )
    best[0] = NO_SCORE
    best[1] = -1
    best[2] = 0
    best[3] = NO_SCORE
    start = patterns.window_start
    if hint >= offsets or start < 0:
        hint = -1
    else:
        score_offset(patterns, read, hint, letters, best)
    hit = best[0] >= bar
    limit = max(best[0], bar) - MARGIN
    allowed = (perfect - limit) // (MISMATCH_COST if hit else CERTAIN_MISMATCH_COST)
    if not hit:
        low_quality_words(read, letters, scratch, low_words)
    if hit:
        # Most reads end here: no offset but the hint's is close enough to matter.
        at = start + hint
        close = count_close(words, start, start + offsets, patterns.window, allowed)
        own = count_bits(window_mismatches(words, at, patterns.window)) <= allowed
        if close == np.int64(own):
            offsets = np.int64(0)
    for offset in range(offsets):
        if offset == hint:
            continue
        if start >= 0:
            different = window_mismatches(words, offset + start, patterns.window)
            if not hit:
                different &= ~shifted_word(low_words, offset + start)
            if count_bits(different) > allowed:
                continue
        score_offset(patterns, read, offset, letters, best)
    if best[0] < bar:
        return Match(UNMATCHED, best[1], 0, 0, best[0])
    if best[0] - best[3] < MARGIN:
        return Match(AMBIGUOUS, best[1], best[2], 0, best[0])
    return Match(ASSIGNED, best[1], best[2], 0, best[0])


@inner_kernel
def best_offset(
    patterns: Patterns, side: int, row: int, read: Read, letters: Letters
) -> tuple[int, int, int]:
    """Return (score, offset, offsets looked at) of a row on one side, the first of equals."""
    rows = patterns.rows
    length = rows[row, LENGTH + side]
    if length == 0:
        return np.int64(0), np.int64(0), np.int64(1)
    offsets = np.int64(1)
    if not rows[row, ANCHORED + side]:
        offsets = read.length - length + 1
    elif rows[row, REACH + side] > read.length:
        offsets = np.int64(0)
    best = NO_SCORE
    place = np.int64(0)
    start, stop = side_range(patterns, side)
    for offset in range(offsets):
        score = score_positions(
            patterns.positions, patterns.scores, start, stop, read, offset, letters
        )
        score += score_positions(
            patterns.positions,
            patterns.scores,
            rows[row, OWN_START + side],
            rows[row, OWN_STOP + side],
            read,
            offset,
            letters,
        )
        if score > best:
            best = score
            place = np.int64(offset)
    return best, place, max(np.int64(1), offsets)


@inner_kernel
def match_both_sides(patterns: Patterns, read_1: Read, read_2: Read, letters: Letters) -> Match:
    """Search both mates, every offset: for tables where a searched layout has a part on read 2."""
    best = NO_SCORE
    second = NO_SCORE
    best_row = -1
    place_1 = np.int64(0)
    place_2 = np.int64(0)
    bar = np.int64(0)
    rows = patterns.rows
    for row in range(rows.shape[0]):
        score_1, at_1, offsets_1 = best_offset(patterns, 0, row, read_1, letters)
        score_2, at_2, offsets_2 = best_offset(patterns, 1, row, read_2, letters)
        if score_1 == NO_SCORE or score_2 == NO_SCORE:
            continue
        score = score_1 + score_2
        same = best_row >= 0 and rows[row, SAMPLE] == rows[best_row, SAMPLE]
        if score > best:
            if not same:
                second = max(second, best)
            best = score
            best_row = row
            place_1 = at_1
            place_2 = at_2
            bar = (
                log2_of(patterns.log2, offsets_1)
                + log2_of(patterns.log2, offsets_2)
                + log2_of(patterns.log2, rows.shape[0])
                + patterns.error_bits
            )
        elif not same:
            second = max(second, score)
    if best_row < 0 or best < bar:
        return Match(UNMATCHED, best_row, 0, 0, best)
    if best - second < MARGIN:
        return Match(AMBIGUOUS, best_row, place_1, place_2, best)
    return Match(ASSIGNED, best_row, place_1, place_2, best)
