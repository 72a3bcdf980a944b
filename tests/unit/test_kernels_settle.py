"""Fates of families: what was corrected went to its root, and nothing is lost or counted twice."""

import random
from typing import Any

import numpy as np
import pytest

import oracle
import oracle_refine_stages as naive
from kernel_cases import cases
from link_fixture import in_order, table_of
from oracle_link import Family
from oracle_refine_stages import Identity, identity
from umimill.fates import FATE
from umimill.kernels import settle as kernels
from umimill.settle import ARRIVAL, CORRECTION


def random_families(rng: random.Random) -> list[Family]:
    """Make families, several a key, of keys that are one word at several lengths."""
    made = []
    for _ in range(rng.randrange(1, 25)):
        cell, umi = rng.choice([("", "ACA"), ("", "AC"), ("A", "CA"), ("A", "C"), ("", "TTT")])
        reads = rng.choice([1, 1, 2, 2, 5, 1000])
        draft = "".join(rng.choices("ACGT", k=32))
        made.append(Family(rng.randrange(2), cell, umi, reads, draft, (70,) * len(cell + umi)))
    return in_order(made)


def fill(rows: Any, number: int, place: Identity) -> None:
    sample, cell, umi, family = place
    row = rows[number]
    row["key"], row["sample"], row["family"] = oracle.key_of(cell + umi), sample, family
    row["umi_length"], row["cell_length"] = len(umi), len(cell)


def random_roots(rng: random.Random, families: list[Family]) -> dict[Identity, Identity]:
    """Correct some families to others of their sample that stay."""
    stay = {identity(one) for one in families if rng.random() < 0.6}
    roots = {}
    for one in families:
        able = [
            root
            for root in sorted(stay)
            if root[0] == one.sample and len(root[1]) == len(one.cell)
            and len(root[2]) == len(one.umi)
        ]  # fmt: skip
        if identity(one) not in stay and able:
            roots[identity(one)] = rng.choice(able)
    return roots


def test_fates_are_those_of_the_twin() -> None:
    rng = random.Random(1)
    moved = numbered = 0
    for _ in range(cases(150)):
        families = random_families(rng)
        roots = random_roots(rng, families)
        table, _ = table_of(families)
        reads = {identity(one): one.reads for one in families}
        place = {identity(one): (*one.place, one.family) for one in families}
        children = sorted(roots, key=place.__getitem__)
        corrections = np.zeros(len(children), CORRECTION)
        for number, child in enumerate(children):
            fill(corrections, number, child)
            root = roots[child]
            corrections[number]["root_key"] = oracle.key_of(root[1] + root[2])
            corrections[number]["root_family"] = root[3]
            corrections[number]["reads"] = reads[child]
        targets = sorted(set(roots.values()), key=place.__getitem__)
        arrivals = np.zeros(len(targets), ARRIVAL)
        for number, root in enumerate(targets):
            fill(arrivals, number, root)
            own = [child for child in roots if roots[child] == root]
            arrivals[number]["reads"] = sum(reads[child] for child in own)
            arrivals[number]["families"] = len(own)
        fates = np.zeros(table.size, FATE)
        # In two pieces of whole keys, as tables are read.
        cut = rng.randrange(len(families))
        while 0 < cut < len(families) and families[cut].place == families[cut - 1].place:
            cut -= 1
        at = (0, 0)
        for part in (slice(0, cut), slice(cut, None)):
            more = kernels.join_families(
                table[part], corrections[at[0] :], arrivals[at[1] :], fates[part]
            )
            at = at[0] + more[0], at[1] + more[1]
        assert at == (len(children), len(targets))
        statuses = {identity(one): rng.choice([0, 0, 0, 1, 2]) for one in families}
        for row, one in enumerate(families):
            fates[row]["status"] = 0 if fates[row]["moved"] else statuses[identity(one)]
        kernels.number_molecules(table, fates, np.zeros(table.size, np.int64))
        expected = naive.fates_of(reads, roots, statuses)
        for fate, one in zip(fates, families, strict=True):
            want = expected[identity(one)]
            root = want.root or identity(one)
            assert int(fate["root_key"]) == oracle.key_of(root[1] + root[2])
            assert int(fate["root_family"]) == root[3]
            assert bool(fate["moved"]) == (want.root is not None)
            found = [int(fate[name]) for name in ("reads", "families", "number", "several")]
            assert found == [want.reads, want.families, want.number, int(want.several)]
            moved += want.root is not None
            numbered += want.number != one.family and want.root is None
        stayed = fates["moved"] == 0
        assert fates["reads"][stayed].sum() == table["reads"].sum()
        assert fates["families"][stayed].sum() == table.size
    # One round alone where the compiler is off.
    assert moved > 100 or cases(150) < 150
    assert numbered > 50 or cases(150) < 150


@pytest.mark.parametrize(
    ("statuses", "reads", "numbers", "several"),
    [
        # One molecule alone has no number in its name, and what is none has.
        ([0, 1, 1], [9, 5, 7], [0, 2, 1], [0, 1, 1]),
        # The first row is no molecule: it stands behind.
        ([1, 0], [9, 2], [1, 0], [1, 0]),
        ([0, 0, 2], [3, 3, 3], [0, 1, 2], [1, 1, 1]),
        # None is a molecule.
        ([2], [1], [0], [0]),
        ([1, 2], [4, 4], [0, 1], [0, 1]),
    ],
)
def test_molecules_come_first_then_by_reads(
    statuses: list[int], reads: list[int], numbers: list[int], several: list[int]
) -> None:
    one = Family(0, "", "ACGT", 1, "A" * 32, (70,) * 4)
    table, _ = table_of(in_order([one] * len(statuses)))
    fates = np.zeros(table.size, FATE)
    fates["status"], fates["reads"] = statuses, reads
    kernels.number_molecules(table, fates, np.zeros(table.size, np.int64))
    assert fates["number"].tolist() == numbers
    assert fates["several"].tolist() == several


def test_keys_are_in_the_last_piece_that_begins_no_later() -> None:
    rng = random.Random(1)
    for _ in range(cases(100)):
        firsts = sorted({(rng.randrange(3), rng.randrange(12) << 60) for _ in range(9)})
        wanted = [(rng.randrange(3), rng.randrange(48) << 58) for _ in range(20)]
        places = np.empty(len(wanted), np.int64)
        kernels.find_pieces(
            np.array([sample for sample, _ in wanted], np.uint16),
            np.array([key for _, key in wanted], np.uint64),
            np.array([sample for sample, _ in firsts], np.int64),
            np.array([key for _, key in firsts], np.uint64),
            places,
        )
        assert places.tolist() == [sum(first <= one for first in firsts) - 1 for one in wanted]
