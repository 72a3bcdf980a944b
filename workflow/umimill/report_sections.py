"""Sections of the report page: which tables and figures stand where, and what they say.

Everything here is plain data that the template walks through; text is not yet escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from umimill import advice, findings, plots, report_tables, summary
from umimill.advice import Advice
from umimill.findings import Answer, count, names, percent, plural, size
from umimill.report_tables import Table
from umimill.summary import Library
from umimill.svg import short, words

PANELS_MAX = 12
BARS_MAX = 4
GLOSSARY = (
    ("library", "reads prepared and sequenced together; one or more units"),
    ("unit", "one lane or file set of a library"),
    ("part", "a slice of a unit, read by one job"),
    ("sample", "what a row of samples.tsv names by its barcode"),
    ("template", "what is counted: a read, or a pair once"),
    ("UMI", "the barcode that marks one molecule before amplification"),
    ("family", "the reads that share one barcode"),
    ("molecule", "one or more families that came from one molecule; one consensus"),
    ("bucket", "a run of barcodes in sorted order, worked on by one job"),
    ("unmatched", "no sample's layout was found in the template"),
    ("ambiguous", "two samples fit the template about equally well"),
    ("unresolved", "the first bases of the barcode hold an N"),
    ("voted", "the template had a vote in a consensus"),
    ("set aside", "its molecule is there, but this template did not fit and had no vote"),
    ("below filter", "its molecule has fewer reads than `min_reads` and was not written"),
    ("chance match", "a foreign template that fits a layout by chance"),
    ("mean Q", "mean quality of the consensus bases; 30 is 1 error in 1,000, 40 is 1 in 10,000"),
    ("posterior error", "the error a consensus base is expected to have"),
    ("allowed", "the memory a job was given, `mem_mb`; its budget is that less the baseline"),
    ("peak RSS", "the most memory a job held at any moment"),
    ("baseline", "memory of a job before it has read anything"),
    ("UMI spill", "what a job's UMI tables wrote to disk because they did not fit the budget"),
    ("job time", "wall time summed over jobs, so two jobs side by side count twice"),
)


CLOCK_WORDS = {
    "start": "starting up",
    "compile": "compiling",
    "decode": "decoding",
    "match": "matching",
    "sort": "sorting",
    "model": "computing the consensus",
    "compress": "compressing",
    "write": "writing",
    "other": "outside all clocks",
}


@dataclass(frozen=True)
class Figure:
    """One drawing in two widths; the title is what it shows, the caption how to read it."""

    title: str
    wide: str
    narrow: str
    caption: str
    legend: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Section:
    """A heading, its sentences, figures and tables; left out of the page where it is empty."""

    name: str
    title: str
    sentences: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Page:
    """All of the page."""

    subtitle: str
    verdict: Advice
    answers: tuple[Answer, ...]
    advice: tuple[Advice, ...]
    sections: tuple[Section, ...]
    glossary: tuple[tuple[str, str], ...]


def page(libraries: Sequence[Library]) -> Page:
    """Everything on the page, from the loaded tables of all libraries."""
    advised = advice.advise(libraries)
    makers: tuple[Callable[[Sequence[Library]], Section | None], ...] = (
        _samples,
        _ledger,
        _throughput,
        _memory,
        _spill,
        _sizes,
        _provenance,
    )
    sections = [make(libraries) for make in makers]
    return Page(
        subtitle=_subtitle(libraries),
        verdict=advice.verdict(libraries, advised),
        answers=tuple(findings.answers(libraries)),
        advice=tuple(advised),
        sections=tuple(section for section in sections if section is not None),
        glossary=GLOSSARY,
    )


def _subtitle(libraries: Sequence[Library]) -> str:
    jobs = summary.all_jobs(libraries)
    titles = [library.name for library in libraries]
    parts = [f"{'Library' if len(titles) == 1 else 'Libraries'} {names(titles)}"] if titles else []
    starts = [start for start in map(summary.started, jobs) if start is not None]
    if starts:
        parts.append(f"started {datetime.fromtimestamp(min(starts), UTC):%Y-%m-%d %H:%M} UTC")
    versions = sorted(
        {str(job.provenance["umimill"]) for job in jobs if "umimill" in job.provenance}
    )
    if versions:
        parts.append(f"umimill {names(versions)}")
    return " \N{MIDDLE DOT} ".join(parts)


def _drawn(
    title: str,
    caption: str,
    draw: Callable[[int, str], str],
    name: str,
    legend: Sequence[tuple[str, str]] = (),
) -> Figure:
    wide, narrow = draw(plots.WIDE, f"{name}-w"), draw(plots.NARROW, f"{name}-n")
    return Figure(title, wide, narrow, caption, tuple(legend))


def _legend(parts: Sequence[str], colors: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(words(part), colors.get(part, plots.GREY)) for part in parts]


def _samples(libraries: Sequence[Library]) -> Section | None:
    if not any(library.samples for library in libraries):
        return None
    table = report_tables.samples(libraries)
    hint = "Press a column's title to sort by it; press again to turn the order round."
    return Section("samples", "Samples", (hint,) if len(table.rows) > 1 else (), (), (table,))


def _ledger(libraries: Sequence[Library]) -> Section | None:
    rows = [(library.name, summary.fates(library)) for library in libraries]
    whole = sum(sum(parts.values()) for _, parts in rows)
    if not any(library.ledger for library in libraries):
        return None
    voted = sum(parts.get("voted", 0) for _, parts in rows)
    title = f"{percent(voted, whole)} of the templates had a vote in a consensus"
    seen = {part for _, parts in rows for part, n in parts.items() if n}
    order = (*plots.FATE_COLORS, *sorted(seen - set(plots.FATE_COLORS)))
    shown = [part for part in order if part in seen]
    figure = _drawn(
        title,
        "Each bar is all templates of one library, by where they ended.",
        lambda width, name: plots.share_bars(
            rows, plots.FATE_COLORS, width=width, name=name, label=f"{title}."
        ),
        "ledger",
        _legend(shown, plots.FATE_COLORS),
    )
    checks = [check for library in libraries for check in summary.checks(library)]
    closed = sum(check.closed for check in checks)
    sums = f"{count(closed)} of {plural(len(checks), 'sum')} close."
    if closed == len(checks):
        sums = f"All {plural(len(checks), 'sum')} close: every template is in exactly one line."
    tables = (report_tables.ledger(libraries), report_tables.checks(libraries))
    figures = (figure,) if whole else ()
    return Section("ledger", "Where every template went", (sums,), figures, tables)


def _throughput(libraries: Sequence[Library]) -> Section | None:
    sums = summary.stage_sums(summary.all_jobs(libraries))
    if not sums:
        return None
    rated = [s for s in sums if s.reads_per_second > 0]
    figures = []
    if rated:
        slow = min(rated, key=lambda s: s.reads_per_second)
        title = f"{slow.stage} is the slowest stage: {short(slow.reads_per_second)} reads/s"
        bars = [plots.RateBar(s.stage, s.slowest, s.reads_per_second, s.fastest) for s in rated]
        caption = (
            "Dot: reads of the stage over the time of its jobs that had reads. "
            "Line: from the slowest to the fastest of them."
        )
        figures.append(
            _drawn(
                title[0].upper() + title[1:],
                caption,
                lambda width, name: plots.rate_dots(
                    bars, width=width, name=name, label=f"Reads per second by stage. {title}."
                ),
                "rates",
            )
        )
    figures += _clock_figures([s for s in sums if s.clocks])
    return Section(
        "throughput",
        "Throughput",
        (),
        tuple(figures),
        (report_tables.stages(sums), report_tables.shares(sums)),
    )


def _clock_figures(sums: Sequence[summary.StageSum]) -> list[Figure]:
    if not sums:
        return []
    busy = {s.stage: sum(s.clocks.values()) for s in sums}
    top = max(sums, key=lambda s: busy[s.stage])
    clock = max(top.clocks, key=lambda name: top.clocks[name])
    share = percent(busy[top.stage], sum(busy.values()))
    part = "most" if top.clocks[clock] * 2 >= busy[top.stage] else "the largest part"
    doing = CLOCK_WORDS.get(clock, clock)
    title = f"{top.stage} took {share} of the busy time, {part} of it {doing}"
    rows = [(s.stage, s.clocks) for s in sums]
    shown = report_tables.clocks(sums)
    return [
        _drawn(
            title[0].upper() + title[1:],
            "Busy seconds by clock, added up over the threads and jobs of a stage. Other: time of "
            "the jobs that no clock covers.",
            lambda width, name: plots.second_bars(
                rows, width=width, name=name, label=f"Busy seconds by stage and clock. {title}."
            ),
            "clocks",
            _legend(shown, plots.CLOCK_COLORS),
        )
    ]


def _memory(libraries: Sequence[Library]) -> Section | None:
    jobs = [job for job in summary.all_jobs(libraries) if job.peak_rss_bytes]
    planned = [job for job in jobs if job.allowed_bytes]
    if not jobs:
        return None
    figures: tuple[Figure, ...] = ()
    if planned:
        ratios = [job.peak_rss_bytes / job.allowed_bytes for job in planned]
        over = sum(ratio > 1 for ratio in ratios)
        title = f"Every job stayed within its memory; the closest used {percent(max(ratios), 1)}"
        if over:
            title = f"{count(over)} of {plural(len(planned), 'job')} used more memory than planned"
        points = [
            plots.MemoryPoint(job.stage, job.allowed_bytes, job.peak_rss_bytes)
            for job in sorted(planned, key=lambda job: summary.stage_order(job.stage))
        ]
        figure = _drawn(
            title,
            "One mark a job, or several jobs of a stage where they coincide. On the line a job "
            "would use all that `mem_mb` allows it.",
            lambda width, name: plots.memory_scatter(
                points,
                width=width,
                name=name,
                label=f"Peak RSS against allowed memory by job. {title}.",
            ),
            "memory",
        )
        figures = (figure,)
    return Section("memory", "Memory", (), figures, (report_tables.largest(jobs),))


def _spill(libraries: Sequence[Library]) -> Section | None:
    jobs = summary.all_jobs(libraries)
    rows = [(library.name, summary.spill_by_bucket(library)) for library in libraries]
    # One bar alone says less than the sentence; so it stands only where something spilled.
    several = any(len(cells) > 1 for _, cells in rows)
    rows = [(title, cells) for title, cells in rows if any(map(any, cells))]
    if not jobs:
        return None
    spilled = sum(job.umi_spill_bytes for job in jobs)
    held = max(job.umi_memory_bytes for job in jobs)
    sentence = (
        f"{findings.spill_sentence(jobs)} The results are the same with and without spill."
        if spilled
        else f"No job spilled: all UMI tables fit in memory, the largest took {size(held)}."
    )
    figures = (_spill_figure(rows),) if rows and (several or spilled) else ()
    return Section("spill", "UMI spill", (sentence,), figures)


def _spill_figure(rows: Sequence[tuple[str, Sequence[tuple[int, int]]]]) -> Figure:
    cells = [cell for _, row in rows for cell in row]
    hit = sum(cell[1] > 0 for cell in cells)
    title = f"{count(hit)} of {plural(len(cells), 'bucket')} spilled"
    if not hit:
        title = f"UMI tables of a bucket took at most {size(max(held for held, _ in cells))}"
    if len(rows) <= BARS_MAX:
        shown = [("held in memory", plots.HELD_COLOR)]
        shown += [("spilled to disk", plots.SPILLED_COLOR)] if hit else []
        return _drawn(
            title,
            "Bytes of UMI tables by bucket, the same axis for every library.",
            lambda width, name: plots.bucket_bars(rows, width=width, name=name, label=f"{title}."),
            "spill",
            shown,
        )
    which = 1 if hit else 0
    values = [(name, [float(cell[which]) for cell in row]) for name, row in rows]
    top = max(value for _, row in values for value in row)
    edges = plots.level_edges(top)
    columns = [str(i + 1) for i in range(max(len(row) for _, row in rows))]
    what = "spilled to disk" if hit else "held in memory"
    return _drawn(
        title,
        f"Bytes of UMI tables {what}, by library and bucket; empty: none.",
        lambda width, name: plots.heat_map(
            values, columns, edges, width=width, name=name, label=f"{title}.", axis="bucket"
        ),
        "spill",
        [(f"up to {size(edge)}", f"var(--level-{k})") for k, edge in enumerate(edges)],
    )


def _sizes(libraries: Sequence[Library]) -> Section | None:
    samples = [
        (sample.name, summary.size_bins(library.sizes.get(sample.name, ())), sample.molecules)
        for library in libraries
        for sample in library.samples
    ]
    top = max((len(bins) for _, bins, _ in samples), default=0)
    if not top:
        return None
    titles = [summary.bin_title(k) for k in range(top)]
    finding = findings.size_sentence(libraries)
    figures = (
        [_size_panels(samples, titles, finding)]
        if len(samples) <= PANELS_MAX
        else [_size_map(samples, titles, which) for which in (0, 1)]
    )
    return Section("sizes", "Reads per molecule", (f"{finding}.",), tuple(figures))


def _size_panels(
    samples: Sequence[tuple[str, Sequence[tuple[int, int]], int]],
    titles: Sequence[str],
    finding: str,
) -> Figure:
    rows = [(f"{name} ({count(molecules)})", bins) for name, bins, molecules in samples]
    return _drawn(
        "How many reads does a molecule have?",
        "Share of a sample's molecules and reads by reads per molecule, in powers of two; in "
        "brackets the number of molecules. The same axes for every sample.",
        lambda width, name: plots.size_panels(
            rows, titles, width=width, name=name, label=f"Reads per molecule by sample. {finding}."
        ),
        "sizes",
        [("molecules", plots.MOLECULES_COLOR), ("reads", plots.READS_COLOR)],
    )


def _size_map(
    samples: Sequence[tuple[str, Sequence[tuple[int, int]], int]],
    titles: Sequence[str],
    which: int,
) -> Figure:
    """Heat map of molecules (0) or reads (1): samples by bins."""
    noun = ("molecules", "reads")[which]
    rows = []
    for name, bins, _ in samples:
        whole = sum(cell[which] for cell in bins) or 1
        rows.append((name, [cell[which] / whole for cell in bins]))
    title = ("How many reads does a molecule have?", "How large is the molecule of a read?")[which]
    edges = plots.SHARE_EDGES
    return _drawn(
        title,
        f"Share of each sample's {noun} by reads per molecule, in powers of two; empty: none.",
        lambda width, name: plots.heat_map(
            rows,
            titles,
            edges,
            width=width,
            name=name,
            label=f"Share of {noun} by sample and reads per molecule.",
            axis="reads per molecule",
        ),
        f"sizes-{noun}",
        [(f"up to {100 * edge:.0f}%", f"var(--level-{k})") for k, edge in enumerate(edges)],
    )


def _provenance(libraries: Sequence[Library]) -> Section | None:
    made = (
        report_tables.inputs(libraries),
        report_tables.layouts(libraries),
        report_tables.settings(libraries),
        report_tables.versions(libraries),
    )
    tables = tuple(table for table in made if table.rows)
    return Section("provenance", "Provenance", (), (), tables) if tables else None
