"""Small libraries in one job: the bytes of staged ones, and one that fails fails alone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import cell_fixture
import rerun_cases
import workflow_run as runs

LAYOUTS = [("^ACGTACttgcaNNNNNNNN", "^NNNNcag"), ("^TGCATGttgcaNNNNNNNN", "^NNNNcag")]
SINGLE = [("ttgcaNNNNNNNNNN",)]
CELL_LAYOUT = "^" + "X" * cell_fixture.CELL + "N" * cell_fixture.UMI
NOT_BEGUN = shutil.ignore_patterns("results", "logs", "benchmarks", ".snakemake")
LIBRARIES = ("pairs", "single", "cells", "empty")


def make_library_files(folder: Path) -> None:
    """Write reads of a paired, a single-end and a single-cell library, and an empty file."""
    rng = np.random.default_rng(21)
    for unit in ("L1", "L2"):
        texts = runs.simulate_reads(
            rng, LAYOUTS, molecules=300, templates=2500, foreign=40, umi_errors=0.01
        )
        for mate, text in enumerate(texts, start=1):
            runs.write_reads(folder / f"pairs_{unit}_R{mate}.fastq.gz", text)
    (text,) = runs.simulate_reads(rng, SINGLE, molecules=200, templates=3000, foreign=9)
    runs.write_reads(folder / "single.fastq", text)
    cells = cell_fixture.make_cells(folder / "cells", reads=3000)
    shutil.move(cells.cell_list, folder / "cells.txt.gz")
    (folder / "empty.fastq").touch()


def write_sheets(folder: Path) -> None:
    units: list[Sequence[str]] = [
        ("pairs", unit, *(f"pairs_{unit}_R{mate}.fastq.gz" for mate in (1, 2)))
        for unit in ("L1", "L2")
    ]
    units += [("single", "L1", "single.fastq"), ("empty", "L1", "empty.fastq")]
    units += [("cells", unit, f"cells/{unit}.fastq.gz") for unit in ("L1", "L2")]
    samples: list[Sequence[str]] = [
        ("pairs", name, *layout) for name, layout in zip(("P1", "P2"), LAYOUTS, strict=True)
    ]
    samples += [("single", "S1", *SINGLE[0]), ("empty", "E1", *SINGLE[0])]
    samples.append(("cells", "C1", CELL_LAYOUT, "", "cells.txt.gz"))
    runs.write_sheets(folder, units, samples)


def config(folder: Path, libraries_per_job: int | str) -> None:
    asked = ["unmatched", "suspects", "lineage"]
    runs.write_config(folder, outputs=asked, libraries_per_job=libraries_per_job)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four libraries in one job."""
    folder = tmp_path_factory.mktemp("small") / "run"
    make_library_files(folder)
    write_sheets(folder)
    config(folder, "auto")
    result = runs.succeed(folder)
    wanted = ["small_1", *(f"publish_{name}" for name in LIBRARIES), "report"]
    assert sorted(job.rule for job in result.jobs) == sorted(wanted)
    return folder


def kept(folder: Path) -> dict[str, str]:
    """Give the digests of all that holds no times: data, and the tables behind the report."""
    outputs = ("results/samples", "results/unmatched", "results/lineage", "results/metrics")
    found = runs.digests(folder, *outputs, "results/report")
    return {path: digest for path, digest in found.items() if path.endswith((".tsv", ".gz", "et"))}


@pytest.mark.parametrize(("libraries_per_job", "jobs"), [(0, 0), (1, 4), (3, 2)])
def test_bytes_do_not_depend_on_the_libraries_of_a_job(
    finished: Path, tmp_path: Path, libraries_per_job: int, jobs: int
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder, ignore=NOT_BEGUN)
    config(folder, libraries_per_job)
    result = runs.succeed(folder)
    assert result.stages["small"] == jobs
    assert kept(folder) == kept(finished)
    assert len(kept(folder)) > 4 * 12
    if jobs:
        names = [path.relative_to(finished) for path in runs.files_below(finished / "results")]
        assert names == [path.relative_to(folder) for path in runs.files_below(folder / "results")]


def test_nothing_else_is_left_of_small_libraries(finished: Path) -> None:
    assert {path.name for path in (finished / "results").iterdir()} == {
        *("samples", "metrics", "unmatched", "lineage", "report"),
    }
    log = (finished / "logs" / "small" / "1.log").read_text()
    for name in (
        "probe pairs/L1: ",
        "place cells: ",
        "assemble single/1-of-1: ",
        "lineage empty: ",
    ):
        assert log.count(name) == 2, name
    assert "Traceback" not in log


def test_each_stage_is_measured_by_itself(finished: Path) -> None:
    jobs = runs.job_metrics(finished)
    gathers = [job for job in jobs if job["stage"] == "gather"]
    assert {job["library"] for job in gathers} == set(LIBRARIES)
    # The first library alone pays for the start.
    starts = sorted(job["clocks"]["start"] for job in gathers)
    assert starts[-1] < 0.2
    assert all(job["cpu_seconds"] < 5 for job in gathers)


def broken_run(finished: Path, folder: Path) -> str:
    """Copy a run that is not begun, with a fault in the library `single`; gives the fault."""
    shutil.copytree(finished, folder, ignore=NOT_BEGUN)
    text = (folder / "single.fastq").read_bytes()
    (folder / "single.fastq").write_bytes(text[: text.rindex(b"\n+\n") + 3])
    return "umimill: single.fastq, record "


def test_a_library_that_fails_leaves_the_others_finished(finished: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fault = broken_run(finished, folder)
    result = runs.run_snakemake(folder, "--keep-going")
    assert result.code == 1
    said = re.findall(r"umimill: .*", result.output)
    assert len(said) == 1, result.output
    line = said[0]
    assert line.startswith(fault)
    assert "Traceback" not in result.output
    for log in ("small/1.log", "publish/single.log"):
        assert (folder / "logs" / log).read_text().count(line) == 1
    before = {path: kept(finished)[path] for path in kept(folder)}
    assert kept(folder) == before
    missing = set(kept(finished)) - set(before)
    assert missing == {
        path for path in kept(finished) if {"single", "S1", "report"} & set(Path(path).parts)
    }
    assert not (folder / "results" / "small").exists()

    shutil.copy2(finished / "single.fastq", folder / "single.fastq")
    runs.succeed(folder)
    assert kept(folder) == kept(finished)


def test_a_killed_job_is_run_again(finished: Path, tmp_path: Path) -> None:
    """What it left lies below results/small, and nowhere else."""
    folder = tmp_path / "run"
    broken_run(finished, folder)
    work = folder / "results" / "small" / "pairs" / "work"
    work.mkdir(parents=True)
    (work / "plan").write_text("half a plan")
    shutil.copy2(finished / "single.fastq", folder / "single.fastq")
    runs.succeed(folder, "--rerun-incomplete")
    assert kept(folder) == kept(finished)


@pytest.fixture(scope="module")
def rerun_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished run that the table of CONTRIBUTING is about, with both libraries in one job."""
    folder = tmp_path_factory.mktemp("small-reruns") / "run"
    rng = np.random.default_rng(9)
    for library, unit in (*rerun_cases.UNITS, ("a", "L2")):
        texts = runs.simulate_reads(rng, LAYOUTS, molecules=200, templates=1000, foreign=20)
        for mate, text in enumerate(texts, start=1):
            runs.write_reads(folder / f"{library}_{unit}_R{mate}.fastq", text)
    runs.write_sheets(folder, rerun_cases.unit_rows(), rerun_cases.SAMPLES)
    runs.write_config(folder, libraries_per_job="auto")
    runs.succeed(folder)
    return folder


STAGED = ("`buckets`", "`parts`", "`--set-scatter LIBRARY=3`")
CASES = [
    what
    for what, (name, _) in rerun_cases.CASES.items()
    if name == "kept" and what != "`libraries_per_job`"
]


@pytest.mark.parametrize("what", CASES)
def test_a_change_runs_the_job_again(rerun_folder: Path, tmp_path: Path, what: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(rerun_folder, folder)
    _, change = rerun_cases.CASES[what]
    stages = runs.succeed(folder, "--dry-run", *change(folder)).stages
    first, _ = rerun_cases.table()[what]
    if what in STAGED:
        assert stages["probe"] == (1 if "LIBRARY" in what else 3)
    elif first in ("nothing", "report"):
        assert not stages["small"]
        assert stages["report"] == (first == "report")
    else:
        libraries = 3 if what == "units sheet: a library more" else 2
        assert stages["small"] == 1
        assert stages["publish"] == libraries
