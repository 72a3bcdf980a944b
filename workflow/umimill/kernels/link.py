"""Families by key, pairs of keys of two tables, and the best parent of each family."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inline_kernel, kernel
from umimill.kernels.drafts import are_compatible
from umimill.kernels.neighbours import Pairs, bit_length
from umimill.kernels.score import ranks_above, score_edge

U = np.uint64

# Of one key so many families are tried as parents, those of the highest rank, and are counted in
# pairs: a key that holds thousands costs no more than that for each family beside it.
TRIED = 64
NO_SCORE = -(1 << 31)
SCORE_LIMIT = 1 << 30


class KeyTable(NamedTuple):
    """Families of one sample, and the keys of one pair of barcode lengths among them.

    Attributes:
        families: FAMILY[n], sorted.
        keys: u64[k], in order, each once: the barcode in the lowest bits.
        starts: i32[k], first family of each key.
        stops: i32[k], behind its last one.
    """

    families: Any
    keys: Any
    starts: Any
    stops: Any


class Ranking(NamedTuple):
    """What is needed of families to try them as parents.

    Attributes:
        quality: u8[n, B], barcode qualities.
        ranked: i32[n], from the start of each key on: its families by rank, at most TRIED.
    """

    quality: Any
    ranked: Any


class Best(NamedTuple):
    """The best parent of each family so far.

    Attributes:
        edges: EDGE[n].
        qualities: i32[n], sum of the barcode qualities of the parent.
    """

    edges: Any
    qualities: Any


@kernel
def rows_before(families: Any, sample: int, key: Any) -> int:
    """Return how many of the sorted rows come before the first of (sample, key)."""
    start = 0
    stop = families.size
    while start < stop:
        middle = (start + stop) >> 1
        own = np.int64(families[middle]["sample"])
        if own < sample or (own == sample and families[middle]["key"] < key):
            start = middle + 1
        else:
            stop = middle
    return start


@kernel
def count_lengths(families: Any, counts: Any) -> None:
    """Add up families by (umi_length, cell_length) in counts, i64[33, 33]."""
    for row in range(families.size):
        counts[families[row]["umi_length"], families[row]["cell_length"]] += 1


@kernel
def list_keys(table: KeyTable, umi_length: int, cell_length: int) -> int:
    """List the keys of some lengths, at least one base together.

    Args:
        table: its families are read; keys, starts and stops, as long as these, are filled.
        umi_length: bases of the UMI.
        cell_length: bases of the cell.

    Returns:
        Keys.
    """
    families = table.families
    shift = U(64 - 2 * (umi_length + cell_length))
    count = 0
    for row in range(families.size):
        if families[row]["umi_length"] != umi_length or families[row]["cell_length"] != cell_length:
            continue
        key = families[row]["key"] >> shift
        if count == 0 or table.keys[count - 1] != key:
            table.keys[count] = key
            table.starts[count] = row
            count += 1
        table.stops[count - 1] = row + 1
    return count


@kernel
def rank_families(table: KeyTable, ranking: Ranking, count: int) -> None:
    """Put the families of each of the first `count` keys in order of rank, the first TRIED.

    Time is O(n) where families come in that order but for few, and O(n * TRIED) at worst.
    """
    families, quality, ranked = table.families, ranking.quality, ranking.ranked
    for index in range(count):
        start = np.int64(table.starts[index])
        held = 0
        for row in range(start, np.int64(table.stops[index])):
            place = held
            while place > 0 and ranks_above(
                families, quality, row, families, quality, np.int64(ranked[start + place - 1])
            ):
                if place < TRIED:
                    ranked[start + place] = ranked[start + place - 1]
                place -= 1
            if place < TRIED:
                ranked[start + place] = row
                held = min(held + 1, TRIED)


@kernel
def join_keys(
    keys: Any, begin: int, others: Any, last: Any, position: int, flip: Any, pairs: Pairs
) -> tuple[int, int]:
    """Find the keys that become one of another table by changing a base.

    The base is one that all keys have in common, so they stay in order. Time is O(n + m).

    Args:
        keys: u64[n], in order.
        begin: first key to look for.
        others: u64[m], in order.
        last: no key above this one is looked for.
        position: number of the base.
        flip: bits to change in a key.
        pairs: buffers of at least min(n, m), filled: first of `keys`, second of `others`.

    Returns:
        (first key above `last`, or n; pairs)
    """
    count = 0
    row = begin
    other = 0
    while row < keys.size and other < others.size:
        wanted = keys[row] ^ flip
        if wanted > last:
            return row, count
        if wanted == others[other]:
            pairs.first[count] = row
            pairs.second[count] = other
            pairs.position[count] = position
            count += 1
        # Both read before either moves on.
        step = np.int64(wanted <= others[other])
        other += np.int64(wanted >= others[other])
        row += step
    while row < keys.size and (keys[row] ^ flip) <= last:
        row += 1
    return row, count


@kernel
def clear_edges(edges: Any) -> None:
    """Set edges to those of families without a parent."""
    for row in range(edges.size):
        edge = edges[row]
        edge["parent_key"] = 0
        edge["score"] = NO_SCORE
        edge["ln_error"] = 0
        edge["ln_independent"] = 0
        edge["payload"] = 0
        edge["parent_reads"] = 0
        edge["parent_family"] = 0
        edge["position"] = 0
        edge["flags"] = 0


@inline_kernel
def clip(value: int) -> int:
    """Return a score within what an edge holds."""
    return min(max(value, -SCORE_LIMIT), SCORE_LIMIT)


@inline_kernel
def beats_best(score: int, family: Any, quality: int, edge: Any, best_quality: int) -> bool:
    """Return whether a parent is better than the best so far: by score, then by rank."""
    if score != edge["score"]:
        return score > edge["score"]
    if family["reads"] != edge["parent_reads"]:
        return family["reads"] > edge["parent_reads"]
    if quality != best_quality:
        return quality > best_quality
    if family["key"] != edge["parent_key"]:
        return family["key"] < edge["parent_key"]
    return family["family"] < edge["parent_family"]


@kernel
def link_pairs(
    children: KeyTable,
    child_quality: Any,
    parents: KeyTable,
    ranking: Ranking,
    pairs: Pairs,
    directions: int,
    model: Any,
    best: Best,
) -> int:
    """Try the families of keys as parents of those of others.

    Args:
        children: the table whose keys are `pairs.first`.
        child_quality: u8[n, B], its barcode qualities.
        parents: the table whose keys are `pairs.second`; may be the same.
        ranking: its ranks.
        pairs: pairs of keys.
        directions: 1, or 2 where the tables are one and each of a pair may be the parent.
        model: EdgeModel.
        best: best parents of the families of `children`, updated.

    Returns:
        Pairs of families that were scored.
    """
    scored = 0
    families, others = children.families, parents.families
    for index in range(pairs.first.size):
        position = np.int64(pairs.position[index])
        for turn in range(directions):
            child_key = pairs.first[index] if turn == 0 else pairs.second[index]
            parent_key = pairs.second[index] if turn == 0 else pairs.first[index]
            first = np.int64(parents.starts[parent_key])
            last = min(np.int64(parents.stops[parent_key]), first + TRIED)
            for child in range(
                np.int64(children.starts[child_key]), np.int64(children.stops[child_key])
            ):
                for place in range(first, last):
                    parent = np.int64(ranking.ranked[place])
                    if not ranks_above(
                        others, ranking.quality, parent, families, child_quality, child
                    ):
                        break
                    score, ln_error, ln_independent, payload = score_edge(
                        families,
                        child_quality,
                        child,
                        others,
                        ranking.quality,
                        parent,
                        position,
                        model,
                    )
                    scored += 1
                    score = clip(score)
                    edge = best.edges[child]
                    if score < edge["score"]:
                        continue
                    quality = np.int64(0)
                    for base in range(ranking.quality.shape[1]):
                        quality += np.int64(ranking.quality[parent, base])
                    if not beats_best(score, others[parent], quality, edge, best.qualities[child]):
                        continue
                    best.qualities[child] = quality
                    edge["parent_key"] = others[parent]["key"]
                    edge["score"] = score
                    edge["ln_error"] = clip(ln_error)
                    edge["ln_independent"] = clip(ln_independent)
                    edge["payload"] = clip(payload)
                    edge["parent_reads"] = others[parent]["reads"]
                    edge["parent_family"] = others[parent]["family"]
                    edge["position"] = position
    return scored


@kernel
def count_parents(edges: Any) -> int:
    """Return how many families have a parent."""
    count = 0
    for row in range(edges.size):
        count += np.int64(edges[row]["score"] != NO_SCORE)
    return count


@kernel
def count_pairs(table: KeyTable, others: KeyTable, pairs: Pairs, counts: Any, sizes: Any) -> None:
    """Count pairs of families of pairs of keys, of each key its first TRIED.

    Args:
        table: the table whose keys are `pairs.first`.
        others: the table whose keys are `pairs.second`; may be the same.
        pairs: pairs of keys.
        counts: i64[32, 2], updated: by position, pairs and compatible pairs.
        sizes: i64[32, 64], updated: compatible pairs of which one has at least twice the reads of
            the other, or both one, by its reads (2^i and more) and the other's (63 for more).
    """
    for index in range(pairs.first.size):
        position = pairs.position[index]
        start = np.int64(table.starts[pairs.first[index]])
        stop = min(np.int64(table.stops[pairs.first[index]]), start + TRIED)
        other_start = np.int64(others.starts[pairs.second[index]])
        other_stop = min(np.int64(others.stops[pairs.second[index]]), other_start + TRIED)
        counts[position, 0] += (stop - start) * (other_stop - other_start)
        for row in range(start, stop):
            family = table.families[row]
            for other_row in range(other_start, other_stop):
                other = others.families[other_row]
                if not are_compatible(
                    family["draft"], family["mask"], other["draft"], other["mask"]
                ):
                    continue
                counts[position, 1] += 1
                smaller = min(np.int64(family["reads"]), np.int64(other["reads"]))
                larger = max(np.int64(family["reads"]), np.int64(other["reads"]))
                if larger >= 2 * smaller or larger == 1:
                    sizes[bit_length(U(larger)) - 1, min(smaller, 63)] += 1
