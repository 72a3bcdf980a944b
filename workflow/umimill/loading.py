"""Rows of a bucket, key range by key range, from the sorted runs of all its partition files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.errors import UmimillError
from umimill.kernels import rows as row_kernels
from umimill.kernels.consensus import Batch
from umimill.kernels.families import rows_through
from umimill.partition import HOT, PartitionFile, Run

READ_ROWS = 1 << 13

Array = npt.NDArray[Any]


@dataclass
class Cursor:
    """How far a run has been read.

    Attributes:
        run: the run.
        row: next row in the flush.
        word: next cold word in the flush.
        hot: rows read ahead, HOT[*]; the first of them is `row`.
    """

    run: Run
    row: int
    word: int
    hot: Array = field(default_factory=lambda: np.empty(0, HOT))


@dataclass(frozen=True)
class Piece:
    """Rows of one run: hot group, barcode qualities, cold words, and how their qualities are."""

    hot: Array
    barcode_quality: Array
    cold: Array
    quality_bits: int
    levels: Array


class RowLoader:
    """Reads a bucket's rows in key order.

    Args:
        parts: partition files of the library.
        leaf_start: first leaf of the bucket.
        leaf_stop: end.
    """

    def __init__(self, parts: Sequence[PartitionFile], leaf_start: int, leaf_stop: int) -> None:
        self.parts = parts
        self._cursors = [
            Cursor(run, run.row_start, run.word_start)
            for number, part in enumerate(parts)
            for run in part.runs(number, leaf_start, leaf_stop)
        ]
        self._starts = np.empty(READ_ROWS, np.int64)
        self.read_bytes = 0

    def through(self, last: Array) -> list[Piece]:
        """Read the rows that come no later than last[0] in key order.

        Args:
            last: FAMILY[1].
        """
        return [piece for cursor in self._cursors for piece in self._advance(cursor, last)]

    def pieces_through(self, last: Array) -> Any:
        """Yield the same rows piece by piece, for keys that do not fit into memory."""
        for cursor in self._cursors:
            yield from self._advance(cursor, last)

    def _advance(self, cursor: Cursor, last: Array) -> Any:
        part = self.parts[cursor.run.file]
        flush = cursor.run.flush
        while cursor.row < cursor.run.row_stop:
            if not cursor.hot.size:
                stop = min(cursor.row + READ_ROWS, cursor.run.row_stop)
                cursor.hot = part.read_hot(flush, cursor.row, stop).copy()
            count = rows_through(cursor.hot, last)
            if count:
                yield self._take(part, cursor, count)
            if cursor.hot.size:
                return

    def _take(self, part: PartitionFile, cursor: Cursor, count: int) -> Piece:
        flush = cursor.run.flush
        entry = part.flushes[flush]
        bits = int(entry["quality_bits"])
        words = row_kernels.fill_cold_starts(cursor.hot, count, bits, 0, self._starts)
        piece = Piece(
            cursor.hot[:count],
            part.read_barcode_quality(flush, cursor.row, cursor.row + count).copy(),
            part.read_cold(flush, cursor.word, cursor.word + words).copy(),
            bits,
            entry["levels"],
        )
        cursor.row += count
        cursor.word += words
        cursor.hot = cursor.hot[count:]
        self.read_bytes += piece.hot.nbytes + piece.barcode_quality.nbytes + piece.cold.nbytes
        return piece

    def check_finished(self) -> None:
        """Make sure that no row was left.

        Raises:
            UmimillError: where one was.
        """
        left = sum(cursor.run.row_stop - cursor.row for cursor in self._cursors)
        if left:
            raise UmimillError(
                f"{left:,} rows belong to no family; delete results/tally, run again"
            )


def make_batch(pieces: Sequence[Piece], barcode_width: int) -> Batch:
    """Put pieces together as the kernels take them."""
    if not pieces:
        return Batch(
            np.empty(0, HOT),
            np.empty((0, barcode_width), np.uint8),
            np.empty(0, np.uint64),
            np.empty(0, np.int64),
            np.empty(0, np.int64),
            np.full(1, 8, np.int64),
            np.zeros((1, 4), np.uint8),
        )
    hot = np.concatenate([piece.hot for piece in pieces])
    starts = np.empty(hot.size, np.int64)
    runs = np.empty(hot.size, np.int64)
    at = word = 0
    for number, piece in enumerate(pieces):
        span = slice(at, at + piece.hot.size)
        word = row_kernels.fill_cold_starts(
            piece.hot, piece.hot.size, piece.quality_bits, word, starts[span]
        )
        runs[span] = number
        at += piece.hot.size
    return Batch(
        hot,
        np.concatenate([piece.barcode_quality for piece in pieces]),
        np.concatenate([piece.cold for piece in pieces]),
        starts,
        runs,
        np.array([piece.quality_bits for piece in pieces], np.int64),
        np.array([piece.levels for piece in pieces], np.uint8),
    )
