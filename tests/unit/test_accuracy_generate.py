"""The libraries of the accuracy judge: their truth holds, and reads are what the truth says."""

from __future__ import annotations

import gzip
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from accuracy.cases import DEPTHS, Case, all_cases, tenx
from accuracy.generate import Reads, generate, pack, write_reads

CASES = all_cases()


def columns(case: Case) -> npt.NDArray[np.int64]:
    """Places of cell and UMI bases, from the layout as tools get it."""
    symbols = np.array(list(case.layout.removeprefix("^")))
    return np.flatnonzero(np.isin(symbols, ["N", "X"]))


def barcodes(reads: Reads) -> npt.NDArray[np.uint64]:
    """The barcode of each read, from its bases."""
    codes = np.searchsorted(np.frombuffer(b"ACGT", np.uint8), reads.bases[:, columns(reads.case)])
    return pack(codes.astype(np.uint8))


def text(row: npt.NDArray[np.uint8]) -> str:
    return row.tobytes().decode()


def small(name: str) -> Case:
    """A case with about 3,000 reads."""
    return CASES[name].scaled(3000 / CASES[name].expected_reads)


@pytest.mark.parametrize("name", CASES)
def test_truth_is_whole_and_barcodes_are_those_of_the_reads(name: str) -> None:
    reads = generate(small(name), 3)
    truth, case = reads.truth, reads.case
    count, molecules = reads.bases.shape[0], truth.barcode.size
    assert reads.qualities.shape == reads.bases.shape
    assert reads.bases.shape[1] == len(case.layout) - 1 + case.payload_length
    assert (truth.molecule.size, truth.observed.size, truth.chimera.size) == (count,) * 3
    assert np.array_equal(np.unique(truth.molecule), np.arange(molecules))
    assert truth.clone.shape == (molecules,)
    assert np.array_equal(barcodes(reads), truth.observed)
    clean = case.parameters.barcode_error == 0 and not case.deletion_share
    assert truth.wrong.any() != clean
    assert truth.wrong.mean() < 0.06
    assert truth.parent_seen.mean() > 0.9


def test_pack_puts_the_first_base_highest() -> None:
    rows = np.array([[0, 1, 2, 3], [3, 0, 0, 0]], np.uint8)
    assert pack(rows).tolist() == [0b00_01_10_11, 0b11_00_00_00]
    assert pack(np.full((1, 32), 3, np.uint8)).tolist() == [2**64 - 1]


def test_equal_seed_equal_reads_other_seed_others(tmp_path: Path) -> None:
    written = []
    for number, seed in enumerate((1, 1, 2)):
        for name in ("tenx-10", "deletions"):
            write_reads(generate(small(name), seed), tmp_path / f"{name}-{number}")
    for name in ("tenx-10", "deletions"):
        written = [(tmp_path / f"{name}-{number}").read_bytes() for number in range(3)]
        assert written[0] == written[1] != written[2]


@pytest.mark.parametrize(
    ("name", "depth", "molecules"),
    [
        *((f"depth-{depth}", depth, 20_000) for depth in DEPTHS),
        ("error-1.1", 1.1, 202_000),
        ("error-1.5", 1.5, 20_200),
        ("error-3", 3.0, 20_200),
    ],
)
def test_molecules_with_reads_have_the_declared_mean(
    name: str, depth: float, molecules: int
) -> None:
    truth = generate(CASES[name], 1).truth
    assert truth.barcode.size == pytest.approx(molecules, rel=0.01)
    assert truth.molecule.size / truth.barcode.size == pytest.approx(depth, rel=0.02)


@pytest.mark.parametrize("name", ["clones-200", "peer-clones-200"])
def test_barcode_bases_are_wrong_as_declared(name: str) -> None:
    truth = generate(CASES[name], 1).truth
    differing = truth.observed ^ truth.barcode[truth.molecule]
    places = (differing | differing >> np.uint64(1)) & np.uint64(0x5555_5555_5555_5555)
    wrong = np.bitwise_count(places).sum() / (12 * truth.molecule.size)
    assert wrong == pytest.approx(3e-3, rel=0.05)


@pytest.mark.parametrize("name", ["count", "peer-count"])
def test_number_of_reads_is_exact(name: str) -> None:
    assert generate(CASES[name], 1).truth.molecule.size == 149_103


def test_two_molecules_share_each_barcode() -> None:
    truth = generate(CASES["two-on-one-40"], 1).truth
    assert truth.barcode.size == 4000
    assert np.array_equal(truth.barcode[::2], truth.barcode[1::2])
    assert np.unique(truth.barcode).size >= 1999
    assert (truth.clone[::2] != truth.clone[1::2]).mean() > 0.99
    assert (np.unique(np.bincount(truth.molecule)) == np.arange(1, 41)).all()


def test_errors_stay_where_barcodes_move() -> None:
    # The same draws, with and without: reads differ from their molecules at the same bases.
    shared = CASES["two-on-one-40"].scaled(0.05)
    plain = generate(replace(shared, shared_barcodes=1), 1).truth
    moved = generate(shared, 1).truth
    assert np.array_equal(plain.wrong, moved.wrong)
    assert plain.wrong.sum() > 50
    assert not np.array_equal(plain.barcode, moved.barcode)


def test_cells_are_read_right_and_umis_are_not() -> None:
    reads = generate(tenx(10, cells=5, umis=400), 2)
    truth = reads.truth
    cell = truth.observed >> np.uint64(20)
    assert reads.case.layout.count("X") == 16
    assert np.unique(cell).size == 5
    assert np.array_equal(cell, (truth.barcode >> np.uint64(20))[truth.molecule])
    assert 0.01 < truth.wrong.mean() < 0.04
    each = np.unique(truth.barcode >> np.uint64(20), return_counts=True)[1]
    assert each.min() > 0.8 * 400


def test_starts_are_spread_over_the_clone() -> None:
    case = tenx(10, cells=1, umis=600)
    still = replace(case.parameters, mean_error=0.0, pcr_error=0.0, barcode_error=0.0, clones=2)
    reads = generate(replace(case, parameters=still), 1)
    payloads = reads.bases[:, len(case.layout) - 1 :]
    assert payloads.shape[1] == 90
    clone = reads.truth.clone[reads.truth.molecule]
    for one in (0, 1):
        # 61 windows of one sequence: the bases of the first and of the last are known by overlap.
        windows = {text(row) for row in payloads[clone == one]}
        assert 50 <= len(windows) <= 61
        assert any(first[1:] == second[:-1] for first in windows for second in windows)


def test_lost_bases_shift_what_follows() -> None:
    case = CASES["deletions"]
    whole = generate(replace(case, deletion_share=0.0), 1)
    reads = generate(case, 1)
    lost = reads.truth.wrong
    assert 0.005 < lost.mean() < 0.015
    first, last = columns(case)[[0, -1]]
    behind = case.layout.removeprefix("^")[last + 1 :].upper()
    moved = 0
    for read in np.flatnonzero(lost).tolist():
        before, after = text(whole.bases[read]), text(reads.bases[read])
        # A cycle is the same machine state in both, so a sequencing error moves with its base.
        assert before[:first] == after[:first]
        assert after[last + 1 :] == before[last + 2 :]
        moved += after[last : last + len(behind)] == behind
    assert moved > 0.8 * lost.sum()
    kept = np.flatnonzero(~lost)
    assert (reads.bases[kept] == whole.bases[kept, :-1]).all(axis=1).mean() > 0.99


def test_flat_qualities_are_flat() -> None:
    assert np.unique(generate(small("peer-clones-1"), 1).qualities).tolist() == [32 + 33]
    assert np.unique(generate(small("clones-1"), 1).qualities - 33).tolist() == [2, 11, 25, 37]


def test_chimeras_and_relatives_are_there() -> None:
    assert generate(small("chimera-3-20"), 1).truth.chimera.mean() == pytest.approx(0.03, abs=0.015)
    assert not generate(small("clones-200"), 1).truth.chimera.any()
    for name, apart in (("vgene", 0.15), ("viral-3", 0.03), ("viral-10", 0.10)):
        parameters = CASES[f"related-{name}"].parameters
        two = 1 - parameters.family_divergence
        same = two**2 + (1 - two) ** 2 / 3
        assert 1 - same == pytest.approx(apart, abs=0.003)


def test_scaling_keeps_all_but_size() -> None:
    case = tenx(12)
    assert (case.scaled(1), case.scaled(0.1).cells, case.scaled(3).cells) == (case, 2, 60)
    assert case.scaled(0.1).parameters == replace(case.parameters, molecules=10_000)
    assert CASES["chimera-1-10000"].scaled(1e-6).parameters.molecules == 4
    assert CASES["count"].scaled(0.5).reads == 0
    assert 0.9 < CASES["count"].scaled(0.5).expected_reads / 74_550 < 1.1


def test_file_holds_the_reads(tmp_path: Path) -> None:
    reads = generate(small("clones-1"), 1)
    write_reads(reads, tmp_path / "reads.fastq.gz")
    lines = gzip.decompress((tmp_path / "reads.fastq.gz").read_bytes()).decode().splitlines()
    assert len(lines) == 4 * reads.bases.shape[0]
    assert lines[0::4] == [f"@r{number:09d}" for number in range(reads.bases.shape[0])]
    assert lines[1::4] == [text(row) for row in reads.bases]
    assert lines[3::4] == [text(row) for row in reads.qualities]


@pytest.mark.benchmark
def test_a_hundred_thousand_reads_take_two_seconds(tmp_path: Path) -> None:
    start = time.process_time()
    reads = generate(CASES["clones-200"], 1)
    write_reads(reads, tmp_path / "reads.fastq.gz")
    assert time.process_time() - start < 2 * reads.bases.shape[0] / 1e5
