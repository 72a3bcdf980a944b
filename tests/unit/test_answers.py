"""Answers: the best of those who have what a family may be, and what is kept of it."""

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle
import oracle_refine_stages as naive
from kernel_cases import cases
from link_fixture import buckets_of, in_order
from oracle_link import Family
from query_fixture import FINE, World, random_families, world_of
from umimill import asks, pieces, plan, queries
from umimill.blockfile import BlockFile
from umimill.kernels import queries as kernels
from umimill.kernels.asks import CERTAIN
from umimill.link import EDGE, Outputs, link
from umimill.metrics import Meter
from umimill.queries import ANSWER, apply_answers, best_answers
from umimill.settle import Rule, Sources, settle

PARTS = ("ln_error", "ln_independent", "payload")


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leaf may be where a bucket ends."""
    monkeypatch.setattr(plan, "GROUP_ROWS", 0)


def run(folder: Path, tables: Any, room: int | None) -> tuple[Any, Any]:
    """Link and settle; return the answers by row of the whole table, and the edges."""
    edges, asking = [], []
    for bucket in range(len(tables.paths)):
        edges.append(folder / f"{bucket}.edges")
        asking.append(folder / f"{bucket}.queries")
        link(
            tables.plan_path,
            tables.paths,
            bucket,
            folder / "model",
            Outputs(edges[-1], asking[-1]),
            Meter("link", "L", 8000),
            block_bytes=room,
        )
    output = folder / "settled"
    meter = Meter("settle", "L", 8000)
    settle(
        tables.plan_path,
        Sources(tables.paths, edges, asking),
        folder / "model",
        Rule("posterior", 1000),
        output,
        meter,
        table_bytes=room,
    )
    with BlockFile(output) as file:
        answers, bounds = file.read("answers"), file.read("answer_bounds").tolist()
    first, found = 0, []
    for bucket, path in enumerate(edges):
        with BlockFile(path) as file:
            found.append(file.read("edges"))
        answers["row"][bounds[bucket] : bounds[bucket + 1]] += np.uint32(first)
        first += found[-1].size
    return answers, np.concatenate(found)


@pytest.mark.parametrize(
    ("buckets", "small", "dense"),
    [(1, False, True), (1, True, False), (4, False, False), (4, True, True), (13, True, True)],
)
def test_the_best_who_ranks_above_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buckets: int, small: bool, dense: bool
) -> None:
    if small:
        monkeypatch.setattr(queries, "RUN_QUERIES", 1)
        monkeypatch.setattr(pieces, "LEAST_ROWS", 5)
        monkeypatch.setattr(asks, "READ_ASKS", 3)
        monkeypatch.setattr(queries, "READ_ASKS", 3)
        monkeypatch.setattr("umimill.fates.READ_FAMILIES", 7)
    seen = ties = away = rare = missed = several = 0
    monkeypatch.setattr("umimill.settle.DENSE", 0.0 if dense else 2.0)
    for seed in range(cases(4)):
        folder = tmp_path / str(seed)
        families = random_families(random.Random(seed), 60)
        world, tables = world_of(folder, families, buckets)
        answers, edges = run(folder, tables, 1 if small else None)
        found = {int(one["row"]): one for one in answers}
        assert len(found) == answers.size
        assert answers["row"].tolist() == sorted(found)
        held = world.held()
        bucket = buckets_of(tables.plan, world.table["sample"], world.table["key"])
        for row, family in enumerate(families):
            barcodes = {} if edges["score"][row] >= CERTAIN else world.asked(row)
            # The kernel's own sums of fine logarithms, so that ties are ties.
            exact = {barcode: errors_of(world, family, barcode) / FINE for barcode in barcodes}
            best = naive.best_answer(
                families,
                held,
                row,
                exact,
                partial(total_score, world),
                partial(is_rare, world, row),
            )
            rare += sum(is_rare(world, row, one) for one in exact.values())
            missed += family.reads == 1 and world.missed(row) > 0.01
            assert (best is None) == (row not in found)
            if best is None:
                continue
            parent = families[best[1]]
            one = found[row]
            parts = (best[0], *world.score(row, best[1], exact[parent.barcode])[1:])
            assert (int(one["score"]), *(int(one[name]) for name in PARTS)) == parts
            assert int(one["parent_key"]) == oracle.key_of(parent.barcode)
            assert int(one["parent_family"]) == parent.family
            assert int(one["parent_reads"]) == parent.reads
            assert int(one["parent_quality"]) == sum(parent.quality)
            seen += 1
            several += is_rivalled(world, families, held, row, exact, best[1])
            away += bucket[row] != bucket[best[1]]
            ties += parent.reads == family.reads
    assert seen > 60
    assert rare > 100
    # Reads misread in a way that is not asked for, and children of two possible parents.
    assert missed > 20
    assert several > 5
    assert ties > 5
    assert (away > 5) == (buckets > 1)


def is_rivalled(
    world: World,
    families: list[Family],
    held: dict[tuple[int, str, str], list[int]],
    child: int,
    errors: dict[str, float],
    best: int,
) -> bool:
    """Return whether a family of another barcode than the best parent's is one too."""
    key = (families[child].sample, len(families[child].cell))
    return any(
        total_score(world, child, other, one) >= 0
        for barcode, one in errors.items()
        if barcode != families[best].barcode and not is_rare(world, child, one)
        for other in held.get((key[0], barcode[: key[1]], barcode[key[1] :]), ())
        if families[other].rank < families[child].rank
    )


def is_rare(world: World, child: int, errors: float) -> bool:
    """Return whether these errors need a payload that agrees."""
    rate = (round(errors * FINE) + 512) >> 10
    return rate + kernels.LN_LARGE_PARENT < world.independent(child)


def total_score(world: World, child: int, parent: int, errors: float) -> int:
    """Return the score of a pair."""
    return world.score(child, parent, errors)[0]


def errors_of(world: World, family: Family, barcode: str) -> int:
    """Return the fine logarithm of the errors between two barcodes."""
    total = 0
    for at in range(len(family.cell), len(barcode)):
        table = world.model.right if barcode[at] == family.barcode[at] else world.model.misread
        total += int(table[family.sample, family.quality[at]])
    return family.reads * total


def test_of_equal_answers_the_parent_of_highest_rank() -> None:
    rows = [
        # row, score, reads, quality, key, family
        (4, 10, 5, 80, 7, 0),
        (4, 10, 5, 90, 9, 1),
        (4, 10, 5, 90, 8, 2),
        (4, 10, 5, 90, 8, 1),
        (4, 9, 6, 99, 1, 0),
        (2, -3, 1, 1, 1, 0),
        (2, -4, 9, 1, 1, 0),
        (3, 5, 2, 1, 9, 0),
        (3, 5, 3, 1, 9, 0),
    ]
    names = ["row", "score", "parent_reads", "parent_quality", "parent_key", "parent_family"]
    rng = random.Random(1)
    for _ in range(20):
        rng.shuffle(rows)
        answers = np.zeros(len(rows), ANSWER)
        for name, column in zip(names, zip(*rows, strict=True), strict=True):
            answers[name] = column
        found = best_answers(answers)[names].tolist()
        assert found == [(2, -3, 1, 1, 1, 0), (3, -1, 3, 1, 9, 0), (4, -1, 5, 90, 8, 1)]
    assert best_answers(answers[:0]).size == 0


def test_families_of_one_barcode_that_score_the_same_answer_by_quality(tmp_path: Path) -> None:
    draft = "ACGT" * 8
    # Equal reads, and no evidence in the payload: equal scores.
    parents = [
        Family(0, "", "ACGTACGT", 9, "A" + "N" * 31, (70,) * 8),
        Family(0, "", "ACGTACGT", 9, "C" + "N" * 31, (74,) * 8),
    ]
    child = Family(0, "", "TTGTACGT", 1, draft, (4, 4, *(74,) * 6))
    others = [Family(1, "", "A" * 8, 1, draft, (74,) * 8)]
    _, tables = world_of(tmp_path, in_order([*parents, child, *others]), 1)
    answers, _ = run(tmp_path, tables, None)
    assert answers["parent_quality"].tolist() == [8 * 74]
    assert answers["parent_family"].tolist() == [1]


def test_of_equals_the_smaller_key_ranks_above(tmp_path: Path) -> None:
    draft = "ACGT" * 8
    child = Family(0, "", "CCGTACGT", 1, draft, (4, 4, *(74,) * 6))
    even = (56, 56, 57, 57, 57, 57, 56, 56)
    assert sum(even) == sum(child.quality)
    others = [Family(0, "", umi, 1, draft, even) for umi in ("AAGTACGT", "TTGTACGT")]
    last = [Family(1, "", "A" * 8, 1, draft, (74,) * 8)]
    _, tables = world_of(tmp_path, in_order([child, *others, *last]), 1)
    answers, _ = run(tmp_path, tables, None)
    # Those with a smaller key: of the child, and of the other one.
    assert answers["row"].tolist() == [1, 2]
    assert answers["parent_key"].tolist() == [oracle.key_of("AAGTACGT")] * 2


def test_the_better_of_edge_and_answer_is_kept() -> None:
    rng = np.random.default_rng(1)
    names = ("parent_key", "score", "ln_error", "ln_independent", "payload", "parent_reads",
             "parent_family")  # fmt: skip
    for _ in range(20):
        edges = np.zeros(30, EDGE)
        rows = np.sort(rng.choice(60, 25, replace=False))
        answers = np.zeros(25, ANSWER)
        answers["row"] = rows
        for name in names:
            edges[name] = rng.integers(0, 6, 30)
            answers[name] = rng.integers(0, 6, 25)
        start = int(rng.integers(0, 40))
        expected = edges.copy()
        for one in answers:
            place = int(one["row"]) - start
            if 0 <= place < 30 and one["score"] > edges["score"][place]:
                for name in names:
                    expected[name][place] = one[name]
        apply_answers(edges, answers, start)
        assert edges[list(names)].tolist() == expected[list(names)].tolist()
