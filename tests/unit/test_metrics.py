"""Metrics of a job: what is measured, how it is said, and the frame around job scripts."""

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from umimill import ALGORITHM_VERSION, __version__
from umimill.errors import UmimillError
from umimill.job import paths, run_job, split_item
from umimill.metrics import (
    LEAST_BUDGET_BYTES,
    Meter,
    job_name,
    memory_bytes,
    seconds_since_start,
    sum_ledger,
    summary_lines,
)

ROOT = Path(__file__).resolve().parents[2]
KEYS = {
    "schema", "stage", "rule", "library", "unit", "part", "bucket", "samples", "reads",
    "wall_seconds", "cpu_seconds", "reads_per_second", "threads", "peak_rss_bytes",
    "baseline_rss_bytes", "budget_bytes", "umi_memory_bytes", "umi_spilled",
    "umi_spill_bytes", "umi_read_back_bytes", "read_bytes", "written_bytes", "clocks",
    "driver", "ledger", "counters", "provenance",
}  # fmt: skip


def status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.split(":")[0] == name:
            return 1024 * int(line.split()[1])
    raise AssertionError(name)


# -- what is measured ------------------------------------------------------------------------------


def test_result_has_every_key() -> None:
    meter = Meter("tally", "L1", 4000, 2, {"bucket": "1-of-4"})
    meter.reads, meter.read_bytes, meter.written_bytes = 7, 8, 9
    result = meter.result("sort")
    assert set(result) == KEYS
    assert (result["schema"], result["stage"], result["library"]) == (1, "tally", "L1")
    assert (result["bucket"], result["part"], result["unit"]) == ("1-of-4", None, None)
    assert (result["reads"], result["read_bytes"], result["written_bytes"]) == (7, 8, 9)
    assert result["threads"] == 2
    assert result["driver"] == "sort"
    provenance = result["provenance"]
    assert provenance["umimill"] == __version__
    assert provenance["algorithm"] == ALGORITHM_VERSION
    assert {"python", "numpy", "numba", "host", "cpu", "started"} <= set(provenance)
    json.dumps(result)


def test_memory_is_that_of_the_process_alone() -> None:
    """Peak and present; not the peak of the parent, as getrusage gives after an exec."""
    held = bytearray(b"x" * 300_000_000)
    code = (
        "from umimill.metrics import Meter, memory_bytes\n"
        "before = memory_bytes('VmHWM')\n"
        "block = bytearray(b'x' * 100_000_000)\n"
        "del block\n"
        "result = Meter('plan', 'L1', 500).result('write')\n"
        "print(before, result['peak_rss_bytes'], result['baseline_rss_bytes'])\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(ROOT / "workflow")},
    )  # fmt: skip
    before, peak, baseline = map(int, found.stdout.split())
    assert before < 90_000_000
    assert 100_000_000 < peak < 250_000_000
    assert baseline < peak - 90_000_000
    assert len(held) == 300_000_000
    assert memory_bytes("VmHWM") >= status_bytes("VmRSS")


def test_unknown_line_of_the_status() -> None:
    with pytest.raises(UmimillError, match="has no VmMagic; umimill runs on Linux"):
        memory_bytes("VmMagic")


def test_wall_time_begins_with_the_process() -> None:
    since = seconds_since_start()
    result = Meter("plan", "L1", 4000).result("write")
    assert since <= result["wall_seconds"] + 0.02
    assert result["wall_seconds"] <= seconds_since_start() + 0.02
    assert 0 < result["cpu_seconds"] <= time.process_time() + 0.001


def test_clocks_add_up() -> None:
    meter = Meter("plan", "L1", 4000)
    for _ in range(2):
        with meter.clock("write"):
            time.sleep(0.02)
    with pytest.raises(KeyError), meter.clock("sort"):  # noqa: PT012
        time.sleep(0.02)
        raise KeyError
    meter.add_seconds("write", 5)
    clocks = meter.result("write")["clocks"]
    assert 5.04 <= clocks["write"] < 5.5
    assert 0.02 <= clocks["sort"] < 0.3
    assert clocks["start"] > 0


def test_budget() -> None:
    meter = Meter("tally", "L1", 4000)
    assert meter.budget_bytes == 4_000_000_000 - meter.baseline_rss_bytes
    assert meter.result("sort")["budget_bytes"] == meter.budget_bytes
    assert abs(meter.baseline_rss_bytes - status_bytes("VmRSS")) < 20_000_000


def test_too_small_a_budget_says_what_is_needed() -> None:
    meter = Meter("tally", "L1", 10)
    meter.baseline_rss_bytes = 141_000_001
    with pytest.raises(UmimillError) as caught:
        _ = meter.budget_bytes
    assert str(caught.value) == (
        "tally: mem_mb is 10, but the job needs at least 158; raise it with --set-resources "
        "tally:mem_mb=158"
    )
    meter.mem_mb = 158
    assert meter.budget_bytes >= LEAST_BUDGET_BYTES


def test_ledgers_of_a_stage_are_added() -> None:
    jobs = []
    for stage, unmatched, assigned in (("checkout", 3, 10), ("checkout", 4, 20), ("tally", 9, 9)):
        meter = Meter(stage, "L1", 4000)
        meter.count(None, "unmatched", unmatched)
        meter.count("S1", "assigned", assigned)
        meter.count("S2", "assigned", 1)
        meter.count("S2", "assigned", 1)
        jobs.append(meter.result("match"))
    assert sum_ledger(jobs, "checkout") == {
        (None, "unmatched"): 7,
        ("S1", "assigned"): 30,
        ("S2", "assigned"): 4,
    }
    assert sum_ledger(jobs, "plan") == {}


# -- how it is said --------------------------------------------------------------------------------

RESULT: dict[str, Any] = {
    "wall_seconds": 1.62,
    "reads_per_second": 1_243_801,
    "threads": 8,
    "driver": "match",
    "clocks": {"match": 1.5, "write": 0.1},
    "peak_rss_bytes": 136_040_000,
    "umi_memory_bytes": 11_500_000,
    "umi_spilled": False,
    "umi_spill_bytes": 0,
}


def test_two_lines() -> None:
    assert summary_lines(RESULT) == [
        "1.6 s (1,243,801 reads/s) = 1.5 s matching on 8 threads + 0.1 s for the rest",
        "peak RSS 136.0 MB of which UMI tables 11.5 MB",
    ]


def test_two_lines_of_a_job_that_compiled() -> None:
    """The first run would look slow without a reason."""
    changed = {"wall_seconds": 21.62, "clocks": {"match": 1.5, "compile": 19.8}}
    assert summary_lines(RESULT | changed)[0] == (
        "21.6 s (1,243,801 reads/s) = 1.5 s matching on 8 threads + 19.8 s compiling, once "
        "+ 0.3 s for the rest"
    )


@pytest.mark.parametrize(
    ("driver", "word"),
    [("sort", "sorting"), ("model", "consensus"), ("write", "writing"), ("decode", "reading")],
)
def test_two_lines_of_other_stages(driver: str, word: str) -> None:
    changed = {"driver": driver, "threads": 1, "clocks": {driver: 0.5}}
    spilled = {"umi_spilled": True, "umi_spill_bytes": 2_345_600_000}
    assert summary_lines(RESULT | changed | spilled) == [
        f"1.6 s (1,243,801 reads/s) = 0.5 s {word} on 1 thread + 1.1 s for the rest",
        "peak RSS 136.0 MB of which UMI tables 11.5 MB, 2,345.6 MB of them spilled",
    ]


def test_metrics_are_written_and_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    meter = Meter("tally", "L1", 4000)
    meter.reads = 1234
    path = tmp_path / "new" / "a.json"
    log = tmp_path / "logs" / "a.log"
    meter.write(path, "sort", str(log))
    result = json.loads(path.read_text())
    assert result["reads"] == 1234
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [f"tally L1: {line}" for line in summary_lines(result)]
    assert log.read_text() == printed.err


def test_lines_of_a_job_are_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else those of jobs that run side by side mix on the terminal."""
    written: list[str] = []
    stderr = SimpleNamespace(write=written.append, flush=lambda: None)
    monkeypatch.setattr(sys, "stderr", stderr)
    Meter("tally", "L1", 4000).write(tmp_path / "a.json", "sort")
    assert [text.count("\n") for text in written] == [2]


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ({"unit": "L001", "part": "1-of-2"}, "checkout demo/L001/1-of-2"),
        ({"bucket": "3-of-8"}, "checkout demo/3-of-8"),
        ({"samples": ["S1"]}, "checkout demo"),
        ({"library": None}, "checkout"),
    ],
)
def test_name_of_a_job_is_that_of_its_log(where: dict[str, Any], name: str) -> None:
    assert job_name(Meter("checkout", "demo", 4000, where=where).result("match")) == name


def test_work_that_a_process_did_before_is_not_counted() -> None:
    """As where one job runs the stages of many libraries."""
    before = np.ones(40_000_000, np.int64)
    started = time.process_time()
    while time.process_time() < started + 0.3:
        before += 1
    del before
    compiled = iter([5.0, 7.5])
    alone = Meter("tally", "L1", 4000).result("sort")
    shared = Meter("tally", "L1", 4000, compile_seconds=lambda: next(compiled), shared=True)
    result = shared.result("sort")
    assert result["clocks"]["compile"] == 2.5
    assert result["clocks"]["start"] < 0.1 < 0.3 <= alone["clocks"]["start"]
    assert result["cpu_seconds"] < 0.1 < 0.3 <= alone["cpu_seconds"]
    assert result["wall_seconds"] < 0.2
    assert alone["peak_rss_bytes"] - result["peak_rss_bytes"] > 200_000_000


def test_rule_of_a_job_is_named_where_memory_is_short() -> None:
    meter = Meter("tally", "L1", 1, rule="small_2")
    with pytest.raises(UmimillError, match=r"^small_2: mem_mb is 1, .* --set-resources small_2:"):
        _ = meter.budget_bytes


# -- the frame around job scripts ------------------------------------------------------------------


def job(folder: Path, version: str = __version__) -> SimpleNamespace:
    return SimpleNamespace(
        log=[str(folder / "logs" / "job.log")],
        params=SimpleNamespace(library="L1", version=version),
        resources=SimpleNamespace(mem_mb=4000),
        output=SimpleNamespace(metrics=str(folder / "metrics.json")),
        threads=3,
        rule="tally",
    )


def test_job_writes_its_metrics_at_the_end(tmp_path: Path) -> None:
    with run_job(job(tmp_path), "tally", "sort", bucket="2-of-8") as meter:
        meter.reads = 5
        assert not (tmp_path / "metrics.json").exists()
    result = json.loads((tmp_path / "metrics.json").read_text())
    found = [result[name] for name in ("stage", "library", "bucket", "threads", "reads", "driver")]
    assert found == ["tally", "L1", "2-of-8", 3, 5, "sort"]
    lines = (tmp_path / "logs" / "job.log").read_text().splitlines()
    assert lines == [f"tally L1/2-of-8: {line}" for line in summary_lines(result)]


def test_job_of_the_whole_run_has_no_library(tmp_path: Path) -> None:
    snakemake = job(tmp_path)
    del snakemake.params.library
    with run_job(snakemake, "report", "write"):
        pass
    assert json.loads((tmp_path / "metrics.json").read_text())["library"] is None


def test_job_that_fails_writes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught, run_job(job(tmp_path), "tally", "sort"):
        raise UmimillError("a.fq: broken; mend it")
    assert caught.value.code == 1
    assert not (tmp_path / "metrics.json").exists()
    assert capsys.readouterr().err == "umimill: a.fq: broken; mend it\n"
    assert (tmp_path / "logs" / "job.log").read_text() == "umimill: a.fq: broken; mend it\n"


def test_job_of_another_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reached = []
    with pytest.raises(SystemExit), run_job(job(tmp_path, "9.9"), "tally", "sort"):
        reached.append(1)
    assert not reached
    assert capsys.readouterr().err == (
        f"umimill: the workflow is umimill 9.9, but the environment has umimill {__version__} "
        "installed; remove it there\n"
    )


def test_items_and_paths() -> None:
    assert split_item("3-of-8") == (2, 8)
    assert split_item("1-of-1") == (0, 1)
    assert paths({"a": "x/y"}) == {"a": Path("x/y")}
