"""Rows of partition files, packed by other means than the package's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from stage_fixture import Row, random_bases
from umimill.partition import HOT, Leaves
from umimill.partition_writer import PartitionWriter, Staging

HAS_UNKNOWN = 32
MASK = (1 << 64) - 1
BARCODE_WIDTH = 20


def packed(bases: str, per_word: int = 32) -> list[int]:
    """Pack bases, 32 a word, the first highest."""
    words = []
    for start in range(0, len(bases), per_word):
        word = 0
        for place, base in enumerate(bases[start : start + per_word]):
            word |= "ACGT".index(base) << (62 - 2 * place)
        words.append(word)
    return words


def cold_words(row: Row) -> list[int]:
    """Pack a row as checkout stages it: bases, 8-bit qualities, masks where there is an N."""
    mates = row[7]
    words = [word for bases, _ in mates for word in packed(bases.replace("N", "A"))]
    for _, qualities in mates:
        padded = qualities + bytes(-len(qualities) % 8)
        words += np.frombuffer(padded, "<u8").tolist()
    if row[3] & HAS_UNKNOWN:
        for bases, _ in mates:
            for start in range(0, len(bases), 64):
                bits = "".join("01"[base == "N"] for base in bases[start : start + 64])
                words.append(int(bits.ljust(64, "0"), 2))
    return words


def met_levels(rows: Iterable[Row]) -> list[int]:
    """Return the quality values of the payloads of rows."""
    return sorted({one for row in rows for _, qualities in row[7] for one in qualities})


def file_words(row: Row, levels: Sequence[int]) -> list[int]:
    """Pack a row as it lies in the file: up to four levels take 2 bits, in ascending order."""
    words = cold_words(row)
    if len(levels) > 4:
        return words
    mates = row[7]
    start = sum(-(-len(bases) // 32) for bases, _ in mates)
    stop = start + sum(-(-len(bases) // 8) for bases, _ in mates)
    squeezed = [
        word
        for _, qualities in mates
        for word in packed("".join("ACGT"[levels.index(one)] for one in qualities))
    ]
    return words[:start] + squeezed + words[stop:]


def row_hash(row: Row, levels: Sequence[int]) -> int:
    """Hash a row as it lies in the file: word after word, xor, multiply, fold."""

    def mix(state: int, word: int) -> int:
        state = ((state ^ word) * 0xD6E8FEB86659FD93) & MASK
        return state ^ (state >> 32)

    sample, barcode, cell, flags, unit, record, qualities, mates = row
    lengths = [len(bases) for bases, _ in mates]
    state = 0x9E3779B97F4A7C15
    (key,) = packed(barcode) or [0]
    umi = len(barcode) - cell
    for word in (
        key,
        record | unit << 32 | sample << 48,
        lengths[0] | lengths[1] << 32,
        flags << 32 | umi << 48 | cell << 56,
    ):
        state = mix(state, word)
    word = 0
    for place, quality in enumerate(qualities):
        word = ((word << 8) | quality) & MASK
        if place % 8 == 7:
            state, word = mix(state, word), 0
    state = mix(state, word)
    for word in file_words(row, levels):
        state = mix(state, word)
    return state


def stage(rows: Sequence[Row]) -> Staging:
    """Put rows into a staging area."""
    staging = Staging(1, BARCODE_WIDTH, 8)
    staging.hot = np.zeros(len(rows), HOT)
    staging.barcode_quality = np.zeros((len(rows), BARCODE_WIDTH), np.uint8)
    staging.starts = np.zeros(len(rows), np.int64)
    cold: list[int] = []
    for place, row in enumerate(rows):
        sample, barcode, cell, flags, unit, record, qualities, mates = row
        hot = staging.hot[place]
        hot["key"] = (packed(barcode) or [0])[0]
        hot["record"], hot["unit"], hot["sample"], hot["flags"] = record, unit, sample, flags
        hot["length_1"], hot["length_2"] = (len(bases) for bases, _ in mates)
        hot["cell_length"], hot["umi_length"] = cell, len(barcode) - cell
        staging.barcode_quality[place] = list(qualities)
        staging.starts[place] = len(cold)
        cold += cold_words(row)
        for _, mate_qualities in mates:
            staging.seen[list(set(mate_qualities))] = 1
    staging.cold = np.array(cold, np.uint64)
    staging.fill[:] = len(rows), len(cold)
    return staging


def make_rows(
    rng: np.random.Generator,
    lengths: Iterable[tuple[int, int]],
    barcodes: Sequence[tuple[int, int, int]],
    levels: Sequence[int],
    *,
    unknown: float,
    umis: int = 4,
) -> list[Row]:
    """Make rows of barcodes (sample, cell bases, UMI bases)."""
    rows = []
    # A barcode of A alone has the key of every longer one.
    pool = ["A" * 32, *(random_bases(rng, 32, b"ACGT").decode() for _ in range(umis - 1))]
    for pair in lengths:
        sample, cell, umi = barcodes[rng.integers(len(barcodes))]
        barcode = pool[rng.integers(umis)][: cell + umi]
        mates = []
        for length in pair:
            letters = np.frombuffer(random_bases(rng, length), np.uint8).copy()
            letters[rng.random(length) < unknown] = ord("N")
            mates.append((letters.tobytes().decode(), bytes(rng.choice(levels, length).tolist())))
        flags = int(rng.integers(HAS_UNKNOWN))
        flags |= HAS_UNKNOWN * any("N" in bases for bases, _ in mates)
        scores = rng.integers(0, 94, cell + umi).tolist() + [0] * (BARCODE_WIDTH - cell - umi)
        unit, record = int(rng.integers(1 << 16)), int(rng.integers(1 << 32))
        rows.append((sample, barcode, cell, flags, unit, record, bytes(scores), tuple(mates)))
    return rows


def write_rows(path: Path, flushes: Iterable[Sequence[Row]], leaves: Leaves) -> Path:
    """Write a partition file."""
    with PartitionWriter(path, leaves, BARCODE_WIDTH) as writer:
        for rows in flushes:
            staging = stage(rows)
            writer.flush(staging)
            assert not staging.fill.any()
            assert not staging.seen.any()
        writer.finish({"samples": [f"S{number}" for number in range(len(leaves.widths))]})
    return path


def order_of(row: Row) -> tuple[int, str, int]:
    """Return what rows are sorted by."""
    return row[0], row[1].ljust(32, "A"), len(row[1])


def leaf_of(row: Row, leaves: Leaves) -> int:
    """Return the leaf of a row."""
    digits = row[1].ljust(32, "A")[: leaves.widths[row[0]]]
    leaf = 0
    for base in digits:
        leaf = 4 * leaf + "ACGT".index(base)
    return leaf + sum(4**width for width in leaves.widths[: row[0]])


LENGTHS = st.one_of(
    st.integers(0, 70), st.sampled_from([0, 31, 32, 33, 63, 64, 65, 128, 1000, 4999, 5000])
)
QUALITIES = st.one_of(
    st.lists(st.integers(0, 93), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(0, 93), min_size=5, max_size=94, unique=True),
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[Row]], Leaves]:
    """Draw the rows of some flushes, and their leaves."""
    barcodes: list[tuple[int, int, int]] = []
    widths = []
    for sample in range(draw(st.integers(1, 3))):
        # A sample may have UMIs of several lengths: its width is that of the shortest.
        cell = draw(st.sampled_from([0, 0, 3]))
        umis = draw(st.lists(st.integers(1, 17), min_size=1, max_size=2))
        barcodes += [(sample, cell, umi) for umi in umis]
        widths.append(min(4, (cell + min(umis)) // 2))
    paired = draw(st.booleans())
    flushes = []
    for _ in range(draw(st.integers(0, 4))):
        lengths = draw(st.lists(st.tuples(LENGTHS, LENGTHS if paired else st.just(0)), max_size=25))
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        unknown = draw(st.sampled_from([0.0, 0.02, 0.5, 1.0]))
        flushes.append(make_rows(rng, lengths, barcodes, draw(QUALITIES), unknown=unknown))
    return flushes, Leaves(tuple(widths))
