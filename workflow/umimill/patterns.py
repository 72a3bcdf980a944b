"""Layouts compiled to the arrays and integer score tables of the matcher."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt

from umimill.kernels import match as kernels
from umimill.kernels.match import Patterns
from umimill.layout import IUPAC, Layout, SampleLayout


def log2_scaled(value: Decimal) -> int:
    """Return round(1024 log2(value)); decimal arithmetic, so that every machine gets the same."""
    with localcontext() as context:
        context.prec = 40
        scaled = Decimal(1024) * value.ln() / Decimal(2).ln()
        return int(scaled.to_integral_value())


def error_probability(quality: int) -> Decimal:
    """Return 10^(-quality / 10) to 40 digits, at most 0.75: a random base is right once in four."""
    with localcontext() as context:
        context.prec = 40
        probability = (Decimal(10).ln() * Decimal(-quality) / 10).exp()
        return min(probability, Decimal("0.75"))


def _score_table() -> npt.NDArray[np.int32]:
    scores = np.zeros((kernels.MISMATCH + 2, 94), np.int32)
    for quality in range(94):
        error = error_probability(quality)
        for options in range(1, 5):
            likelihood = (1 - error) / options + (options - 1) * error / (3 * options)
            scores[options, quality] = log2_scaled(4 * likelihood)
        full = log2_scaled(4 * error / 3)
        scores[kernels.MISMATCH, quality] = full
        scores[kernels.MISMATCH + 1, quality] = round(full / 2)
    return scores


def _scored_positions(layout: Layout | None) -> dict[int, tuple[int, int, int]]:
    """Return {position: (allowed bases, their number, 1 for half weight)} of scored positions."""
    rows = {}
    for position, symbol in enumerate(layout.symbols if layout else ""):
        if symbol in "NX" or symbol.upper() not in IUPAC:
            continue
        allowed = IUPAC[symbol.upper()]
        rows[position] = (allowed, allowed.bit_count(), int(symbol.islower()))
    return rows


def compile_patterns(rows: Sequence[SampleLayout], samples: int) -> Patterns:
    """Compile the layout rows of a library for the matcher.

    Args:
        rows: rows in sheet order.
        samples: number of samples.
    """
    scored = [[_scored_positions(row.sides[side]) for side in range(2)] for row in rows]
    positions: list[tuple[int, int, int, int]] = []
    shared: list[set[int]] = []
    common_stops = []
    for side in range(2):
        entries = [set(row[side].items()) for row in scored]
        common = sorted(entries[0].intersection(*entries[1:]))
        positions.extend((place, *value) for place, value in common)
        shared.append({place for place, _ in common})
        common_stops.append(len(positions))
    window, window_start = _window(positions[: common_stops[0]])
    table = np.zeros((len(rows), kernels.ROW_COLUMNS), np.int64)
    capture: list[tuple[int, int]] = []
    for row, found, entry in zip(rows, scored, table, strict=True):
        entry[kernels.SAMPLE] = row.sample
        entry[kernels.CELL_LENGTH] = row.cell_length
        entry[kernels.UMI_LENGTH] = row.umi_length
        entry[kernels.SHARE] = log2_scaled(Decimal(sum(one.sample == row.sample for one in rows)))
        entry[kernels.CAPTURE_START] = len(capture)
        for symbol in "XN":
            capture.extend(
                (side, place)
                for side, layout in enumerate(row.sides)
                for place, at in enumerate(layout.symbols if layout else "")
                if at == symbol
            )
        for side, layout in enumerate(row.sides):
            entry[kernels.OWN_START + side] = len(positions)
            positions.extend(
                (place, *value)
                for place, value in sorted(found[side].items())
                if place not in shared[side]
            )
            entry[kernels.OWN_STOP + side] = len(positions)
            entry[kernels.REACH + side] = max(found[side], default=-1) + 1
            entry[kernels.PERFECT + side] = sum(
                2048 - log2_scaled(Decimal(options)) for _, options, _ in found[side].values()
            )
            _fill_side(entry, side, layout)
    return Patterns(
        rows=table,
        positions=np.array(positions, np.int64).reshape(-1, 4),
        common_1=common_stops[0],
        common_2=common_stops[1],
        capture=np.array(capture, np.int64).reshape(-1, 2),
        scores=_score_table(),
        log2=np.array([0, *(log2_scaled(Decimal(one)) for one in range(1, 2048))], np.int64),
        weights=_weight_table(),
        window=window,
        window_start=window_start,
        samples=samples,
        posterior=int(table[:, kernels.ANCHORED : kernels.ANCHORED + 2].all()),
        two_sided=int(table[:, kernels.LENGTH + 1].any()),
        error_bits=log2_scaled(Decimal(100)),
    )


def _fill_side(entry: npt.NDArray[np.int64], side: int, layout: Layout | None) -> None:
    entry[kernels.ANCHORED + side] = int(layout is None or layout.anchored)
    entry[kernels.PAYLOAD_STOP + side] = -1
    if layout:
        entry[kernels.LENGTH + side] = len(layout.symbols)
        entry[kernels.PAYLOAD_START + side] = layout.payload_start
        if layout.payload_stop is not None:
            entry[kernels.PAYLOAD_STOP + side] = layout.payload_stop


def _weight_table() -> npt.NDArray[np.uint64]:
    with localcontext() as context:
        context.prec = 40
        half = Decimal(2).ln() / 1024
        return np.array(
            [
                int((Decimal(2) ** 40 * (-half * step).exp()).to_integral_value())
                for step in range(1024)
            ],
            np.uint64,
        )


def _window(common: Sequence[tuple[int, int, int, int]]) -> tuple[npt.NDArray[np.uint64], int]:
    """Choose the 32 positions in a row of side 0 that hold the most exact common ones."""
    exact = {position: allowed for position, allowed, number, _ in common if number == 1}
    if not exact:
        return np.zeros(2, np.uint64), -1
    start = max(
        sorted(exact),
        key=lambda first: sum(first <= position < first + 32 for position in exact),
    )
    bases = mask = 0
    for position, allowed in exact.items():
        if start <= position < start + 32:
            shift = 62 - 2 * (position - start)
            bases |= (allowed.bit_length() - 1) << shift
            mask |= 1 << shift
    return np.array([bases, mask], np.uint64), start
