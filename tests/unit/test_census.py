"""What the model takes for true of a sample: errors, sizes, children, payloads."""

from __future__ import annotations

import itertools
import math
import random
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import score_fixture
import score_judge
from score_fixture import World
from score_judge import Outcome, library_of
from umimill import barcode_error, census, likelihood, molecule_sizes, payloads
from umimill.census import Estimates

SHALLOW = World(molecules=2_500, depth=1.5)


@cache
def estimates_of(world: World) -> Estimates:
    return census.estimate(score_fixture.sample_sums(library_of(world)))


@cache
def outcome_of(world: World) -> Outcome:
    with TemporaryDirectory() as folder:
        return score_judge.run(library_of(world), Path(folder))


# The census


@pytest.mark.parametrize("depth", [3.1, 5.0, 13.0])
@pytest.mark.parametrize("clones", [1, 200, 20_000])
def test_census_finds_the_error(depth: float, clones: int) -> None:
    world = World(depth=depth, clones=clones)
    found = estimates_of(world)
    assert found.error_census == pytest.approx(world.error, rel=0.1)
    assert found.error == pytest.approx(world.error, rel=0.1)
    assert found.clonality == pytest.approx(1 / clones, rel=0.2, abs=3e-4)


def test_census_finds_errors_that_qualities_do_not_know() -> None:
    world = World(depth=5, levels=(37,), shares=(1.0,), hidden=3e-3)
    found = estimates_of(world)
    assert found.basis == "both"
    assert found.error == pytest.approx(world.error, rel=0.1)
    # The same for all qualities.
    assert found.errors[74] == pytest.approx(world.error, rel=0.1)
    assert found.errors[24] - found.errors[74] == pytest.approx(10**-1.2 - 10**-3.7, rel=1e-6)


@pytest.mark.parametrize("persistence", [0.0, 0.85])
@pytest.mark.parametrize(("molecules", "depth"), [(200, 1000), (20, 20_000)])
def test_census_of_few_molecules_of_many_reads(
    molecules: int, depth: float, persistence: float
) -> None:
    """All their neighbours are there, and neighbours of these, of two wrong bases."""
    world = World(molecules, depth, persistence=persistence)
    # Not kept: its reads take some 100 MB.
    found = census.estimate(score_fixture.sample_sums(score_fixture.simulate(world)))
    assert found.error_census == pytest.approx(world.error, rel=0.1)


@pytest.mark.parametrize(("hidden", "basis"), [(0.0, "quality"), (2e-3, "both")])
def test_census_knows_that_bad_bases_come_together(hidden: float, basis: str) -> None:
    """Half the errors are in reads with several, which are no neighbours of their molecule."""
    world = World(depth=5, persistence=0.85, hidden=hidden, polymerase=0)
    found = estimates_of(world)
    assert found.alone < 0.7
    assert found.basis == basis
    assert found.error_census == pytest.approx(world.error, rel=0.1)
    assert found.error == pytest.approx(world.error, rel=0.1)


def test_census_finds_qualities_that_are_too_low() -> None:
    world = World(depth=5, scale=0.4)
    found = estimates_of(world)
    assert found.basis == "both"
    assert found.error == pytest.approx(world.error, rel=0.15)
    assert found.errors[74] / found.errors[24] == pytest.approx(10**-2.5, rel=1e-6)


def test_without_qualities_the_census_is_used() -> None:
    world = World(depth=5)
    sums = score_fixture.sample_sums(library_of(world))
    unknown = np.zeros(94, np.int64)
    unknown[0] = sums.phreds.sum()
    for phreds in (unknown, np.zeros(94, np.int64)):
        found = census.estimate(census.Sums(**{**vars(sums), "phreds": phreds}))
        assert (found.error_quality, found.basis) == (None, "census")
        assert found.error == pytest.approx(world.error, rel=0.1)
        assert set(found.errors.tolist()) == {found.error}


def test_without_anything_there_is_a_default() -> None:
    sums = score_fixture.sample_sums(library_of(World(molecules=5, depth=1.5, seed=1)))
    found = census.estimate(census.Sums(**{**vars(sums), "phreds": np.zeros(94, np.int64)}))
    assert (found.error_census, found.error, found.basis) == (None, 1e-3, "default")


def test_crowded_barcodes_of_one_payload_tell_no_error() -> None:
    crowded = estimates_of(World(length=8, depth=2.3, clones=1))
    assert crowded.occupancy > 0.2
    assert (crowded.error_census, crowded.basis) == (None, "quality")
    told_apart = estimates_of(World(length=8, depth=2.3, clones=200))
    assert told_apart.error_census == pytest.approx(World().error, rel=0.15)


def test_frequent_barcodes_are_not_paired_twice() -> None:
    """Of one payload all molecules of a barcode are one family: squares of shares say too many."""
    world = World(weights=(0.4, 0.1, 0.1, 0.4), depth=7, clones=1)
    assert estimates_of(world).error_census == pytest.approx(world.error, rel=0.1)


@pytest.mark.parametrize(
    ("found", "expected", "clonality", "wanted"),
    [(10, 10.0, 0.1, 1.0), (19, 10.0, 0.1, 1.0), (20, 10.0, 0.1, 2.0), (900, 10.0, 0.6, 1.0)],
)
def test_density_is_told_by_neighbours_of_another_payload(
    found: int, expected: float, clonality: float, wanted: float
) -> None:
    assert census.neighbour_density(found, expected, clonality) == wanted


def test_barcodes_of_a_cell_lie_close() -> None:
    world = World(depth=2.3, clones=20, length=20, cells=10, cell_length=12)
    found = outcome_of(world)
    # Ten cells of 2,000 molecules with 4^8 UMIs each, and not 4^20 barcodes.
    families, crowd = found.model["families"], found.model["families_of_a_cell"]
    assert found.model["space"] == pytest.approx(4**8 * families / crowd, rel=0.01)
    assert crowd == pytest.approx(2_000, rel=0.1)
    assert found.model["neighbour_density"] == 1
    assert found.precision > 0.97
    assert found.recall > 0.8
    assert estimates_of(world).error_census == pytest.approx(world.error, rel=0.15)


def test_density_is_1_without_cells() -> None:
    for clones in (1, 200, 20_000):
        assert estimates_of(World(depth=5.0, clones=clones)).density == 1


@pytest.mark.parametrize(
    ("found", "spread", "quality", "wanted"),
    [
        (None, 0.0, None, (1e-3, "default")),
        (None, 0.0, 2e-3, (2e-3, "quality")),
        (4e-3, 0.5, None, (4e-3, "census")),
        (4e-3, 0.25, 2e-3, (2e-3, "quality")),
        (4e-3, 0.0, 2e-3, (4e-3, "both")),
        (4e-3, 0.125, 2e-3, (3.5e-3, "both")),
        (1e-4, 0.0, 2e-3, (4e-4, "both")),
    ],
)
def test_which_error_is_used(
    found: float | None, spread: float, quality: float | None, wanted: tuple[float, str]
) -> None:
    error, basis = barcode_error.chosen_error(found, spread, quality)
    assert (pytest.approx(error), basis) == wanted


def test_neighbourhood_is_that_of_all_barcodes() -> None:
    """Sums over all 256 barcodes of four bases, and all pairs of them that are neighbours."""
    draw = np.random.default_rng(1)
    shares = draw.dirichlet([2, 2, 2, 2], 4)
    codes = np.array(list(itertools.product(range(4), repeat=4)))
    keys = np.prod(shares[np.arange(4), codes], axis=1)
    apart = codes[:, None, :] != codes[None, :, :]
    near = (apart.sum(2) == 1) & apart[:, :, 1:].any(2)
    equal = (keys**2).sum()
    pairs = (keys[:, None] * keys[None, :] * near).sum()
    space, ratio, crowding = census.neighbourhood(shares, 1)
    assert 1 / space == pytest.approx(equal)
    assert ratio / space == pytest.approx(pairs)
    triple = (keys[:, None] ** 2 * keys[None, :] * near).sum()
    assert crowding == pytest.approx(triple / pairs - equal)


@pytest.mark.parametrize("value", [1.0, 2.0, 1234.5, 1e12])
def test_square_root(value: float) -> None:
    assert likelihood.square_root(value) == pytest.approx(math.sqrt(value), rel=1e-15)


# Sizes and children


@pytest.mark.parametrize("depth", [5.0, 13.0])
@pytest.mark.parametrize("clones", [1, 200])
def test_children_are_counted_by_size(depth: float, clones: int) -> None:
    world = World(depth=depth, clones=clones)
    library, sums = library_of(world), score_fixture.sample_sums(library_of(world))
    reads = library.families["reads"]
    truth = np.bincount(reads[library.reachable & ~library.own_key], minlength=64)
    found = estimates_of(world)
    assert found.molecules == pytest.approx(library.families.size - truth.sum(), rel=0.02)
    predicted = molecule_sizes.expected_children(sums.sizes, sums.counts, world.error, world.length)
    for size in (1, 2):
        assert predicted[size] == pytest.approx(truth[size], rel=0.15, abs=60)


def test_children_of_single_reads_are_counted_too() -> None:
    """Of 100 molecules of two reads 2 * 0.05 * 100 have one wrong: two families of one read."""
    sums = score_fixture.sample_sums(library_of(SHALLOW))
    changes = {"sizes": np.array([1, 2, 70]), "counts": np.array([1000, 100, 4])}
    sums = census.Sums(**{**vars(sums), **changes})
    children = np.zeros(64)
    assert molecule_sizes.molecule_counts(sums.sizes, sums.counts, children, 0.05).tolist() == [
        990,
        100,
        4,
    ]
    children[1:3] = 800, 200
    left = molecule_sizes.molecule_counts(sums.sizes, sums.counts, children, 0.05).tolist()
    assert left == pytest.approx([190, math.sqrt(200), 4])


def test_sizes_are_shares_of_all_sizes() -> None:
    found = estimates_of(World(depth=13))
    bounds = molecule_sizes.size_bounds()
    assert (found.sizes > 0).all()
    assert (found.sizes[1:] * np.diff(bounds)[1:]).sum() == pytest.approx(1)
    sizes = library_of(World(depth=13)).sizes
    for number in range(3, 40):
        low, high = bounds[number], bounds[number + 1]
        there = ((sizes >= low) & (sizes < high)).sum()
        width = (high - low) * sizes.size
        assert found.sizes[number] * width == pytest.approx(there, rel=0.15, abs=40)


def test_growth_of_poisson_sizes_is_their_mean() -> None:
    """(n + 1) P(n + 1) / P(n) of a Poisson distribution is its mean, whatever n."""
    mean, families = 1.3, 1e7
    sizes = np.arange(1, 12)
    counts = np.array([families * mean**n / math.factorial(n) for n in sizes.tolist()])
    shares = molecule_sizes.growth_shares(sizes, counts)
    for reads in range(1, 8):
        assert (reads + 1) * shares[reads + 1] / shares[reads] == pytest.approx(mean, rel=0.01)


def test_growth_without_families_is_neutral() -> None:
    """Then a family's mean is its size, as with many reads."""
    shares = molecule_sizes.growth_shares(np.zeros(0, np.int64), np.zeros(0))
    for reads in range(1, 32):
        assert (reads + 1) * shares[reads + 1] / shares[reads] == pytest.approx(reads)


# Payloads


def test_pairs_of_draws_are_those_of_letters() -> None:
    draw = random.Random(2)
    draws = np.zeros(20, score_fixture.DRAW)
    letters = []
    for row in draws:
        text = "".join(draw.choices("ACGT", k=32))
        known = [draw.random() < 0.6 for _ in range(32)]
        row["draft"] = sum("ACGT".index(base) << (62 - 2 * at) for at, base in enumerate(text))
        row["mask"] = sum(1 << (31 - at) for at in range(32) if known[at])
        row["reads"] = draw.choice([1, 2])
        row["draft_quality"] = draw.randrange(81)
        letters.append([base if there else "." for base, there in zip(text, known, strict=True)])
    errors = payloads.draft_error_table(np.ones(94, np.int64))
    found = payloads.pair_draws(draws, errors)
    wanted = []
    for step in range(1, 17):
        for first in range(20 - step):
            pair = letters[first], letters[first + step]
            both = [(a, b) for a, b in zip(*pair, strict=True) if "." not in (a, b)]
            wanted.append((len(both), sum(a != b for a, b in both)))
    assert list(zip(found.compared.tolist(), found.mismatches.tolist(), strict=True)) == wanted
    for pair, (first, second) in {0: (0, 1), 18: (18, 19), 19: (0, 2)}.items():
        error = sum(
            int(errors[min(1, int(draws["reads"][one]) - 1), draws["draft_quality"][one]])
            for one in (first, second)
        )
        assert found.errors[pair] == payloads.error_classes(np.array([error]))[0]


@pytest.mark.parametrize("clones", [1, 5, 200])
def test_equal_payloads_are_told_from_others(clones: int) -> None:
    found = estimates_of(World(depth=5, clones=clones))
    assert found.equal_payloads == pytest.approx(1 / clones, rel=0.2)
    assert found.unrelated[32].sum() + found.equal_payloads == pytest.approx(1)
    # Random payloads differ at 24 of 32 bases.
    if clones > 1:
        mean = (found.unrelated[32] * np.arange(33)).sum() / found.unrelated[32].sum()
        assert mean == pytest.approx(24, abs=1.5)


def test_relatives_are_measured() -> None:
    """Payloads that differ at 5 of 32 bases, as genes of one family do, are no equal payloads."""
    draws = np.zeros(1000, score_fixture.DRAW)
    draws["mask"], draws["reads"], draws["draft_quality"] = 0xFFFFFFFF, 3, 80
    draws["draft"][::2] = sum(1 << (62 - 2 * base) for base in range(0, 30, 6))
    pairs = payloads.pair_draws(draws, payloads.draft_error_table(np.ones(94, np.int64)))
    equal, unrelated = payloads.payload_shares(pairs)
    assert equal == pytest.approx(0.5, abs=0.02)
    assert unrelated[32, 5] == pytest.approx(0.475, abs=0.02)
