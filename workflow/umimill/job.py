"""What every job script does around its stage: errors in one line, a meter, metrics at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from umimill import __version__
from umimill.errors import UmimillError, job_errors
from umimill.metrics import Meter


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
        if snakemake.params.version != __version__:
            raise UmimillError(
                f"the workflow is umimill {snakemake.params.version}, but the environment has "
                f"umimill {__version__} installed; remove it there"
            )
        meter = Meter(
            stage,
            getattr(snakemake.params, "library", None),
            int(snakemake.resources.mem_mb),
            snakemake.threads,
            where,
            compile_seconds=compile_clock(),
        )
        yield meter
        meter.write(Path(snakemake.output.metrics), driver, log_path)


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
