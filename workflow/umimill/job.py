"""What every job script does around its stage: errors in one line, a meter, metrics at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from umimill import __version__
from umimill.errors import UmimillError, job_errors, note
from umimill.files import write_json
from umimill.metrics import Meter, summary_text


@contextmanager
def run_job(snakemake: Any, stage: str, driver: str, **where: Any) -> Iterator[Meter]:
    """Run the block as the job of a rule.

    Args:
        snakemake: the object that Snakemake gives to scripts; it has `output.metrics`,
            `params.version` and, but for a job of the whole run, `params.library`.
        stage: name of the stage.
        driver: the stage's main clock.
        **where: unit, part, bucket or samples of the job.
    """
    log_path = snakemake.log[0] if snakemake.log else None
    with job_errors(log_path):
        check_version(snakemake.params.version)
        meter = Meter(
            stage,
            getattr(snakemake.params, "library", None),
            int(snakemake.resources.mem_mb),
            snakemake.threads,
            where,
            compile_seconds=compile_clock(),
            rule=snakemake.rule,
        )
        yield meter
        meter.write(Path(snakemake.output.metrics), driver, log_path)


@dataclass
class Jobs:
    """Measures the stages of a library as if each were a job.

    Args:
        library: its name.
        folder: where their metrics go.
        rule: rule of the job that they are in.
        mem_mb, threads: what the job may use.
        compile_seconds: see Meter.
        log_path: log of the job, or None.
        shared: whether the process did other work before the first stage.
    """

    library: str
    folder: Path
    rule: str
    mem_mb: int
    threads: int
    compile_seconds: Callable[[], float]
    log_path: str | None
    shared: bool = field(kw_only=True)
    results: list[dict[str, Any]] = field(default_factory=list)

    @property
    def paths(self) -> list[Path]:
        """Files of the metrics so far."""
        return [self.folder / f"{number + 1}.json" for number in range(len(self.results))]

    @contextmanager
    def stage(
        self,
        name: str,
        driver: str,
        output: Path | None = None,
        *,
        threaded: bool = False,
        **where: Any,
    ) -> Iterator[Meter]:
        """Run the block as a stage.

        Args:
            name: the stage.
            driver: its main clock.
            output: file for its metrics, beside the folder's.
            threaded: whether it takes all threads of the job.
            **where: unit, part, bucket or samples.
        """
        meter = Meter(
            name,
            self.library,
            self.mem_mb,
            self.threads if threaded else 1,
            where,
            compile_seconds=self.compile_seconds,
            rule=self.rule,
            shared=self.shared or bool(self.results),
        )
        yield meter
        self.results.append(meter.result(driver))
        write_json(self.paths[-1], self.results[-1])
        if output is not None:
            write_json(output, self.results[-1])
        if self.log_path is not None:
            note(summary_text(self.results[-1]), self.log_path)

    def sum(self) -> dict[str, Any]:
        """Return the metrics of all stages as those of one job."""
        first = self.results[0]
        reads = sum(one["reads"] for one in self.results if one["stage"] == "checkout")
        wall = sum(one["wall_seconds"] for one in self.results)
        clocks: dict[str, float] = {}
        for one in self.results:
            for name, seconds in one["clocks"].items():
                clocks[name] = clocks.get(name, 0.0) + seconds
        most = {
            name: max(one[name] for one in self.results)
            for name in ("peak_rss_bytes", "umi_memory_bytes", "umi_spilled", "umi_spill_bytes")
        }
        return {
            **first,
            "stage": self.rule,
            "unit": None,
            "driver": "match",
            "reads": reads,
            "wall_seconds": wall,
            "reads_per_second": round(reads / wall) if wall > 0 else 0,
            "clocks": clocks,
            **most,
        }


def jobs_maker(snakemake: Any) -> Callable[[str, Path], Jobs]:
    """Return a function that makes the Jobs of one library after the other, each with a folder."""
    compile_seconds = compile_clock()
    made = count()

    def make_jobs(library: str, folder: Path) -> Jobs:
        return Jobs(
            library,
            folder,
            snakemake.rule,
            int(snakemake.resources.mem_mb),
            snakemake.threads,
            compile_seconds,
            snakemake.log[0],
            shared=next(made) > 0,
        )

    return make_jobs


def check_version(version: str) -> None:
    """Refuse to run with a package of another version than the workflow's.

    Raises:
        UmimillError: where they differ.
    """
    if version != __version__:
        raise UmimillError(
            f"the workflow is umimill {version}, but the environment has umimill {__version__} "
            "installed; remove it there"
        )


def compile_clock() -> Callable[[], float]:
    """Return a function that gives the seconds spent compiling kernels from now on."""
    if "umimill.jit" not in sys.modules:
        return lambda: 0.0
    from umimill.jit import CompileClock

    clock = CompileClock()
    return lambda: clock.seconds


def split_item(item: str) -> tuple[int, int]:
    """Read "3-of-8" as (2, 8): numbers count from 0."""
    number, count = item.split("-of-")
    return int(number) - 1, int(count)


def paths(values: Mapping[str, str]) -> dict[str, Path]:
    """Turn the values of a mapping into paths."""
    return {name: Path(value) for name, value in values.items()}
