"""Queries: what families with several unsure bases ask for, and what of it a filter lets pass."""

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle
import oracle_refine_stages as naive
from link_fixture import in_order
from oracle_link import Family
from query_fixture import FINE, NO_QUARTERS, World, changed, random_families, world_of
from stage_fixture import key_text
from umimill import asks, plan, queries
from umimill.asks import ASK
from umimill.jit import kernel
from umimill.kernels import queries as kernels
from umimill.kernels.asks import CERTAIN
from umimill.kernels.known import REGIONS, has_bits, hash_key, seed_of
from umimill.link import EDGE
from umimill.queries import ANSWER, QUERY
from umimill.tally import FAMILY

# A filter that lets all pass.
EVERY_KEY = kernels.Known(
    np.full(REGIONS, 2**64 - 1, np.uint64), NO_QUARTERS, np.arange(REGIONS + 1)
)
EVERYTHING = np.array([[0, 0], [2**64 - 1, 2**64 - 1]], np.uint64)


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leaf may be where a bucket ends."""
    monkeypatch.setattr(plan, "GROUP_ROWS", 0)


def misread_edges(count: int) -> Any:
    edges = np.zeros(count, EDGE)
    edges["score"] = -(1 << 31)
    return edges


def all_queries(folder: Path, world: World, edges: Any, known: Any, span: Any = None) -> Any:
    writer = asks.AskWriter(folder / "asks", world.model)
    with writer:
        # In pieces, as link gives them.
        half = world.table.size // 2
        for part in (slice(0, half), slice(half, None)):
            writer.add(world.table[part], world.quality[part], edges[part], part.start or 0)
        assert half < world.table.size
        writer.finish(0)
    span = EVERYTHING if span is None else span
    found = queries.expand_asks(folder / "asks", world.model, known, span)
    return np.concatenate([np.empty(0, QUERY), *(some.copy() for some in found)])


@pytest.mark.parametrize("small", [False, True])
def test_each_barcode_is_asked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    if small:
        monkeypatch.setattr(queries, "RUN_QUERIES", 1)
        monkeypatch.setattr(asks, "READ_ASKS", 3)
        monkeypatch.setattr(queries, "READ_ASKS", 3)
    asking = counted = 0
    for seed in range(6):
        rng = random.Random(seed)
        world, _ = world_of(tmp_path / str(seed), random_families(rng, 25), 1)
        edges = misread_edges(world.table.size)
        certain = {row for row in range(world.table.size) if rng.random() < 0.1}
        edges["score"][list(certain)] = CERTAIN
        found = all_queries(tmp_path, world, edges, EVERY_KEY)
        expected: Counter[tuple[int, int, int]] = Counter()
        for row in range(world.table.size):
            barcodes = {} if row in certain else world.asked(row)
            asking += bool(barcodes)
            for barcode, errors in barcodes.items():
                expected[row, oracle.key_of(barcode), round(errors * 64)] += 1
        got = Counter(
            zip(
                found["row"].tolist(),
                found["key"].tolist(),
                (found["changes"] / (FINE // 64)).round().astype(int).tolist(),
                strict=True,
            )
        )
        assert {place[:2] for place in got} == {place[:2] for place in expected}
        assert max(got.values()) == 1
        assert sum(got.values()) == sum(expected.values())
        counted += sum(got.values())
        for name in ("sample", "reads", "umi_length", "cell_length", "draft", "mask", "family"):
            assert (found[name] == world.table[name][found["row"]]).all()
        assert (found["child_key"] == world.table["key"][found["row"]]).all()
        assert (found["quality_sum"] == world.quality.sum(1)[found["row"]]).all()
    assert asking > 50
    assert counted > 5000


def test_what_is_asked_for_lies_in_the_span(tmp_path: Path) -> None:
    for seed in range(4):
        world, _ = world_of(tmp_path / str(seed), random_families(random.Random(seed), 25), 1)
        edges = misread_edges(world.table.size)
        found = all_queries(tmp_path, world, edges, EVERY_KEY)
        cuts = sorted(zip(found["sample"].tolist(), found["key"].tolist(), strict=True))[::97]
        cuts = [cut for cut in cuts if cut > (0, 0)]
        parts = []
        for first, behind in pairwise([(0, 0), *cuts, (2**64 - 1, 2**64 - 1)]):
            last = (behind[0], behind[1] - 1) if behind[1] else (behind[0] - 1, 2**64 - 1)
            span = np.array([first, last], np.uint64)
            some = all_queries(tmp_path, world, edges, EVERY_KEY, span)
            keys = list(zip(some["sample"].tolist(), some["key"].tolist(), strict=True))
            assert all(first <= key <= last for key in keys)
            parts.append(some)
        every = np.concatenate(parts)
        assert len(parts) > 5
        assert sorted(one.tobytes() for one in every) == sorted(one.tobytes() for one in found)


def test_the_filter_lets_all_keys_pass_and_few_others(tmp_path: Path) -> None:
    rng = random.Random(1)
    world, _ = world_of(tmp_path, random_families(rng, 200), 1)
    edges = misread_edges(world.table.size)
    half = world.table.size // 2
    known = queries.make_known(lambda: [world.table[:half], world.table[half:]], dense=False)
    regions = np.unique(world.table["key"] >> np.uint64(64 - 12)).size
    assert 0 <= known.keys.size - world.table.size / 4 < regions
    every = all_queries(tmp_path, world, edges, EVERY_KEY)
    some = all_queries(tmp_path, world, edges, known)
    names = ["sample", "key", "umi_length", "cell_length"]
    keys = {tuple(row) for row in world.table[names].tolist()}
    passing = {tuple(row) for row in some[names].tolist()}
    wanted = {tuple(row) for row in every[names].tolist()}
    assert len(wanted & keys) > 20
    assert wanted & keys <= passing
    assert len(passing - keys) < 0.02 * len(wanted - keys)


def test_few_of_the_keys_that_are_not_there_pass() -> None:
    """However uneven keys are: here a half of them begins with the same bases."""
    rng = np.random.default_rng(1)
    table = np.zeros(40_000, FAMILY)
    keys = rng.integers(0, 2**62, 2 * table.size, np.uint64) << np.uint64(2)
    keys[: keys.size // 2] >>= np.uint64(20)
    rng.shuffle(keys)
    table["key"] = keys[: table.size]
    known = queries.make_known(lambda: [table], dense=False)
    assert known.keys.nbytes < 3 * table.size
    others = np.zeros(table.size, FAMILY)
    others["key"] = keys[table.size :]
    passing = [has_key(family, known) for some in (table, others) for family in some[:4000]]
    assert all(passing[:4000])
    assert sum(passing[4000:]) < 4000 / 200


@kernel
def bits_of(table: Any, starts: Any, known: Any) -> bool:
    word = hash_key(table[0]["key"], seed_of(table[0]))
    return has_bits(table[0]["key"], word, starts, 1, known)


def has_key(family: Any, known: kernels.Known) -> bool:
    return bool(bits_of(np.array([family], FAMILY), known.starts, known.keys))


def test_the_filter_of_payloads_lets_all_pass_that_may_agree(tmp_path: Path) -> None:
    rng = random.Random(3)
    drafts = ["".join(rng.choices("ACGT", k=32)) for _ in range(60)]
    families = []
    for draft in drafts:
        umi = "".join(rng.choices("ACGT", k=4)) + "AAAA"
        families.append(Family(0, "", umi, 9, draft, (70,) * 8))
        places = rng.sample(range(32), rng.choice([0, 3, 4, 12, 30]))
        other = changed(rng, draft, places)
        if rng.random() < 0.2:
            other = other[:20] + "N" * 12
        families.append(Family(0, "", changed(rng, umi, (4, 5)), 1, other, (66,) * 8))
    families = in_order([*families, Family(1, "", "A" * 8, 1, drafts[0], (70,) * 8)])
    world, _ = world_of(tmp_path, families, 1)
    # Hardly any two molecules have one payload: it may speak for very rare errors.
    unlike = world.model._replace(clonal=np.full_like(world.model.clonal, -30_000))
    world = replace(world, model=unlike)
    edges = misread_edges(world.table.size)
    known = queries.make_known(lambda: [world.table], dense=True)
    every = all_queries(tmp_path, world, edges, known._replace(quarters=NO_QUARTERS))
    some = all_queries(tmp_path, world, edges, known)
    names = ["row", "key", "sample"]
    passing = {tuple(one) for one in some[names].tolist()}
    dropped = agreeing = 0
    for one in every:
        row = int(one["row"])
        rare = ((int(one["changes"]) + 512) >> 10) + kernels.LN_LARGE_PARENT < one["independent"]
        held = world.held().get((0, "", key_text(int(one["key"]), 8)), [])
        agrees = any(naive.may_agree(families[row].draft, families[at].draft) for at in held)
        passes = tuple(one[names].tolist()) in passing
        assert passes or (rare and not agrees)
        dropped += not passes
        agreeing += agrees and rare
    assert dropped > 100
    assert agreeing > 20


def test_the_cell_part_is_never_asked_for(tmp_path: Path) -> None:
    one = Family(0, "ACGT", "ACGTA", 1, "A" * 32, (4,) * 9)
    other = Family(1, "", "A" * 8, 1, "A" * 32, (74,) * 8)
    world, _ = world_of(tmp_path, in_order([one, other]), 1)
    found = all_queries(tmp_path, world, misread_edges(2), EVERY_KEY)
    found = found[found["sample"] == 0]
    assert found.size == 4**5 - 1 - 15
    cell = np.uint64(oracle.key_of("ACGT") >> 56)
    assert (found["key"] >> np.uint64(56) == cell).all()


def test_layouts_have_no_holes() -> None:
    assert (ASK.itemsize, QUERY.itemsize, ANSWER.itemsize) == (80, 64, 40)
