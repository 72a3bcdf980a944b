"""Places: the families that rows belong to whose barcode was not fully read.

All families are asked which of them have a barcode that such a row may be of. When all roots are
known a row is placed where one root is likelier, by far enough, than all others and than a molecule
that nobody else has read (kernels/partial.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile
from umimill.kernels import partial as kernels
from umimill.kernels import settle as settle_kernels
from umimill.kernels.answers import TRIED
from umimill.kernels.queries import Known
from umimill.kernels.score import EdgeModel
from umimill.model import read_model
from umimill.partial import READ_PARTIALS
from umimill.pieces import Pieces
from umimill.queries import QUERY, Answerer, HeldPiece
from umimill.roots import CORRECTION, child_order
from umimill.shelf import Scratch, Shelf

PLACE = np.dtype(
    [
        ("key", "<u8"),
        ("root_key", "<u8"),
        ("score", "<i4"),
        ("ln_error", "<i4"),
        ("ln_independent", "<i4"),
        ("payload", "<i4"),
        ("reads", "<u4"),
        ("row", "<u4"),
        ("asker", "<u4"),
        ("sample", "<u2"),
        ("root_family", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
        ("shift", "i1"),
        ("padding", "u1", (5,)),
    ]
)
# Queries made, and places found, at a time.
MOST_QUERIES = 1 << 15
ANSWER_PLACES = 1 << 12

Array = npt.NDArray[Any]


class Placer(Answerer):
    """Finds the families that partial rows may belong to; see Answerer.

    Args:
        pieces: families in pieces.
        tables: tally's tables, by bucket.
        askers: partial rows in pieces.
        model_path: model of the library.
        scratch: where what does not fit goes.
        share_bytes: memory for the filter, for queries, and for places, each.
    """

    def __init__(
        self,
        pieces: Pieces,
        tables: Sequence[Path],
        askers: Pieces,
        model_path: Path,
        scratch: Scratch,
        share_bytes: int,
    ) -> None:
        super().__init__(
            pieces, tables, (), read_model(model_path), scratch, share_bytes, dense=False
        )
        with BlockFile(model_path) as file:
            self._unseen = file.read("unseen")
        self._askers = askers
        self._answers = scratch.shelf(PLACE, share_bytes)
        self._queries = np.zeros(MOST_QUERIES, QUERY)
        self._room = (
            np.empty(kernels.MOST_CANDIDATES, np.uint64),
            np.empty(kernels.MOST_CANDIDATES, np.int64),
        )

    def count_asks(self) -> int:
        """Return how many rows there are."""
        return int((self._askers.stops - self._askers.starts).sum())

    def expand(self, bucket: int, known: Known, span: Array) -> Iterator[Array]:
        """Yield the queries of a bucket's rows."""
        with BlockFile(self._tables[bucket]) as file:
            for row in range(0, file.length("partials"), READ_PARTIALS):
                partials = file.read("partials", row, row + READ_PARTIALS)
                start = 0
                while start < partials.size:
                    start, count = kernels.ask_for_partials(
                        partials,
                        start,
                        row,
                        self._model,
                        self._unseen,
                        known,
                        span,
                        *self._room,
                        self._queries,
                    )
                    some = self._queries[:count]
                    some["asker"] = self._askers.of_rows(bucket, some["row"])
                    yield some

    def reply(self, held: HeldPiece, queries: Array) -> None:
        """Keep all families that a row may belong to, PLACE[*], by their own piece."""
        start = 0
        while start < queries.size:
            places = np.zeros(ANSWER_PLACES + TRIED, PLACE)
            start, count = kernels.place_queries(held.families, queries, start, self._model, places)
            self._answers.add(held.piece, places[:count].copy())
            self.found += count


def choose_roots(places: Shelf, found: Shelf, chosen: Shelf) -> None:
    """Replace families by their roots, and put places where the rows are that asked.

    Args:
        places: PLACE by the piece of the family; taken from.
        found: CORRECTION by the piece of the child, with roots.
        chosen: PLACE by the piece of the row; added to.
    """
    for piece in places.places():
        known = np.concatenate([np.empty(0, CORRECTION), *found.pieces(piece)])
        known = known[child_order(known)]
        for some in places.take(piece):
            roots = np.zeros(some.size, CORRECTION)
            for name in ("root_key", "root_family", "sample", "umi_length", "cell_length"):
                roots[name] = some[name]
            settle_kernels.follow(roots, known, np.zeros(1, CORRECTION))
            moved = some.copy()
            moved["root_key"], moved["root_family"] = roots["root_key"], roots["root_family"]
            chosen.scatter(moved["asker"].astype(np.int64), moved)


def chosen_places(places: Array, least_score: int, model: EdgeModel) -> Array:
    """Return the places that are accepted, PLACE[*] by row.

    Of reads of one barcode that lost or gained a base no more go to a family than it has: else
    theirs was the molecule, and its barcode made so.

    Args:
        places: PLACE[n] of a bucket, with roots.
        least_score: score from which a place is accepted.
        model: tables of the library.
    """
    order = np.lexsort(
        (
            places["root_family"],
            places["umi_length"],
            places["root_key"],
            -places["reads"].astype(np.int64),
            -places["score"].astype(np.int64),
            places["row"],
        )
    )
    places = places[order]
    count = kernels.choose_places(places, least_score, model.softplus)
    places = places[:count].copy()
    shifted = np.flatnonzero(places["shift"])
    names = ["sample", "key", "shift", "root_key", "root_family"]
    groups, group = np.unique(places[names][shifted], return_inverse=True)
    most = np.zeros(groups.size, np.int64)
    np.maximum.at(most, group, places["reads"][shifted])
    refused = np.bincount(group, minlength=groups.size) > most
    kept = np.ones(places.size, bool)
    kept[shifted[refused[group]]] = False
    found: Array = places[kept]
    return found


class PlaceChooser:
    """Chooses the places of partial rows, piece by piece.

    Args:
        pieces: partial rows in pieces.
        found: PLACE with roots, by piece; taken from.
        least_score: score from which a place is accepted.
        model: tables of the library.
    """

    def __init__(self, pieces: Pieces, found: Shelf, least_score: int, model: EdgeModel) -> None:
        self.pieces = pieces
        self._found = found
        self._least_score = least_score
        self._model = model

    def choose(self, piece: int) -> Array:
        """Return the places of a piece, PLACE[*] by row."""
        found = np.concatenate([np.empty(0, PLACE), *self._found.take(piece)])
        places = chosen_places(found, self._least_score, self._model)
        places["asker"] = 0
        return places
