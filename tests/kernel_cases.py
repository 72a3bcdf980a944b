"""Random inputs of the kernels' tests, and the arrays that the kernels take for them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numba import config

from oracle import HAS_UNKNOWN, Template, pack_cold, unpack, unpack_cold
from oracle_match import IUPAC, Read, Row, Side, reverse_complement
from umimill import patterns
from umimill.fastq import base_codes
from umimill.kernels.match import Foreign, Letters, Patterns
from umimill.kernels.match import Read as KernelRead
from umimill.kernels.pairs import PLACE_COLUMNS
from umimill.kernels.posterior import RowScratch
from umimill.kernels.search import Scratch
from umimill.layout import Layout, SampleLayout
from umimill.neighbours import neighbour_pairs
from umimill.partition import HOT

PADDING = 64
LETTERS = Letters(base_codes(), 33)


def cases(count: int) -> int:
    """Return how many rounds a loop over random cases makes: few where the compiler is off."""
    return max(1, count // 100) if config.DISABLE_JIT else count


def text_of(*parts: bytes) -> Any:
    """Return u8[*] with the padding that buffers of text have."""
    return np.frombuffer(b"".join(parts) + bytes(PADDING), np.uint8).copy()


def kernel_read(read: Read) -> KernelRead:
    """Return a read as the kernels take it, with something else around it."""
    bases, qualities = read
    data = text_of(b"GATTACA", bases.encode(), b"\n", bytes(33 + one for one in qualities), b"~~~")
    return KernelRead(data, np.int64(7), np.int64(8 + len(bases)), np.int64(len(bases)))


def oracle_side(layout: Layout | None) -> Side:
    """Return a parsed layout as the oracle takes it."""
    if layout is None:
        return Side("", True, 0, None)
    return Side(layout.symbols, layout.anchored, layout.payload_start, layout.payload_stop)


def oracle_rows(layouts: Sequence[SampleLayout]) -> list[Row]:
    """Return layout rows as the oracle takes them."""
    return [
        Row(one.sample, (oracle_side(one.sides[0]), oracle_side(one.sides[1]))) for one in layouts
    ]


def compiled(layouts: Sequence[SampleLayout]) -> Patterns:
    """Compile layout rows whose samples are numbered without gaps."""
    return patterns.compile_patterns(layouts, 1 + max(one.sample for one in layouts))


def scratch_for(longest: int) -> Scratch:
    """Return a worker's buffers, full of rubbish."""
    words = longest // 32 + 4
    return Scratch(
        *(np.full(words, 0xDEADBEEFDEADBEEF, np.uint64) for _ in range(3)),
        np.full(longest + 64, 3, np.uint8),
        np.full(2 * longest + 256, 65, np.uint8),
        np.zeros(1, np.int64),
        np.full(4, 1 << 40, np.int64),
    )


def row_scratch(table: Patterns) -> tuple[RowScratch, Any]:
    """Return buffers that go with the rows, full of rubbish; the second is of best places."""
    count = table.rows.shape[0]
    return (
        RowScratch(
            np.full(count + 1, 1 << 40, np.int64),
            np.full(count, 1 << 40, np.int64),
            np.full(table.samples, 1 << 40, np.uint64),
            np.full(3, 1 << 40, np.uint64),
        ),
        np.full((count, PLACE_COLUMNS), 1 << 40, np.int64),
    )


def foreign_of(share: float, composition: Sequence[float]) -> Foreign:
    """Return the alternative for a share of foreign reads and the frequencies of the bases."""
    scores = [round(1024 * np.log2(4 * one)) for one in composition]
    prior = round(1024 * np.log2(share / (1 - share)))
    return Foreign(prior, np.array([*scores, 0], np.int64))


def staged(rows: Sequence[Template], width: int) -> tuple[Any, Any, Any, Any]:
    """Return rows as checkout stages them: HOT[n], u8[n, B], first cold words, cold words."""
    hot = np.zeros(len(rows), HOT)
    barcode_quality = np.zeros((len(rows), width), np.uint8)
    starts = np.zeros(len(rows), np.int64)
    cold: list[int] = [7, 7, 7]
    for number, row in enumerate(rows):
        fill_hot(hot[number], row)
        barcode_quality[number, : len(row.barcode_quality)] = row.barcode_quality
        starts[number] = len(cold)
        cold += pack_cold(row, None)
    return hot, barcode_quality, starts, np.array([*cold, 7, 7, 7], np.uint64)


def fill_hot(entry: Any, row: Template) -> None:
    """Write the fields of one HOT record."""
    entry["key"] = pack_key(row.barcode)
    entry["record"], entry["unit"], entry["sample"] = row.record, row.unit, row.sample
    entry["length_1"], entry["length_2"] = (len(text) for text in row.payload)
    entry["flags"] = row.flags
    entry["umi_length"], entry["cell_length"] = len(row.umi), len(row.cell)


def read_back(
    hot: Any,
    barcode_quality: Any,
    starts: Sequence[int],
    cold: Any,
    levels: Sequence[int] | None = None,
) -> list[Template]:
    """Return rows in arrays as the oracle takes them."""
    rows = []
    words = cold.tolist()
    for entry, values, start in zip(hot, barcode_quality.tolist(), starts, strict=True):
        cell, length = (
            int(entry["cell_length"]),
            int(entry["umi_length"]) + int(entry["cell_length"]),
        )
        barcode = "".join("ACGT"[code] for code in unpack([int(entry["key"])], length, 2))
        assert pack_key(barcode) == entry["key"]
        assert not any(values[length:])
        mask = int(entry["n_mask"])
        assert mask >> length == 0
        assert all(barcode[place] == "A" for place in range(length) if mask >> place & 1)
        barcode = "".join("N" if mask >> at & 1 else one for at, one in enumerate(barcode))
        lengths = int(entry["length_1"]), int(entry["length_2"])
        flags = int(entry["flags"])
        texts, qualities, _ = unpack_cold(words[start:], lengths, bool(flags & HAS_UNKNOWN), levels)
        rows.append(
            Template(
                int(entry["sample"]),
                barcode[:cell],
                barcode[cell:],
                tuple(values[:length]),
                (texts[0], texts[1]),
                (qualities[0], qualities[1]),
                int(entry["record"]),
                int(entry["unit"]),
                flags,
            )
        )
    return rows


def pack_key(barcode: str) -> np.uint64:
    """Return the key of a barcode."""
    key = 0
    for place, letter in enumerate(barcode):
        key |= "ACGT".index(letter) << (62 - 2 * place)
    return np.uint64(key)


def keys_of(barcodes: Sequence[str]) -> Any:
    """Return barcodes of one length as numbers, u64[n], 2 bits a base, the first one highest."""
    codes = [["ACGT".index(letter) for letter in barcode] for barcode in barcodes]
    return np.array(
        [sum(code << 2 * at for at, code in enumerate(one[::-1])) for one in codes], np.uint64
    )


def dna(least: int = 0, most: int = 40, letters: str = "ACGT") -> st.SearchStrategy[str]:
    """Draw a sequence."""
    return st.text(letters, min_size=least, max_size=most)


@st.composite
def templates(
    draw: st.DrawFn,
    *,
    longest: int = 80,
    levels: Sequence[int] = tuple(range(94)),
    samples: int = 2,
    paired: bool = True,
    barcode: st.SearchStrategy[tuple[str, str]] | None = None,
) -> Template:
    """Draw a cut template."""
    default = st.tuples(dna(0, 3), dna(1, 6))
    cell, umi = draw(default if barcode is None else barcode)
    sides = []
    for mate in range(2):
        text = (
            draw(dna(0, longest, "ACGTN" if draw(st.booleans()) else "ACGT"))
            if (mate == 0 or paired)
            else ""
        )
        values = draw(st.lists(st.sampled_from(levels), min_size=len(text), max_size=len(text)))
        sides.append((text, tuple(values)))
    quality = draw(
        st.lists(st.integers(0, 93), min_size=len(cell) + len(umi), max_size=len(cell) + len(umi))
    )
    return Template(
        draw(st.integers(0, samples - 1)),
        cell,
        umi,
        tuple(quality),
        (sides[0][0], sides[1][0]),
        (sides[0][1], sides[1][1]),
        record=draw(st.integers(0, 2**32 - 1)),
        unit=draw(st.integers(0, 2**16 - 1)),
        flags=32 if "N" in sides[0][0] + sides[1][0] else draw(st.sampled_from([0, 1, 2])),
    )


def random_sequence(rng: random.Random, length: int, letters: str = "ACGT") -> str:
    return "".join(rng.choices(letters, k=length))


def random_layouts(rng: random.Random, anchored: bool) -> tuple[list[str], list[int]]:
    """Rows as people write them: a shared primer, tags of the samples, and odd ones between."""
    primer = random_sequence(rng, rng.randint(0, 14), "ACGT" * 4 + "acgt" * 2 + "RYSWKMBDHVrn.")
    umi = rng.choice(["N{4}", "NNtNN", "N{8}", "NNNNXX", ".NN"])
    tag_length = rng.randint(1, 8)
    tags = [random_sequence(rng, tag_length) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.4:
        place, tag = rng.randrange(tag_length), tags[0]
        tags.append(tag[:place] + rng.choice("ACGTRYN"[:6]) + tag[place + 1 :])
    layouts = []
    for _ in range(rng.randint(1, 6)):
        tag = rng.choice(tags)
        tag = rng.choice([tag, tag, tag.lower(), tag + random_sequence(rng, 2)])
        parts = rng.choice([[primer, tag, umi], [tag, primer, umi], [primer, umi, tag]])
        layouts.append("^" * (anchored or rng.random() < 0.1) + "".join(parts))
    samples = [rng.randrange(len(layouts)) for _ in layouts]
    numbers = {sample: number for number, sample in enumerate(dict.fromkeys(samples))}
    return layouts, [numbers[sample] for sample in samples]


def instance(rng: random.Random, symbols: str) -> str:
    return "".join(rng.choice(IUPAC.get(symbol.upper(), "ACGT")) for symbol in symbols)


def damaged(rng: random.Random, bases: str, rate: float) -> str:
    return "".join(
        rng.choice("ACGTN" + "acgtnuUR.") if rng.random() < rate else letter for letter in bases
    )


def random_qualities(rng: random.Random, length: int) -> list[int]:
    levels = rng.choice([[40], [2], [2, 12, 23, 37], list(range(94)), [9, 10, 11, 12], [0, 1, 30]])
    return rng.choices(levels, k=length)


def random_read(rng: random.Random, rows: Sequence[Row], side: int = 0) -> Read:
    """A read with one of the layouts, or two, or cut, turned round, of N's, or of anything."""
    holds = rng.choice(rows).sides[side].symbols
    bases = damaged(rng, instance(rng, holds), rng.choice([0, 0, 0.05, 0.1, 0.2]))
    kind = rng.random()
    front = 0 if kind < 0.35 else rng.randint(0, 25)
    bases = random_sequence(rng, front) + bases + random_sequence(rng, rng.randint(0, 25))
    if kind > 0.93:
        bases = random_sequence(rng, rng.randint(0, 50))
    elif kind > 0.90:
        bases = reverse_complement((bases, [0] * len(bases)))[0]
    elif kind > 0.85:
        bases = bases[rng.randint(0, len(bases)) :]
    elif kind > 0.80:
        bases = bases[: rng.randint(0, len(bases))]
    elif kind > 0.70:
        bases += instance(rng, rng.choice(rows).sides[side].symbols)
    elif kind > 0.68:
        bases = damaged(rng, bases, 0.9)
    return bases, random_qualities(rng, len(bases))


def all_edges(keys: Any, length: int) -> tuple[Any, Any]:
    """Return the smaller and the larger row of every pair at distance 1."""
    batches = [(one.first.copy(), one.second.copy()) for one in neighbour_pairs(keys, length)]
    none = np.zeros(0, np.int64)
    first, second = zip(*[(none, none), *batches], strict=True)
    return np.concatenate(first), np.concatenate(second)
