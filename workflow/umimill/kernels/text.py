"""Consensus records as FASTQ text with SAM tags in the comment."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inline_kernel, kernel

U = np.uint64


class Names(NamedTuple):
    """Sample names as bytes.

    Attributes:
        text: u8[*], all names.
        starts: i64[S + 1].
    """

    text: Any
    starts: Any


@inline_kernel
def put_bytes(text: Any, at: int, source: Any, start: int, stop: int) -> int:
    """Copy source[start:stop] to text[at:]; return the next place."""
    for position in range(start, stop):
        text[at] = source[position]
        at += 1
    return at


@inline_kernel
def put_number(text: Any, at: int, value: int) -> int:
    """Write a whole number >= 0 in decimal."""
    digits = 1
    rest = value // 10
    while rest > 0:
        digits += 1
        rest //= 10
    for place in range(at + digits - 1, at - 1, -1):
        text[place] = 48 + value % 10
        value //= 10
    return at + digits


@inline_kernel
def put_millionths(text: Any, at: int, numerator: int, denominator: int) -> int:
    """Write numerator / denominator, at most 1, with six decimals, rounded half up."""
    value = np.int64(0)
    if denominator > 0:
        value = (2000000 * numerator + denominator) // (2 * denominator)
    at = put_number(text, at, value // 1000000)
    text[at] = 46
    at += 1
    value %= 1000000
    for place in range(at + 5, at - 1, -1):
        text[place] = 48 + value % 10
        value //= 10
    return at + 6


@inline_kernel
def put_tag(text: Any, at: int, first: int, second: int, kind: int) -> int:
    """Write a tab and a tag such as RX:Z: (letters as bytes)."""
    text[at] = 9
    text[at + 1] = first
    text[at + 2] = second
    text[at + 3] = 58
    text[at + 4] = kind
    text[at + 5] = 58
    return at + 6


@inline_kernel
def put_key(text: Any, at: int, key: Any, start: int, stop: int) -> int:
    """Write bases [start, stop) of a packed barcode."""
    for position in range(start, stop):
        code = np.int64((key >> U(62 - 2 * position)) & U(3))
        text[at] = np.uint8((0x54474341 >> (8 * code)) & 255)
        at += 1
    return at


@inline_kernel
def put_name(text: Any, at: int, molecule: Any, names: Names) -> int:
    """Write <sample>[.<cell>].<umi>[.<n>]: n counts from 1 where a key has several molecules."""
    sample = molecule["sample"]
    at = put_bytes(text, at, names.text, names.starts[sample], names.starts[sample + 1])
    cell = np.int64(molecule["cell_length"])
    if cell > 0:
        text[at] = 46
        at = put_key(text, at + 1, molecule["key"], 0, cell)
    text[at] = 46
    at = put_key(text, at + 1, molecule["key"], cell, cell + np.int64(molecule["umi_length"]))
    if molecule["several"] == 1:
        text[at] = 46
        at = put_number(text, at + 1, np.int64(molecule["number"]) + 1)
    return at


@kernel
def render(
    molecules: Any,
    mate: int,
    names: Names,
    letters: Any,
    qualities: Any,
    umi_qualities: Any,
    text: Any,
    ends: Any,
) -> tuple[int, int]:
    """Write the records of one mate.

    Args:
        molecules: MOLECULE[m].
        mate: 0 or 1.
        names: sample names.
        letters: u8[*], bases.
        qualities: u8[*], quality characters.
        umi_qualities: u8[m, 32].
        text: u8[*], filled.
        ends: i64[m], end of each molecule's record (of the one before where it has none).

    Returns:
        (bytes written, records).
    """
    at = 0
    records = 0
    for number in range(molecules.size):
        molecule = molecules[number]
        if molecule["kept"] == 0:
            ends[number] = at
            continue
        records += 1
        umi = np.int64(molecule["umi_length"])
        cell = np.int64(molecule["cell_length"])
        sample = molecule["sample"]
        text[at] = 64
        name = at + 1
        at = put_name(text, name, molecule, names)
        name_stop = at
        at = put_tag(text, at, 82, 88, 90)  # RX:Z
        text[name_stop] = 32
        at = put_key(text, at, molecule["key"], cell, cell + umi)
        at = put_tag(text, at, 81, 88, 90)  # QX:Z
        at = put_bytes(text, at, umi_qualities[number], 0, umi)
        if cell > 0:
            at = put_tag(text, at, 67, 66, 90)  # CB:Z
            at = put_key(text, at, molecule["key"], 0, cell)
        at = put_tag(text, at, 66, 67, 90)  # BC:Z
        at = put_bytes(text, at, names.text, names.starts[sample], names.starts[sample + 1])
        at = put_tag(text, at, 77, 73, 90)  # MI:Z
        at = put_bytes(text, at, text, name, name_stop)
        at = put_tag(text, at, 99, 68, 105)  # cD:i
        at = put_number(text, at, np.int64(molecule["depth_max"]))
        at = put_tag(text, at, 99, 77, 105)  # cM:i
        at = put_number(text, at, np.int64(molecule["depth_min"]))
        at = put_tag(text, at, 99, 69, 102)  # cE:f
        at = put_millionths(
            text, at, np.int64(molecule["disagreements"]), np.int64(molecule["base_votes"])
        )
        text[at] = 10
        at += 1
        start = np.int64(molecule["offset"])
        stop = start + np.int64(molecule["length_1"])
        if mate == 1:
            start = stop
            stop = start + np.int64(molecule["length_2"])
        at = put_bytes(text, at, letters, start, stop)
        text[at] = 10
        text[at + 1] = 43
        text[at + 2] = 10
        at = put_bytes(text, at + 3, qualities, start, stop)
        text[at] = 10
        at += 1
        ends[number] = at
    return at, records


@kernel
def unpack_barcodes(keys: Any, start: Any, length: Any, text: Any) -> int:
    """Write bases [start, start + length) of packed keys one after the other.

    Args:
        keys: u64[n], first base in the highest bits.
        start: i64[n].
        length: i64[n].
        text: u8[>= sum of length], filled.

    Returns:
        Bytes written.
    """
    at = 0
    for row in range(keys.size):
        at = put_key(text, at, keys[row], start[row], start[row] + length[row])
    return at
