"""Figures of the report page: what is drawn, its title as a finding, its caption and legend.

Knows what the numbers say; how marks are drawn is in `plots`, `plots_run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from umimill import barcode_sums, cell_report, job_sums, plots, plots_run, report_tables, summary
from umimill.barcode_sums import Outcome
from umimill.cell_sums import SampleCells
from umimill.findings import count, percent, plural, size
from umimill.job_sums import StageSum
from umimill.summary import Job
from umimill.svg import short, words

PANELS_MAX = 12
BARS_MAX = 4

CLOCK_WORDS = {
    "start": "starting up",
    "compile": "compiling",
    "decode": "decoding",
    "match": "matching",
    "sort": "sorting",
    "model": "computing",
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


def drawn(
    title: str,
    caption: str,
    draw: Callable[[int, str], str],
    name: str,
    legend: Sequence[tuple[str, str]] = (),
) -> Figure:
    """Draw a figure in both widths; `name` is the prefix of its ids."""
    wide, narrow = draw(plots.WIDE, f"{name}-w"), draw(plots.NARROW, f"{name}-n")
    return Figure(title, wide, narrow, caption, tuple(legend))


def _legend(parts: Sequence[str], colors: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(words(part), colors.get(part, plots.GREY)) for part in parts]


def ledger(rows: Sequence[tuple[str, Mapping[str, int]]]) -> Figure:
    """Where the templates of each library ended; rows are (library, templates by fate)."""
    whole = sum(sum(parts.values()) for _, parts in rows)
    voted = sum(parts.get("voted", 0) for _, parts in rows)
    title = f"{percent(voted, whole)} of the templates had a vote in a consensus"
    seen = {part for _, parts in rows for part, n in parts.items() if n}
    order = (*plots.FATE_COLORS, *sorted(seen - set(plots.FATE_COLORS)))
    shown = [part for part in order if part in seen]
    return drawn(
        title,
        "Each bar is all templates of one library, by where they ended.",
        lambda width, name: plots.share_bars(
            rows, plots.FATE_COLORS, width=width, name=name, label=f"{title}."
        ),
        "ledger",
        _legend(shown, plots.FATE_COLORS),
    )


def outcomes(rows: Sequence[Outcome]) -> Figure:
    """What families of so many reads were taken for, all samples together."""
    bins = barcode_sums.outcome_bins(rows)
    single = next((counts for k, _, counts in bins if k == 0), {})
    whole = sum(single.values())
    wrong = percent(single.get("corrected", 0), whole)
    title = f"{wrong} of the families of one read were taken for errors of another barcode"
    seen = {outcome for _, _, counts in bins for outcome, n in counts.items() if n}
    shown = [outcome for outcome in barcode_sums.OUTCOMES if outcome in seen]
    bars = [
        (f"{_size_title(k, more=more)} ({count(sum(counts.values()))})", counts)
        for k, more, counts in bins
    ]
    return drawn(
        title,
        "Each bar is all families of so many reads, by what they were taken for; in brackets "
        "how many there are.",
        lambda width, name: plots.share_bars(
            bars, plots.OUTCOME_COLORS, width=width, name=name, label=f"{title}."
        ),
        "outcomes",
        _legend(shown, plots.OUTCOME_COLORS),
    )


def cells(samples: Sequence[SampleCells]) -> Figure:
    """Molecules of cell barcodes by rank, a panel a sample."""
    shown = cell_report.shown_samples(samples)
    title = "How many molecules has a cell barcode?"
    caption = "Molecules of a sample's cell barcodes, the largest first, both axes in logarithms. "
    if len(shown) < sum(bool(one.curve) for one in samples):
        caption += f"The {count(len(shown))} samples of most molecules; the table has all. "
    return drawn(
        title,
        caption + "The same axes for every sample.",
        lambda width, name: cell_report.rank_panels(
            shown, width=width, name=name, label="Molecules of cell barcodes by rank."
        ),
        "cells",
        [
            ("called by OrdMag", cell_report.CALLED_COLOR),
            ("not called", cell_report.CURVE_COLOR),
            ("knee", "currentColor"),
        ],
    )


def _size_title(k: int, *, more: bool) -> str:
    return f"{2**k:,}+" if more else summary.bin_title(k)


def rates(rated: Sequence[StageSum]) -> Figure:
    """Reads per second of the stages that had reads."""
    slow = min(rated, key=lambda s: s.reads_per_second)
    title = f"{slow.stage} is the slowest stage: {short(slow.reads_per_second)} reads/s"
    bars = [plots_run.RateBar(s.stage, s.slowest, s.reads_per_second, s.fastest) for s in rated]
    caption = (
        "Dot: reads of the stage over the time of its jobs that had reads. "
        "Line: from the slowest to the fastest of them."
    )
    return drawn(
        title[0].upper() + title[1:],
        caption,
        lambda width, name: plots_run.rate_dots(
            bars, width=width, name=name, label=f"Reads per second by stage. {title}."
        ),
        "rates",
    )


def clocks(sums: Sequence[StageSum]) -> Figure:
    """Busy seconds of the stages by clock."""
    busy = {s.stage: sum(s.clocks.values()) for s in sums}
    top = max(sums, key=lambda s: busy[s.stage])
    clock = max(top.clocks, key=lambda name: top.clocks[name])
    share = percent(busy[top.stage], sum(busy.values()))
    part = "most" if top.clocks[clock] * 2 >= busy[top.stage] else "the largest part"
    doing = CLOCK_WORDS.get(clock, clock)
    title = f"{top.stage} took {share} of the busy time, {part} of it {doing}"
    rows = [(s.stage, s.clocks) for s in sums]
    shown = report_tables.clocks(sums)
    return drawn(
        title[0].upper() + title[1:],
        "Busy seconds by clock, added up over the threads and jobs of a stage. Other: time of "
        "the jobs that no clock covers.",
        lambda width, name: plots_run.second_bars(
            rows, width=width, name=name, label=f"Busy seconds by stage and clock. {title}."
        ),
        "clocks",
        _legend(shown, plots_run.CLOCK_COLORS),
    )


def memory(planned: Sequence[Job]) -> Figure:
    """Peak RSS of jobs against what they were allowed."""
    ratios = [job.peak_rss_bytes / job.allowed_bytes for job in planned]
    over = sum(ratio > 1 for ratio in ratios)
    title = f"Every job stayed within its memory; the closest used {percent(max(ratios), 1)}"
    if over:
        title = f"{count(over)} of {plural(len(planned), 'job')} used more memory than planned"
    points = [
        plots_run.MemoryPoint(job.stage, job.allowed_bytes, job.peak_rss_bytes)
        for job in sorted(planned, key=lambda job: job_sums.stage_order(job.stage))
    ]
    return drawn(
        title,
        "One mark a job, or several jobs of a stage where they coincide. On the line a job "
        "would use all that `mem_mb` allows it.",
        lambda width, name: plots_run.memory_scatter(
            points,
            width=width,
            name=name,
            label=f"Peak RSS against allowed memory by job. {title}.",
        ),
        "memory",
    )


def spill(rows: Sequence[tuple[str, Sequence[tuple[int, int]]]]) -> Figure:
    """Bytes of UMI tables by bucket; rows are (library, [(held, spilled)])."""
    cells = [cell for _, row in rows for cell in row]
    hit = sum(cell[1] > 0 for cell in cells)
    title = f"{count(hit)} of {plural(len(cells), 'bucket')} spilled"
    if not hit:
        title = f"UMI tables of a bucket took at most {size(max(held for held, _ in cells))}"
    if len(rows) <= BARS_MAX:
        shown = [("held in memory", plots_run.HELD_COLOR)]
        shown += [("spilled to disk", plots_run.SPILLED_COLOR)] if hit else []
        return drawn(
            title,
            "Bytes of UMI tables by bucket, the same axis for every library.",
            lambda width, name: plots_run.bucket_bars(
                rows, width=width, name=name, label=f"{title}."
            ),
            "spill",
            shown,
        )
    which = 1 if hit else 0
    values = [(name, [float(cell[which]) for cell in row]) for name, row in rows]
    top = max(value for _, row in values for value in row)
    edges = plots.level_edges(top)
    columns = [str(i + 1) for i in range(max(len(row) for _, row in rows))]
    what = "spilled to disk" if hit else "held in memory"
    return drawn(
        title,
        f"Bytes of UMI tables {what}, by library and bucket; empty: none.",
        lambda width, name: plots.heat_map(
            values, columns, edges, width=width, name=name, label=f"{title}.", axis="bucket"
        ),
        "spill",
        [(f"up to {size(edge)}", f"var(--level-{k})") for k, edge in enumerate(edges)],
    )


def size_panels(
    samples: Sequence[tuple[str, Sequence[tuple[int, int]], int]],
    titles: Sequence[str],
    finding: str,
) -> Figure:
    """Molecules and reads by reads per molecule, a panel a sample: (name, bins, molecules)."""
    rows = [(f"{name} ({count(molecules)})", bins) for name, bins, molecules in samples]
    return drawn(
        "How many reads does a molecule have?",
        "Share of a sample's molecules and reads by reads per molecule, in powers of two; in "
        "brackets the number of molecules. The same axes for every sample.",
        lambda width, name: plots.size_panels(
            rows, titles, width=width, name=name, label=f"Reads per molecule by sample. {finding}."
        ),
        "sizes",
        [("molecules", plots.MOLECULES_COLOR), ("reads", plots.READS_COLOR)],
    )


def size_map(
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
    return drawn(
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
