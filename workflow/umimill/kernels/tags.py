"""Rows that differ in a tag alone: only those are scored that can matter."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import count_bits, inline_kernel, merged_kernel
from umimill.kernels.match import (
    HALF,
    MARGIN,
    MISMATCH,
    OWN_START,
    OWN_STOP,
    POSITION,
    SAMPLE,
    Letters,
    Patterns,
    Read,
    score_positions,
)
from umimill.kernels.windows import shifted_word

U = np.uint64

# The most that an exact position scores: two bits.
MATCH_SCORE = 2048
# 2^64 divided by the golden ratio: Fibonacci hashing (Knuth, TAOCP 3, 6.4).
HASH = U(0x9E3779B97F4A7C15)


@merged_kernel
def note_score(rows: Any, row: int, offset: int, score: int, best: Any) -> None:
    """Take the score of a row at an offset into the best and the runner-up, see score_offset."""
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


@merged_kernel
def fewest_mismatches(tags: Any, word: Any, mask: Any) -> int:
    """Return the fewest positions at which a tag differs; without a branch, to be vectorised."""
    fewest = np.int64(64)
    for row in range(tags.shape[0]):
        bits = word ^ tags[row, 0]
        fewest = min(fewest, count_bits((bits | (bits >> U(1))) & mask))
    return fewest


@merged_kernel
def count_near(tags: Any, word: Any, mask: Any, allowed: int) -> int:
    """Count the tags that differ at no more than `allowed` positions."""
    near = np.int64(0)
    for row in range(tags.shape[0]):
        bits = word ^ tags[row, 0]
        near += count_bits((bits | (bits >> U(1))) & mask) <= allowed
    return near


class Near(NamedTuple):
    """Which tags can matter at an offset: those with few enough mismatches.

    Attributes:
        row: the first of those with the fewest.
        score: of its tag.
        mask: positions whose mismatches are counted, see Patterns.tag_mask.
        allowed: most mismatches of a tag that can matter.
        count: tags that have no more.
    """

    row: int
    score: int
    mask: Any
    allowed: int
    count: int


@merged_kernel
def near_tags(
    patterns: Patterns, word: Any, read: Read, offset: int, letters: Letters, span: int, bar: int
) -> Near:
    """Tell which tags can score less than `span` below the best one, and `bar` or more.

    Rows differ in a tag alone. What a mismatch costs at least, at positions where it costs more
    than the margin, bounds the score of a tag by the number of its mismatches, which are counted
    by XOR and popcount. Most reads have a tag without an error, which is looked up.

    Args:
        patterns: rows with tags.
        word: the 32 bases at the place of the tag.
        read: mate 1.
        offset: where.
        letters: see Letters.
        span: how far below the best.
        bar: least score of a tag.
    """
    most, least, unsure = weigh_tag(patterns, read, offset, letters)
    mask = patterns.tag_mask & ~unsure
    row = find_tag(patterns, word)
    fewest = np.int64(0)
    if row < 0:
        fewest = fewest_mismatches(patterns.tags, word, mask)
        row = np.int64(0)
        while tag_mismatches(patterns.tags, row, word, mask) > fewest:
            row += 1
    score = score_tag(patterns, row, read, offset, letters)
    allowed = max(fewest, (most - max(score - span, bar)) // least)
    if fewest == 0 and patterns.tag_nearest[row] - count_bits(unsure) > allowed:
        return Near(row, score, mask, allowed, np.int64(1))
    return Near(row, score, mask, allowed, count_near(patterns.tags, word, mask, allowed))


@merged_kernel
def score_tags(
    patterns: Patterns,
    read: Read,
    offset: int,
    letters: Letters,
    words: Any,
    common: int,
    bar: int,
    best: Any,
) -> None:
    """Score at one offset those rows that can be the best or within the margin of it.

    Args:
        patterns: rows with tags.
        read: mate 1.
        offset: where.
        letters: see Letters.
        words: the packed read.
        common: score of the common positions.
        bar: a score below it is no match.
        best: see score_offset.
    """
    rows = patterns.rows
    least = max(best[0], bar) - MARGIN - common
    if MATCH_SCORE * (rows[0, OWN_STOP] - rows[0, OWN_START]) < least:
        # No tag makes up for the rest. Of foreign reads nearly all offsets end here.
        return
    word = shifted_word(words, offset + patterns.tag_start)
    near = near_tags(patterns, word, read, offset, letters, MARGIN, least)
    if near.count == 1:
        note_score(rows, near.row, offset, common + near.score, best)
        return
    for row in range(rows.shape[0]):
        if tag_mismatches(patterns.tags, row, word, near.mask) <= near.allowed:
            score = common + score_tag(patterns, row, read, offset, letters)
            note_score(rows, row, offset, score, best)


@merged_kernel
def weigh_tag(
    patterns: Patterns, read: Read, offset: int, letters: Letters
) -> tuple[int, int, Any]:
    """Bound what tags can score, whatever they are.

    Returns:
        (most that a tag can score, least that a mismatch costs where it costs more than the margin,
        bits of the positions where it does not).
    """
    positions, scores = patterns.positions, patterns.scores
    qualities = U(read.qualities + offset)
    quality_offset = U(letters.quality_offset)
    most = np.int64(0)
    least = np.int64(1 << 40)
    unsure = U(0)
    for index in range(U(patterns.rows[0, OWN_START]), U(patterns.rows[0, OWN_STOP])):
        place = positions[index, POSITION]
        quality = U(read.text[qualities + U(place)]) - quality_offset
        match = np.int64(scores[1, quality])
        mismatch = np.int64(scores[U(MISMATCH + positions[index, HALF]), quality])
        most += max(match, mismatch)
        if match - mismatch > MARGIN:
            least = min(least, match - mismatch)
        else:
            unsure |= U(1) << U(62 - 2 * (place - patterns.tag_start))
    return most, least, unsure


@merged_kernel
def find_tag(patterns: Patterns, word: Any) -> int:
    """Return the row whose tag these 32 bases hold, or -1."""
    tag = word & (patterns.tag_mask | (patterns.tag_mask << U(1)))
    slots = patterns.tag_slots
    last = U(slots.size - 1)
    # The highest bits of the product depend on all of the tag.
    slot = (tag * HASH) >> U(patterns.tag_shift)
    while slots[slot] >= 0:
        row = np.int64(slots[slot])
        if patterns.tags[row, 0] == tag:
            return row
        slot = (slot + U(1)) & last
    return np.int64(-1)


@merged_kernel
def score_tag(patterns: Patterns, row: int, read: Read, offset: int, letters: Letters) -> int:
    """Score the tag of a row at an offset."""
    start, stop = patterns.rows[row, OWN_START], patterns.rows[row, OWN_STOP]
    return score_positions(patterns, start, stop, read, offset, letters)


@inline_kernel
def tag_mismatches(tags: Any, row: int, word: Any, mask: Any) -> int:
    """Return the positions at which the tag of a row differs."""
    bits = word ^ tags[row, 0]
    return count_bits((bits | (bits >> U(1))) & mask)
