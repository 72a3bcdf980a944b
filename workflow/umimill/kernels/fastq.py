"""FASTQ text: record boundaries, mate names, base and quality validity."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import find_byte, kernel

# What scan_records found wrong with the record at which it stopped.
SCAN_OK = 0
SCAN_NO_AT = 1
SCAN_NO_PLUS = 2
SCAN_QUALITY_LENGTH = 3
SCAN_CUT = 4
SCAN_BLANK = 5

# Columns of a record table.
NAME_START, NAME_STOP, BASES_START, BASES_STOP, QUALITIES_START = range(5)

NEWLINE, RETURN, SPACE, TAB, SLASH, AT, PLUS = 10, 13, 32, 9, 47, 64, 43


@kernel
def scan_records(buffer: Any, start: int, stop: int, last: int, records: Any) -> tuple[int, ...]:
    """Find the records of buffer[start:stop].

    Args:
        buffer: u8[*], text.
        start: first byte of a record.
        stop: end of the text; a cut record at the end is left for the next call.
        last: 1 where no text follows, so that a final record may lack its newline.
        records: i32[capacity, 5], filled with NAME_START (after the @), NAME_STOP, BASES_START,
            BASES_STOP, QUALITIES_START; a carriage return before the newline belongs to no field.

    Returns:
        (records found, first byte not used, code, line 0..3 of the record where `code` was met).
    """
    count = 0
    position = start
    while count < records.shape[0]:
        if position >= stop:
            break
        if buffer[position] == NEWLINE or buffer[position] == RETURN:
            # Blank lines are fine at the end of a file only.
            blank = position
            while blank < stop and (buffer[blank] == NEWLINE or buffer[blank] == RETURN):
                blank += 1
            if blank < stop:
                return count, position, SCAN_BLANK, 0
            if last == 1:
                position = stop
            break
        if buffer[position] != AT:
            return count, position, SCAN_NO_AT, 0
        name_stop = find_byte(buffer, position, stop, NEWLINE)
        if name_stop < 0:
            return count, position, SCAN_CUT if last == 1 else SCAN_OK, 0
        bases = name_stop + 1
        bases_stop = find_byte(buffer, bases, stop, NEWLINE)
        if bases_stop < 0:
            return count, position, SCAN_CUT if last == 1 else SCAN_OK, 1
        plus = bases_stop + 1
        if plus >= stop:
            return count, position, SCAN_CUT if last == 1 else SCAN_OK, 2
        if buffer[plus] != PLUS:
            return count, position, SCAN_NO_PLUS, 2
        plus_stop = find_byte(buffer, plus, stop, NEWLINE)
        if plus_stop < 0:
            return count, position, SCAN_CUT if last == 1 else SCAN_OK, 2
        qualities = plus_stop + 1
        if bases_stop > bases and buffer[bases_stop - 1] == RETURN:
            bases_stop -= 1
        length = bases_stop - bases
        quality_stop = qualities + length
        if quality_stop > stop:
            # The line may be short or simply not here yet: only its newline can tell.
            end = find_byte(buffer, qualities, stop, NEWLINE)
            if end >= 0:
                return count, position, SCAN_QUALITY_LENGTH, 3
            return count, position, SCAN_CUT if last == 1 else SCAN_OK, 3
        following = quality_stop
        if following < stop and buffer[following] == RETURN:
            following += 1
        if following < stop:
            if buffer[following] != NEWLINE:
                return count, position, SCAN_QUALITY_LENGTH, 3
            following += 1
        elif last == 0:
            return count, position, SCAN_OK, 3
        if length > 0 and (
            buffer[quality_stop - 1] == RETURN
            or find_byte(buffer, qualities, quality_stop, NEWLINE) >= 0
        ):
            return count, position, SCAN_QUALITY_LENGTH, 3
        if name_stop > position + 1 and buffer[name_stop - 1] == RETURN:
            name_stop -= 1
        records[count, NAME_START] = position + 1
        records[count, NAME_STOP] = name_stop
        records[count, BASES_START] = bases
        records[count, BASES_STOP] = bases_stop
        records[count, QUALITIES_START] = qualities
        count += 1
        position = following
    return count, position, SCAN_OK, 0


@kernel
def name_length(buffer: Any, start: int, stop: int) -> int:
    """Return the length of a read's name: up to the first blank, less a final /1 or /2."""
    end = start
    while end < stop and buffer[end] != SPACE and buffer[end] != TAB:
        end += 1
    if end - start >= 2 and buffer[end - 2] == SLASH and 49 <= buffer[end - 1] <= 50:
        end -= 2
    return end - start


@kernel
def mate_number(buffer: Any, end: int, stop: int) -> int:
    """Return 1 or 2 where /1 or /2 follows a name that ends at `end`, else 0."""
    if stop - end < 2 or buffer[end] != SLASH:
        return 0
    return int(buffer[end + 1]) - 48


@kernel
def first_other_name(
    buffer_1: Any, records_1: Any, buffer_2: Any, records_2: Any, count: int
) -> int:
    """Return the first of `count` records whose mates are named differently or /2 and /1, or -1."""
    for index in range(count):
        start_1, stop_1 = records_1[index, NAME_START], records_1[index, NAME_STOP]
        start_2, stop_2 = records_2[index, NAME_START], records_2[index, NAME_STOP]
        length = name_length(buffer_1, start_1, stop_1)
        if length != name_length(buffer_2, start_2, stop_2):
            return index
        for offset in range(length):
            if buffer_1[start_1 + offset] != buffer_2[start_2 + offset]:
                return index
        if (
            mate_number(buffer_1, start_1 + length, stop_1) == 2
            and mate_number(buffer_2, start_2 + length, stop_2) == 1
        ):
            return index
    return -1


@kernel
def first_bad_record(
    buffer: Any, records: Any, count: int, known_bases: Any, quality_min: int, quality_max: int
) -> tuple[int, int, int]:
    """Find the first record with a byte that is no base or no quality.

    Args:
        buffer: u8[*], text.
        records: i32[*, 5].
        count: records to look at.
        known_bases: u8[256], 1 where the byte is a base.
        quality_min: least legal quality byte.
        quality_max: greatest legal quality byte.

    Returns:
        (record, line 1 or 3, column), or (-1, 0, 0).
    """
    span = quality_max - quality_min
    for index in range(count):
        bases = records[index, BASES_START]
        length = records[index, BASES_STOP] - bases
        qualities = records[index, QUALITIES_START]
        letters = buffer[bases : bases + length]
        values = buffer[qualities : qualities + length]
        others = np.uint8(0)
        for offset in range(length):
            upper = letters[offset] & np.uint8(0xDF)
            common = (upper == 65) | (upper == 67) | (upper == 71) | (upper == 84) | (upper == 78)
            others |= np.uint8(not common)
            others |= np.uint8(np.uint8(values[offset] - np.uint8(quality_min)) > span)
        if others == 0:
            continue
        for offset in range(length):
            if known_bases[letters[offset]] == 0:
                return index, 1, offset
            if values[offset] < quality_min or values[offset] > quality_max:
                return index, 3, offset
    return -1, 0, 0


@kernel
def count_qualities(buffer: Any, records: Any, count: int, histogram: Any) -> None:
    """Add the quality bytes of `count` records to histogram, i64[256]."""
    for index in range(count):
        start = records[index, QUALITIES_START]
        for offset in range(records[index, BASES_STOP] - records[index, BASES_START]):
            histogram[buffer[start + offset]] += 1


@kernel
def count_bases(buffer: Any, records: Any, count: int, codes: Any, histogram: Any) -> None:
    """Add the bases of `count` records to histogram, i64[5]; codes, u8[256], maps bytes to 0..4."""
    for index in range(count):
        for position in range(records[index, BASES_START], records[index, BASES_STOP]):
            histogram[codes[buffer[position]]] += 1


@kernel
def copy_records(buffer: Any, records: Any, excess: int, text: Any, ends: Any) -> None:
    """Write records as FASTQ text with bare + lines and newlines alone.

    Args:
        buffer: u8[*], text they come from.
        records: i32[n, 5].
        excess: what quality bytes are above Phred+33.
        text: u8[*], filled.
        ends: i64[n], filled with the end of each record in `text`.
    """
    at = 0
    for index in range(records.shape[0]):
        text[at] = AT
        at += 1
        for position in range(records[index, NAME_START], records[index, NAME_STOP]):
            text[at] = buffer[position]
            at += 1
        text[at] = NEWLINE
        at += 1
        start = records[index, BASES_START]
        length = records[index, BASES_STOP] - start
        for position in range(start, start + length):
            text[at] = buffer[position]
            at += 1
        text[at] = NEWLINE
        text[at + 1] = PLUS
        text[at + 2] = NEWLINE
        at += 3
        start = records[index, QUALITIES_START]
        for position in range(start, start + length):
            text[at] = buffer[position] - np.uint8(excess)
            at += 1
        text[at] = NEWLINE
        at += 1
        ends[index] = at


@kernel
def copy_names(buffer: Any, records: Any, text: Any, stops: Any) -> None:
    """Copy the names of records, one after the other; see name_length.

    Args:
        buffer: u8[*], text they come from.
        records: i32[n, 5].
        text: u8[*], filled.
        stops: i64[n], filled with the end of each name in `text`.
    """
    at = 0
    for index in range(records.shape[0]):
        start = records[index, NAME_START]
        for position in range(name_length(buffer, start, records[index, NAME_STOP])):
            text[at] = buffer[start + position]
            at += 1
        stops[index] = at
