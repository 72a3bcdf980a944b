"""Figures of what a run took, as inline SVG strings; see plots for the arguments they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from umimill.plots import (
    BLUE,
    BROWN,
    GREEN,
    GREY,
    NARROW,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    VERMILION,
    WIDE,
    YELLOW,
)
from umimill.svg import (
    GRID,
    INK,
    MUTED,
    PAGE,
    canvas,
    finish,
    inside,
    log_ticks,
    panels,
    row_axis,
    short,
    shorten,
    styled,
)

CLOCK_COLORS = {
    "decode": SKY,
    "match": BLUE,
    "sort": GREEN,
    "model": ORANGE,
    "compress": VERMILION,
    "write": PURPLE,
    "start": GREY,
    "compile": YELLOW,
    "other": PALE,
}
HELD_COLOR, SPILLED_COLOR = BLUE, VERMILION
STAGE_MARKS = {
    "probe": (PURPLE, "v"),
    "checkout": (BLUE, "o"),
    "plan": (GREY, "x"),
    "tally": (GREEN, "s"),
    "model": (GREY, "*"),
    "link": (YELLOW, "p"),
    "settle": (BROWN, "<"),
    "move": (SKY, ">"),
    "route": (GREY, "1"),
    "assemble": (VERMILION, "^"),
    "index": (GREY, "+"),
    "gather": (ORANGE, "D"),
}


@dataclass(frozen=True)
class RateBar:
    """Reads per second of a stage: its mean, and its slowest and fastest job."""

    stage: str
    slowest: float
    mean: float
    fastest: float


@dataclass(frozen=True)
class MemoryPoint:
    """Peak RSS of one job and the memory it was allowed, in bytes."""

    stage: str
    allowed_bytes: int
    peak_rss_bytes: int


def second_bars(
    rows: Sequence[tuple[str, Mapping[str, float]]], *, width: int = WIDE, name: str, label: str
) -> str:
    """One stacked bar a stage: seconds of every clock; arguments as in `plots.share_bars`."""
    with styled():
        figure, axes = canvas(width, 62 + 32 * len(rows))
        longest = max((sum(clocks.values()) for _, clocks in rows), default=1.0)
        for y, (_, clocks) in enumerate(rows):
            left = 0.0
            for clock, seconds in clocks.items():
                color = CLOCK_COLORS.get(clock, GREY)
                axes.barh(y, seconds, 0.66, left, color=color, edgecolor=PAGE, linewidth=0.6)
                if seconds / longest * width > 9 * len(clock):
                    inside(axes, left + seconds / 2, y, clock, color)
                left += seconds
        row_axis(axes, [stage for stage, _ in rows], width)
        axes.set_xlim(0, longest * 1.02)
        axes.set_xlabel("seconds, summed over jobs")
        axes.grid(axis="x")
        return finish(figure, name, label)


def rate_dots(bars: Sequence[RateBar], *, width: int = WIDE, name: str, label: str) -> str:
    """One dot a stage on a log axis, and a line from its slowest to its fastest job."""
    with styled():
        figure, axes = canvas(width, 62 + 30 * len(bars))
        for y, bar in enumerate(bars):
            axes.plot([bar.slowest, bar.fastest], [y, y], color=SKY, lw=4, solid_capstyle="round")
            axes.plot(bar.mean, y, "o", color=BLUE, ms=8, mec=PAGE)
            text = f"{short(bar.mean)}/s"
            point = (bar.fastest, y)
            axes.annotate(text, point, (10, 0), textcoords="offset points", va="center_baseline")
        row_axis(axes, [bar.stage for bar in bars], width)
        axes.set_xscale("log")
        low, high = min(bar.slowest for bar in bars), max(bar.fastest for bar in bars)
        # Room at the right for the last label, 60 px on any width.
        spread = max(high / low, 10.0)
        axes.set_xlim(low / spread**0.05, low * spread ** (1 + 75 / width))
        log_ticks(axes)
        axes.set_xlabel("reads per second of a job, log scale")
        axes.grid(axis="x")
        return finish(figure, name, label)


def memory_scatter(
    points: Sequence[MemoryPoint], *, width: int = WIDE, name: str, label: str
) -> str:
    """Peak RSS against allowed memory with the line where both are equal; above it is too much.

    Points that fall on one 1% cell of the axes are drawn once, so that ten thousand jobs stay
    a small figure.
    """
    from matplotlib.ticker import MaxNLocator

    with styled():
        wide = width > NARROW
        figure, axes = canvas(min(width, 500), 380 if wide else 390)
        top = 1.12 * max(max(p.allowed_bytes, p.peak_rss_bytes) for p in points) / 1e6
        axes.fill_between([0, top], [0, top], [top, top], color=GRID, alpha=0.45, lw=0)
        axes.plot([0, top], [0, top], color=MUTED, lw=1.2)
        axes.text(0.04 * top, 0.95 * top, "above the line: more than planned", va="top", color=INK)
        for stage in dict.fromkeys(point.stage for point in points):
            color, mark = STAGE_MARKS.get(stage, (SKY, "P"))
            step = top / 100
            cells = sorted(
                {
                    (round(p.allowed_bytes / 1e6 / step), round(p.peak_rss_bytes / 1e6 / step))
                    for p in points
                    if p.stage == stage
                }
            )
            x, y = [c[0] * step for c in cells], [c[1] * step for c in cells]
            dots = axes.scatter(x, y, 52, color, marker=mark, label=stage, clip_on=False, zorder=3)
            if mark not in "x+":
                dots.set(edgecolors=PAGE, linewidths=0.8)
        axes.set_xlim(0, top)
        axes.set_ylim(0, top)
        axes.set_box_aspect(1)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel("allowed memory (mem_mb), MB")
        axes.set_title("peak RSS, MB", color=MUTED)
        axes.grid()
        if wide:
            figure.legend(loc="outside right upper", labelcolor=INK, handletextpad=0.3)
        else:
            figure.legend(loc="outside lower center", ncols=3, labelcolor=INK, handletextpad=0.3)
        return finish(figure, name, label)


def bucket_bars(
    libraries: Sequence[tuple[str, Sequence[tuple[int, int]]]],
    *,
    width: int = WIDE,
    name: str,
    label: str,
) -> str:
    """Bytes of UMI tables by bucket, held and spilled stacked; one panel a library, same axes.

    Args:
        libraries: (title, one (held, spilled) in bytes for each bucket).
        width: as in `plots.share_bars`.
        name: as in `plots.share_bars`.
        label: as in `plots.share_bars`.

    Returns:
        An `<svg>` element.
    """
    top = max((held + spilled for _, cells in libraries for held, spilled in cells), default=1)
    scale, unit = _byte_scale(top)
    from matplotlib.ticker import MaxNLocator

    with styled():
        figure, grid = panels(width, len(libraries), columns=2, panel_height=190)
        for axes, (title, cells) in zip(grid, libraries, strict=True):
            held = [cell[0] / scale for cell in cells]
            spilled = [cell[1] / scale for cell in cells]
            gap = 1.0 if len(cells) <= 64 else 0.0
            x = range(1, len(cells) + 1)
            axes.bar(x, held, 1.0, color=HELD_COLOR, edgecolor=PAGE, linewidth=gap)
            if any(spilled):
                axes.bar(x, spilled, 1.0, held, color=SPILLED_COLOR, edgecolor=PAGE, linewidth=gap)
            axes.set_title(f"{shorten(title, 40)}, {unit}")
            axes.set_xlim(0.5, max(len(row) for _, row in libraries) + 0.5)
            axes.set_ylim(0, 1.05 * max(top, 1) / scale)
            axes.grid(axis="y")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            axes.set_xlabel("bucket")
        return finish(figure, name, label)


def _byte_scale(top: float) -> tuple[float, str]:
    """Divisor and unit for an axis that ends at `top` bytes."""
    return next(((s, u) for s, u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if top >= s), (1, "B"))
