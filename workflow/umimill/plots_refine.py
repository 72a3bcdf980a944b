"""Figures of what correction did, as inline SVG strings; see plots for the arguments they share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from umimill.barcode_sums import RankPoint
from umimill.plots import BLUE, GREY, ORANGE, SKY, VERMILION, WIDE, tick_step
from umimill.svg import MUTED, PAGE, canvas, finish, short, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

CORRECTED_COLOR, APART_COLOR = SKY, BLUE
BEFORE_COLOR, AFTER_COLOR = SKY, BLUE
MERGED_COLOR, MODEL_COLOR = BLUE, ORANGE
CHOSEN_COLOR, OTHERS_COLOR = VERMILION, GREY
# Of more lines than this a point in so many is drawn.
FULL_LINES, THIN_STEP = 12, 4
# A count of 0 on a log axis lies below the least that can be, 1.
LEAST_COUNT = 0.8


def _count_axis(axes: Axes, top: float) -> None:
    """Make the y axis one of counts on a log scale, from below 1 on."""
    axes.set_yscale("log")
    axes.set_ylim(LEAST_COUNT, max(top, 10) * 1.6)
    _powers_of_ten(axes.yaxis)
    axes.grid(axis="y")


def _powers_of_ten(axis: Axis) -> None:
    """Put the ticks of a log axis at powers of ten, written short."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_major_locator(LogLocator(numticks=7))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: short(value))


def posterior_bars(
    bins: Sequence[tuple[str, int, int]], *, width: int = WIDE, name: str, label: str
) -> str:
    """One bar a bin of the posterior: families that were corrected, and those left apart.

    Args:
        bins: (title, families corrected, families left apart).
        width: as in `plots.share_bars`.
        name: as in `plots.share_bars`.
        label: as in `plots.share_bars`.

    Returns:
        An `<svg>` element.
    """
    with styled():
        figure, axes = canvas(width, 230)
        x = range(len(bins))
        # Side by side only where a bin has both: on a log axis bars cannot be stacked.
        mixed = any(corrected and apart for _, corrected, apart in bins)
        shift, bar = (0.2, 0.4) if mixed else (0.0, 0.8)
        for side, column, color in ((-shift, 1, CORRECTED_COLOR), (shift, 2, APART_COLOR)):
            heights = [row[column] for row in bins]
            axes.bar([i + side for i in x], heights, bar, color=color, edgecolor=PAGE)
        _count_axis(axes, max(max(row[1:]) for row in bins))
        titles = [row[0] for row in bins]
        every = math.ceil(len(bins) * 44 / (width - 50))
        axes.set_xticks(list(x)[::every], titles[::every])
        axes.set_xlim(-0.6, len(bins) - 0.4)
        axes.set_xlabel("probability of being an error of another barcode, from")
        axes.set_title("families", color=MUTED)
        return finish(figure, name, label)


def size_steps(
    bins: Sequence[tuple[str, int, int]], *, width: int = WIDE, name: str, label: str
) -> str:
    """Families before (filled) and molecules after correction (line) by their reads.

    Args:
        bins: (title, families, molecules).
        width: as in `plots.share_bars`.
        name: as in `plots.share_bars`.
        label: as in `plots.share_bars`.

    Returns:
        An `<svg>` element.
    """
    edges = [i - 0.5 for i in range(len(bins) + 1)]
    with styled():
        width = min(width, 560)
        figure, axes = canvas(width, 230)
        before = [families or LEAST_COUNT / 2 for _, families, _ in bins]
        after = [molecules or LEAST_COUNT / 2 for *_, molecules in bins]
        axes.stairs(before, edges, fill=True, color=BEFORE_COLOR, baseline=LEAST_COUNT / 2)
        axes.stairs(after, edges, color=AFTER_COLOR, lw=2, baseline=None)
        _count_axis(axes, max(*before, *after))
        titles = [row[0] for row in bins]
        every = tick_step(titles, width - 40)
        axes.set_xticks(range(0, len(bins), every), titles[::every])
        axes.set_xlim(edges[0], edges[-1])
        axes.set_xlabel("reads")
        axes.set_title("families and molecules", color=MUTED)
        return finish(figure, name, label)


def error_dots(
    bins: Sequence[tuple[str, float, float]], *, width: int = WIDE, name: str, label: str
) -> str:
    """The error of a barcode base by the depth it is seen at, and the one reckoned with.

    Args:
        bins: (title, error by what was corrected, error of the model).
        width: as in `plots.share_bars`.
        name: as in `plots.share_bars`.
        label: as in `plots.share_bars`.

    Returns:
        An `<svg>` element.
    """
    with styled():
        width = min(width, 560)
        figure, axes = canvas(width, 230)
        x = range(len(bins))
        top = max(max(row[1:]) for row in bins) * 1.15
        exponent = next((e for e in range(2, 9) if top * 10**e >= 1), 9)
        scale = 10**exponent
        axes.plot(x, [row[2] * scale for row in bins], color=MODEL_COLOR, lw=2)
        dots = [row[1] * scale for row in bins]
        axes.plot(x, dots, "o", color=MERGED_COLOR, ms=8, mec=PAGE, clip_on=False)
        titles = [row[0] for row in bins]
        every = tick_step(titles, width - 40)
        axes.set_xticks(list(x)[::every], titles[::every])
        axes.set_xlim(-0.5, len(bins) - 0.5)
        axes.set_ylim(0, top * scale)
        axes.grid(axis="y")
        axes.set_xlabel("reads of the molecule")
        unit = "100" if exponent == 2 else f"{10**exponent:,}"
        axes.set_title(f"errors in {unit} bases", color=MUTED)
        return finish(figure, name, label)


def rank_lines(
    chosen: Sequence[RankPoint],
    others: Sequence[Sequence[RankPoint]],
    *,
    width: int = WIDE,
    name: str,
    label: str,
) -> str:
    """Reads of molecules by rank, a line a sample, one of them on top of the others.

    Args:
        chosen: points of the sample on top, by rank.
        others: those of each other sample.
        width: as in `plots.share_bars`.
        name: as in `plots.share_bars`.
        label: as in `plots.share_bars`.

    Returns:
        An `<svg>` element.
    """
    with styled():
        width = min(width, 560)
        figure, axes = canvas(width, 230)
        step = 1 if len(others) < FULL_LINES else THIN_STEP
        for curve in others:
            _rank_line(axes, [*curve[:-1:step], curve[-1]], OTHERS_COLOR, 1.2)
        _rank_line(axes, chosen, CHOSEN_COLOR, 2.4)
        curves = [chosen, *others]
        axes.set_xscale("log")
        axes.set_xlim(0.9, max(curve[-1].rank for curve in curves) * 1.3 + 1)
        _count_axis(axes, max(curve[0].reads for curve in curves))
        _powers_of_ten(axes.xaxis)
        axes.set_xlabel("rank of the molecule")
        axes.set_title("reads", color=MUTED)
        return finish(figure, name, label)


def _rank_line(axes: Axes, curve: Sequence[RankPoint], color: str, thickness: float) -> None:
    """Draw a line; a single molecule is a dot."""
    ranks, reads = [point.rank for point in curve], [point.reads for point in curve]
    mark = "o" if len(curve) == 1 else ""
    axes.plot(ranks, reads, marker=mark, color=color, lw=thickness, ms=6, clip_on=False)
