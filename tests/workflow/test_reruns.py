"""What runs again after a change; CONTRIBUTING.md has the answer as a table."""

from __future__ import annotations

import gzip
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

import cell_fixture
import workflow_run as runs
from rerun_cases import (
    CASES,
    LAYOUTS,
    LISTED_UNITS,
    SAMPLES,
    UNITS,
    listed_samples,
    table,
    unit_rows,
)


def test_table_covers_every_key() -> None:
    text = (runs.CLONE / "workflow" / "schemas" / "config.schema.yaml").read_text(encoding="utf-8")
    words = " ".join(row.split(":")[0] for row in table())
    named = set(re.findall(r"`(\w+)`", words))
    assert named == set(yaml.safe_load(text)["properties"])
    assert list(table()) == list(CASES)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run that kept its intermediates, one that removed them, one with a list of cells."""
    home = tmp_path_factory.mktemp("reruns")
    rng = np.random.default_rng(9)
    folders = {name: home / name for name in ("kept", "removed")}
    for library, unit in (*UNITS, ("a", "L2")):
        texts = runs.simulate_reads(rng, LAYOUTS, molecules=200, templates=1000, foreign=20)
        for mate, text in enumerate(texts, start=1):
            for folder in folders.values():
                runs.write_reads(folder / f"{library}_{unit}_R{mate}.fastq", text)
    for folder in folders.values():
        runs.write_sheets(folder, unit_rows(), SAMPLES)
    runs.write_config(folders["kept"])
    runs.write_config(
        folders["removed"], keep_intermediates=False, outputs=["unmatched", "lineage"]
    )
    folders["listed"] = home / "listed"
    cells = cell_fixture.make_cells(folders["listed"] / "cells", reads=2000)
    packed = gzip.decompress(cells.cell_list.read_bytes())
    (folders["listed"] / "cells.txt").write_bytes(packed)
    runs.write_sheets(folders["listed"], LISTED_UNITS, listed_samples("cells.txt"))
    runs.write_config(folders["listed"])
    for folder in folders.values():
        runs.succeed(folder)
    return folders


def library_of(job: runs.Job) -> str:
    """Name the library a job belongs to; samples are called as their library, in upper case."""
    return Path(job.output).parts[2].split(".")[0][0].lower()


@pytest.mark.parametrize("what", CASES)
def test_first_stage_is_that_of_the_table(
    finished: dict[str, Path], tmp_path: Path, what: str
) -> None:
    name, change = CASES[what]
    folder = tmp_path / "run"
    shutil.copytree(finished[name], folder)
    result = runs.succeed(folder, "--dry-run", *change(folder))
    order: tuple[str, ...] = runs.LISTED_STAGES if "cells" in result.stages else runs.STAGES
    if "small" in result.stages:
        order = runs.SMALL_STAGES
    stages = [stage for stage in order if stage in result.stages]
    ran = {library_of(job) for job in result.jobs if job.stage != "report"}
    where = {0: "", 1: "that library", 2: "all libraries"}[len(ran)]
    assert (stages[0] if stages else "nothing", where) == table()[what]
    assert stages == (list(order[order.index(stages[0]) :]) if stages else [])


def test_other_buckets_in_place_give_the_same_bytes(finished: dict[str, Path]) -> None:
    folder = finished["kept"]
    before = runs.digests(folder)
    runs.succeed(folder, "gather_a_1", "--config", "buckets=2")
    assert runs.digests(folder) == before
    # The plan of one bucket, and what was made by it, is still there.
    again = runs.succeed(folder, "gather_a_1")
    assert set(again.stages) == {"index", "gather"}
    assert runs.digests(folder) == before


def test_removed_intermediates_are_made_again(finished: dict[str, Path], tmp_path: Path) -> None:
    """Also where they are to be kept from now on: the jobs that need them are not told of them."""
    for name in ("kept", "removed"):
        shutil.copytree(finished[name], tmp_path / name)
    runs.succeed(tmp_path / "kept", "--config", "min_reads=2")
    options = ("--config", "min_reads=2", "keep_intermediates=true", "outputs=")
    result = runs.succeed(tmp_path / "removed", *options)
    assert [stage for stage in runs.STAGES if stage in result.stages] == list(runs.STAGES[1:])
    names = [f"results/samples/{sample}" for _, sample, *_ in SAMPLES]
    digests = [runs.digests(tmp_path / name, *names) for name in ("kept", "removed")]
    assert digests[0] == digests[1]
