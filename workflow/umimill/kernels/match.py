"""Finding the layout of a sample in a read: integer likelihood scores, bounded search.

Scores are in 1/1024 bit. `Patterns` is what patterns.compile_patterns makes of a library's layout
rows. Side 0 is read 1, side 1 is read 2. A row's scored positions are the common ones, which every
row of the library has at the same place, and its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import count_bits, inline_kernel, inner_kernel
from umimill.kernels.bases import gather_eight

U = np.uint64

ASSIGNED, UNMATCHED, AMBIGUOUS, TOO_SHORT, LOW_UMI_QUALITY, EMPTY_PAYLOAD, UNRESOLVED = range(7)

# Columns of the table of rows. Those of two sides lie together: column + side.
SAMPLE = 0
LENGTH = 1  # positions of the layout; 0 = none on that side
ANCHORED = 3  # 1 = at offset 0 only
REACH = 5  # last scored position + 1
PERFECT = 7  # score of a perfect read
OWN_START = 9  # first row of `positions`
OWN_STOP = 11
PAYLOAD_START = 13  # relative to the offset
PAYLOAD_STOP = 15  # the same; -1 = to the end of the read
CAPTURE_START = 17  # first row of `capture`
CELL_LENGTH = 18
UMI_LENGTH = 19
SHARE = 20  # 1024 log2(rows of the same sample)
ROW_COLUMNS = 21

# Columns of the table of positions.
POSITION, ALLOWED, OPTIONS, HALF = range(4)
# Rows of the score table: 1..4 = match among so many allowed bases, then mismatches.
MISMATCH = 5

NO_SCORE = np.int64(-(1 << 40))
# The least that a mismatch costs against a match, whatever the quality: 2 - 0.5 log2(4/3) bits for
# a lower-case position at Q0, rounded down.
MISMATCH_COST = 1835
# The same for a base of Q11 or better: 2 + 0.5 |log2(4 e / 3)| with e = 10^-1.1.
CERTAIN_QUALITY = 11
CERTAIN_MISMATCH_COST = 3706
# Bits by which the second-best sample must be behind where layouts are searched along the read.
MARGIN = 5 * 1024
# Fixed point of posteriors: 2^40 is the best row's weight.
WEIGHT_BITS = 40


class Patterns(NamedTuple):
    """The layout rows of a library as arrays.

    Attributes:
        rows: i64[R, ROW_COLUMNS].
        positions: i64[*, 4], scored positions: place, allowed bases (bit 0 = A), their number,
            1 for half weight. The common ones of side 0, those of side 1, each row's own.
        common_1: end of the common positions of side 0.
        common_2: end of the common positions of side 1.
        capture: i64[*, 2], side and place of each barcode base, cell first.
        scores: i32[7, 94], by kind (see MISMATCH) and Phred.
        log2: i64[*], 1024 log2(i).
        weights: u64[1024], 2^40 * 2^(-i / 1024).
        window: u64[2], packed bases and mask of up to 32 exact common positions of side 0.
        window_start: place of the first of them; -1 = there are none.
        samples: S.
        posterior: 1 where every row is anchored (acceptance by posterior), else 0 (by bits).
        two_sided: 1 where a row has a layout on side 1.
        error_bits: 1024 log2(1 / 0.01): one false acceptance in a hundred foreign reads.
    """

    rows: Any
    positions: Any
    common_1: int
    common_2: int
    capture: Any
    scores: Any
    log2: Any
    weights: Any
    window: Any
    window_start: int
    samples: int
    posterior: int
    two_sided: int
    error_bits: int


class Foreign(NamedTuple):
    """What a read is like that has no layout, measured by probe on the first templates.

    Attributes:
        prior: i64, 1024 log2(share of foreign reads / share of the rest).
        base_scores: i64[5], 1024 log2(4 p) of each base; 0 for N.
    """

    prior: int
    base_scores: Any


class Read(NamedTuple):
    """One read in a text buffer.

    Attributes:
        text: u8[*].
        bases: first base.
        qualities: first quality.
        length: bases.
    """

    text: Any
    bases: int
    qualities: int
    length: int


class Match(NamedTuple):
    """Verdict on a template: ASSIGNED, UNMATCHED or AMBIGUOUS, and where the layout is."""

    verdict: int
    row: int
    offset_1: int
    offset_2: int
    score: int


class Letters(NamedTuple):
    """How text becomes codes and Phred.

    Attributes:
        codes: u8[256], bases to 0..3, 4 = unknown.
        quality_offset: byte of Phred 0.
    """

    codes: Any
    quality_offset: int


@inline_kernel
def log2_of(table: Any, count: int) -> int:
    """Return 1024 log2(count) for count >= 1, from the table and shifts."""
    shift = 0
    while count >= table.size:
        count >>= 1
        shift += 1
    return table[count] + 1024 * shift


@inline_kernel
def weight_of(weights: Any, difference: int) -> Any:
    """Return 2^40 * 2^(difference / 1024) for difference <= 0 as u64."""
    bits = -difference
    whole = bits >> 10
    if whole >= WEIGHT_BITS:
        return U(0)
    return weights[bits & 1023] >> U(whole)


@inline_kernel
def score_positions(
    positions: Any, scores: Any, start: int, stop: int, read: Read, offset: int, letters: Letters
) -> int:
    """Score rows start..stop of a table of positions at an offset of a read."""
    total = np.int64(0)
    text = read.text
    codes = letters.codes
    for index in range(start, stop):
        place = offset + positions[index, POSITION]
        code = np.int64(codes[text[read.bases + place]])
        quality = np.int64(text[read.qualities + place]) - letters.quality_offset
        if code < 4 and (positions[index, ALLOWED] >> code) & 1:
            total += np.int64(scores[positions[index, OPTIONS], quality])
        else:
            total += np.int64(scores[MISMATCH + positions[index, HALF], quality])
    return total


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


@inline_kernel
def side_range(patterns: Patterns, side: int) -> tuple[int, int]:
    """Return the common positions of a side, [start, stop)."""
    if side == 0:
        return 0, patterns.common_1
    return patterns.common_1, patterns.common_2


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
    if against * U(99) > sums[winner]:
        refusal = AMBIGUOUS
    else:
        # The weight of a foreign read on the scale of the best row: prior odds times likelihood
        # ratio, times the samples among which the prior of a genuine read is shared.
        difference = foreign.prior + background + log2_of(patterns.log2, patterns.samples) - best
        alien = weight_of(patterns.weights, min(difference, np.int64(0)))
        if exact or (difference < 0 and (against + alien) * U(99) <= sums[winner]):
            return Match(ASSIGNED, best_row, 0, 0, best)
        refusal = AMBIGUOUS if difference < 0 and against > alien else UNMATCHED
    if refusal == AMBIGUOUS and not exact:
        # Two samples alike, but a foreign read explains it better than either.
        difference = foreign.prior + background + log2_of(patterns.log2, patterns.samples) - best
        if difference >= 0:
            refusal = UNMATCHED
    return Match(refusal, best_row, 0, 0, best)


@inline_kernel
def window_mismatches(words: Any, at: int, window: Any) -> Any:
    """Return the exact common positions at which the packed read differs, one bit each."""
    bits = shifted_word(words, at) ^ window[0]
    return (bits | (bits >> U(1))) & window[1]


@inline_kernel
def shifted_word(words: Any, at: int) -> Any:
    """Return the 32 bases of a packed read from base `at` on."""
    index = at >> 5
    shift = U(2 * (at & 31))
    return (words[index] << shift) | ((words[index + 1] >> U(1)) >> (U(63) - shift))


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
