"""Sections of the report page: which tables and figures stand where, and what they say.

Everything here is plain data that the template walks through; text is not yet escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from umimill import (
    advice,
    cell_report,
    findings,
    job_sums,
    ledger_checks,
    report_barcodes,
    report_figures,
    report_refine,
    report_tables,
    summary,
)
from umimill.advice import Advice
from umimill.findings import Answer, count, names, plural, size
from umimill.report_figures import Figure
from umimill.report_tables import Table
from umimill.summary import Library

GLOSSARY = (
    ("library", "reads prepared and sequenced together; one or more units"),
    ("unit", "one lane or file set of a library"),
    ("part", "a slice of a unit, read by one job"),
    ("sample", "what a row of samples.tsv names by its barcode"),
    ("template", "what is counted: a read, or a pair once"),
    ("UMI", "the barcode that marks one molecule before amplification"),
    ("family", "the reads of one barcode whose payloads agree"),
    ("molecule", "one or more families that came from one molecule; one consensus"),
    ("bucket", "a run of barcodes in sorted order, worked on by one job"),
    ("unmatched", "no sample's layout was found in the template"),
    ("ambiguous", "two samples fit the template about equally well"),
    ("corrected", "its barcode was taken for an error of another, where it counts"),
    ("posterior", "the probability that a family is an error of its likeliest parent"),
    ("chimera suspect", "a family that rather is a chimera of a larger one on its barcode"),
    ("shifted", "reads of the larger family on their barcode that start some bases beside it"),
    ("unresolved", "an N in the barcode, or so many unsure bases that its molecule is not known"),
    ("off list", "its cell barcode is not on the list, and no listed cell is likely enough"),
    (
        "OrdMag",
        "a cell has at least a tenth of the molecules of the cell at a hundredth of the ranks",
    ),
    ("knee", "where the molecules of cell barcodes by rank begin to fall"),
    ("occupancy", "molecules over the barcodes there could be; near 1 molecules share barcodes"),
    (
        "barcode error",
        "the share of wrong barcode bases: by how many barcodes lie one base from a "
        "larger one, and by the qualities of the reads",
    ),
    ("clonality", "the share of random pairs of families with payloads that agree"),
    ("chimera rate", "the share of reads whose payload is of another molecule than the barcode"),
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


# One looks at the first reads, one lists files and counts the reads that are in them.
UNRATED = ("probe", "route")


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


def page(libraries: Sequence[Library], estimate: Mapping[str, Any] | None = None) -> Page:
    """Everything on the page, from the loaded tables of all libraries, and the run's estimate."""
    advised = advice.advise(libraries)
    makers: tuple[Callable[[Sequence[Library]], Section | None], ...] = (
        _samples,
        _barcodes,
        _correction,
        _cells,
        _ledger,
        partial(_throughput, estimate=estimate),
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
    jobs = job_sums.all_jobs(libraries)
    titles = [library.name for library in libraries]
    parts = [f"{'Library' if len(titles) == 1 else 'Libraries'} {names(titles)}"] if titles else []
    starts = [start for start in map(job_sums.started, jobs) if start is not None]
    if starts:
        parts.append(f"started {datetime.fromtimestamp(min(starts), UTC):%Y-%m-%d %H:%M} UTC")
    versions = sorted(
        {str(job.provenance["umimill"]) for job in jobs if "umimill" in job.provenance}
    )
    if versions:
        parts.append(f"umimill {names(versions)}")
    return " \N{MIDDLE DOT} ".join(parts)


def _samples(libraries: Sequence[Library]) -> Section | None:
    if not any(library.samples for library in libraries):
        return None
    table = report_tables.samples(libraries)
    hint = "Press a column's title to sort by it; press again to turn the order round."
    return Section("samples", "Samples", (hint,) if len(table.rows) > 1 else (), (), (table,))


def _barcodes(libraries: Sequence[Library]) -> Section | None:
    if not any(library.barcodes for library in libraries):
        return None
    sentences = [findings.corrected(libraries), findings.others(libraries)]
    if not any(library.corrects for library in libraries):
        sentences[0] = "Barcodes were left as they were read (`refine_method: unique`)."
    rows = [row for library in libraries for row in library.outcomes]
    mixed = any(row.outcome != "molecule" for row in rows)
    return Section(
        "barcodes",
        "Barcodes",
        tuple(sentence for sentence in sentences if sentence),
        (report_figures.outcomes(rows),) if mixed else (),
        (report_barcodes.barcodes(libraries), report_barcodes.estimates(libraries)),
    )


def _correction(libraries: Sequence[Library]) -> Section | None:
    sentence = report_refine.expected(libraries)
    if not sentence:
        return None
    figures = report_refine.figures(libraries)
    table = report_barcodes.corrections(libraries)
    return Section("correction", "Correction", (sentence,), figures, (table,))


def _cells(libraries: Sequence[Library]) -> Section | None:
    samples = [cells for library in libraries for cells in library.cells]
    if not samples:
        return None
    figures = (report_figures.cells(samples),) if any(one.curve for one in samples) else ()
    sentences = (cell_report.sentence(samples),)
    return Section("cells", "Cells", sentences, figures, (cell_report.table(samples),))


def _ledger(libraries: Sequence[Library]) -> Section | None:
    if not any(library.ledger for library in libraries):
        return None
    checks = [check for library in libraries for check in ledger_checks.checks(library)]
    closed = sum(check.closed for check in checks)
    sums = f"{count(closed)} of {plural(len(checks), 'sum')} close."
    if closed == len(checks):
        sums = f"All {plural(len(checks), 'sum')} close: every template is in exactly one line."
    tables = (report_tables.ledger(libraries), report_tables.checks(libraries))
    rows = [(library.name, summary.fates(library)) for library in libraries]
    figures = (
        (report_figures.ledger(rows),) if any(sum(parts.values()) for _, parts in rows) else ()
    )
    return Section("ledger", "Where every template went", (sums,), figures, tables)


def _throughput(libraries: Sequence[Library], estimate: Mapping[str, Any] | None) -> Section | None:
    sums = job_sums.stage_sums(job_sums.all_jobs(libraries))
    if not sums:
        return None
    rated = [s for s in sums if s.reads_per_second > 0 and s.stage not in UNRATED]
    timed = [s for s in sums if s.clocks]
    figures = [report_figures.rates(rated)] if rated else []
    figures += [report_figures.clocks(timed)] if timed else []
    tables = [report_tables.stages(sums), report_tables.shares(sums)]
    tables += [report_tables.estimated(libraries, estimate)] if estimate else []
    return Section("throughput", "Throughput", (), tuple(figures), tuple(tables))


def _memory(libraries: Sequence[Library]) -> Section | None:
    jobs = [job for job in job_sums.all_jobs(libraries) if job.peak_rss_bytes]
    planned = [job for job in jobs if job.allowed_bytes]
    if not jobs:
        return None
    figures = (report_figures.memory(planned),) if planned else ()
    return Section("memory", "Memory", (), figures, (report_tables.largest(jobs),))


def _spill(libraries: Sequence[Library]) -> Section | None:
    jobs = job_sums.all_jobs(libraries)
    rows = [(library.name, job_sums.spill_by_bucket(library)) for library in libraries]
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
    figures = (report_figures.spill(rows),) if rows and (several or spilled) else ()
    tables = (report_barcodes.spill(jobs), report_barcodes.spilled(libraries))
    shown = tuple(table for table in tables if table.rows)
    return Section("spill", "UMI spill", (sentence,), figures, shown)


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
        [report_figures.size_panels(samples, titles, finding)]
        if len(samples) <= report_figures.PANELS_MAX
        else [report_figures.size_map(samples, titles, which) for which in (0, 1)]
    )
    curve = report_refine.ranks(libraries)
    figures += [curve] if curve is not None else []
    return Section("sizes", "Reads per molecule", (f"{finding}.",), tuple(figures))


def _provenance(libraries: Sequence[Library]) -> Section | None:
    made = (
        report_tables.inputs(libraries),
        report_tables.layouts(libraries),
        report_tables.settings(libraries),
        report_tables.versions(libraries),
    )
    tables = tuple(table for table in made if table.rows)
    return Section("provenance", "Provenance", (), (), tables) if tables else None
