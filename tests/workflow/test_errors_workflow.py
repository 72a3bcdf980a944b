"""What a user's mistake looks like through Snakemake: one line that names the file, once."""

from __future__ import annotations

import shutil
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import workflow_run as runs

LAYOUT = ("^ACGTACttgcaNNNNNNNN", "^NNNNcag")
# More than probe looks at, so that what is wrong at the end is met by checkout.
TEMPLATES = 10_400
LAST = TEMPLATES - 1

Lines = list[bytes]


def keep(_mate_1: Lines, _mate_2: Lines) -> None:
    """Leave the reads as they are."""


@dataclass(frozen=True)
class Fault:
    """A library of one or two units with something wrong in its files.

    Attributes:
        stage: the stage that meets it.
        message: what is said, after the name of the program.
        break_files: changes the lines of both mates.
        layout: of read 1.
        cut: bytes cut off the end of the compressed read 1.
    """

    stage: str
    message: str
    break_files: Callable[[Lines, Lines], None] = keep
    layout: str = LAYOUT[0]
    cut: int = 0


def set_line(lines: Lines, record: int, line: int, text: bytes) -> None:
    lines[4 * record + line] = text


def quality_byte(byte: int, record: int) -> Callable[[Lines, Lines], None]:
    def break_files(_mate_1: Lines, mate_2: Lines) -> None:
        old = mate_2[4 * record + 3]
        set_line(mate_2, record, 3, old[:6] + bytes([byte]) + old[7:])

    return break_files


def drop_records(_mate_1: Lines, mate_2: Lines) -> None:
    del mate_2[-8:]


def drop_all(_mate_1: Lines, mate_2: Lines) -> None:
    mate_2.clear()


def rename(_mate_1: Lines, mate_2: Lines) -> None:
    set_line(mate_2, LAST, 0, b"@r0000000\n")


def cut_record(mate_1: Lines, _mate_2: Lines) -> None:
    del mate_1[-2:]


def shorten_quality(mate_1: Lines, _mate_2: Lines) -> None:
    set_line(mate_1, LAST, 3, mate_1[-1][:-3] + b"\n")


FAULTS = {
    "unequal": Fault(
        "checkout",
        f"unequal_R1.fastq, record {LAST:,} (line {4 * LAST - 3:,}): its mate is missing: "
        f"unequal_R2.fastq ends after {LAST - 1:,} records; give both files of one run",
        drop_records,
    ),
    "nothing": Fault(
        "probe",
        "nothing_R1.fastq, record 1 (line 1): its mate is missing: nothing_R2.fastq ends after "
        "0 records; give both files of one run",
        drop_all,
    ),
    "names": Fault(
        "checkout",
        f"names_R2.fastq, record {LAST + 1:,} (line {4 * LAST + 1:,}): mates are named "
        f"differently: r{LAST:07} in names_R1.fastq, r0000000 here; the files are out of step",
        rename,
    ),
    "gzip": Fault(
        "checkout",
        "gzip_R1.fastq.gz, record ",  # which one depends on the compressor
        cut=2000,
    ),
    "cut": Fault(
        "checkout",
        f"cut_R1.fastq, record {LAST + 1:,} (line {4 * LAST + 3:,}): the file ends inside this "
        "record; fetch it again",
        cut_record,
    ),
    "length": Fault(
        "checkout",
        f"length_R1.fastq, record {LAST + 1:,} (line {4 * LAST + 4:,}): sequence has 71 bases, "
        "quality 69",
        shorten_quality,
    ),
    "low": Fault(
        "probe",
        "low_R2.fastq, record 3 (line 12): byte 32 at column 7 is not a quality (bytes 33 to 126)",
        quality_byte(32, 2),
    ),
    "high": Fault(
        "checkout",
        f"high_R2.fastq, record {LAST + 1:,} (line {4 * LAST + 4:,}): byte 127 at column 7 is not "
        "a quality (bytes 33 to 126)",
        quality_byte(127, LAST),
    ),
    "layout": Fault(
        "probe",
        "layout_R1.fastq: layout ^ACGTACttgcaNNNNNNNN.{60} of sample layout-S takes 79 bases, but "
        "the longest of the first reads has 71; correct the layout, or exchange read1 and read2",
        layout=LAYOUT[0] + ".{60}",
    ),
}


@dataclass(frozen=True)
class Broken:
    """A run that failed, and its folder."""

    folder: Path
    result: runs.Result


def write_library(folder: Path, name: str, fault: Fault, texts: list[bytes]) -> tuple[str, ...]:
    mates = [text.splitlines(keepends=True) for text in texts]
    fault.break_files(*mates)
    ending = ".fastq.gz" if fault.cut else ".fastq"
    paths = [f"{name}_R{number}{ending}" for number in (1, 2)]
    for path, lines in zip(paths, mates, strict=True):
        runs.write_reads(folder / path, b"".join(lines))
    if fault.cut:
        whole = (folder / paths[0]).read_bytes()
        (folder / paths[0]).write_bytes(whole[: -fault.cut])
    return (name, "L1", *paths)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Broken:
    folder = tmp_path_factory.mktemp("errors")
    rng = np.random.default_rng(3)
    texts = runs.simulate_reads(rng, [LAYOUT], molecules=900, templates=TEMPLATES, lengths=(52,))
    units = [write_library(folder, name, fault, texts) for name, fault in FAULTS.items()]
    other = runs.simulate_reads(rng, [LAYOUT], molecules=900, templates=TEMPLATES, lengths=(52,))
    for mate in (1, 2):
        runs.write_reads(folder / f"good_R{mate}.fastq", other[mate - 1])
        runs.write_reads(folder / f"lane_R{mate}.fastq", other[mate - 1])
        runs.write_reads(folder / f"copy_R{mate}.fastq.gz", other[mate - 1])
    units.append(("twice", "L1", "lane_R1.fastq", "lane_R2.fastq"))
    units.append(("twice", "L2", "copy_R1.fastq.gz", "copy_R2.fastq.gz"))
    units.append(("good", "L1", "good_R1.fastq", "good_R2.fastq"))
    samples = [(name, f"{name}-S", fault.layout, LAYOUT[1]) for name, fault in FAULTS.items()]
    samples += [(name, f"{name}-S", *LAYOUT) for name in ("twice", "good")]
    runs.write_sheets(folder, units, samples)
    runs.write_config(folder, outputs=["unmatched"])
    return Broken(folder, runs.run_snakemake(folder, "--keep-going"))


def logs(broken: Broken) -> list[tuple[str, str, str]]:
    """Read the logs of jobs: (stage, library, text)."""
    home = broken.folder / "logs"
    found = ((path.relative_to(home).parts, path.read_text()) for path in runs.files_below(home))
    return [(parts[0], parts[1], text) for parts, text in found]


@pytest.mark.parametrize("name", FAULTS)
def test_fault_in_a_file_is_said_once(broken: Broken, name: str) -> None:
    message = "umimill: " + FAULTS[name].message
    said = [line for line in broken.result.output.splitlines() if message in line]
    assert len(said) == 1, broken.result.errors
    assert name == "gzip" or said == [message]
    assert [stage for stage, _, text in logs(broken) if message in text] == [FAULTS[name].stage]


def test_truncated_gzip_names_the_record(broken: Broken) -> None:
    inflated = zlib.decompressobj(31).decompress((broken.folder / "gzip_R1.fastq.gz").read_bytes())
    whole = inflated.count(b"\n") // 4
    assert 10_000 < whole < TEMPLATES
    (said,) = [line for line in broken.result.errors if "gzip_R1" in line]
    record = int(said.split("record ")[1].split(" ")[0].replace(",", ""))
    assert said.endswith(
        f"(line {4 * record - 3:,}): the gzip file is cut short here; fetch it again"
    )
    # A decompressor may keep back the last few symbols.
    assert whole - 8 <= record <= whole + 1


def test_lane_given_twice_is_said_once(broken: Broken) -> None:
    said = [line for line in broken.result.errors if "twice" in line]
    assert len(said) == 1
    assert "copy_R1.fastq.gz" in said[0]
    assert "lane_R1.fastq" in said[0]


def test_no_other_errors_and_no_traceback(broken: Broken) -> None:
    assert broken.result.code == 1
    assert len(broken.result.errors) == len(FAULTS) + 1
    assert "Traceback" not in broken.result.output
    assert not any("Traceback" in text for _, _, text in logs(broken))
    told = {library for _, library, text in logs(broken) if "umimill: " in text}
    assert told == {*FAULTS, "twice"}


def test_good_library_is_finished(broken: Broken) -> None:
    samples = {path.name for path in (broken.folder / "results" / "samples").iterdir()}
    assert samples == {"good-S"}
    home = broken.folder / "results" / "samples" / "good-S"
    assert len(runs.read_fastq(home / "good-S.consensus_R1.fastq.gz")) > 100
    assert {path.name for path in (broken.folder / "results" / "unmatched").iterdir()} == {"good"}
    assert runs.leftovers(broken.folder) == []


def test_mended_library_runs_alone(broken: Broken, tmp_path: Path) -> None:
    folder = tmp_path / "mended"
    shutil.copytree(broken.folder, folder)
    for mate in (1, 2):
        shutil.copyfile(folder / f"good_R{mate}.fastq", folder / f"names_R{mate}.fastq")
    targets = [f"gather_{name}_1" for name in ("good", "names")]
    result = runs.succeed(folder, "--dry-run", "--rerun-incomplete", *targets)
    assert result.stages == Counter(dict.fromkeys(runs.STAGES[:-1], 1))
    assert not any("good" in job.output for job in result.jobs)


# -- config and sheets -----------------------------------------------------------------------------


UNIT_ROWS = [
    ("good", "L1", "a.fastq"),
    ("good", "L1", "a.fastq"),
    ("lost", "L1", "not there.fastq"),
    ("a/b", "L1", "b.fastq"),
    ("up", "..", "c.fastq"),
    ("-dash", "L1", "d.fastq"),
]
SAMPLE_ROWS = [
    ("good", "S1", "^ACGTNNNN"),
    ("good", "S2", "^acgtN{4}"),
    ("good", "S1", "^ACGTNNNN"),
    ("lost", "../S3", "^ACGTNNNN"),
    ("a/b", "S/4", "^ACGTNNNN"),
    ("up", "-S5", "^ACGTNNNN"),
    ("-dash", "a..b", "^ACGTNNNN"),
]
RULE = (
    "is not a legal id; use letters, digits, _ and -, single dots inside, first a letter or digit"
)
PROBLEMS = [
    "config, key bucket: not known; did you mean buckets?",
    "units.tsv, row 2: the same as row 1; remove it",
    "units.tsv, row 3: read1 'not there.fastq' does not exist; check the path, it starts at "
    "the working directory",
    f"units.tsv, row 4: library 'a/b' {RULE}",
    f"units.tsv, row 5: unit '..' {RULE}",
    f"units.tsv, row 6: library '-dash' {RULE}",
    "samples.tsv, row 2: two samples with one tag: S2 has the layout of S1 in row 1; give each its "
    "own",
    "samples.tsv, row 3: the same as row 1; remove it",
    f"samples.tsv, row 4: sample '../S3' {RULE}",
    f"samples.tsv, row 5: library 'a/b' {RULE}",
    f"samples.tsv, row 5: sample 'S/4' {RULE}",
    f"samples.tsv, row 6: sample '-S5' {RULE}",
    f"samples.tsv, row 7: library '-dash' {RULE}",
    f"samples.tsv, row 7: sample 'a..b' {RULE}",
]


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Broken:
    folder = tmp_path_factory.mktemp("refused") / "run"
    runs.write_sheets(folder, UNIT_ROWS, SAMPLE_ROWS)
    runs.write_config(folder, bucket=4)
    for letter in "abcd":
        (folder / f"{letter}.fastq").touch()
    return Broken(folder, runs.run_snakemake(folder))


def test_all_problems_of_config_and_sheets_are_said_at_once(refused: Broken) -> None:
    lines = Counter(line.strip() for line in refused.result.output.splitlines())
    assert {problem: lines[problem] for problem in PROBLEMS} == dict.fromkeys(PROBLEMS, 1)
    assert sum(" row " in line for line in lines.elements()) == len(PROBLEMS) - 1
    assert refused.result.code == 1
    assert "Traceback" not in refused.result.output


def test_refused_run_writes_nothing(refused: Broken) -> None:
    found = {path.name for path in refused.folder.iterdir()} - {".snakemake"}
    assert found == {"config.yaml", "units.tsv", "samples.tsv", *(f"{x}.fastq" for x in "abcd")}
    assert {path.name for path in refused.folder.parent.iterdir()} == {"run"}
