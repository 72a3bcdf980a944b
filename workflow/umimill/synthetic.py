"""Parts of made-up reads: draws, quality chains, read names, FASTQ text, gzip files.

Shared by the simulator and the benchmark corpora; knows nothing of UMIs. Every draw is made from
the raw 64-bit words of numpy's PCG64, whose stream numpy guarantees (the methods of `Generator` may
change between releases), and from integer thresholds, so that no rounding of a float decides.
"""

import math
import os
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from umimill.deflate import GZIP, deflate

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

ALPHABET = np.frombuffer(b"ACGT", np.uint8)
INSTRUMENT = b"A01234:56:HSIMUDSXX:1:"
COMMENT = (b" 1:N:0:GTCAGATC+CTAGGTAC", b" 2:N:0:GTCAGATC+CTAGGTAC")
TILES = np.array([1000 * side + 100 * row + tile for side in (1, 2) for row in (1, 2, 3, 4)
                  for tile in range(1, 79)], np.int64)  # fmt: skip
TILE_WIDTH, TILE_HEIGHT = 32_000, 36_000  # x and y of a NovaSeq name run from about 1000 to this


def draw_words(source: np.random.PCG64, *shape: int) -> Words:
    """Return the next raw words of the source, uint64 of the given shape."""
    return np.asarray(source.random_raw(math.prod(shape)), np.uint64).reshape(shape)


def draw_below(source: np.random.PCG64, bound: int | Integers, *shape: int) -> Integers:
    """Return uniform integers in [0, bound), int64 of the given shape; bound < 2^31, may vary."""
    words = draw_words(source, *shape) >> np.uint64(32)
    return ((words * np.asarray(bound, np.uint64)) >> np.uint64(32)).astype(np.int64)


def draw_hits(source: np.random.PCG64, probability: float, *shape: int) -> Flags:
    """Return independent events of one probability, bool of the given shape."""
    return (draw_words(source, *shape) >> np.uint64(11)) < np.uint64(round(probability * 2**53))


def draw_class(source: np.random.PCG64, weights: Sequence[float], *shape: int) -> Integers:
    """Return classes drawn with probability proportional to their weights, int64."""
    cuts = np.array(cumulative_cuts(weights, 2**53)[1:-1], np.uint64)
    words = draw_words(source, *shape) >> np.uint64(11)
    return np.searchsorted(cuts, words, side="right")


def cumulative_cuts(weights: Sequence[float], scale: int) -> list[int]:
    """Return floor(scale * sum(weights[:k]) / sum(weights)) for k = 0 .. len(weights).

    Each sum is exact and then rounded once, as math.fsum would do over again for every k.
    """
    ratios = [weight.as_integer_ratio() for weight in weights]
    unit = max((below for _, below in ratios), default=1)
    exact = accumulate((above * (unit // below) for above, below in ratios), initial=0)
    sums = [number / unit for number in exact]
    return [int(scale * part / sums[-1]) for part in sums]


def draw_family_sizes(
    source: np.random.PCG64, count: int, mean_reads: float, sigma_reads: float
) -> Integers:
    """Return reads per molecule, lognormal with this mean, rounded to the nearest; may be 0.

    Args:
        source: Where the words come from, one a molecule.
        count: Number of molecules.
        mean_reads: Mean of the lognormal, in reads.
        sigma_reads: Standard deviation of its logarithm.
    """
    centre = math.log(mean_reads) - sigma_reads**2 / 2
    uniform = ((draw_words(source, count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    normal = NormalDist()
    sizes = [
        math.floor(math.exp(centre + sigma_reads * normal.inv_cdf(value)) + 0.5)
        for value in uniform.tolist()
    ]
    return np.array(sizes, np.int64)


def phred_errors(levels: Sequence[int]) -> list[float]:
    """Return the error probability 10^(-q/10) of each Phred level."""
    return [10.0 ** (-level / 10) for level in levels]


def draw_qualities(
    source: np.random.PCG64,
    reads: int,
    cycles: int,
    levels: Sequence[int],
    shares: Sequence[float],
    persistence: float,
) -> tuple[Bytes, Flags]:
    """Draw qualities by a Markov chain along the read, and sequencing errors from them.

    The first level comes from `shares`; a next one is the one before with probability
    `persistence`, else comes from `shares` again: every cycle has these shares.

    Args:
        source: Where the words come from, one a base: the high half decides the quality, the low
            half the error.
        reads: Number of rows.
        cycles: Bases a read.
        levels: Phred levels.
        shares: Stationary share of each level.
        persistence: Probability that a base keeps the level of the one before.

    Returns:
        Phred values, uint8, and where a base is wrong, bool; both (reads, cycles).
    """
    words = draw_words(source, reads, cycles)
    high, low = (words >> np.uint64(32)).astype(np.uint32), words.astype(np.uint32)
    keep = int(persistence * 2**32)
    first = np.array(cumulative_cuts(shares, 2**32)[1:-1], np.int64)
    later = np.array([keep + cut for cut in cumulative_cuts(shares, 2**32 - keep)[1:-1]], np.int64)
    fresh = high >= np.uint32(keep)
    fresh[:, 0] = True
    chosen = np.zeros((reads, cycles), np.uint8)
    chosen[fresh] = np.searchsorted(later, high[fresh].astype(np.int64), side="right")
    chosen[:, 0] = np.searchsorted(first, high[:, 0].astype(np.int64), side="right")
    places = np.where(fresh, np.arange(cycles, dtype=np.int16), np.int16(0))
    origin = np.maximum.accumulate(places, axis=1)
    drawn = np.take_along_axis(chosen, origin.astype(np.intp), axis=1)
    limits = np.array([round(error * 2**32) for error in phred_errors(levels)], np.uint64)
    wrong = low < np.minimum(limits, 2**32 - 1).astype(np.uint32)[drawn]
    return np.array(levels, np.uint8)[drawn], wrong


def replace_bases(source: np.random.PCG64, codes: Bytes, wrong: Flags) -> None:
    """Replace the marked base codes, in place, by one of the three others."""
    hits = np.flatnonzero(wrong)
    flat = codes.reshape(-1)
    flat[hits] = (flat[hits] + 1 + draw_below(source, 3, hits.size)) & 3


def coordinate_names(
    source: np.random.PCG64, start: int, stop: int, total: int
) -> npt.NDArray[np.bytes_]:
    """Return NovaSeq-like names of reads start .. stop - 1 out of total, without @ and comment.

    Reads fill the tiles of one lane in order and lie evenly on each, y rising, so that no two names
    are equal. One word a name.
    """
    if stop <= start:
        return np.zeros(0, "S1")
    per_tile = -(-total // TILES.size)
    room = TILE_WIDTH * TILE_HEIGHT // per_tile
    record = np.arange(start, stop)
    place = record % per_tile * room + draw_below(source, room, record.size)
    columns = (TILES[record // per_tile], place % TILE_WIDTH + 1000, place // TILE_WIDTH + 1000)
    text = np.zeros((record.size, len(INSTRUMENT) + 17), np.uint8)
    text[:, : len(INSTRUMENT)] = np.frombuffer(INSTRUMENT, np.uint8)
    end = len(INSTRUMENT)
    for numbers, width, mark in zip(columns, (4, 5, 5), b"::\n", strict=True):
        for digit in range(width):
            power = 10 ** (width - 1 - digit)
            text[:, end + digit] = np.where(numbers >= power, numbers // power % 10 + 48, 0)
        text[:, end + width] = mark
        end += width + 1
    return np.array(text[text != 0].tobytes().split())


def fastq_text(
    names: npt.NDArray[np.bytes_], comment: bytes, bases: Bytes, qualities: Bytes
) -> bytes:
    """Return the FASTQ text of n reads of one length.

    Args:
        names: (n,) bytes without @.
        comment: What follows every name, its leading blank included.
        bases: (n, cycles) uint8, ASCII.
        qualities: (n, cycles) uint8, Phred + 33.
    """
    width, cycles = names.itemsize, bases.shape[1]
    letters = np.ascontiguousarray(names).view(np.uint8).reshape(names.size, width)
    parts: list[bytes | Bytes] = [b"@", letters, comment + b"\n", bases, b"\n+\n", qualities, b"\n"]
    rows = np.zeros((names.size, 1 + width + len(comment) + 1 + cycles + 3 + cycles + 1), np.uint8)
    start = 0
    for part in parts:
        block = np.frombuffer(part, np.uint8) if isinstance(part, bytes) else part
        rows[:, start : start + block.shape[-1]] = block
        start += block.shape[-1]
    text: Bytes = rows[rows != 0]
    return text.tobytes()


def write_gzip(path: Path, blocks: Iterable[bytes]) -> None:
    """Write blocks of text as one gzip member: ISA-L level 1, no name, no time.

    The bytes depend on the blocks and the version of isal, not on the machine. The file gets its
    name when it is complete.
    """
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        with unfinished.open("wb") as handle:
            handle.writelines(deflate(blocks, GZIP))
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
