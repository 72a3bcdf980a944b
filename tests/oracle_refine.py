"""Naive twins of the kernels of refine: neighbours of barcodes, grouping rules, roots of forests.

Written from the docstrings, the design and UMI-tools' documentation, never from the kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

Pair = tuple[int, int, int]  # two rows and the base at which they differ


def neighbour_pairs(barcodes: Sequence[str], begin: int, end: int) -> list[Pair]:
    """Return the pairs of barcodes that differ at one base alone, where that is in [begin, end)."""
    rows = {barcode: row for row, barcode in enumerate(barcodes)}
    return sorted(
        (row, rows[other], place)
        for barcode, row in rows.items()
        for place in range(begin, end)
        for letter in "ACGT"
        if row < rows.get(other := barcode[:place] + letter + barcode[place + 1 :], -1)
    )


def roots_of(parents: Sequence[int]) -> list[int]:
    """Return the root of each row; the parent of a root is -1."""
    roots = []
    for row in range(len(parents)):
        root = row
        while parents[root] >= 0:
            root = parents[root]
        roots.append(root)
    return roots


def joined_roots(parents: Sequence[int], order: Sequence[int]) -> list[int]:
    """Return the same by serial union-find: rows join their parent's set, the last in order first.

    A root is the first in order of its set.
    """
    sets = {row: [row] for row in order}
    for row in reversed(order):
        if parents[row] >= 0:
            joined = sets[parents[row]] + sets[row]
            for member in joined:
                sets[member] = joined
    ranks = {row: rank for rank, row in enumerate(order)}
    return [min(sets[row], key=ranks.__getitem__) for row in range(len(parents))]


# Groups of UMIs, each with its representative first. `order` has the UMIs of most reads first, and
# which of equals comes first there decides ties.


def umi_groups(method: str, counts: Mapping[str, int], order: Sequence[str]) -> list[list[str]]:
    """Group UMIs of one length by a published rule, given the reads of each."""
    if method == "unique":
        return [[umi] for umi in order]
    if method == "percentile":
        bar = median(counts.values()) / 100
        return [[umi] for umi in order if counts[umi] > bar]
    near: dict[str, list[str]] = {umi: [] for umi in order}
    for first, second, _ in neighbour_pairs(order, 0, len(order[0])):
        near[order[first]].append(order[second])
        near[order[second]].append(order[first])
    if method == "directional":
        near = {
            umi: [other for other in others if counts[umi] >= 2 * counts[other] - 1]
            for umi, others in near.items()
        }
    groups = []
    seen: set[str] = set()
    for top in order:
        if top not in seen:
            groups.append(reach(top, near, seen))
    if method == "adjacency":
        return [group for found in groups for group in cover(found, near, order)]
    return groups


def reach(top: str, near: Mapping[str, Sequence[str]], seen: set[str]) -> list[str]:
    """Return what can be reached from a UMI and was not seen before, and note it as seen."""
    found = [top]
    seen.add(top)
    for umi in found:
        for other in near[umi]:
            if other not in seen:
                seen.add(other)
                found.append(other)
    return found


def cover(
    component: Sequence[str], near: Mapping[str, Sequence[str]], order: Sequence[str]
) -> list[list[str]]:
    """Return the groups of a component's first UMIs, as few as have all others beside them."""
    ranks = {umi: rank for rank, umi in enumerate(order)}
    groups: dict[str, list[str]] = {}
    covered: set[str] = set()
    for lead in sorted(component, key=ranks.__getitem__):
        if len(covered) < len(component):
            groups[lead] = [lead]
            covered.update([lead, *near[lead]])
    for umi in component:
        if umi not in groups:
            lead = min(groups.keys() & near[umi], key=ranks.__getitem__)
            groups[lead].append(umi)
    return list(groups.values())
