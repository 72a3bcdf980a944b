"""Which cell barcodes are cells: by two rules, from how many cells have how many molecules.

Both are reported and neither is applied: nothing is left out for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from umimill.likelihood import ln_fine

# OrdMag: a cell has at least a tenth of the molecules that the hundredth largest in a hundred has.
ORDMAG_SHARE = 10
ORDMAG_RANK = 100
# A knee lies where cells have many times the mean: else all barcodes are alike, and it is a bend in
# the spread of their sizes.
KNEE_FACTOR = 10
# Ranks of the curve in the report: as many to a doubling.
RANKS_PER_DOUBLING = 8

Sizes = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Call:
    """What a rule calls a cell.

    Attributes:
        method: `ordmag` or `knee`.
        least: molecules that a cell has at least; None where the rule calls none.
        cells: how many cells that are.
        molecules: what they hold.
    """

    method: str
    least: int | None
    cells: int
    molecules: int


def at_least(sizes: Sizes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the numbers of molecules that cells have, falling, and cells with so many or more.

    Args:
        sizes: (molecules, cells with so many).
    """
    held = sorted(((molecules, cells) for molecules, cells in sizes if molecules), reverse=True)
    values = np.array([molecules for molecules, _ in held], np.int64)
    return values, np.cumsum(np.array([cells for _, cells in held], np.int64))


def ordmag_least(sizes: Sizes, expected: int) -> int:
    """Return the least molecules of a cell where so many cells are expected.

    A tenth, rounded up, of what the cell at a hundredth of the expected ones' ranks has.
    """
    values, ranks = at_least(sizes)
    expected = min(max(1, expected), int(ranks[-1]))
    # Ranks count from 1; the first in a hundred is passed over.
    large = int(values[np.searchsorted(ranks, expected // ORDMAG_RANK + 1)])
    return -(-large // ORDMAG_SHARE)


def call_ordmag(sizes: Sizes) -> Call:
    """Call cells by order of magnitude.

    The number of cells that are expected is the one that comes out best as it went in: of 1, 2, ...
    and steps of a sixteenth above, the one with the least (called - expected)^2 / expected, the
    larger of equals.
    """
    values, ranks = at_least(sizes)
    if not values.size:
        return Call("ordmag", None, 0, 0)
    best: tuple[int, int] | None = None
    chosen = 1
    expected = 1
    while expected <= int(ranks[-1]):
        called = _cells(values, ranks, ordmag_least(sizes, expected))
        loss = ((called - expected) ** 2, expected)
        if best is None or loss[0] * best[1] <= best[0] * loss[1]:
            best, chosen = loss, expected
        expected += max(1, expected // 16)
    return _call("ordmag", sizes, ordmag_least(sizes, chosen))


def call_knee(sizes: Sizes) -> Call:
    """Call cells by the knee of the curve of molecules by rank.

    In logarithms, the point farthest above the line from the largest cell to the last; of equals
    the first. Only points of ten times the mean molecules of a barcode or more are looked at.
    """
    values, ranks = at_least(sizes)
    if values.size < 3:
        return Call("knee", None, 0, 0)
    molecules = sum(size * cells for size, cells in sizes)
    fit = values * int(ranks[-1]) >= KNEE_FACTOR * molecules
    across, up = ln_fine(ranks), ln_fine(values)
    width, height = int(across[-1] - across[0]), int(up[0] - up[-1])
    above = width * (up - up[-1]).astype(object) - height * (across[-1] - across).astype(object)
    above = np.where(fit, above, -1)
    place = int(np.argmax(above))
    if above[place] <= 0:
        return Call("knee", None, 0, 0)
    return _call("knee", sizes, int(values[place]))


def rank_curve(sizes: Sizes) -> list[tuple[int, int]]:
    """Return (rank, molecules of the cell of that rank), at ranks that are even in logarithms."""
    values, ranks = at_least(sizes)
    if not values.size:
        return []
    chosen = {1, int(ranks[-1])}
    rank = 1
    while rank < int(ranks[-1]):
        chosen.add(rank)
        rank += max(1, rank // RANKS_PER_DOUBLING)
    order = sorted(chosen)
    found = values[np.searchsorted(ranks, np.array(order))]
    return list(zip(order, found.tolist(), strict=True))


def count_sizes(molecules: Iterable[npt.NDArray[np.int64]]) -> dict[int, int]:
    """Count cells by their molecules, from pieces i64[n]."""
    counts: dict[int, int] = {}
    for piece in molecules:
        sizes, cells = np.unique(piece, return_counts=True)
        for size, count in zip(sizes.tolist(), cells.tolist(), strict=True):
            counts[size] = counts.get(size, 0) + count
    return counts


def make_calls(counts: Mapping[int, int]) -> tuple[Call, Call]:
    """Return both calls, from cells by their molecules."""
    sizes = sorted(counts.items())
    return call_ordmag(sizes), call_knee(sizes)


def _cells(values: npt.NDArray[np.int64], ranks: npt.NDArray[np.int64], least: int) -> int:
    place = int(np.searchsorted(-values, -least, side="right"))
    return int(ranks[place - 1]) if place else 0


def _call(method: str, sizes: Sizes, least: int) -> Call:
    held = [(size, cells) for size, cells in sizes if size >= least]
    cells = sum(count for _, count in held)
    return Call(method, least, cells, sum(size * count for size, count in held))
