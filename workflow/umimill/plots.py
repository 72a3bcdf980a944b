"""Figures of the report as inline SVG strings: shares, sizes and maps, and the palette of all.

Each function draws one figure from plain numbers, at a width in CSS pixels, and returns one
`<svg>` element. What the numbers mean, and the words around a figure, are the report's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from umimill.svg import (
    LEVEL_COLORS,
    MUTED,
    PAGE,
    canvas,
    fill_cells,
    finish,
    inside,
    panels,
    row_axis,
    shorten,
    styled,
    words,
)

WIDE = 920
NARROW = 340
# Okabe and Ito's palette; grey stands for what is lost or idle.
BLUE, SKY, GREEN, YELLOW = "#0072b2", "#56b4e9", "#009e73", "#f0e442"
ORANGE, VERMILION, PURPLE, GREY, PALE = "#e69f00", "#d55e00", "#cc79a7", "#8a8f94", "#c3c7cb"
BROWN, DARK, PINK = "#8c6d46", "#4b4f54", "#e7b6d3"
FATE_COLORS = {
    "voted": BLUE,
    "assigned": BLUE,
    "set_aside": SKY,
    "below_filter": GREEN,
    "chimera_suspect": BROWN,
    "shifted": PINK,
    "dropped": PALE,
    "unmatched": GREY,
    "ambiguous": PALE,
    "too_short": ORANGE,
    "low_umi_quality": VERMILION,
    "empty_payload": PURPLE,
    "unresolved": YELLOW,
    "off_list": DARK,
}
OUTCOME_COLORS = {
    "molecule": BLUE,
    "corrected": SKY,
    "chimera_suspect": BROWN,
    "shifted": PINK,
    "unresolved": YELLOW,
    "dropped": GREY,
}
MOLECULES_COLOR, READS_COLOR = SKY, VERMILION
SHARE_EDGES = (0.02, 0.05, 0.1, 0.2, 0.4, 1.0)


def share_bars(
    rows: Sequence[tuple[str, Mapping[str, int]]],
    colors: Mapping[str, str],
    *,
    width: int = WIDE,
    name: str,
    label: str,
) -> str:
    """One full-width stacked bar a row: parts of the row's own sum.

    Args:
        rows: (title, {part: count}); a row whose counts are all 0 gets the words "no reads".
        colors: colour of each part; a part without one is grey.
        width: of the drawing, CSS pixels.
        name: prefix of the ids inside, unique on the page.
        label: what the figure shows, for those who cannot see it.

    Returns:
        An `<svg>` element.
    """
    with styled():
        figure, axes = canvas(width, 46 + _row_height(len(rows), 40, 16) * len(rows))
        for y, (_, parts) in enumerate(rows):
            whole = sum(parts.values())
            left = 0.0
            for part, value in parts.items():
                share = value / whole if whole else 0.0
                color = colors.get(part, GREY)
                axes.barh(y, share, 0.66, left, color=color, edgecolor=PAGE, linewidth=1)
                text = f"{words(part)} {100 * share:.1f}%"
                if share * width > 7.3 * len(text) and len(rows) <= 12:
                    inside(axes, left + share / 2, y, text, color)
                left += share
            if not whole:
                axes.text(0.008, y, "no reads", color=MUTED, va="center")
        row_axis(axes, [title for title, _ in rows], width)
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f}%")
        axes.spines["left"].set_visible(False)
        return finish(figure, name, label)


def size_panels(
    samples: Sequence[tuple[str, Sequence[tuple[int, int]]]],
    bins: Sequence[str],
    *,
    width: int = WIDE,
    name: str,
    label: str,
) -> str:
    """Molecules (filled) and reads (line) by reads per molecule; one panel a sample, same axes.

    Args:
        samples: (title, one (molecules, reads) for each bin).
        bins: titles of the bins.
        width: as in `share_bars`.
        name: as in `share_bars`.
        label: as in `share_bars`.

    Returns:
        An `<svg>` element.
    """
    shares = [(title, _shares(cells, len(bins))) for title, cells in samples]
    top = max((v for _, pair in shares for part in pair for v in part), default=0.0) or 1.0
    edges = [i - 0.5 for i in range(len(bins) + 1)]
    with styled():
        columns = min(3, len(samples)) if width > NARROW else min(2, len(samples))
        if width > NARROW and len(samples) == 1:
            width = 560
        figure, grid = panels(width, len(samples), columns=columns, panel_height=165)
        every = tick_step(bins, width / columns)
        for i, (axes, (title, (molecules, reads))) in enumerate(zip(grid, shares, strict=True)):
            if any(molecules):
                axes.stairs(molecules, edges, fill=True, color=MOLECULES_COLOR)
                axes.stairs(reads, edges, color=READS_COLOR, lw=2)
            else:
                axes.text(0.5, 0.5, "no reads", transform=axes.transAxes, ha="center", color=MUTED)
            axes.set_title(shorten(title, width // columns // 8))
            axes.set_xlim(edges[0], edges[-1])
            axes.set_ylim(0, 1.05 * top)
            axes.set_xticks(
                range(0, len(bins), every), [bins[k] for k in range(0, len(bins), every)]
            )
            axes.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.0f}%")
            axes.tick_params(axis="y", labelleft=i % columns == 0, labelsize=11)
            axes.grid(axis="y")
        figure.supxlabel("reads per molecule", color=MUTED, fontsize=12)
        return finish(figure, name, label)


def tick_step(titles: Sequence[str], width: float) -> int:
    """Return every how many bins of a panel of `width` pixels a title has room."""
    needed = max(58, 7 * max(map(len, titles)) + 8)
    return max(1, math.ceil(len(titles) * needed / width))


def heat_map(
    rows: Sequence[tuple[str, Sequence[float]]],
    columns: Sequence[str],
    edges: Sequence[float],
    *,
    width: int = WIDE,
    name: str,
    label: str,
    axis: str,
) -> str:
    """Cells shaded by the first of `edges` that is not below their value; 0 stays empty.

    Args:
        rows: (title, one value a column); shorter rows end empty.
        columns: titles of the columns.
        edges: ascending upper edges of the shades.
        width: as in `share_bars`.
        name: as in `share_bars`.
        label: as in `share_bars`.
        axis: title of the horizontal axis.

    Returns:
        An `<svg>` element.
    """
    with styled():
        height = _row_height(len(rows), 22, 13)
        figure, axes = canvas(width, 58 + height * len(rows))
        levels = [[_level(v, edges) for v in values] for _, values in rows]
        for k, color in enumerate(LEVEL_COLORS):
            fill_cells(
                axes, [(y, xs) for y, row in enumerate(levels) for xs in _runs(row, k)], color
            )
        row_axis(axes, [title for title, _ in rows], width)
        axes.set_xlim(-0.5, len(columns) - 0.5)
        every = max(1, math.ceil(len(columns) * (56 if len(columns) < 32 else 34) / width))
        axes.set_xticks(
            range(0, len(columns), every), [columns[k] for k in range(0, len(columns), every)]
        )
        axes.set_xlabel(axis)
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
        if len(rows) > 40:
            axes.tick_params(axis="y", labelsize=10)
            axes.tick_params(axis="x", top=True, labeltop=True)
        return finish(figure, name, label)


def level_edges(top: float) -> tuple[float, ...]:
    """Upper edges of the shades of a heat map of bytes: halves of the largest value."""
    return tuple(top / 2**k for k in range(len(LEVEL_COLORS) - 1, -1, -1))


def _row_height(rows: int, few: int, many: int) -> int:
    """Pixels a row, so that 96 rows stay a page or two."""
    return few if rows <= 12 else many


def _shares(cells: Sequence[tuple[int, int]], bins: int) -> tuple[list[float], list[float]]:
    """Molecules and reads of every bin as shares of their sums, filled up to `bins` with 0."""
    parts = []
    for column in zip(*cells, strict=True) if cells else ((), ()):
        whole = sum(column) or 1
        parts.append([value / whole for value in column] + [0.0] * (bins - len(column)))
    return parts[0], parts[1]


def _level(value: float, edges: Sequence[float]) -> int | None:
    """Index of the first edge that is not below the value, None for nothing."""
    if value <= 0:
        return None
    return next((k for k, edge in enumerate(edges) if value <= edge), len(edges) - 1)


def _runs(row: Sequence[int | None], level: int) -> Iterator[tuple[int, int]]:
    """Half-open runs (start, stop) of one level in a row: fewer shapes than cells."""
    start = 0
    for value, group in itertools.groupby(row):
        stop = start + len(list(group))
        if value == level:
            yield start, stop
        start = stop
