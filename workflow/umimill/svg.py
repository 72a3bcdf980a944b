"""SVG that a page can hold: matplotlib's drawing, made plain.

Text stays text, the same drawing gives the same bytes, and the colours of text, lines and heat maps
become CSS variables (`currentColor`, `--muted`, `--line`, `--page`, `--level-0` ..), so that one
drawing serves a light, a dark and a printed page.
"""

from __future__ import annotations

import contextlib
import html
import io
import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that no palette holds: each is replaced by a CSS variable in the finished text.
INK, MUTED, GRID, PAGE = "#010203", "#010204", "#010205", "#010206"
LEVEL_COLORS = tuple(f"#01030{k}" for k in range(6))
_VARIABLES = {
    INK: "currentColor",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    PAGE: "var(--page)",
} | {color: f"var(--level-{k})" for k, color in enumerate(LEVEL_COLORS)}
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "umimill",
    "path.simplify": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 12,
    # A dollar sign in an id is a dollar sign.
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 12,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.unicode_minus": False,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "figure.constrained_layout.h_pad": 0.08,
}


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Settings of all figures, whatever the user's own matplotlibrc says."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)  # type: ignore[arg-type]
        yield


def canvas(width: int, height: float) -> tuple[Figure, Axes]:
    """Figure of one panel; sizes in CSS pixels. Needs no display and no pyplot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), dpi=72, layout="constrained")
    return figure, figure.add_subplot()


def words(name: str) -> str:
    """Name of a line or clock as words: `low_umi_quality` is "low UMI quality"."""
    return name.replace("_", " ").replace("umi", "UMI")


def short(number: float) -> str:
    """Number for an axis: "870", "12k", "1.3M"."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= 0.9995 * scale:
            value = number / scale
            return f"{value:.2g}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
    return f"{number:.3g}"


def panels(
    width: int, number: int, *, columns: int, panel_height: int
) -> tuple[Figure, Iterator[Axes]]:
    """Figure with `number` panels in reading order; the rest of the grid stays empty."""
    columns = max(1, min(columns, number))
    rows = math.ceil(number / columns)
    figure, first = canvas(width, 24 + panel_height * rows)
    first.remove()
    grid = [figure.add_subplot(rows, columns, i + 1) for i in range(number)]
    return figure, iter(grid)


def row_axis(axes: Axes, titles: Sequence[str], width: int) -> None:
    """Rows from the top down, named at the left in at most a third of the width."""
    limit = max(8, int(width * 0.3 / 7))
    axes.set_yticks(range(len(titles)), [shorten(title, limit) for title in titles])
    axes.set_ylim(len(titles) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, labelcolor=INK, labelsize=12)
    axes.spines["left"].set_visible(False)


def inside(axes: Axes, x: float, y: float, text: str, color: str) -> None:
    """Text on a coloured bar, black or white by the bar's brightness."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    bright = 0.299 * red + 0.587 * green + 0.114 * blue
    ink = "#000000" if bright > 135 else "#ffffff"
    axes.text(x, y, text, color=ink, ha="center", va="center_baseline", fontsize=11.5)


def log_ticks(axes: Axes) -> None:
    """Ticks of a log axis at 1, 2 and 5 of every power of ten, written short."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda x, _: short(x))


def fill_cells(axes: Axes, cells: Sequence[tuple[int, tuple[int, int]]], color: str) -> None:
    """One path for all runs of one level, with a gap between rows."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    corners = [
        (x, y)
        for row, (start, stop) in cells
        for x, y in (
            (start - 0.5, row - 0.46),
            (stop - 0.5, row - 0.46),
            (stop - 0.5, row + 0.46),
            (start - 0.5, row + 0.46),
            (start - 0.5, row - 0.46),
        )
    ]
    if corners:
        codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(cells)
        axes.add_patch(PathPatch(Path(corners, codes), facecolor=color, edgecolor="none"))


def shorten(title: str, limit: int) -> str:
    """Title of at most `limit` characters, cut in the middle: ids differ at their ends."""
    if len(title) <= limit:
        return title
    tail = (limit - 1) // 2
    return f"{title[: limit - 1 - tail]}\N{HORIZONTAL ELLIPSIS}{title[len(title) - tail :]}"


def finish(figure: Figure, name: str, label: str) -> str:
    """The figure as one `<svg>` element for an HTML page.

    Args:
        figure: the drawing.
        name: prefix of all ids inside, unique on the page.
        label: what the figure shows, for those who cannot see it.

    Returns:
        Markup without prolog, metadata, namespaces and comments; the label is escaped.
    """
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", dpi=72, transparent=True, metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    text = re.sub(r"<metadata>.*?</metadata>\n?", "", text, flags=re.DOTALL)
    text = _plain_ids(text, name)
    # Any font of the page may show the text; matplotlib only measured with its own.
    text = text.replace("'DejaVu Sans'", "var(--font)")
    text = re.sub("|".join(_VARIABLES), lambda found: _VARIABLES[found[0]], text)
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    assert box is not None
    width, height = float(box[1]), float(box[2])
    opening = (
        f'<svg role="img" aria-label="{html.escape(label)}" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}">'
    )
    return opening + text[text.index(">") + 1 :].rstrip()


def _plain_ids(text: str, name: str) -> str:
    """Drop ids nothing refers to and make the others unique on the page."""
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', text))

    def rename(found: re.Match[str]) -> str:
        return f' id="{name}-{found[1]}"' if found[1] in used else ""

    text = re.sub(r' id="([^"]+)"', rename, text)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", text)
