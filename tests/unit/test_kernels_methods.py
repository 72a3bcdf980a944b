"""The published grouping rules against their naive twins."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from numba import config

import oracle_refine as oracle
from kernel_cases import all_edges, cases, keys_of
from umimill.methods import METHODS, NETWORKS, group_barcodes, group_rows

compiled_only = pytest.mark.skipif(config.DISABLE_JIT, reason="the compiler is off")


def groups_of(method: str, counts: Mapping[str, int]) -> list[list[str]]:
    """Return the groups of UMIs of one length, the representative first, the rest in order."""
    umis = sorted(counts)
    reads = np.array([counts[umi] for umi in umis], np.uint32)
    roots = group_barcodes(method, keys_of(umis), len(umis[0]), reads).tolist()
    groups: dict[int, list[str]] = {}
    for row, root in enumerate(roots):
        if root >= 0:
            assert roots[root] == root
            groups.setdefault(root, [umis[root]]).extend([umis[row]] * (row != root))
    return sorted(groups.values())


def batches(first: Any, second: Any, size: int = 1 << 20) -> Iterator[tuple[Any, Any]]:
    """Yield edges, so many at a time, and none at the end."""
    for start in range(0, first.size + size, size):
        yield first[start : start + size], second[start : start + size]


def expected_groups(method: str, counts: Mapping[str, int]) -> list[list[str]]:
    """Return the same by the oracle, where the smaller of equals comes first."""
    order = sorted(counts, key=lambda umi: (-counts[umi], umi))
    groups = oracle.umi_groups(method, counts, order)
    return sorted([group[0], *sorted(group[1:])] for group in groups)


def random_counts(draw: random.Random, most: int) -> dict[str, int]:
    """UMIs of a small space, so that most have neighbours, and with many ties."""
    length = draw.randint(1, 6)
    letters = draw.choice(["AC", "ACG", "ACGT"])
    umis = {"".join(draw.choices(letters, k=length)) for _ in range(draw.randint(1, most))}
    reads = draw.choice([[1], [1, 1, 1, 2, 3], [1, 1, 2, 2, 3, 3, 5, 9, 17, 33], range(1, 500)])
    return {umi: draw.choice(reads) for umi in sorted(umis)}


@pytest.mark.parametrize("method", METHODS)
def test_random_tables_are_grouped_as_published(method: str) -> None:
    draw = random.Random(method)
    for _ in range(max(20, cases(400))):
        counts = random_counts(draw, draw.choice([4, 12, 80]))
        assert groups_of(method, counts) == expected_groups(method, counts)


# The example of UMI-tools' own figure, and what its text says of it.
FIGURE = {"ACGT": 456, "TCGT": 2, "CCGT": 2, "ACAT": 72, "ACAG": 1, "AAAT": 90}


@pytest.mark.parametrize(
    ("method", "groups"),
    [
        ("unique", [["AAAT"], ["ACAG"], ["ACAT"], ["ACGT"], ["CCGT"], ["TCGT"]]),
        ("percentile", [["AAAT"], ["ACAG"], ["ACAT"], ["ACGT"], ["CCGT"], ["TCGT"]]),
        ("cluster", [["ACGT", "AAAT", "ACAG", "ACAT", "CCGT", "TCGT"]]),
        ("adjacency", [["AAAT"], ["ACAT", "ACAG"], ["ACGT", "CCGT", "TCGT"]]),
        ("directional", [["AAAT"], ["ACGT", "ACAG", "ACAT", "CCGT", "TCGT"]]),
    ],
)
def test_the_figure_of_the_documentation(method: str, groups: list[list[str]]) -> None:
    assert groups_of(method, FIGURE) == groups


@pytest.mark.parametrize(
    ("counts", "kept"),
    [
        ([1], [0]),
        ([1, 100, 100], [1, 2]),
        ([1, 99, 199], [0, 1, 2]),
        ([2, 101, 301], [0, 1, 2]),
        # An even number of rows: the median is between two.
        ([1, 1, 199, 199], [2, 3]),
        ([1, 1, 198, 199], [0, 1, 2, 3]),
        ([2, 2, 2**32 - 1, 2**32 - 1], [2, 3]),
        ([42949672, 2**32 - 1, 2**32 - 1], [1, 2]),
        ([42949673, 2**32 - 1, 2**32 - 1], [0, 1, 2]),
    ],
)
def test_percentile_drops_one_percent_of_the_median(counts: list[int], kept: list[int]) -> None:
    none = np.zeros(0, np.int64)
    roots = group_rows("percentile", np.array(counts, np.uint32), lambda: [(none, none)])
    assert roots.tolist() == [row if row in kept else -1 for row in range(len(counts))]


@pytest.mark.parametrize(
    ("more", "fewer", "one"),
    [
        (1, 1, True),
        (2, 1, True),
        (2, 2, False),
        (3, 2, True),
        (4, 3, False),
        (2**32 - 1, 2**31, True),
        (2**32 - 2, 2**31, False),
        (2**32 - 1, 2**32 - 1, False),
    ],
)
def test_directional_at_the_bound(more: int, fewer: int, one: bool) -> None:
    for counts in ({"A": more, "C": fewer}, {"C": more, "A": fewer}):
        assert len(groups_of("directional", counts)) == (1 if one else 2)


@pytest.mark.parametrize("method", NETWORKS)
def test_edges_in_any_order(method: str) -> None:
    """Which way round an edge is, and when it comes, changes nothing."""
    draw = random.Random(method)
    for _ in range(max(3, cases(30))):
        table = random_counts(draw, 150)
        umis = sorted(table)
        counts = np.array([table[umi] for umi in umis], np.uint32)
        first, second = all_edges(keys_of(umis), len(umis[0]))
        roots = group_rows(method, counts, partial(batches, first, second))
        edges = [draw.sample(pair, 2) for pair in zip(first.tolist(), second.tolist(), strict=True)]
        draw.shuffle(edges)
        turned = np.array(edges, np.int64).reshape(-1, 2)
        again = group_rows(method, counts, partial(batches, *turned.T.copy(), size=3))
        assert roots.tolist() == again.tolist()


@pytest.mark.parametrize("method", METHODS)
def test_no_rows(method: str) -> None:
    none = np.zeros(0, np.int64)
    assert group_rows(method, np.zeros(0, np.uint32), lambda: [(none, none)]).size == 0


def test_a_method_that_is_none() -> None:
    with pytest.raises(ValueError, match="no method 'paired'; there are unique"):
        group_barcodes("paired", keys_of(["A"]), 1, np.ones(1, np.uint32))


# Shapes that have brought down programs that recurse or that keep more than the edges


@compiled_only
@pytest.mark.parametrize("method", NETWORKS)
def test_a_star_of_100000(method: str) -> None:
    """A row with more neighbours than any barcode has; the rules know rows and edges alone."""
    rows = np.arange(100_001)
    center = 50_000
    others = rows[rows != center]
    counts = np.ones(rows.size, np.uint32)
    counts[center] = 2
    roots = group_rows(
        method, counts, lambda: [(np.minimum(others, center), np.maximum(others, center))]
    )
    assert (roots == center).all()


@compiled_only
@pytest.mark.parametrize("reads", [1, 2])
def test_a_path_of_100000(reads: int) -> None:
    """One read each reaches all the way; two reads reach nothing."""
    rows = np.arange(100_000)
    counts = np.full(rows.size, reads, np.uint32)
    roots = group_rows("directional", counts, lambda: [(rows[:-1], rows[1:])])
    assert np.unique(roots).size == (1 if reads == 1 else rows.size)
    assert (group_rows("cluster", counts, lambda: [(rows[:-1], rows[1:])]) == 0).all()


@compiled_only
def test_the_longest_way_down() -> None:
    """Reads halve 32 times; the edges come so that each pass takes one step alone."""
    counts = [2**31]
    while counts[-1] > 1:
        counts.append((counts[-1] + 1) // 2)
    assert len(counts) == 32
    rows = np.arange(len(counts))
    reads = np.array(counts, np.uint32)
    first, second = rows[:-1][::-1].copy(), rows[1:][::-1].copy()
    assert (group_rows("directional", reads, lambda: [(first, second)]) == 0).all()


@compiled_only
@pytest.mark.parametrize("method", NETWORKS)
def test_the_full_space_of_six_bases(method: str) -> None:
    draw = random.Random(method)
    umis = ["".join(letters) for letters in product("ACGT", repeat=6)]
    for reads in ([1], range(1, 50)):
        counts = {umi: draw.choice(reads) for umi in umis}
        assert groups_of(method, counts) == expected_groups(method, counts)
