"""settle: the root of every accepted edge, for all buckets of a library.

First all families pass by in order, and answer the queries of families with several unsure bases
(queries.py): a family has the better of that and of its parent one base away.

A child's edge leads to its parent, whose own edge may lead on, into another bucket too. Edges are
followed inside each bucket first; what leads out is asked of the bucket it leads to, round after
round, until every root is known. One bucket's edges and the questions are in memory at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile, BlockWriter
from umimill.errors import UmimillError
from umimill.fates import READ_FAMILIES, whole_keys
from umimill.grouping import group_members, sample_members
from umimill.kernels import settle as kernels
from umimill.kernels.known import mark_keys
from umimill.likelihood import posterior_threshold
from umimill.metrics import Meter
from umimill.model import read_model
from umimill.plan import Plan, read_plan
from umimill.queries import ANSWER, Queries, apply_answers, best_answers, expand_asks, new_filter
from umimill.shelf import Shelf

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
TABLE_SHARE = 0.3

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


def buckets_of(plan: Plan, samples: Array, keys: Array) -> npt.NDArray[np.int64]:
    """Return the bucket of each key, i64[n].

    Args:
        plan: plan of the library.
        samples: u16[n].
        keys: u64[n].
    """
    leaves = plan.leaves_of(samples, keys)
    group = np.searchsorted(plan.groups["leaf_stop"], leaves, side="right")
    return np.searchsorted(plan.bounds[1:], group, side="right").astype(np.int64)


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
    buckets = len(sources.families)
    with (
        tempfile.TemporaryDirectory(prefix="umimill-") as edge_folder,
        tempfile.TemporaryDirectory(prefix="umimill-") as answer_folder,
    ):
        shelf = Shelf(CORRECTION, budget // 2, Path(edge_folder))
        answers = Shelf(ANSWER, budget // 2, Path(answer_folder))
        with meter.clock("match"):
            _answer(sources, model_path, answers, budget // 2, meter)
            for bucket in range(buckets):
                answers.replace(bucket, best_answers(answers.get(bucket)))
        with meter.clock("sort"):
            if rule.method == "posterior":
                _follow_edges(plan, sources, answers, rule.least_score, shelf)
            elif rule.method != "unique":
                _group(sources.families, rule.method, shelf)
        with meter.clock("write"):
            _write(plan, shelf, answers, buckets, output, meter)
        meter.umi_memory_bytes = max(meter.umi_memory_bytes, shelf.peak_bytes + answers.peak_bytes)
        meter.umi_spill_bytes = shelf.spill_bytes + answers.spill_bytes


def _answer(
    sources: Sources, model_path: Path, answers: Shelf, filter_bytes: int, meter: Meter
) -> None:
    """Pass over all families in order, and keep what they answer to queries."""
    found = asked = 0
    model = read_model(model_path)
    with tempfile.TemporaryDirectory(prefix="umimill-") as folder:
        known = _known_keys(sources, filter_bytes, meter)
        paths = [Path(folder) / f"{bucket}.queries" for bucket in range(len(sources.queries))]
        for asks, path in zip(sources.queries, paths, strict=True):
            asked += expand_asks(asks, path, model, known)
        meter.umi_memory_bytes = known.nbytes
        del known
        queries = Queries(paths, model)
        try:
            for table in sources.families if asked else ():
                with BlockFile(table) as file:
                    for start, families in whole_keys(file):
                        quality = file.read("quality", start, start + families.size)
                        for bucket, some in queries.answers(families, quality):
                            answers.add(bucket, some)
                            found += some.size
        finally:
            queries.close()
    meter.counters["queries"] = asked
    meter.counters["answers"] = found


def _known_keys(sources: Sources, most_bytes: int, meter: Meter) -> Array:
    """Return the filter of the keys of all families."""
    total = 0
    for table in sources.families:
        with BlockFile(table) as file:
            total += file.length("families")
    known = new_filter(total, most_bytes)
    for table in sources.families:
        with BlockFile(table) as file:
            for start in range(0, file.length("families"), READ_FAMILIES):
                families = file.read("families", start, start + READ_FAMILIES)
                mark_keys(families, known)
                meter.reads += int(families["reads"].sum(dtype=np.int64))
    return known


def _follow_edges(
    plan: Plan, sources: Sources, answers: Shelf, threshold: int, shelf: Shelf
) -> None:
    """Fill the shelf with the roots of the accepted edges."""
    buckets = len(sources.families)
    for bucket in range(buckets):
        paths = sources.families[bucket], sources.edges[bucket]
        corrections = _accepted(*paths, answers.get(bucket), threshold)
        kernels.follow(corrections, corrections.copy(), np.zeros(1, CORRECTION))
        shelf.add(bucket, corrections)
    _ask_others(plan, shelf, buckets)


def _group(tables: Sequence[Path], method: str, shelf: Shelf) -> None:
    """Fill the shelf with what a rule of UMI-tools makes of all families."""
    for members in sample_members(tables):
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
        for bucket in np.unique(members["bucket"][moved]).tolist():
            shelf.add(bucket, corrections[members["bucket"][moved] == bucket])


def _accepted(table: Path, link: Path, answers: Array, threshold: int) -> Array:
    """Return the accepted edges of a bucket as CORRECTION[*]."""
    found = [np.empty(0, CORRECTION)]
    with BlockFile(table) as families_file, BlockFile(link) as edges_file:
        both = families_file.length("families"), edges_file.length("edges")
        if both[0] != both[1]:
            raise UmimillError(
                f"{table}: {both[0]:,} families but {both[1]:,} edges in {link}; delete "
                "results/link and run again"
            )
        for start in range(0, both[0], READ_FAMILIES):
            families = families_file.read("families", start, start + READ_FAMILIES)
            edges = edges_file.read("edges", start, start + READ_FAMILIES)
            apply_answers(edges, answers, start)
            corrections = np.zeros(families.size, CORRECTION)
            count = kernels.accept_edges(families, edges, threshold, corrections)
            found.append(corrections[:count].copy())
    return np.concatenate(found)


@dataclass
class Questions:
    """Edges of a bucket whose root lies in another one, so far.

    Attributes:
        rows: their rows among the corrections of the bucket.
        edges: CORRECTION[n], copies of them.
        targets: i64[n], the bucket where each root lies; -1 where it is known to be one.
    """

    rows: npt.NDArray[np.int64]
    edges: Array
    targets: npt.NDArray[np.int64]

    def follow(self, plan: Plan, bucket: int, known: Array) -> None:
        """Ask a bucket, whose corrections are `known`, for the roots that lie in it."""
        mine = np.flatnonzero(self.targets == bucket)
        edges = self.edges[mine]
        kernels.follow(edges, known, np.zeros(1, CORRECTION))
        self.edges[mine] = edges
        roots = buckets_of(plan, edges["sample"], edges["root_key"])
        self.targets[mine] = np.where(roots == bucket, -1, roots)


def _ask_others(plan: Plan, shelf: Shelf, buckets: int) -> None:
    """Follow edges that lead from bucket to bucket until each ends at a root."""
    asked: dict[int, Questions] = {}
    for bucket in range(buckets):
        corrections = shelf.get(bucket)
        targets = buckets_of(plan, corrections["sample"], corrections["root_key"])
        rows = np.flatnonzero(targets != bucket)
        if rows.size:
            asked[bucket] = Questions(rows, corrections[rows], targets[rows])
    while wanted := {int(one) for held in asked.values() for one in np.unique(held.targets)} - {-1}:
        for bucket in sorted(wanted):
            known = shelf.get(bucket)
            for questions in asked.values():
                questions.follow(plan, bucket, known)
    for bucket, questions in asked.items():
        corrections = shelf.get(bucket).copy()
        corrections[questions.rows] = questions.edges
        shelf.replace(bucket, corrections)


def _write(
    plan: Plan, shelf: Shelf, answers: Shelf, buckets: int, output: Path, meter: Meter
) -> None:
    correction_bounds, arrival_bounds, answer_bounds = [0], [0], [0]
    arrived: list[list[Array]] = [[] for _ in range(buckets)]
    corrected = np.zeros((len(plan.samples), 2), np.int64)
    with BlockWriter(output) as writer:
        start = writer.append(np.empty(0, CORRECTION))
        for bucket in range(buckets):
            corrections = shelf.get(bucket)
            writer.append(corrections)
            correction_bounds.append(correction_bounds[-1] + corrections.size)
            corrections = corrections[corrections["root_family"] != kernels.DROPPED]
            np.add.at(corrected[:, 0], corrections["sample"], 1)
            np.add.at(corrected[:, 1], corrections["sample"], corrections["reads"])
            target = buckets_of(plan, corrections["sample"], corrections["root_key"])
            for number in np.unique(target).tolist():
                arrived[number].append(_arrivals(corrections[target == number]))
        writer.list_array("corrections", start, (correction_bounds[-1],), CORRECTION)
        start = writer.append(np.empty(0, ARRIVAL))
        for number in range(buckets):
            arrivals = _summed(np.concatenate([np.empty(0, ARRIVAL), *arrived[number]]))
            writer.append(arrivals)
            arrival_bounds.append(arrival_bounds[-1] + arrivals.size)
        writer.list_array("arrivals", start, (arrival_bounds[-1],), ARRIVAL)
        start = writer.append(np.empty(0, ANSWER))
        for bucket in range(buckets):
            own = answers.get(bucket)
            writer.append(own)
            answer_bounds.append(answer_bounds[-1] + own.size)
        writer.list_array("answers", start, (answer_bounds[-1],), ANSWER)
        writer.add("answer_bounds", np.array(answer_bounds, np.int64))
        writer.add("correction_bounds", np.array(correction_bounds, np.int64))
        writer.add("arrival_bounds", np.array(arrival_bounds, np.int64))
        writer.add("corrected", corrected)
        writer.finish({"buckets": buckets})
        meter.written_bytes = writer.offset
    meter.counters["corrected_families"] = int(corrected[:, 0].sum())
    for number, sample in enumerate(plan.samples):
        meter.count(sample, "corrected", int(corrected[number, 1]))
        meter.count(sample, "kept", int(plan.rows[number] - corrected[number, 1]))


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
    columns = ("family", "cell_length", "umi_length", "key", "sample")
    length = arrivals["umi_length"].astype(np.int64) + arrivals["cell_length"]
    order = np.lexsort(
        (arrivals["family"], arrivals["cell_length"], length, arrivals["key"], arrivals["sample"])
    )
    arrivals = arrivals[order]
    if not arrivals.size:
        return arrivals
    same = np.logical_and.reduce([arrivals[name][1:] == arrivals[name][:-1] for name in columns])
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    summed = arrivals[first].copy()
    for name in ("reads", "families"):
        summed[name] = np.add.reduceat(arrivals[name], first)
    return summed
