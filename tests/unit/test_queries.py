"""Queries: families with several unsure bases find the best of those who have what they may be."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle
import oracle_refine_stages as naive
from kernel_cases import cases
from link_fixture import buckets_of, in_order, table_of, write_model, write_tables
from oracle_link import Family
from stage_fixture import key_text
from umimill import asks, pieces, plan, queries
from umimill.asks import ASK
from umimill.blockfile import BlockFile
from umimill.jit import kernel
from umimill.kernels import answers as answers_kernels
from umimill.kernels import queries as kernels
from umimill.kernels.asks import CERTAIN, score_unasked
from umimill.kernels.known import REGIONS, has_bits, hash_key, seed_of
from umimill.kernels.score import EdgeModel, score_independent, score_payload
from umimill.link import EDGE, Outputs, link
from umimill.metrics import Meter
from umimill.queries import ANSWER, QUERY, apply_answers, best_answers
from umimill.settle import Rule, Sources, settle
from umimill.tally import FAMILY

FINE = 1 << 20
# Half-Phreds: unsure, less so, at the edge, sure.
LEVELS = (4, 22, 30, 34, 74)
NO_QUARTERS = np.zeros(1, np.uint64)
# A filter that lets all pass.
EVERY_KEY = kernels.Known(
    np.full(REGIONS, 2**64 - 1, np.uint64), NO_QUARTERS, np.arange(REGIONS + 1)
)
EVERYTHING = np.array([[0, 0], [2**64 - 1, 2**64 - 1]], np.uint64)


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leaf may be where a bucket ends."""
    monkeypatch.setattr(plan, "GROUP_ROWS", 0)


@kernel
def independent_of(families: Any, quality: Any, row: int, model: Any, places: Any) -> Any:
    return score_unasked(families, quality, row, families[row]["sample"], model, places)


@kernel
def molecules_of(families: Any, row: int, model: Any) -> Any:
    return score_independent(families[row], families[row]["sample"], model)


@kernel
def payload_of(families: Any, child: int, parent: int, model: Any) -> Any:
    few: Any = families[child]
    return score_payload(few, few["key"], families[parent], few["sample"], model)


@kernel
def changes_score(queries: Any, row: int, families: Any, parent: int, model: Any) -> Any:
    return answers_kernels.score_changes(queries[row], families[parent], model)


@dataclass(frozen=True)
class World:
    """Families, their table and model, and what is known of them."""

    families: list[Family]
    table: Any
    quality: Any
    model: EdgeModel

    def asked(self, row: int) -> dict[str, float]:
        """Return what a family without a certain parent asks for, within the bound."""
        family = self.families[row]
        if family.reads > naive.MOST_READS:
            return {}
        # Whole numbers, as the kernel has them: barcodes at the bound are many.
        misread, right = (
            table[family.sample].tolist() for table in (self.model.misread, self.model.right)
        )
        least = self.independent(row) + int(self.model.clonal[family.sample])
        least -= kernels.LN_LARGE_PARENT
        found = naive.asked(family, misread, right, kernels.UNSURE_MISREAD)
        return {
            barcode: errors / FINE
            for barcode, errors in found.items()
            if (int(errors) + 512) >> 10 >= least
        }

    def independent(self, row: int) -> int:
        """Return the score of a family without a parent."""
        places = np.zeros(kernels.MOST_UNSURE, np.int64)
        found = int(independent_of(self.table, self.quality, row, self.model, places))
        assert found / 1024 == pytest.approx(self.unasked(row), abs=0.01)
        return found

    def unasked(self, row: int) -> float:
        """Return what `independent` is for its naive twin."""
        family, model = self.families[row], self.model
        sample = family.sample
        return naive.ln_unasked(
            int(molecules_of(self.table, row, model)) / 1024,
            family.reads,
            self.missed(row),
            math.exp(int(model.reads[sample]) / FINE),
            math.exp(int(model.families[sample] + model.sizes[sample, 1]) / FINE),
        )

    def missed(self, row: int) -> float:
        """Return the chance that a read of a family is misread in a way that is not asked for."""
        family = self.families[row]
        misread, right = (
            (table[family.sample] / FINE).tolist()
            for table in (self.model.misread, self.model.right)
        )
        return naive.missed_both(family, misread, right, kernels.UNSURE_MISREAD / FINE)

    def held(self) -> dict[tuple[int, str, str], list[int]]:
        """Return the families of each key."""
        found: dict[tuple[int, str, str], list[int]] = {}
        for row, one in enumerate(self.families):
            found.setdefault((one.sample, one.cell, one.umi), []).append(row)
        return found

    def score(self, child: int, parent: int, errors: float) -> tuple[int, int, int, int]:
        """Return the score of a pair and its parts."""
        few, many = self.families[child], self.families[parent]
        query = np.zeros(1, QUERY)
        query["reads"], query["sample"] = few.reads, few.sample
        query["changes"] = round(errors * FINE)
        error = int(changes_score(query, 0, self.table, parent, self.model))
        growth = (self.model.growth[few.sample] / FINE).tolist()
        assert error / 1024 == pytest.approx(
            naive.ln_changes(few.reads, many.reads, growth, errors), abs=0.01
        )
        independent = self.independent(child)
        payload = int(payload_of(self.table, child, parent, self.model))
        return error - independent + payload, error, independent, payload


def changed(rng: random.Random, umi: str, places: Sequence[int]) -> str:
    return "".join(
        rng.choice([base for base in "ACGT" if base != letter]) if at in places else letter
        for at, letter in enumerate(umi)
    )


def random_families(rng: random.Random, molecules: int) -> list[Family]:
    """Make molecules, some on one barcode, and reads of theirs misread at unsure bases."""
    made: list[Family] = []
    drafts = ["".join(rng.choices("ACGT", k=32)) for _ in range(4)]

    def add(sample: int, cell: str, umi: str, reads: int, quality: Sequence[int]) -> None:
        draft = list(rng.choice(drafts))
        for at in range(32 - rng.choice([0, 0, 10, 24]), 32):
            draft[at] = "N"
        made.append(Family(sample, cell, umi, reads, "".join(draft), tuple(quality)))

    for _ in range(molecules):
        sample = rng.randrange(2)
        cell, length = rng.choice([("", 6), ("", 8), ("AC", 6), ("AG", 6)])
        # An A behind or not: keys of several lengths that are one word.
        umi = "".join(rng.choices("ACGT", k=length - 1)) + rng.choice("AC")
        if rng.random() < 0.2 and made:
            umi = (made[-1].umi + "A" * length)[:length]
        size = len(cell) + length
        for _ in range(rng.choice([1, 1, 2, 3])):
            add(sample, cell, umi, rng.choice([1, 2, 2, 9, 60]), [rng.choice([70, 74])] * size)
        for _ in range(rng.randrange(4)):
            quality = [rng.choice(LEVELS) for _ in range(size)]
            unsure = [at for at in range(length) if quality[len(cell) + at] < 34]
            places = rng.sample(unsure, min(len(unsure), rng.choice([2, 2, 3, 5])))
            add(sample, cell, changed(rng, umi, places), rng.choice([1, 1, 2, 3, 4]), quality)
    return in_order(made)


def world_of(folder: Path, families: list[Family], buckets: int) -> tuple[World, Any]:
    table, quality = table_of(families)
    tables = write_tables(folder, table, quality, [2, 2], buckets)
    model = write_model(tables.plan_path, table, quality, folder / "model")
    return World(families, table, quality, model), tables


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


def run(folder: Path, tables: Any, room: int | None) -> tuple[Any, Any]:
    """Link and settle; return the answers by row of the whole table, and the edges."""
    edges, asks = [], []
    for bucket in range(len(tables.paths)):
        edges.append(folder / f"{bucket}.edges")
        asks.append(folder / f"{bucket}.queries")
        link(
            tables.plan_path,
            tables.paths,
            bucket,
            folder / "model",
            Outputs(edges[-1], asks[-1]),
            Meter("link", "L", 1000),
            block_bytes=room,
        )
    output = folder / "settled"
    meter = Meter("settle", "L", 1000)
    settle(
        tables.plan_path,
        Sources(tables.paths, edges, asks),
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


PARTS = ("ln_error", "ln_independent", "payload")


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
