"""Naive twins of the matcher and of the cutting of barcodes: every row at every offset."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from oracle import HAS_UNKNOWN, Template, base

IUPAC = {
    **{"A": "A", "C": "C", "G": "G", "T": "T", "U": "T"},
    **{"R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC"},
    **{"B": "CGT", "D": "AGT", "H": "ACT", "V": "ACG"},
}
MARGIN_BITS = 5
ASSIGNED, UNMATCHED, AMBIGUOUS, TOO_SHORT, LOW_UMI_QUALITY, EMPTY_PAYLOAD, UNRESOLVED = range(7)
PARTIAL = 7
SWAPPED, REVERSED, SHIFT_PLUS, SHIFT_MINUS = 1, 2, 8, 16
SHIFT_BITS = 12
Read = tuple[str, Sequence[int]]


@cache
def points(symbol: str, letter: str, quality: int) -> int:
    """Return the score of a read's letter at a scored symbol, in 1/1024 bit."""
    error = min(0.75, 10 ** (-quality / 10))
    allowed = IUPAC[symbol.upper()]
    if base(letter) in allowed:
        options = len(allowed)
        likelihood = (1 - error) / options + (options - 1) * error / (3 * options)
        return round(1024 * math.log2(4 * likelihood))
    mismatch = round(1024 * math.log2(4 * error / 3))
    return mismatch if symbol.isupper() else round(mismatch / 2)


def scored(symbols: str) -> list[int]:
    """Return the scored positions of a layout."""
    return [place for place, symbol in enumerate(symbols) if symbol not in "NX.*"]


@dataclass(frozen=True)
class Side:
    """Layout of one mate, as in umimill.layout.Layout."""

    symbols: str
    anchored: bool
    payload_start: int
    payload_stop: int | None

    def score(self, bases: str, qualities: Sequence[int], offset: int) -> int:
        """Score the layout at an offset."""
        return sum(
            points(self.symbols[place], bases[offset + place], qualities[offset + place])
            for place in scored(self.symbols)
        )

    def offsets(self, length: int) -> range:
        """Return where the layout can begin in a read."""
        if self.anchored:
            return range(int(max(scored(self.symbols), default=-1) < length))
        return range(max(0, length - len(self.symbols) + 1))

    def payload(self, length: int, offset: int) -> range:
        """Return the payload's positions in a read."""
        stop = length if self.payload_stop is None else min(length, offset + self.payload_stop)
        return range(min(length, offset + self.payload_start), stop)


@dataclass(frozen=True)
class Row:
    """A row of the sample sheet."""

    sample: int
    sides: tuple[Side, Side]


def bits_of(count: int) -> int:
    """Return 1024 log2(count)."""
    return round(1024 * math.log2(count))


def search(rows: Sequence[Row], read: Read) -> tuple[int, int, int]:
    """Score every row at every offset of read 1; return (verdict, row, offset)."""
    bases, qualities = read
    found = []
    for number, row in enumerate(rows):
        side = row.sides[0]
        if len(side.symbols) > len(bases):
            continue
        for offset in side.offsets(len(bases)):
            found.append((-side.score(bases, qualities, offset), offset, number))
    if not found:
        return UNMATCHED, -1, 0
    offsets = len(bases) - min(len(row.sides[0].symbols) for row in rows) + 1
    bar = bits_of(offsets) + bits_of(len(rows)) + bits_of(100)
    minus_score, offset, number = min(found)
    others = [-one[0] for one in found if rows[one[2]].sample != rows[number].sample]
    return _by_bits(-minus_score, max(others, default=None), bar), number, offset


def search_both(rows: Sequence[Row], reads: tuple[Read, Read]) -> tuple[int, int, int, int]:
    """Score every row at every pair of offsets; return (verdict, row, offset 1, offset 2)."""
    found = []
    for number, row in enumerate(rows):
        places, score, bar = [], 0, bits_of(len(rows)) + bits_of(100)
        for side, (bases, qualities) in zip(row.sides, reads, strict=True):
            offsets = side.offsets(len(bases))
            if offsets:
                best = max(offsets, key=lambda at: (side.score(bases, qualities, at), -at))
                places.append(best)
                score += side.score(bases, qualities, best)
                bar += bits_of(len(offsets))
        if len(places) == 2:
            found.append((-score, number, places, bar))
    if not found:
        return UNMATCHED, -1, 0, 0
    minus_score, number, places, bar = min(found)
    others = [-one[0] for one in found if rows[one[1]].sample != rows[number].sample]
    return _by_bits(-minus_score, max(others, default=None), bar), number, *places


def _by_bits(score: int, other: int | None, bar: int) -> int:
    if score < bar:
        return UNMATCHED
    return AMBIGUOUS if other is not None and score - other < 1024 * MARGIN_BITS else ASSIGNED


@dataclass(frozen=True)
class Posterior:
    """Verdicts by posterior that are right.

    `doubt` is how many bits the decision is away from another one, less what rounding may take.
    """

    verdicts: set[int]
    row: int
    doubt: float


def posterior(
    rows: Sequence[Row],
    reads: tuple[Read, Read],
    foreign_odds: float,
    composition: Mapping[str, float],
) -> Posterior:
    """Accept the best sample at a posterior of 0.99 against all others and a foreign read.

    Every likelihood is divided by that of random bases. Rows share their sample's prior equally,
    samples the prior of a read that is not foreign.
    """
    samples = {row.sample for row in rows}
    likelihoods: dict[int, float] = {}
    for number, row in enumerate(rows):
        sides = list(zip(row.sides, reads, strict=True))
        if all(side.offsets(len(read[0])) for side, read in sides):
            bits = sum(_exact_bits(side, read) for side, read in sides)
            share = sum(one.sample == row.sample for one in rows) * len(samples)
            likelihoods[number] = 2**bits / share
    if not likelihoods:
        return Posterior({UNMATCHED}, -1, math.inf)
    weights = {
        sample: sum(likelihoods[one] for one in likelihoods if rows[one].sample == sample)
        for sample in samples
    }
    winner = max(weights, key=lambda sample: (weights[sample], -sample))
    row = max(
        (number for number in likelihoods if rows[number].sample == winner),
        key=lambda number: (likelihoods[number], -number),
    )
    letters = [
        (side.symbols[place], read[0][place], read[1][place])
        for side, read in zip(rows[row].sides, reads, strict=True)
        for place in scored(side.symbols)
    ]
    others = sum(weights.values()) - weights[winner]
    foreign = foreign_odds * math.prod(4 * composition[base(letter)] for _, letter, _ in letters)
    held = all(base(one) in IUPAC[symbol.upper()] and q >= 20 for symbol, one, q in letters)
    if not letters or held:
        # A declared tag held exactly at Q20 is never refused for being a chance match.
        foreign = 0.0
    against = others + foreign
    # Each position, share and prior was rounded to half a unit.
    rounding = (2 * len(letters) + 6) / 1024
    doubt = _distance(weights[winner], 99 * against) - rounding
    if weights[winner] >= 99 * against:
        return Posterior({ASSIGNED}, row, doubt)
    refusals = set()
    if others > foreign:
        refusals.add(AMBIGUOUS)
    if foreign > likelihoods[row]:
        refusals.add(UNMATCHED)
    doubt = min(doubt, _distance(others, foreign) - rounding)
    doubt = min(doubt, _distance(likelihoods[row], foreign) - rounding)
    # Between the other samples and the best row a foreign read makes both names right.
    return Posterior(refusals or {AMBIGUOUS, UNMATCHED}, row, doubt)


def _distance(first: float, second: float) -> float:
    return abs(math.log2(first / second)) if first and second else math.inf


def _exact_bits(side: Side, read: Read) -> float:
    bits = 0.0
    for place in scored(side.symbols):
        symbol, error = side.symbols[place], min(0.75, 10 ** (-read[1][place] / 10))
        allowed = IUPAC[symbol.upper()]
        options = len(allowed)
        if base(read[0][place]) in allowed:
            bits += math.log2(4 * ((1 - error) / options + (options - 1) * error / (3 * options)))
        else:
            bits += (1.0 if symbol.isupper() else 0.5) * math.log2(4 * error / 3)
    return bits


def reverse_complement(read: Read) -> Read:
    """Return the other strand; what is no base becomes N."""
    pairs = dict(zip("ACGTN", "TGCAN", strict=True))
    return "".join(pairs[base(letter)] for letter in reversed(read[0])), list(reversed(read[1]))


def both_ways(
    find: Callable[[tuple[Read, Read]], Sequence[int]], reads: tuple[Read, Read], paired: bool
) -> tuple[Sequence[int], tuple[Read, Read], int]:
    """Match a template, and the other way round only if it is clearly foreign.

    Args:
        find: (verdict, row, offset 1, offset 2) of a template.
        reads: mates; the second empty where there is one file.
        paired: whether mates can be swapped; a single read is turned round.

    Returns:
        (what was found, the reads as they were matched, flags).
    """
    found = find(reads)
    if found[0] != UNMATCHED:
        return found, reads, 0
    first, second = reads
    other = (second, first) if paired else (reverse_complement(first), second)
    return find(other), other, SWAPPED if paired else REVERSED


def find_run(row: Row) -> tuple[int, int, int] | None:
    """Return (side, start, stop) of the last run of N with four exact letters in the 8 behind."""
    for side in (1, 0):
        symbols = row.sides[side].symbols
        for stop in range(len(symbols), 0, -1):
            if symbols[stop - 1] != "N" or symbols[stop : stop + 1] == "N":
                continue
            behind = [one.upper() for one in symbols[stop : stop + 8]]
            if sum(one in "ACGTU" for one in behind) >= 4:
                return side, len(symbols[:stop].rstrip("N")), stop
    return None


def find_shift(
    row: Row, offsets: tuple[int, int], reads: tuple[Read, Read]
) -> tuple[int, tuple[int, int]]:
    """Return (bases that the run has more, offsets), by scoring what is around it apart."""
    run = find_run(row)
    if run is None:
        return 0, offsets
    number, start, stop = run
    side, (bases, qualities), offset = row.sides[number], reads[number], offsets[number]
    if offset + stop >= len(bases):
        return 0, offsets

    def score(front: int, behind: int) -> int:
        places = [(one, offset + one + (front if one < start else behind))
                  for one in scored(side.symbols)]  # fmt: skip
        return sum(
            points(side.symbols[one], bases[at], qualities[at])
            for one, at in places
            if 0 <= at < len(bases)
        )

    exact = [one for one in scored(side.symbols) if side.symbols[one].upper() in "ACGTU"]
    near = [one for one in exact if stop <= one < stop + 8]
    if not side.anchored:
        near += [one for one in exact if start - 8 <= one < start]
    if all(bases[offset + one] == side.symbols[one].upper().replace("U", "T")
           for one in near if offset + one < len(bases)):  # fmt: skip
        return 0, offsets
    choices = [(0, -1), (0, 1)] + ([] if side.anchored else [(-1, 0), (1, 0)])
    best, moved = score(0, 0) + 1024 * SHIFT_BITS, (0, 0)
    for choice in choices:
        if offset + choice[0] >= 0 and score(*choice) > best:
            best, moved = score(*choice), choice
    changed = list(offsets)
    changed[number] += moved[0]
    return moved[1] - moved[0], (changed[0], changed[1])


def with_shift(row: Row, shift: int) -> Row:
    """Return a row whose run of N is longer or shorter by a base."""
    run = find_run(row)
    if not shift or run is None:
        return row
    number, _, stop = run
    side = row.sides[number]

    def moved(place: int | None) -> int | None:
        return place + shift if place is not None and place >= stop else place

    symbols = side.symbols[: stop + min(shift, 0)] + "N" * max(shift, 0) + side.symbols[stop:]
    sides = list(row.sides)
    sides[number] = replace(
        side,
        symbols=symbols,
        payload_start=moved(side.payload_start) or 0,
        payload_stop=moved(side.payload_stop),
    )
    return replace(row, sides=(sides[0], sides[1]))


def cut(
    row: Row,
    offsets: tuple[int, int],
    reads: tuple[Read, Read],
    minimum: int,
    *,
    partial: bool = False,
) -> tuple[int, Template | None, int]:
    """Cut a matched template; return (verdict, row or None, shift)."""
    shift, offsets = find_shift(row, offsets, reads)
    return *_cut(with_shift(row, shift), offsets, reads, minimum, shift, partial), shift


def _cut(
    row: Row,
    offsets: tuple[int, int],
    reads: tuple[Read, Read],
    minimum: int,
    shift: int,
    partial: bool,
) -> tuple[int, Template | None]:
    taken: dict[str, list[tuple[str, int]]] = {"X": [], "N": []}
    payload, quality = [], []
    for side, offset, (bases, qualities) in zip(row.sides, offsets, reads, strict=True):
        if offset + len(side.symbols) > len(bases):
            return TOO_SHORT, None
        for place, symbol in enumerate(side.symbols):
            if symbol in taken:
                taken[symbol].append((base(bases[offset + place]), qualities[offset + place]))
        span = side.payload(len(bases), offset)
        payload.append("".join(base(bases[at]) for at in span))
        quality.append(tuple(qualities[at] for at in span))
    cell, umi = ("".join(letter for letter, _ in taken[kind]) for kind in "XN")
    if any(value < minimum for _, value in taken["N"]):
        return LOW_UMI_QUALITY, None
    if not any(payload):
        return EMPTY_PAYLOAD, None
    unknown = (cell + umi).count("N")
    if shift:
        kept = not unknown and not cell and 0 < len(umi) <= 32
    else:
        kept = unknown <= 2 and "N" not in cell
    if (unknown or shift) and not (kept and partial):
        return UNRESOLVED, None
    values = tuple(value for kind in "XN" for _, value in taken[kind])
    flags = HAS_UNKNOWN if "N" in "".join(payload) else 0
    flags |= {0: 0, 1: SHIFT_PLUS, -1: SHIFT_MINUS}[shift]
    pair = (payload[0], payload[1]), (quality[0], quality[1])
    return PARTIAL if unknown or shift else ASSIGNED, Template(
        row.sample, cell, umi, values, *pair, flags=flags
    )
