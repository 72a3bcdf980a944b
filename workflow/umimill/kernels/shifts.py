"""Barcodes a base too short or too long: the anchor behind them lies one base early or late."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inner_kernel, load_word, merged_kernel
from umimill.kernels.match import (
    ALLOWED,
    ANCHORED,
    HALF,
    MISMATCH,
    OPTIONS,
    OWN_START,
    OWN_STOP,
    POSITION,
    RUN_SIDE,
    RUN_START,
    RUN_STOP,
    Letters,
    Match,
    Read,
)

U = np.uint64

# Bits by which a shift must explain a read better than errors: it is rare, 1 read in 1,000 or less.
SHIFT_MARGIN = 12 * 1024


class Table(NamedTuple):
    """Where the barcode and the payload of each layout row are (match.Patterns)."""

    rows: Any
    capture: Any
    anchors: Any
    positions: Any
    common_1: int
    common_2: int
    scores: Any


@inner_kernel
def score_apart(
    table: Table, row: int, read: Read, offset: int, front: int, behind: int, letters: Letters
) -> int:
    """Score a row on the side of its run, what lies before and behind that at other offsets.

    Args:
        table: see Table.
        row: layout row.
        read: the mate of that side.
        offset: where the layout was matched.
        front: added to it before the run.
        behind: added to it behind the run.
        letters: see Letters.
    """
    side = table.rows[row, RUN_SIDE]
    total = np.int64(0)
    for part in range(2):
        if part == 1:
            start, stop = table.rows[row, OWN_START + side], table.rows[row, OWN_STOP + side]
        elif side == 0:
            start, stop = np.int64(0), np.int64(table.common_1)
        else:
            start, stop = np.int64(table.common_1), np.int64(table.common_2)
        for index in range(start, stop):
            place = table.positions[index, POSITION]
            at = offset + place + (front if place < table.rows[row, RUN_START] else behind)
            if at < 0 or at >= read.length:
                continue
            code = np.int64(letters.codes[read.text[read.bases + at]])
            quality = np.int64(read.text[read.qualities + at]) - letters.quality_offset
            kind = MISMATCH + table.positions[index, HALF]
            if (table.positions[index, ALLOWED] >> code) & 1:
                kind = table.positions[index, OPTIONS]
            total += np.int64(table.scores[kind, quality])
    return total


@inner_kernel
def weigh_shifts(
    table: Table, row: int, read: Read, offset: int, letters: Letters
) -> tuple[int, int]:
    """Return (bases that the run has more, what to add to the offset); (0, 0) without a shift.

    Either the part behind the run lies elsewhere, or, where the layout is searched and that part
    was found, the part before it.
    """
    best = score_apart(table, row, read, offset, np.int64(0), np.int64(0), letters) + SHIFT_MARGIN
    shift = moved = np.int64(0)
    for choice in range(4):
        step = np.int64(2 * (choice & 1) - 1)
        front, behind = (np.int64(0), step) if choice < 2 else (step, np.int64(0))
        if choice == 2 and table.rows[row, ANCHORED + table.rows[row, RUN_SIDE]]:
            break
        if offset + front < 0:
            continue
        score = score_apart(table, row, read, offset, front, behind, letters)
        if score > best:
            best, shift, moved = score, behind - front, front
    return shift, moved


@merged_kernel
def find_shift(
    table: Table, match: Match, read_1: Read, read_2: Read, letters: Letters
) -> tuple[int, int]:
    """Return weigh_shifts of a matched template; where its anchor is as it should be, at once."""
    row = match.row
    side = table.rows[row, RUN_SIDE]
    shift = moved = np.int64(0)
    if side >= 0:
        read = read_1 if side == 0 else read_2
        offset = match.offset_1 if side == 0 else match.offset_2
        at = read.bases + offset + table.rows[row, RUN_STOP]
        different = (load_word(read.text, at) ^ table.anchors[row, 0, 0]) & table.anchors[row, 0, 1]
        if table.anchors[row, 1, 1] != U(0) and not table.rows[row, ANCHORED + side]:
            first = max(table.rows[row, RUN_START] - 8, np.int64(0))
            before = load_word(read.text, read.bases + offset + first)
            different |= (before ^ table.anchors[row, 1, 0]) & table.anchors[row, 1, 1]
        # The read ends behind its layout: what is compared is there.
        if different != U(0) and offset + table.rows[row, RUN_STOP] < read.length:
            shift, moved = weigh_shifts(table, row, read, offset, letters)
    return shift, moved
