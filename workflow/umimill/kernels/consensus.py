"""The vote: columns of a molecule's reads to bases and qualities, in whole numbers.

A plane sum holds votes in its low 39 bits and the number of reads that voted in the bits above, so
that depth and disagreement come with the likelihood: room for 16 million reads of Q93 a column.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inline_kernel, kernel, store_word
from umimill.kernels.bases import unpack_codes
from umimill.kernels.rows import (
    HAS_UNKNOWN,
    cold_words,
    hash_hot,
    hash_words,
)

U = np.uint64

VOTE_BITS = 39
VOTE_MASK = (1 << VOTE_BITS) - 1
# 2^24 votes of Q93 (23,044 units each) fill 39 bits; the sign bit is left alone.
MOST_READS = (1 << 24) - 1
UNKNOWN_LETTER = np.uint8(78)


class Model(NamedTuple):
    """Tables of consensus.make_model.

    Attributes:
        votes: i64[94], 2^39 + vote of a base by its Phred.
        losers: u64[*], 2^40 exp(-d / 1024).
        thresholds: u64[94], greatest p_error + floor of each quality.
        floor: 2^40 times the floor.
        errors: u64[*], 2^40 p_error of a column where all reads agree, by sum of votes.
        qualities: u8[*], its quality.
    """

    votes: Any
    losers: Any
    thresholds: Any
    floor: int
    errors: Any
    qualities: Any


class Batch(NamedTuple):
    """Rows in memory, from several runs.

    Attributes:
        hot: HOT[n].
        barcode_quality: u8[n, B].
        cold: u64[*].
        starts: i64[n], first cold word of each row.
        runs: i64[n], run of each row.
        bits: i64[runs], bits of a quality.
        levels: u8[runs, 4], quality levels.
    """

    hot: Any
    barcode_quality: Any
    cold: Any
    starts: Any
    runs: Any
    bits: Any
    levels: Any


class Votes(NamedTuple):
    """Buffers of a vote, wide enough for the longest read.

    Attributes:
        planes: i64[2, 4, width], sums by mate and base.
        barcode: i64[64], sums of the barcode's bases.
        column: i64[width + 64], votes of a read's columns.
        codes: u8[width + 64].
        qualities: u8[width + 64].
    """

    planes: Any
    barcode: Any
    column: Any
    codes: Any
    qualities: Any


@inline_kernel
def fill_votes(batch: Batch, run: int, at: int, length: int, model: Model, votes: Votes) -> int:
    """Turn `length` qualities of cold[at:] into votes.column; return the next word."""
    column_votes = votes.column
    levels = votes.qualities
    if batch.bits[run] == 8:
        for word in range((length + 7) >> 3):
            store_word(levels, 8 * word, batch.cold[at + word])
        for column in range(length):
            column_votes[column] = model.votes[levels[column]]
        return at + ((length + 7) >> 3)
    unpack_codes(batch.cold, at, length, levels)
    # A flush of fewer levels has 255 for the rest, which no quality refers to.
    vote_0 = model.votes[min(93, batch.levels[run, 0])]
    vote_1 = model.votes[min(93, batch.levels[run, 1])]
    vote_2 = model.votes[min(93, batch.levels[run, 2])]
    vote_3 = model.votes[min(93, batch.levels[run, 3])]
    for column in range(length):
        level = levels[column]
        lower = vote_0 if level == 0 else vote_1
        upper = vote_2 if level == 2 else vote_3
        column_votes[column] = lower if level < 2 else upper
    return at + ((length + 31) >> 5)


@inline_kernel
def add_plane(plane: Any, codes: Any, column_votes: Any, length: int, base: int) -> None:
    """Add the votes for one base. A loop a base: with four planes in one it is not vectorised."""
    zero = np.int64(0)
    for column in range(length):
        plane[column] += column_votes[column] if codes[column] == base else zero


@inline_kernel
def add_mate(
    batch: Batch, side: int, length: int, base_at: int, unknown_at: int, votes: Votes
) -> None:
    """Add the votes of one mate, which are in votes.column, to the sums of its bases."""
    codes = votes.codes
    unpack_codes(batch.cold, base_at, length, codes)
    if unknown_at >= 0:
        for column in range(length):
            word = batch.cold[unknown_at + (column >> 6)]
            if (word >> U(63 - (column & 63))) & U(1):
                codes[column] = 4
    for base in range(4):
        add_plane(votes.planes[side, base], codes, votes.column, length, base)


@inline_kernel
def add_row(batch: Batch, row: int, model: Model, votes: Votes) -> Any:
    """Add the votes of a row; return the hash of the row."""
    hot = batch.hot[row]
    length_1 = np.int64(hot["length_1"])
    length_2 = np.int64(hot["length_2"])
    flags = np.int64(hot["flags"])
    run = batch.runs[row]
    first = batch.starts[row]
    stop = first + cold_words(length_1, length_2, flags, batch.bits[run])
    base_at_2 = first + ((length_1 + 31) >> 5)
    unknown_1 = np.int64(-1)
    unknown_2 = np.int64(-1)
    if flags & HAS_UNKNOWN:
        unknown_2 = stop - ((length_2 + 63) >> 6)
        unknown_1 = unknown_2 - ((length_1 + 63) >> 6)
    at = fill_votes(batch, run, base_at_2 + ((length_2 + 31) >> 5), length_1, model, votes)
    add_mate(batch, 0, length_1, first, unknown_1, votes)
    if length_2 > 0:
        fill_votes(batch, run, at, length_2, model, votes)
        add_mate(batch, 1, length_2, base_at_2, unknown_2, votes)
    for position in range(np.int64(hot["cell_length"]) + np.int64(hot["umi_length"])):
        votes.barcode[position] += model.votes[batch.barcode_quality[row, position]]
    return hash_words(hash_hot(batch.hot, row, batch.barcode_quality), batch.cold, first, stop)


@inline_kernel
def clear_votes(votes: Votes, length_1: int, length_2: int) -> None:
    """Zero the sums of a new molecule."""
    for side in range(2):
        length = length_1 if side == 0 else length_2
        for base in range(4):
            for column in range(length):
                votes.planes[side, base, column] = 0
    votes.barcode[:] = 0


@inline_kernel
def best_base(first: int, second: int, third: int, fourth: int) -> tuple[int, int]:
    """Return the greatest of four sums of votes and its base, the first of equals."""
    best = first
    base = 0
    if second > best:
        best = second
        base = 1
    if third > best:
        best = third
        base = 2
    if fourth > best:
        best = fourth
        base = 3
    return best, base


@inline_kernel
def split_error(planes: Any, side: int, column: int, base: int, won: int, model: Model) -> Any:
    """Return 2^40 p_error of a column where reads disagree."""
    last = model.losers.size - 1
    rest = U(0)
    for other in range(4):
        if other != base:
            behind = won - (planes[side, other, column] & VOTE_MASK)
            rest += model.losers[min(last, behind)]
    return (rest << U(20)) // ((U(1 << 40) + rest) >> U(20))


@inline_kernel
def call_side(
    votes: Votes,
    side: int,
    length: int,
    model: Model,
    at: int,
    letters: Any,
    qualities: Any,
    molecule: Any,
) -> int:
    """Call the columns of one mate into letters[at:] and qualities[at:]; add up the molecule.

    Returns:
        Sum of the qualities of called columns.
    """
    planes = votes.planes
    last = model.losers.size - 1
    total = np.int64(0)
    error_sum = U(0)
    base_votes = np.int64(0)
    agreed = np.int64(0)
    called = np.int64(0)
    depth_min = np.int64(molecule["depth_min"])
    depth_max = np.int64(molecule["depth_max"])
    for column in range(length):
        sum_0, sum_1 = planes[side, 0, column], planes[side, 1, column]
        sum_2, sum_3 = planes[side, 2, column], planes[side, 3, column]
        won, base = best_base(
            sum_0 & VOTE_MASK, sum_1 & VOTE_MASK, sum_2 & VOTE_MASK, sum_3 & VOTE_MASK
        )
        together = sum_0 + sum_1 + sum_2 + sum_3
        depth = together >> VOTE_BITS
        base_votes += depth
        if won == 0:
            # No base seen, or none that says anything: unknown, not A.
            letters[at + column] = UNKNOWN_LETTER
            qualities[at + column] = 2 + 33
            continue
        depth_min = min(depth_min, depth)
        depth_max = max(depth_max, depth)
        agreed += planes[side, base, column] >> VOTE_BITS
        called += 1
        if won == together & VOTE_MASK:
            difference = min(won, last)
            error_sum += model.errors[difference]
            quality = np.int64(model.qualities[difference])
        else:
            error = split_error(planes, side, column, base, won, model)
            error_sum += error
            quality = np.int64(2)
            while quality < 93 and error + U(model.floor) <= model.thresholds[quality + 1]:
                quality += 1
        letters[at + column] = np.uint8((0x54474341 >> (8 * base)) & 255)
        qualities[at + column] = quality + 33
        total += quality
    molecule["depth_min"] = depth_min
    molecule["depth_max"] = depth_max
    molecule["error_sum"] += error_sum
    molecule["base_votes"] += U(base_votes)
    molecule["disagreements"] += U(base_votes - agreed)
    molecule["called"] += called
    return total


@inline_kernel
def call_molecule(
    votes: Votes,
    molecule: Any,
    model: Model,
    at: int,
    letters: Any,
    qualities: Any,
    umi_qualities: Any,
) -> None:
    """Call both mates and the UMI's qualities from finished sums."""
    length_1 = np.int64(molecule["length_1"])
    length_2 = np.int64(molecule["length_2"])
    molecule["depth_min"] = np.uint32(0xFFFFFFFF)
    molecule["depth_max"] = 0
    molecule["error_sum"] = U(0)
    molecule["base_votes"] = U(0)
    molecule["disagreements"] = U(0)
    molecule["called"] = 0
    molecule["quality_sum_1"] = call_side(
        votes, 0, length_1, model, at, letters, qualities, molecule
    )
    molecule["quality_sum_2"] = call_side(
        votes, 1, length_2, model, at + length_1, letters, qualities, molecule
    )
    if molecule["called"] == 0:
        molecule["depth_min"] = 0
    last = model.qualities.size - 1
    cell = np.int64(molecule["cell_length"])
    for position in range(np.int64(molecule["umi_length"])):
        won = min(votes.barcode[cell + position] & VOTE_MASK, last)
        umi_qualities[position] = model.qualities[won] + 33


@kernel
def call_molecules(
    batch: Batch,
    order: Any,
    given: Any,
    molecules: Any,
    model: Model,
    votes: Votes,
    letters: Any,
    qualities: Any,
    umi_qualities: Any,
    hash_sums: Any,
) -> None:
    """Vote on every molecule of a batch.

    Args:
        batch: rows.
        order: i64[*], rows by molecule.
        given: i64[n], -1 where a row lies in a partition file, else it came from an outbox.
        molecules: MOLECULE[m], from order_rows; filled with what was called and `offset`; those
            that are not kept are hashed alone.
        model: tables.
        votes: buffers.
        letters: u8[*], bases of molecule after molecule, mate 1 then mate 2.
        qualities: u8[*], their quality characters.
        umi_qualities: u8[m, 32], quality characters of the UMI.
        hash_sums: u64[2, S], row hashes are added: of partition files, and of outboxes.
    """
    at = np.int64(0)
    for number in range(molecules.size):
        molecule = molecules[number]
        length_1 = np.int64(molecule["length_1"])
        length_2 = np.int64(molecule["length_2"])
        clear_votes(votes, length_1, length_2)
        first = np.int64(molecule["first"])
        sample = molecule["sample"]
        for index in range(first, first + np.int64(molecule["reads"])):
            row = order[index]
            moved = np.int64(given[row] >= 0)
            hash_sums[moved, sample] += add_row(batch, row, model, votes)
        molecule["offset"] = at
        if molecule["kept"] == 0:
            continue
        call_molecule(votes, molecule, model, at, letters, qualities, umi_qualities[number])
        at += length_1 + length_2


@kernel
def add_rows(
    batch: Batch, rows: Any, start: int, model: Model, votes: Votes, hash_sums: Any
) -> None:
    """Add rows of one molecule too large for memory; start = 1 begins it.

    Args:
        batch: rows.
        rows: i64[*], those of the molecule.
        start: 1 where they are its first.
        model: tables.
        votes: sums.
        hash_sums: u64[S], row hashes are added.
    """
    if start == 1:
        clear_votes(votes, votes.planes.shape[2], votes.planes.shape[2])
    for index in range(rows.size):
        row = rows[index]
        hash_sums[batch.hot[row]["sample"]] += add_row(batch, row, model, votes)


@kernel
def call_single(
    molecules: Any,
    number: int,
    model: Model,
    votes: Votes,
    at: int,
    letters: Any,
    qualities: Any,
    umi_qualities: Any,
) -> int:
    """Call the molecule whose votes add_rows summed, into letters[at:]; return the next place."""
    molecule = molecules[number]
    molecule["offset"] = at
    call_molecule(votes, molecule, model, at, letters, qualities, umi_qualities[number])
    return at + np.int64(molecule["length_1"]) + np.int64(molecule["length_2"])
