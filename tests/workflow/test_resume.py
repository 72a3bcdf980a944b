"""Jobs and Snakemake itself are killed in mid-work; the next run ends in the same bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import workflow_run as runs

LAYOUTS = {"A": ("^ACGTACttgcaNNNNNNNNNNNN",), "B": ("^TGCATGttgcaNNNNNNNNNNNN",)}
BLANK = "^CAAGGAttgcaNNNNNNNNNNNN"
TEMPLATES = 120_000
TARGET = "gather_deep_1"
# Where the temporary files of a stage are.
HOMES = {
    "checkout": "results/partition/deep/L1",
    "tally": "results/tally/deep",
    "link": "results/link/deep",
    "settle": "results/settle/deep",
    "move": "results/move/deep",
    "assemble": "results/assemble/deep",
    "gather": "results/samples/A",
}
SECONDS = 120


def make_run(folder: Path, reads: Path) -> None:
    runs.write_sheets(
        folder,
        [("deep", "L1", str(reads))],
        [("deep", name, *row) for name, row in (*LAYOUTS.items(), ("blank", (BLANK,)))],
    )
    runs.write_config(folder)


@pytest.fixture(scope="module")
def reads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(4)
    (text,) = runs.simulate_reads(
        rng,
        list(LAYOUTS.values()),
        molecules=TEMPLATES // 2,
        templates=TEMPLATES,
        foreign=100,
        umi_errors=0.003,
    )
    path = tmp_path_factory.mktemp("resume") / "reads.fastq"
    runs.write_reads(path, text)
    return path


@pytest.fixture(scope="module")
def reference(reads: Path) -> Path:
    """A run that nothing disturbed."""
    folder = reads.parent / "reference"
    make_run(folder, reads)
    runs.succeed(folder, TARGET)
    return folder


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def wait_for_end(process: int) -> None:
    deadline = time.monotonic() + SECONDS
    while is_alive(process):
        assert time.monotonic() < deadline, f"process {process} does not end"
        time.sleep(0.02)


class Snakemake:
    """Snakemake in the background, and the jobs it started.

    Args:
        folder: of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = (folder.parent / f"{folder.name}.log").open("a+")
        self._start = self._log.seek(0, os.SEEK_END)
        self.process = subprocess.Popen(
            runs.command(folder, TARGET, "--rerun-incomplete"),
            env=runs.environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def said(self) -> str:
        self._log.seek(self._start)
        return self._log.read()

    def wait_for_writer(self, stage: str, others: frozenset[int] = frozenset()) -> int:
        """Wait until a job of a stage has a file open under its temporary name; give its id."""
        home = self.folder / HOMES[stage]
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            with suppress(FileNotFoundError):
                names = [name for name in os.listdir(home) if name.endswith(".tmp")]
                writers = {int(name.removesuffix(".tmp").rpartition(".")[2]) for name in names}
                for writer in writers - others:
                    if is_alive(writer):
                        return writer
            assert self.process.poll() is None, self.said()
            time.sleep(0.0005)
        raise AssertionError(f"no job of {stage}: {self.said()}")

    def end(self) -> int:
        code = self.process.wait(SECONDS)
        self._log.close()
        return code


@pytest.fixture
def started() -> Iterator[list[int]]:
    """Ids of processes to end after the test, come what may."""
    processes: list[int] = []
    yield processes
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def check_no_file_is_half_written(folder: Path, reference: Path) -> None:
    """Compare what is there under final names with the undisturbed run."""
    whole = runs.digests(reference, "results")
    found = runs.digests(folder, "results")
    for name, digest in found.items():
        if name.endswith(".tmp"):
            continue
        if name.endswith(".json"):
            json.loads((folder / name).read_text())
        elif "/metrics/" not in name:
            assert digest == whole[name], name
    for path in runs.files_below(folder / "results"):
        if runs.is_metrics(path):
            json.loads(path.read_text())


def check_end(folder: Path, reference: Path) -> None:
    assert runs.digests(folder) == runs.digests(reference)
    assert runs.leftovers(folder) == []
    names = {str(path.relative_to(folder)) for path in runs.files_below(folder / "results")}
    wanted = {str(path.relative_to(reference)) for path in runs.files_below(reference / "results")}
    assert names == wanted
    check_no_file_is_half_written(folder, reference)


def test_killed_jobs(reads: Path, reference: Path, tmp_path: Path, started: list[int]) -> None:
    folder = tmp_path / "run"
    make_run(folder, reads)
    for stage in HOMES:
        snakemake = Snakemake(folder)
        started.append(snakemake.process.pid)
        job = snakemake.wait_for_writer(stage)
        os.kill(job, signal.SIGKILL)
        assert snakemake.end() == 1
        assert not is_alive(job)
        check_no_file_is_half_written(folder, reference)
        # Snakemake removes what a failed job had finished.
        made = [path for path in runs.files_below(folder / HOMES[stage]) if path.suffix != ".tmp"]
        assert made == []
    runs.succeed(folder, TARGET)
    check_end(folder, reference)


def test_killed_snakemake(reads: Path, reference: Path, tmp_path: Path, started: list[int]) -> None:
    """Half of the jobs end with Snakemake; the others go on and meet the job of the next run."""
    folder = tmp_path / "run"
    make_run(folder, reads)
    orphan, orphan_stage = 0, ""
    # Nobody meets an orphan of the last one.
    fates = (False, True, False, True, False, True, True)
    for stage, dies in zip(HOMES, fates, strict=True):
        snakemake = Snakemake(folder)
        started.append(snakemake.process.pid)
        if orphan:
            # Both have the same file open, each under a name of its own.
            started.append(snakemake.wait_for_writer(orphan_stage, frozenset([orphan])))
            os.kill(orphan, signal.SIGCONT)
        job = snakemake.wait_for_writer(stage, frozenset([orphan]))
        started.append(job)
        os.kill(job, signal.SIGSTOP)
        if orphan:
            wait_for_end(orphan)
        os.kill(snakemake.process.pid, signal.SIGKILL)
        assert snakemake.end() == -signal.SIGKILL
        check_no_file_is_half_written(folder, reference)
        orphan, orphan_stage = (0, "") if dies else (job, stage)
        if dies:
            os.kill(job, signal.SIGKILL)
            wait_for_end(job)
        if stage == "checkout":
            locked = runs.run_snakemake(folder, TARGET, "--rerun-incomplete")
            assert locked.code == 1
            assert "--unlock" in locked.output
        runs.succeed(folder, "--unlock")
    runs.succeed(folder, TARGET, "--rerun-incomplete")
    check_end(folder, reference)
