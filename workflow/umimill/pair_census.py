"""Count the pairs of families of a bucket that differ at one base: the error rate shows in them.

A leaf has all families of its first bases, so every pair that differs at a later base is in one
leaf: pairs are counted where the families are, and sums over buckets do not depend on buckets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.family_blocks import (
    BASES,
    KEY_BYTES,
    Block,
    SortedRows,
    barcode_lengths,
    cut_blocks,
    first_keys,
    new_keys,
    pairs_beside,
    read_into,
)
from umimill.kernels import link as kernels
from umimill.neighbours import neighbour_pairs
from umimill.partition import Leaves

# Classes of the larger family of a pair: 2^i reads and more; of the smaller one, by its reads.
LARGER, SMALLER = 32, 64

Array = npt.NDArray[Any]


def count_pairs(
    table: SortedRows, leaves: Leaves, leaf_start: int, leaf_stop: int, *, block_bytes: int
) -> tuple[Array, Array]:
    """Count pairs of families of one sample and equal barcode lengths, one base of the UMI apart.

    Of each key the first kernels.link.TRIED families count.

    Args:
        table: families of the leaves.
        leaves: leaves of the library.
        leaf_start: first leaf.
        leaf_stop: end.
        block_bytes: memory for a block of families.

    Returns:
        i64[S, 32, 2], by sample and barcode position from the leaf width on: pairs, and those whose
        drafts are compatible; i64[S, 32, 64], of the compatible ones those of which one has at
        least twice the reads of the other, or both have one, by its reads (i: from 2^i on) and the
        other's (63 = 63 or more).
    """
    samples = len(leaves.widths)
    counts = np.zeros((samples, BASES, 2), np.int64)
    sizes = np.zeros((samples, LARGER, SMALLER), np.int64)
    dtype = table.read(0, 0).dtype
    limit = max(1, block_bytes // (dtype.itemsize + KEY_BYTES))
    keys = new_keys(np.empty(0, dtype))
    for block in cut_blocks(table, leaves, leaf_start, leaf_stop, limit):
        if keys.families.size < block.rows:
            keys = new_keys(np.empty(block.rows, dtype))
        families = read_into(table.read, block.start, block.stop, keys.families)
        _count_block(
            table,
            block,
            leaves.widths[block.sample],
            keys._replace(families=families),
            counts[block.sample],
            sizes[block.sample],
        )
    return counts, sizes


def _count_block(
    table: SortedRows,
    block: Block,
    width: int,
    room: kernels.KeyTable,
    counts: Array,
    sizes: Array,
) -> None:
    for umi, cell in barcode_lengths(room.families):
        own = first_keys(room, kernels.list_keys(room, umi, cell))
        first, length = max(width, cell), cell + umi
        inside = min(max(first, block.depth), length)
        for pairs in neighbour_pairs(own.keys, length, bases=(inside, length)):
            kernels.count_pairs(own, own, pairs, counts, sizes)
        for position in range(first, min(block.depth, length)):
            for change in (1, 2, 3):
                if block.sibling(position, change).key < block.key:
                    continue  # counted from there
                for beside in pairs_beside(
                    own.keys, block.sample, (umi, cell), position, change, table
                ):
                    kernels.count_pairs(own, beside.table, beside.pairs, counts, sizes)
