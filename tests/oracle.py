"""Naive twins of the kernels: strings, lists and whole numbers, one obvious step at a time.

Those of the matcher are in oracle_match.py. Written from the docstrings and the rules of the
design, never from the kernels. A barcode is a string of bases, a read a string and its Phreds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

BASES = "ACGT"
WORD = 1 << 64
ONE = 1 << 40  # probabilities are in units of 2^-40
HAS_UNKNOWN = 32


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


def mate_number(header: bytes) -> int:
    """1 or 2 where the name has /1 or /2 behind it, else 0."""
    rest = header[len(read_name(header)) :]
    return int(rest[1:2]) if rest.startswith(b"/") else 0


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
    def order(self) -> tuple[int, str, int]:
        """What rows are sorted by: unequal lengths sort as strings, the shorter first."""
        return self.sample, self.barcode, len(self.cell)


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


def unpack_cold(
    words: Sequence[int], lengths: tuple[int, int], unknown: bool, levels: Sequence[int] | None
) -> tuple[list[str], list[tuple[int, ...]], int]:
    """Return the bases and qualities that cold words hold, and how many words that took."""
    at = 0

    def take(length: int, bits: int) -> list[int]:
        nonlocal at
        start, at = at, at + -(-length * bits // 64)
        return unpack(words[start:at], length, bits)

    texts = ["".join(BASES[code] for code in take(length, 2)) for length in lengths]
    if levels is not None:
        values = [tuple(levels[code] for code in take(length, 2)) for length in lengths]
    else:
        # Eight bytes a word, the first lowest.
        values = []
        for length in lengths:
            whole = -(-length // 8)
            raw = b"".join(word.to_bytes(8, "little") for word in words[at : at + whole])
            values.append(tuple(raw[:length]))
            at += whole
    if unknown:
        masks = [take(length, 1) for length in lengths]
        texts = [
            "".join("N" if hidden else letter for letter, hidden in zip(text, mask, strict=True))
            for text, mask in zip(texts, masks, strict=True)
        ]
    return texts, values, at


def mix(state: int, word: int) -> int:
    """Take a word into a hash: xor, multiply, fold."""
    product = (state ^ word) * 0xD6E8FEB86659FD93 % WORD
    return product ^ (product >> 32)


def row_hash(row: Template, width: int, levels: Sequence[int] | None = None) -> int:
    """Hash a row as it is in its file: hot fields, `width` barcode qualities, cold words."""
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
    for word in [*words, *pack_cold(row, levels)]:
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


def cut_cells(
    reads: Sequence[int], starts: Sequence[bool], limits: Sequence[int]
) -> list[list[int]]:
    """Return the keys of each output cell, by number; a key has no reads where all were moved."""
    cells: list[list[int]] = []
    held, full = 0, True
    for number, own in enumerate(reads):
        if full or (starts[number] and held) or own >= limits[number]:
            cells.append([])
            held = 0
        cells[-1].append(number)
        held += own
        full = held >= limits[number]
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


def molecules(
    rows: Sequence[Template], numbers: Sequence[int] | None = None
) -> Iterator[list[Template]]:
    """Yield the rows of each molecule, in order: of a key by number, without those of -1."""
    held: dict[tuple[tuple[int, str, int], int], list[Template]] = {}
    for row, number in zip(rows, numbers or [0] * len(rows), strict=True):
        held.setdefault((row.order, number), []).append(row)
    for (_, number), group in sorted(held.items()):
        if number >= 0:
            yield group


# Text


def millionths(numerator: int, denominator: int) -> str:
    """Return a ratio of at most 1 with six decimals, rounded half up."""
    value = (2_000_000 * numerator + denominator) // (2 * denominator) if denominator else 0
    return f"{value // 1_000_000}.{value % 1_000_000:06}"


def characters(values: Sequence[int]) -> str:
    """Return Phreds as quality characters."""
    return "".join(chr(33 + value) for value in values)


def record(
    sample: str, cell: str, umi: str, called: Called, mate: int, number: int | None = None
) -> str:
    """Return the FASTQ record of a molecule's mate; `number` where its key has several."""
    name = ".".join(part for part in (sample, cell, umi) if part)
    name += f".{number + 1}" if number is not None else ""
    tags = [f"RX:Z:{umi}", f"QX:Z:{characters(called.umi_quality)}"]
    tags += [f"CB:Z:{cell}"] if cell else []
    tags += [f"BC:Z:{sample}", f"MI:Z:{name}", f"cD:i:{called.depth_max}"]
    tags += [f"cM:i:{called.depth_min}"]
    tags += [f"cE:f:{millionths(called.disagreements, called.base_votes)}"]
    comment = "\t".join(tags)
    return f"@{name} {comment}\n{called.letters[mate]}\n+\n{characters(called.quality[mate])}\n"
