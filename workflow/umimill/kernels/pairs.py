"""Layouts searched along both mates: bounded, with the verdicts of scoring every offset."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import count_bits, inline_kernel, kernel, merged_kernel
from umimill.kernels.match import (
    ALLOWED,
    AMBIGUOUS,
    ANCHORED,
    ASSIGNED,
    HALF,
    LENGTH,
    MARGIN,
    MISMATCH,
    MISMATCH_COST,
    NO_SCORE,
    OPTIONS,
    OWN_START,
    OWN_STOP,
    PERFECT,
    POSITION,
    REACH,
    SAMPLE,
    UNMATCHED,
    Letters,
    Match,
    Mates,
    Patterns,
    Read,
    log2_of,
    note_match,
    reads_of,
    side_range,
)
from umimill.kernels.rows import REVERSED, SWAPPED
from umimill.kernels.search import Scratch, reverse_read
from umimill.kernels.windows import (
    count_close,
    low_quality_words,
    pack_padded,
    shifted_word,
    window_mismatches,
)

# The least that a mismatch costs for a base of Q20 or better: 2 + 0.5 |log2(4 e / 3)|.
CLEAR_QUALITY = 20
CLEAR_MISMATCH_COST = 5237

# Columns of the table of the best offsets: column + side.
SCORE = 0
PLACE = 2
NEAREST = 4  # where the window of the rows from here on differs least
PLACE_COLUMNS = 6


@inline_kernel
def offsets_of(rows: Any, row: int, side: int, length: int) -> int:
    """Return at how many offsets the layout of a row fits a read of this length."""
    if not rows[row, ANCHORED + side]:
        return max(np.int64(0), length - rows[row, LENGTH + side] + 1)
    return np.int64(rows[row, REACH + side] <= length)


@merged_kernel
def score_within(
    patterns: Patterns,
    start: int,
    stop: int,
    read: Read,
    offset: int,
    letters: Letters,
    loss: int,
) -> tuple[int, int]:
    """Score rows start..stop of the table of positions until more than `loss` is lost.

    Returns:
        (score, what is left of the loss; negative where the score was given up).
    """
    total = np.int64(0)
    for index in range(start, stop):
        place = offset + patterns.positions[index, POSITION]
        options = patterns.positions[index, OPTIONS]
        code = np.int64(letters.codes[read.text[read.bases + place]])
        quality = np.int64(read.text[read.qualities + place]) - letters.quality_offset
        mismatch = MISMATCH + patterns.positions[index, HALF]
        # Both are loaded, so that there is no branch on whether the base fits.
        fits = (patterns.positions[index, ALLOWED] >> code) & 1
        score = np.int64(patterns.scores[mismatch + fits * (options - mismatch), quality])
        total += score
        # No base of a position scores more than this one of Q93.
        loss -= np.int64(patterns.scores[options, 93]) - score
        if loss < 0:
            break
    return total, loss


@merged_kernel
def score_rows(
    patterns: Patterns,
    side: int,
    first: int,
    last: int,
    read: Read,
    offset: int,
    letters: Letters,
    loss: int,
    places: Any,
) -> None:
    """Score rows first..last at an offset of a side and keep the best offset of each.

    Args:
        patterns: rows.
        side: the side.
        first: first row.
        last: end of the rows.
        read: mate of that side.
        offset: where.
        letters: see Letters.
        loss: an offset that scores so much less than a perfect read matters to none of the rows.
        places: i64[R, PLACE_COLUMNS], best scores and offsets; updated.
    """
    rows = patterns.rows
    common = np.int64(0)
    left = loss
    start, stop = side_range(patterns, side)
    scored = False
    row = first
    while row < last:
        if (offset > 0 and rows[row, ANCHORED + side]) or offset >= offsets_of(
            rows, row, side, read.length
        ):
            row += 1
            continue
        # First what all rows share, and then the row again for its own positions.
        if scored:
            start, stop = rows[row, OWN_START + side], rows[row, OWN_STOP + side]
        found, rest = score_within(patterns, start, stop, read, offset, letters, left)
        if not scored:
            if rest < 0:
                break
            common = found
            left = rest
            scored = True
        else:
            score = common + found
            best = places[row, SCORE + side]
            if rest >= 0 and (
                score > best or (score == best and offset < places[row, PLACE + side])
            ):
                places[row, SCORE + side] = score
                places[row, PLACE + side] = offset
            row += 1


@merged_kernel
def nearest_place(words: Any, start: int, offsets: int, bases: Any, mask: Any) -> int:
    """Return the first offset whose window, at `start`, differs at the fewest positions."""
    fewest = np.int64(99)
    nearest = np.int64(0)
    for offset in range(offsets):
        different = count_bits(window_mismatches(words, start + offset, bases, mask))
        if different < fewest:
            fewest = different
            nearest = np.int64(offset)
    return nearest


@merged_kernel
def match_both_sides(
    patterns: Patterns,
    read_1: Read,
    read_2: Read,
    letters: Letters,
    scratch: Scratch,
    places: Any,
) -> Match:
    """Search both mates; the verdicts are those of scoring every pair of offsets.

    The best score of a row is that of its best offset on each side. Where the windows differ least
    is scored first, on both sides: what is more than the margin below the best row's sum can change
    nothing. That bounds what an offset of one side may lack, given what the other side has at most.

    Args:
        patterns: rows, some with a layout on side 1.
        read_1: mate 1.
        read_2: mate 2; length 0 where there is none.
        letters: see Letters.
        scratch: see Scratch.
        places: i64[R, PLACE_COLUMNS], scratch, see score_rows.
    """
    rows = patterns.rows
    count = rows.shape[0]
    most_1 = np.int64(0)
    most_2 = np.int64(0)
    least_bar = -NO_SCORE
    for row in range(count):
        places[row, NEAREST] = places[row, NEAREST + 1] = 0
        places[row, SCORE] = places[row, SCORE + 1] = NO_SCORE
        offsets_1 = offsets_of(rows, row, 0, read_1.length)
        offsets_2 = offsets_of(rows, row, 1, read_2.length)
        most_1 = max(most_1, offsets_1)
        most_2 = max(most_2, offsets_2)
        if offsets_1 > 0 and offsets_2 > 0:
            bar = log2_of(patterns.log2, offsets_1) + log2_of(patterns.log2, offsets_2)
            least_bar = min(least_bar, bar)
    if least_bar == -NO_SCORE:
        return Match(UNMATCHED, -1, 0, 0, NO_SCORE)
    constant = log2_of(patterns.log2, count) + patterns.error_bits
    limit = np.int64(0)
    hit = False
    if most_1 > 1:
        pack_padded(read_1, scratch.words)
    if most_2 > 1:
        pack_padded(read_2, scratch.words_2)
    # Where the windows differ least, on each side; then all that may matter, on the side with
    # fewer offsets first: what it has decides what the other may lack.
    for phase in range(4):
        side = phase & 1 if most_1 <= most_2 else 1 - (phase & 1)
        read = read_1 if side == 0 else read_2
        words = scratch.words if side == 0 else scratch.words_2
        most = most_1 if side == 0 else most_2
        if phase == 2:
            best = NO_SCORE
            for row in range(count):
                best = max(best, places[row, SCORE] + places[row, SCORE + 1])
            hit = best >= least_bar + constant
            limit = max(best, least_bar + constant) - MARGIN
        if phase >= 2 and most <= 1:
            continue
        if phase >= 2 and not hit:
            low_quality_words(read, letters, CLEAR_QUALITY, scratch.codes, scratch.low_words)
        together = patterns.window_rows[side]
        for first in range(0, count, together):
            last = first + together
            window = first // together
            bases = patterns.windows[side, window, 0]
            mask = patterns.windows[side, window, 1]
            start = patterns.window_starts[side, window]
            offsets = np.int64(0)
            loss = np.int64(-1)
            for row in range(first, last):
                offsets = max(offsets, offsets_of(rows, row, side, read.length))
                other = rows[row, PERFECT + 1 - side]
                if phase == 3:
                    other = places[row, SCORE + 1 - side]
                loss = max(loss, rows[row, PERFECT + side] + other - limit)
            begin = places[first, NEAREST + side]
            allowed = np.int64(99)
            if phase < 2:
                loss = -NO_SCORE
                if start >= 0 and offsets > 1:
                    begin = nearest_place(words, start, offsets, bases, mask)
                    places[first, NEAREST + side] = begin
                offsets = min(offsets, begin + 1)
            elif loss < 0 or offsets <= 1:
                continue
            elif hit and start >= 0:
                allowed = loss // MISMATCH_COST
                close = count_close(words, start, start + offsets, bases, mask, allowed)
                own = count_bits(window_mismatches(words, start + begin, bases, mask)) <= allowed
                if close == np.int64(own):
                    # Most pairs end here: no offset but the one looked at is close enough.
                    continue
                begin = np.int64(0)
            else:
                allowed = loss // CLEAR_MISMATCH_COST
                begin = np.int64(0)
            for offset in range(begin, offsets):
                if phase >= 2 and start >= 0:
                    different = window_mismatches(words, start + offset, bases, mask)
                    if not hit:
                        different &= ~shifted_word(scratch.low_words, start + offset)
                    if count_bits(different) > allowed:
                        continue
                score_rows(patterns, side, first, last, read, offset, letters, loss, places)
    best = NO_SCORE
    second = NO_SCORE
    best_row = np.int64(-1)
    for row in range(count):
        if places[row, SCORE] == NO_SCORE or places[row, SCORE + 1] == NO_SCORE:
            continue
        score = places[row, SCORE] + places[row, SCORE + 1]
        same = best_row >= 0 and rows[row, SAMPLE] == rows[best_row, SAMPLE]
        if score > best:
            if not same:
                second = max(second, best)
            best = score
            best_row = np.int64(row)
        elif not same:
            second = max(second, score)
    if best_row < 0:
        return Match(UNMATCHED, -1, 0, 0, NO_SCORE)
    bar = constant
    bar += log2_of(patterns.log2, offsets_of(rows, best_row, 0, read_1.length))
    bar += log2_of(patterns.log2, offsets_of(rows, best_row, 1, read_2.length))
    verdict = ASSIGNED
    if best < bar:
        verdict = UNMATCHED
    elif best - second < MARGIN:
        verdict = AMBIGUOUS
    return Match(verdict, best_row, places[best_row, PLACE], places[best_row, PLACE + 1], best)


@kernel
def search_pairs(
    mates: Mates,
    start: int,
    stop: int,
    patterns: Patterns,
    letters: Letters,
    complements: Any,
    scratch: Scratch,
    places: Any,
    matches: Any,
) -> None:
    """Match templates [start, stop) of a chunk along both mates.

    Only a template that is clearly foreign is looked at the other way round.

    Args:
        mates: the chunk.
        start: first template.
        stop: end.
        patterns: layouts of the library.
        letters: see Letters.
        complements: u8[256], letters to their complements.
        scratch: see Scratch.
        places: i64[R, PLACE_COLUMNS], scratch.
        matches: i32[>= stop, MATCH_COLUMNS]; rows start..stop are filled.
    """
    for index in range(start, stop):
        read_1, read_2 = reads_of(mates, index)
        flags = 0
        match = Match(UNMATCHED, -1, 0, 0, NO_SCORE)
        for turn in range(2):
            if turn == 1:
                if match.verdict != UNMATCHED:
                    break
                if mates.paired == 1:
                    read_1, read_2 = read_2, read_1
                    flags = SWAPPED
                else:
                    read_1 = reverse_read(read_1, complements, scratch.text)
                    flags = REVERSED
            match = match_both_sides(patterns, read_1, read_2, letters, scratch, places)
        note_match(matches, index, match, flags)
