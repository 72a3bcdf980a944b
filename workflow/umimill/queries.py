"""Queries: families misread at several bases ask whoever holds the barcodes they may have been.

Such a barcode may lie anywhere in the library. link lists the families that ask; settle, the one
job that passes over all families, first notes in a filter which barcodes there are. Of the
thousands that a family asks for, hardly one exists: the others are never written. What is left is
put on a shelf by the piece of families that it asks, and answered piece by piece. Where the library
has more families than a filter has room for, this is done for a part of them at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from umimill.asks import READ_ASKS
from umimill.blockfile import ArrayReader, BlockFile
from umimill.kernels import queries as kernels
from umimill.kernels.answers import answer_queries
from umimill.kernels.known import (
    QUARTERS,
    REGIONS,
    count_regions,
    mark_keys,
    mark_quarters,
)
from umimill.kernels.score import EdgeModel
from umimill.partition import sorted_order
from umimill.pieces import Pieces
from umimill.shelf import READ_ROWS, Scratch, Shelf

QUERY = np.dtype(
    [
        ("key", "<u8"),
        ("child_key", "<u8"),
        ("draft", "<u8"),
        ("changes", "<i8"),
        ("independent", "<i4"),
        ("mask", "<u4"),
        ("reads", "<u4"),
        ("row", "<u4"),
        ("asker", "<u4"),
        ("quality_sum", "<u2"),
        ("sample", "<u2"),
        ("family", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
        ("draft_quality", "u1"),
        ("shift", "i1"),
        ("padding", "u1", (2,)),
    ]
)
ANSWER = np.dtype(
    [
        ("parent_key", "<u8"),
        ("score", "<i4"),
        ("ln_error", "<i4"),
        ("ln_independent", "<i4"),
        ("payload", "<i4"),
        ("parent_reads", "<u4"),
        ("row", "<u4"),
        ("parent_quality", "<u2"),
        ("parent_family", "<u2"),
        ("asker", "<u4"),
    ]
)
# Queries made at a time.
RUN_QUERIES = 1 << 17
# Of the filter, a family, at least.
FILTER_BITS = 16
FILTER_SHARES = 3
MOST_KEY = np.uint64(2**64 - 1)

Array = npt.NDArray[Any]


def make_known(parts: Callable[[], Iterable[Array]], *, dense: bool) -> kernels.Known:
    """Return the filters of some families.

    Four bits of 16 a key: of keys that are not there, one in 400 passes.

    Args:
        parts: gives the families, FAMILY[*] part by part, from the first on when it is called.
        dense: whether to have their payloads too.
    """
    counts = np.zeros(REGIONS, np.int64)
    for families in parts():
        count_regions(families, counts)
    starts = np.append(0, np.cumsum(-(-counts * FILTER_BITS // 64)))
    words = int(starts[-1])
    known = kernels.Known(
        np.zeros(words, np.uint64), np.zeros(QUARTERS * words if dense else 1, np.uint64), starts
    )
    for families in parts():
        mark_keys(families, starts, known.keys)
        if dense:
            mark_quarters(families, starts, known.quarters)
    return known


def expand_asks(
    asks_path: Path, model: EdgeModel, known: kernels.Known, span: Array
) -> Iterator[Array]:
    """Yield the queries of a bucket, QUERY[*], in a buffer that the next are written to.

    Args:
        asks_path: the bucket's asks.
        model: tables of the library.
        known: filters of the families in the span.
        span: u64[2, 2], first and last (sample, key) that may be asked for.
    """
    size = 1 << (2 * kernels.MOST_UNSURE)
    choices = kernels.Choices(
        np.empty(size, np.uint64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(kernels.MOST_UNSURE, np.int64),
    )
    queries = np.zeros(max(RUN_QUERIES, kernels.MOST_QUERIES), QUERY)
    with BlockFile(asks_path) as file:
        for row in range(0, file.length("asks"), READ_ASKS):
            asks = file.read("asks", row, row + READ_ASKS)
            start = 0
            while start < asks.size:
                start, count = kernels.make_queries(
                    asks, start, model, known, span, choices, queries
                )
                if count:
                    yield queries[:count]


class HeldPiece(NamedTuple):
    """A piece in memory: its number, FAMILY[n], and u8[n, B]."""

    piece: int
    families: Array
    quality: Array


def before(sample: int, key: int) -> tuple[int, int]:
    """Return the last (sample, key) before one."""
    return (sample, key - 1) if key else (sample - 1, int(MOST_KEY))


class Answerer:
    """Answers the queries of a library, as many families at a time as a filter has room for.

    Args:
        pieces: families in pieces.
        tables: tables of families, by bucket.
        asks: link's lists of those that ask, by bucket.
        model: tables of the library.
        scratch: where what does not fit goes.
        share_bytes: memory for queries and for answers, each; FILTER_SHARES of it are the filter's,
            which is there when no piece is.
        dense: whether most barcodes near another exist: then a filter has their payloads as well.
    """

    def __init__(
        self,
        pieces: Pieces,
        tables: Sequence[Path],
        asks: Sequence[Path],
        model: EdgeModel,
        scratch: Scratch,
        share_bytes: int,
        *,
        dense: bool,
    ) -> None:
        self._dense = dense
        self._pieces = pieces
        self._tables = tables
        self._asks = asks
        self._model = model
        self._scratch = scratch
        self._share_bytes = share_bytes
        self._answers = scratch.shelf(ANSWER, share_bytes)
        self.asked = self.found = self.passes = 0

    def run(self) -> Shelf:
        """Return what is answered, ANSWER[*], by the piece of those who asked."""
        if self.count_asks():
            for first, stop in self._spans():
                self.passes += 1
                queries = self._ask(first, stop)
                for piece in queries.places():
                    self._answer(piece, queries)
        return self._answers

    def count_asks(self) -> int:
        """Return how many ask."""
        total = 0
        for path in self._asks:
            with BlockFile(path) as file:
                total += file.length("asks")
        return total

    def expand(self, bucket: int, known: kernels.Known, span: Array) -> Iterator[Array]:
        """Yield the queries of a bucket with the piece of each that asks; see expand_asks."""
        for some in expand_asks(self._asks[bucket], self._model, known, span):
            some["asker"] = self._pieces.of_rows(bucket, some["row"])
            yield some

    def reply(self, held: HeldPiece, queries: Array) -> None:
        """Answer queries to the families of a piece, QUERY[m] in order."""
        answers = np.zeros(queries.size, ANSWER)
        count = answer_queries(held.families, held.quality, queries, self._model, answers)
        self._answers.scatter(answers["asker"][:count].astype(np.int64), answers[:count])
        self.found += count

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Yield runs of pieces whose keys a filter can hold."""
        room = FILTER_SHARES * self._share_bytes
        most = room * 8 // (FILTER_BITS * (1 + QUARTERS * self._dense))
        sizes = (self._pieces.stops - self._pieces.starts).tolist()
        start = held = 0
        for piece, size in enumerate(sizes):
            if held and held + size > most:
                yield start, piece
                start, held = piece, 0
            held += size
        if held:
            yield start, len(sizes)

    def _families(self, first: int, stop: int) -> Iterator[Array]:
        """Yield the families of pieces [first, stop)."""
        for piece in range(first, stop):
            with BlockFile(self._tables[self._pieces.buckets[piece]]) as file:
                for start, end in self._pieces.row_ranges(piece, READ_ROWS):
                    yield file.read("families", start, end)

    def _ask(self, first: int, stop: int) -> Shelf:
        """Return the queries for the families of pieces [first, stop), by piece."""
        pieces = self._pieces
        known = make_known(partial(self._families, first, stop), dense=self._dense)
        held = sum(array.nbytes for array in known)
        self._scratch.hold(held)
        span = np.full((2, 2), MOST_KEY)
        span[0] = pieces.samples[first], pieces.keys[first]
        if stop < pieces.count:
            span[1] = before(int(pieces.samples[stop]), int(pieces.keys[stop]))
        queries = self._scratch.shelf(QUERY, self._share_bytes)
        for bucket in range(pieces.bounds.size - 1):
            for some in self.expand(bucket, known, span):
                queries.scatter(pieces.of_keys(some["sample"], some["key"]), some)
                self.asked += some.size
        self._scratch.hold(-held)
        return queries

    def _answer(self, piece: int, queries: Shelf) -> None:
        pieces = self._pieces
        start, stop = int(pieces.starts[piece]), int(pieces.stops[piece])
        with BlockFile(self._tables[pieces.buckets[piece]]) as file:
            families = file.read("families", start, stop)
            held = HeldPiece(piece, families, file.read("quality", start, stop))
        for some in queries.take(piece):
            self.reply(held, some[sorted_order(some, some.size)])


def read_answers(answers: Shelf, piece: int) -> Array:
    """Return the best answers for the rows of a piece, ANSWER[*] by row."""
    held = np.empty(0, ANSWER)
    for some in answers.take(piece):
        held = best_two(np.concatenate([held, some]))
    return best_answers(held)


def best_two(answers: Array) -> Array:
    """Return the best two answers for each row that asked, ANSWER[*] by row, the better one first.

    The greatest score, then the parent of highest rank: reads, quality, smaller key.
    """
    order = np.lexsort(
        (
            answers["parent_family"],
            answers["parent_key"],
            -answers["parent_quality"].astype(np.int64),
            -answers["parent_reads"].astype(np.int64),
            -answers["score"].astype(np.int64),
            answers["row"],
        )
    )
    answers = answers[order]
    third = np.zeros(answers.size, bool)
    third[2:] = answers["row"][2:] == answers["row"][:-2]
    return answers[~third]


def best_answers(answers: Array) -> Array:
    """Return the best answer for each row that asked, ANSWER[*] by row; see best_two.

    Its score is then the odds against the second parent too, where that has one above 0.
    """
    answers = best_two(answers)
    if not answers.size:
        return answers
    first = np.concatenate([[True], answers["row"][1:] != answers["row"][:-1]])
    best: Array = answers[first]
    # What speaks for the second parent speaks against the best one.
    starts = np.flatnonzero(first)
    second = np.minimum(starts + 1, answers.size - 1)
    rivals = (answers["row"][second] == best["row"]) & (second > starts)
    rivals &= answers["score"][second] >= 0
    best["score"][rivals] -= answers["score"][second[rivals]] + 1
    best["asker"] = 0
    return best


def apply_answers(edges: Array, answers: Array, start: int) -> None:
    """Put answers that are better in place of edges.

    Args:
        edges: EDGE[n] of rows from `start` on of a bucket's table; changed.
        answers: ANSWER[*] of the bucket, at most one a row, by row.
        start: row of the first edge.
    """
    first, stop = np.searchsorted(answers["row"], [start, start + edges.size]).tolist()
    own = answers[first:stop]
    rows = own["row"].astype(np.int64) - start
    better = own["score"] > edges["score"][rows]
    own, rows = own[better], rows[better]
    for name in ("parent_key", "score", "ln_error", "ln_independent", "payload"):
        edges[name][rows] = own[name]
    edges["parent_reads"][rows] = own["parent_reads"]
    edges["parent_family"][rows] = own["parent_family"]


def apply_next(edges: Array, answers: ArrayReader, start: int) -> None:
    """As apply_answers, with answers that are read as rows pass by."""
    held = answers.ahead(edges.size)
    apply_answers(edges, held, start)
    answers.skip(int(np.searchsorted(held["row"], start + edges.size)))
