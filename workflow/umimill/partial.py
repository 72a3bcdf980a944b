"""Rows whose barcode was not fully read: unknown bases, a base less or more.

checkout writes them to a partition file of their own. They are in no family, so they move no edge
and no number of the model. tally lists them (PARTIAL, a row each), settle places them (places.py),
and move copies those that are placed and says what became of all (PARTIAL_FATE).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import ArrayReader, BlockFile, BlockWriter
from umimill.drafts import batch_drafts
from umimill.kernels import partial as kernels
from umimill.kernels.consensus import Batch
from umimill.kernels.families import last_key_start
from umimill.loading import RowLoader, make_batch
from umimill.partition import PartitionFile, sorted_order

PARTIAL = np.dtype(
    [
        ("key", "<u8"),
        ("draft", "<u8"),
        ("mask", "<u4"),
        ("n_mask", "<u4"),
        ("sample", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
        ("draft_quality", "u1"),
        ("shift", "i1"),
        ("padding", "u1", (2,)),
    ]
)
# What became of the reads of one barcode that was not fully read, and of one root.
PARTIAL_FATE = np.dtype(
    [
        ("key", "<u8"),
        ("root_key", "<u8"),
        ("n_mask", "<u4"),
        ("reads", "<u4"),
        ("parent_reads", "<u4"),
        ("score", "<i4"),
        ("ln_error", "<i4"),
        ("ln_independent", "<i4"),
        ("payload", "<i4"),
        ("sample", "<u2"),
        ("root_family", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
        ("shift", "i1"),
        ("placed", "u1"),
        ("padding", "<u4"),
    ]
)
READ_PARTIALS = 1 << 14

Array = npt.NDArray[Any]


def partial_batches(loader: RowLoader, rows: int) -> Iterator[tuple[Batch, Array]]:
    """Yield (rows, their order by key), about `rows` at a time: the same order whatever that is.

    Args:
        loader: partial rows of a bucket.
        rows: rows at a time.
    """
    width = max((part.barcode_width for part in loader.parts), default=1)
    while True:
        pieces, key = loader.next_keys(rows)
        if key is not None:
            for piece in loader.pieces_through(key):
                yield make_batch([piece], width), np.arange(piece.hot.size)
        elif pieces:
            batch = make_batch(pieces, width)
            yield batch, sorted_order(batch.hot, batch.hot.size)
        else:
            return


def list_partials(
    parts: Sequence[PartitionFile],
    leaves: tuple[int, int],
    strides: Array,
    rows: int,
    writer: BlockWriter,
) -> npt.NDArray[np.int64]:
    """Write the partial rows of a bucket as array `partials`, PARTIAL[*].

    Args:
        parts: partition files of partial rows.
        leaves: leaves [start, stop) of the bucket.
        strides: i64[S], see draft_strides.
        rows: rows at a time.
        writer: file to write to.

    Returns:
        i64[S], rows of each sample.
    """
    counts = np.zeros(strides.size, np.int64)
    start = writer.append(np.empty(0, PARTIAL))
    for batch, order in partial_batches(RowLoader(parts, *leaves), rows):
        partials = np.zeros(order.size, PARTIAL)
        kernels.fill_partials(batch, order, batch_drafts(batch, strides), partials)
        writer.append(partials)
        counts += np.bincount(partials["sample"], minlength=counts.size)
    writer.list_array("partials", start, (int(counts.sum()),), PARTIAL)
    return counts


def next_places(places: ArrayReader, first_row: int, rows: int) -> Array:
    """Return the places of the next rows of a bucket, PLACE[*]; at most one a row.

    Args:
        places: places of the bucket, from these rows on.
        first_row: number of the first.
        rows: how many rows there are.
    """
    held = places.ahead(rows)
    own = held[: int(np.searchsorted(held["row"], first_row + rows))]
    places.skip(own.size)
    return own


def partial_fates(table: BlockFile, places: ArrayReader) -> Iterator[Array]:
    """Yield what became of partial rows, PARTIAL_FATE[*]: a record a barcode and root, in order.

    Args:
        table: tally's table of a bucket.
        places: places of the bucket, by row.
    """
    total = table.length("partials")
    held = np.empty(0, PARTIAL_FATE)
    for row in range(0, total, READ_PARTIALS):
        partials = table.read("partials", row, row + READ_PARTIALS)
        fates = np.zeros(partials.size, PARTIAL_FATE)
        for name in ("key", "n_mask", "sample", "umi_length", "cell_length", "shift"):
            fates[name] = partials[name]
        fates["reads"] = 1
        own = next_places(places, row, partials.size)
        at = own["row"].astype(np.int64) - row
        for name in ("root_key", "root_family", "score", "ln_error", "ln_independent", "payload"):
            fates[name][at] = own[name]
        fates["parent_reads"][at], fates["placed"][at] = own["reads"], 1
        held = _grouped(np.concatenate([held, fates]))
        end = held.size if row + partials.size == total else int(last_key_start(held))
        if end:
            yield held[:end]
            held = held[end:]


def _grouped(fates: Array) -> Array:
    """Add up the records of one barcode and root; of scores the greatest is kept."""
    length = fates["umi_length"].astype(np.int64) + fates["cell_length"]
    names = ("root_family", "root_key", "placed", "n_mask", "shift", "cell_length", "key", "sample")
    scores = [-fates[name].astype(np.int64) for name in ("payload", "ln_error", "score")]
    keys = [fates[name] for name in names]
    order = np.lexsort((*scores, *keys[:-2], length, *keys[-2:]))
    fates = fates[order]
    new = np.ones(fates.size, bool)
    columns = (*names, "umi_length")
    new[1:] = np.logical_or.reduce([fates[name][1:] != fates[name][:-1] for name in columns])
    starts = np.flatnonzero(new)
    grouped: Array = fates[starts].copy()
    grouped["reads"] = np.add.reduceat(fates["reads"], starts)
    grouped["parent_reads"] = np.maximum.reduceat(fates["parent_reads"], starts)
    return grouped
