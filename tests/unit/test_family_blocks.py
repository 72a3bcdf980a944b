"""Families in blocks: each family in one of them, and pairs beside a block."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import link_fixture as fixture
import oracle
from link_fixture import family
from oracle_link import Family
from umimill import family_blocks
from umimill.family_blocks import Block, SortedRows, cut_blocks, pairs_beside, whole_keys
from umimill.kernels import link as kernels
from umimill.partition import Leaves

# Few bases, so that keys are often equal, and families of unequal lengths too.
UMIS = st.text("AC", min_size=1, max_size=5).map(lambda text: text + "G")
FAMILIES = st.lists(st.tuples(st.integers(0, 2), UMIS), max_size=40)


def rows_of(families: list[Family]) -> tuple[Any, SortedRows]:
    table, _ = fixture.table_of(families)

    def read(start: int, stop: int) -> Any:
        assert 0 <= start <= stop <= table.size
        return table[start:stop].copy()

    return table, SortedRows(table.size, read)


def families_of(drawn: list[tuple[int, str]]) -> list[Family]:
    made = [Family(sample, "", umi, 1, 32 * "A", (70,) * len(umi)) for sample, umi in drawn]
    return fixture.in_order(made)


@pytest.fixture(autouse=True, scope="module")
def _small_pages() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(family_blocks, "PAGE_ROWS", 3)
        patch.setattr(family_blocks, "PIECE_ROWS", 4)
        patch.setattr(family_blocks, "KNOWN_PAGES", 3)
        yield


@settings(max_examples=200, deadline=None)
@given(FAMILIES, st.lists(st.tuples(st.integers(0, 3), UMIS), max_size=10), st.data())
def test_find(drawn: list[tuple[int, str]], wanted: list[tuple[int, str]], data: Any) -> None:
    table, rows = rows_of(families_of(drawn))
    places = list(zip(table["sample"].tolist(), table["key"].tolist(), strict=True))
    for sample, umi in wanted:
        key = oracle.key_of(umi)
        first = sum(place < (sample, key) for place in places)
        start = data.draw(st.integers(0, first))
        assert rows.find(sample, key, start) == first
        assert rows.find(sample, key + 1) == sum(place <= (sample, key) for place in places)
    for sample in range(4):
        behind = sum(place[0] <= sample for place in places)
        assert rows.find(sample, 1 << 64) == rows.find(sample + 1, 0) == behind


@settings(max_examples=200, deadline=None)
@given(FAMILIES, st.integers(1, 50), st.integers(0, 3), st.integers(0, 3))
def test_blocks(drawn: list[tuple[int, str]], most: int, first: int, behind: int) -> None:
    """They tile the table, share their first bases, and have all families with these."""
    families = families_of(drawn)
    leaves = Leaves((2, 0, 1))
    # Leaf by leaf: AA, AC, CA, CC of the first sample, the second's one, A and C of the third.
    start, stop = first, leaves.count - behind
    table, rows = rows_of(families)
    shifts = [2 * leaves.widths[sample] for sample in table["sample"]]
    prefixes = [int(key) >> (64 - shift) for key, shift in zip(table["key"], shifts, strict=True)]
    leaf = leaves.bases[table["sample"]] + np.array(prefixes, np.int64)
    table, rows = rows_of(
        [families[row] for row in np.flatnonzero((leaf >= start) & (leaf < stop))]
    )
    at = 0
    for block in cut_blocks(rows, leaves, start, stop, most):
        assert block.start == at
        at = block.stop
        held = table[block.start : block.stop]
        assert held.size == block.rows > 0
        assert set(held["sample"].tolist()) == {block.sample}
        shift = 64 - 2 * block.depth
        assert {int(key) >> shift for key in held["key"]} == {block.key >> shift}
        assert block.rows <= most or len(set(held["key"].tolist())) == 1
        low, high = family_blocks.block_leaves(block, leaves)
        assert start <= low < high <= stop
    assert at == table.size


def test_blocks_are_as_large_as_they_may_be() -> None:
    families = families_of([(0, umi) for umi in ("AAAG", "AACG", "ACAG", "CAAG", "CCCG", "CCCG")])
    leaves = Leaves((2,))
    _, rows = rows_of(families)

    def found(most: int, start: int = 0, stop: int = 16) -> list[tuple[int, int, int]]:
        blocks = cut_blocks(rows, leaves, start, stop, most)
        return [(block.depth, block.start, block.stop) for block in blocks]

    assert found(6) == [(0, 0, 6)]
    assert found(5) == [(1, 0, 3), (1, 3, 6)]
    assert found(2) == [(2, 0, 2), (2, 2, 3), (2, 3, 4), (2, 4, 6)]
    # A key is never split.
    assert found(1) == [(3, 0, 1), (3, 1, 2), (2, 2, 3), (2, 3, 4), (32, 4, 6)]
    # A block has leaves of the bucket alone: not all of the sample's 16.
    assert found(6, 0, 15) == [(1, 0, 3), (1, 3, 6)]
    assert found(6, 0, 6) == [(1, 0, 3), (2, 3, 4), (2, 4, 6)]


def test_whole_keys() -> None:
    families = families_of([(0, "AG"), *[(0, "CG")] * 9, *[(0, "GG")] * 8, (1, "GG")])
    _, rows = rows_of(families)
    assert [whole_keys(rows, start, 19).size for start in (0, 1, 10, 16, 18)] == [1, 9, 9, 3, 1]
    assert whole_keys(rows, 1, 5).size == 4


@pytest.mark.parametrize("apart", [1, 40])
def test_pairs_beside(apart: int) -> None:
    """Pairs of the keys of a block and of its sibling, of which parts are not read."""
    rng = np.random.default_rng(3)
    tails = sorted({"".join(rng.choice(list("ACGT"), 5)) for _ in range(200)})
    own = ["GAC" + tail for tail in tails[::apart]]
    families = fixture.in_order(
        [family("GTC" + tail, 1) for tail in tails for _ in range(rng.integers(1, 7))]
        + [
            family("GTC" + tails[5][:3], 9),
            family("GTG" + tails[0], 9),
            family("GTA" + tails[0], 9),
        ]
    )
    table, rows = rows_of(families)
    read: list[tuple[int, int]] = []
    plain = rows.read
    rows.read = lambda start, stop: (read.append((start, stop)), plain(start, stop))[1]
    keys = np.array([oracle.key_of(umi) >> 48 for umi in own], np.uint64)
    found = []
    for beside in pairs_beside(keys, 0, (8, 0), 1, 3, rows):
        for first, second in zip(beside.pairs.first, beside.pairs.second, strict=True):
            start, stop = beside.table.starts[second], beside.table.stops[second]
            held = [families[beside.start + row] for row in range(start, stop)]
            assert {one.umi for one in held} == {"GTC" + own[first][3:]}
            everywhere = sum(one.umi == held[0].umi for one in families)
            assert len(held) == everywhere, "all families of the key"
            found.append(own[first])
        assert set(beside.pairs.position.tolist()) == {1}
    assert found == own
    most = sum(stop - start for start, stop in read)
    assert (most > table.size) == (apart == 1)
    assert list(pairs_beside(keys, 1, (8, 0), 1, 3, rows)) == []
    assert list(pairs_beside(keys, 0, (9, 0), 1, 3, rows)) == []


def test_siblings_are_in_every_bucket_they_reach() -> None:
    leaves = Leaves((2, 1))
    block = Block(0, 1, oracle.key_of("C"))
    assert family_blocks.block_leaves(block, leaves) == (4, 8)
    assert family_blocks.block_leaves(block.sibling(0, 2), leaves) == (12, 16)
    deep = Block(1, 3, oracle.key_of("CAT"))
    assert family_blocks.block_leaves(deep, leaves) == (17, 18)
    assert family_blocks.block_leaves(deep.sibling(2, 1), leaves) == (17, 18)
    assert deep.sibling(2, 1).key == oracle.key_of("CAG")
    assert family_blocks.block_leaves(Block(1, 0, 0), leaves) == (16, 20)


def test_lengths_of_keys() -> None:
    families = families_of([(0, "AG"), (0, "ACG"), (0, "ACG")])
    families.append(Family(0, "ACGT", "", 1, 32 * "A", (70,) * 4))
    table, _ = rows_of(families)
    # Without a UMI nothing can be wrong.
    assert family_blocks.barcode_lengths(table) == [(2, 0), (3, 0)]
    keys = family_blocks.new_keys(table)
    assert kernels.list_keys(keys, 3, 0) == 1
    assert keys.keys[0] == oracle.key_of("ACG") >> 58
    assert (keys.stops[0] - keys.starts[0]) == 2
