"""Statuses: chances against exact ones, and the rate of chimeras against what was put in."""

import math
import random
from typing import Any

import numpy as np
import pytest

import oracle_refine_stages as naive
from kernel_cases import cases
from link_fixture import family, in_order, table_of
from oracle_link import Family
from umimill import census, payloads
from umimill.census import Sums
from umimill.fates import FATE
from umimill.jit import kernel
from umimill.kernels import status as kernels
from umimill.kernels.queries import UNSURE_MISREAD
from umimill.kernels.score import EdgeModel
from umimill.kernels.tally import SHIFTED
from umimill.likelihood import ln_fine, log_tables
from umimill.link import EDGE
from umimill.model import common_tables, sample_tables
from umimill.statuses import (
    Chimeras,
    estimate_chimeras,
    status_tables,
)
from umimill.tally import FAMILY
from umimill.tally_sums import FamilySums


@kernel
def at_least(reads: int, large: int, ln_rate: Any, model: Any) -> Any:
    return kernels.ln_at_least(reads, large, ln_rate, model)


@kernel
def shared(draft: Any, mask: Any, other: Any, other_mask: Any) -> Any:
    return kernels.share_an_end(draft, mask, other, other_mask)


@kernel
def unresolved(families: Any, quality: Any, row: int, model: Any, status: Any) -> Any:
    return kernels.is_unresolved(families[row], quality, row, model, status)


def edge_model(**tables: Any) -> EdgeModel:
    """Return a model with some tables; the others are empty."""
    log, factorial = log_tables()
    given = {"log": log, "factorial": factorial, **tables}
    shapes = {"growth": 2, "composition": 3, "draft_errors": 3, "same": 3, "unrelated": 3}
    shapes |= {"misread": 2, "sizes": 2, "ways": 2, "near": 3, "drawn": 2}
    shapes |= {"drawn_hash": 2, "drawn_draft": 2, "drawn_lanes": 2}
    return EdgeModel(
        *(
            given.get(name, np.zeros((1,) * shapes.get(name, 1), np.int64))
            for name in EdgeModel._fields
        )
    )


def ln_rate(rate: float) -> Any:
    return np.array([ln_fine(rate) if rate else kernels.NO_CHIMERAS], np.int64).reshape(1)


def status_model(
    errors: Any = None, lone: float = 0.1, rate: float = 0.0, shifts: float = 0.0
) -> Any:
    errors = np.zeros(256) if errors is None else errors
    return kernels.StatusModel(
        np.rint(np.array(errors) * (1 << kernels.ONE_BITS)).astype(np.int64)[None],
        np.array([round(lone * (1 << kernels.ONE_BITS))], np.int64),
        ln_rate(rate),
        ln_rate(rate),
        np.zeros((1, 2), np.int64),
        ln_rate(shifts),
        ln_rate(rate + shifts),
        np.array([round(1024 * math.log(1e-3))], np.int64),
    )


@pytest.mark.parametrize("rate", [1e-6, 1e-4, 1e-3, 0.02, 0.3])
def test_the_tail_of_a_poisson(rate: float) -> None:
    model, own_rate = edge_model(), ln_fine(rate)
    decided = 0
    for large in (1, 2, 3, 7, 20, 100, 1000, 4096, 5000, 50_000, 1_000_000):
        for reads in (1, 2, 3, 5, 10, 40, 200, 1000):
            exact = naive.at_least(reads, rate * large)
            if exact > 1e-30:
                decided += 1
                found = at_least(reads, large, own_rate, model) / 1024
                assert found == pytest.approx(math.log(exact), abs=0.01)
            else:
                assert at_least(reads, large, own_rate, model) < -60 * 1024
    assert decided > 10


def random_draft(rng: random.Random) -> str:
    return "".join(rng.choices("ACGT", k=32))


def test_ends_are_shared_as_the_twin_says() -> None:
    rng = random.Random(1)
    seen = [0, 0]
    for _ in range(cases(400)):
        one = random_draft(rng)
        cut = rng.choice([0, 6, 7, 8, 9, 16])
        two = one[:cut] + random_draft(rng)[cut:]
        if rng.random() < 0.5:
            one, two = one[::-1], two[::-1]
        drafts = [
            "".join("N" if rng.random() < rng.choice([0, 0.1, 0.8]) else base for base in draft)
            for draft in (one, two)
        ]
        table, _ = table_of([family("ACGT", 1, draft=draft) for draft in drafts])
        found = shared(table["draft"][0], table["mask"][0], table["draft"][1], table["mask"][1])
        assert bool(found) == naive.share_an_end(*drafts)
        seen[bool(found)] += 1
    assert min(seen) > 0.1 * sum(seen)


def test_reads_are_unresolved_as_the_exact_chance_says() -> None:
    rng = random.Random(2)
    errors = [min(0.75, 10 ** (-half / 20)) for half in range(256)]
    misread = np.array([[round(math.log(one / 3) * 2**20) for one in errors]], np.int64)
    model = edge_model(misread=misread)
    seen = [0, 0]
    for _ in range(cases(300)):
        length, cell = rng.randrange(9, 13), rng.choice([0, 2])
        quality = tuple(rng.choice([4, 4, 20, 22, 30, 50, 74]) for _ in range(cell + length))
        lone = rng.choice([0.001, 0.02, 0.1, 0.3, 0.6])
        own = [errors[half] for half in quality[cell:]]
        sure = [misread[0, half] >= UNSURE_MISREAD for half in quality[cell:]]
        missed = naive.missed(own, sure)
        if abs((1 - lone) * missed - lone) < 1e-3:
            continue
        one = Family(0, "A" * cell, "C" * length, 1, "A" * 32, quality)
        table, rows = table_of([one])
        found = unresolved(table, rows, 0, model, status_model(errors, lone))
        assert bool(found) == ((1 - lone) * missed > lone), (quality, lone, missed)
        seen[bool(found)] += 1
    assert min(seen) > 10


def count_by_hand(held: list[Family], flags: Any) -> tuple[Any, Any]:
    """Return what count_minors counts of families in order."""
    minors, sizes = np.zeros((2, 6), np.int64), np.zeros((2, 64), np.int64)
    firsts: dict[tuple[int, str], Family] = {}
    for one, flagged in zip(held, flags.tolist(), strict=True):
        first = firsts.setdefault((one.sample, one.umi), one)
        own = minors[one.sample]
        if first is one:
            own[kernels.FIRST_READS] += one.reads
            continue
        shared = naive.share_an_end(first.draft, one.draft)
        even = first.reads <= 4 * one.reads
        own[kernels.EVEN] += even
        own[kernels.EVEN_SHIFTS] += even and flagged > 0
        own[kernels.SHIFTS] += one.reads * (not even and flagged > 0)
        if one.reads == 1 < first.reads and not flagged:
            own[kernels.SHARING] += shared
            own[kernels.MIXED] += naive.is_mixed(first.draft, one.draft)
        if (shared or flagged) and first.reads >= 2 * one.reads:
            sizes[one.sample, min(one.reads, 63)] += 1
    return minors, sizes


@kernel
def mixed(draft: Any, mask: Any, other: Any, other_mask: Any) -> Any:
    return kernels.is_mixed(draft, mask, other, other_mask)


def words_of(draft: str) -> tuple[Any, Any]:
    row = table_of([Family(0, "", "ACGT", 1, draft, (70,) * 4)])[0][0]
    return row["draft"], row["mask"]


def test_another_payload_behind_an_end_as_the_twin_says() -> None:
    rng = random.Random(4)
    seen = [0, 0]
    for _ in range(cases(600)):
        one = random_draft(rng)
        cut = rng.choice([0, 7, 8, 9, 16, 24, 25, 26, 27])
        two = one[:cut] + random_draft(rng)[cut:]
        if rng.random() < 0.3:
            # Misread bases lie anywhere.
            two = "".join(rng.choice("ACGT") if rng.random() < 0.3 else base for base in one)
        if rng.random() < 0.5:
            one, two = one[::-1], two[::-1]
        unknown = rng.choice([0, 0.1])
        one, two = (
            "".join("N" if rng.random() < unknown else base for base in text) for text in (one, two)
        )
        found = bool(mixed(*words_of(one), *words_of(two)))
        assert found == naive.is_mixed(one, two), (one, two)
        seen[found] += 1
    assert min(seen) > 50 or cases(600) < 600


def test_misread_payloads_are_no_chimeras_of_unrelated_molecules() -> None:
    """Two molecules of one barcode, 1 .. 40 reads; a few reads are misread at one end."""
    rng = np.random.default_rng(3)
    families = []
    for umi in ("".join(rng.choice(list("ACGT"), 12)) for _ in range(1500)):
        main = "".join(rng.choice(list("ACGT"), 32))
        other = "".join(rng.choice(list("ACGT"), 32))
        families += [family(umi, int(rng.integers(2, 41)), draft=main), family(umi, 1, draft=other)]
        if rng.random() < 0.01:
            wrong = "".join("ACGT"[("ACGT".index(base) + 1) % 4] for base in main)
            noisy = main[:10] + "".join(
                wrong[place] if place % 5 == 0 else main[place] for place in range(10, 32)
            )
            families.append(family(umi, 1, draft=noisy))
    table, _ = table_of(in_order(families))
    status, chimeras = judged(table)
    assert chimeras.rate > 0
    assert chimeras.neither == 0
    # Of 1,500 unrelated pairs one shares an end by chance.
    assert 0 < (status == kernels.CHIMERA_SUSPECT).sum() <= len(families) - 3000 + 5


def test_minors_are_counted_beside_the_first_of_their_key() -> None:
    rng = random.Random(3)
    for _ in range(cases(30)):
        families = []
        for number in range(20):
            sample, umi = number % 2, "".join(rng.choices("ACGT", k=8))
            main = random_draft(rng)
            key = [Family(sample, "", umi, rng.choice([1, 1, 9, 200]), main, (70,) * 8)]
            for _ in range(rng.randrange(3)):
                draft = main[:16] + random_draft(rng)[16:] if rng.random() < 0.5 else main[::-1]
                key.append(Family(sample, "", umi, rng.choice([1, 1, 2, 5, 70]), draft, (70,) * 8))
            families += key
        held = in_order(families)
        table = table_of(held)[0]
        table["flags"] = rng.choices([0, SHIFTED], k=table.size)
        minors, sizes = np.zeros((2, 6), np.int64), np.zeros((2, 64), np.int64)
        kernels.count_minors(table, minors, sizes)
        expected = count_by_hand(held, table["flags"])
        assert (minors == expected[0]).all()
        assert (sizes == expected[1]).all()
        assert sizes.any()


# -- the rate --------------------------------------------------------------------------------------


def words(codes: Any) -> Any:
    """Pack codes of bases, i64[n, L], left-aligned."""
    found = np.zeros(codes.shape[0], np.uint64)
    for place in range(codes.shape[1]):
        found |= codes[:, place].astype(np.uint64) << np.uint64(62 - 2 * place)
    return found


def simulated(
    rng: np.random.Generator,
    *,
    molecules: int,
    length: int,
    clones: int,
    rate: float,
    primer: int = 0,
) -> tuple[Any, Any]:
    """Return FAMILY[n] of molecules and chimeras, in order, and which of them are chimeras.

    A chimeric read has the barcode and one half of its molecule, and the other half of another.
    """
    drafts = rng.integers(0, 4, (clones or molecules, 32))
    drafts[:, :primer] = drafts[0, :primer]
    umi = rng.integers(0, 4, (molecules, length))
    own = rng.integers(0, clones, molecules) if clones else np.arange(molecules)
    reads = rng.negative_binomial(2, 2 / 22, molecules)
    held: dict[tuple[int, int], int] = {}
    truth: dict[tuple[int, int], bool] = {}
    umi_key, draft_key = words(umi).tolist(), words(drafts).tolist()
    for number in range(molecules):
        chimeric = rng.binomial(reads[number], rate)
        place = umi_key[number], draft_key[own[number]]
        if reads[number] > chimeric:
            held[place] = held.get(place, 0) + int(reads[number] - chimeric)
            truth[place] = False
        for _ in range(chimeric):
            other = own[rng.integers(molecules)]
            if other == own[number]:
                continue
            half = drafts[[own[number], other] if rng.random() < 0.5 else [other, own[number]]]
            mixed = np.concatenate([half[0, :16], half[1, 16:]])[None]
            place = umi_key[number], int(words(mixed)[0])
            if place not in held:
                truth[place] = True
            held[place] = held.get(place, 0) + 1
    places = sorted(held, key=lambda place: (place[0], -held[place], place[1]))
    table = np.zeros(len(places), FAMILY)
    for row, place in enumerate(places):
        same = row > 0 and places[row - 1][0] == place[0]
        number = int(table["family"][row - 1]) + 1 if same else 0
        table[row] = (*place, 2**32 - 1, held[place], 0, number, length, 0, 74, 0)
    return table, np.array([truth[place] for place in places])


def estimated(table: Any) -> tuple[Chimeras, EdgeModel, Any]:
    """Return what model makes of a table of one sample."""
    sums = FamilySums(1)
    sums.add(table)
    sizes = sums.sizes()
    draws = sums._draws.result()
    # No barcode of these is an error.
    phreds = np.zeros(94, np.int64)
    phreds[60] = table["reads"].sum()
    errors = payloads.draft_error_table(phreds)
    estimates = census.estimate(
        Sums(
            width=2,
            sizes=sizes[:, 1],
            counts=sizes[:, 2],
            composition=sums._composition[0],
            phreds=phreds,
            wrong=np.zeros(2, np.int64),
            pairs=np.zeros((32, 2), np.int64),
            pair_sizes=np.zeros((32, 64), np.int64),
            minor_sizes=sums._minor_sizes[0],
            cells=np.zeros(3, np.int64),
            drafts=payloads.pair_draws(draws, errors),
        )
    )
    chimeras = estimate_chimeras(sums._minors[0], draws, estimates)
    own = sample_tables(estimates, errors, draws)
    tables = {**common_tables(), **{name: array[None] for name, array in own.items()}}
    named = {
        name.removeprefix("status_"): np.asarray(array)[None].reshape(1, *np.shape(array))
        for name, array in status_tables(chimeras, estimates).items()
    }
    return (
        chimeras,
        EdgeModel(*(tables[name] for name in EdgeModel._fields)),
        kernels.StatusModel(*(named[name] for name in kernels.StatusModel._fields)),
    )


def judged(table: Any) -> tuple[Any, Chimeras]:
    """Return the statuses of a table of one sample, of which no family was corrected."""
    chimeras, model, status = estimated(table)
    fates = np.zeros(table.size, FATE)
    fates["reads"] = table["reads"]
    kernels.judge(table, np.full((table.size, 32), 74, np.uint8), fates, model, status)
    return fates["status"], chimeras


@pytest.mark.parametrize("rate", [0.002, 0.01, 0.03])
def test_the_injected_rate_is_found(rate: float) -> None:
    rng = np.random.default_rng(5)
    table, chimera = simulated(rng, molecules=8000, length=10, clones=0, rate=rate)
    status, found = judged(table)
    assert found.rate == pytest.approx(rate, rel=0.2)
    suspect = status == kernels.CHIMERA_SUSPECT
    assert suspect[chimera].mean() > 0.95
    assert suspect[~chimera].mean() < 0.005


@pytest.mark.parametrize("length", [5, 6, 8])
def test_random_payloads_on_shared_barcodes_are_no_chimeras(length: int) -> None:
    rng = np.random.default_rng(6)
    table, _ = simulated(rng, molecules=2000, length=length, clones=0, rate=0.0)
    status, found = judged(table)
    assert found.rate == 0
    assert not (status == kernels.CHIMERA_SUSPECT).any()


@pytest.mark.parametrize("primer", [0, 24])
@pytest.mark.parametrize("rate", [0.0, 0.005, 0.02])
def test_crowded_spaces_keep_their_molecules(rate: float, primer: int) -> None:
    suspects = overlooked = molecules = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        table, chimera = simulated(
            rng, molecules=2000, length=6, clones=200, rate=rate, primer=primer
        )
        status, _ = judged(table)
        suspects += int((status == kernels.CHIMERA_SUSPECT)[~chimera].sum())
        overlooked += int((status == kernels.MOLECULE)[chimera].sum())
        molecules += int((~chimera).sum())
    assert suspects < 0.01 * molecules
    # A chimera of one read beside a molecule of two is as likely another molecule.
    assert suspects + overlooked < (0.02 if primer else 0.06) * molecules


def test_what_was_moved_away_left_its_chimeras_behind() -> None:
    rng = np.random.default_rng(5)
    table, _ = simulated(rng, molecules=4000, length=10, clones=0, rate=0.01)
    _, model, status = estimated(table)
    mates = [family("ACGTACGTAC", 400, draft="ACGT" * 8)]
    mates += [family("ACGTACGTAC", 1, draft="ACGT" * 4 + "TGCA" * 4)]
    own, quality = table_of(in_order(mates))
    for moved, expected in ((1, kernels.CHIMERA_SUSPECT), (0, kernels.CHIMERA_SUSPECT)):
        fates = np.zeros(2, FATE)
        fates["reads"] = [0 if moved else 400, 1]
        fates["moved"] = [moved, 0]
        kernels.judge(own, quality, fates, model, status)
        assert fates["status"].tolist() == [kernels.MOLECULE, expected]


def shifted_table(rng: np.random.Generator, shifts: float) -> Any:
    """Return FAMILY[n] of molecules, beside them families of shifted reads."""
    table, _ = simulated(rng, molecules=3000, length=10, clones=0, rate=0.0)
    rows = []
    for one in table:
        beside = rng.binomial(one["reads"], shifts)
        rows.append(one.copy())
        if one["family"] == 0 and 0 < 2 * beside < one["reads"]:
            other = one.copy()
            other["draft"] = ~one["draft"]
            other["reads"], other["family"], other["flags"] = beside, 1000, SHIFTED
            rows.append(other)
    return np.array(rows, FAMILY)


@pytest.mark.parametrize("shifts", [0.0, 0.002, 0.02])
def test_shifted_reads_are_parts_of_the_first_family(shifts: float) -> None:
    table = shifted_table(np.random.default_rng(1), shifts)
    chimeras, model, status = estimated(table)
    assert chimeras.shifts == pytest.approx(shifts, rel=0.2)
    assert chimeras.rate < 1e-4
    fates = np.zeros(table.size, FATE)
    fates["reads"] = table["reads"]
    fates["root_key"], fates["root_family"] = table["key"], table["family"]
    # What the first family was corrected to, its parts belong to.
    firsts = np.flatnonzero(table["family"] == 0)
    fates["root_family"][firsts] = 7
    kernels.judge(table, np.full((table.size, 32), 74, np.uint8), fates, model, status)
    flagged = table["flags"] == SHIFTED
    assert flagged.any() == (shifts > 0)
    assert (fates["status"][~flagged] == kernels.MOLECULE).all()
    assert (fates["status"][flagged] == kernels.SHIFT).all()
    assert (fates["root_family"][flagged] == 7).all()


def test_starts_beside_one_another_are_molecules_where_keys_are_crowded() -> None:
    """iCLIP: starts of molecules lie beside one another, and all share few UMIs."""
    rng = np.random.default_rng(2)
    table, _ = simulated(rng, molecules=3000, length=5, clones=0, rate=0.0)
    beside = (table["family"] > 0) & (rng.random(table.size) < 0.1)
    table["flags"] = np.where(beside, SHIFTED, 0)
    status, chimeras = judged(table)
    assert chimeras.shifts == 0
    assert (status == kernels.MOLECULE).all()


def test_arrivals_do_not_make_an_unsure_read_sure() -> None:
    errors = [min(0.75, 10 ** (-half / 20)) for half in range(256)]
    misread = np.array([[round(math.log(one / 3) * 2**20) for one in errors]], np.int64)
    unsure = Family(0, "", "ACGTACGTACGT", 1, "A" * 32, (4,) * 12)
    table, quality = table_of([unsure])
    for arrived in (0, 3):
        fates = np.zeros(1, FATE)
        fates["reads"] = 1 + arrived
        kernels.judge(table, quality, fates, edge_model(misread=misread), status_model(errors))
        assert fates["status"].tolist() == [kernels.UNRESOLVED]


def test_one_of_several_parents_is_unresolved_and_another_payload_a_chimera() -> None:
    table, _ = table_of(in_order([family(umi, 1) for umi in ("AAAA", "CCCC", "GGGG", "TTTT")]))
    edges, fates = np.zeros(4, EDGE), np.zeros(4, FATE)
    fates["reads"] = 1
    edges["parent_reads"] = [9, 9, 9, 0]
    edges["ln_error"] = [-5000, -2000, -5000, -2000]
    edges["ln_independent"] = -8000
    edges["payload"] = [4000, -9000, -9000, -9000]
    # Of the first one two parents are as likely; the second and third are not of their parents.
    edges["score"] = [-1, -3000, -6000, -3000]
    kernels.judge_misread(table, edges, fates, status_model(rate=0.01))
    expected = [kernels.UNRESOLVED, kernels.CHIMERA_SUSPECT, kernels.MOLECULE, kernels.MOLECULE]
    assert fates["status"].tolist() == expected
    fates["status"] = kernels.MOLECULE
    fates["moved"][0] = 1
    kernels.judge_misread(table, edges, fates, status_model())
    assert not fates["status"].any()
