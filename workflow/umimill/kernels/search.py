"""Layouts searched along read 1: bounded, with the verdicts of scoring every offset."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import count_bits, inline_kernel, kernel, merged_kernel
from umimill.kernels.bases import gather_eight, pack_text
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
    PERFECT,
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
    score_positions,
)
from umimill.kernels.rows import REVERSED, SWAPPED

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


@inline_kernel
def shifted_word(words: Any, at: int) -> Any:
    """Return the 32 bases of a packed read from base `at` on."""
    index = at >> 5
    shift = U(2 * (at & 31))
    return (words[index] << shift) | ((words[index + 1] >> U(1)) >> (U(63) - shift))


@inline_kernel
def window_mismatches(words: Any, at: int, bases: Any, mask: Any) -> Any:
    """Return the positions of a window at which the packed read differs, one bit each."""
    bits = shifted_word(words, at) ^ bases
    return (bits | (bits >> U(1))) & mask


@merged_kernel
def pack_padded(read: Read, words: Any) -> None:
    """Pack the bases of a read into words, u64[>= length / 32 + 2], and two words of padding."""
    count = (read.length + 31) >> 5
    pack_text(read.text, read.bases, read.length, words, np.int64(0))
    words[count] = U(0)
    words[count + 1] = U(0)


@merged_kernel
def count_close(words: Any, first: int, stop: int, bases: Any, mask: Any, allowed: int) -> int:
    """Count the places in [first, stop) whose window differs at no more than `allowed` positions.

    Without a branch in the inner loop, so that it is vectorised.
    """
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


@merged_kernel
def low_quality_words(read: Read, letters: Letters, least: int, scratch: Any, words: Any) -> None:
    """Set both bits of each base that is unknown or below Phred `least`, packed as the bases are.

    Args:
        read: the read.
        letters: see Letters.
        least: the least Phred that is not low.
        scratch: u8[*], scratch.
        words: u64[*], filled, with two words of padding.
    """
    floor = letters.quality_offset + least
    for place in range(read.length):
        uncertain = read.text[read.qualities + place] < floor or (
            letters.codes[read.text[read.bases + place]] > 3
        )
        scratch[place] = 3 if uncertain else 0
    for place in range(read.length, (read.length + 31) & ~31):
        scratch[place] = 0
    count = (read.length + 31) >> 5
    for index in range(count):
        word = U(0)
        for quarter in range(4):
            packed = U(0)
            for eighth in range(8):
                packed |= U(scratch[32 * index + 8 * quarter + eighth]) << U(8 * eighth)
            word |= gather_eight(packed) << U(48 - 16 * quarter)
        words[index] = word
    words[count] = U(0)
    words[count + 1] = U(0)


@merged_kernel
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
    row = np.int64(0)
    while row < rows.shape[0]:
        if offset + rows[row, LENGTH] > read.length or (offset > 0 and rows[row, ANCHORED]):
            row += 1
            continue
        # First what all rows share, and then the row again for its own positions.
        start = rows[row, OWN_START] if scored else 0
        stop = rows[row, OWN_STOP] if scored else patterns.common_1
        score = common + score_positions(
            patterns.positions, patterns.scores, start, stop, read, offset, letters
        )
        if not scored:
            common = score
            scored = True
            continue
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
            score_offset(patterns, read, offset, letters, best)
        if step >= 0:
            continue
        hit = best[0] >= bar
        limit = max(best[0], bar) - MARGIN
        allowed = (perfect - limit) // (MISMATCH_COST if hit else CERTAIN_MISMATCH_COST)
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
