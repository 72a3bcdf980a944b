"""Reads that start some bases beside their molecule: a base of the layout was lost or gained."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import inline_kernel
from umimill.kernels.consensus import Batch
from umimill.kernels.drafts import DRAFT_BASES, LEAST_COMPARED, mismatch_limit

U = np.uint64

# Starts are looked for so many bases before and behind.
MOST_SHIFT = 3


@inline_kernel
def fits_at(
    batch: Batch, row: int, stride: int, draft: Any, mask: Any, shifts: tuple[int, int]
) -> bool:
    """Return whether a row fits a family's draft where its mates start so many bases later.

    Args:
        batch: rows.
        row: one of them.
        stride: that of its sample's drafts.
        draft: a family's.
        mask: its mask.
        shifts: of mate 1, of mate 2.
    """
    lengths = np.int64(batch.hot[row]["length_1"]), np.int64(batch.hot[row]["length_2"])
    sides = 2 if lengths[1] > 0 else 1
    width = DRAFT_BASES // sides
    at = batch.starts[row]
    limit = mismatch_limit(DRAFT_BASES)
    compared = mismatches = np.int64(0)
    for side in range(sides):
        for number in range(width):
            place = number * stride + shifts[side]
            lane = width * side + number
            if place < 0 or place >= lengths[side] or not (U(mask) >> U(31 - lane)) & U(1):
                continue
            base = batch.cold[at + (place >> 5)] >> U(62 - 2 * (place & 31))
            compared += 1
            mismatches += np.int64((base ^ (draft >> U(62 - 2 * lane))) & U(3) != U(0))
            if mismatches > limit:
                return False
        at += (lengths[side] + 31) >> 5
    return compared >= LEAST_COMPARED and mismatches <= mismatch_limit(compared)


@inline_kernel
def is_shifted(batch: Batch, row: int, stride: int, draft: Any, mask: Any) -> bool:
    """Return whether a row fits a family's draft where one mate starts up to MOST_SHIFT beside."""
    if stride == 0:
        return False
    paired = np.int64(batch.hot[row]["length_2"]) > 0
    for size in range(1, MOST_SHIFT + 1):
        for shift in (-size, size):
            if fits_at(batch, row, stride, draft, mask, (shift, 0)):
                return True
            if paired and fits_at(batch, row, stride, draft, mask, (0, shift)):
                return True
    return False
