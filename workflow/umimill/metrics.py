"""What a job measures of itself: clocks, memory, ledger; and the two lines that it prints."""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

from umimill import ALGORITHM_VERSION, __version__
from umimill.errors import UmimillError, tell
from umimill.files import write_json

SCHEMA = 1
# Free memory that a stage must have beside its baseline to work at all.
LEAST_BUDGET_BYTES = 16_000_000
# Seconds of compiling that are worth a word: the first job on a machine has about twenty.
LEAST_COMPILE_SECONDS = 0.5

_DRIVERS = {
    "match": "matching",
    "sort": "sorting",
    "model": "consensus",
    "write": "writing",
    "decode": "reading",
}


def seconds_since_start() -> float:
    """Return the wall seconds since this process started."""
    # The name of the process, in brackets, may hold blanks; the start is the 20th field behind it.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)


def memory_bytes(name: str) -> int:
    """Return VmHWM (peak) or VmRSS (now) of this process in bytes.

    Not `ru_maxrss`: a child started by exec inherits its parent's (410 MB reported for 8 MB).
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) << 10
    raise UmimillError(f"/proc/self/status has no {name}; umimill runs on Linux")


def forget_peak() -> None:
    """Let VmHWM of this process begin again from what it holds now, where the system allows it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


@dataclass
class Meter:
    """Measures one job.

    Args:
        stage: name of the stage.
        library: library; None for a job of the whole run.
        mem_mb: memory that the job may use, units of 10^6 bytes.
        threads: threads.
        where: unit, part, bucket or samples of the job.
        compile_seconds: gives the seconds that kernels were compiled so far.
        rule: rule of the job, where it is not named as the stage is.
        shared: whether the process did other work before, which is not to be counted.
    """

    stage: str
    library: str | None
    mem_mb: int
    threads: int = 1
    where: Mapping[str, Any] = field(default_factory=dict)
    reads: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    umi_memory_bytes: int = 0
    umi_spill_bytes: int = 0
    umi_read_back_bytes: int = 0
    clocks: dict[str, float] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    ledger: list[dict[str, Any]] = field(default_factory=list)
    compile_seconds: Callable[[], float] = lambda: 0.0
    rule: str | None = None
    shared: bool = False

    def __post_init__(self) -> None:
        # Imports belong to the first job of a process.
        since = 0.0 if self.shared else seconds_since_start()
        self._started = datetime.now(UTC) - timedelta(seconds=since)
        self._wall = time.perf_counter() - since
        self._cpu = time.process_time() if self.shared else 0.0
        self._compiled = self.compile_seconds() if self.shared else 0.0
        if self.shared:
            forget_peak()
        self.baseline_rss_bytes = memory_bytes("VmRSS")
        self.clocks["start"] = time.process_time() - self._cpu

    @property
    def budget_bytes(self) -> int:
        """Memory of the job less what it had before it began to work.

        Raises:
            UmimillError: where nothing is left.
        """
        budget = 1_000_000 * self.mem_mb - self.baseline_rss_bytes
        if budget < LEAST_BUDGET_BYTES:
            needed = (self.baseline_rss_bytes + LEAST_BUDGET_BYTES) // 1_000_000 + 1
            rule = self.rule or self.stage
            raise UmimillError(
                f"{rule}: mem_mb is {self.mem_mb}, but the job needs at least {needed}; "
                f"raise it with --set-resources {rule}:mem_mb={needed}"
            )
        return budget

    @contextmanager
    def clock(self, name: str) -> Iterator[None]:
        """Add the wall seconds of a block to a clock, less what was compiled in it."""
        start, compiled = time.perf_counter(), self.compile_seconds()
        try:
            yield
        finally:
            compiled = self.compile_seconds() - compiled
            self.add_seconds(name, time.perf_counter() - start - compiled)

    def add_seconds(self, name: str, seconds: float) -> None:
        """Add busy seconds to a clock."""
        self.clocks[name] = self.clocks.get(name, 0.0) + seconds

    def count(self, sample: str | None, line: str, templates: int) -> None:
        """Write a ledger line; `sample` None is the library's."""
        self.ledger.append({"sample": sample, "line": line, "templates": int(templates)})

    def result(self, driver: str) -> dict[str, Any]:
        """Return the metrics of the job as plain values."""
        wall = time.perf_counter() - self._wall
        self.clocks["compile"] = self.compile_seconds() - self._compiled
        return {
            "schema": SCHEMA,
            "stage": self.stage,
            "rule": self.rule or self.stage,
            "library": self.library,
            "unit": None,
            "part": None,
            "bucket": None,
            "samples": None,
            **self.where,
            "reads": self.reads,
            "wall_seconds": round(wall, 3),
            "cpu_seconds": round(time.process_time() - self._cpu, 3),
            "reads_per_second": round(self.reads / wall) if wall > 0 else 0,
            "threads": self.threads,
            "peak_rss_bytes": memory_bytes("VmHWM"),
            "baseline_rss_bytes": self.baseline_rss_bytes,
            "budget_bytes": 1_000_000 * self.mem_mb - self.baseline_rss_bytes,
            "umi_memory_bytes": self.umi_memory_bytes,
            "umi_spilled": self.umi_spill_bytes > 0,
            "umi_spill_bytes": self.umi_spill_bytes,
            "umi_read_back_bytes": self.umi_read_back_bytes,
            "read_bytes": self.read_bytes,
            "written_bytes": self.written_bytes,
            "clocks": {name: round(value, 3) for name, value in self.clocks.items()},
            "driver": driver,
            "ledger": self.ledger,
            "counters": dict(self.counters),
            "provenance": provenance(self._started),
        }

    def write(self, path: Path, driver: str, log_path: str | None = None) -> None:
        """Write the metrics, and say them in two lines on stderr and in the log of the job."""
        result = self.result(driver)
        write_json(path, result)
        tell(summary_text(result), log_path)


def provenance(started: datetime) -> dict[str, Any]:
    """Return where, when and with what a job ran."""
    versions = {
        name: metadata.version(name) for name in ("numpy", "numba", "isal") if _installed(name)
    }
    return {
        "umimill": __version__,
        "algorithm": ALGORITHM_VERSION,
        "python": platform.python_version(),
        **versions,
        "host": socket.gethostname(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "started": started.isoformat(timespec="milliseconds"),
    }


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def cpu_model() -> str:
    """Return the CPU's name as Linux gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def job_name(result: Mapping[str, Any]) -> str:
    """Name a job as the folders of its log do: `checkout demo/L001/1-of-2`."""
    places = [result[key] for key in ("library", "unit", "part", "bucket") if result[key]]
    return " ".join([str(result["stage"]), *(["/".join(places)] if places else [])])


def summary_text(result: Mapping[str, Any]) -> str:
    """Return the two lines of a job behind its name."""
    name = job_name(result)
    return "".join(f"{name}: {line}\n" for line in summary_lines(result))


def summary_lines(result: Mapping[str, Any]) -> list[str]:
    """Return the two lines that a person reads: where time went, and memory."""
    driver = str(result["driver"])
    threads = int(result["threads"])
    busy = float(result["clocks"].get(driver, 0.0))
    # Clocks add up the busy seconds of all threads.
    main = busy if busy <= float(result["wall_seconds"]) else busy / threads
    compiled = float(result["clocks"].get("compile", 0.0))
    if compiled < LEAST_COMPILE_SECONDS:
        compiled = 0.0
    rest = max(0.0, float(result["wall_seconds"]) - main - compiled)
    once = f" + {compiled:.1f} s compiling, once" if compiled else ""
    plural = "s" if threads > 1 else ""
    spilled = (
        f", {result['umi_spill_bytes'] / 1e6:,.1f} MB of them spilled"
        if result["umi_spilled"]
        else ""
    )
    return [
        f"{result['wall_seconds']:.1f} s ({result['reads_per_second']:,} reads/s) = {main:.1f} s "
        f"{_DRIVERS.get(driver, driver)} on {threads} thread{plural}{once} "
        f"+ {rest:.1f} s for the rest",
        f"peak RSS {result['peak_rss_bytes'] / 1e6:,.1f} MB of which UMI tables "
        f"{result['umi_memory_bytes'] / 1e6:,.1f} MB{spilled}",
    ]


def sum_ledger(jobs: Sequence[Mapping[str, Any]], stage: str) -> dict[tuple[str | None, str], int]:
    """Add up the ledgers of a stage: {(sample, line): templates}."""
    total: dict[tuple[str | None, str], int] = {}
    for job in jobs:
        if job["stage"] != stage:
            continue
        for entry in job["ledger"]:
            place = (entry["sample"], entry["line"])
            total[place] = total.get(place, 0) + int(entry["templates"])
    return total
