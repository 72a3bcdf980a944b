"""Naive twin of link and of the census: all pairs of all families, two by two.

Written from the rules of the design, never from the code. A barcode is a string of bases; a family
has reads, a draft with its mask, and a barcode quality a base.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

TRIED = 64
NO_SCORE = -(2**31)
LIMIT = 2**30


@dataclass(frozen=True)
class Family:
    """A family; `draft` is 32 letters, N where unknown."""

    sample: int
    cell: str
    umi: str
    reads: int
    draft: str
    quality: tuple[int, ...]
    family: int = 0

    @property
    def barcode(self) -> str:
        """Cell and UMI."""
        return self.cell + self.umi

    @property
    def place(self) -> tuple[int, str, int, int]:
        """What tables are sorted by: of unequal lengths the shorter first, A behind it or not."""
        return self.sample, self.barcode.ljust(32, "A"), len(self.barcode), len(self.cell)

    @property
    def rank(self) -> tuple[int, int, str, int]:
        """The least ranks highest."""
        return -self.reads, -sum(self.quality), self.barcode, self.family


# What a pair is scored by: child, parent, position -> score and its three parts.
Score = Callable[[int, int, int], tuple[int, int, int, int]]


@dataclass
class Edge:
    """The best parent of a family, None without one."""

    parent: int | None = None
    score: int = NO_SCORE
    parts: tuple[int, int, int] = (0, 0, 0)
    position: int = 0


@dataclass
class Linked:
    """What link finds: an edge a family, and how many pairs of families were scored.

    `positions` counts where they differ, `ties` parents as good as the best so far by score, and
    `two_sided` children that had parents of smaller and of larger keys.
    """

    edges: list[Edge]
    scored: int = 0
    positions: Counter[int] = field(default_factory=Counter)
    ties: int = 0
    two_sided: int = 0


def keys_of(families: Sequence[Family]) -> dict[tuple[int, str, str], list[int]]:
    """Return the families of each key."""
    found: dict[tuple[int, str, str], list[int]] = {}
    for number, family in enumerate(families):
        found.setdefault((family.sample, family.cell, family.umi), []).append(number)
    return found


def neighbour_keys(
    families: Sequence[Family],
) -> list[tuple[tuple[int, str, str], tuple[int, str, str], int]]:
    """Return all ordered pairs of keys whose UMIs differ at one base, with its barcode position."""
    kinds: dict[tuple[int, str, int], list[str]] = {}
    for sample, cell, umi in keys_of(families):
        kinds.setdefault((sample, cell, len(umi)), []).append(umi)
    found = []
    for (sample, cell, _), umis in kinds.items():
        codes = np.array([list(umi.encode()) for umi in umis], np.uint8)
        for first, umi in enumerate(umis):
            apart = codes != codes[first]
            for second in np.flatnonzero(apart.sum(axis=1) == 1).tolist():
                position = len(cell) + int(np.flatnonzero(apart[second])[0])
                found.append(((sample, cell, umi), (sample, cell, umis[second]), position))
    return found


def clip(value: int) -> int:
    """Return a score as an edge holds it."""
    return max(-LIMIT, min(LIMIT, value))


def link(families: Sequence[Family], score: Score) -> Linked:
    """Find the best parent of each family."""
    keys = keys_of(families)
    ranked = {
        key: sorted(rows, key=lambda row: families[row].rank)[:TRIED] for key, rows in keys.items()
    }
    linked = Linked([Edge() for _ in families])
    sides: dict[int, set[bool]] = {}
    for key, other, position in neighbour_keys(families):
        for child in keys[key]:
            for parent in ranked[other]:
                if families[parent].rank >= families[child].rank:
                    continue
                total, *parts = score(child, parent, position)
                linked.scored += 1
                linked.positions[position] += 1
                sides.setdefault(child, set()).add(parent < child)
                edge = linked.edges[child]
                linked.ties += edge.parent is not None and edge.score == clip(total)
                better = (-clip(total), families[parent].rank)
                if edge.parent is None or better < (-edge.score, families[edge.parent].rank):
                    a, b, c = (clip(part) for part in parts)
                    linked.edges[child] = Edge(parent, clip(total), (a, b, c), position)
    linked.two_sided = sum(len(one) == 2 for one in sides.values())
    return linked


def compatible(first: str, second: str) -> bool:
    """Return whether two drafts may be of one molecule."""
    both = [(a, b) for a, b in zip(first, second, strict=True) if "N" not in (a, b)]
    apart = sum(a != b for a, b in both)
    return len(both) < 12 or apart <= (3 * len(both) + 16) // 32


def census(
    families: Sequence[Family], widths: Sequence[int]
) -> tuple[list[list[list[int]]], list[list[list[int]]]]:
    """Count pairs by sample and position, all and compatible; and by the reads of both."""
    keys = keys_of(families)
    counts = [[[0, 0] for _ in range(32)] for _ in widths]
    sizes = [[[0] * 64 for _ in range(32)] for _ in widths]
    for key, other, position in neighbour_keys(families):
        sample = key[0]
        if key > other or position < widths[sample]:
            continue
        for one in keys[key][:TRIED]:
            for two in keys[other][:TRIED]:
                counts[sample][position][0] += 1
                if compatible(families[one].draft, families[two].draft):
                    counts[sample][position][1] += 1
                    small, large = sorted((families[one].reads, families[two].reads))
                    if large >= 2 * small or large == 1:
                        sizes[sample][len(f"{large:b}") - 1][min(small, 63)] += 1
    return counts, sizes
