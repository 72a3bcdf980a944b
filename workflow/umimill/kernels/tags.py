"""Rows that differ in a tag alone: only those are scored that can matter."""

from __future__ import annotations

from typing import Any

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

    Rows differ in a tag alone. What a mismatch costs at least, at positions where it costs more
    than the margin, bounds the score of a tag by the number of its mismatches, which are counted
    by XOR and popcount. Of 96 rows, scoring them all took 3.3 us.

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
    rows, positions, scores = patterns.rows, patterns.positions, patterns.scores
    most = common
    least = np.int64(1 << 40)
    unsure = U(0)
    for index in range(rows[0, OWN_START], rows[0, OWN_STOP]):
        place = positions[index, POSITION]
        quality = np.int64(read.text[read.qualities + offset + place]) - letters.quality_offset
        match = np.int64(scores[1, quality])
        mismatch = np.int64(scores[MISMATCH + positions[index, HALF], quality])
        most += max(match, mismatch)
        if match - mismatch > MARGIN:
            least = min(least, match - mismatch)
        else:
            unsure |= U(1) << U(62 - 2 * (place - patterns.tag_start))
    mask = patterns.tag_mask & ~unsure
    word = shifted_word(words, offset + patterns.tag_start)
    fewest = fewest_mismatches(patterns.tags, word, mask)
    row = np.int64(0)
    while tag_mismatches(patterns.tags, row, word, mask) > fewest:
        row += 1
    score = common + score_positions(
        positions, scores, rows[row, OWN_START], rows[row, OWN_STOP], read, offset, letters
    )
    limit = max(score, best[0], bar) - MARGIN
    allowed = max(fewest, (most - limit) // least)
    if count_near(patterns.tags, word, mask, allowed) == 1:
        note_score(rows, row, offset, score, best)
        return
    for other in range(rows.shape[0]):
        if tag_mismatches(patterns.tags, other, word, mask) <= allowed:
            score = common + score_positions(
                positions,
                scores,
                rows[other, OWN_START],
                rows[other, OWN_STOP],
                read,
                offset,
                letters,
            )
            note_score(rows, other, offset, score, best)


@inline_kernel
def tag_mismatches(tags: Any, row: int, word: Any, mask: Any) -> int:
    """Return the positions at which the tag of a row differs."""
    bits = word ^ tags[row, 0]
    return count_bits((bits | (bits >> U(1))) & mask)
