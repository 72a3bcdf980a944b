"""Drafts of the reads of a sample, and the buffers that their kernels take."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.kernels.clusters import Clusters
from umimill.kernels.consensus import Batch
from umimill.kernels.drafts import DRAFT_BASES, Drafts, extract_drafts

# A base of a read is part of its draft from this Phred on.
LEAST_QUALITY = 10
MOST_STRIDE = 3
# Families of a key; distinct drafts of a key among which they are looked for.
MOST_FAMILIES = 1 << 12
MOST_DISTINCT = 1 << 16


def draft_strides(
    rows: npt.NDArray[np.int64],
    bases: npt.NDArray[np.int64],
    tile: npt.NDArray[np.uint8] | None = None,
) -> npt.NDArray[np.int64]:
    """Return the stride of each sample's drafts, i64[S]; 0 where no drafts are taken.

    Args:
        rows: i64[S], templates of each sample.
        bases: i64[S], their payload bases.
        tile: u8[S], 1 where the reads of a molecule start anywhere; None = nowhere so.
    """
    mean: npt.NDArray[np.int64] = bases // np.maximum(1, rows) // DRAFT_BASES
    strides = np.clip(mean, 1, MOST_STRIDE)
    return strides if tile is None else np.where(tile == 1, 0, strides)


def make_drafts(rows: int) -> Drafts:
    """Return room for the drafts of so many rows."""
    return Drafts(
        np.empty(rows, np.uint64),
        np.empty(rows, np.uint32),
        np.empty(DRAFT_BASES * rows, np.uint8),
    )


def batch_drafts(batch: Batch, strides: npt.NDArray[np.int64]) -> Drafts:
    """Return the drafts of all rows of a batch."""
    drafts = make_drafts(batch.hot.size)
    extract_drafts(batch, strides, LEAST_QUALITY, drafts)
    return drafts


def make_clusters(distinct: int = MOST_DISTINCT, families: int = MOST_FAMILIES) -> Clusters:
    """Return the buffers for the families of a key.

    Args:
        distinct: most distinct drafts that count, a power of two.
        families: most families.
    """
    return Clusters(
        np.empty(2 * distinct, np.uint64),
        np.empty(2 * distinct, np.uint32),
        np.empty(2 * distinct, np.int64),
        np.empty(2 * distinct, np.int64),
        np.empty(4 * distinct, np.int64),
        np.zeros(6, np.int64),
        np.zeros(3, np.uint64),
        np.empty(families, np.uint64),
        np.empty(families, np.uint64),
        np.empty((families, 4, DRAFT_BASES), np.int64),
        np.empty((families + 1, DRAFT_BASES), np.int64),
        np.empty(families, np.int64),
        np.empty(DRAFT_BASES, np.uint8),
    )


def buffer_bytes(buffers: Any) -> int:
    """Return the bytes of a tuple of arrays."""
    return sum(int(one.nbytes) for one in buffers)
