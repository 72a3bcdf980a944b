"""Rows of a bucket, key range by key range, from the sorted runs of all its partition files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.errors import UmimillError
from umimill.kernels import rows as row_kernels
from umimill.kernels.consensus import Batch
from umimill.kernels.families import rows_before, rows_through
from umimill.partition import HOT, MOVED, PartitionFile, Run

READ_ROWS = 1 << 13
# Rows read ahead over all runs: where there are many runs, fewer of each.
AHEAD_ROWS = 1 << 17
LEAST_READ_ROWS = 1 << 10

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
    """Rows of one run: hot group, barcode qualities, cold words, and how their qualities are.

    `moved` is MOVED[*] of an outbox, else None.
    """

    hot: Array
    barcode_quality: Array
    cold: Array
    quality_bits: int
    levels: Array
    moved: Array | None = None


class RowLoader:
    """Reads a bucket's rows in key order.

    Args:
        parts: partition files of the library.
        leaf_start: first leaf of the bucket.
        leaf_stop: end.

    Attributes:
        run_count: runs that the rows are in.
        read_bytes: bytes of the rows read so far.
    """

    def __init__(self, parts: Sequence[PartitionFile], leaf_start: int, leaf_stop: int) -> None:
        self.parts = parts
        self._cursors = [
            Cursor(run, run.row_start, run.word_start)
            for number, part in enumerate(parts)
            for run in part.runs(number, leaf_start, leaf_stop)
        ]
        ahead = AHEAD_ROWS // max(1, len(self._cursors))
        self._read_rows = min(READ_ROWS, max(LEAST_READ_ROWS, ahead))
        self.run_count = len(self._cursors)
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
        while self._read_ahead(cursor):
            count = rows_through(cursor.hot, last)
            if count:
                yield self._take(cursor, count)
            if cursor.hot.size:
                return

    def next_keys(self, rows: int) -> tuple[list[Piece], Array | None]:
        """Read the next whole keys, about `rows` rows and no more.

        Returns:
            (pieces, None); no pieces and HOT[1], a row of the next key, where that alone has more
            in a run; no pieces and None at the end.
        """
        cursors = [cursor for cursor in self._cursors if cursor.row < cursor.run.row_stop]
        share = max(1, rows // max(1, len(cursors)))
        limit: Array | None = None
        for cursor in cursors:
            self._read_ahead(cursor, share + 1)
            if cursor.hot.size > share:
                own = cursor.hot[share : share + 1]
                limit = own if limit is None or rows_before(own, limit) else limit
        pieces = []
        for cursor in cursors:
            count = cursor.hot.size if limit is None else rows_before(cursor.hot, limit)
            if count:
                pieces.append(self._take(cursor, count))
        return pieces, None if pieces else limit

    def marks(self) -> list[Cursor]:
        """Return how far all runs have been read."""
        return [replace(cursor) for cursor in self._cursors]

    def rewind(self, marks: Sequence[Cursor]) -> None:
        """Go back to marks, which stay as they are."""
        self._cursors = [replace(mark) for mark in marks]

    def _read_ahead(self, cursor: Cursor, wanted: int = 1) -> bool:
        """Make sure that so many rows are at hand, or all that are left; return if there is one."""
        held = cursor.hot.size
        stop = min(cursor.row + max(self._read_rows, wanted), cursor.run.row_stop)
        if held < wanted and cursor.row + held < stop:
            part = self.parts[cursor.run.file]
            more = part.read_hot(cursor.run.flush, cursor.row + held, stop)
            cursor.hot = np.concatenate([cursor.hot, more])
        return cursor.hot.size > 0

    def _take(self, cursor: Cursor, count: int) -> Piece:
        part = self.parts[cursor.run.file]
        flush = cursor.run.flush
        entry = part.flushes[flush]
        bits = int(entry["quality_bits"])
        starts = np.empty(count, np.int64)
        words = row_kernels.fill_cold_starts(cursor.hot, count, bits, 0, starts)
        piece = Piece(
            cursor.hot[:count],
            part.read_barcode_quality(flush, cursor.row, cursor.row + count).copy(),
            part.read_cold(flush, cursor.word, cursor.word + words).copy(),
            bits,
            entry["levels"],
            part.read_moved(flush, cursor.row, cursor.row + count).copy()
            if part.is_outbox
            else None,
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


def moved_rows(pieces: Sequence[Piece]) -> npt.NDArray[np.int64]:
    """Return the family of each row that correction moved, -1 for the others, i64[n]."""
    parts = [
        np.full(piece.hot.size, -1, np.int64)
        if piece.moved is None
        else piece.moved["family"].astype(np.int64)
        for piece in pieces
    ]
    return np.concatenate([np.empty(0, np.int64), *parts])


def row_origins(pieces: Sequence[Piece]) -> Array:
    """Return what outboxes say of the rows that correction moved, MOVED[n]; zeros for others."""
    parts = [
        np.zeros(piece.hot.size, MOVED) if piece.moved is None else piece.moved for piece in pieces
    ]
    return np.concatenate([np.empty(0, MOVED), *parts])


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
