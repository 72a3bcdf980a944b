"""Layouts as arrays and the integer likelihood scores of their positions.

Scores are in 1/1024 bit. `Patterns` is what patterns.compile_patterns makes of a library's layout
rows. Side 0 is read 1, side 1 is read 2. A row's scored positions are the common ones, which every
row of the library has at the same place, and its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inline_kernel

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
def side_range(patterns: Patterns, side: int) -> tuple[int, int]:
    """Return the common positions of a side, [start, stop)."""
    if side == 0:
        return 0, patterns.common_1
    return patterns.common_1, patterns.common_2
