"""estimate: what a large run will take, from the heads of its files, told before its first jobs.

It holds within a factor of two for short reads, four a molecule; of more molecules consensus and
files take more. The report has it beside what was measured.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umimill.files import write_json
from umimill.findings import duration, plural, size
from umimill.packed import unpack_head

SCHEMA = 1
HEAD_BYTES = 1 << 20


@dataclass(frozen=True)
class Cost:
    """What a stage takes.

    Attributes:
        cpu_seconds: of a GB of FASTQ text, without the start of jobs.
        written_share: bytes written, of those of FASTQ text.
        peak_rss_bytes: of its largest job.
    """

    cpu_seconds: float
    written_share: float
    peak_rss_bytes: int


# Measured on 2026-12-01: 20 M reads of 129 bases, four a molecule, four buckets; 2 vCPU (AMD EPYC).
COSTS = {
    "checkout": Cost(4.6, 0.282, 290_000_000),
    "tally": Cost(1.9, 0.039, 240_000_000),
    "model": Cost(0.1, 0.0, 160_000_000),
    "link": Cost(0.7, 0.028, 300_000_000),
    "settle": Cost(4.0, 0.007, 260_000_000),
    "move": Cost(1.2, 0.067, 220_000_000),
    "assemble": Cost(4.0, 0.13, 200_000_000),
    "gather": Cost(1.4, 0.063, 360_000_000),
}
# CPU time of a job before its work begins, and of Snakemake for it.
START_SECONDS = 1.2
# What they write stays; what the others write lies between stages.
LAST_STAGE = "gather"


@dataclass(frozen=True)
class Wanted:
    """A library whose cost is asked for.

    Attributes:
        units: files of each unit, one or two.
        jobs: number of its jobs.
        small: whether its files between the stages are removed when it is done.
    """

    units: Sequence[Sequence[str]]
    jobs: float
    small: bool


def estimate(libraries: Sequence[Wanted], limit: int, output: Path) -> dict[str, Any]:
    """Estimate what a run takes and write it as JSON.

    Args:
        libraries: its libraries.
        limit: templates that are read of each unit, 0 = all.
        output: file to write.

    Returns:
        What was written: templates, plain_bytes, cpu_seconds, results_bytes, between_bytes, and by
        stage cpu_seconds, written_bytes, peak_rss_bytes.
    """
    templates, plain = [], []
    for library in libraries:
        sizes = [_unit_size(unit, limit) for unit in library.units]
        templates.append(sum(one for one, _ in sizes))
        plain.append(sum(one for _, one in sizes))
    total = sum(plain)
    stages = {
        stage: {
            "cpu_seconds": cost.cpu_seconds * total / 1e9,
            "written_bytes": round(cost.written_share * total),
            "peak_rss_bytes": cost.peak_rss_bytes,
        }
        for stage, cost in COSTS.items()
    }
    small = [one for one, library in zip(plain, libraries, strict=True) if library.small]
    staying = total - sum(small) + max(small, default=0)
    share = sum(cost.written_share for stage, cost in COSTS.items() if stage != LAST_STAGE)
    found = {
        "schema": SCHEMA,
        "templates": round(sum(templates)),
        "plain_bytes": round(total),
        "cpu_seconds": sum(one["cpu_seconds"] for one in stages.values())
        + START_SECONDS * sum(library.jobs for library in libraries),
        "results_bytes": round(COSTS[LAST_STAGE].written_share * total),
        "between_bytes": round(share * staying),
        "stages": stages,
    }
    write_json(output, found)
    return found


def estimate_lines(found: Mapping[str, Any], cores: int, folder: Path) -> list[str]:
    """Say an estimate, and where the disk is too small for it.

    Args:
        found: what `estimate` returned.
        cores: that the run may use.
        folder: where it writes.
    """
    whole = found["results_bytes"] + found["between_bytes"]
    least = duration(found["cpu_seconds"] / cores)
    largest = max(found["stages"].values(), key=lambda one: one["peak_rss_bytes"])
    lines = [
        f"about {found['templates']:,} templates, {size(found['plain_bytes'])} of FASTQ text: "
        f"{duration(found['cpu_seconds'])} of CPU time, {least} or more on {plural(cores, 'core')}",
        f"{size(found['results_bytes'])} of results, {size(found['between_bytes'])} between the "
        f"stages; no job of more than {size(largest['peak_rss_bytes'])}",
    ]
    free = shutil.disk_usage(folder).free
    if free < whole:
        lines.append(
            f"only {size(free)} are free here: free some, run in a folder on another disk, or set "
            "keep_intermediates to false"
        )
    return [f"estimate: {line}" for line in lines]


def _unit_size(paths: Sequence[str], limit: int) -> tuple[float, float]:
    """Return templates and bytes of text of a unit, as far as it is read."""
    found = [_text_size(Path(path)) for path in paths]
    templates = min(records for records, _ in found)
    share = min(1.0, limit / templates) if limit and templates else 1.0
    return templates * share, sum(text for _, text in found) * share


def _text_size(path: Path) -> tuple[float, float]:
    """Return records and bytes of text of a file, from its head."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    text = unpack_head(head)
    grown = path.stat().st_size / len(head) if head else 0.0
    return text.count(b"\n") / 4 * grown, len(text) * grown
