"""Cells in the report: what the tables of a sample's cells say, their figure and table."""

from __future__ import annotations

from collections.abc import Sequence

from umimill.cell_sums import SampleCells
from umimill.findings import count, percent, plural
from umimill.report_tables import NOTHING, Cell, Table
from umimill.svg import GRID, INK, MUTED, finish, log_ticks, panels, shorten, styled

PANELS_MAX = 12
CURVE_COLOR, CALLED_COLOR = "#8a8f94", "#0072b2"
METHODS = {"ordmag": "OrdMag", "knee": "knee"}


def sentence(samples: Sequence[SampleCells]) -> str:
    """Say how many cells there are, in all samples."""
    barcodes = sum(one.calls["all"].cells for one in samples)
    called = [sum(one.calls[method].cells for one in samples) for method in METHODS]
    words = f"{plural(called[0], 'cell')} by OrdMag and {count(called[1])} by the knee"
    return f"Of {plural(barcodes, 'cell barcode')}, {words}. Neither leaves anything out."


def table(samples: Sequence[SampleCells]) -> Table:
    """What each rule calls a cell: how many, from how many molecules on, their share of all."""
    columns = ["Sample", "Cell barcodes", "Molecules"]
    for title in METHODS.values():
        columns += [f"{title}: cells", "from", "their share"]
    rows = []
    for one in samples:
        whole = one.calls["all"]
        row = [Cell(one.sample), *(Cell(count(n), n) for n in (whole.cells, whole.molecules))]
        for method in METHODS:
            call = one.calls[method]
            if call.least is None:
                row += [Cell("none", 0), Cell(NOTHING), Cell(NOTHING)]
            else:
                row += [Cell(count(call.cells), call.cells), Cell(count(call.least), call.least)]
                row.append(Cell(percent(call.molecules, whole.molecules), call.share))
        rows.append(tuple(row))
    numeric = (False, *(True for _ in columns[1:]))
    return Table("cells-table", "Cells", tuple(columns), numeric, tuple(rows), True)


def shown_samples(samples: Sequence[SampleCells]) -> list[SampleCells]:
    """Return the samples that have a panel: those of most molecules, in their order."""
    full = [one for one in samples if one.curve]
    most = sorted(full, key=lambda one: -one.calls["all"].molecules)[:PANELS_MAX]
    return [one for one in full if one in most]


def rank_panels(samples: Sequence[SampleCells], *, width: int, name: str, label: str) -> str:
    """Molecules of cell barcodes by rank, both in logarithms; one panel a sample, same axes.

    Args:
        samples: those to draw.
        width: CSS pixels.
        name: prefix of the ids in the drawing.
        label: what a screen reader says.

    Returns:
        An `<svg>` element.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    from umimill.svg import short

    with styled():
        columns = min(3 if width > 340 else 1, len(samples))
        if columns == 1:
            width = min(width, 560)
        figure, grid = panels(width, len(samples), columns=columns, panel_height=230)
        last = max(one.curve[-1][0] for one in samples)
        top = max(one.curve[0][1] for one in samples)
        for number, (axes, one) in enumerate(zip(grid, samples, strict=True)):
            ranks, molecules = zip(*one.curve, strict=True)
            axes.plot(ranks, molecules, color=CURVE_COLOR, lw=2)
            call = one.calls["ordmag"]
            if call.least is not None:
                inside = [point for point in one.curve if point[1] >= call.least]
                axes.plot(*zip(*inside, strict=True), color=CALLED_COLOR, lw=3.5)
            knee = one.calls["knee"]
            if knee.least is not None:
                axes.plot([knee.cells], [knee.least], "o", color=INK, ms=7, clip_on=False)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlim(0.9, 1.3 * last)
            axes.set_ylim(0.8, 1.5 * top)
            log_ticks(axes)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_locator(LogLocator(numticks=8))
                axis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(lambda y, _: short(y))
            axes.tick_params(axis="y", labelleft=number % columns == 0)
            axes.set_title(shorten(one.sample, width // columns // 8))
            axes.grid(color=GRID)
        figure.supxlabel("rank of the cell barcode", color=MUTED, fontsize=12)
        figure.supylabel("molecules", color=MUTED, fontsize=12)
        return finish(figure, name, label)
