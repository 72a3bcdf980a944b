"""Writes a page and a figure of what scale.py measured.

    PYTHONPATH=workflow python tests/benchmark/scale_page.py TABLE docs

Costs are taken to grow as a line through the two largest sizes, and are drawn on to the size that
was too large to measure.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

FAR = 400_000_000
ALLOWED_MB = 300
STAGES = ("tally", "model", "link", "settle", "move", "route")
TITLES = {
    "bulk": "Barcodes of 16 bases, no cells",
    "cells": "Single cells: 16 bases of a cell, 12 of a UMI",
}

INTRO = """\
# How cost grows with the library

Refine finds out which barcodes are errors of others. Its jobs must not need more memory for a
larger library, and no more time and disk than in proportion. This page shows what they took.

Libraries are made up: random barcodes, two reads a molecule in the mean (lognormal, sigma 0.8: a
tenth of the molecules has none), and errors in 3 of 1,000 bases of UMI and payload (40 bases),
which add barcodes of their own. Buckets are as many as the workflow takes by itself: {buckets},
from the smallest library to the largest. Every job may take {allowed} MB, of which Python and
its libraries have {baseline} MB before work begins. Measured on a virtual machine with
{machine}, while others worked on it too: so seconds are CPU seconds of all jobs, less their
start of half a second each. Reading FASTQ and the consensus are not in them.

Rows in *italics* are not measured: they are on the line through the two sizes above.

![CPU seconds and disk rise in proportion to the distinct barcodes, memory stays as it
is.](scale.svg)
"""

NOTES = """\
- *Files* is what the stages write and keep. The table of `tally` takes 32 bytes for a barcode,
  its reads, payload and all, and a byte a base for qualities: {table_bytes} bytes here, 44 where
  barcodes have 12 bases. No other evidence is kept of a barcode.
- *Spilled* is what went to scratch because it did not fit, all of it in `settle`; *read back* is
  that, and what `tally` and `link` read again of the files. Both took {spill_share} of the time
  or less.
- *In memory* is the most that the UMI tables of one job took at a time.
- Two barcodes of 16 bases lie two bases apart by chance the more often the more there are: each
  asks some more of the others in `settle`, and more than the line says if 400 million had 16
  bases. In cells there are as many neighbours as before: larger libraries have more cells.
- The line does not know what begins above the sizes measured: with 300 MB `settle` looks among 20
  million families at a time, so that those who ask are read 20 times for 400 million. More memory
  makes that fewer.
"""


@dataclass(frozen=True)
class Size:
    """A library in one size, all stages.

    Attributes:
        cpu_seconds: of each stage, less the start of its jobs.
    """

    buckets: int
    reads: float
    barcodes: float
    corrected: float
    cpu_seconds: tuple[float, ...]
    file_mb: float
    spill_mb: float
    read_back_mb: float
    spill_seconds: float
    peak_rss_mb: float
    umi_memory_mb: float
    table_bytes: float

    @property
    def all_seconds(self) -> float:
        """CPU seconds of all stages."""
        return sum(self.cpu_seconds)

    @property
    def disk_mb(self) -> float:
        """Megabytes that were written."""
        return self.file_mb + self.spill_mb


Rows = list[dict[str, str]]


def read_table(path: Path) -> tuple[str, Rows]:
    """Reads scale.py's table: what its first line says, and its rows."""
    first, *lines = path.read_text().splitlines()
    return first.lstrip("# ").split(". ")[0], list(csv.DictReader(lines, delimiter="\t"))


def size_of(rows: Rows) -> Size:
    """Adds up the rows of a library in one size."""
    by_stage = {row["stage"]: row for row in rows}

    def values(name: str) -> list[float]:
        return [float(by_stage[stage][name]) for stage in STAGES]

    seconds = zip(values("cpu_seconds"), values("start_seconds"), strict=True)
    barcodes = float(rows[0]["barcodes"])
    return Size(
        int(by_stage["tally"]["jobs"]),
        float(rows[0]["reads"]),
        barcodes,
        float(by_stage["settle"]["corrected_barcodes"]),
        tuple(cpu - start for cpu, start in seconds),
        sum(values("disk_mb")),
        sum(values("umi_spill_mb")),
        sum(values("umi_read_back_mb")),
        sum(values("spill_seconds")),
        max(values("peak_rss_mb")),
        max(values("umi_memory_mb")),
        1e6 * float(by_stage["tally"]["disk_mb"]) / barcodes,
    )


def sizes_of(rows: Rows, library: str) -> list[Size]:
    """Returns a library's sizes, the smallest first."""
    own = [row for row in rows if row["library"] == library]
    sizes = [
        size_of([row for row in own if row["molecules"] == each])
        for each in {row["molecules"] for row in own}
    ]
    return sorted(sizes, key=lambda size: size.reads)


def drawn_on(sizes: Sequence[Size], value: Callable[[Size], float], barcodes: float) -> float:
    """Returns a value at so many barcodes, on the line through the two largest sizes."""
    one, two = sizes[-2:]
    slope = (value(two) - value(one)) / (two.barcodes - one.barcodes)
    return value(two) + slope * (barcodes - two.barcodes)


def growth(sizes: Sequence[Size], value: Callable[[Size], float]) -> list[float]:
    """Returns by how much a value grows a barcode, between each two sizes."""
    return [
        (value(two) - value(one)) / (two.barcodes - one.barcodes) for one, two in pairwise(sizes)
    ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table in Markdown."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def number(value: float) -> str:
    """Writes a number with about three digits."""
    if value >= 1e6:
        return f"{value / 1e6:,.3g} M" if value < 1e9 else f"{value / 1e6:,.0f} M"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2g}"


def library_tables(sizes: Sequence[Size]) -> str:
    """Returns the tables of a library, and a sentence on each."""
    time_rows, disk_rows = [], []
    for size in sizes:
        each = size.all_seconds / size.barcodes * 1e6
        named = [number(size.barcodes), number(size.reads), number(size.corrected)]
        seconds = [*size.cpu_seconds, size.all_seconds]
        time_rows.append([*named, *(f"{value:.1f}" for value in seconds), f"{each:.1f}"])
        written = 1e6 * size.disk_mb / size.barcodes
        resident = 1e6 * size.umi_memory_mb / size.barcodes
        megabytes = (size.file_mb, size.spill_mb, size.read_back_mb)
        disk_rows.append([number(size.barcodes), *map(number, megabytes), f"{written:.0f}"])
        disk_rows[-1] += [f"{size.peak_rss_mb:.0f}", f"{size.umi_memory_mb:.1f}", number(resident)]

    def far(value: Callable[[Size], float]) -> float:
        return drawn_on(sizes, value, FAR)

    def stage_seconds(place: int) -> Callable[[Size], float]:
        return lambda size: size.cpu_seconds[place]

    seconds = [far(stage_seconds(place)) for place in range(len(STAGES))]
    total = far(lambda size: size.all_seconds)
    cells = [FAR, far(lambda size: size.reads), far(lambda size: size.corrected), *seconds, total]
    time_rows.append([*(f"*{number(value)}*" for value in cells), f"*{total / FAR * 1e6:.1f}*"])
    files = [far(lambda size: size.file_mb), far(lambda size: size.spill_mb)]
    files.append(far(lambda size: size.read_back_mb))
    written = 1e6 * (files[0] + files[1]) / FAR
    disk_rows.append([f"*{number(value)}*" for value in (FAR, *files)] + [f"*{written:.0f}*"])
    # Memory of the largest is a bound, not a line.
    memory = sizes[-1].umi_memory_mb
    disk_rows[-1] += [f"*{sizes[-1].peak_rss_mb:.0f}*", f"*{memory:.1f}*"]
    disk_rows[-1] += [f"*{number(1e6 * memory / FAR)}*"]
    grown = [1e6 * value for value in growth(sizes, lambda size: size.all_seconds)]
    disk = [1e6 * value for value in growth(sizes, lambda size: size.disk_mb)]
    head = ["distinct barcodes", "reads", "corrected", *STAGES, "all", "µs a barcode"]
    other = ["distinct barcodes", "files MB", "spilled MB", "read back MB", "written B a barcode"]
    other += ["peak RSS MB", "in memory MB", "in memory B a barcode"]
    return (
        "CPU seconds:\n\n"
        + table(head, time_rows)
        + f"\nA barcode more costs {' µs, then '.join(f'{value:.1f}' for value in grown)} µs, "
        "from size to size.\n\nDisk and memory:\n\n"
        + table(other, disk_rows)
        + f"\nA barcode more is {' bytes, then '.join(f'{value:.0f}' for value in disk)} bytes "
        f"written. The largest job of the largest library takes "
        f"{sizes[-1].peak_rss_mb - sizes[0].peak_rss_mb:+.0f} MB more than that of the smallest.\n"
    )


def hot_section(rows: Rows) -> str:
    """Returns the section on one molecule that has all reads."""
    own = [row for row in rows if row["library"] == "hot"]
    reads = sorted({int(row["reads"]) for row in own})
    lines = []
    for stage in STAGES:
        cells = [stage]
        for each in reads:
            (row,) = [one for one in own if one["stage"] == stage and int(one["reads"]) == each]
            seconds = float(row["cpu_seconds"]) - float(row["start_seconds"])
            cells += [f"{seconds:.1f}", f"{float(row['peak_rss_mb']):.0f}"]
        lines.append(cells)
    head = ["stage"]
    for each in reads:
        head += [f"{number(each)} reads: CPU s", "peak RSS MB"]
    most = max(float(row["peak_rss_mb"]) for row in own)
    barcodes = {int(row["reads"]): int(row["barcodes"]) for row in own}
    found = ", ".join(f"{barcodes[each]:,} families of {number(each)} reads" for each in reads)
    return (
        "## One molecule with all reads\n\n"
        "A key with more rows than fit is read in three passes. Errors are as above, and make "
        f"{found}. No job takes more than {most:.0f} of its {ALLOWED_MB} MB.\n\n"
        + table(head, lines)
    )


def page_text(machine: str, rows: Rows) -> str:
    """Returns the page."""
    baseline = max(float(row["baseline_rss_mb"]) for row in rows)
    libraries = {name: sizes_of(rows, name) for name in TITLES}
    spilled = [
        size.spill_seconds / size.all_seconds for sizes in libraries.values() for size in sizes
    ]
    largest = [sizes[-1] for sizes in libraries.values()]
    table_bytes = " and ".join(f"{size.table_bytes:.0f}" for size in largest)
    text = INTRO.format(
        buckets=", ".join(str(size.buckets) for size in libraries["bulk"]),
        allowed=ALLOWED_MB,
        baseline=f"{baseline:.0f}",
        machine=machine,
    )
    for name, sizes in libraries.items():
        text += f"\n## {TITLES[name]}\n\n{library_tables(sizes)}"
    notes = NOTES.format(table_bytes=table_bytes, spill_share=f"{max(spilled):.0%}")
    return filled(text + "\n## What the columns are\n\n" + notes + "\n" + hot_section(rows))


def filled(text: str) -> str:
    """Fills the lines of paragraphs and lists; tables, titles and figures stay."""
    parts = []
    for part in text.split("\n\n"):
        if not part.startswith(("|", "#", "!")):
            items = [
                textwrap.fill(
                    " ".join(item.split()),
                    100,
                    subsequent_indent="  " if item.startswith("- ") else "",
                )
                for item in re.split(r"\n(?=- )", part.strip())
            ]
            part = "\n".join(items)
        parts.append(part)
    return "\n\n".join(parts)


def write_figure(rows: Rows, path: Path) -> None:
    """Draws CPU time, disk and memory of the libraries."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "umimill", "font.size": 9})
    from matplotlib import pyplot

    panels: list[tuple[str, Callable[[Size], float]]] = [
        ("CPU seconds", lambda size: size.all_seconds),
        ("GB written", lambda size: size.disk_mb / 1e3),
        ("peak RSS of a job, MB", lambda size: size.peak_rss_mb),
    ]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(9, 3), layout="constrained")
    for (title, value), axis in zip(panels, axes, strict=True):
        for name, color in zip(TITLES, ("#0b62a4", "#c2571a"), strict=True):
            draw_library(axis, sizes_of(rows, name), value, name, color)
        axis.set(title=title, xscale="log", xlabel="distinct barcodes")
        if value is panels[-1][1]:
            axis.axhline(ALLOWED_MB, color="0.4", linewidth=0.8)
            axis.set_ylim(0, 1.15 * ALLOWED_MB)
            axis.text(1e6, ALLOWED_MB + 8, "allowed", color="0.4")
        else:
            axis.set_yscale("log")
    axes[0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None, "Creator": None})


def draw_library(
    axis: Any, sizes: Sequence[Size], value: Callable[[Size], float], name: str, color: str
) -> None:
    """Draws the measured sizes of a library, and a broken line to the one that is far."""
    largest = sizes[-1]
    held = value(largest)
    # What hardly grows from size to size is a bound.
    grows = held > 2 * value(sizes[0])
    steps = [largest.barcodes * math.exp(part * math.log(FAR / largest.barcodes) / 20)
             for part in range(21)]  # fmt: skip
    far = [drawn_on(sizes, value, step) if grows else held for step in steps]
    axis.plot([size.barcodes for size in sizes], list(map(value, sizes)), "o-", color=color,
              markersize=4, label=name)  # fmt: skip
    axis.plot(steps, far, ":", color=color)


def main() -> None:
    """Writes the page and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("table", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    machine, rows = read_table(arguments.table)
    arguments.folder.mkdir(exist_ok=True)
    (arguments.folder / "scale.md").write_text(page_text(machine, rows))
    write_figure(rows, arguments.folder / "scale.svg")


if __name__ == "__main__":
    main()
