"""Pairs of barcodes at distance 1, in batches or all at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.kernels import neighbours as kernels
from umimill.kernels.neighbours import Pairs

BATCH_PAIRS = 1 << 16

Rows = npt.NDArray[np.int64]


def neighbour_pairs(
    keys: npt.NDArray[Any],
    length: int,
    *,
    rows: tuple[int, int] | None = None,
    bases: tuple[int, int] | None = None,
    batch_pairs: int = BATCH_PAIRS,
) -> Iterator[Pairs]:
    """Yield batches of the pairs of rows whose barcodes differ at exactly one base.

    Args:
        keys: u64[n], strictly increasing: barcodes in the lowest 2 * length bits, 2 bits a base,
            the first base highest.
        length: bases of a barcode, 1 to 32.
        rows: rows to look at, half-open; all if None.
        bases: bases at which pairs may differ, half-open, from 0 on; all if None.
        batch_pairs: most pairs of a batch; it changes neither the pairs nor their order.

    Yields:
        Batches of one or more pairs, in buffers that the next batch is written to.

    Raises:
        ValueError: where keys, rows, bases or the size of a batch are not so.
    """
    start, stop = (0, keys.size) if rows is None else rows
    begin, end = (0, length) if bases is None else bases
    if not (1 <= length <= 32 and 0 <= begin <= end <= length and 0 <= start <= stop <= keys.size):
        raise ValueError(
            f"length {length}, rows {start}-{stop} of {keys.size}, bases {begin}-{end}"
        )
    if batch_pairs < 1:
        raise ValueError(f"a batch of {batch_pairs} pairs")
    checked = keys[start:stop]
    # A key out of place could send the search round in circles.
    if not (checked[1:] > checked[:-1]).all() or (
        start < stop and int(checked[-1]) >> (2 * length) != 0
    ):
        raise ValueError(f"keys are not strictly increasing barcodes of {length} bases")
    state = np.zeros(kernels.STATE_WORDS, np.int64)
    kernels.start_pairs(start, stop, state)
    buffers = Pairs(
        np.empty(batch_pairs, np.int64),
        np.empty(batch_pairs, np.int64),
        np.empty(batch_pairs, np.uint8),
    )
    count = batch_pairs
    while count == batch_pairs:
        count = kernels.list_pairs(keys, length, begin, end, state, buffers)
        if count > 0:
            yield Pairs(*(buffer[:count] for buffer in buffers))
