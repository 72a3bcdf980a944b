"""Roots of forests against walking up, and against serial union-find."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numba import config

import oracle_refine as oracle
from kernel_cases import cases
from umimill.kernels.forest import find_roots

LARGE = 1000 if config.DISABLE_JIT else 1_000_000


def found(parents: list[int]) -> tuple[int, list[int]]:
    roots = np.full(len(parents), 1 << 40, np.int64)
    bad = find_roots(np.array(parents, np.int64), roots)
    return int(bad), roots.tolist()


def test_random_forests_are_those_of_union_find() -> None:
    draw = random.Random(3)
    for _ in range(max(20, cases(300))):
        counts = [draw.choice([1, 1, 1, 2, 3, 10, 99]) for _ in range(draw.randint(0, 60))]
        order = sorted(range(len(counts)), key=lambda row: (-counts[row], row))
        parents = [-1] * len(counts)
        share = draw.random()
        for rank, row in enumerate(order):
            if rank > 0 and draw.random() < share:
                parents[row] = order[draw.randrange(max(0, rank - draw.randint(1, 60)), rank)]
        bad, roots = found(parents)
        assert bad == -1
        assert roots == oracle.roots_of(parents) == oracle.joined_roots(parents, order)


@pytest.mark.parametrize("step", [1, -1])
def test_a_chain_of_a_million(step: int) -> None:
    parents = np.arange(LARGE) + step
    top = LARGE - 1 if step > 0 else 0
    parents[top] = -1
    roots = np.empty(LARGE, np.int64)
    assert find_roots(parents, roots) == -1
    assert (roots == top).all()


def test_a_chain_in_random_order() -> None:
    order = np.random.default_rng(5).permutation(LARGE)
    parents = np.full(LARGE, -1)
    parents[order[1:]] = order[:-1]
    roots = np.empty(LARGE, np.int64)
    assert find_roots(parents, roots) == -1
    assert (roots == order[0]).all()


@pytest.mark.parametrize(
    ("parents", "bad"),
    [
        ([], -1),
        ([-1], -1),
        ([0], 0),
        ([-1, 2, 1], 1),
        ([1, 2, 3, 1, -1], 0),
        ([-1, 2], 1),
        ([-1, -2], 1),
        ([-1, 0, 4, 2, 5, 4], 2),
    ],
)
def test_what_is_no_forest_is_named(parents: list[int], bad: int) -> None:
    assert found(parents)[0] == bad
