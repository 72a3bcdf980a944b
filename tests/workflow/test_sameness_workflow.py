"""The same bytes through Snakemake, whatever the run is split into, run on, or told to keep."""

from __future__ import annotations

import itertools
import operator
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import workflow_run as runs
from umimill.bgzf import compress_block

TARGETS = ("gather_deep_1", "gather_unmatched_deep", "lineage_deep")
SAMPLES = {
    "A": ("^ACGTACttgcaN{14}", "^N{2}cag"),
    "B": ("^TGCATGttgcaN{14}", "^N{2}cag"),
    "blank": ("^CAAGGAttgcaN{14}", "^N{2}cag"),
}
# One read each in sample A: a table of more than two row groups, and too large for a small budget.
SINGLETONS = 300_000
# Least memory that a job may work with, in 10^6 bytes.
LEAST_BUDGET_MB = 16


@dataclass(frozen=True)
class Cell:
    """How a run is split, and what it may take.

    Attributes:
        by_scatter: the number of buckets comes from --set-scatter, not from the config.
        small: jobs have hardly more memory than they start with.
        keep: keep_intermediates.
    """

    buckets: int
    by_scatter: bool
    parts: int
    cores: int
    small: bool
    keep: bool


REFERENCE = Cell(1, False, 2, 1, False, False)
CELLS = (
    Cell(1, True, 1, 2, True, False),
    Cell(1, False, 1, 1, True, True),
    Cell(3, False, 2, 2, True, False),
    Cell(3, True, 1, 1, False, True),
    Cell(16, False, 1, 1, True, False),
    Cell(16, True, 2, 2, False, True),
)


def test_cells_cover_all_pairs() -> None:
    cells = [astuple(cell) for cell in (REFERENCE, *CELLS)]
    values = [sorted({cell[column] for cell in cells}) for column in range(len(fields(Cell)))]
    assert values == [[1, 3, 16], [False, True], [1, 2], [1, 2], [False, True], [False, True]]
    for first, second in itertools.combinations(range(len(values)), 2):
        wanted = set(itertools.product(values[first], values[second]))
        assert {(cell[first], cell[second]) for cell in cells} == wanted


def name(cell: Cell) -> str:
    yes = [word for word in ("by_scatter", "small", "keep") if getattr(cell, word)]
    return "-".join([f"{cell.buckets}b", f"{cell.parts}p", f"{cell.cores}c", *yes])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the reads that all runs share."""
    folder = tmp_path_factory.mktemp("sameness")
    rng = np.random.default_rng(5)
    full = {
        sample: tuple(layout.replace("N{14}", "N" * 14).replace("N{2}", "NN") for layout in row)
        for sample, row in SAMPLES.items()
    }
    deep = runs.simulate_reads(
        rng, [full["A"]], molecules=SINGLETONS, templates=SINGLETONS, lengths=(14, 12), foreign=500
    )
    mixed = runs.simulate_reads(
        rng,
        [full["A"], full["B"]],
        molecules=4000,
        templates=20_000,
        lengths=(40, 30),
        foreign=500,
        umi_errors=0.003,
    )
    for mate in (1, 2):
        runs.write_reads(folder / f"deep_R{mate}.fastq", deep[mate - 1])
        runs.write_reads(folder / f"mixed_R{mate}.fastq.gz", mixed[mate - 1])
    return folder


def make_run(home: Path, cell: Cell, folder: Path) -> None:
    files = {"L1": "deep_R{}.fastq", "L2": "mixed_R{}.fastq.gz"}
    units = [
        ("deep", unit, *(str(home / path.format(mate)) for mate in (1, 2)))
        for unit, path in files.items()
    ]
    runs.write_sheets(folder, units, [("deep", sample, *row) for sample, row in SAMPLES.items()])
    buckets = {} if cell.by_scatter else {"buckets": cell.buckets}
    runs.write_config(
        folder,
        parts=cell.parts,
        keep_intermediates=cell.keep,
        outputs=["unmatched", "lineage"],
        **buckets,
    )


def arguments(cell: Cell, baselines: dict[str, int]) -> list[str]:
    found = [*TARGETS]
    if cell.by_scatter:
        found += ["--set-scatter", f"deep={cell.buckets}"]
    if cell.small:
        found += ["--set-resources"]
        found += [
            f"{stage}:mem_mb={baseline // 1_000_000 + 3 + LEAST_BUDGET_MB}"
            for stage, baseline in baselines.items()
            if stage in ("checkout", "tally", "link", "settle", "move", "assemble")
        ]
    return found


Make = Callable[[Cell], Path]


@pytest.fixture(scope="module")
def run_cell(home: Path) -> Make:
    """A function that runs a cell, once, and gives its folder."""

    @cache
    def run(cell: Cell) -> Path:
        folder = home / name(cell)
        make_run(home, cell, folder)
        baselines: dict[str, int] = {}
        if cell.small:
            for job in runs.job_metrics(run(REFERENCE)):
                found = (baselines.get(job["stage"], 0), job["baseline_rss_bytes"])
                baselines[job["stage"]] = max(found)
        runs.succeed(folder, *arguments(cell, baselines), cores=cell.cores)
        return folder

    return run


def jobs_of(folder: Path, stage: str) -> list[dict[str, Any]]:
    return [job for job in runs.job_metrics(folder) if job["stage"] == stage]


def check_it_tested_something(cell: Cell, folder: Path) -> None:
    work = [job["reads"] for job in jobs_of(folder, "tally")]
    assert len(work) == cell.buckets
    assert sum(count > 0 for count in work) >= min(cell.buckets, 3)
    checkouts = jobs_of(folder, "checkout")
    assert len(checkouts) == 2 * cell.parts
    assert all(job["reads"] > 0 for job in checkouts)
    flushes = max(job["counters"]["flushes"] for job in checkouts)
    moved = [job["counters"]["moved_rows"] for job in jobs_of(folder, "move")]
    assert flushes >= 2 if cell.small else flushes == 1
    assert len(moved) == cell.buckets
    assert sum(moved) > 100
    assert sum(count > 0 for count in moved) >= min(cell.buckets, 3)
    (job,) = jobs_of(folder, "gather")
    assert {entry["sample"] for entry in job["ledger"]} == set(SAMPLES)
    kept = [path for path in runs.files_below(folder / "results") if path.suffix == ".rows"]
    assert len(kept) == (2 * cell.parts if cell.keep else 0)


@pytest.mark.parametrize("cell", CELLS, ids=name)
def test_bytes_are_the_same(run_cell: Make, cell: Cell) -> None:
    folder = run_cell(cell)
    check_it_tested_something(cell, folder)
    assert runs.digests(folder) == runs.digests(run_cell(REFERENCE))


def test_compressed_bytes_do_not_depend_on_the_thread() -> None:
    """Memory that a compressor forgets to set holds addresses, which differ between threads."""
    # Each block repeats its own beginning, as records that name their sample do.
    draws = np.random.default_rng(8).integers(33, 127, (8000, 700), np.uint8)
    draws[:, 300:320] = draws[:, :20]
    blocks = [memoryview(draw.tobytes()) for draw in draws]
    together = threading.Barrier(4)

    def compress(_number: int) -> list[bytes]:
        together.wait()
        return [compress_block(block) for block in blocks]

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(compress, range(4))
    assert [sum(map(operator.ne, first, other)) for other in others] == [0, 0, 0]


def test_reference_is_large_enough(run_cell: Make) -> None:
    folder = run_cell(REFERENCE)
    check_it_tested_something(REFERENCE, folder)
    samples = folder / "results" / "samples"
    assert pq.ParquetFile(samples / "A" / "A.molecules.parquet").num_row_groups >= 3
    # Files of samples, unmatched reads of both mates, lineage.
    assert len(runs.digests(folder)) == 3 * 6 + 2 + 1
    # Several output groups, and so several places where a bucket may end.
    with_several = runs.read_fastq(samples / "B" / "B.consensus_R2.fastq.gz")
    assert len(with_several) > 1000


def test_run_that_kept_nothing_has_nothing_to_do(run_cell: Make) -> None:
    again = runs.succeed(run_cell(REFERENCE), *arguments(REFERENCE, {}), "--dry-run")
    assert "Nothing to be done" in again.output


def test_bytes_are_the_same_on_another_cpu(
    home: Path, run_cell: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled for any machine of its kind; libc and numpy use plain instructions, too."""
    cell = Cell(1, False, 1, 2, False, True)
    folder = home / "plain"
    make_run(home, cell, folder)
    plain = {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F",
    }
    if os.uname().machine == "x86_64":
        plain["NPY_DISABLE_CPU_FEATURES"] = disabled_features()
    for variable, value in plain.items():
        monkeypatch.setenv(variable, value)
    runs.succeed(folder, *arguments(cell, {}))
    assert runs.digests(folder) == runs.digests(run_cell(REFERENCE))
    (job,) = jobs_of(folder, "index")
    assert job["reads"] > SINGLETONS


def disabled_features() -> str:
    """Name the instructions beyond numpy's baseline that this machine has."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return " ".join(name for name in __cpu_dispatch__ if __cpu_features__[name])
