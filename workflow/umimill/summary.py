"""Rows of the metrics tables, and the sums over templates and molecules the report shows.

Pure functions on loaded tables: nothing here reads a file, draws, or knows HTML. Everything that is
counted here was counted by a stage before; a sum is compared with another one, never used to fill
a gap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
    """What one job measured of itself; an absent number is 0.

    `rule` is what --set-resources takes: of a stage, or of the job that ran several of them.
    """

    stage: str
    library: str
    rule: str = ""
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
    written_bytes: int = 0
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
    def limit_reads(self) -> int:
        """Templates that were read of each unit at most, 0 = all."""
        return int(self.provenance.get("limit_reads") or 0)

    @property
    def corrects(self) -> bool:
        """Whether barcodes were corrected: settle ran, and was not told to leave them."""
        asked = self.provenance.get("refine_method") != "unique"
        return asked and any(job.stage == "settle" for job in self.jobs)


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
