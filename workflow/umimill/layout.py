"""Layouts: where the barcode is in a read. One grammar; patterns.py compiles it for the matcher.

Spellings: MIGEC pattern (`^NNNNacgtNNNN`, `N{14}`), slices (`0:4,5:10`, `cell:0:16,16:26`), read
structure (`8M1S+T`). All become a `Layout`: a symbol a position, and where the payload is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from umimill.errors import UmimillError

IUPAC = {
    "A": 1,
    "C": 2,
    "G": 4,
    "T": 8,
    "U": 8,
    "R": 5,
    "Y": 10,
    "S": 6,
    "W": 9,
    "K": 12,
    "M": 3,
    "B": 14,
    "D": 13,
    "H": 11,
    "V": 7,
}
MAXIMUM_BARCODE = 32
MAXIMUM_LAYOUT = 1000

_SLICES = re.compile(r"(?:(?:cell|umi):)?\d+:\d+(?:,(?:(?:cell|umi):)?\d+:\d+)*")
_STRUCTURE = re.compile(r"(?:(?:\d+|\+)[A-Z])+")


class LayoutError(UmimillError):
    """A layout that cannot be read; the text marks the place in brackets."""


@dataclass(frozen=True)
class Layout:
    """One side of a sample's layout.

    Attributes:
        symbols: a character a position: IUPAC letter (upper case scored in full, lower case half on
            a mismatch), N = UMI, X = cell, `.` = skip, `*` = payload.
        anchored: whether it is at offset 0 only.
        payload_start: first payload base, relative to where the layout begins.
        payload_stop: end of the payload, or None = to the end of the read.
    """

    symbols: str
    anchored: bool
    payload_start: int
    payload_stop: int | None

    @property
    def umi_length(self) -> int:
        """UMI bases."""
        return self.symbols.count("N")

    @property
    def cell_length(self) -> int:
        """Cell barcode bases."""
        return self.symbols.count("X")

    @property
    def scored(self) -> int:
        """Scored positions."""
        return sum(symbol.upper() in IUPAC and symbol not in "NX" for symbol in self.symbols)


def _fault(text: str, start: int, stop: int, message: str) -> LayoutError:
    marked = f"{text[:start]}[{text[start:stop]}]{text[stop:]}"
    return LayoutError(f"layout {marked}: {message}")


def parse_layout(text: str) -> Layout:
    """Read a layout in any spelling.

    Raises:
        LayoutError: with the faulty place in brackets.
    """
    spelled = text.strip()
    if not spelled:
        raise LayoutError("layout is empty; write a pattern such as ^NNNNNNNNacgt")
    if _SLICES.fullmatch(spelled):
        layout = _parse_slices(spelled)
    elif _STRUCTURE.fullmatch(spelled) and re.match(r"\d|\+", spelled):
        layout = _parse_structure(spelled)
    else:
        layout = _parse_pattern(spelled)
    if len(layout.symbols) > MAXIMUM_LAYOUT:
        raise LayoutError(f"layout {spelled}: longer than {MAXIMUM_LAYOUT} bases")
    for name, length in (("UMI", layout.umi_length), ("cell", layout.cell_length)):
        if length > MAXIMUM_BARCODE:
            raise LayoutError(
                f"layout {spelled}: {length} {name} bases; at most {MAXIMUM_BARCODE} are possible"
            )
    return layout


def _parse_pattern(text: str) -> Layout:
    anchored = text.startswith("^")
    symbols: list[str] = []
    position = int(anchored)
    while position < len(text):
        symbol = text[position]
        if symbol == "{":
            close = text.find("}", position)
            stop = close + 1 if close >= 0 else len(text)
            count = text[position + 1 : max(close, position + 1)]
            if not symbols or not count.isdecimal() or not 1 <= int(count) <= MAXIMUM_LAYOUT:
                raise _fault(text, position, stop, "repeats are written N{14}")
            symbols.extend(symbols[-1] * (int(count) - 1))
            position = stop
            continue
        if symbol in "NnXx":
            symbol = symbol.upper()
        elif symbol != "." and symbol.upper() not in IUPAC:
            raise _fault(
                text,
                position,
                position + 1,
                "not a symbol; use IUPAC letters, N (UMI), X (cell), . (skip), ^ in front, {} to "
                "repeat",
            )
        symbols.append(symbol)
        position += 1
    if not symbols:
        raise LayoutError(f"layout {text}: no position in it")
    layout = Layout("".join(symbols), anchored, len(symbols), None)
    if not anchored and layout.scored == 0:
        raise LayoutError(
            f"layout {text}: nothing to search for along the read; put ^ in front to take it at "
            "the first base"
        )
    return layout


def _parse_slices(text: str) -> Layout:
    symbols: list[str] = []
    position = 0
    for part in text.split(","):
        *kind, start_text, stop_text = part.split(":")
        start, stop = int(start_text), int(stop_text)
        if start >= stop:
            raise _fault(text, position, position + len(part), "empty; slices are start:stop")
        if start < len(symbols):
            raise _fault(text, position, position + len(part), "overlaps the slice before it")
        if stop > MAXIMUM_LAYOUT:
            raise _fault(text, position, position + len(part), f"beyond base {MAXIMUM_LAYOUT}")
        symbols.extend("." * (start - len(symbols)))
        symbols.extend(("X" if kind == ["cell"] else "N") * (stop - start))
        position += len(part) + 1
    return Layout("".join(symbols), True, len(symbols), None)


def _parse_structure(text: str) -> Layout:
    symbols: list[str] = []
    payload: tuple[int, int | None] | None = None
    segments = list(re.finditer(r"(\d+|\+)([A-Z])", text))
    for segment in segments:
        length = _segment_length(text, segment, last=segment is segments[-1])
        kind = segment.group(2)
        if kind == "T":
            if payload is not None:
                raise _fault(text, *segment.span(), "one T segment a read")
            stop = None if length is None else len(symbols) + length
            payload = (len(symbols), stop)
        symbols.extend({"M": "N", "C": "X", "S": ".", "T": "*"}[kind] * (length or 0))
    # A read without T gives no payload: an empty span at its end.
    start, stop = payload if payload is not None else (len(symbols), len(symbols))
    if stop is not None and stop == len(symbols):
        while symbols and symbols[-1] == "*":
            symbols.pop()
    return Layout("".join(symbols), True, start, stop)


def _segment_length(text: str, segment: re.Match[str], *, last: bool) -> int | None:
    """Return the bases of a read structure's segment, None for +."""
    count, kind = segment.groups()
    if kind == "B":
        raise _fault(
            text,
            *segment.span(),
            "a sample barcode needs its bases; write them, such as ^ACGTACNNNNNNNN",
        )
    if kind not in "MCST":
        raise _fault(text, *segment.span(), "segments are M (UMI), C (cell), S (skip), T")
    if count == "+":
        if not last or kind not in "TS":
            raise _fault(text, *segment.span(), "+ is for the last segment, +T or +S")
        return None
    if not 1 <= int(count) <= MAXIMUM_LAYOUT:
        raise _fault(text, *segment.span(), f"lengths are 1 to {MAXIMUM_LAYOUT}")
    return int(count)


@dataclass(frozen=True)
class SampleLayout:
    """Layout of one row of the sample sheet.

    Attributes:
        sample: number of the sample in the library, from 0.
        sides: layout of read 1, and of read 2 or None.
    """

    sample: int
    sides: tuple[Layout, Layout | None]

    @property
    def cell_length(self) -> int:
        """Cell bases of both sides."""
        return sum(side.cell_length for side in self.sides if side)

    @property
    def umi_length(self) -> int:
        """UMI bases of both sides."""
        return sum(side.umi_length for side in self.sides if side)


def check_row(layout: str, layout_read2: str | None) -> SampleLayout:
    """Read the layouts of one row and check them together.

    Raises:
        LayoutError: where they cannot be read, have no UMI, or more than 32 barcode bases.
    """
    sides = (parse_layout(layout), parse_layout(layout_read2) if layout_read2 else None)
    row = SampleLayout(0, sides)
    spelled = f"{layout} and {layout_read2}" if layout_read2 else layout
    if row.umi_length == 0:
        raise LayoutError(f"layout {spelled}: no UMI base (N, or M of a read structure) in it")
    barcode = row.umi_length + row.cell_length
    if barcode > MAXIMUM_BARCODE:
        raise LayoutError(
            f"layout {spelled}: cell and UMI have {barcode} bases; at most {MAXIMUM_BARCODE} are "
            "possible"
        )
    return row


def leaf_width(row_lengths: Sequence[int]) -> int:
    """Return w, the leading bases that name a leaf: min(4, floor(L / 2)) of the shortest barcode.

    Positions before w and positions from w on must each be found in one leaf (of the copy rotated
    by w, or of the table itself), which takes L >= 2 w.
    """
    return min(4, min(row_lengths) // 2)


def sample_layouts(
    rows: Sequence[Sequence[str | None]],
) -> tuple[tuple[str, ...], tuple[SampleLayout, ...]]:
    """Read the layout rows of a library.

    Args:
        rows: (sample, layout of read 1, layout of read 2 or nothing), in sheet order.

    Returns:
        (samples in byte order, the rows' layouts with their sample's number).

    Raises:
        LayoutError: where a layout cannot be read.
    """
    samples = tuple(sorted({str(row[0]) for row in rows}))
    layouts = []
    for sample, layout, layout_read2 in rows:
        sides = check_row(str(layout), layout_read2).sides
        layouts.append(SampleLayout(samples.index(str(sample)), sides))
    return samples, tuple(layouts)


def leaf_widths(layouts: Sequence[SampleLayout], samples: int) -> tuple[int, ...]:
    """Return the leaf width of each sample, from its shortest barcode."""
    return tuple(
        leaf_width([row.cell_length + row.umi_length for row in layouts if row.sample == sample])
        for sample in range(samples)
    )


def tiled_samples(layouts: Sequence[Sequence[str | None]], placement: str) -> list[str]:
    """Return the samples whose molecules have reads that start anywhere.

    Args:
        layouts: rows (sample, layout, layout of read 2 or nothing).
        placement: "tile" or "fixed" for all samples; "auto" takes single cells for tiled: their
            cDNA is broken up behind the barcode.
    """
    samples, _ = sample_layouts(layouts)
    return {"tile": list(samples), "fixed": [], "auto": cell_samples(layouts)}[placement]


def cell_samples(layouts: Sequence[Sequence[str | None]]) -> list[str]:
    """Return the samples that have cell barcodes.

    Args:
        layouts: rows (sample, layout, layout of read 2 or nothing).
    """
    samples, rows = sample_layouts(layouts)
    return [samples[number] for number in sorted({row.sample for row in rows if row.cell_length})]
