"""A list of cell barcodes: reading its text, finding a barcode in it, rows on it or not."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inline_kernel, kernel

U = np.uint64

NEWLINE, RETURN, BLANK, TAB, MINUS, ZERO, NINE = 10, 13, 32, 9, 45, 48, 57
# What is wrong with a line.
GOOD, NO_BASE, OTHER_LENGTH = range(3)


class CellList(NamedTuple):
    """Barcodes of cells, all of one length.

    Attributes:
        cells: u64[n], ascending; the first base in the highest bits.
        starts: u32[2^bits + 1], the first barcode whose highest bits are the slot's number or more.
        shift: i64[1], 64 - bits.
        length: i64[1], bases.
    """

    cells: Any
    starts: Any
    shift: Any
    length: Any


@kernel
def parse_barcodes(text: Any, stop: int, codes: Any, length: int, keys: Any, place: Any) -> int:
    """Read barcodes, one a line; blank lines, blanks at the ends and a number as in `-1` are cut.

    Args:
        text: u8[*], whole lines.
        stop: end of the text.
        codes: u8[256], codes of letters, above 3 for what is no base.
        length: bases of a barcode.
        keys: u64[>= lines], filled.
        place: i64[3]: lines that ended before (counted on), barcodes written, and, of a line with
            a fault, its first byte.

    Returns:
        GOOD, or the fault of line place[0] + 1.
    """
    start = 0
    found = 0
    while start < stop:
        end = start
        while end < stop and text[end] != NEWLINE and text[end] != RETURN:
            end += 1
        first, last = start, end
        while first < last and (text[first] == BLANK or text[first] == TAB):
            first += 1
        while last > first and (text[last - 1] == BLANK or text[last - 1] == TAB):
            last -= 1
        digits = last
        while digits > first and text[digits - 1] >= ZERO and text[digits - 1] <= NINE:
            digits -= 1
        if digits < last and digits > first + 1 and text[digits - 1] == MINUS:
            last = digits - 1
        if last > first:
            key = U(0)
            for at in range(first, last):
                code = codes[text[at]]
                if code > 3:
                    place[2] = start
                    return NO_BASE
                if at - first < 32:
                    key |= U(code) << U(62 - 2 * (at - first))
            if last - first != length:
                place[2] = start
                return OTHER_LENGTH
            keys[found] = key
            found += 1
            place[1] = found
        place[0] += 1
        start = end + 1
        if end + 1 < stop and text[end] == RETURN and text[end + 1] == NEWLINE:
            start += 1
    return GOOD


@kernel
def fill_starts(cells: Any, shift: int, starts: Any) -> None:
    """Fill the index of a list.

    Args:
        cells: u64[n], ascending.
        shift: 64 - bits, below 64.
        starts: u32[2^bits + 1], filled.
    """
    slot = 0
    for index in range(cells.size):
        own = np.int64(cells[index] >> U(shift))
        while slot <= own:
            starts[slot] = index
            slot += 1
    while slot < starts.size:
        starts[slot] = cells.size
        slot += 1


@inline_kernel
def find_cell(listed: CellList, cell: Any) -> int:
    """Return the number of a barcode in the list, -1 where it is not there."""
    slot = np.int64(cell >> U(listed.shift[0]))
    start = np.int64(listed.starts[slot])
    stop = np.int64(listed.starts[slot + 1])
    while start < stop:
        middle = (start + stop) >> 1
        other = listed.cells[middle]
        if other == cell:
            return middle
        if other < cell:
            start = middle + 1
        else:
            stop = middle
    return -1


@inline_kernel
def cell_bits(length: int) -> Any:
    """Return the bits of a key that are the cell's; at most 31 bases, as there is a UMI."""
    return ~((U(1) << U(64 - 2 * length)) - U(1))


@kernel
def split_rows(
    hot: Any, order: Any, listed: CellList, listed_rows: Any, other_rows: Any, counts: Any
) -> tuple[int, int, int]:
    """Tell rows whose cell is on the list from the others.

    Args:
        hot: HOT[*].
        order: i64[n], rows in the order of sample and key.
        listed: the list.
        listed_rows: i64[n], filled with the rows on the list, in this order.
        other_rows: i64[n], filled with the others.
        counts: CELL_COUNT[n], filled: how many rows of a sample have a cell.

    Returns:
        (rows on the list, others, counts).
    """
    bits = cell_bits(listed.length[0])
    on = off = runs = 0
    found = -1
    before = U(0)
    sample = -1
    for index in range(order.size):
        row = hot[order[index]]
        cell = row["key"] & bits
        if index == 0 or cell != before or sample != np.int64(row["sample"]):
            found = find_cell(listed, cell)
            before = cell
            sample = np.int64(row["sample"])
            fresh = True
        if found >= 0 and row["n_mask"] == 0:
            if fresh:
                counts[runs]["sample"] = sample
                counts[runs]["cell"] = found
                counts[runs]["reads"] = 0
                runs += 1
                fresh = False
            counts[runs - 1]["reads"] += 1
            listed_rows[on] = order[index]
            on += 1
        else:
            other_rows[off] = order[index]
            off += 1
    return on, off, runs


@kernel
def add_counts(counts: Any, reads: Any) -> None:
    """Add counts of one sample, CELL_COUNT[n], to reads, u32[cells of the list]."""
    most = (1 << 32) - 1
    for row in range(counts.size):
        cell = counts[row]["cell"]
        reads[cell] = min(np.int64(reads[cell]) + np.int64(counts[row]["reads"]), most)
