"""Tables of the report page as plain data: columns, cells, and what a cell sorts by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from umimill import job_sums, ledger_checks, summary
from umimill.findings import count, duration, percent, plural, size
from umimill.job_sums import StageSum
from umimill.summary import Job, Library
from umimill.svg import words

LARGEST_JOBS = 8
LIBRARIES_ACROSS = 6
NOTHING = "\N{EN DASH}"
PLACE_KEYS = ("host", "cpu", "cores")


@dataclass(frozen=True)
class Cell:
    """Text of a cell; `value` is what a numeric column sorts by, `share` the length of a bar."""

    text: str
    value: float | None = None
    share: float | None = None
    note: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """A titled table; `numeric` says which columns are numbers."""

    name: str
    title: str
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[Cell, ...], ...]
    sortable: bool = False


def word_cell(text: object) -> Cell:
    """Cell of text; nothing is a dash."""
    return Cell(NOTHING if text is None or text == "" else str(text))


def whole_cell(number: float | None, note: str = "") -> Cell:
    """Cell of a count; 0 is dimmed, so that the others stand out."""
    if number is None:
        return Cell(NOTHING)
    return Cell(count(number), number, note=note, kind="" if number else "zero")


def real_cell(number: float | None, form: str) -> Cell:
    """Cell of a number, nothing is a dash."""
    return Cell(NOTHING) if number is None else Cell(format(number, form), number)


def _error(rate: float | None) -> Cell:
    """Cell of a mean error rate; errors of bases are summed in steps of 2^-20."""
    cell = real_cell(rate, ".1e")
    return replace(cell, text="<1e-06") if rate == 0 else cell


def samples(libraries: Sequence[Library]) -> Table:
    """One row a sample, in the order of the sheets."""
    most = max((s.reads for library in libraries for s in library.samples), default=0) or 1
    rows = []
    for library in libraries:
        came = summary.templates_in(library)
        small = summary.below_filter(library)
        chance = summary.chance_shares(library)
        for s in library.samples:
            expected = chance.get(s.name, (None, 0.0))[0]
            rows.append(
                (
                    word_cell(s.library),
                    word_cell(s.name),
                    Cell(count(s.reads), s.reads, s.reads / most, kind="" if s.reads else "zero"),
                    Cell(percent(s.reads, came), s.reads / came if came else 0.0),
                    whole_cell(s.molecules),
                    real_cell(s.mean_reads, ".2f"),
                    real_cell(s.median_reads, ",.3g"),
                    real_cell(s.mean_quality, ".1f"),
                    _error(s.posterior_error),
                    real_cell(expected, ",.1f"),
                    whole_cell(small.get(s.name, 0)),
                )
            )
    columns = (
        "Library",
        "Sample",
        "Templates",
        "of library",
        "Molecules",
        "Mean reads",
        "Median reads",
        "Mean Q",
        "Posterior error",
        "Chance matches",
        "Below filter",
    )
    table = Table(
        "samples-table", "Samples", columns, number_columns(2, columns), tuple(rows), True
    )
    return without_empty(table, ("Chance matches", "Below filter"))


def without_empty(table: Table, optional: Sequence[str]) -> Table:
    """The table without those optional columns that hold nothing but zeros and dashes."""
    keep = [
        i
        for i, column in enumerate(table.columns)
        if column not in optional or any(row[i].value for row in table.rows)
    ]
    return replace(
        table,
        columns=tuple(table.columns[i] for i in keep),
        numeric=tuple(table.numeric[i] for i in keep),
        rows=tuple(tuple(row[i] for i in keep) for row in table.rows),
    )


def ledger(libraries: Sequence[Library]) -> Table:
    """Every line of every stage by library: lines down, or across where libraries are many."""
    seen = {row.stage for library in libraries for row in library.ledger}
    stages = sorted(seen, key=job_sums.stage_order)
    found = {lib.name: {s: summary.lines_of(lib, s) for s in stages} for lib in libraries}
    lines = [(s, line) for s in stages for line in _lines(list(found.values()), s)]
    cells = {
        (name, s, line): whole_cell(sums[s].get(line, 0), _share(sums, s, line))
        for name, sums in found.items()
        for s, line in lines
    }
    titles = [(s, words(line)) for s, line in lines]
    if len(libraries) <= LIBRARIES_ACROSS:
        rows = tuple(
            (
                Cell(s, kind="repeat" if i and titles[i - 1][0] == s else ""),
                word_cell(title),
                *(cells[name, s, line] for name in found),
            )
            for i, ((s, line), (_, title)) in enumerate(zip(lines, titles, strict=True))
        )
        columns = ("Stage", "Line", *found)
        return Table(
            "ledger-table", "Ledger, in templates", columns, number_columns(2, columns), rows
        )
    rows = tuple((word_cell(name), *(cells[name, s, line] for s, line in lines)) for name in found)
    columns = ("Library", *(f"{s}: {title}" for s, title in titles))
    return Table(
        "ledger-table", "Ledger, in templates", columns, number_columns(1, columns), rows, True
    )


def number_columns(words: int, columns: Sequence[str]) -> tuple[bool, ...]:
    """Which columns are numbers: all behind the first `words`."""
    return tuple(i >= words for i in range(len(columns)))


def _lines(found: Sequence[Mapping[str, Mapping[str, int]]], stage: str) -> list[str]:
    """Lines of one stage in any library: what was lost, as it is looked for, then what goes on."""
    seen = dict.fromkeys(line for sums in found for line in sums[stage])
    losses = summary.LOSSES if stage == "checkout" else ()
    order = (*losses, "partial", "unplaced", "assigned", *summary.FATES)
    return [line for line in order if line in seen] + [line for line in seen if line not in order]


def _share(sums: Mapping[str, Mapping[str, int]], stage: str, line: str) -> str:
    """Share of the stage's own sum; records are molecules and have none."""
    whole = sum(sums[stage].values())
    return percent(sums[stage].get(line, 0), whole) if whole and stage != "gather" else ""


def checks(libraries: Sequence[Library]) -> Table:
    """Sums that must agree, over all libraries."""
    made: dict[str, list[ledger_checks.Check]] = {}
    for library in libraries:
        for check in ledger_checks.checks(library):
            made.setdefault(check.title, []).append(check)
    rows = tuple(
        (
            word_cell(title),
            whole_cell(sum(check.left for check in group)),
            whole_cell(sum(check.right for check in group)),
            _closed(group),
        )
        for title, group in made.items()
    )
    columns = ("Sum", "Left side", "Right side", "Closes")
    return Table("checks-table", "Sums that must agree", columns, (False, True, True, False), rows)


def _closed(group: Sequence[ledger_checks.Check]) -> Cell:
    closed = sum(check.closed for check in group)
    if closed == len(group):
        return Cell("closes", kind="good")
    return Cell(f"open in {count(len(group) - closed)} of {count(len(group))}", kind="bad")


def clocks(sums: Sequence[StageSum]) -> list[str]:
    """Clocks that ran in any stage, in their usual order; what no clock covers is last."""
    seen = dict.fromkeys(name for s in sums for name in s.clocks if name != job_sums.OTHER_CLOCK)
    known = [name for name in job_sums.CLOCKS if name in seen]
    rest = any(job_sums.OTHER_CLOCK in s.clocks for s in sums)
    others = [name for name in seen if name not in known]
    return [*known, *others, *([job_sums.OTHER_CLOCK] if rest else [])]


def stages(sums: Sequence[StageSum]) -> Table:
    """One row a stage: jobs, reads, times and rate."""
    rows = tuple(
        (
            word_cell(s.stage),
            whole_cell(s.jobs),
            whole_cell(s.reads),
            Cell(duration(s.wall_seconds), s.wall_seconds),
            Cell(duration(s.cpu_seconds), s.cpu_seconds),
            whole_cell(s.reads_per_second or None),
        )
        for s in sums
    )
    columns = ("Stage", "Jobs", "Reads", "Job time", "CPU time", "Reads/s")
    return Table("stages-table", "Stages", columns, number_columns(1, columns), rows)


def estimated(libraries: Sequence[Library], estimate: Mapping[str, Any]) -> Table:
    """What a stage was estimated to take before the run, and what it took."""
    rows = []
    for stage in sorted(estimate["stages"], key=job_sums.stage_order):
        one = estimate["stages"][stage]
        jobs = [job for job in job_sums.all_jobs(libraries) if job.stage == stage]
        seconds = sum(job.cpu_seconds - job.clocks.get("start", 0.0) for job in jobs)
        written = sum(job.written_bytes for job in jobs)
        peak = max((job.peak_rss_bytes for job in jobs), default=0)
        rows.append(
            (
                word_cell(stage),
                Cell(duration(one["cpu_seconds"]), one["cpu_seconds"]),
                Cell(duration(seconds), seconds),
                Cell(size(one["written_bytes"]), one["written_bytes"]),
                Cell(size(written), written),
                Cell(size(one["peak_rss_bytes"]), one["peak_rss_bytes"]),
                Cell(size(peak), peak),
            )
        )
    pairs = [(f"{name}, estimated", name) for name in ("CPU time", "Written", "Peak RSS")]
    columns = ("Stage", *(title for pair in pairs for title in pair))
    title = "Estimated before the run, and measured; CPU time without the start of jobs"
    return Table("estimated-table", title, columns, number_columns(1, columns), tuple(rows))


def shares(sums: Sequence[StageSum]) -> Table:
    """One row a stage: share of every clock in the busy time, the largest marked."""
    shown = clocks(sums)
    rows = []
    for s in sums:
        busy = sum(s.clocks.values())
        main = max(s.clocks, key=lambda name: s.clocks[name], default="")
        kinds = {name: "" if s.clocks.get(name) else "zero" for name in shown} | {main: "main"}
        parts = [
            Cell(_rough(s.clocks.get(name, 0.0), busy), s.clocks.get(name, 0.0), kind=kinds[name])
            for name in shown
        ]
        rows.append((word_cell(s.stage), *parts))
    columns = ("Stage", *shown)
    title = "Share of each clock in the busy time"
    return Table("clocks-table", title, columns, number_columns(1, columns), tuple(rows))


def _rough(part: float, whole: float) -> str:
    """Share in whole percent."""
    share = 100 * part / whole if whole else 0.0
    return "<1%" if 0 < share < 0.5 else f"{share:.0f}%"


def largest(jobs: Sequence[Job]) -> Table:
    """Jobs with the highest peak RSS."""
    top = sorted(jobs, key=lambda job: -job.peak_rss_bytes)[:LARGEST_JOBS]
    rows = tuple(
        (
            word_cell(job.title),
            Cell(size(job.peak_rss_bytes), job.peak_rss_bytes),
            Cell(size(job.allowed_bytes) if job.allowed_bytes else NOTHING, job.allowed_bytes),
            Cell(
                percent(job.peak_rss_bytes, job.allowed_bytes) if job.allowed_bytes else NOTHING,
                kind="bad" if 0 < job.allowed_bytes < job.peak_rss_bytes else "",
            ),
            Cell(size(job.baseline_rss_bytes), job.baseline_rss_bytes),
            Cell(size(job.umi_memory_bytes), job.umi_memory_bytes),
            Cell(size(job.umi_spill_bytes), job.umi_spill_bytes),
        )
        for job in top
    )
    columns = ("Job", "Peak RSS", "Allowed", "used", "Baseline", "UMI tables", "Spilled")
    title = "Jobs by peak RSS"
    if len(top) < len(jobs):
        title = f"The {count(len(top))} largest of {plural(len(jobs), 'job')}"
    return Table("largest-table", title, columns, number_columns(1, columns), rows)


def inputs(libraries: Sequence[Library]) -> Table:
    """Files that were read."""
    rows = tuple(
        (
            word_cell(library.name),
            word_cell(unit.get("unit")),
            word_cell(unit.get("read1")),
            word_cell(unit.get("read2")),
            whole_cell(unit.get("templates")),
            word_cell(unit.get("phred_offset")),
            word_cell(unit.get("quality_levels")),
        )
        for library in libraries
        for unit in library.provenance.get("units") or ()
    )
    columns = ("Library", "Unit", "read1", "read2", "Templates", "Phred offset", "Quality levels")
    return Table("inputs-table", "Inputs", columns, number_columns(4, columns), rows)


def layouts(libraries: Sequence[Library]) -> Table:
    """Barcode layouts, with the samples' metadata as further columns."""
    found = [(lib.name, row) for lib in libraries for row in lib.provenance.get("layouts") or ()]
    extra = list(dict.fromkeys(key for _, row in found for key in row.get("metadata") or {}))
    rows = tuple(
        (
            word_cell(name),
            word_cell(row.get("sample")),
            Cell(str(row.get("layout") or NOTHING), kind="code"),
            Cell(str(row.get("layout_read2") or NOTHING), kind="code"),
            whole_cell(row.get("umi_length")),
            whole_cell(row.get("cell_length")),
            word_cell({True: "yes", False: "no"}.get(row.get("anchored"))),
            *(word_cell((row.get("metadata") or {}).get(key)) for key in extra),
        )
        for name, row in found
    )
    columns = ("Library", "Sample", "Layout", "Layout of read 2", "UMI", "Cell", "Anchored", *extra)
    numeric = tuple(4 <= i <= 5 for i in range(len(columns)))
    return Table("layouts-table", "Layouts, lengths in bases", columns, numeric, rows)


def settings(libraries: Sequence[Library]) -> Table:
    """Settings of the run that reached the jobs."""
    keys = ["buckets", "parts", "min_reads", "refine_method", "min_posterior", "floor"]
    keys += ["limit_reads"] * any(library.limit_reads for library in libraries)
    config = [lib.provenance.get("config") or {} for lib in libraries]
    extra = [key for key in dict.fromkeys(k for c in config for k in c) if key not in keys]
    rows = tuple(
        (
            word_cell(library.name),
            *(word_cell(library.provenance.get(key, values.get(key))) for key in keys),
            *(word_cell(values.get(key)) for key in extra),
        )
        for library, values in zip(libraries, config, strict=True)
        if library.provenance
    )
    columns = ("Library", *keys, *extra)
    return Table("settings-table", "Settings", columns, number_columns(1, columns), rows)


def versions(libraries: Sequence[Library]) -> Table:
    """Machines and versions of the jobs: more than one row where they differ."""
    jobs: Counter[tuple[str, ...]] = Counter()
    ran = [job for job in job_sums.all_jobs(libraries) if job.provenance]
    found = dict.fromkeys(key for job in ran for key in job.provenance if key != "started")
    keys = [*(k for k in PLACE_KEYS if k in found), *(k for k in found if k not in PLACE_KEYS)]
    for job in ran:
        jobs[tuple(str(job.provenance.get(key, NOTHING)) for key in keys)] += 1
    rows = tuple((*map(word_cell, row), whole_cell(number)) for row, number in sorted(jobs.items()))
    columns = (*keys, "Jobs")
    numeric = (*(False,) * len(keys), True)
    return Table("versions-table", "Machines and versions", columns, numeric, rows)
