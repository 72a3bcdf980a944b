"""Pieces: the families of a library, in order, cut so that a piece fits into memory.

Buckets may have any size; a job that passes over all of them works piece by piece. Whatever comes
by key or by row in any order is put on shelves by piece first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile
from umimill.kernels.settle import find_pieces

# A piece of fewer rows costs more than it saves.
LEAST_ROWS = 1 << 8

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """Runs of rows of the tables of a library, in order; no two share a (sample, key).

    Attributes:
        buckets: i64[m], the bucket of each.
        starts: i64[m], its first row in the bucket's table.
        stops: i64[m], behind its last one.
        samples: i64[m], sample of the first row.
        keys: u64[m], key of the first row.
        bounds: i64[n + 1], pieces [bounds[i], bounds[i + 1]) are those of bucket i.
    """

    buckets: Integers
    starts: Integers
    stops: Integers
    samples: Integers
    keys: npt.NDArray[np.uint64]
    bounds: Integers

    @property
    def count(self) -> int:
        """Pieces."""
        return int(self.buckets.size)

    def of_bucket(self, bucket: int) -> range:
        """Return the pieces of a bucket."""
        return range(int(self.bounds[bucket]), int(self.bounds[bucket + 1]))

    def row_ranges(self, piece: int, rows: int) -> Iterator[tuple[int, int]]:
        """Yield the rows of a piece in its bucket's table as ranges of at most `rows`."""
        start, stop = int(self.starts[piece]), int(self.stops[piece])
        for row in range(start, stop, rows):
            yield row, min(row + rows, stop)

    def of_keys(self, samples: Array, keys: Array) -> Integers:
        """Return the piece that a key is in, if a family has it, i64[n].

        Args:
            samples: u16[n].
            keys: u64[n].
        """
        places = np.empty(keys.size, np.int64)
        # Copies, so that the kernel is compiled for one layout in memory.
        samples, keys = np.ascontiguousarray(samples), np.ascontiguousarray(keys)
        find_pieces(samples, keys, self.samples, self.keys, places)
        return places

    def of_rows(self, bucket: int, rows: Array) -> Integers:
        """Return the piece that rows of a bucket's table are in, i64[n]."""
        own = self.of_bucket(bucket)
        starts = self.starts[own.start : own.stop]
        return own.start - 1 + np.searchsorted(starts, rows.astype(np.int64), side="right")


def cut_pieces(tables: Sequence[Path], rows: int, name: str = "families") -> Pieces:
    """Cut the tables of a library into pieces.

    Args:
        tables: tables of families, by bucket.
        rows: most rows of a piece of more than one key.
        name: which array of the tables.
    """
    rows = max(rows, LEAST_ROWS)
    found: list[tuple[int, int, int, int, int]] = []
    bounds = [0]
    for bucket, path in enumerate(tables):
        with BlockFile(path) as file:
            total = file.length(name)
            start = 0
            while start < total:
                stop = _cut_row(file, name, start, min(start + rows, total))
                first = file.read(name, start, start + 1)[0]
                found.append((bucket, start, stop, int(first["sample"]), int(first["key"])))
                start = stop
        bounds.append(len(found))
    buckets, starts, stops, samples, keys = zip(*found, strict=True) if found else [()] * 5
    return Pieces(
        np.array(buckets, np.int64),
        np.array(starts, np.int64),
        np.array(stops, np.int64),
        np.array(samples, np.int64),
        np.array(keys, np.uint64),
        np.array(bounds, np.int64),
    )


def _cut_row(file: BlockFile, name: str, start: int, stop: int) -> int:
    """Return the last row in (start, stop] where a key begins, else the next one, or the end."""
    total = file.length(name)
    if stop == total:
        return total
    width = LEAST_ROWS
    low = stop
    while low > start:
        low = max(start, stop - width)
        cuts = _key_starts(file.read(name, low, stop + 1))
        if cuts.size:
            return low + int(cuts[-1])
        width *= 2
    while stop < total:
        cuts = _key_starts(file.read(name, stop - 1, stop + width))
        if cuts.size:
            return stop - 1 + int(cuts[0])
        stop += width
    return total


def _key_starts(families: Array) -> Array:
    """Return the rows, but for the first, whose (sample, key) is not that of the row before."""
    new = (families["key"][1:] != families["key"][:-1]) | (
        families["sample"][1:] != families["sample"][:-1]
    )
    return np.flatnonzero(new) + 1
