"""settle: the root of every accepted edge, for all buckets of a library.

All families pass by in pieces, whatever the buckets are: they answer the queries of families with
several unsure bases (queries.py), so that a family has the better of that and of its parent one
base away; then edges are followed to their roots (roots.py). Rows whose barcode was not fully read
ask too (places.py), and go to the root of what answers best. What is sent from piece to piece lies
on shelves, which go to scratch where they do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile, BlockWriter
from umimill.grouping import group_members, sample_members
from umimill.kernels import settle as kernels
from umimill.likelihood import posterior_threshold
from umimill.metrics import Meter
from umimill.model import read_estimates, read_model
from umimill.pieces import Pieces, cut_pieces
from umimill.places import PLACE, PlaceChooser, Placer, choose_roots
from umimill.plan import Plan, read_plan
from umimill.queries import ANSWER, Answerer, read_answers
from umimill.roots import CORRECTION, RootFinder, check_edges, child_order, read_accepted
from umimill.shelf import Scratch, Shelf

ARRIVAL = np.dtype(
    [
        ("key", "<u8"),
        ("reads", "<u8"),
        ("families", "<u4"),
        ("sample", "<u2"),
        ("family", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
        ("padding", "u1", (6,)),
    ]
)
# Of the budget: tables, shelves, and what is made of a piece; a shelf has one part of them.
TABLE_SHARE = 0.6
SHARES = 10
# Occupancy from which a family with two errors has several barcodes to ask: there are hundreds.
DENSE = 1 / 256
# What a family of a piece takes: itself, its edge, answers and corrections, each with copies.
PIECE_BYTES = 400

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Rule:
    """Which barcodes are one.

    Attributes:
        method: "posterior", or one of methods.METHODS.
        least_score: score from which "posterior" accepts an edge.
    """

    method: str
    least_score: int = 0


def make_rule(method: str, minimum_posterior: float) -> Rule:
    """Return the rule of a config."""
    return Rule(method, posterior_threshold(minimum_posterior))


@dataclass(frozen=True)
class Sources:
    """Files of a library that settle reads, by bucket.

    Attributes:
        families: tally's tables.
        edges: link's edges of their families.
        queries: link's list of those that ask.
    """

    families: Sequence[Path]
    edges: Sequence[Path]
    queries: Sequence[Path]


def settle(
    plan_path: Path,
    sources: Sources,
    model_path: Path,
    rule: Rule,
    output: Path,
    meter: Meter,
    *,
    table_bytes: int | None = None,
) -> None:
    """Find the root of every corrected family.

    Args:
        plan_path: plan of the library.
        sources: families, edges and queries of all buckets.
        model_path: model of the library.
        rule: which barcodes are one.
        output: file to write: corrections by child, arrivals by root, answers, all by bucket.
        meter: metrics of the job.
        table_bytes: memory for edges; None takes it from the budget.

    Raises:
        UmimillError: where files do not belong together.
    """
    plan = read_plan(plan_path)
    budget = table_bytes or int(meter.budget_bytes * TABLE_SHARE)
    share = budget // SHARES
    pieces = cut_pieces(sources.families, 3 * share // PIECE_BYTES)
    meter.reads = int(plan.rows.sum())
    meter.counters |= {"pieces": pieces.count}
    with Scratch(meter) as scratch:
        with meter.clock("match"):
            asked = (sources.families, sources.queries)
            estimates = read_estimates(model_path).values()
            dense = max((one["occupancy"] for one in estimates), default=0.0) > DENSE
            model = read_model(model_path)
            answerer = Answerer(pieces, *asked, model, scratch, share, dense=dense)
            shelf = answerer.run()
            meter.counters["queries"] = answerer.asked
            meter.counters["answers"] = answerer.found
            answers = scratch.shelf(ANSWER, share)
            for piece in range(pieces.count):
                answers.add(piece, read_answers(shelf, piece))
            askers = cut_pieces(sources.families, 3 * share // PIECE_BYTES, "partials")
            placer = Placer(pieces, sources.families, askers, model_path, scratch, share)
            # Reads are placed by posterior, or not at all.
            places = scratch.shelf(PLACE, share)
            if rule.method == "posterior":
                places = placer.run()
            meter.counters["place_queries"] = placer.asked
        with meter.clock("sort"):
            if rule.method == "posterior":
                found = _follow_edges(pieces, sources, answers, rule.least_score, scratch, share)
            else:
                found = scratch.shelf(CORRECTION, share)
                if rule.method != "unique":
                    # Beside answers and what is found.
                    members = sample_members(sources.families, meter.budget_bytes - 2 * share)
                    _group(members, rule.method, pieces, found)
            chosen = scratch.shelf(PLACE, share)
            choose_roots(places, found, chosen)
        with meter.clock("write"):
            arrived = scratch.shelf(ARRIVAL, share)
            chooser = PlaceChooser(askers, chosen, rule.least_score, read_model(model_path))
            _Writer(plan, pieces, meter).write(output, found, arrived, answers, chooser)


def _follow_edges(
    pieces: Pieces,
    sources: Sources,
    answers: Shelf,
    least_score: int,
    scratch: Scratch,
    share: int,
) -> Shelf:
    """Return the accepted edges with their roots, by piece."""
    check_edges(sources.families, sources.edges)
    finder = RootFinder(pieces, scratch, share)
    for bucket, paths in enumerate(zip(sources.families, sources.edges, strict=True)):
        with BlockFile(paths[0]) as table, BlockFile(paths[1]) as edges:
            for piece in pieces.of_bucket(bucket):
                own = answers.get(piece)
                finder.add(piece, read_accepted(pieces, piece, (table, edges), own, least_score))
    return finder.run()


def _group(samples: Iterable[Array], method: str, pieces: Pieces, shelf: Shelf) -> None:
    """Fill the shelf, by piece, with what a rule of UMI-tools makes of all families."""
    for members in samples:
        leaders = group_members(members, method)
        moved = np.flatnonzero(leaders != np.arange(members.size))
        corrections = np.zeros(moved.size, CORRECTION)
        for name in ("key", "reads", "sample", "family", "umi_length", "cell_length"):
            corrections[name] = members[name][moved]
        dropped = leaders[moved] < 0
        corrections["root_key"] = np.where(
            dropped, members["key"][moved], members["key"][leaders[moved]]
        )
        corrections["root_family"] = np.where(dropped, kernels.DROPPED, 0)
        shelf.scatter(pieces.of_keys(corrections["sample"], corrections["key"]), corrections)


class _Writer:
    """Writes what was found, piece by piece.

    Args:
        plan: plan of the library.
        pieces: families in pieces.
        meter: metrics of the job.
    """

    def __init__(self, plan: Plan, pieces: Pieces, meter: Meter) -> None:
        self._plan = plan
        self._pieces = pieces
        self._meter = meter
        self._corrected = np.zeros((len(plan.samples), 2), np.int64)
        self._placed = np.zeros(len(plan.samples), np.int64)
        self._shifted = 0

    def write(
        self, output: Path, found: Shelf, arrived: Shelf, answers: Shelf, chooser: PlaceChooser
    ) -> None:
        """Write the file.

        Args:
            output: file to write.
            found: CORRECTION[*] by piece of the child.
            arrived: empty, for ARRIVAL[*] by piece of the root.
            answers: ANSWER[*] by piece.
            chooser: chooses the places of partial rows.
        """
        own = self._pieces
        with BlockWriter(output) as writer:
            self._list(
                writer,
                "correction",
                CORRECTION,
                own,
                lambda piece: self._leave(piece, found, arrived),
            )
            self._list(writer, "arrival", ARRIVAL, own, lambda piece: _arrive(piece, arrived))
            self._list(writer, "answer", ANSWER, own, answers.get)
            self._list(
                writer,
                "place",
                PLACE,
                chooser.pieces,
                lambda piece: self._put(piece, chooser, arrived),
            )
            self._list(writer, "placing", ARRIVAL, own, lambda piece: _arrive(piece, arrived))
            writer.add("corrected", self._corrected)
            writer.finish({"buckets": own.bounds.size - 1})
            self._meter.written_bytes = writer.offset
        self._meter.counters["corrected_families"] = int(self._corrected[:, 0].sum())
        for number, sample in enumerate(self._plan.samples):
            corrected = int(self._corrected[number, 1])
            self._meter.count(sample, "corrected", corrected)
            self._meter.count(sample, "kept", int(self._plan.rows[number]) - corrected)
            placed = int(self._placed[number])
            self._meter.count(sample, "placed", placed)
            left = int(self._plan.partial_rows[number]) - placed
            self._meter.count(sample, "unresolved", left)
        shifted = self._shifted
        self._meter.counters |= {
            "n_placed": int(self._placed.sum()) - shifted,
            "shift_placed": shifted,
        }

    def _list(
        self,
        writer: BlockWriter,
        name: str,
        dtype: np.dtype[Any],
        pieces: Pieces,
        rows_of: Callable[[int], Array],
    ) -> None:
        """Write the rows of all pieces, and the bounds of the buckets' among them."""
        start = writer.append(np.empty(0, dtype))
        ends = np.zeros(pieces.count + 1, np.int64)
        for piece in range(pieces.count):
            rows = rows_of(piece)
            writer.append(rows)
            ends[piece + 1] = ends[piece] + rows.size
        writer.list_array(f"{name}s", start, (int(ends[-1]),), dtype)
        writer.add(f"{name}_bounds", ends[pieces.bounds])

    def _leave(self, piece: int, found: Shelf, arrived: Shelf) -> Array:
        """Return the corrections of a piece by child, and put on a shelf what arrives elsewhere."""
        corrections = np.concatenate([np.empty(0, CORRECTION), *found.take(piece)])
        corrections = corrections[child_order(corrections)]
        kept = corrections[corrections["root_family"] != kernels.DROPPED]
        np.add.at(self._corrected[:, 0], kept["sample"], 1)
        np.add.at(self._corrected[:, 1], kept["sample"], kept["reads"])
        arrivals = _arrivals(kept)
        arrived.scatter(self._pieces.of_keys(arrivals["sample"], arrivals["key"]), arrivals)
        return corrections

    def _put(self, piece: int, chooser: PlaceChooser, arrived: Shelf) -> Array:
        """Return the places of a piece of partial rows; put on a shelf what arrives by them."""
        places = chooser.choose(piece)
        self._placed += np.bincount(places["sample"], minlength=self._placed.size)
        self._shifted += int(np.count_nonzero(places["shift"]))
        arrivals = np.zeros(places.size, ARRIVAL)
        for name in ("sample", "umi_length", "cell_length"):
            arrivals[name] = places[name]
        arrivals["key"], arrivals["family"] = places["root_key"], places["root_family"]
        arrivals["reads"] = 1
        arrivals = _summed(arrivals)
        arrived.scatter(self._pieces.of_keys(arrivals["sample"], arrivals["key"]), arrivals)
        return places


def _arrive(piece: int, arrived: Shelf) -> Array:
    """Return what arrives at the roots in a piece, ARRIVAL[*] by root."""
    held = np.empty(0, ARRIVAL)
    for some in arrived.take(piece):
        held = _summed(np.concatenate([held, some]))
    return held


def _arrivals(corrections: Array) -> Array:
    """Sum corrections by root; return ARRIVAL[*] sorted by root."""
    arrivals = np.zeros(corrections.size, ARRIVAL)
    for name in ("reads", "sample", "umi_length", "cell_length"):
        arrivals[name] = corrections[name]
    arrivals["key"], arrivals["family"] = corrections["root_key"], corrections["root_family"]
    arrivals["families"] = 1
    return _summed(arrivals)


def _summed(arrivals: Array) -> Array:
    """Sort by root and add up what arrives at the same one."""
    arrivals = arrivals[child_order(arrivals)]
    if not arrivals.size:
        return arrivals
    columns = ("family", "cell_length", "umi_length", "key", "sample")
    same = np.logical_and.reduce([arrivals[name][1:] == arrivals[name][:-1] for name in columns])
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    summed = arrivals[first].copy()
    for name in ("reads", "families"):
        summed[name] = np.add.reduceat(arrivals[name], first)
    return summed
