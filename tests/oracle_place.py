"""Naive twins of the kernels of cells, with text: lists, the cell of a row, calls."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

LETTERS = "ACGT"


@dataclass(frozen=True)
class Read:
    """A read whose cell is on no list: cell (N = unknown), UMI, Phred of the cell's bases."""

    cell: str
    umi: str
    quality: tuple[int, ...]


def listed_lines(text: bytes) -> list[str]:
    """Return the barcodes of a list, with what stands behind a minus cut off."""
    lines = text.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [line.strip().split("-")[0].upper() for line in lines if line.strip()]


def distance(first: str, second: str) -> int:
    """Return how many bases differ."""
    return sum(one != other for one, other in zip(first, second, strict=True))


def near_cells(cell: str, reads: Mapping[str, int], *, two: bool) -> list[str]:
    """Return the listed cells that a barcode may be a misreading of; `reads` has all of the list.

    With an unknown base, those that have any base there.
    """
    if "N" in cell:
        place = cell.index("N")
        fits = [cell[:place] + base + cell[place + 1 :] for base in LETTERS]
        return [one for one in fits if one in reads]
    return [
        one
        for one, seen in reads.items()
        if distance(one, cell) == 1 or (two and distance(one, cell) == 2 and seen > 0)
    ]


@dataclass(frozen=True)
class Surveyed:
    """Rows near a listed cell with reads, far, unknown; bases of the far; (keys, near, reads)."""

    near: int
    far: int
    unknown: int
    composition: list[Counter[str]]
    crowded: dict[str, tuple[int, int, int]]


def survey(reads: Sequence[Read], listed: Mapping[str, int], least: int) -> Surveyed:
    """Survey reads; barcodes of more than `least` UMIs near a cell with reads are crowded."""
    known = [read for read in reads if "N" not in read.cell]
    around = {
        read.cell: sum(listed[cell] for cell in near_cells(read.cell, listed, two=False))
        for read in known
    }
    far = [read.cell for read in known if around[read.cell] == 0]
    length = len(next(iter(listed)))
    umis: dict[str, set[str]] = {}
    for read in known:
        umis.setdefault(read.cell, set()).add(read.umi)
    return Surveyed(
        len(known) - len(far),
        len(far),
        len(reads) - len(known),
        [Counter(cell[place] for cell in far) for place in range(length)],
        {
            cell: (len(held), around[cell], sum(read.cell == cell for read in known))
            for cell, held in sorted(umis.items())
            if around[cell] > 0 and len(held) > least
        },
    )


@dataclass(frozen=True)
class Model:
    """What reads are judged by, as probabilities and reads."""

    errors: Sequence[float]
    unseen: float
    other: float
    composition: Sequence[Mapping[str, float]]
    least_odds: float
    two: bool


def odds(
    read: Read, listed: Mapping[str, int], own: Mapping[str, int], model: Model
) -> tuple[str | None, float]:
    """Return the best listed cell of a read, and how much likelier it is than all else.

    `own` has the reads of cells on no list.
    """
    weights: dict[str, float] = {}
    others_own = near_cells(read.cell, own, two=False)
    for cell in [*near_cells(read.cell, listed, two=model.two), *others_own]:
        value = log(own.get(cell) or listed[cell] or model.unseen)
        for base, other, quality in zip(read.cell, cell, read.quality, strict=True):
            error = model.errors[quality]
            if base != "N":
                value += log(1 - error) if base == other else log(error / 3)
        weights[cell] = value
    if len(weights) == len(others_own) or read.cell in own:
        return None, 0.0
    background = log(model.other) + sum(
        log(model.composition[place][base]) for place, base in enumerate(read.cell) if base != "N"
    )
    best = max((cell for cell in weights if cell not in own), key=weights.__getitem__)
    others = exp(background) + sum(exp(value) for cell, value in weights.items() if cell != best)
    return best, exp(weights[best]) / others


def ordmag(molecules: Sequence[int], expected: int) -> int:
    """Return the least molecules of a cell: a tenth of the 99th percentile of the `expected`."""
    ranked = sorted(molecules, reverse=True)[: max(1, expected)]
    return -(-ranked[len(ranked) // 100] // 10)


def all_barcodes(length: int) -> list[str]:
    """Return every barcode of a length."""
    return ["".join(letters) for letters in itertools.product(LETTERS, repeat=length)]
