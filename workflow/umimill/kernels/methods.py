"""Published rules that group barcodes by the pairs at distance 1 (umimill/methods.py).

Rows are ranked by (reads desc, key asc). All kernels pass over a batch of edges and keep a word or
two for each row: nothing recurses, and nothing is kept for an edge.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import inline_kernel, kernel


@inline_kernel
def find(tops: Any, row: int) -> int:
    """Return the top of a row's tree, and halve the way there."""
    while tops[row] != row:
        tops[row] = tops[tops[row]]
        row = tops[row]
    return row


@kernel
def join_rows(first: Any, second: Any, counts: Any, most: int, ranks: Any, tops: Any) -> None:
    """Join the rows of a batch of edges into components.

    Args:
        first: i64[m], one row of each edge.
        second: i64[m], the other.
        counts: u32[n], reads of each row.
        most: edges that have a row of more reads are passed over.
        ranks: i64[n], rank of each row.
        tops: i64[n], a row above each row in its component, at first itself; updated.
    """
    for edge in range(first.size):
        if max(counts[first[edge]], counts[second[edge]]) > most:
            continue
        one = find(tops, first[edge])
        other = find(tops, second[edge])
        if ranks[one] < ranks[other]:
            tops[other] = one
        else:
            tops[one] = other


@kernel
def find_tops(tops: Any) -> None:
    """Put the first in rank of each row's component into tops, i64[n]; see join_rows."""
    for row in range(tops.size):
        tops[row] = find(tops, row)


@kernel
def find_nearest(first: Any, second: Any, ranks: Any, nearest: Any) -> None:
    """Lower nearest, i64[n], to the lowest rank among the neighbours of a batch of edges.

    Args:
        first: see join_rows.
        second: see join_rows.
        ranks: i64[n], rank of each row.
        nearest: i64[n], the lowest rank so far, at first a row's own; updated.
    """
    for edge in range(first.size):
        one, other = first[edge], second[edge]
        nearest[one] = min(nearest[one], ranks[other])
        nearest[other] = min(nearest[other], ranks[one])


@kernel
def cover_components(
    tops: Any, ranks: Any, order: Any, nearest: Any, last: Any, roots: Any
) -> None:
    """Give each row to one of the first rows of its component, as few as have all others beside.

    Args:
        tops: i64[n], see join_rows.
        ranks: i64[n], rank of each row.
        order: i64[n], row of each rank.
        nearest: i64[n], see find_nearest.
        last: i64[n], scratch: the last rank that leads a group of the component of that top.
        roots: i64[n], filled with the row that leads each row's group.
    """
    for row in range(tops.size):
        last[row] = -1
    for row in range(tops.size):
        last[tops[row]] = max(last[tops[row]], nearest[row])
    for row in range(tops.size):
        leads = ranks[row] <= last[tops[row]]
        roots[row] = row if leads else order[nearest[row]]


@kernel
def pass_down(first: Any, second: Any, counts: Any, tops: Any, lowest: Any) -> int:
    """Pass the lowest rank down a batch of edges from A to B, once for each.

    A has at least 2 B - 1 reads. Such an edge leads to fewer reads, but between rows of one read:
    these are joined first (join_rows with `most` = 1) and taken as one. So all is done after some
    32 passes over all batches at most.

    Args:
        first: see join_rows.
        second: see join_rows.
        counts: u32[n], reads of each row, at least 1.
        tops: i64[n], the row that each row is taken as.
        lowest: i64[n], the lowest rank that leads to each such row so far, at first its own;
            updated.

    Returns:
        Rows that changed; none when all is done.
    """
    changes = 0
    for edge in range(first.size):
        one, other = first[edge], second[edge]
        if counts[one] < counts[other]:
            one, other = other, one
        if counts[one] == counts[other]:
            continue
        if np.int64(counts[one]) >= 2 * np.int64(counts[other]) - 1:
            rank = lowest[tops[one]]
            if rank < lowest[tops[other]]:
                lowest[tops[other]] = rank
                changes += 1
    return changes
