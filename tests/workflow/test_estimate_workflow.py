"""Large runs are told beforehand what they will take."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import workflow_run as runs

LAYOUT = ("ttgcaNNNNNNNNNN",)
TARGET = "results/report/estimate.json"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a file of 1.2 GiB that takes no room: zeros behind its first reads."""
    folder = tmp_path_factory.mktemp("large") / "run"
    rng = np.random.default_rng(3)
    (text,) = runs.simulate_reads(rng, [LAYOUT], molecules=9000, templates=9000)
    assert len(text) > 1 << 20
    path = folder / "reads.fastq"
    runs.write_reads(path, text)
    with path.open("r+b") as file:
        file.truncate(1200 << 20)
    runs.write_sheets(folder, [("a", "L1", "reads.fastq")], [("a", "S1", *LAYOUT)])
    return folder


@pytest.mark.parametrize("libraries_per_job", [0, "auto"])
def test_a_large_run_is_estimated_first(large: Path, libraries_per_job: int | str) -> None:
    runs.write_config(large, libraries_per_job=libraries_per_job)
    dry = runs.succeed(large, "--dry-run")
    assert {"estimate", "report"} <= set(dry.stages)
    result = runs.succeed(large, TARGET, "--force")
    assert [job.rule for job in result.jobs] == ["estimate"]
    said = re.findall(r"^estimate: .*$", result.output, re.MULTILINE)
    assert re.fullmatch(
        r"estimate: about 7,9\d{2},\d{3} templates, 1.3 GB of FASTQ text: \d+ s of CPU time, "
        r"\d+ s or more on 2 cores",
        said[0],
    )
    assert "of results" in said[1]
    assert (large / "logs" / "estimate.log").read_text().splitlines() == said
    assert json.loads((large / TARGET).read_text())["plain_bytes"] == 1200 << 20
    assert runs.succeed(large, TARGET, cores=1).stages == {}


def test_a_first_look_at_it_is_not(large: Path) -> None:
    runs.write_config(large, libraries_per_job="auto", limit_reads=1000)
    assert "estimate" not in runs.succeed(large, "--dry-run").stages
