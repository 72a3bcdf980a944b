"""Tables of families: sorted rows of (sample, key, barcode length, reads)."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import inline_kernel, kernel

U = np.uint64


@inline_kernel
def compare(first: Any, second: Any) -> int:
    """Order two rows by (sample, key, barcode length, cell length): -1, 0 or 1."""
    if first["sample"] != second["sample"]:
        return -1 if first["sample"] < second["sample"] else 1
    if first["key"] != second["key"]:
        return -1 if first["key"] < second["key"] else 1
    length_1 = np.int64(first["umi_length"]) + np.int64(first["cell_length"])
    length_2 = np.int64(second["umi_length"]) + np.int64(second["cell_length"])
    if length_1 != length_2:
        return -1 if length_1 < length_2 else 1
    if first["cell_length"] != second["cell_length"]:
        return -1 if first["cell_length"] < second["cell_length"] else 1
    return 0


@kernel
def count_families(hot: Any, families: Any) -> int:
    """Count sorted rows by key.

    Args:
        hot: HOT[n], sorted.
        families: FAMILY[>= n], filled.

    Returns:
        Families.
    """
    count = 0
    for row in range(hot.size):
        if count > 0 and compare(hot[row], families[count - 1]) == 0:
            families[count - 1]["reads"] += U(1)
            continue
        families[count]["key"] = hot[row]["key"]
        families[count]["reads"] = U(1)
        families[count]["sample"] = hot[row]["sample"]
        families[count]["umi_length"] = hot[row]["umi_length"]
        families[count]["cell_length"] = hot[row]["cell_length"]
        count += 1
    return count


@kernel
def merge_families(first: Any, second: Any, merged: Any) -> int:
    """Merge two sorted tables, adding the reads of equal keys; return the rows of `merged`."""
    count = 0
    left = 0
    right = 0
    while left < first.size and right < second.size:
        order = compare(first[left], second[right])
        if order <= 0:
            merged[count] = first[left]
            left += 1
            if order == 0:
                merged[count]["reads"] += second[right]["reads"]
                right += 1
        else:
            merged[count] = second[right]
            right += 1
        count += 1
    while left < first.size:
        merged[count] = first[left]
        left += 1
        count += 1
    while right < second.size:
        merged[count] = second[right]
        right += 1
        count += 1
    return count


@kernel
def rows_through(rows: Any, last: Any) -> int:
    """Return how many of the sorted rows come no later than last[0]."""
    start = 0
    stop = rows.size
    while start < stop:
        middle = (start + stop) // 2
        if compare(rows[middle], last[0]) <= 0:
            start = middle + 1
        else:
            stop = middle
    return start


@kernel
def sum_reads(families: Any, reads: Any) -> None:
    """Add the reads of families to reads, i64[S]."""
    for row in range(families.size):
        reads[families[row]["sample"]] += np.int64(families[row]["reads"])


@kernel
def cut_cells(families: Any, starts: Any, limits: Any, ends: Any) -> int:
    """Cut a table into output cells.

    A cell ends behind the key with which it reaches its sample's limit, where a group ends, and
    before a key that reaches the limit alone: so cells depend on the data alone, and only a cell of
    one key has more than twice the limit.

    Args:
        families: FAMILY[n].
        starts: u8[n], 1 where a row is the first of its group.
        limits: i64[S], reads.
        ends: i64[> n], filled with the end of each cell.

    Returns:
        Cells.
    """
    count = 0
    reads = np.int64(0)
    for row in range(families.size):
        limit = limits[families[row]["sample"]]
        own = np.int64(families[row]["reads"])
        if reads > 0 and (starts[row] == 1 or own >= limit):
            ends[count] = row
            count += 1
            reads = np.int64(0)
        reads += own
        if reads >= limit:
            ends[count] = row + 1
            count += 1
            reads = np.int64(0)
    if reads > 0:
        ends[count] = families.size
        count += 1
    return count


@kernel
def first_unordered(rows: Any) -> int:
    """Return the first row that does not come after the one before it, or -1."""
    for row in range(1, rows.size):
        if compare(rows[row - 1], rows[row]) >= 0:
            return row
    return -1
