"""Sums over jobs: what stages took, when jobs ran, what buckets spilled."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from umimill.summary import Job, Library

STAGES = (
    "probe",
    "cells",
    "checkout",
    "place",
    "plan",
    "tally",
    "model",
    "link",
    "settle",
    "move",
    "route",
    "assemble",
    "index",
    "gather",
    "report",
)
CLOCKS = ("start", "compile", "decode", "match", "sort", "model", "compress", "write")
OTHER_CLOCK = "other"
BUCKETS_MAX = 4096
# A part of the other clocks, not beside them.
INNER_CLOCK = "spill"


@dataclass(frozen=True)
class StageSum:
    """Sums over the jobs of one stage; rates are per second of job time, of jobs that had reads."""

    stage: str
    jobs: int
    reads: int
    wall_seconds: float
    cpu_seconds: float
    reads_per_second: float
    slowest: float
    fastest: float
    clocks: Mapping[str, float]


def all_jobs(libraries: Iterable[Library]) -> list[Job]:
    """Jobs of all libraries, in the order of the libraries."""
    return [job for library in libraries for job in library.jobs]


def stage_sums(jobs: Sequence[Job]) -> list[StageSum]:
    """Sums by stage in the order of the flow; stages unknown here come last, by name."""
    groups: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        groups[job.stage].append(job)
    return [_stage_sum(stage, groups[stage]) for stage in sorted(groups, key=stage_order)]


def stage_order(stage: str) -> tuple[int, str]:
    """Sort key that puts the stages in the order of the flow."""
    return (STAGES.index(stage) if stage in STAGES else len(STAGES), stage)


def _stage_sum(stage: str, jobs: Sequence[Job]) -> StageSum:
    fed = [job for job in jobs if job.reads and job.wall_seconds > 0]
    rates = [job.reads / job.wall_seconds for job in fed]
    fed_seconds = sum(job.wall_seconds for job in fed)
    clocks: Counter[str] = Counter()
    for job in jobs:
        clocks.update(busy_seconds(job))
    order = (*CLOCKS, *sorted(set(clocks) - {*CLOCKS, OTHER_CLOCK}), OTHER_CLOCK)
    return StageSum(
        stage=stage,
        jobs=len(jobs),
        reads=sum(job.reads for job in jobs),
        wall_seconds=sum(job.wall_seconds for job in jobs),
        cpu_seconds=sum(job.cpu_seconds for job in jobs),
        reads_per_second=sum(job.reads for job in fed) / fed_seconds if fed else 0.0,
        slowest=min(rates, default=0.0),
        fastest=max(rates, default=0.0),
        clocks={name: clocks[name] for name in order if clocks[name] > 0},
    )


def busy_seconds(job: Job) -> dict[str, float]:
    """Clocks of a job, and as `other` the job time that no clock covers.

    Clocks add up over threads, so the larger of wall and CPU time is what they are held against.
    """
    clocks = {name: float(s) for name, s in job.clocks.items() if name != INNER_CLOCK}
    known = {name: seconds for name, seconds in clocks.items() if seconds > 0}
    rest = max(job.wall_seconds, job.cpu_seconds) - sum(known.values())
    return known | {OTHER_CLOCK: rest} if rest > 0 else known


def started(job: Job) -> float | None:
    """Start of a job in seconds since 1970, None where it is not written."""
    try:
        return datetime.fromisoformat(str(job.provenance.get("started"))).timestamp()
    except ValueError:
        return None


def wall_spans(jobs: Sequence[Job]) -> tuple[float, float]:
    """Seconds in which at least one job ran, and seconds from the first start to the last end.

    A resumed run has a gap; so has one that waited in a queue. Without start times both are the
    sum of the jobs' wall seconds.
    """
    starts = [(started(job), job.wall_seconds) for job in jobs]
    spans = sorted((start, start + wall) for start, wall in starts if start is not None)
    if len(spans) < len(jobs) or not spans:
        total = sum(job.wall_seconds for job in jobs)
        return total, total
    covered, until = 0.0, spans[0][0]
    for start, stop in spans:
        covered += max(0.0, stop - max(start, until))
        until = max(until, stop)
    return covered, until - spans[0][0]


def buckets_without_spill(library: Library, jobs: Sequence[Job]) -> int:
    """Return how many buckets a library needs for these jobs not to spill, as a power of two more.

    The number it has where they spilled nothing, or are no jobs of a bucket: those of the whole
    library are not made smaller by more buckets.
    """
    ratio = 1.0
    for job in jobs:
        if job.bucket is not None and job.umi_spill_bytes:
            held = job.umi_memory_bytes
            ratio = max(ratio, (held + job.umi_spill_bytes) / held if held else 2.0)
    return min(BUCKETS_MAX, library.buckets << math.ceil(math.log2(ratio)))


def spill_by_bucket(library: Library) -> list[tuple[int, int]]:
    """(bytes held at most, bytes spilled in all) of each bucket's jobs, in bucket order."""
    held: dict[int, tuple[int, int]] = {}
    for job in library.jobs:
        if job.bucket is not None:
            i = int(job.bucket.split("-of-")[0])
            memory, spilled = held.get(i, (0, 0))
            held[i] = (max(memory, job.umi_memory_bytes), spilled + job.umi_spill_bytes)
    return [held.get(i, (0, 0)) for i in range(1, max(held, default=0) + 1)]
