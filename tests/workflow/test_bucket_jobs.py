"""What the jobs of buckets read: as many files however many buckets there are."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np
import pytest

import workflow_run as runs

LAYOUT = ("^ACGTACttgcaNNNNNNNN",)
BUCKETS = (2, 7)
JOB = re.compile(r"^(?:local)?rule (\S+):\n((?: {4}.*\n)*)", re.MULTILINE)


@pytest.fixture(scope="module")
def dry_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, runs.Result]:
    folder = tmp_path_factory.mktemp("buckets")
    rng = np.random.default_rng(3)
    (text,) = runs.simulate_reads(rng, [LAYOUT], molecules=20, templates=50)
    runs.write_reads(folder / "reads.fastq", text)
    runs.write_sheets(folder, [("a", "L1", "reads.fastq")], [("a", "A", *LAYOUT)])
    runs.write_config(folder)
    return {
        n: runs.succeed(folder, "--dry-run", "--config", f"buckets={n}") for n in (*BUCKETS, 256)
    }


def files_read(result: runs.Result) -> dict[str, list[int]]:
    """Count the input files of every job, by rule."""
    found = defaultdict(list)
    for rule, lines in JOB.findall(result.output):
        inputs = re.search(r"^ {4}input: (.*)$", lines, re.MULTILINE)
        found[rule].append(len(inputs[1].split(", ")) if inputs else 0)
    return found


def test_no_job_of_a_bucket_reads_files_of_all_buckets(dry_runs: dict[int, runs.Result]) -> None:
    """Buckets on both sides are buckets squared: hours of planning where there are a thousand."""
    few, many = (files_read(dry_runs[n]) for n in BUCKETS)
    of_buckets = {rule for rule, jobs in many.items() if len(jobs) == BUCKETS[1]}
    assert of_buckets == {"tally", "link", "move", "assemble"}
    for rule in of_buckets:
        assert len(few[rule]) == BUCKETS[0]
        assert set(few[rule]) == set(many[rule])
        assert len(set(many[rule])) == 1


def test_files_of_many_buckets_are_in_proportion(dry_runs: dict[int, runs.Result]) -> None:
    for result, buckets in ((dry_runs[n], n) for n in dry_runs):
        found = files_read(result)
        assert len(found["link"]) == buckets
        assert sum(map(sum, found.values())) < 40 * buckets + 60


def test_what_is_read_through_a_list_is_kept(dry_runs: dict[int, runs.Result]) -> None:
    """It is an input of index, behind all buckets, so that temp() removes nothing before."""
    jobs = dict(JOB.findall(dry_runs[BUCKETS[0]].output))
    inputs = jobs["index"].split("input: ")[1].split("\n")[0].split(", ")
    for home in ("tally/a/{}.families", "move/a/{}.fates", "move/a/{}.outbox"):
        for number in range(BUCKETS[0]):
            assert "results/" + home.format(f"{number + 1}-of-{BUCKETS[0]}") in inputs
    assert "results/partition/a/L1/1-of-1.rows" in inputs
