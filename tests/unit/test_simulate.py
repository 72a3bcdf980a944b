"""The simulator: equal bytes, a truth that explains every base, refusals."""

import gzip
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import isal
import numpy as np
import numpy.typing as npt
import pytest

from umimill.simulate import Simulation, SimulationParameters, simulate, write_simulation

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "resources" / "demo"
DEMO_FILES = ("demo_R1.fastq.gz", "truth_molecules.tsv.gz", "truth_reads.tsv.gz")
DEMO_ISAL = "1.9.1"  # the version that wrote the committed files

# Everything at rates where a few thousand reads say something; read 2 runs through the insert.
BUSY = SimulationParameters(
    seed=7, molecules=2000, pcr_error=0.0, barcode_prefix_share=0.6, chimera_share=0.1,
    shift_share=0.1, foreign_share=0.1, front_share=0.2, insert_length=70, payload_length=60,
    read2_length=120, clones=20,
)  # fmt: skip


@pytest.fixture(scope="module")
def demo() -> Simulation:
    return simulate(SimulationParameters())


@pytest.fixture(scope="module")
def busy() -> Simulation:
    return simulate(BUSY)


def text(row: npt.NDArray[np.uint8]) -> str:
    return row.tobytes().decode()


# -- bytes -----------------------------------------------------------------------------------------


def test_equal_seed_equal_bytes_other_seed_other_reads(tmp_path: Path, busy: Simulation) -> None:
    other = simulate(replace(BUSY, seed=8))
    for simulation, name in ((busy, "a"), (simulate(BUSY), "b"), (other, "c")):
        write_simulation(simulation, tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == ["demo_R1.fastq.gz", "demo_R2.fastq.gz", *DEMO_FILES[1:]]
    for name in files:
        first = (tmp_path / "a" / name).read_bytes()
        assert first == (tmp_path / "b" / name).read_bytes()
        assert first != (tmp_path / "c" / name).read_bytes()
        assert first[:4] == b"\x1f\x8b\x08\x00", "no file name in the header"
        assert first[4:8] == b"\0\0\0\0", "no time in the header"
    rows = min(busy.names.size, other.names.size)
    assert (busy.bases1[:rows] != other.bases1[:rows]).any(axis=1).mean() > 0.99


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, demo: Simulation) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    write_simulation(demo, folder)
    return folder


@pytest.mark.parametrize("name", DEMO_FILES)
def test_committed_demo_is_what_is_written(written: Path, name: str) -> None:
    committed = (DEMO / name).read_bytes()
    assert gzip.decompress(committed) == gzip.decompress((written / name).read_bytes())
    if isal.__version__ == DEMO_ISAL:
        assert committed == (written / name).read_bytes()


def test_committed_demo_is_small_and_described() -> None:
    assert sum(path.stat().st_size for path in DEMO.iterdir()) <= 2_000_000
    described = (DEMO / "README.md").read_text()
    reads = gzip.decompress((DEMO / "truth_reads.tsv.gz").read_bytes()).decode().splitlines()
    molecules = gzip.decompress((DEMO / "truth_molecules.tsv.gz").read_bytes()).splitlines()
    foreign = sum(line.split("\t")[3] == "1" for line in reads[1:])
    assert f"{len(molecules) - 1:,} got" in described
    assert f"{len(reads) - 1:,} reads, {foreign} of them foreign" in described
    for column in (*reads[0].split("\t"), *molecules[0].decode().split("\t")):
        assert column in described


def test_command_line_writes_the_demo(tmp_path: Path) -> None:
    """The command of the demo's README."""
    (line,) = re.findall(r"^(PYTHONPATH=.*)$", (DEMO / "README.md").read_text(), re.MULTILINE)
    path, python, *arguments = shlex.split(line)
    assert (path, python) == ("PYTHONPATH=workflow", "python")
    command = [sys.executable, *arguments, "--output", str(tmp_path / "out")]

    def start(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *more], cwd=ROOT, env={**os.environ, "PYTHONPATH": "workflow"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    run = start()
    assert run.returncode == 0, run.stderr
    assert "25,650 reads" in run.stdout
    for name in DEMO_FILES:
        ours = gzip.decompress((tmp_path / "out" / name).read_bytes())
        assert ours == gzip.decompress((DEMO / name).read_bytes())
    failed = start("--mean-reads", "-1")
    assert failed.returncode == 2
    assert "mean_reads is -1.0; give above 0" in failed.stderr
    assert "Traceback" not in failed.stderr


# -- truth -----------------------------------------------------------------------------------------


def expected_reads(simulation: Simulation, read: int) -> tuple[str, str]:
    """Tell from the truth, base by base, what an error-free pair shows; ? is a random base."""
    parameters = simulation.parameters
    molecule = int(simulation.read_molecule[read])
    pattern = list(parameters.layouts[simulation.molecule_sample[molecule]].upper())
    umi = iter(text(simulation.molecule_umi[molecule]))
    head = "".join(next(umi) if base == "N" else base for base in pattern)
    insert = text(simulation.molecule_template[molecule])
    if simulation.read_is_chimera[read]:
        other = simulation.molecule_clone.tolist().index(simulation.read_other_clone[read])
        place = int(simulation.read_breakpoint[read])
        insert = insert[:place] + text(simulation.molecule_template[other])[place:]
    pair = str.maketrans("ACGT", "TGCA")
    read2 = (head + insert).translate(pair)[::-1] + "AGATCGGAAGAGC" + "G" * 200
    shift = simulation.read_shift[read]
    seen = {-1: head[:-1], 0: head, 1: head + "?"}[int(shift)]
    read1 = "?" * simulation.read_front[read] + seen + insert + "AGATCGGAAGAGC" + "G" * 200
    length1 = len(head) + parameters.payload_length
    return read1[:length1], read2[: parameters.read2_length]


def test_error_free_reads_are_what_the_truth_says(busy: Simulation) -> None:
    assert busy.bases2 is not None
    clean = np.flatnonzero(~busy.read_is_foreign & (busy.read_sequencing_errors == 0))
    seen: Counter[str] = Counter()
    for read in clean.tolist():
        read1, read2 = expected_reads(busy, read)
        actual = text(busy.bases1[read])
        masked = "".join("?" if a == "?" else b for a, b in zip(read1, actual, strict=True))
        if busy.read_barcode_errors[read] == 0:
            assert masked == read1
        assert text(busy.bases2[read]) == read2
        seen["chimera"] += int(busy.read_is_chimera[read])
        seen["lost"] += int(busy.read_shift[read] < 0)
        seen["gained"] += int(busy.read_shift[read] > 0)
        seen["front"] += int(busy.read_front[read] == 2)
        seen["plain"] += 1
    assert all(seen[kind] > 50 for kind in ("chimera", "lost", "gained", "front", "plain")), seen


def test_error_counts_of_the_truth_are_the_differences(busy: Simulation) -> None:
    columns = busy.parameters.umi_columns
    for read in range(2000):
        if busy.read_is_foreign[read]:
            assert busy.read_barcode_errors[read] == 0
            continue
        read1, read2 = expected_reads(busy, read)
        assert busy.bases2 is not None
        pairs = [*zip(read1, text(busy.bases1[read]), strict=True)]
        umi = [pairs[column + busy.read_front[read]] for column in columns.tolist()]
        if busy.read_shift[read] < 0:
            umi.pop()
        assert busy.read_barcode_errors[read] == sum(a != b for a, b in umi)
        random = sum(a == "?" for a, _ in pairs)
        pairs += zip(read2, text(busy.bases2[read]), strict=True)
        errors = sum(a not in (b, "?") for a, b in pairs)
        assert errors <= busy.read_sequencing_errors[read] <= errors + random


def test_tables_hold_the_truth(written: Path, demo: Simulation) -> None:
    lines = gzip.decompress((written / "truth_reads.tsv.gz").read_bytes()).decode().splitlines()
    reads = [line.split("\t") for line in lines[1:]]
    assert [int(row[0]) for row in reads] == list(range(demo.names.size))
    assert [int(row[2]) for row in reads] == demo.read_molecule.tolist()
    names = (*demo.parameters.samples, ".")
    assert [row[1] for row in reads] == [names[sample] for sample in demo.read_sample.tolist()]
    flags = np.array([[int(value) for value in row[3:]] for row in reads])
    columns = (
        demo.read_is_foreign, demo.read_is_chimera, demo.read_other_clone, demo.read_breakpoint,
        demo.read_shift, demo.read_front, demo.read_barcode_errors, demo.read_sequencing_errors,
    )  # fmt: skip
    assert (flags == np.stack(columns, axis=1)).all()
    lines = gzip.decompress((written / "truth_molecules.tsv.gz").read_bytes()).decode().splitlines()
    molecules = [line.split("\t") for line in lines[1:]]
    counted = Counter(int(row[2]) for row in reads)
    for number, (molecule, sample, umi, clone, count, template) in enumerate(molecules):
        assert int(molecule) == number
        assert sample == names[demo.molecule_sample[number]]
        assert int(clone) == demo.molecule_clone[number]
        assert umi == text(demo.molecule_umi[number])
        assert template == text(demo.molecule_template[number])
        assert int(count) == counted[number] >= 1
    assert len({(row[3], row[5]) for row in molecules}) == demo.parameters.clones
    for row in reads[:1000]:
        assert row[1] == "." or row[1] == molecules[int(row[2])][1]


def test_fastq_holds_the_reads(tmp_path: Path, busy: Simulation) -> None:
    write_simulation(busy, tmp_path)
    assert busy.bases2 is not None
    assert busy.qualities2 is not None
    mates = ((busy.bases1, busy.qualities1), (busy.bases2, busy.qualities2))
    form = re.compile(r"A01234:56:HSIMUDSXX:1:[12][1-4](0[1-9]|[1-7]\d):\d{4,5}:\d{4,5}")
    for mate, (bases, qualities) in enumerate(mates, start=1):
        content = gzip.decompress((tmp_path / f"demo_R{mate}.fastq.gz").read_bytes())
        lines = content.decode().split("\n")
        assert lines.pop() == ""
        assert len(lines) == 4 * busy.names.size
        names = [line.split(" ") for line in lines[::4]]
        assert all(name.startswith("@") and form.fullmatch(name[1:]) for name, _ in names)
        assert [name[1:].encode() for name, _ in names] == busy.names.tolist()
        assert {comment for _, comment in names} == {f"{mate}:N:0:GTCAGATC+CTAGGTAC"}
        assert lines[1::4] == [text(row) for row in bases]
        assert set(lines[2::4]) == {"+"}
        assert lines[3::4] == [text(row) for row in qualities]
    places = [tuple(map(int, name.split(b":")[4:])) for name in busy.names.tolist()]
    rising = [(tile, y, x) for tile, x, y in places]
    assert rising == sorted(set(rising))
    assert len({tile for tile, _, _ in places}) > 300


# -- limits ---------------------------------------------------------------------------------------


def test_no_reads_give_empty_files(tmp_path: Path) -> None:
    simulation = simulate(replace(BUSY, molecules=3, mean_reads=1e-6))
    assert simulation.names.size == simulation.molecule_reads.size == 0
    write_simulation(simulation, tmp_path)
    assert gzip.decompress((tmp_path / "demo_R1.fastq.gz").read_bytes()) == b""
    assert gzip.decompress((tmp_path / "truth_reads.tsv.gz").read_bytes()).count(b"\n") == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seed", -1), ("molecules", 0), ("mean_reads", 0.0), ("sigma_reads", -0.1),
        ("uniform_reads", -1),
        ("chimera_share", 1.5), ("foreign_share", 1.0), ("pcr_cycles", 51), ("pcr_error", 0.1),
        ("front_bases", 90), ("mean_error", 1e-4), ("mean_error", 0.9), ("barcode_error", 1.5),
        ("quality_levels", (2, 37)), ("quality_levels", (37, 25, 11, 2)),
        ("layouts", ("ACTNNNN",)), ("layouts", ("NNNN", "NNNN", "NNNN", "NNNA")),
        ("layouts", ("ACT.NN",) * 4), ("layouts", ("ACT",) * 4),
        ("barcode_prefix_length", 13), ("barcode_prefix_length", 0),
    ],
)  # fmt: skip
def test_what_the_model_cannot_make_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"SimulationParameters: {field} is .*; give"):
        replace(SimulationParameters(), **{field: value})
    with pytest.raises(ValueError, match=r"barcode_error is 0\.5; give"):
        SimulationParameters(barcode_error=0.5, barcode_prefix_share=1.0)
