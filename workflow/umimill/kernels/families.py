"""Tables of families: rows sorted by (sample, key, barcode length, cell length, family)."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import inline_kernel, kernel
from umimill.kernels.bases import splitmix64

U = np.uint64


@inline_kernel
def compare(first: Any, second: Any) -> int:
    """Order two rows by (sample, key, barcode length, cell length): -1, 0 or 1.

    Families of one key are equal.
    """
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
def rows_before(rows: Any, limit: Any) -> int:
    """Return how many of the sorted rows come before limit[0]."""
    start = 0
    stop = rows.size
    while start < stop:
        middle = (start + stop) // 2
        if compare(rows[middle], limit[0]) < 0:
            start = middle + 1
        else:
            stop = middle
    return start


@kernel
def sum_families(families: Any, reads: Any, composition: Any, sizes: Any) -> None:
    """Add up families by sample.

    Args:
        families: FAMILY[n].
        reads: i64[S], reads are added.
        composition: i64[S, 32, 4], families by base at each position of the barcode.
        sizes: i64[S, m], families by reads; those of m and more are not counted.
    """
    for row in range(families.size):
        family = families[row]
        sample = family["sample"]
        own = np.int64(family["reads"])
        reads[sample] += own
        if own < sizes.shape[1]:
            sizes[sample, own] += 1
        key = family["key"]
        for position in range(np.int64(family["umi_length"]) + np.int64(family["cell_length"])):
            base = np.int64((key >> U(62 - 2 * position)) & U(3))
            composition[sample, position, base] += 1


@inline_kernel
def hash_family(key: Any, family: Any, umi_length: Any, cell_length: Any) -> Any:
    """Return the hash by which a family is drawn: of key, number and lengths."""
    inner = U(family) | (U(umi_length) << U(16)) | (U(cell_length) << U(24))
    return splitmix64(key ^ splitmix64(inner))


@kernel
def hash_families(families: Any, hashes: Any) -> None:
    """Fill hashes, u64[n], with those of families."""
    for row in range(families.size):
        family = families[row]
        hashes[row] = hash_family(
            family["key"], family["family"], family["umi_length"], family["cell_length"]
        )


@kernel
def last_key_start(rows: Any) -> int:
    """Return the first row of the last key of sorted rows."""
    start = rows.size - 1
    while start > 0 and compare(rows[start - 1], rows[rows.size - 1]) == 0:
        start -= 1
    return start
