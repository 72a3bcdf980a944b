"""The rates of the simulator against its description, with binomial bounds computed here."""

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from umimill.simulate import Simulation, SimulationParameters, simulate
from umimill.synthetic import cumulative_cuts

TAIL = 1e-6  # of each bound; the seeds are fixed, so a test that passes keeps passing

# Rates at which a few thousand reads say something.
BUSY = SimulationParameters(
    seed=9, molecules=2000, pcr_error=0.0, barcode_prefix_share=0.6, chimera_share=0.1,
    shift_share=0.1, foreign_share=0.1, front_share=0.2, insert_length=70, payload_length=60,
    read2_length=120, clones=20,
)  # fmt: skip


@pytest.fixture(scope="module")
def demo() -> Simulation:
    return simulate(SimulationParameters())


@pytest.fixture(scope="module")
def busy() -> Simulation:
    return simulate(BUSY)


def bounds(trials: int, probability: float) -> tuple[int, int]:
    """Return the least and most hits a binomial has but for TAIL on each side."""
    hits = np.arange(trials + 1)
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, trials + 1)))))
    pmf = np.exp(
        logs[trials] - logs - logs[::-1]
        + hits * math.log(probability) + (trials - hits) * math.log1p(-probability)
    )  # fmt: skip
    cdf = np.cumsum(pmf)
    return int(np.searchsorted(cdf, TAIL)), int(np.searchsorted(cdf, 1 - TAIL))


def assert_binomial(hits: int, trials: int, probability: float) -> None:
    low, high = bounds(trials, probability)
    assert low <= hits <= high, f"{hits} of {trials}, expected {low} .. {high}"


def assert_mean(values: npt.NDArray[np.float64], expected: float, within: float = 0.2) -> None:
    """Compare the mean of independent values; 4.75 standard errors are TAIL on each side."""
    error = 4.75 * values.std() / math.sqrt(values.size)
    assert error < within * expected, "too few values to say anything"
    mean = float(values.mean())
    assert abs(mean - expected) <= error, f"{mean}, expected {expected} +- {error}"


def molecule_sums(simulation: Simulation, values: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Sum per molecule: reads of a molecule share PCR errors, molecules share nothing."""
    tagged = ~simulation.read_is_foreign
    sums = np.bincount(simulation.read_molecule[tagged], values[tagged])
    return sums.astype(np.float64)


def test_bounds_know_the_binomial() -> None:
    low, high = bounds(10, 0.5)
    assert (low, high) == (0, 10)
    low, high = bounds(10_000, 0.5)
    assert 9_995 < low + high < 10_005
    assert 460 < high - low < 490  # 2 * 4.75 * 50


@pytest.mark.parametrize("scale", [2**53, 2**31 - 1])
def test_cuts_are_rounded_exact_sums(scale: int) -> None:
    words = np.random.PCG64(3).random_raw(60).astype(np.float64)
    for weights in ((words / 2**64).tolist(), (1 / words).tolist(), [1, 6, 100], [1.0] * 40):
        total = math.fsum(weights)
        expected = [int(scale * math.fsum(weights[:k]) / total) for k in range(len(weights) + 1)]
        assert cumulative_cuts(weights, scale) == expected


def test_demo_has_the_declared_shares(demo: Simulation) -> None:
    total = demo.names.size
    tagged = int((~demo.read_is_foreign).sum())
    assert int(demo.read_is_foreign.sum()) == round(tagged * 0.02 / 0.98)
    assert abs(demo.read_is_foreign.mean() - 0.02) < 1 / total
    assert_binomial(int(demo.read_is_chimera.sum()), tagged, 0.005)
    assert_binomial(int((demo.read_shift != 0).sum()), tagged, 0.001)
    assert_binomial(int((demo.read_front > 0).sum()), tagged, 0.02)
    assert set(demo.read_front.tolist()) == {0, 1, 2}
    assert not (demo.read_is_chimera | (demo.read_shift != 0))[demo.read_is_foreign].any()


def test_shares_at_higher_rates(busy: Simulation) -> None:
    tagged = ~busy.read_is_foreign
    count = int(tagged.sum())
    assert_binomial(int(busy.read_is_chimera.sum()), count, 0.1)
    assert_binomial(int((busy.read_shift != 0).sum()), count, 0.1)
    assert_binomial(int((busy.read_shift < 0).sum()), int((busy.read_shift != 0).sum()), 0.5)
    assert_binomial(int((busy.read_front == 1).sum()), count, 0.1)
    assert_binomial(int((busy.read_front == 2).sum()), count, 0.1)
    chimera = busy.read_is_chimera
    own = busy.molecule_clone[busy.read_molecule[chimera]]
    assert (busy.read_other_clone[chimera] != own).all()
    assert set(busy.read_breakpoint[chimera].tolist()) == set(range(1, 70))
    weights = 1 / np.arange(1, 21)
    expected = np.mean(np.where(own == 0, 0, 1 / (weights.sum() - weights[own])))
    assert_binomial(int((busy.read_other_clone == 0).sum()), int(chimera.sum()), float(expected))
    # Shuffled: foreign reads are no more frequent in one half of the file.
    half = busy.names.size // 2
    assert_binomial(int((~tagged)[:half].sum()), half, float((~tagged).mean()))


def test_foreign_reads_have_the_composition_of_the_tagged(demo: Simulation) -> None:
    clean = demo.bases1[~demo.read_is_foreign]
    foreign = demo.bases1[demo.read_is_foreign]
    for base in b"ACGT":
        assert_binomial(int((foreign == base).sum()), foreign.size, float((clean == base).mean()))
    assert not (foreign[:, 5:25] == demo.bases1[0, 5:25]).mean(axis=1).max() > 0.8


def test_clones_follow_zipf_and_samples_are_even(demo: Simulation) -> None:
    count = demo.molecule_clone.size
    total = sum(1 / rank for rank in range(1, 61))
    for clone in range(60):
        hits = int((demo.molecule_clone == clone).sum())
        assert_binomial(hits, count, 1 / (clone + 1) / total)
    for sample in range(4):
        assert_binomial(int((demo.molecule_sample == sample).sum()), count, 0.25)
    for base in b"ACGT":
        assert_binomial(int((demo.molecule_umi == base).sum()), count * 12, 0.25)


def test_family_sizes_are_lognormal(demo: Simulation) -> None:
    made, sizes = demo.parameters.molecules, demo.molecule_reads
    centre, normal = math.log(5) - 0.8**2 / 2, math.erf
    for most in (0, 1, 2, 3, 5, 8, 13, 25):
        share = (1 + normal((math.log(most + 0.5) - centre) / 0.8 / math.sqrt(2))) / 2
        hits = int((sizes <= most).sum()) + made - sizes.size
        assert_binomial(hits, made, share)
    assert_mean(np.concatenate((sizes.astype(float), np.zeros(made - sizes.size))), 5.0)


def test_family_sizes_may_be_uniform() -> None:
    sizes = simulate(SimulationParameters(seed=9, molecules=4000, uniform_reads=8)).molecule_reads
    assert sizes.size == 4000
    assert np.bincount(sizes).nonzero()[0].tolist() == list(range(1, 9))
    for hits in np.bincount(sizes)[1:].tolist():
        assert_binomial(hits, 4000, 1 / 8)


def test_sequencing_errors_have_the_declared_mean(demo: Simulation, busy: Simulation) -> None:
    # The UMI's sequencing errors are its own law less PCR, here a twelfth less than the mean.
    expected = 3e-3 * 129 - 12 * 25 * 1e-5 * (~demo.read_is_foreign).mean()
    assert_mean(demo.read_sequencing_errors.astype(float), expected)
    assert_mean(busy.read_sequencing_errors.astype(float), 3e-3 * (99 + 120))


def test_errors_come_from_the_qualities() -> None:
    large = simulate(
        SimulationParameters(
            seed=2, molecules=16_000, pcr_error=0, chimera_share=0, shift_share=0, front_share=0,
            foreign_share=0,
        )
    )  # fmt: skip
    assert_mean(large.read_sequencing_errors / 129, 3e-3, within=0.06)
    wrong = large.bases1[:, 39:] != large.molecule_template[large.read_molecule]
    quality = large.qualities1[:, 39:] - 33
    assert set(np.unique(quality).tolist()) == {2, 11, 25, 37}
    for level in (2, 11, 25, 37):
        here = quality == level
        assert_binomial(int(wrong[here].sum()), int(here.sum()), 10 ** (-level / 10))


def test_qualities_are_a_stationary_chain(demo: Simulation) -> None:
    shares, keep = demo.parameters.quality_shares, demo.parameters.quality_persistence
    reads = demo.names.size
    for cycle in (0, 1, 60, 128):
        for level, share in zip((2, 11, 25, 37), shares, strict=True):
            hits = int((demo.qualities1[:, cycle] == level + 33).sum())
            assert_binomial(hits, reads, share)
    same = keep + (1 - keep) * sum(share**2 for share in shares)
    for cycle in (1, 60, 128):
        equal = demo.qualities1[:, cycle] == demo.qualities1[:, cycle - 1]
        assert_binomial(int(equal.sum()), reads, same)
    mean = sum(share * 10 ** (-q / 10) for share, q in zip(shares, (2, 11, 25, 37), strict=True))
    assert math.isclose(mean, 3e-3)


def test_demo_barcode_errors_have_the_declared_mean(demo: Simulation) -> None:
    per_molecule = molecule_sums(demo, demo.read_barcode_errors)
    reads = demo.molecule_reads
    # Ratio estimate: deviations from the expected number are independent between molecules.
    deviation = per_molecule - 12 * 3e-3 * reads
    assert abs(deviation.sum()) <= 4.75 * math.sqrt(float((deviation**2).sum()))
    assert 4.75 * math.sqrt(float((deviation**2).sum())) < 0.25 * per_molecule.sum()


@pytest.mark.parametrize("share", [1 / 3, 0.1, 0.6])
@pytest.mark.parametrize("error", [3e-3, 1e-2])
def test_barcode_errors_follow_the_law_of_position(share: float, error: float) -> None:
    simulation = simulate(
        SimulationParameters(
            seed=3, molecules=6000, pcr_error=0.0, barcode_error=error, barcode_prefix_share=share,
            shift_share=0.0, payload_length=3,
        )
    )  # fmt: skip
    tagged = ~simulation.read_is_foreign
    columns = simulation.parameters.umi_columns + simulation.read_front[tagged, None]
    seen = np.take_along_axis(simulation.bases1[tagged], columns, axis=1)
    wrong = seen != simulation.molecule_umi[simulation.read_molecule[tagged]]
    assert (wrong.sum(axis=1) == simulation.read_barcode_errors[tagged]).all()
    total = 12 * error
    expected = [total * share / 4] * 4 + [total * (1 - share) / 8] * 8
    mean = 3e-3
    for place, rate in enumerate(expected):
        # Where errors are added to those of the qualities a base hit twice is counted once.
        exact = rate if rate <= mean else 1 - (1 - mean) * (1 - (rate - mean))
        assert_binomial(int(wrong[:, place].sum()), wrong.shape[0], exact)
    assert_binomial(int(wrong[:, :4].sum()), int(wrong.sum()), share)


def test_barcode_errors_may_be_absent() -> None:
    simulation = simulate(replace(BUSY, barcode_error=0.0, pcr_error=1e-4))
    assert not simulation.read_barcode_errors.any()
    assert simulation.read_sequencing_errors.any()


def test_no_errors_where_the_mean_is_zero() -> None:
    simulation = simulate(replace(BUSY, mean_error=0.0, barcode_error=0.0))
    assert not simulation.read_sequencing_errors.any()
    assert set(np.unique(simulation.qualities1).tolist()) == {37 + 33}


# -- PCR, barcodes, clones -------------------------------------------------------------------------


def test_pcr_errors_are_shared_below_their_branch() -> None:
    error, cycles, molecules, depth = 2e-3, 6, 250, 300
    simulation = simulate(
        SimulationParameters(
            seed=5, molecules=molecules, mean_reads=depth, sigma_reads=0.0, pcr_error=error,
            pcr_cycles=cycles, mean_error=0.0, chimera_share=0, shift_share=0, front_share=0,
            foreign_share=0, barcode_error=0.5,
        )
    )  # fmt: skip
    assert simulation.molecule_reads.tolist() == [depth] * molecules
    wrong = simulation.bases1[:, 39:] != simulation.molecule_template[simulation.read_molecule]
    per_molecule = molecule_sums(simulation, wrong.sum(axis=1)) / depth / 90
    assert_mean(per_molecule, cycles * error)
    order = np.argsort(simulation.read_molecule, kind="stable")
    share = wrong[order].reshape(molecules, depth, 90).mean(axis=1)
    # A cycle-1 branch holds half of the reads, +- 2.9% for 300; a cycle-2 branch a quarter.
    half = int(((share > 0.37) & (share < 0.63)).sum())
    assert_binomial(half, 2 * molecules * 90, error)
    quarter = int(((share > 0.16) & (share < 0.34)).sum())
    assert_binomial(quarter, 4 * molecules * 90, error)
    # Independent errors of this rate would put none of the 22,500 sites above 10%.
    assert (share < 0.63).all()


def test_umis_repeat_by_chance_within_and_between_samples() -> None:
    layouts = ("ACTNNNN", "AGANNNN")
    simulation = simulate(
        SimulationParameters(
            samples=("a", "b"), layouts=layouts, molecules=2000, mean_reads=2.0,
            barcode_prefix_length=2,
        )
    )  # fmt: skip
    keys = np.column_stack((simulation.molecule_sample, simulation.molecule_umi))
    count, distinct = keys.shape[0], np.unique(keys, axis=0).shape[0]
    share = 1 - (1 - 1 / 512) ** count
    assert distinct < count
    # Occupied cells vary less than a binomial of independent cells.
    assert_binomial(distinct, 512, share)
    first, second = (set(map(bytes, keys[keys[:, 0] == sample, 1:])) for sample in (0, 1))
    assert len(first & second) > 200


def test_clone_families_diverge_as_declared() -> None:
    simulation = simulate(replace(BUSY, clones=40, clone_families=4, family_divergence=0.15))
    rows = np.unique(simulation.molecule_clone, return_index=True)
    clones = dict(zip(rows[0].tolist(), simulation.molecule_template[rows[1]], strict=True))
    pairs = [(clone, clone + 4) for clone in range(0, 32, 8) if {clone, clone + 4} <= set(clones)]
    same = [(clones[first] != clones[second]).sum() for first, second in pairs]
    differs = 2 * 0.15 * 0.85 + 0.15**2 * 2 / 3
    assert len(same) >= 3
    assert_binomial(int(sum(same)), 70 * len(same), differs)
    assert_binomial(int((clones[0] != clones[1]).sum()), 70, 0.75)
