"""Queries: families misread at several bases ask whoever holds the barcodes they may have been.

Such a barcode may lie anywhere in the library. link lists the families that ask; settle, the one
job that passes over all families, first notes in a filter which barcodes there are. Of the
thousands that a family asks for, hardly one exists: the others are never written. What is left goes
to scratch, in the order of what is asked for, and is answered as the families pass by again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile, BlockWriter
from umimill.kernels import queries as kernels
from umimill.kernels.answers import answer_queries
from umimill.kernels.families import rows_through
from umimill.kernels.score import EdgeModel
from umimill.partition import sorted_order

ASK = np.dtype(
    [
        ("key", "<u8"),
        ("draft", "<u8"),
        ("independent", "<i4"),
        ("mask", "<u4"),
        ("reads", "<u4"),
        ("row", "<u4"),
        ("quality_sum", "<u2"),
        ("sample", "<u2"),
        ("family", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
        ("draft_quality", "u1"),
        ("quality", "u1", (32,)),
        ("padding", "u1", (7,)),
    ]
)
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
        ("quality_sum", "<u2"),
        ("sample", "<u2"),
        ("family", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
        ("draft_quality", "u1"),
        ("padding", "u1", (7,)),
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
        ("padding", "<u4"),
    ]
)
# Queries in memory before they are sorted and written as a run.
RUN_QUERIES = 1 << 17
READ_QUERIES = 1 << 12
READ_ASKS = 1 << 14
# Of the filter, a family.
FILTER_BITS = 16

Array = npt.NDArray[Any]


class AskWriter:
    """Writes the families of a bucket that ask.

    Args:
        path: file to write.
        model: tables of the library.
    """

    def __init__(self, path: Path, model: EdgeModel) -> None:
        self._writer = BlockWriter(path)
        self._model = model
        self._asks = np.zeros(READ_ASKS, ASK)
        self._places = np.zeros(kernels.MOST_UNSURE, np.int64)
        self._count = 0
        self._start = self._writer.append(self._asks[:0])

    def __enter__(self) -> AskWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        self._writer.__exit__(*error)

    def add(self, families: Array, quality: Array, edges: Array, first_row: int) -> None:
        """List those of some families that ask.

        Args:
            families: FAMILY[n].
            quality: u8[n, B].
            edges: EDGE[n], their best parents so far.
            first_row: row of the first family in the bucket's table.
        """
        start = 0
        while start < families.size:
            start, count = kernels.find_asks(
                families,
                quality,
                edges,
                first_row,
                start,
                self._model,
                self._places,
                self._asks,
            )
            self._writer.append(self._asks[:count])
            self._count += count

    def finish(self, bucket: int) -> int:
        """Give the file its name; return the families that ask."""
        self._writer.list_array("asks", self._start, (self._count,), ASK)
        self._writer.finish({"bucket": bucket})
        return self._count


def new_filter(families: int, most_bytes: int) -> npt.NDArray[np.uint64]:
    """Return an empty filter for the keys of so many families.

    Two bits of sixteen a key: of the keys that are not there, it lets one in seventy pass. Of any
    size it gives the same answers.

    Args:
        families: keys, at most.
        most_bytes: limit of its size.
    """
    words = max(2, min(families * FILTER_BITS // 64, most_bytes // 8))
    return np.zeros(1 << (words.bit_length() - 1), np.uint64)


def expand_asks(asks_path: Path, path: Path, model: EdgeModel, known: Array) -> int:
    """Write the queries of a bucket in sorted runs; return how many there are.

    Args:
        asks_path: the bucket's asks.
        path: file to write.
        model: tables of the library.
        known: filter of the keys of all families.
    """
    size = 1 << (2 * kernels.MOST_UNSURE)
    choices = kernels.Choices(
        np.empty(size, np.uint64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(kernels.MOST_UNSURE, np.int64),
    )
    queries = np.zeros(max(RUN_QUERIES, kernels.MOST_QUERIES), QUERY)
    bounds = [0]
    with BlockFile(asks_path) as file, BlockWriter(path) as writer:
        first = writer.append(queries[:0])
        for row in range(0, file.length("asks"), READ_ASKS):
            asks = file.read("asks", row, row + READ_ASKS)
            start = 0
            while start < asks.size:
                start, count = kernels.make_queries(asks, start, model, known, choices, queries)
                if count:
                    writer.append(queries[sorted_order(queries, count)])
                    bounds.append(bounds[-1] + count)
        writer.list_array("queries", first, (bounds[-1],), QUERY)
        writer.add("runs", np.array(bounds, np.int64))
        writer.finish({})
    return bounds[-1]


@dataclass
class Cursor:
    """How far a run of queries has been read.

    Attributes:
        file: the file.
        row: next query to read from it.
        stop: end of the run.
        held: queries read ahead, QUERY[*].
    """

    file: BlockFile
    row: int
    stop: int
    held: Array

    def through(self, last: Array) -> Iterator[Array]:
        """Yield the queries for keys no later than last[0]."""
        while self.held.size or self.row < self.stop:
            if not self.held.size:
                end = min(self.row + READ_QUERIES, self.stop)
                self.held = self.file.read("queries", self.row, end)
                self.row = end
            count = rows_through(self.held, last)
            if count:
                yield self.held[:count]
                self.held = self.held[count:]
            if self.held.size:
                return


class Queries:
    """The queries of all buckets, answered as families pass by in order.

    Args:
        paths: files of `expand_asks`, by bucket.
        model: tables of the library.
    """

    def __init__(self, paths: Sequence[Path], model: EdgeModel) -> None:
        self._model = model
        self._files: list[BlockFile] = []
        self._cursors: list[list[Cursor]] = []
        try:
            for path in paths:
                file = BlockFile(path)
                self._files.append(file)
                runs = file.read("runs").tolist()
                self._cursors.append(
                    [
                        Cursor(file, start, stop, np.empty(0, QUERY))
                        for start, stop in pairwise(runs)
                    ]
                )
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def answers(self, families: Array, quality: Array) -> Iterator[tuple[int, Array]]:
        """Yield (bucket that asked, ANSWER[*]) for the next families of the library.

        Args:
            families: FAMILY[n], whole keys.
            quality: u8[n, B].
        """
        last = families[-1:].copy()
        for bucket, cursors in enumerate(self._cursors):
            for cursor in cursors:
                for queries in cursor.through(last):
                    answers = np.zeros(queries.size, ANSWER)
                    count = answer_queries(families, quality, queries, self._model, answers)
                    if count:
                        yield bucket, answers[:count].copy()


def best_answers(answers: Array) -> Array:
    """Return the best answer for each row that asked, ANSWER[*] by row.

    The greatest score, then the parent of highest rank: reads, quality, smaller key. The score is
    then the odds against the second parent too, where that has one above 0.
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
