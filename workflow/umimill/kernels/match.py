"""Layouts as arrays and the integer likelihood scores of their positions.

Scores are in 1/1024 bit. `Patterns` is what patterns.compile_patterns makes of a library's layout
rows. Side 0 is read 1, side 1 is read 2. A row's scored positions are the common ones, which every
row of the library has at the same place, and its own.

A library needs one of the matchers: posterior.py where every layout is anchored, pairs.py where a
layout is searched and some have a part on read 2, else search.py. Each is a kernel of its own, so
that a run compiles only what its layouts need.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inline_kernel, merged_kernel
from umimill.kernels.fastq import BASES_START, BASES_STOP, QUALITIES_START

U = np.uint64

ASSIGNED, UNMATCHED, AMBIGUOUS, TOO_SHORT, LOW_UMI_QUALITY, EMPTY_PAYLOAD, UNRESOLVED = range(7)
PARTIAL = 7  # the barcode was not fully read; its row goes to a file of its own
VERDICTS = 8

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
RUN_SIDE = 21  # of the last run of UMI bases that has an anchor behind it; -1 = there is none
RUN_START = 22
RUN_STOP = 23
RUN_CAPTURE = 24  # behind its rows of `capture`
ROW_COLUMNS = 25

# Columns of the table of positions.
POSITION, ALLOWED, OPTIONS, HALF = range(4)
# Qualities that a row of scores has room for.
QUALITIES = 128
# Rows of the score table: 1..4 = match among so many allowed bases, then mismatches.
MISMATCH = 5

NO_SCORE = np.int64(-(1 << 40))
# Bits by which the second-best sample must be behind where layouts are searched along the read.
MARGIN = 5 * 1024
# The least that a mismatch costs against a match, whatever the quality: 2 - 0.5 log2(4/3) bits for
# a lower-case position at Q0, rounded down.
MISMATCH_COST = 1835

# Columns of the table of matches, i32[*, 5]. Flags are those of rows.py.
VERDICT, ROW, OFFSET_1, OFFSET_2, FLAGS = range(5)
MATCH_COLUMNS = 5


class Patterns(NamedTuple):
    """The layout rows of a library as arrays.

    Attributes:
        rows: i64[R, ROW_COLUMNS].
        positions: i64[*, 4], scored positions: place, allowed bases (bit 0 = A), their number,
            1 for half weight. The common ones of side 0, those of side 1, each row's own.
        common_1: end of the common positions of side 0.
        common_2: end of the common positions of side 1.
        capture: i64[*, 2], side and place of each barcode base, cell first.
        anchors: u64[R, 2, 2], letters of the 8 positions behind a row's run of UMI bases, and of
            those before it, as load_word has them; then their mask, 0 where any base may be.
        scores: i32[7, 94], by kind (see MISMATCH) and Phred.
        log2: i64[*], 1024 log2(i).
        weights: u64[1024], 2^40 * 2^(-i / 1024).
        windows: u64[2, W, 2], packed bases and mask of up to 32 exact positions of a side: one
            window of common positions, or one for each row, see window_rows.
        window_starts: i64[2, W], place of the first of them; -1 = there are none.
        window_rows: i64[2], rows that have a window of that side in common: all of them, or 1.
        places: u64[P, 2], place of each scored position, and where its scores begin.
        place_scores: i32[K * 5 * QUALITIES], for each kind of position, base code and quality.
        tags: u64[R, 1], packed bases of each row's own positions on side 0, where these are exact,
            at the same places and within 32 of them in all rows, and none has any on side 1;
            else u64[R, 0].
        tag_mask: their mask.
        tag_start: place of the first of the 32.
        tag_slots: i32[*], rows by the hash of their tag, see tags.find_tag; -1 = none.
        tag_shift: bits of the hash that are not used.
        tag_nearest: i64[R], fewest positions at which the tag of another row differs.
        shortest_1, perfect_1, most_share: over all rows, the least positions, the highest perfect
            score, the highest share.
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
    anchors: Any
    scores: Any
    log2: Any
    weights: Any
    windows: Any
    window_starts: Any
    window_rows: Any
    places: Any
    place_scores: Any
    tags: Any
    tag_mask: Any
    tag_start: int
    tag_slots: Any
    tag_shift: int
    tag_nearest: Any
    shortest_1: int
    perfect_1: int
    most_share: int
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


class Mates(NamedTuple):
    """The templates of a chunk.

    Attributes:
        buffer_1: u8[*], text of mate 1.
        records_1: i32[*, 5], see fastq.py.
        buffer_2: u8[*], text of mate 2 (of mate 1 where there is one file).
        records_2: i32[*, 5].
        paired: 1 for pairs.
    """

    buffer_1: Any
    records_1: Any
    buffer_2: Any
    records_2: Any
    paired: int


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


@merged_kernel
def score_positions(
    patterns: Patterns, start: int, stop: int, read: Read, offset: int, letters: Letters
) -> int:
    """Score rows start..stop of the table of positions at an offset of a read.

    One look-up a position, without a branch, and of unsigned numbers, which numba does not test for
    being negative: 1.3 ns, where a table of matches and one of mismatches took 3.2.
    """
    total = np.int64(0)
    text = read.text
    bases = U(read.bases + offset)
    qualities = U(read.qualities + offset)
    quality_offset = U(letters.quality_offset)
    for index in range(U(start), U(stop)):
        place = patterns.places[index, U(0)]
        code = U(letters.codes[text[bases + place]])
        quality = U(text[qualities + place]) - quality_offset
        where = patterns.places[index, U(1)] + code * U(QUALITIES) + quality
        total += np.int64(patterns.place_scores[where])
    return total


@merged_kernel
def reads_of(mates: Mates, index: int) -> tuple[Read, Read]:
    """Return the reads of a template; the second has no bases where there is one file."""
    bases = np.int64(mates.records_1[index, BASES_START])
    length = np.int64(mates.records_1[index, BASES_STOP]) - bases
    qualities = np.int64(mates.records_1[index, QUALITIES_START])
    first = Read(mates.buffer_1, bases, qualities, length)
    bases = np.int64(mates.records_2[index, BASES_START])
    length = np.int64(mates.records_2[index, BASES_STOP]) - bases
    qualities = np.int64(mates.records_2[index, QUALITIES_START])
    return first, Read(mates.buffer_2, bases, qualities, length if mates.paired == 1 else 0)


@merged_kernel
def note_match(matches: Any, index: int, match: Match, flags: int) -> None:
    """Write a row of the table of matches."""
    matches[index, VERDICT] = match.verdict
    matches[index, ROW] = match.row
    matches[index, OFFSET_1] = match.offset_1
    matches[index, OFFSET_2] = match.offset_2
    matches[index, FLAGS] = flags


@merged_kernel
def side_range(patterns: Patterns, side: int) -> tuple[int, int]:
    """Return the common positions of a side, [start, stop)."""
    if side == 0:
        return 0, patterns.common_1
    return patterns.common_1, patterns.common_2
