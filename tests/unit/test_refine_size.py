"""Time and memory of neighbours and grouping rules on tables that others cannot do."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numba import config

from umimill.methods import METHODS, NETWORKS, group_rows, neighbour_batches
from umimill.neighbours import BATCH_PAIRS, neighbour_pairs

compiled_only = pytest.mark.skipif(config.DISABLE_JIT, reason="the compiler is off")


@pytest.mark.parametrize("method", NETWORKS)
def test_a_rule_keeps_nothing_for_an_edge(method: str) -> None:
    """All 8-mers have 12 edges each; 64 bytes a row would not hold them."""
    keys = np.arange(4**8, dtype=np.uint64)
    counts = np.random.default_rng(1).integers(1, 100, keys.size).astype(np.uint32)
    pairs = neighbour_batches(keys, 8)
    assert sum(first.size for first, _ in pairs()) == 12 * keys.size
    group_rows(method, counts[:9], neighbour_batches(keys[:9], 8))  # compiles
    tracemalloc.start()
    try:
        group_rows(method, counts, pairs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Besides a batch, and the last of the pass before.
    assert peak < 64 * keys.size + 33 * BATCH_PAIRS + 50_000


def star_pairs() -> Iterator[tuple[Any, Any]]:
    """Row 50,000 and each of 100,000 others, 1,000 at a time."""
    for start in range(0, 100_001, 1000):
        others = np.arange(start, min(start + 1000, 100_001))
        others = others[others != 50_000]
        yield np.minimum(others, 50_000), np.maximum(others, 50_000)


def clique_pairs() -> Iterator[tuple[Any, Any]]:
    """All pairs of 4^6 rows, 8.4 million, a row with those behind it at a time."""
    for row in range(4**6):
        others = np.arange(row + 1, 4**6)
        yield np.full_like(others, row), others


@compiled_only
@pytest.mark.parametrize("method", NETWORKS)
@pytest.mark.parametrize(
    ("pairs", "rows", "top"), [(star_pairs, 100_001, 50_000), (clique_pairs, 4**6, 4000)]
)
def test_a_hub_takes_no_memory_and_no_time(method: str, pairs: Any, rows: int, top: int) -> None:
    """More neighbours than any barcode has: the rules know rows and edges alone."""
    counts = np.ones(rows, np.uint32)
    counts[top] = 2
    first = next(pairs())
    group_rows(method, counts, lambda: [first])  # compiles
    start = time.thread_time()
    tracemalloc.start()
    try:
        leaders = group_rows(method, counts, pairs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (leaders == top).all()
    # Beside what a row takes, a few of the made-up batches.
    assert peak < 64 * rows + 10 * 8 * 4**6 + 50_000
    assert time.thread_time() - start < 10


def test_a_search_keeps_no_more_than_its_batch() -> None:
    keys = np.arange(4**8, dtype=np.uint64)
    next(neighbour_pairs(keys, 8))  # compiles
    tracemalloc.start()
    try:
        total = sum(batch.first.size for batch in neighbour_pairs(keys, 8, batch_pairs=1 << 10))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 12 * keys.size
    # Besides 17 bytes a pair of the batch: a byte a row, for a moment, to check the keys.
    assert peak < 17 * (1 << 10) + keys.size + 50_000


@pytest.mark.benchmark
def test_a_million_barcodes_of_ten_bases() -> None:
    """Nearly all there are: 14.3 million pairs. The bounds are wide; see the printed seconds."""
    rng = np.random.default_rng(1)
    keys = np.sort(rng.permutation(4**10)[:1_000_000]).astype(np.uint64)
    counts = np.minimum(rng.zipf(1.5, keys.size), 1_000_000).astype(np.uint32)
    next(neighbour_pairs(keys, 10))  # compiles
    clock = time.thread_time()
    total = sum(batch.first.size for batch in neighbour_pairs(keys, 10))
    seconds = time.thread_time() - clock
    print(f"neighbours: {total} pairs in {seconds:.3f} s")
    assert seconds < 10
    assert total > 14_000_000
    for method in METHODS:
        group_rows(method, counts[:9], neighbour_batches(keys[:9], 10))  # compiles
        clock = time.thread_time()
        group_rows(method, counts, neighbour_batches(keys, 10))
        seconds = time.thread_time() - clock
        print(f"{method}: {seconds:.3f} s")
        assert seconds < 10
