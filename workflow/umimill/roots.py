"""Roots: follow the accepted edges of a library, of which a piece is in memory at a time.

A child's edge leads to its parent, whose own edge may lead on, into another piece too. Edges are
followed inside each piece first; what leads out is asked of the piece that it leads to, round after
round, until every root is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile
from umimill.errors import UmimillError
from umimill.fates import READ_FAMILIES
from umimill.kernels import settle as kernels
from umimill.pieces import Pieces
from umimill.queries import apply_answers
from umimill.shelf import Scratch, Shelf

CORRECTION = np.dtype(
    [
        ("key", "<u8"),
        ("root_key", "<u8"),
        ("reads", "<u4"),
        ("sample", "<u2"),
        ("family", "<u2"),
        ("root_family", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
        ("padding", "<u4"),
    ]
)

Array = npt.NDArray[Any]


class RootFinder:
    """Finds the root of every accepted edge.

    Args:
        pieces: families in pieces.
        scratch: where what does not fit goes.
        share_bytes: memory for accepted edges, for open questions, and for what is found, each.
    """

    def __init__(self, pieces: Pieces, scratch: Scratch, share_bytes: int) -> None:
        self._pieces = pieces
        self._edges = scratch.shelf(CORRECTION, share_bytes)
        self._has_edges = np.zeros(pieces.count, bool)
        self._open = scratch.shelf(CORRECTION, share_bytes)
        self._found = scratch.shelf(CORRECTION, share_bytes)

    def add(self, piece: int, edges: Array) -> None:
        """Take accepted edges of a piece, CORRECTION[n] with parents for roots, by child."""
        self._edges.add(piece, edges)

    def run(self) -> Shelf:
        """Return all edges with their roots, CORRECTION[*], by piece of the child, unordered."""
        self._has_edges[self._edges.places()] = True
        for piece in self._edges.places():
            known = self._edges.get(piece)
            self._follow(piece, known, known.copy())
        while wanted := self._open.places():
            for piece in wanted:
                known = self._edges.get(piece)
                for questions in self._open.take(piece):
                    self._follow(piece, known, questions.copy())
        self._edges.clear()
        return self._found

    def _follow(self, piece: int, known: Array, edges: Array) -> None:
        """Follow edges that lead into a piece as far as it knows, and put them where they go."""
        kernels.follow(edges, known, np.zeros(1, CORRECTION))
        roots = self._pieces.of_keys(edges["sample"], edges["root_key"])
        # What this piece knows no edge of, or a piece without edges, is a root.
        final = (roots == piece) | ~self._has_edges[roots]
        done, left = edges[final], edges[~final]
        self._found.scatter(self._pieces.of_keys(done["sample"], done["key"]), done)
        self._open.scatter(roots[~final], left)


def read_accepted(
    pieces: Pieces,
    piece: int,
    files: tuple[BlockFile, BlockFile],
    answers: Array,
    least_score: int,
) -> Array:
    """Return the accepted edges of a piece, CORRECTION[*] by child.

    Args:
        pieces: families in pieces.
        piece: number of the piece.
        files: tally's table of its bucket, and link's edges.
        answers: best answers to its families.
        least_score: score from which an edge is accepted.
    """
    found = [np.empty(0, CORRECTION)]
    for start, stop in pieces.row_ranges(piece, READ_FAMILIES):
        families = files[0].read("families", start, stop)
        edges = files[1].read("edges", start, stop)
        apply_answers(edges, answers, start)
        corrections = np.zeros(families.size, CORRECTION)
        count = kernels.accept_edges(families, edges, least_score, corrections)
        found.append(corrections[:count].copy())
    return np.concatenate(found)


def child_order(rows: Array) -> npt.NDArray[np.int64]:
    """Return the order of rows of families: (sample, key, length, cell length, family)."""
    length = rows["umi_length"].astype(np.int64) + rows["cell_length"]
    return np.lexsort((rows["family"], rows["cell_length"], length, rows["key"], rows["sample"]))


def check_edges(tables: Sequence[Path], links: Sequence[Path]) -> None:
    """Make sure that each table of families has as many edges.

    Raises:
        UmimillError: where one has not.
    """
    for table, link in zip(tables, links, strict=True):
        with BlockFile(table) as families_file, BlockFile(link) as edges_file:
            both = families_file.length("families"), edges_file.length("edges")
        if both[0] != both[1]:
            raise UmimillError(
                f"{table}: {both[0]:,} families but {both[1]:,} edges in {link}; delete "
                "results/link and run again"
            )
