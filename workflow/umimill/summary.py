"""Rows of the metrics tables, and the sums the report shows.

Pure functions on loaded tables: nothing here reads a file, draws, or knows HTML. Everything that is
counted here was counted by a stage before; a sum is compared with another one, never used to fill
a gap.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from umimill.barcode_sums import (
    Barcodes,
    Correction,
    DepthError,
    Outcome,
    PosteriorBin,
    RankPoint,
    SizeCount,
)
from umimill.cell_sums import SampleCells

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
# A part of the other clocks, not beside them.
INNER_CLOCK = "spill"
LOSSES = (
    "unmatched",
    "ambiguous",
    "too_short",
    "low_umi_quality",
    "empty_payload",
    "unresolved",
    "off_list",
)
FATES = ("voted", "set_aside", "below_filter", "chimera_suspect", "shifted", "dropped")


@dataclass(frozen=True)
class LedgerRow:
    """One line of a ledger; `sample` is None for a line of the whole library."""

    stage: str
    sample: str | None
    line: str
    templates: int


@dataclass(frozen=True)
class Job:
    """What one job measured of itself; an absent number is 0."""

    stage: str
    library: str
    unit: str | None = None
    part: str | None = None
    bucket: str | None = None
    reads: int = 0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    threads: int = 1
    peak_rss_bytes: int = 0
    baseline_rss_bytes: int = 0
    budget_bytes: int = 0
    umi_memory_bytes: int = 0
    umi_spill_bytes: int = 0
    umi_read_back_bytes: int = 0
    clocks: Mapping[str, float] = field(default_factory=dict)
    ledger: tuple[LedgerRow, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def allowed_bytes(self) -> int:
        """What peak RSS is held against: the budget and the baseline that was taken off it.

        0 where the job had no budget.
        """
        return self.budget_bytes + self.baseline_rss_bytes if self.budget_bytes else 0

    @property
    def title(self) -> str:
        """Name of the job in a sentence: "assemble, bucket 3-of-8 of library L1"."""
        if self.bucket is not None:
            return f"{self.stage}, bucket {self.bucket} of library {self.library}"
        if self.unit is not None:
            part = f", part {self.part}" if self.part is not None else ""
            return f"{self.stage}, unit {self.unit}{part} of library {self.library}"
        return f"{self.stage} of library {self.library}"


@dataclass(frozen=True)
class Sample:
    """One row of samples.tsv; a mean of nothing is None."""

    library: str
    name: str
    reads: int
    molecules: int
    mean_reads: float | None = None
    median_reads: float | None = None
    mean_quality: float | None = None
    posterior_error: float | None = None


@dataclass(frozen=True)
class Library:
    """All metrics of one library.

    `sizes` maps a sample to (reads per molecule, molecules), `barcodes` to what became of them.
    """

    name: str
    samples: tuple[Sample, ...] = ()
    jobs: tuple[Job, ...] = ()
    ledger: tuple[LedgerRow, ...] = ()
    sizes: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    barcodes: Mapping[str, Barcodes] = field(default_factory=dict)
    outcomes: tuple[Outcome, ...] = ()
    cells: tuple[SampleCells, ...] = ()
    posteriors: tuple[PosteriorBin, ...] = ()
    corrections: tuple[Correction, ...] = ()
    umi_errors: tuple[DepthError, ...] = ()
    family_sizes: tuple[SizeCount, ...] = ()
    ranks: tuple[RankPoint, ...] = ()

    @property
    def buckets(self) -> int:
        """Number of buckets of the library, 1 where provenance does not say."""
        return int(self.provenance.get("buckets") or 1)

    @property
    def corrects(self) -> bool:
        """Whether barcodes were corrected: settle ran, and was not told to leave them."""
        asked = self.provenance.get("refine_method") != "unique"
        return asked and any(job.stage == "settle" for job in self.jobs)


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


def lines_of(library: Library, stage: str) -> dict[str, int]:
    """Templates by line of one stage, summed over samples, in the order of the ledger file."""
    sums: dict[str, int] = {}
    for row in library.ledger:
        if row.stage == stage:
            sums[row.line] = sums.get(row.line, 0) + row.templates
    return sums


def by_sample(library: Library, stage: str, lines: Sequence[str] | None = None) -> dict[str, int]:
    """Templates by sample of one stage; library-level lines are left out."""
    sums: Counter[str] = Counter()
    for row in library.ledger:
        if row.stage == stage and row.sample is not None and (lines is None or row.line in lines):
            sums[row.sample] += row.templates
    return dict(sums)


def templates_in(library: Library) -> int:
    """Templates read by checkout: the sum of all its ledger lines."""
    return sum(lines_of(library, "checkout").values())


def assigned_by_sample(library: Library) -> dict[str, int]:
    """Templates by sample that went on: given to it by checkout, or to a cell of it by place."""
    sums = Counter(by_sample(library, "checkout", ("assigned",)))
    sums.update(by_sample(library, "place", ("placed",)))
    return dict(sums)


def assigned(library: Library) -> int:
    """Templates that were given to a sample."""
    return sum(assigned_by_sample(library).values())


def left_out(library: Library) -> dict[str, int]:
    """Templates by line that ended in checkout, in place, or in settle."""
    lines = {**lines_of(library, "checkout"), **lines_of(library, "place")}
    settled = lines_of(library, "settle")
    went_on = {"assigned", "unplaced", "placed"}
    if settled:
        went_on.add("partial")
        unresolved = lines.get("unresolved", 0) + settled.get("unresolved", 0)
        if unresolved:
            lines["unresolved"] = unresolved
    return {name: n for name, n in lines.items() if name not in went_on}


def molecules(library: Library) -> int:
    """Consensus molecules of the library."""
    return sum(sample.molecules for sample in library.samples)


def below_filter(library: Library) -> dict[str, int]:
    """Templates by sample that belong to molecules smaller than `min_reads`."""
    lines = [line for line in lines_of(library, "assemble") if line.startswith("below_filter")]
    return by_sample(library, "assemble", lines)


def fates(library: Library) -> dict[str, int]:
    """Last known place of every template: consensus lines first, then what checkout left out.

    The values sum to `templates_in` whenever the ledger closes.
    """
    ends = lines_of(library, "assemble") or {"assigned": assigned(library)}
    losses = left_out(library)
    order = (*FATES, "assigned", *LOSSES)
    merged: Counter[str] = Counter()
    for line, templates in (*ends.items(), *losses.items()):
        merged[_fate(line)] += templates
    known = {line: merged[line] for line in order if line in merged}
    return known | {line: n for line, n in merged.items() if line not in known}


def _fate(line: str) -> str:
    """Line without its reason: `set_aside(indel)` and `set_aside:indel` are `set_aside`."""
    return next((fate for fate in FATES if line.startswith(fate)), line)


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


def size_bins(sizes: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """(molecules, reads) by power-of-two bin: bin k holds 2^k to 2^(k+1)-1 reads per molecule."""
    bins: dict[int, list[int]] = {}
    for size, count in sizes:
        cell = bins.setdefault(size.bit_length() - 1, [0, 0])
        cell[0] += count
        cell[1] += size * count
    top = max(bins, default=-1)
    return [(bins[k][0], bins[k][1]) if k in bins else (0, 0) for k in range(top + 1)]


def bin_title(k: int) -> str:
    """Reads per molecule of bin k: "1", "2-3", "4-7" (with an en dash)."""
    return "1" if k == 0 else f"{2**k:,}\N{EN DASH}{2 ** (k + 1) - 1:,}"


def spill_by_bucket(library: Library) -> list[tuple[int, int]]:
    """(bytes held at most, bytes spilled in all) of each bucket's jobs, in bucket order."""
    held: dict[int, tuple[int, int]] = {}
    for job in library.jobs:
        if job.bucket is not None:
            i = int(job.bucket.split("-of-")[0])
            memory, spilled = held.get(i, (0, 0))
            held[i] = (max(memory, job.umi_memory_bytes), spilled + job.umi_spill_bytes)
    return [held.get(i, (0, 0)) for i in range(1, max(held, default=0) + 1)]


def chance_shares(library: Library) -> dict[str, tuple[float, float]]:
    """Expected chance matches by sample, and their share of the sample's reads."""
    expected = library.provenance.get("expected_chance_matches") or {}
    reads = {sample.name: sample.reads for sample in library.samples}
    return {
        name: (float(number), float(number) / reads[name] if reads[name] else 0.0)
        for name, number in expected.items()
        if name in reads and number is not None
    }


def single_read_share(libraries: Iterable[Library]) -> float:
    """Share of molecules that rest on one read, 0 where there is no molecule."""
    rows = [row for library in libraries for sizes in library.sizes.values() for row in sizes]
    total = sum(count for _, count in rows)
    return sum(count for size, count in rows if size == 1) / total if total else 0.0


def median_size(libraries: Iterable[Library]) -> int:
    """Reads that half of the molecules have, or more; 0 for none."""
    return _middle([row for lib in libraries for sizes in lib.sizes.values() for row in sizes])


def median_size_of_reads(libraries: Iterable[Library]) -> int:
    """Reads of a molecule that half of the reads are in one of or a larger one; 0 for none."""
    rows = [row for library in libraries for sizes in library.sizes.values() for row in sizes]
    return _middle([(size, size * count) for size, count in rows])


def _middle(weighted: Sequence[tuple[int, int]]) -> int:
    """Largest value that at least half of the weight reaches."""
    whole = sum(weight for _, weight in weighted)
    reached = 0
    for value, weight in sorted(weighted, reverse=True):
        reached += weight
        if 2 * reached >= whole:
            return value
    return 0


def mean_quality(libraries: Iterable[Library]) -> float | None:
    """Mean consensus quality over samples, each weighted by its molecules."""
    rows = [s for lib in libraries for s in lib.samples if s.mean_quality is not None]
    weight = sum(sample.molecules for sample in rows)
    if not weight:
        return None
    return sum((sample.mean_quality or 0.0) * sample.molecules for sample in rows) / weight
