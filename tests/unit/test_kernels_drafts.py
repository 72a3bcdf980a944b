"""Drafts and the clusters of a key against strings."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numba import config

import kernel_wrappers as wrapped
import oracle
import oracle_drafts as naive
from draft_cases import (
    WIDTH,
    batch_of,
    drafts_of,
    random_key,
    reads_of,
    simple_rows,
    tied_reads,
)
from kernel_cases import random_sequence, templates
from oracle import Template
from oracle_drafts import Draft
from score_fixture import wrong_bases
from umimill.drafts import draft_strides, make_clusters, make_drafts
from umimill.kernels import drafts as kernels
from umimill.kernels import placing, tally
from umimill.kernels.consensus import Batch
from umimill.kernels.drafts import Drafts
from umimill.tally import FAMILY
from umimill.tally_sums import new_phreds

ROUNDS, MOST_READS = (20, 20) if config.DISABLE_JIT else (200, 200)
WORDS = st.integers(0, 2**64 - 1)


# -- words -----------------------------------------------------------------------------------------


@given(WORDS)
def test_splitmix_is_the_oracle(value: int) -> None:
    assert int(wrapped.splitmix64(np.uint64(value))) == naive.splitmix64(value)


def test_splitmix_is_the_published_one() -> None:
    # The first numbers of the generator started at 0.
    states = [number * 0x9E3779B97F4A7C15 % 2**64 for number in range(3)]
    assert [naive.splitmix64(state) for state in states] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


@given(st.integers(0, 2**32 - 1))
def test_masks_in_lanes(mask: int) -> None:
    lanes = wrapped.mask_to_lanes(np.uint32(mask))
    assert format(int(lanes), "064b") == "".join("0" + bit for bit in format(mask, "032b"))
    assert int(wrapped.lanes_to_mask(lanes)) == mask


@given(st.lists(st.integers(0, 3), max_size=130), st.integers(1, 3))
def test_values_are_taken_by_stride(values: list[int], stride: int) -> None:
    words = np.array([9, *oracle.pack(values, 2), 9], np.uint64)
    taken = int(wrapped.take_values(words, 1, len(values), stride))
    expected = values[::stride][:32]
    assert oracle.unpack([taken], len(expected), 2) == expected
    # What lies behind the values in their last word is 0.
    assert oracle.unpack([taken], 32, 2)[len(expected) :] == [0] * (32 - len(expected))


drafts_strategy = st.text("ACGT.", min_size=32, max_size=32)


@given(drafts_strategy, drafts_strategy, st.integers(0, 32))
def test_drafts_are_compared(first: str, second: str, same: int) -> None:
    second = first[:same] + second[same:]
    first_words = np.uint64(naive.word(first)), np.uint32(naive.mask(first))
    second_words = np.uint64(naive.word(second)), np.uint32(naive.mask(second))
    assert wrapped.compare_drafts(*first_words, *second_words) == (
        naive.mismatches(first, second),
        naive.compared(first, second),
    )
    assert wrapped.are_compatible(*first_words, *second_words) == naive.compatible(first, second)


@pytest.mark.parametrize(("known", "most"), [(32, 3), (27, 3), (26, 2), (16, 2), (15, 1), (12, 1)])
def test_mismatches_that_one_molecule_has(known: int, most: int) -> None:
    draft = "A" * known + "." * (32 - known)
    words = np.uint64(naive.word(draft)), np.uint32(naive.mask(draft))
    for different in range(known + 1):
        other = np.uint64(naive.word("C" * different + "A" * (32 - different)))
        found = wrapped.are_compatible(*words, other, np.uint32(2**32 - 1))
        assert found == (different <= most)


def test_few_bases_say_nothing() -> None:
    first, second = "A" * 11 + "." * 21, "C" * 32
    words = [(np.uint64(naive.word(one)), np.uint32(naive.mask(one))) for one in (first, second)]
    assert wrapped.are_compatible(*words[0], *words[1])


# -- drafts of rows --------------------------------------------------------------------------------


@given(
    st.lists(templates(longest=200, levels=[2, 9, 10, 37]), min_size=1, max_size=6),
    st.lists(st.integers(1, 3), min_size=2, max_size=2),
    st.sampled_from([0, 2, 3, 10, 38, 94]),
)
def test_drafts_of_rows_are_the_oracle(
    rows: list[Template], strides: list[int], least_quality: int
) -> None:
    for levels in (None, [2, 9, 10, 37]):
        batch = batch_of(rows, levels)
        found = make_drafts(len(rows))
        for one in found:
            one[:] = 77
        kernels.extract_drafts(batch, np.array(strides), least_quality, found)
        assert reads_of(found) == [
            naive.take_draft(row, strides[row.sample], least_quality) for row in rows
        ]


def test_strides() -> None:
    rows = np.array([0, 10, 10, 10, 10, 10])
    bases = np.array([0, 0, 639, 640, 959, 9600])
    expected = [1, 1, 1, 2, 2, 3]
    assert draft_strides(rows, bases).tolist() == expected
    assert [naive.stride_of(*pair) for pair in zip(rows, bases, strict=True)] == expected


# -- families --------------------------------------------------------------------------------------


class Tables:
    """The families that the kernels find."""

    def __init__(self, rows: int, samples: int = 1) -> None:
        self.families = np.full(rows, 255, np.uint8).repeat(32).view(FAMILY)
        self.quality = np.full((rows, WIDTH), 255, np.uint8)
        self.phreds = new_phreds(samples)

    def rows(self, count: int) -> list[tuple[Any, ...]]:
        return [
            (
                naive.unpack_draft(int(one["draft"]), int(one["mask"])),
                *(int(one[name]) for name in ("reads", "family", "draft_quality", "flags")),
                quality,
            )
            for one, quality in zip(
                self.families[:count], self.quality[:count].tolist(), strict=True
            )
        ]


def expected_rows(
    rows: Sequence[Template], reads: Sequence[Draft], stride: int = 0, **most: int
) -> list[tuple[Any, ...]]:
    found = []
    for number, family in enumerate(naive.find_families(reads, rows, stride, **most)):
        flags = family.overfull * tally.OVERFULL + family.shifted * tally.SHIFTED
        count = len(family.rows)
        sums = [
            sum(one) for one in zip(*(rows[r].barcode_quality for r in family.rows), strict=True)
        ]
        quality = [(4 * total + count) // (2 * count) for total in sums]
        quality += [0] * (WIDTH - len(quality))
        found.append((family.draft, count, number, family.trust, flags, quality))
    return found


def check_phreds(found: tally.Phreds, phreds: Any) -> None:
    """Compare sums with the Phreds of all reads, a row each; they have no cell."""
    assert found.counts[0].tolist() == np.bincount(phreds.ravel(), minlength=94).tolist()
    # Each read's share is rounded.
    assert found.wrong[0] == pytest.approx(wrong_bases(phreds), rel=1e-4, abs=len(phreds))


def in_memory(
    batch: Batch, drafts: Drafts, order: Any, clusters: Any, stride: int = 0
) -> list[tuple[Any, ...]]:
    tables = Tables(len(order))
    count = tally.tally_rows(
        batch,
        drafts,
        np.array([stride]),
        order,
        clusters,
        tables.families,
        tables.quality,
        tables.phreds,
    )
    check_phreds(tables.phreds, batch.barcode_quality[:, :6])
    return tables.rows(count)


def in_passes(
    rng: random.Random,
    rows: Sequence[Template],
    stride: int,
    clusters: Any,
    *,
    shifts: bool = False,
) -> list[tuple[Any, ...]]:
    """Take a key in passes, each over pieces of another order."""
    tables = Tables(clusters.leader.size)
    hot = batch_of(rows[:1]).hot

    def between(step: int) -> int:
        return int(tally.between_passes(step, hot, clusters, tables.families, tables.quality))

    between(tally.BEGIN)
    for step in (tally.COLLECT, tally.ADD, tally.ASSIGN):
        left = rng.sample(list(rows), len(rows))
        while left:
            size = rng.randint(1, len(left))
            batch, left = batch_of(left[:size]), left[size:]
            drafts = make_drafts(size)
            kernels.extract_drafts(batch, np.array([stride]), 10, drafts)
            strides = np.array([stride if shifts else 0])
            tally.pass_rows(step, batch, drafts, strides, clusters, tables.families, tables.phreds)
        if step == tally.COLLECT:
            between(tally.CHOOSE)
        elif step == tally.ADD:
            between(tally.CALL)
    check_phreds(tables.phreds, np.array([row.barcode_quality for row in rows]))
    return tables.rows(between(tally.FINISH))


def test_families_are_the_oracle() -> None:
    rng = random.Random(1)
    clusters = make_clusters(1 << 10, 1 << 8)
    several = Counter[int]()
    shifted = 0
    for _ in range(ROUNDS):
        rows = random_key(rng, MOST_READS)
        stride = rng.randint(1, 3)
        reads = [naive.take_draft(row, stride, 10) for row in rows]
        batch = batch_of(rows)
        drafts = make_drafts(len(rows))
        kernels.extract_drafts(batch, np.array([stride]), 10, drafts)
        expected = expected_rows(rows, reads, stride)
        order = np.array(rng.sample(range(len(rows)), len(rows)))
        assert in_memory(batch, drafts, order, clusters, stride) == expected
        assert in_passes(rng, rows, stride, clusters, shifts=True) == expected
        assert sum(row[1] for row in expected) == len(rows)
        several[min(4, len(expected))] += 1
        shifted += sum(row[4] == tally.SHIFTED for row in expected)
    if not config.DISABLE_JIT:
        assert shifted > 5
        assert min(several[number] for number in (1, 2, 3, 4)) > 5, several


def test_families_where_not_all_fit() -> None:
    """Few drafts are looked at, few families are kept: the rest is counted with them."""
    rng = random.Random(2)
    flagged = 0
    for _ in range(ROUNDS):
        rows = random_key(rng, min(60, MOST_READS))
        distinct, most = rng.choice([4, 8, 16]), rng.randint(1, 3)
        reads = [naive.take_draft(row, 1, 10) for row in rows]
        expected = expected_rows(rows, reads, distinct=distinct, most=most)
        clusters = make_clusters(distinct, most)
        drafts = drafts_of(reads)
        order = np.array(rng.sample(range(len(rows)), len(rows)))
        assert in_memory(batch_of(rows), drafts, order, clusters) == expected
        assert in_passes(rng, rows, 1, clusters) == expected
        assert sum(row[1] for row in expected) == len(rows)
        flagged += expected[0][4]
    assert flagged or config.DISABLE_JIT


def test_families_where_much_is_equal() -> None:
    rng = random.Random(4)
    for _ in range(10 * ROUNDS):
        reads = tied_reads(rng)
        distinct, most = rng.choice([(64, 16), (4, 16), (2, 2)])
        rows = simple_rows([""] * len(reads))
        expected = expected_rows(rows, reads, distinct=distinct, most=most)
        order = np.array(rng.sample(range(len(rows)), len(rows)))
        clusters = make_clusters(distinct, most)
        assert in_memory(batch_of(rows), drafts_of(reads), order, clusters) == expected


def test_leaders_whose_reads_make_the_same_draft() -> None:
    """Low qualities lead, high ones decide: both leaders' families come to agree."""
    rest = "A" * 28
    texts = [("AAAA", 10, 3), ("CCCC", 10, 2), ("CCAA", 40, 1), ("CC.A", 40, 1), ("CCA.", 40, 1)]
    reads = [
        Draft(text + rest, tuple(level * (one != ".") for one in text + rest))
        for text, level, count in texts
        for _ in range(count)
    ]
    rows = simple_rows([""] * len(reads))
    leaders, _ = naive.find_leaders([read.text for read in reads], 16, 16)
    assert leaders == ["AAAA" + rest, "CCCC" + rest]
    found = in_memory(batch_of(rows), drafts_of(reads), np.arange(len(rows)), make_clusters(16, 16))
    assert found == expected_rows(rows, reads)
    assert [row[:2] for row in found] == [("CCAA" + rest, len(reads))]


def test_shifted_is_said_of_the_largest_family_alone() -> None:
    """Three equal reads lead, but six that are misread somewhere are the first family."""
    rng = random.Random(7)
    lead, most = random_sequence(rng, 50), random_sequence(rng, 50)
    misread = [
        most[:at] + "ACGT"[("ACGT".index(most[at]) + 1) % 4] + most[at + 1 :] for at in range(6)
    ]
    beside = "A" + lead[:-1]
    for count, flags in ((6, [0, 0, 0]), (2, [0, 0, tally.SHIFTED])):
        # Of two reads it is not the first.
        rows = simple_rows([lead] * 3 + [beside] + misread[:count])
        reads = [naive.take_draft(row, 1, 10) for row in rows]
        drafts, order = drafts_of(reads), np.arange(len(rows))
        found = in_memory(batch_of(rows), drafts, order, make_clusters(64, 64), 1)
        assert found == expected_rows(rows, reads, 1)
        assert sorted(row[4] for row in found) == flags


def found_families(rows: Sequence[Template]) -> list[tuple[Any, ...]]:
    batch = batch_of(rows)
    drafts = make_drafts(len(rows))
    kernels.extract_drafts(batch, np.array([1]), 10, drafts)
    return in_memory(batch, drafts, np.arange(len(rows)), make_clusters(1 << 13, 1 << 12))


def test_reads_without_a_draft_are_one_family() -> None:
    for texts in (["ACGT", "", "T" * 11], ["T" * 11]):
        family = (naive.UNKNOWN, len(texts), 0, 0, 0, [60] * 6 + [0] * 6)
        assert found_families(simple_rows(texts)) == [family]


def test_reads_that_say_nothing_do_not_lead() -> None:
    """Three empty reads do not keep the two that say something from making the draft."""
    families = found_families(simple_rows(["", "", "", "ACGT" * 8, "ACGT" * 8]))
    assert families == [("ACGT" * 8, 5, 0, 80, 0, [60] * 6 + [0] * 6)]


def test_two_molecules_and_a_chimera() -> None:
    first, second = "ACGT" * 8, "CATG" * 8
    rows = simple_rows([first] * 5 + [second] * 3 + [first[:16] + second[16:]])
    assert [(row[0], row[1]) for row in found_families(rows)] == [
        (first, 5),
        (second, 3),
        (first[:16] + second[16:], 1),
    ]


@pytest.mark.skipif(config.DISABLE_JIT, reason="takes minutes")
def test_key_with_too_many_families() -> None:
    rng = random.Random(3)
    rows = simple_rows([random_sequence(rng, 32) for _ in range(5000)])
    families = found_families(rows)
    assert len(families) <= 4096
    assert len(families) > 4000
    assert {row[4] for row in families} == {tally.OVERFULL}
    assert sum(row[1] for row in families) == 5000
    assert [row[2] for row in families] == list(range(len(families)))


# -- the assignment rule ---------------------------------------------------------------------------


def blocks(letters: str) -> str:
    return "".join(8 * letter for letter in letters)


# Few letters and few places, so that families are often as near as one another.
blocks_strategy = st.text("AC.", min_size=4, max_size=4).map(blocks)


@example(
    [blocks("AAA."), blocks("AA.A"), blocks("ACA.")],
    [(blocks("AA.."), 0, 0), (blocks("A.A."), 0, 0)],
    1,
)
@given(
    st.lists(blocks_strategy, min_size=1, max_size=6, unique=True),
    st.lists(st.tuples(blocks_strategy, st.integers(0, 5), st.integers(0, 32)), max_size=12),
    st.integers(0, 3),
)
def test_rows_are_assigned_as_the_oracle_does(
    families: list[str], rows: list[tuple[str, int, int]], start: int
) -> None:
    table = np.zeros(start + len(families) + 2, FAMILY)
    table["mask"] = 2**32 - 1
    for number, one in enumerate(families):
        table[start + number]["draft"], table[start + number]["mask"] = (
            naive.word(one),
            naive.mask(one),
        )
    # Reads that agree with one of the families up to some place.
    texts = [families[n % len(families)][:same] + text[same:] for text, n, same in rows]
    drafts = drafts_of([Draft(text, (0,) * 32) for text in texts])
    # One row more, before these, which has no choice.
    numbers = np.arange(1, len(rows) + 1)[::-1].copy()
    family_of, stops = np.full(len(rows) + 1, -9), np.zeros(len(rows) + 1, np.int64)
    family_of[1:], stops[1:] = start, start + len(families)
    placing.choose_families(numbers, drafts, table, family_of, stops)
    assert family_of[0] == -9
    for index, row in enumerate(numbers.tolist()):
        assert family_of[row] == start + (naive.assign(texts[index], families) or 0)
