"""Kernels of link and of the census of pairs against their naive twins."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import link_fixture as fixture
import oracle
import oracle_link
from oracle_link import Family
from umimill.family_blocks import first_keys, new_keys
from umimill.kernels import link as kernels
from umimill.kernels.neighbours import Pairs
from umimill.link import EDGE
from umimill.tally import FAMILY


def sample_families(seed: int, molecules: int) -> list[Family]:
    """Families of one sample with cells, in order."""
    rng = np.random.default_rng(seed)
    return fixture.in_order(fixture.random_families(rng, 0, (2, 5), molecules, 3))


def keys_of(families: list[Family], lengths: tuple[int, int] = (5, 2)) -> Any:
    """Return the table of families with its keys, and their qualities."""
    table, quality = fixture.table_of(families)
    keys = new_keys(table)
    return first_keys(keys, kernels.list_keys(keys, *lengths)), quality


def buffers(size: int) -> Pairs:
    return Pairs(np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.uint8))


def key_pairs(families: list[Family], keys: Any) -> Pairs:
    """Return all pairs of keys that differ at one base of the UMI, each once."""
    numbers = {int(key): number for number, key in enumerate(keys.keys)}
    found = [
        (numbers[oracle.key_of(first[1] + first[2]) >> 50], second, position)
        for first, other, position in oracle_link.neighbour_keys(families)
        if first < other
        for second in [numbers[oracle.key_of(other[1] + other[2]) >> 50]]
    ]
    columns = zip(*found, strict=True)
    dtypes = (np.int64, np.int64, np.uint8)
    return Pairs(*(np.array(one, kind) for one, kind in zip(columns, dtypes, strict=True)))


def test_keys() -> None:
    families = sample_families(1, 30)
    keys, _ = keys_of(families)
    expected = oracle_link.keys_of(families)
    assert keys.keys.tolist() == [oracle.key_of(cell + umi) >> 50 for _, cell, umi in expected]
    assert keys.starts.tolist() == [rows[0] for rows in expected.values()]
    assert keys.stops.tolist() == [rows[-1] + 1 for rows in expected.values()]
    assert keys_of(families, (7, 0))[0].keys.size == 0
    counts = np.zeros((33, 33), np.int64)
    kernels.count_lengths(keys.families, counts)
    assert counts[5, 2] == counts.sum() == len(families)


@pytest.mark.parametrize("count", [1, 3, 64, 65, 150])
def test_ranks(count: int) -> None:
    rng = np.random.default_rng(count)
    made = [
        Family(0, "", umi, int(rng.integers(1, 4)), fixture.random_draft(rng), (quality,) * 5)
        for umi in ("AACGT", "CACGT")
        for quality in rng.integers(60, 63, count).tolist()
    ]
    families = fixture.in_order(made)
    keys, quality = keys_of(families, (5, 0))
    ranking = kernels.Ranking(quality, np.full(len(families), -1, np.int32))
    kernels.rank_families(keys, ranking, 2)
    for start, rows in zip(keys.starts, oracle_link.keys_of(families).values(), strict=True):
        expected = sorted(rows, key=lambda row: families[row].rank)[: oracle_link.TRIED]
        assert ranking.ranked[start : start + len(expected)].tolist() == expected


KEYS = st.lists(st.integers(0, 31), unique=True, max_size=20).map(sorted)


@settings(max_examples=200, deadline=None)
@given(KEYS, KEYS, st.integers(0, 31), st.integers(0, 20))
def test_join(keys: list[int], others: list[int], last: int, begin: int) -> None:
    """Keys begin with C, the others with T: four bases behind."""
    begin = min(begin, len(keys))
    wanted = [key for key in keys[begin:] if key <= last]
    pairs = buffers(20)
    end, count = kernels.join_keys(
        np.array([256 + key for key in keys], np.uint64),
        begin,
        np.array([768 + other for other in others if other <= last], np.uint64),
        np.uint64(768 + last),
        3,
        np.uint64(512),
        pairs,
    )
    assert end == begin + len(wanted)
    found = [keys[row] for row in pairs.first[:count]]
    assert found == [key for key in wanted if key in others]
    assert found == [others[row] for row in pairs.second[:count]]
    assert set(pairs.position[:count].tolist()) <= {3}


def test_best_parents(tmp_path: Any) -> None:
    families = sample_families(2, 25)
    keys, quality = keys_of(families)
    tables = fixture.write_tables(tmp_path, keys.families, quality, (3,), 1)
    model = fixture.write_model(tables.plan_path, keys.families, quality, tmp_path / "model")

    def score(child: int, parent: int, position: int) -> tuple[int, int, int, int]:
        found = fixture.score(keys.families, quality, child, parent, position, model)
        return tuple(map(int, found))

    linked = oracle_link.link(families, score)
    expected = fixture.expected_edges(linked, families)
    ranking = kernels.Ranking(quality, np.zeros(len(families), np.int32))
    kernels.rank_families(keys, ranking, keys.keys.size)
    pairs = key_pairs(families, keys)
    back = Pairs(pairs.second, pairs.first, pairs.position)
    for passes in ([(pairs, 2)], [(pairs, 1), (back, 1)], [(back, 1), (pairs, 1)]):
        best = kernels.Best(np.ones(len(families), EDGE), np.zeros(len(families), np.int32))
        kernels.clear_edges(best.edges)
        assert set(best.edges.tolist()) == {(0, oracle_link.NO_SCORE, *[0] * 7)}
        scored = sum(
            kernels.link_pairs(keys, quality, keys, ranking, some, directions, model, best)
            for some, directions in passes
        )
        assert best.edges.tolist() == expected
        assert scored == linked.scored
        parents = sum(edge.parent is not None for edge in linked.edges)
        assert kernels.count_parents(best.edges) == parents > 20


@pytest.mark.parametrize("better", ["AATAA", "TAAAA", None])
def test_of_equal_parents_the_order_does_not_matter(tmp_path: Any, better: str | None) -> None:
    """Equal scores: by reads, then quality, then the smaller key, then the smaller family."""
    # No evidence: whatever the drafts of its parents are.
    made = [fixture.family("AAAAA", 1, 60, 8 * "A" + 24 * "N")]
    for umi in ("AACAA", "AATAA", "CAAAA", "TAAAA"):
        quality = 71 if umi == better else 70
        made += [fixture.family(umi, 3, quality, 16 * base + 16 * "C") for base in "ACG"]
    families = fixture.in_order(made)
    keys, quality = keys_of(families, (5, 0))
    tables = fixture.write_tables(tmp_path, keys.families, quality, (2,), 1)
    model = fixture.write_model(tables.plan_path, keys.families, quality, tmp_path / "model")
    ranking = kernels.Ranking(quality, np.zeros(len(families), np.int32))
    kernels.rank_families(keys, ranking, keys.keys.size)
    expected = (oracle.key_of(better or "AACAA"), 0)
    for order in ([1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3]):
        pairs = Pairs(
            np.zeros(4, np.int64),
            np.array(order),
            np.array([2, 2, 0, 0], np.uint8)[np.array(order) - 1],
        )
        best = kernels.Best(np.zeros(len(families), EDGE), np.zeros(len(families), np.int32))
        kernels.clear_edges(best.edges)
        kernels.link_pairs(keys, quality, keys, ranking, pairs, 2, model, best)
        edge = best.edges[0]
        assert (edge["parent_key"], edge["parent_family"]) == expected
        assert edge["parent_reads"] == 3


def test_counts_of_pairs() -> None:
    families = sample_families(3, 40)
    keys, _ = keys_of(families)
    counts, sizes = np.zeros((32, 2), np.int64), np.zeros((32, 64), np.int64)
    kernels.count_pairs(keys, keys, key_pairs(families, keys), counts, sizes)
    assert ([counts.tolist()], [sizes.tolist()]) == oracle_link.census(families, (0,))
    assert 0 < counts[:, 1].sum() < counts[:, 0].sum()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=20), st.integers(0, 3))
def test_rows_before(places: list[tuple[int, int]], sample: int) -> None:
    table = np.zeros(len(places), FAMILY)
    for row, place in enumerate(sorted(places)):
        table[row]["sample"], table[row]["key"] = place
    for key in range(11):
        before = sum(place < (sample, key) for place in places)
        assert kernels.rows_before(table, sample, np.uint64(key)) == before
