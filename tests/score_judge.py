"""Edges of simulated families, scored and judged by the truth, and one who knows the world."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from score_fixture import (
    CYCLES,
    Array,
    Library,
    World,
    base_codes,
    neighbours,
    phred_error,
    simulate,
    sums,
    write_plan,
    write_sums,
)
from umimill.jit import kernel
from umimill.kernels import score
from umimill.kernels.score import EdgeModel
from umimill.likelihood import posterior_threshold
from umimill.metrics import Meter
from umimill.model import model, read_estimates, read_model


@kernel
def score_edge(
    families: Any,
    quality: Any,
    child: int,
    other_families: Any,
    other_quality: Any,
    parent: int,
    position: int,
    model: EdgeModel,
) -> Any:
    return score.score_edge(
        families, quality, child, other_families, other_quality, parent, position, model
    )


@kernel
def score_edges(
    families: Any,
    quality: Any,
    first: Any,
    second: Any,
    positions: Any,
    model: EdgeModel,
    children: Any,
    terms: Any,
) -> None:
    """Score pairs of rows: the child of each, and its terms, i64[k, 4]."""
    for pair in range(first.size):
        child, parent = first[pair], second[pair]
        if score.ranks_above(families, quality, child, families, quality, parent):
            child, parent = parent, child
        children[pair] = child
        one = score.score_edge(
            families, quality, child, families, quality, parent, positions[pair], model
        )
        terms[pair, 0], terms[pair, 1], terms[pair, 2], terms[pair, 3] = one


@kernel
def rank(families: Any, quality: Any, first: Any, second: Any, children: Any) -> None:
    """Say which row of each pair is the child."""
    for pair in range(first.size):
        row, other = first[pair], second[pair]
        above = score.ranks_above(families, quality, row, families, quality, other)
        children[pair] = other if above else row


@dataclass(frozen=True)
class Outcome:
    """Best edges of a library's families.

    Attributes:
        model: its model's fields for the report.
        precision: of accepted edges.
        recall: of the errors whose true barcode is there.
        posterior: f64[k], of the best edge of each family that has one.
        true: bool[k], whether it is an error whose true barcode is there, this one or another.
    """

    model: dict[str, Any]
    precision: float
    recall: float
    posterior: Array
    true: Array

    @property
    def f1(self) -> float:
        return 2 * self.precision * self.recall / max(1e-9, self.precision + self.recall)

    def calibration(self) -> list[tuple[float, int, float, float]]:
        """Return (least posterior, edges, mean posterior, true share) of bins."""
        bounds = (0.0, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999, 1.01)
        rows = []
        for low, high in itertools.pairwise(bounds):
            inside = (self.posterior >= low) & (self.posterior < high)
            count = int(inside.sum())
            mean = float(self.posterior[inside].mean()) if count else 0.0
            rows.append((low, count, mean, float(self.true[inside].mean()) if count else 0.0))
        return rows


def judge(library: Library, first: Array, second: Array, children: Array, scores: Array) -> Any:
    """Take the best parent of each child; return (precision, recall, posterior, true) of those.

    A reachable error is one of two neighbours of one molecule, one of which has its barcode.
    """
    order = np.lexsort((-scores, children))
    best = np.ones(order.size, bool)
    best[1:] = children[order][1:] != children[order][:-1]
    chosen = order[best]
    one = library.molecule[first] == library.molecule[second]
    reachable = np.zeros(library.families.size, bool)
    reachable[children[one & (library.own_key[first] | library.own_key[second])]] = True
    posterior = 1 / (1 + np.exp(-np.clip(scores[chosen] / 1024, -100, 100)))
    accepted = scores[chosen] >= posterior_threshold(0.95)
    found = one[chosen] & accepted & reachable[children[chosen]]
    precision = one[chosen][accepted].mean() if accepted.any() else 1.0
    error = one[chosen] | reachable[children[chosen]]
    return precision, found.sum() / max(1, reachable.sum()), posterior, error


def run(library: Library, folder: Path) -> Outcome:
    """Make the model of a library and score all its pairs."""
    plan = write_plan(folder / "plan", ["s"], [library.width])
    tables = [write_sums(folder / "families", sums(library))]
    model(plan, tables, folder / "model", Meter("model", "l", 1000))
    # A cell's bases are not corrected by the rule of UMIs.
    umi = neighbours(library)[2] >= library.families["cell_length"].max(initial=0)
    first, second, position = (one[umi] for one in neighbours(library))
    children, terms = np.zeros(first.size, np.int64), np.zeros((first.size, 4), np.int64)
    edge_model = read_model(folder / "model")
    score_edges(
        library.families, library.quality, first, second, position, edge_model, children, terms
    )
    result = judge(library, first, second, children, terms[:, 0])
    return Outcome(read_estimates(folder / "model")["s"], *result)


def run_oracle(library: Library, world: World) -> Outcome:
    """Score all pairs by one who knows the world: errors, sizes, payloads, molecules."""
    first, second, position = neighbours(library)
    children = np.zeros(first.size, np.int64)
    rank(library.families, library.quality, first, second, children)
    parents = first + second - children
    reads = library.families["reads"].astype(np.int64)
    few, many = reads[children], reads[parents]
    counts = np.bincount(library.sizes, minlength=reads.max() + 2).astype(float)
    # Sizes that no molecule has are none of a molecule's; sums of few and many stay in the table.
    kernel_width = np.maximum(1, np.arange(counts.size) // 8)
    smooth = np.array(
        [
            counts[max(1, at - width) : at + width + 1].mean()
            for at, width in enumerate(kernel_width)
        ]
    )
    smooth[:9] = counts[:9]
    share = np.log(np.maximum(smooth, 1e-3) / world.molecules)
    table = np.array([phred_error(half / 2) * world.scale + world.hidden for half in range(256)])
    factorial = np.cumsum(np.log(np.maximum(1, np.arange(2 * reads.max() + 2))))
    total = np.minimum(few + many, counts.size - 1)
    ratio = share[total] - share[many]
    ways = ratio + factorial[few + many] - factorial[few] - factorial[many]

    def odds(rows: Array) -> Array:
        error = np.minimum(table[library.quality[rows, position]], 0.75)
        return few * (np.log(error / 3) - np.log(1 - error))

    error = ways + np.where(
        few == many, np.logaddexp(odds(children), odds(parents)), odds(children)
    )
    several = np.maximum(few, 2)
    pcr = np.where(few == 1, CYCLES, 1 / math.log(2) / (several * (several - 1)))
    error = np.logaddexp(error, ratio + np.log(pcr * (few + many) * world.polymerase / 3))
    weights = np.log(np.array(world.weights))
    key = weights[base_codes(library)[children]].sum(1)
    independent = math.log(world.molecules) + key + share[few]
    same = library.clone[first] == library.clone[second]
    scores = error - independent + np.where(same, math.log(world.clones), -1000.0)
    scores = np.rint(np.clip(scores, -1e5, 1e5) * 1024)
    return Outcome({}, *judge(library, first, second, children, scores))


@cache
def library_of(world: World) -> Library:
    """Return a library, drawn once."""
    return simulate(world)
