"""The score of an edge against its naive twin, and its parts."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import oracle_score
import score_fixture
import score_judge
from kernel_cases import cases
from score_fixture import FAMILY, World
from umimill import census, molecule_sizes, payloads
from umimill.jit import kernel
from umimill.kernels import drafts, score
from umimill.kernels.families import hash_families
from umimill.kernels.score import EdgeModel
from umimill.likelihood import FINE, UNIT, log_tables, softplus_table
from umimill.model import common_tables, sample_tables

BASES = "ACGT"
TOLERANCE = 8


@kernel
def ln_whole(log: Any, value: int) -> int:
    return score.ln_whole(log, value)


@kernel
def ln_factorial(log: Any, factorial: Any, value: int) -> int:
    return score.ln_factorial(log, factorial, value)


@kernel
def size_bin(reads: int) -> int:
    return score.size_bin(reads)


@kernel
def error_class(error: int) -> int:
    return score.error_class(error)


@kernel
def spread_mask(mask: Any) -> Any:
    return drafts.mask_to_lanes(mask)


@kernel
def log_add(softplus: Any, first: int, second: int) -> int:
    return score.log_add(softplus, first, second)


@kernel
def ranks_above(
    families: Any, quality: Any, row: int, others: Any, other_quality: Any, other: int
) -> bool:
    return score.ranks_above(families, quality, row, others, other_quality, other)


@kernel
def ln_polymerase(log: Any, few: int, many: int) -> int:
    return score.ln_polymerase(log, few, many)


WHOLES = [1, 2, 3, 4095, 4096, 4097, 8191, 8192, 10_007, 123_456_789, 2**32 - 1, 2**33]


@pytest.mark.parametrize("value", WHOLES)
def test_logarithm_of_a_whole_number(value: int) -> None:
    assert abs(ln_whole(log_tables()[0], value) - FINE * math.log(value)) <= 2


@pytest.mark.parametrize("value", [0, *WHOLES])
def test_factorial(value: int) -> None:
    found = ln_factorial(*log_tables(), value)
    assert found == pytest.approx(FINE * math.lgamma(value + 1), rel=3e-7, abs=2)


def test_bins_of_sizes() -> None:
    bounds = molecule_sizes.size_bounds().tolist()
    assert len(bounds) == score.SIZE_BINS + 1
    assert bounds == sorted(bounds)
    for number, (low, high) in enumerate(itertools.pairwise(bounds)):
        for reads in {low, (low + high) // 2, high - 1}:
            assert size_bin(reads) == number


def test_classes_of_errors() -> None:
    values = np.array([2, 3, *range(60, 200), 1000, 10_000, 524_287, 786_432, 1 << 20, 3 << 19])
    classes = payloads.error_classes(values)
    assert [error_class(int(value)) for value in values] == classes.tolist()
    assert error_class(1) == error_class(0) == 0
    assert (np.diff(classes) >= 0).all()


def test_masks_are_spread() -> None:
    draw = random.Random(1)
    for mask in (0, 1, 0x80000000, 0xFFFFFFFF, *(draw.getrandbits(32) for _ in range(20))):
        wanted = sum(1 << (2 * bit) for bit in range(32) if mask >> bit & 1)
        assert int(spread_mask(np.uint32(mask))) == wanted


def test_sums_of_logarithms() -> None:
    for first, second in ((0, 0), (-5000, -4000), (9, -7807), (7, -7808), (3, score.IMPOSSIBLE)):
        wanted = UNIT * oracle_score.log_sum(first / UNIT, second / UNIT)
        assert abs(log_add(softplus_table(), first, second) - wanted) <= 0.5 + 1e-6
        assert log_add(softplus_table(), second, first) == log_add(softplus_table(), first, second)


# The twin


@cache
def models() -> tuple[tuple[oracle_score.Facts, EdgeModel], ...]:
    """Return facts of three worlds, and their tables as three samples of one model."""
    worlds = (
        World(molecules=400, depth=3, clones=5, seed=1),
        World(molecules=200, depth=20, clones=1, seed=2, weights=(0.4, 0.3, 0.2, 0.1)),
        World(molecules=300, depth=1.2, clones=300, seed=3, levels=(30,), shares=(1.0,)),
    )
    facts, rows = [], []
    for world in worlds:
        library = score_fixture.simulate(world)
        sums = score_fixture.sample_sums(library)
        errors = payloads.draft_error_table(sums.phreds)
        one = census.estimate(sums)
        draws = with_relatives(score_fixture.sums(library)["draws"], world.clones == 5)
        rows.append(sample_tables(replace(one, crowd=37.0), errors, draws))
        drawn = int(rows[-1]["drawn"][0])
        hashes, texts = rows[-1]["drawn_hash"][:drawn].tolist(), draft_texts(rows[-1], drawn)
        facts.append(
            oracle_score.Facts(
                one.molecules,
                one.molecules / one.families * 37.0,
                one.composition.tolist(),
                one.errors.tolist(),
                one.error,
                one.sizes.tolist(),
                molecule_sizes.size_bounds().tolist(),
                one.growth.tolist(),
                (errors / FINE).tolist(),
                one.equal_payloads,
                one.unrelated.tolist(),
                tuple(zip(hashes, texts, strict=True)),
                int(rows[-1]["drawn"][1]) / FINE,
            )
        )
    tables = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    edge_model = EdgeModel(**common_tables(), **tables)
    return tuple((one, edge_model) for one in facts)


def with_relatives(draws: Any, wanted: bool) -> Any:
    """Change each third draft of a sample, at bases of its own: payloads that are not frequent."""
    for number in range(0, draws.size if wanted else 0, 3):
        for at in (number % 32, (7 * number + 3) % 31):
            draws["draft"][number] ^= np.uint64(2 << (62 - 2 * at))
    return draws


def draft_texts(tables: dict[str, Any], count: int) -> list[str]:
    """Return the drafts of the families drawn, in letters."""
    found = []
    for number in range(count):
        draft, lanes = (int(tables[name][number]) for name in ("drawn_draft", "drawn_lanes"))
        found.append(
            "".join(
                BASES[draft >> (62 - 2 * at) & 3] if lanes >> (62 - 2 * at) & 1 else "."
                for at in range(32)
            )
        )
    return found


def random_family(draw: random.Random, barcode: str, reads: int) -> oracle_score.Family:
    known = draw.choice([0, 11, 12, 20, 32, 32, 32])
    draft = ["."] * 32
    for at in draw.sample(range(32), known):
        draft[at] = draw.choice(BASES)
    quality = tuple(draw.randrange(187) for _ in barcode)
    return oracle_score.Family(
        barcode,
        "".join(draft),
        reads,
        draw.randrange(5),
        quality,
        draw.randrange(81),
        draw.randrange(len(barcode)),
    )


def random_edge(draw: random.Random) -> tuple[oracle_score.Family, oracle_score.Family, int]:
    length = draw.choice([1, 6, 12, 32])
    barcode = "".join(draw.choices(BASES, k=length))
    position = draw.randrange(length)
    other = barcode[:position] + draw.choice(BASES.replace(barcode[position], ""))
    other += barcode[position + 1 :]
    many = draw.choice([1, 2, 3, 8, 15, 16, 17, 31, 32, 100, 4095, 10_000, 2**32 - 1])
    few = draw.choice([one for one in (1, 1, 1, 2, 3, 16, 17, 40, 100, many) if one <= many])
    child, parent = random_family(draw, other, few), random_family(draw, barcode, many)
    if draw.random() < 0.7:
        # Alike but for a few bases.
        draft = list(parent.draft)
        for at in draw.sample(range(32), draw.choice([0, 0, 1, 3, 8])):
            draft[at] = draw.choice(BASES + ".")
        child = replace(child, draft="".join(draft))
    return child, parent, position


def tables_of(family: oracle_score.Family, sample: int) -> tuple[Any, Any]:
    """Return FAMILY[2] and u8[2, 32], the family behind one of zeros."""
    rows, quality = np.zeros(2, FAMILY), np.zeros((2, 32), np.uint8)
    row = rows[1]
    row["key"] = sum(BASES.index(base) << (62 - 2 * at) for at, base in enumerate(family.barcode))
    row["draft"] = sum(
        BASES.index(base) << (62 - 2 * at) for at, base in enumerate(family.draft) if base != "."
    )
    row["mask"] = sum(1 << (31 - at) for at, base in enumerate(family.draft) if base != ".")
    row["reads"], row["sample"], row["family"] = family.reads, sample, family.family
    row["cell_length"], row["umi_length"] = family.cell, len(family.barcode) - family.cell
    row["draft_quality"] = family.draft_quality
    quality[1, : len(family.quality)] = family.quality
    return rows, quality


def kernel_score(
    child: oracle_score.Family, parent: oracle_score.Family, position: int, sample: int
) -> list[int]:
    first, second = tables_of(child, sample), tables_of(parent, sample)
    found = score_judge.score_edge(*first, 1, *second, 1, position, models()[sample][1])
    return [int(one) for one in found]


def test_score_is_the_twin_s() -> None:
    draw = random.Random(7)
    for _ in range(cases(6_000)):
        sample = draw.randrange(3)
        child, parent, position = random_edge(draw)
        wanted = oracle_score.score(models()[sample][0], child, parent, position)
        found = kernel_score(child, parent, position, sample)
        for one, twin in zip(found, wanted, strict=True):
            # What is said with a million reads is far from any threshold.
            twin = min(max(twin * UNIT, -score.MOST_TERM), score.MOST_TERM)
            if abs(twin) == score.MOST_TERM:
                continue
            slack = TOLERANCE + 2e-6 * max(abs(twin), child.reads * UNIT)
            assert abs(one - twin) <= slack, (child, parent, position, sample)


def test_close_scores_are_within_eight_units() -> None:
    draw = random.Random(8)
    seen = 0
    for _ in range(cases(6_000)):
        sample = draw.randrange(3)
        child, parent, position = random_edge(draw)
        wanted = oracle_score.score(models()[sample][0], child, parent, position)
        if abs(wanted[0]) > 100 or child.reads > 100:
            continue
        seen += 1
        found = kernel_score(child, parent, position, sample)
        for one, twin in zip(found, wanted, strict=True):
            assert abs(one - twin * UNIT) <= TOLERANCE, (child, parent, position, sample)
    assert seen > cases(6_000) // 4


def changed(draw: random.Random, draft: str, places: int) -> str:
    """Return a draft with other letters at some places."""
    letters = list(draft)
    for at in draw.sample(range(32), places):
        letters[at] = draw.choice(BASES + ".")
    return "".join(letters)


def test_payloads_of_families_drawn_count_as_the_twin_says() -> None:
    draw = random.Random(11)
    frequent = 0
    for _ in range(cases(600)):
        sample = draw.randrange(3)
        facts = models()[sample][0]
        child, parent, position = random_edge(draw)
        draft = changed(draw, draw.choice(facts.drawn)[1], draw.choice([0, 0, 1, 2]))
        parent = replace(parent, draft=draft)
        child = replace(child, draft=changed(draw, draft, draw.choice([0, 0, 1, 2, 4])))
        wanted = oracle_score.payload(facts, child, parent)
        found = kernel_score(child, parent, position, sample)[3]
        assert abs(found - wanted * UNIT) <= TOLERANCE, (child, parent, position, sample)
        plain = oracle_score.payload(replace(facts, drawn=()), child, parent)
        frequent += abs(plain - wanted) > 0.1
    assert frequent > cases(600) // 4


@pytest.mark.parametrize("which", [0, 1])
def test_a_family_is_no_witness_of_its_own_payload(which: int) -> None:
    """Nor is its parent: an edge is worth more where it is the pair itself that was drawn."""
    facts, model = models()[0]
    better = 0
    for number, (_, draft) in enumerate(facts.drawn[: cases(40)]):
        rows, quality = np.zeros(2, FAMILY), np.zeros((2, 32), np.uint8)
        rows["umi_length"], rows["reads"], rows["draft_quality"] = 12, (1, 3), 80
        rows["key"] = np.array([number, number + (1 << 40)], np.uint64) << np.uint64(20)
        rows["draft"] = model.drawn_draft[0, number]
        rows["mask"] = sum(1 << (31 - at) for at, base in enumerate(draft) if base != ".")
        hashes = np.empty(2, np.uint64)
        hash_families(rows, hashes)
        own = model.drawn_hash.copy()
        own[0, number] = hashes[which]
        by_other, by_own = (
            score_judge.score_edge(rows, quality, 0, rows, quality, 1, 0, tables)[3]
            for tables in (model, model._replace(drawn_hash=own))
        )
        better += by_own > by_other + UNIT // 5
    # A third of the families drawn have a payload of their own.
    assert better > cases(40) // 5


def test_terms_stay_in_range_and_add_up() -> None:
    draw = random.Random(9)
    for _ in range(cases(2_000)):
        found, error, independent, payload = kernel_score(*random_edge(draw), draw.randrange(3))
        assert abs(found) <= score.MOST_SCORE
        assert max(abs(error), abs(independent)) <= score.MOST_TERM
        assert abs(payload) <= score.MOST_PAYLOAD
        assert found == min(max(error - independent + payload, -(1 << 30)), 1 << 30)


def edge(few: int, many: int, **changes: Any) -> list[int]:
    """Score an edge of a plain kind, all else equal."""
    options = {"half": 74, "child_draft": "ACGT" * 8, "sample": 0, **changes}
    parent = oracle_score.Family("ACGTACGTACGT", "ACGT" * 8, many, 0, (74,) * 12, 80)
    quality = (74,) * 5 + (options["half"],) + (74,) * 6
    child = oracle_score.Family(
        "ACGTATGTACGT", options["child_draft"], few, 0, quality, 72 if few == 1 else 80
    )
    return kernel_score(child, parent, 5, options["sample"])


def test_a_bad_base_is_more_likely_an_error() -> None:
    scores = [edge(1, 3, half=half)[0] for half in (4, 24, 46, 74)]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 4


def test_more_reads_of_the_parent_speak_for_an_error() -> None:
    assert edge(1, 1000)[0] > edge(1, 40)[0] > edge(1, 8)[0]


def test_another_payload_speaks_against_it() -> None:
    near = [edge(1, 40, child_draft="T" * away + ("ACGT" * 8)[away:])[3] for away in (0, 32)]
    assert near[0] > 0 > near[1]
    assert near[1] < -10 * UNIT


def test_a_number_of_mismatches_never_seen_speaks_for_nothing() -> None:
    for away in range(4, 33):
        assert edge(1, 40, child_draft="T" * away + ("ACGT" * 8)[away:])[3] <= (
            0 if away > 4 else score.MOST_PAYLOAD
        )


def test_a_payload_that_all_have_says_nothing() -> None:
    """Sample 1 has one clone."""
    assert abs(edge(1, 40, sample=1)[3]) < 5


def test_many_reads_of_one_error_are_the_polymerase_s() -> None:
    """c = 25 of 1,025 by PCR is what is left where sequencing has e^-100 for it."""
    wanted = math.log(1025 * 1e-5 / 3 / math.log(2) / (25 * 24))
    assert edge(25, 1000)[1] == pytest.approx(wanted * UNIT, abs=2)


@pytest.mark.parametrize(("few", "reads"), [(2, 20), (5, 40), (30, 1000), (500, 10_000)])
def test_polymerase_is_that_of_doubling_copies(few: int, reads: int) -> None:
    """2^t copies are made in cycle t, of which a read comes from each as likely as from another."""
    wanted = found = 0.0
    # Whole cycles make steps of a doubling.
    for carried in range(few, 2 * few):
        ways = math.lgamma(reads + 1) - math.lgamma(carried + 1) - math.lgamma(reads - carried + 1)
        for share in (2.0**-cycle for cycle in range(1, 51)):
            chance = ways + carried * math.log(share) + (reads - carried) * math.log1p(-share)
            wanted += math.exp(chance) / share * 1e-5 / 3
        ln_found = ln_polymerase(log_tables()[0], carried, reads - carried)
        found += math.exp(ln_found / FINE)
    assert found == pytest.approx(wanted, rel=0.1)


def test_no_polymerase_error_is_in_more_than_a_third() -> None:
    assert ln_polymerase(log_tables()[0], 5, 9) == score.IMPOSSIBLE
    assert ln_polymerase(log_tables()[0], 5, 10) > score.IMPOSSIBLE


def test_errors_of_one_read_are_those_of_its_bases() -> None:
    assert ln_polymerase(log_tables()[0], 1, 5) == score.IMPOSSIBLE


# Rank


def test_rank_orders_all_families() -> None:
    draw = random.Random(3)
    families = []
    for _ in range(30):
        one = random_family(draw, "".join(draw.choices("AC", k=2)), draw.choice([1, 2]))
        quality = (one.quality[0] % 2, 1)
        families.append(
            oracle_score.Family(one.barcode, one.draft, one.reads, one.family % 2, quality, 0)
        )
    for first, second in itertools.product(families[: cases(100) + 5], families):
        wanted = oracle_score.rank(first) < oracle_score.rank(second)
        assert ranks_above(*tables_of(first, 0), 1, *tables_of(second, 0), 1) == wanted


def test_each_rule_of_the_rank_decides() -> None:
    def family(reads: int, quality: int, barcode: str, number: int) -> Any:
        return tables_of(
            oracle_score.Family(barcode, "." * 32, reads, number, (quality, quality), 0), 0
        )

    order = [
        family(3, 1, "TT", 1),
        family(2, 60, "TT", 1),
        family(2, 50, "AA", 1),
        family(2, 50, "AC", 0),
        family(2, 50, "AC", 1),
    ]
    for first, second in itertools.combinations(order, 2):
        assert ranks_above(*first, 1, *second, 1)
        assert not ranks_above(*second, 1, *first, 1)
    assert not ranks_above(*order[0], 1, *order[0], 1)
