"""Naive twins of the kernels: strings, lists and whole numbers, one obvious step at a time.

Written from the docstrings and the rules of the design, never from the kernels. A barcode is a
string of bases here, a read two strings or a string and a list of Phreds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

BASES = "ACGT"
WORD = 1 << 64
ONE = 1 << 40  # probabilities are in units of 2^-40
IUPAC = {
    **{"A": "A", "C": "C", "G": "G", "T": "T", "U": "T"},
    **{"R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC"},
    **{"B": "CGT", "D": "AGT", "H": "ACT", "V": "ACG"},
}
MARGIN_BITS = 5
ASSIGNED, UNMATCHED, AMBIGUOUS, TOO_SHORT, LOW_UMI_QUALITY, EMPTY_PAYLOAD, UNRESOLVED = range(7)
SWAPPED, REVERSED, HAS_UNKNOWN = 1, 2, 32


# Bases


def base(letter: str) -> str:
    """Return A, C, G or T for a letter of either case, U as T, and N for all else."""
    upper = letter.upper().replace("U", "T")
    return upper if upper in BASES else "N"


def pack(codes: Sequence[int], bits: int) -> list[int]:
    """Return values of `bits` bits in 64-bit words, the first value highest, rest 0."""
    digits = "".join(format(code, f"0{bits}b") for code in codes)
    digits += "0" * (-len(digits) % 64)
    return [int(digits[at : at + 64], 2) for at in range(0, len(digits), 64)]


def pack_bases(text: str) -> list[int]:
    """Return letters in words, 32 a word; what is no base is packed as A."""
    return pack([max(0, BASES.find(base(letter))) for letter in text], 2)


def unpack(words: Sequence[int], length: int, bits: int) -> list[int]:
    """Undo `pack`."""
    digits = "".join(format(word, "064b") for word in words)
    return [int(digits[at * bits : (at + 1) * bits], 2) for at in range(length)]


def key_of(barcode: str) -> int:
    """Return a barcode of up to 32 bases as a word, from the highest bit on."""
    return (pack_bases(barcode) or [0])[0]


# FASTQ

OK, NO_AT, NO_PLUS, QUALITY_LENGTH, CUT, BLANK = range(6)


def scan(text: bytes) -> tuple[list[tuple[bytes, bytes, bytes]], int, int]:
    """Return the records (name, bases, qualities) of a whole file, what is wrong, and its line."""
    records: list[tuple[bytes, bytes, bytes]] = []
    lines = text.split(b"\n")
    while any(_bare(line) for line in lines):
        if lines[0][:1] in (b"", b"\r"):
            return records, BLANK, 0
        if not lines[0].startswith(b"@"):
            return records, NO_AT, 0
        if len(lines) < 3 or lines[2:] == [b""]:
            return records, CUT, min(len(lines), 3) - 1
        if not lines[2].startswith(b"+"):
            return records, NO_PLUS, 2
        if len(lines) < 4:
            return records, CUT, 2
        bases, qualities = _bare(lines[1]), _bare(lines[3])
        if len(qualities) != len(bases):
            cut = len(lines) == 4 and len(qualities) < len(bases)
            return records, CUT if cut else QUALITY_LENGTH, 3
        records.append((_bare(lines[0])[1:], bases, qualities))
        lines = lines[4:]
    return records, OK, 0


def _bare(line: bytes) -> bytes:
    return line.removesuffix(b"\r")


def read_name(header: bytes) -> bytes:
    """Return a read's name: up to the first blank or tab, less a final /1 or /2."""
    name = header.replace(b"\t", b" ").split(b" ")[0]
    return name[:-2] if name[-2:] in (b"/1", b"/2") else name


# Layouts in reads


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


NOTHING = Side("", True, 0, None)
Read = tuple[str, Sequence[int]]


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
    """Verdict by posterior; `doubt` = bits between the decision and its opposite, less rounding."""

    verdict: int
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
        return Posterior(UNMATCHED, -1, math.inf)
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
    doubt = math.inf if against == 0 else abs(math.log2(weights[winner] / against / 99))
    # Each position, share and prior was rounded to half a unit.
    doubt -= (2 * len(letters) + 6) / 1024
    if weights[winner] >= 99 * against:
        return Posterior(ASSIGNED, row, doubt)
    if foreign > 0 and others > 0:
        doubt = min(doubt, abs(math.log2(others / foreign)) - (2 * len(letters) + 6) / 1024)
    return Posterior(AMBIGUOUS if others > foreign else UNMATCHED, row, doubt)


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


# Packed rows


@dataclass(frozen=True)
class Template:
    """A template whose barcode was cut: what a row of a partition file says."""

    sample: int
    cell: str
    umi: str
    barcode_quality: tuple[int, ...]
    payload: tuple[str, str]
    quality: tuple[tuple[int, ...], tuple[int, ...]]
    record: int = 0
    unit: int = 0
    flags: int = 0

    @property
    def barcode(self) -> str:
        """Cell and UMI."""
        return self.cell + self.umi

    @property
    def order(self) -> tuple[int, str]:
        """What rows are sorted by: unequal lengths sort as strings, the shorter first."""
        return self.sample, self.barcode


def cut(
    row: Row, offsets: tuple[int, int], reads: tuple[Read, Read], minimum: int
) -> tuple[int, Template | None]:
    """Cut a matched template; return (verdict, row or None)."""
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
    if "N" in cell + umi:
        return UNRESOLVED, None
    values = tuple(value for kind in "XN" for _, value in taken[kind])
    flags = HAS_UNKNOWN if "N" in "".join(payload) else 0
    pair = (payload[0], payload[1]), (quality[0], quality[1])
    return ASSIGNED, Template(row.sample, cell, umi, values, *pair, flags=flags)


def pack_cold(row: Template, levels: Sequence[int] | None) -> list[int]:
    """Return the cold words of a row: bases, qualities (2 bits with levels, else 8), N masks."""
    words = [word for text in row.payload for word in pack_bases(text)]
    for values in row.quality:
        if levels is not None:
            words += pack([levels.index(value) for value in values], 2)
        else:
            raw = bytes(values) + bytes(-len(values) % 8)
            words += [int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw), 8)]
    if row.flags & HAS_UNKNOWN:
        words += [word for text in row.payload for word in pack([c == "N" for c in text], 1)]
    return words


def mix(state: int, word: int) -> int:
    """Take a word into a hash: xor, multiply, fold."""
    product = (state ^ word) * 0xD6E8FEB86659FD93 % WORD
    return product ^ (product >> 32)


def row_hash(row: Template, width: int) -> int:
    """Hash a row: key, the packed fields, `width` barcode qualities, cold words of 8-bit form."""
    lengths = [len(text) for text in row.payload]
    words = [
        key_of(row.barcode),
        row.record | row.unit << 32 | row.sample << 48,
        lengths[0] | lengths[1] << 32,
        row.flags << 32 | len(row.umi) << 48 | len(row.cell) << 56,
    ]
    values = [*row.barcode_quality, *[0] * (width - len(row.barcode_quality))]
    eights = [values[at : at + 8] for at in range(0, width - width % 8, 8)]
    words += [int.from_bytes(bytes(one), "big") for one in [*eights, values[8 * len(eights) :]]]
    state = 0x9E3779B97F4A7C15
    for word in [*words, *pack_cold(row, None)]:
        state = mix(state, word)
    return state


def leaf_of(row: Template, width: int) -> int:
    """Return the leaf of a row in its sample: its first `width` bases as a number."""
    leaf = 0
    for letter in row.barcode[:width]:
        leaf = 4 * leaf + BASES.index(letter)
    return leaf


# Families


Family = tuple[int, str]  # sample, barcode


def merge(*tables: Sequence[tuple[Family, int]]) -> list[tuple[Family, int]]:
    """Add up the reads of equal keys of sorted tables."""
    total: Counter[Family] = Counter()
    for table in tables:
        for family, reads in table:
            total[family] += reads
    return sorted(total.items())


def cut_cells(
    reads: Sequence[int], starts: Sequence[bool], limits: Sequence[int]
) -> list[list[int]]:
    """Return the families of each output cell, by number."""
    cells: list[list[int]] = []
    full = True
    for number, own in enumerate(reads):
        if full or starts[number] or own >= limits[number]:
            cells.append([])
        cells[-1].append(number)
        full = sum(reads[one] for one in cells[-1]) >= limits[number]
    return cells


# Consensus


@dataclass
class Called:
    """A molecule's consensus: bases and Phreds of both mates, and what was counted."""

    letters: list[str]
    quality: list[list[int]]
    umi_quality: list[int]
    depth_min: int = 0
    depth_max: int = 0
    error_sum: int = 0
    base_votes: int = 0
    disagreements: int = 0
    called: int = 0


@dataclass(frozen=True)
class Tables:
    """Integer tables of the quality model, umimill.consensus.Tables as lists."""

    votes: Sequence[int]
    losers: Sequence[int]
    thresholds: Sequence[int]
    floor: int


def column_error(tables: Tables, behind: Sequence[int]) -> int:
    """Return 2^40 p_error of a column whose other bases are so many vote units behind."""
    rest = sum(tables.losers[min(one, len(tables.losers) - 1)] for one in behind)
    # 64 bits leave 20 of the 40 of the divisor.
    return (rest << 20) // ((ONE + rest) >> 20)


def column_quality(tables: Tables, error: int) -> int:
    """Return the best quality that an error and the floor allow, at least 2."""
    fitting = [q for q in range(3, 94) if error + tables.floor <= tables.thresholds[q]]
    return max(fitting, default=2)


def vote(rows: Sequence[Template], tables: Tables) -> Called:
    """Vote on the reads of one molecule: the frame is that of the longest read."""
    result = Called([], [], [])
    depths = []
    for mate in range(2):
        letters, quality = "", []
        for column in range(max(len(row.payload[mate]) for row in rows)):
            seen = [
                (row.payload[mate][column], row.quality[mate][column])
                for row in rows
                if column < len(row.payload[mate]) and row.payload[mate][column] != "N"
            ]
            sums = {one: sum(tables.votes[q] for b, q in seen if b == one) for one in BASES}
            result.base_votes += len(seen)
            if not any(sums.values()):
                letters += "N"
                quality.append(2)
                result.disagreements += len(seen)
                continue
            best = max(BASES, key=lambda one: (sums[one], -ord(one)))
            error = column_error(tables, [sums[best] - sums[b] for b in BASES if b != best])
            letters += best
            quality.append(column_quality(tables, error))
            depths.append(len(seen))
            result.error_sum += error
            result.disagreements += sum(b != best for b, _ in seen)
        result.letters.append(letters)
        result.quality.append(quality)
    result.called = len(depths)
    result.depth_min, result.depth_max = min(depths, default=0), max(depths, default=0)
    cell = len(rows[0].cell)
    for place in range(cell, cell + len(rows[0].umi)):
        won = sum(tables.votes[row.barcode_quality[place]] for row in rows)
        result.umi_quality.append(column_quality(tables, column_error(tables, [won] * 3)))
    return result


def molecules(rows: Sequence[Template]) -> Iterator[list[Template]]:
    """Yield the rows of each molecule, one a key, in order."""
    for order in sorted({row.order for row in rows}):
        yield [row for row in rows if row.order == order]


# Text


def millionths(numerator: int, denominator: int) -> str:
    """Return a ratio of at most 1 with six decimals, rounded half up."""
    value = (2_000_000 * numerator + denominator) // (2 * denominator) if denominator else 0
    return f"{value // 1_000_000}.{value % 1_000_000:06}"


def characters(values: Sequence[int]) -> str:
    """Return Phreds as quality characters."""
    return "".join(chr(33 + value) for value in values)


def record(sample: str, cell: str, umi: str, called: Called, mate: int) -> str:
    """Return the FASTQ record of a molecule's mate."""
    name = ".".join(part for part in (sample, cell, umi) if part)
    tags = [f"RX:Z:{umi}", f"QX:Z:{characters(called.umi_quality)}"]
    tags += [f"CB:Z:{cell}"] if cell else []
    tags += [f"BC:Z:{sample}", f"MI:Z:{name}", f"cD:i:{called.depth_max}"]
    tags += [f"cM:i:{called.depth_min}"]
    tags += [f"cE:f:{millionths(called.disagreements, called.base_votes)}"]
    comment = "\t".join(tags)
    return f"@{name} {comment}\n{called.letters[mate]}\n+\n{characters(called.quality[mate])}\n"
