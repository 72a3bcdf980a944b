"""Layouts compiled to the arrays and integer score tables of the matcher."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import cache

import numpy as np
import numpy.typing as npt

from umimill.kernels import match as kernels
from umimill.kernels.match import Patterns
from umimill.kernels.tags import HASH
from umimill.layout import IUPAC, Layout, SampleLayout

# Binary places of the fixed point in which logarithms are looked up.
_PLACES = 128
# Exact positions that make a window of common ones worth having; else each row has its own.
_LEAST_WINDOW = 8
# So many of the 8 positions behind a UMI make an anchor: a shift by a base is told from errors.
_LEAST_ANCHOR = 4


@cache
def _half_steps() -> tuple[int, ...]:
    """Return 2^(i / 2048) in fixed point for i in 0..2047, from eleven square roots."""
    roots = [2 << _PLACES]
    for _ in range(11):
        roots.append(math.isqrt(roots[-1] << _PLACES))
    powers = [1 << _PLACES]
    for root in reversed(roots[1:]):
        powers += [power * root >> _PLACES for power in powers]
    return tuple(powers)


@cache
def _edges() -> tuple[int, ...]:
    """Return where 1024 log2 of a mantissa rounds up: 2^((i + 1/2) / 1024)."""
    return _half_steps()[1::2]


def log2_scaled(value: Decimal | int) -> int:
    """Return round(1024 log2(value)) for a value above 0.

    Whole numbers alone: every machine gets the same, and it takes a microsecond (40-digit decimal
    logarithms took 70).
    """
    above, below = value.as_integer_ratio()
    exponent = above.bit_length() - below.bit_length()
    above <<= max(0, -exponent)
    below <<= max(0, exponent)
    if above < below:
        above <<= 1
        exponent -= 1
    return 1024 * exponent + bisect_right(_edges(), (above << _PLACES) // below)


def error_probability(quality: int) -> Decimal:
    """Return 10^(-quality / 10) to 40 digits, at most 0.75: a random base is right once in four."""
    with localcontext() as context:
        context.prec = 40
        probability = (Decimal(10).ln() * Decimal(-quality) / 10).exp()
        return min(probability, Decimal("0.75"))


def _score_table() -> npt.NDArray[np.int32]:
    scores = np.zeros((kernels.MISMATCH + 2, 94), np.int32)
    with localcontext() as context:
        context.prec = 40
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


_Position = tuple[int, int, int, int]
_Positions = Sequence[dict[int, tuple[int, int, int]]]


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
    two_sided = any(row.sides[1] for row in rows)
    windows, window_starts, window_rows = _windows(
        scored, [positions[: common_stops[0]], positions[common_stops[0] :]], two_sided=two_sided
    )
    rows_of = Counter(row.sample for row in rows)
    perfect = {options: 2048 - log2_scaled(options) for options in range(1, 5)}
    table = np.zeros((len(rows), kernels.ROW_COLUMNS), np.int64)
    anchors = np.zeros((len(rows), 2, 2), np.uint64)
    capture: list[tuple[int, int]] = []
    for number, (row, found, entry) in enumerate(zip(rows, scored, table, strict=True)):
        entry[kernels.SAMPLE] = row.sample
        entry[kernels.CELL_LENGTH] = row.cell_length
        entry[kernels.UMI_LENGTH] = row.umi_length
        entry[kernels.SHARE] = log2_scaled(rows_of[row.sample])
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
                perfect[options] for _, options, _ in found[side].values()
            )
            _fill_side(entry, side, layout)
        first = int(entry[kernels.CAPTURE_START])
        anchors[number] = _fill_run(entry, found, capture[first + row.cell_length :])
        entry[kernels.RUN_CAPTURE] += first + row.cell_length
    own = [
        positions[entry[kernels.OWN_START] : entry[kernels.OWN_STOP]] for entry in table.tolist()
    ]
    tags, tag_mask, tag_start = _tags(table, own)
    tag_slots = _tag_slots(tags)
    scores = _score_table()
    places, place_scores = _place_scores(positions, scores)
    return Patterns(
        rows=table,
        positions=np.array(positions, np.int64).reshape(-1, 4),
        common_1=common_stops[0],
        common_2=common_stops[1],
        capture=np.array(capture, np.int64).reshape(-1, 2),
        anchors=anchors,
        scores=scores,
        log2=np.array([0, *map(log2_scaled, range(1, 2048))], np.int64),
        weights=_weight_table(),
        windows=windows,
        window_starts=window_starts,
        window_rows=window_rows,
        places=places,
        place_scores=place_scores,
        tags=tags,
        tag_mask=tag_mask,
        tag_start=tag_start,
        tag_slots=tag_slots,
        tag_shift=64 - (tag_slots.size - 1).bit_length(),
        tag_nearest=_nearest(tags, tag_mask),
        shortest_1=int(table[:, kernels.LENGTH].min()),
        perfect_1=int(table[:, kernels.PERFECT].max()),
        most_share=int(table[:, kernels.SHARE].max()),
        samples=samples,
        posterior=int(table[:, kernels.ANCHORED : kernels.ANCHORED + 2].all()),
        two_sided=int(two_sided),
        error_bits=log2_scaled(100),
    )


def _fill_side(entry: npt.NDArray[np.int64], side: int, layout: Layout | None) -> None:
    entry[kernels.ANCHORED + side] = int(layout is None or layout.anchored)
    entry[kernels.PAYLOAD_STOP + side] = -1
    if layout:
        entry[kernels.LENGTH + side] = len(layout.symbols)
        entry[kernels.PAYLOAD_START + side] = layout.payload_start
        if layout.payload_stop is not None:
            entry[kernels.PAYLOAD_STOP + side] = layout.payload_stop


def _fill_run(
    entry: npt.NDArray[np.int64], scored: _Positions, umi: Sequence[tuple[int, int]]
) -> npt.NDArray[np.uint64]:
    """Find the run of UMI bases with an anchor behind it; return its row of `anchors`.

    Args:
        entry: row of the table; its RUN columns are filled.
        scored: scored positions of both sides.
        umi: side and place of each UMI base.
    """
    entry[kernels.RUN_SIDE] = -1
    places = set(umi)
    for number in reversed(range(len(umi))):
        side, last = umi[number]
        if (side, last + 1) in places:
            continue
        behind = [(place, scored[side].get(last + 1 + place)) for place in range(8)]
        if sum(one is not None and one[1] == 1 for _, one in behind) < _LEAST_ANCHOR:
            continue
        start = last
        while (side, start - 1) in places:
            start -= 1
        entry[kernels.RUN_SIDE : kernels.RUN_CAPTURE + 1] = side, start, last + 1, number + 1
        first = max(0, start - 8)
        before = [(place, scored[side].get(first + place)) for place in range(start - first)]
        return np.array([_letter_word(behind), _letter_word(before)], np.uint64)
    return np.zeros((2, 2), np.uint64)


def _letter_word(positions: Sequence[tuple[int, tuple[int, int, int] | None]]) -> tuple[int, int]:
    """Return the letters of exact positions as the bytes of a word, the first lowest; the mask."""
    letters = mask = 0
    for place, one in positions:
        if one is not None and one[1] == 1:
            letters |= ord("ACGT"[one[0].bit_length() - 1]) << (8 * place)
            mask |= 255 << (8 * place)
    return letters, mask


def _weight_table() -> npt.NDArray[np.uint64]:
    # 2^(1 - step / 1024) in 41 binary places, rounded to 40.
    steps = [2 << _PLACES, *_half_steps()[2046:0:-2]]
    return np.array([((one >> (_PLACES - 40)) + 1) >> 1 for one in steps], np.uint64)


def _windows(
    scored: Sequence[_Positions], common: Sequence[Sequence[_Position]], *, two_sided: bool
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return windows, window_starts and window_rows, see kernels.match.Patterns."""
    found = []
    for side in range(2):
        bases, mask, start = _window(common[side])
        if two_sided and mask.bit_count() < _LEAST_WINDOW:
            found.append(
                [_window([(place, *value) for place, value in row[side].items()]) for row in scored]
            )
        else:
            found.append([(bases, mask, start)])
    windows = np.zeros((2, max(map(len, found)), 2), np.uint64)
    starts = np.full(windows.shape[:2], -1, np.int64)
    for side, entries in enumerate(found):
        for number, (bases, mask, start) in enumerate(entries):
            windows[side, number] = bases, mask
            starts[side, number] = start
    together = [1 if len(entries) == len(scored) else len(scored) for entries in found]
    return windows, starts, np.array(together, np.int64)


def _tags(
    table: npt.NDArray[np.int64], own: Sequence[Sequence[_Position]]
) -> tuple[npt.NDArray[np.uint64], np.uint64, int]:
    """Return tags, tag_mask and tag_start, see kernels.match.Patterns."""
    none = np.empty((len(own), 0), np.uint64), np.uint64(0), 0
    shape = table[:, [kernels.LENGTH, kernels.ANCHORED]]
    places = [[(place, half) for place, _, _, half in row] for row in own]
    exact = all(number == 1 for row in own for _, _, number, _ in row)
    other_side = table[:, kernels.OWN_START + 1] < table[:, kernels.OWN_STOP + 1]
    if (
        not exact
        or not own[0]
        or other_side.any()
        or (shape != shape[0]).any()
        or any(one != places[0] for one in places)
    ):
        return none
    windows = [_window(row) for row in own]
    mask, start = windows[0][1:]
    if mask.bit_count() < len(own[0]):
        return none
    tags = np.array([[bases] for bases, _, _ in windows], np.uint64)
    return tags, np.uint64(mask), start


def _tag_slots(tags: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    """Return tag_slots, see kernels.match.Patterns: at most one slot in four is taken."""
    slots = np.full(4 << tags.size.bit_length(), -1, np.int32)
    for row, tag in enumerate(tags[:, 0].tolist() if tags.size else []):
        slot = (tag * int(HASH) % (1 << 64)) * slots.size >> 64
        while slots[slot] >= 0:
            slot = (slot + 1) % slots.size
        slots[slot] = row
    return slots


def _nearest(tags: npt.NDArray[np.uint64], mask: np.uint64) -> npt.NDArray[np.int64]:
    """Return tag_nearest, see kernels.match.Patterns."""
    nearest = np.full(len(tags), 64, np.int64)
    for row, tag in enumerate(tags[:, 0] if tags.size else []):
        different = tags[:, 0] ^ tag
        counts = np.bitwise_count((different | (different >> np.uint64(1))) & mask)
        counts[row] = 64
        nearest[row] = counts.min()
    return nearest


def _place_scores(
    positions: Sequence[_Position], scores: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    """Return places and place_scores, see kernels.match.Patterns."""
    kinds = {
        kind: number for number, kind in enumerate(dict.fromkeys(one[1:] for one in positions))
    }
    table = np.zeros((max(len(kinds), 1), 5, kernels.QUALITIES), np.int32)
    for (allowed, options, half), number in kinds.items():
        for code in range(5):
            kind = options if allowed >> code & 1 else kernels.MISMATCH + half
            table[number, code, : scores.shape[1]] = scores[kind]
    size = table[0].size
    places = np.array([(one[0], kinds[one[1:]] * size) for one in positions], np.uint64)
    return places.reshape(-1, 2), table.reshape(-1)


def _window(positions: Sequence[_Position]) -> tuple[int, int, int]:
    """Choose the 32 places in a row that hold the most exact ones of these positions.

    Returns:
        (packed bases, their mask, first place or -1 where there is no exact position).
    """
    exact = {place: allowed for place, allowed, number, _ in positions if number == 1}
    if not exact:
        return 0, 0, -1
    start = max(
        sorted(exact),
        key=lambda first: sum(first <= place < first + 32 for place in exact),
    )
    bases = mask = 0
    for place, allowed in exact.items():
        if start <= place < start + 32:
            shift = 62 - 2 * (place - start)
            bases |= (allowed.bit_length() - 1) << shift
            mask |= 1 << shift
    return bases, mask, start
