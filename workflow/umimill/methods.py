"""The grouping rules that UMI-tools published, for comparison and habit.

From its documentation ("The network-based deduplication methods") and Smith, Heger and Sudbery,
Genome Research 2017. A group is of one sample, or of one cell of it. What UMI-tools leaves to the
order of its input or to chance is decided here by (reads desc, key asc).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.kernels import methods as kernels
from umimill.neighbours import Rows, neighbour_pairs

NETWORKS = ("cluster", "adjacency", "directional")
METHODS = ("unique", "percentile", *NETWORKS)
MOST_READS = 2**32 - 1

Batches = Callable[[], Iterable[tuple[Rows, Rows]]]


def group_rows(method: str, counts: npt.NDArray[Any], pairs: Batches) -> Rows:
    """Group the rows of a table of barcodes.

    - unique: every row is a group.
    - percentile: the same, without the rows that have no more than 1% of the median reads. (Its
      documentation says "fewer than 1%"; 1.1.6 drops those that have just 1% as well.)
    - cluster: a connected component is a group.
    - adjacency: in each component the first rows lead a group each, as few of them as have all
      other rows beside them; the others go to the first of these that is beside them.
    - directional: an edge leads from A to B where A has at least 2 B - 1 reads. The first row and
      all that can be reached from it are a group, and so on with the first of those left.

    Edges are passed over in batches, over and over: nearly all 10-mers have 14 each. Memory is some
    50 bytes a row.

    Args:
        method: one of METHODS.
        counts: u32[n], reads of each row, at least 1; rows are in the order of their keys.
        pairs: gives the pairs of rows at distance 1, from the first batch on when it is called: one
            row of each, i64[m], and the other.

    Returns:
        i64[n], the row that leads each row's group, first in rank; -1 where a row is dropped.

    Raises:
        ValueError: where there is no such method.
    """
    if method not in METHODS:
        raise ValueError(f"no method {method!r}; there are {', '.join(METHODS)}")
    rows = np.arange(counts.size)
    # Rows come in the order of their keys, and equals stay in order.
    order = np.argsort(MOST_READS - counts.astype(np.int64), kind="stable")
    if method == "unique" or counts.size == 0:
        return rows
    if method == "percentile":
        middle = counts[order[(counts.size - 1) // 2]], counts[order[counts.size // 2]]
        median_2 = int(middle[0]) + int(middle[1])
        return np.where(200 * counts.astype(np.int64) > median_2, rows, -1)
    ranks = np.empty_like(rows)
    ranks[order] = rows
    tops = rows.copy()
    if method == "directional":
        for first, second in pairs():
            kernels.join_rows(first, second, counts, 1, ranks, tops)
        kernels.find_tops(tops)
        while sum(kernels.pass_down(*batch, counts, tops, ranks) for batch in pairs()) > 0:
            pass
        return order[ranks[tops]]
    for first, second in pairs():
        kernels.join_rows(first, second, counts, MOST_READS, ranks, tops)
    kernels.find_tops(tops)
    if method == "cluster":
        return tops
    nearest, last, roots = ranks.copy(), np.empty_like(rows), np.empty_like(rows)
    for first, second in pairs():
        kernels.find_nearest(first, second, ranks, nearest)
    kernels.cover_components(tops, ranks, order, nearest, last, roots)
    return roots


def neighbour_batches(
    keys: npt.NDArray[Any], length: int, *, bases: tuple[int, int] | None = None
) -> Batches:
    """Return what gives the pairs of barcodes at distance 1; see umimill.neighbours."""

    def pairs() -> Iterator[tuple[Rows, Rows]]:
        for batch in neighbour_pairs(keys, length, bases=bases):
            yield batch.first, batch.second

    return pairs


def group_barcodes(
    method: str, keys: npt.NDArray[Any], length: int, counts: npt.NDArray[Any]
) -> Rows:
    """Group barcodes of one length; see group_rows.

    Args:
        method: one of METHODS.
        keys: u64[n], see umimill.neighbours.neighbour_pairs.
        length: bases of a barcode, 1 to 32.
        counts: u32[n], reads of each, at least 1.

    Returns:
        i64[n], see group_rows.
    """
    return group_rows(method, counts, neighbour_batches(keys, length))
