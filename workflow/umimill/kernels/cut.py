"""Cutting a matched template: barcode, payload, and the packed row that is staged."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import count_bits, load_word, merged_kernel
from umimill.kernels.bases import count_unknown, pack_text
from umimill.kernels.match import (
    ASSIGNED,
    CAPTURE_START,
    CELL_LENGTH,
    EMPTY_PAYLOAD,
    LENGTH,
    LOW_UMI_QUALITY,
    PARTIAL,
    PAYLOAD_START,
    PAYLOAD_STOP,
    RUN_CAPTURE,
    RUN_SIDE,
    RUN_STOP,
    SAMPLE,
    TOO_SHORT,
    UMI_LENGTH,
    UNRESOLVED,
    Match,
    Read,
)
from umimill.kernels.rows import HAS_UNKNOWN, SHIFT_MINUS, SHIFT_PLUS, cold_words
from umimill.kernels.shifts import Table

U = np.uint64

# Columns of the counter array.
FLIPPED, UNKNOWN_IN_BARCODE, UNKNOWN_IN_PAYLOAD, PAYLOAD_BASES, SHIFTED_BARCODE = range(5)
COUNTERS = 5
# So many unknown bases a barcode may have: 16 barcodes that it may be.
MOST_UNKNOWN = 2
MOST_BARCODE = 32


class Rules(NamedTuple):
    """What checkout needs to know beside the patterns.

    Attributes:
        letters: see Letters.
        complements: u8[256], letters to their complements.
        minimum_umi_quality: templates with a UMI base below it are set aside.
        unit: number of the unit in the library.
        partial: 1 where rows are kept whose barcode was not fully read.
        unknown_cell_bases: how many bases of a cell may be unknown.
    """

    letters: Any
    complements: Any
    minimum_umi_quality: int
    unit: int
    partial: int
    unknown_cell_bases: int


class Rows(NamedTuple):
    """Staged rows (partition_writer.Staging)."""

    hot: Any
    barcode_quality: Any
    starts: Any
    cold: Any
    fill: Any
    seen: Any


@merged_kernel
def moved_place(table: Table, side: int, row: int, place: int, shift: int) -> int:
    """Return where a place of the layout is whose UMI has `shift` bases more than it should."""
    if side == table.rows[row, RUN_SIDE] and place >= table.rows[row, RUN_STOP]:
        place += shift
    return place


@merged_kernel
def payload_span(
    table: Table, side: int, row: int, offset: int, shift: int, length: int
) -> tuple[int, int]:
    """Return the payload [start, stop) of a read; empty where the read ends before it."""
    start = moved_place(table, side, row, table.rows[row, PAYLOAD_START + side], shift)
    start = min(length, offset + start)
    stop = length
    if table.rows[row, PAYLOAD_STOP + side] >= 0:
        stop = moved_place(table, side, row, table.rows[row, PAYLOAD_STOP + side], shift)
        stop = min(length, offset + stop)
    return start, max(start, stop)


@merged_kernel
def note_levels(text: Any, first: int, length: int, offset: int, seen: Any, levels: Any) -> None:
    """Mark the quality values of text[first:first + length] in seen, u8[94].

    levels, i64[6], is a copy of the first values met and (in [5]) their number: while there are at
    most 4 the comparison with them vectorises, and a fifth ends the search for levels.
    """
    if levels[5] > 4:
        return
    values = text[first : first + length]
    level_0, level_1 = np.uint8(levels[0]), np.uint8(levels[1])
    level_2, level_3 = np.uint8(levels[2]), np.uint8(levels[3])
    others = np.uint8(0)
    for position in range(length):
        value = values[position]
        known = (value == level_0) | (value == level_1) | (value == level_2) | (value == level_3)
        others |= np.uint8(not known)
    if others == 0:
        return
    for position in range(length):
        value = np.int64(values[position])
        if seen[value - offset] == 0:
            seen[value - offset] = 1
            if levels[5] < 4:
                levels[levels[5]] = value
            levels[5] += 1


@merged_kernel
def write_qualities(
    text: Any, first: int, length: int, quality_offset: int, cold: Any, at: int
) -> None:
    """Write the 8-bit qualities of text[first:first + length] to cold[at:]."""
    bias = U(quality_offset) * U(0x0101010101010101)
    whole = length >> 3
    for word in range(whole):
        # No byte is below the offset, so no borrow crosses bytes.
        cold[at + word] = load_word(text, first + 8 * word) - bias
    left = length & 7
    if left:
        keep = (U(1) << U(8 * left)) - U(1)
        last = load_word(text, first + 8 * whole) & keep
        cold[at + whole] = last - (bias & keep)


@merged_kernel
def write_unknown(
    text: Any, first: int, length: int, codes: Any, cold: Any, base_at: int, at: int
) -> None:
    """Write the mask of unknown bases to cold[at:] and clear their bases in cold[base_at:]."""
    for word in range((length + 63) >> 6):
        cold[at + word] = U(0)
    for position in range(length):
        if codes[text[first + position]] > 3:
            cold[at + (position >> 6)] |= U(1) << U(63 - (position & 63))
            cold[base_at + (position >> 5)] &= ~(U(3) << U(62 - 2 * (position & 31)))


@merged_kernel
def cut_barcode(
    table: Table, match: Match, shift: int, read_1: Read, read_2: Read, rules: Rules, rows: Rows
) -> tuple[Any, Any, int]:
    """Collect the barcode of a matched template into the next staged row.

    Args:
        table: see Table.
        match: where the layout is.
        shift: bases that its run of UMI bases has more, -1 to 1.
        read_1: mate 1.
        read_2: mate 2.
        rules: see Rules.
        rows: staged rows.

    Returns:
        (key, u64 from the highest bit on; mask of unknown bases, bit 0 = first base; least Phred
        of a UMI base).
    """
    key = U(0)
    unknown = U(0)
    least = np.int64(255)
    place = rows.fill[0]
    first = table.rows[match.row, CAPTURE_START]
    cell_length = table.rows[match.row, CELL_LENGTH]
    count = cell_length + table.rows[match.row, UMI_LENGTH] + shift
    run_stop = table.rows[match.row, RUN_CAPTURE]
    for index in range(count):
        # What lies behind the run comes a base earlier or later, in the read and in the barcode.
        capture = first + index
        step = np.int64(0)
        if shift != 0 and capture >= run_stop + min(shift, np.int64(0)):
            step = shift
            capture -= shift
        at = table.capture[capture, 1]
        if (
            step != 0
            and capture >= run_stop
            and table.capture[capture, 0] != (table.rows[match.row, RUN_SIDE])
        ):
            step = np.int64(0)
        at += step
        if table.capture[capture, 0] == 0:
            at += match.offset_1
            letter = read_1.text[read_1.bases + at]
            value = read_1.text[read_1.qualities + at]
        else:
            at += match.offset_2
            letter = read_2.text[read_2.bases + at]
            value = read_2.text[read_2.qualities + at]
        code = rules.letters.codes[letter]
        quality = np.int64(value) - rules.letters.quality_offset
        if code > 3:
            unknown |= U(1) << U(index)
        else:
            key |= U(code) << U(62 - 2 * index)
        rows.barcode_quality[place, index] = quality
        if index >= cell_length:
            least = min(least, quality)
    for index in range(count, rows.barcode_quality.shape[1]):
        rows.barcode_quality[place, index] = 0
    return key, unknown, least


@merged_kernel
def may_be_placed(table: Table, row: int, unknown: Any, shift: int) -> bool:
    """Return whether a barcode tells enough: few bases of its UMI are unknown, or one is too many.

    With cells a shift may as well lie in the cell.
    """
    cell_length = table.rows[row, CELL_LENGTH]
    if shift != 0:
        longest = table.rows[row, UMI_LENGTH] + shift
        return unknown == U(0) and cell_length == 0 and 0 < longest <= MOST_BARCODE
    of_cell = unknown & ((U(1) << U(cell_length)) - U(1))
    return count_bits(unknown) <= MOST_UNKNOWN and of_cell == U(0)


@merged_kernel
def may_be_filled(unknown: Any, cell_length: int, most: int) -> bool:
    """Return whether all unknown bases are the cell's, and no more than may be."""
    return unknown >> U(cell_length) == U(0) and count_bits(unknown) <= most


@merged_kernel
def stage_row(
    table: Table,
    match: Match,
    shift: int,
    partial: int,
    read_1: Read,
    read_2: Read,
    flags: int,
    record: int,
    rules: Rules,
    rows: Rows,
    levels: Any,
    counters: Any,
) -> int:
    """Cut a matched template and stage its row.

    Args:
        table: see Table.
        match: where the layout is.
        shift: see cut_barcode.
        partial: 1 where `rows` are those whose barcode was not fully read.
        read_1: mate 1.
        read_2: mate 2.
        flags: of the row.
        record: number of the template.
        rules: see Rules.
        rows: staged rows.
        levels: see note_levels.
        counters: i64[COUNTERS].

    Returns:
        Its verdict, PARTIAL where it belongs to those rows but `partial` is 0; -1 where it does not
        fit.
    """
    row = match.row
    start_1, stop_1 = payload_span(table, 0, row, match.offset_1, shift, read_1.length)
    start_2, stop_2 = payload_span(table, 1, row, match.offset_2, shift, read_2.length)
    length_1 = stop_1 - start_1
    length_2 = stop_2 - start_2
    stop_1 = moved_place(table, 0, row, table.rows[row, LENGTH], shift)
    stop_2 = moved_place(table, 1, row, table.rows[row, LENGTH + 1], shift)
    if match.offset_1 + stop_1 > read_1.length or match.offset_2 + stop_2 > read_2.length:
        return TOO_SHORT
    place = rows.fill[0]
    at = rows.fill[1]
    if (
        place == rows.hot.size
        or at + cold_words(length_1, length_2, np.int64(HAS_UNKNOWN), np.int64(8)) > rows.cold.size
    ):
        return -1
    key, unknown, least = cut_barcode(table, match, shift, read_1, read_2, rules, rows)
    if least < rules.minimum_umi_quality:
        return LOW_UMI_QUALITY
    if length_1 + length_2 == 0:
        return EMPTY_PAYLOAD
    if unknown != U(0) or shift != 0:
        cell_length = table.rows[row, CELL_LENGTH]
        if shift != 0 or not may_be_filled(unknown, cell_length, rules.unknown_cell_bases):
            if rules.partial == 0 or not may_be_placed(table, row, unknown, shift):
                return UNRESOLVED
            if partial == 0:
                return PARTIAL
    words_1 = (length_1 + 31) >> 5
    quality_at = at + words_1 + ((length_2 + 31) >> 5)
    quality_at_2 = quality_at + ((length_1 + 7) >> 3)
    mask_at = quality_at_2 + ((length_2 + 7) >> 3)
    others = np.int64(0)
    for side in range(2):
        if side == 0:
            text, bases, qualities = read_1.text, read_1.bases + start_1, read_1.qualities + start_1
            length, base_place, quality_place = length_1, at, quality_at
        else:
            text, bases, qualities = read_2.text, read_2.bases + start_2, read_2.qualities + start_2
            length, base_place, quality_place = length_2, at + words_1, quality_at_2
        pack_text(text, bases, length, rows.cold, base_place)
        write_qualities(
            text, qualities, length, rules.letters.quality_offset, rows.cold, quality_place
        )
        note_levels(text, qualities, length, rules.letters.quality_offset, rows.seen, levels)
        others |= count_unknown(text, bases, length)
    if others:
        counters[UNKNOWN_IN_PAYLOAD] += 1
        flags |= HAS_UNKNOWN
        codes = rules.letters.codes
        write_unknown(read_1.text, read_1.bases + start_1, length_1, codes, rows.cold, at, mask_at)
        write_unknown(
            read_2.text,
            read_2.bases + start_2,
            length_2,
            codes,
            rows.cold,
            at + words_1,
            mask_at + ((length_1 + 63) >> 6),
        )
    counters[PAYLOAD_BASES] += length_1 + length_2
    if shift != 0:
        flags |= SHIFT_PLUS if shift > 0 else SHIFT_MINUS
    hot = rows.hot[place]
    hot["key"] = key
    hot["record"] = record
    hot["n_mask"] = np.uint32(unknown)
    hot["length_1"] = length_1
    hot["length_2"] = length_2
    hot["unit"] = rules.unit
    hot["sample"] = table.rows[row, SAMPLE]
    hot["flags"] = flags
    hot["umi_length"] = table.rows[row, UMI_LENGTH] + shift
    hot["cell_length"] = table.rows[row, CELL_LENGTH]
    rows.starts[place] = at
    rows.fill[0] = place + 1
    rows.fill[1] = at + cold_words(length_1, length_2, flags, np.int64(8))
    return PARTIAL if partial else ASSIGNED
