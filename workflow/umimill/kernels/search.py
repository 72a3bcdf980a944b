"""Layouts searched along read 1: bounded, with the verdicts of scoring every offset."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import count_bits, kernel, merged_kernel
from umimill.kernels.match import (
    AMBIGUOUS,
    ANCHORED,
    ASSIGNED,
    LENGTH,
    MARGIN,
    MISMATCH_COST,
    NO_SCORE,
    OWN_START,
    OWN_STOP,
    UNMATCHED,
    Letters,
    Match,
    Mates,
    Patterns,
    Read,
    log2_of,
    note_match,
    reads_of,
    score_positions,
)
from umimill.kernels.rows import REVERSED, SWAPPED
from umimill.kernels.tags import note_score, score_tags
from umimill.kernels.windows import (
    count_close,
    low_quality_words,
    pack_padded,
    shifted_word,
    window_mismatches,
)

U = np.uint64

# The least that a mismatch costs for a base of Q11 or better (MISMATCH_COST is for any):
# 2 + 0.5 |log2(4 e / 3)| with e = 10^-1.1.
CERTAIN_QUALITY = 11
CERTAIN_MISMATCH_COST = 3706


class Scratch(NamedTuple):
    """Buffers of a worker: words and letters of the longest read, with padding.

    Attributes:
        words: u64[*], packed bases.
        words_2: u64[*], packed bases of mate 2.
        low_words: u64[*], masks.
        codes: u8[*], one byte a base.
        text: u8[*], a reversed read: bases in the first half, qualities in the second.
        hint: i64[1], offset of the last hit.
        best: i64[4], best offset so far.
    """

    words: Any
    words_2: Any
    low_words: Any
    codes: Any
    text: Any
    hint: Any
    best: Any


@merged_kernel
def score_offset(
    patterns: Patterns,
    read: Read,
    offset: int,
    letters: Letters,
    words: Any,
    bar: int,
    best: Any,
) -> None:
    """Score the rows at one offset of side 0 and keep the best and the runner-up.

    Args:
        patterns: rows.
        read: mate 1.
        offset: where.
        letters: see Letters.
        words: the packed read.
        bar: a score below it is no match.
        best: i64[4], score, row, offset of the best and score of the best other sample; updated.
    """
    rows = patterns.rows
    common = np.int64(0)
    scored = False
    row = np.int64(0)
    while row < rows.shape[0]:
        if offset + rows[row, LENGTH] > read.length or (offset > 0 and rows[row, ANCHORED]):
            row += 1
            continue
        # First what all rows share, and then the row again for its own positions.
        start = rows[row, OWN_START] if scored else 0
        stop = rows[row, OWN_STOP] if scored else patterns.common_1
        score = common + score_positions(patterns, start, stop, read, offset, letters)
        if not scored:
            common = score
            scored = True
            if patterns.tags.shape[1]:
                score_tags(patterns, read, offset, letters, words, common, bar, best)
                return
            continue
        note_score(rows, row, offset, score, best)
        row += 1


@merged_kernel
def match_searched(patterns: Patterns, read: Read, letters: Letters, scratch: Scratch) -> Match:
    """Search side 0 of all rows along a read; the verdicts are those of scoring every offset.

    The offset of the hit before (`hint`) is scored first. What a mismatch costs at least then
    bounds how many of them an offset may have among the exact common positions and still matter;
    these are counted by XOR and popcount (24 ns for 91 offsets against 8 us for scoring all).

    Args:
        patterns: rows with no layout on side 1.
        read: mate 1.
        letters: see Letters.
        scratch: see Scratch; its hint is set where the verdict is ASSIGNED.
    """
    rows = patterns.rows
    offsets = read.length - patterns.shortest_1 + 1
    if offsets < 1:
        return Match(UNMATCHED, -1, 0, 0, NO_SCORE)
    bar = (
        log2_of(patterns.log2, offsets)
        + log2_of(patterns.log2, rows.shape[0])
        + patterns.error_bits
    )
    best = scratch.best
    best[0] = NO_SCORE
    best[1] = -1
    best[2] = 0
    best[3] = NO_SCORE
    bases, mask, start = (
        patterns.windows[0, 0, 0],
        patterns.windows[0, 0, 1],
        patterns.window_starts[0, 0],
    )
    hint = scratch.hint[0]
    if hint >= offsets or start < 0:
        hint = np.int64(-1)
    pack_padded(read, scratch.words)
    hit = False
    allowed = np.int64(0)
    for step in range(-1, offsets):
        offset = hint if step < 0 else step
        if step >= 0:
            if offset == hint:
                continue
            if start >= 0:
                different = window_mismatches(scratch.words, offset + start, bases, mask)
                if not hit:
                    different &= ~shifted_word(scratch.low_words, offset + start)
                if count_bits(different) > allowed:
                    continue
        if offset >= 0:
            score_offset(patterns, read, offset, letters, scratch.words, bar, best)
        if step >= 0:
            continue
        hit = best[0] >= bar
        limit = max(best[0], bar) - MARGIN
        allowed = (patterns.perfect_1 - limit) // (MISMATCH_COST if hit else CERTAIN_MISMATCH_COST)
        if not hit:
            low_quality_words(read, letters, CERTAIN_QUALITY, scratch.codes, scratch.low_words)
            continue
        # Most reads end here: no offset but the hint's is close enough to matter.
        close = count_close(scratch.words, start, start + offsets, bases, mask, allowed)
        own = count_bits(window_mismatches(scratch.words, start + hint, bases, mask)) <= allowed
        if close == np.int64(own):
            break
    if best[0] < bar:
        return Match(UNMATCHED, best[1], 0, 0, best[0])
    if best[0] - best[3] < MARGIN:
        return Match(AMBIGUOUS, best[1], best[2], 0, best[0])
    scratch.hint[0] = best[2]
    return Match(ASSIGNED, best[1], best[2], 0, best[0])


@merged_kernel
def reverse_read(read: Read, complements: Any, text: Any) -> Read:
    """Write the reverse complement of a read into text, u8[>= 2 * length + 128]."""
    half = text.size // 2
    for position in range(read.length):
        last = read.length - 1 - position
        text[position] = complements[read.text[read.bases + last]]
        text[half + position] = read.text[read.qualities + last]
    return Read(text, np.int64(0), np.int64(half), read.length)


@kernel
def search_templates(
    mates: Mates,
    start: int,
    stop: int,
    patterns: Patterns,
    letters: Letters,
    complements: Any,
    scratch: Scratch,
    matches: Any,
) -> None:
    """Match templates [start, stop) of a chunk along read 1.

    Only a read that is clearly foreign is looked at the other way round: read 2 of a pair, or else
    the reverse complement.

    Args:
        mates: the chunk.
        start: first template.
        stop: end.
        patterns: layouts of the library.
        letters: see Letters.
        complements: u8[256], letters to their complements.
        scratch: see Scratch.
        matches: i32[>= stop, MATCH_COLUMNS]; rows start..stop are filled.
    """
    for index in range(start, stop):
        read, mate = reads_of(mates, index)
        flags = 0
        match = Match(UNMATCHED, -1, 0, 0, NO_SCORE)
        for turn in range(2):
            if turn == 1:
                if match.verdict != UNMATCHED:
                    break
                if mates.paired == 1:
                    read = mate
                    flags = SWAPPED
                else:
                    read = reverse_read(read, complements, scratch.text)
                    flags = REVERSED
            match = match_searched(patterns, read, letters, scratch)
        note_match(matches, index, match, flags)
