"""The accuracy judge as a whole: small libraries here, all of them at full size where asked for."""

from __future__ import annotations

import csv
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from accuracy.cases import Case, all_cases
from accuracy.contestants import Corrected, ExactKeys, Integers, Task, own_contestants
from accuracy.generate import Truth, generate, write_reads
from accuracy.intervals import compare
from accuracy.kept import Kept
from accuracy.page import make_page
from accuracy.peers import METHODS, Migec, UmiTools, differences
from accuracy.real import LIBRARIES, real_table
from accuracy.scores import ASIDE, DROPPED, adjusted_rand, best_labels, score
from accuracy.table import CEILING, Result, run_case, to_markdown, verdict, write_tables

CLONE = Path(__file__).parents[2]
CASES = all_cases()


def small(name: str, reads: int = 1500) -> Case:
    return CASES[name].scaled(reads / CASES[name].expected_reads)


@pytest.fixture
def make_task(tmp_path: Path) -> Callable[[Case], tuple[Task, Truth]]:
    def make(case: Case) -> tuple[Task, Truth]:
        reads = generate(case, 1)
        write_reads(reads, tmp_path / "reads.fastq.gz")
        folder = tmp_path / "work"
        folder.mkdir()
        truth, count = reads.truth, reads.bases.shape[0]
        place = truth.clone[truth.molecule]
        return Task(tmp_path / "reads.fastq.gz", case.layout, count, 1, folder, place), truth

    return make


def same_clusters(one: Integers, other: Integers) -> bool:
    """Whether two partitions are one, whatever their labels; with the same reads dropped."""
    kept = one != DROPPED
    pairs = {*zip(one[kept].tolist(), other[kept].tolist(), strict=True)}
    sizes = (np.unique(labels[kept]).size for labels in (one, other))
    return np.array_equal(kept, other != DROPPED) and all(size == len(pairs) for size in sizes)


def need(contestant: Migec | UmiTools) -> None:
    if contestant.missing():
        pytest.skip(contestant.missing())


# -- contestants ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["clones-200", "umi6", "tenx-10", "deletions-errors"])
def test_exact_keys_are_barcodes_as_read(
    name: str, make_task: Callable[[Case], tuple[Task, Truth]]
) -> None:
    task, truth = make_task(small(name))
    labels = ExactKeys().label(task)
    # Reads that lost a base are told by what follows, and have no barcode.
    kept = labels != DROPPED
    assert kept.all() != (name == "deletions-errors")
    assert kept.mean() > 0.98
    assert truth.wrong[~kept].all()
    assert same_clusters(labels[kept], np.unique(truth.observed[kept], return_inverse=True)[1])


@pytest.mark.parametrize("name", ["clones-200", "two-on-one-3", "chimera-3-100"])
def test_corrected_is_far_better_than_exact_keys(
    name: str, make_task: Callable[[Case], tuple[Task, Truth]]
) -> None:
    task, truth = make_task(small(name, 6000))
    labels = Corrected().label(task)
    found = score(truth, labels)
    assert found.dropped == 0
    assert found.f1 > 0.9
    assert found.miscount < 0.02 * truth.barcode.size + 1
    assert found.ari > 0.99
    # What is set aside is there, in clusters of its own.
    assert (labels >= ASIDE).any()


@pytest.mark.parametrize("name", ["error-1.5", "error-3", "error-umi6", "error-umi8"])
def test_the_error_rate_is_seen_by_neighbours(
    name: str, make_task: Callable[[Case], tuple[Task, Truth]]
) -> None:
    """Qualities say 6e-4, and 3e-3 is true. Of six nt half of all barcodes are there."""
    case = CASES[name]
    task, _ = make_task(case)
    judge = Corrected()
    judge.label(task)
    assert judge.error_rate(task) / 3e-3 == pytest.approx(1, abs=0.25)
    assert math.isnan(ExactKeys().error_rate(task))


def test_corrected_does_not_depend_on_buckets(
    make_task: Callable[[Case], tuple[Task, Truth]], tmp_path: Path
) -> None:
    task, _ = make_task(small("clones-1", 6000))
    other = tmp_path / "other"
    other.mkdir()
    labels = Corrected(buckets=5).label(replace(task, folder=other))
    assert np.array_equal(labels, Corrected().label(task))


def test_migec_merges_what_is_wrong(make_task: Callable[[Case], tuple[Task, Truth]]) -> None:
    need(Migec())
    task, truth = make_task(small("peer-clones-200", 4000))
    found, exact = score(truth, Migec().label(task)), score(truth, ExactKeys().label(task))
    assert found.dropped < 0.01
    assert Migec().error_rate(task) == pytest.approx(3e-3, rel=0.9)
    assert found.recall > 0.8 > exact.recall == 0
    assert found.precision > 0.95
    assert found.ari > exact.ari


def test_migec_assemble_splits_and_refine_does_not(
    make_task: Callable[[Case], tuple[Task, Truth]],
) -> None:
    need(Migec())
    task, truth = make_task(small("two-on-one-40", 4000))
    assert score(truth, Migec().label(task)).separated < 0.05
    for file in task.folder.rglob("*.fq.gz"):
        file.unlink()
    found = score(truth, Migec(assemble=True).label(task))
    assert 0.05 < found.separated < 0.9
    assert found.ari > 0.7


def test_migec_takes_cells(make_task: Callable[[Case], tuple[Task, Truth]]) -> None:
    need(Migec())
    task, truth = make_task(small("tenx-12"))
    labels = Migec().label(task)
    assert score(truth, labels).ari > 0.95
    cells = truth.observed >> np.uint64(24)
    for label in np.unique(labels).tolist():
        assert np.unique(cells[labels == label]).size == 1


def test_umi_tools_unique_is_exact_keys(make_task: Callable[[Case], tuple[Task, Truth]]) -> None:
    need(UmiTools())
    task, truth = make_task(small("tenx-12"))
    observed = np.unique(truth.observed, return_inverse=True)[1]
    assert same_clusters(UmiTools("unique").label(task), observed)
    aligned = UmiTools("unique", aligned=True).label(task)
    assert same_clusters(aligned, np.unique([observed, task.place], axis=1, return_inverse=True)[1])


@pytest.mark.parametrize("method", METHODS)
def test_umi_tools_has_its_methods(
    method: str, make_task: Callable[[Case], tuple[Task, Truth]]
) -> None:
    need(UmiTools())
    task, truth = make_task(small("peer-clones-200"))
    found = score(truth, UmiTools(method, aligned=True).label(task))
    assert (found.recall > 0.8) == (method in ("directional", "adjacency", "cluster"))
    assert found.ari > 0.9


def test_umi_tools_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UMIMILL_UMI_TOOLS", raising=False)
    assert "run scripts/umi_tools.sh" in UmiTools().missing()
    assert (CLONE / "scripts" / "umi_tools.sh").exists()


def test_nearest_consensus_is_that_of_least_share() -> None:
    assert differences(b"ACGT", b"ACGA") == 0.25
    assert differences(b"ACGTTT", b"ACG") == 0.0
    assert differences(b"", b"ACG") == 0.0


# -- table ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fixed:
    """A tool that gives what it was told."""

    name: str
    how: Callable[[Task], Integers]
    why: str = ""
    version: str = "1"
    error: float = math.nan

    def missing(self) -> str:
        return self.why

    def label(self, task: Task) -> Integers:
        return self.how(task)

    def error_rate(self, task: Task) -> float:
        return self.error


ONE_EACH = Fixed("one each", lambda task: np.arange(task.reads))
ALL_ONE = Fixed("all one", lambda task: np.zeros(task.reads, np.int64))
NONE = Fixed("none", lambda task: np.full(task.reads, DROPPED))
ABSENT = Fixed("absent", lambda task: np.zeros(0, np.int64), "not here")


def test_table_has_everyone_on_the_same_reads() -> None:
    result = run_case(small("clones-200"), (1, 2), [ONE_EACH, ALL_ONE, NONE, ABSENT])
    assert list(result.scores) == [CEILING, "one each", "all one", "none"]
    assert all(len(scores) == 2 for scores in result.scores.values())
    lines = to_markdown(result).splitlines()
    widths = {line.count("|") for line in lines if line.startswith("|")}
    assert len(widths) == 1
    assert lines[0].startswith("### clones-200")
    assert "2 seeds" in lines[2]
    assert lines[4].split(" | ")[1:3] == ["ari", "mixed"]
    assert lines[5] == "|---|" + "---:|" * (widths.pop() - 2)
    assert lines[6].startswith("| ceiling | ")
    assert lines[7].startswith("| one each | 0.0000 ± 0.0000 | 0.0000 ± 0.0000 | ")
    assert lines[-1].startswith("| absent | not here |")
    assert "dropped |" in lines[4]
    said = verdict(result, "none")
    assert said.startswith("none: worse than ")
    assert "one each on kept" in said


def test_scores_are_kept_until_something_changes(tmp_path: Path) -> None:
    path, calls = tmp_path / "scores.tsv", []

    def label(task: Task) -> Integers:
        calls.append(task.seed)
        return np.arange(task.reads)

    def run(case: str = "umi6", version: str = "1", scale: int = 400) -> Result:
        tool = Fixed("counted", label, version=version)
        return run_case(small(case, scale), (1, 2), [tool], Kept(path))

    first, second = run(), run()
    assert calls == [1, 2]
    assert to_markdown(first) == to_markdown(second)
    run(version="2")
    assert len(calls) == 4
    run(scale=300)
    assert len(calls) == 6
    run(case="umi8")
    assert len(calls) == 8
    lines = path.read_text().splitlines()
    assert len(lines) == 9
    assert lines[0].startswith("digest\tcase\tseed\ttool\tversion\tari\t")
    path.write_text(path.read_text().replace("\tari\t", "\trandom\t"))
    with pytest.raises(SystemExit, match="made with other scores"):
        Kept(path)


def test_page_names_who_is_better() -> None:
    tools = [NONE, ONE_EACH, ALL_ONE]
    results = [run_case(small(name, 300), (1, 2), tools) for name in ("umi6", "deletions")]
    page = make_page(results, "none")
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| umi6 | ")]
    ((_, seeds, ceiling, mine, best, *_, better),) = rows
    assert (seeds, mine) == ("2", "**0.0000**")
    assert float(ceiling) > 0.9
    assert best == "0.0000"
    assert "all one (F1)" in better or "one each (miscount)" in better
    widths = {line.count("|") for line in page.splitlines() if line.startswith(("| umi6", "| del"))}
    assert len(widths) == 1
    assert page.count("\n## ") == 3
    assert "No tool says one." in page


def test_the_page_in_the_documentation_is_that_of_the_scores() -> None:
    text = (CLONE / "tests/accuracy/scores.tsv").read_text()
    rows = csv.DictReader(text.splitlines(), delimiter="\t")
    scores: dict[str, list[float]] = {}
    for row in rows:
        if row["tool"] == "umimill":
            scores.setdefault(row["case"], []).append(float(row["ari"]))
    page = (CLONE / "docs/accuracy.md").read_text().split("\n## ")[0]
    table = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")][1:]
    shown = {name[2:]: (int(seeds), ari.strip("*")) for name, seeds, _, ari, *_ in table}
    assert shown == {case: (len(own), f"{fmean(own):.4f}") for case, own in scores.items()}
    assert list(shown) == list(CASES)


def test_error_rates_are_told_over_those_simulated() -> None:
    half = Fixed("half", lambda task: np.arange(task.reads), error=1.5e-3)
    none, few = (small(name, 300) for name in ("deletions", "umi6"))
    results = [run_case(case, (1, 2), [ONE_EACH, half]) for case in (none, few)]
    assert [math.isnan(one.scores["half"][0].error) for one in results] == [True, False]
    header, _, *rows = [line for line in to_markdown(results[1]).splitlines() if line[:1] == "|"]
    assert header.endswith("| error |")
    assert [row.split(" | ")[-1] for row in rows] == ["- |", "- |", "0.50 ± 0.00 |"]
    page = make_page(results, "half")
    lines = page.split("## Error rate of barcodes")[1].splitlines()
    assert lines[2:5] == ["| case | half |", "|---|---:|", "| umi6 | 0.50 |"]
    assert lines[5] == ""


def test_real_libraries_are_counted(data_file: Callable[[str], Path]) -> None:
    folder = data_file(LIBRARIES[0].path).parents[1]
    rows = real_table(folder, [ONE_EACH, ALL_ONE]).splitlines()[2:]
    reads = [row.split(" | ")[1] for row in rows]
    assert reads[0] == "21,953"
    assert reads[2] == "9,931"
    assert [row.split(" | ")[2:] for row in rows] == [[count, "1 |"] for count in reads]


def test_table_of_one_seed_has_no_intervals() -> None:
    written: list[str] = []
    write_tables([small("umi6"), small("deletions")], [1], [ONE_EACH], "one each", written.append)
    assert len(written) == 2
    assert "±" not in "".join(written)
    assert written[0].endswith("one each: worse than none\n\n")


@pytest.mark.parametrize(
    ("name", "ari", "mixed", "clusters"),
    [("peer-umi6", 0.8877, 0.3982, 1575), ("peer-umi8", 0.9917, 0.0267, 1974)],
)
def test_barcodes_alone_score_as_the_peer_has_published(
    name: str, ari: float, mixed: float, clusters: int
) -> None:
    found = []
    for seed in range(1, 9):
        truth = generate(CASES[name], seed).truth
        found.append(score(truth, np.unique(truth.observed, return_inverse=True)[1]))
        assert truth.barcode.size > 1990
    # What is published is one draw: of 8 nt 26 collisions where 30.5 +- 5.5 are expected.
    assert np.mean([one.mixed for one in found]) == pytest.approx(mixed, rel=0.02, abs=0.011)
    assert 1 - np.mean([one.ari for one in found]) == pytest.approx(1 - ari, rel=0.3)
    assert 2000 + np.mean([one.surplus for one in found]) == pytest.approx(clusters, rel=0.01)
    assert all(one.split == 0 for one in found)


@pytest.mark.parametrize("name", CASES)
def test_no_partition_beats_the_ceiling(name: str) -> None:
    truth = generate(small(name, 2500), 5).truth
    best = score(truth, best_labels(truth))
    observed = np.unique(truth.observed, return_inverse=True)[1]
    for labels in (observed, truth.clone[truth.molecule]):
        other = score(truth, labels)
        assert best.ari >= other.ari
        assert best.kept >= other.kept - 0.002
    assert best.ari > 0.98
    assert best.split <= 0.1
    assert best.recall > 0.98 or np.isnan(best.recall)
    assert adjusted_rand(truth.molecule, truth.molecule) == 1


def test_command_line_prints_tables() -> None:
    environment = {**os.environ, "PYTHONPATH": f"{CLONE / 'tests'}:{CLONE / 'workflow'}"}

    def call(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "accuracy", *options],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    listed = call("--list")
    assert all(name in listed.stdout for name in CASES)
    table = call(
        "--seeds", "2", "--cases", "umi6", "deletions", "--scale", "0.2", "--tools", "none"
    )  # fmt: skip
    assert table.stdout.count("### ") == 2
    assert table.stdout.count("| umimill unique | ") == 2
    assert "migec" not in table.stdout
    assert table.stderr == ""
    wrong = call("--cases", "clones")
    assert wrong.returncode == 2
    assert "clones-200" in wrong.stderr


# -- at full size --------------------------------------------------------------------------------


@pytest.mark.accuracy
@pytest.mark.parametrize("name", CASES)
def test_full_case(name: str, record_property: Callable[[str, object], None]) -> None:
    own = own_contestants()
    peers = [peer for peer in (Migec(), Migec(assemble=True)) if not peer.missing()]
    result = run_case(CASES[name], (1, 2, 3), [*own, *peers])
    table = to_markdown(result) + verdict(result, own[-1].name)
    record_property("table", table)
    for tool, scores in result.scores.items():
        assert compare(result.scores[CEILING], scores, "ari") >= 0, table
        assert max(one.dropped for one in scores) < 0.01, (tool, table)
