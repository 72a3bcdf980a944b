"""Time and memory of neighbours and grouping rules on tables that others cannot do."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

from umimill.methods import METHODS, NETWORKS, group_rows
from umimill.neighbours import all_edges, neighbour_pairs


@pytest.mark.parametrize("method", NETWORKS)
def test_a_rule_keeps_nothing_for_an_edge(method: str) -> None:
    """All 8-mers have 12 edges each; 64 bytes a row would not hold them."""
    keys = np.arange(4**8, dtype=np.uint64)
    counts = np.random.default_rng(1).integers(1, 100, keys.size).astype(np.uint32)
    first, second = all_edges(keys, 8)
    assert first.size == 12 * keys.size
    group_rows(method, counts[:1], first[:0], second[:0])  # compiles
    tracemalloc.start()
    try:
        group_rows(method, counts, first, second)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * keys.size


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
    first, second = all_edges(keys, 10)
    assert first.size == total > 14_000_000
    for method in METHODS:
        group_rows(method, counts[:1], first[:0], second[:0])  # compiles
        clock = time.thread_time()
        group_rows(method, counts, first, second)
        seconds = time.thread_time() - clock
        print(f"{method}: {seconds:.3f} s")
        assert seconds < 10
