"""Rows whose family was corrected, copied under the key of their root."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inline_kernel, kernel, store_word
from umimill.kernels.bases import unpack_codes
from umimill.kernels.consensus import Batch
from umimill.kernels.rows import HAS_UNKNOWN, cold_words, hash_hot, hash_words

U = np.uint64


class Staged(NamedTuple):
    """The arrays of a partition_writer.Staging of an outbox.

    Attributes:
        hot: HOT[rows].
        moved: MOVED[rows].
        barcode_quality: u8[rows, B].
        starts: i64[rows].
        cold: u64[words].
        fill: i64[2], rows and words used.
        seen: u8[94].
    """

    hot: Any
    moved: Any
    barcode_quality: Any
    starts: Any
    cold: Any
    fill: Any
    seen: Any


@inline_kernel
def widen_qualities(
    batch: Batch, run: int, source: int, length: int, cold: Any, at: int, seen: Any, scratch: Any
) -> int:
    """Write `length` qualities of batch.cold[source:] to cold[at:], 8 bits each.

    Returns:
        The word of batch.cold behind them.
    """
    whole = (length + 7) >> 3
    if batch.bits[run] == 8:
        for word in range(whole):
            cold[at + word] = batch.cold[source + word]
            store_word(scratch, 8 * word, batch.cold[source + word])
        for position in range(length):
            seen[scratch[position]] = 1
        return source + whole
    unpack_codes(batch.cold, source, length, scratch)
    for word in range(whole):
        packed = U(0)
        for place in range(8):
            position = 8 * word + place
            if position < length:
                value = batch.levels[run, scratch[position]]
                seen[value] = 1
                packed |= U(value) << U(8 * place)
        cold[at + word] = packed
    return source + ((length + 31) >> 5)


@inline_kernel
def row_hash(batch: Batch, row: int) -> Any:
    """Return the hash of a row as it is in its file."""
    source = batch.hot[row]
    first = batch.starts[row]
    stop = first + cold_words(
        np.int64(source["length_1"]),
        np.int64(source["length_2"]),
        np.int64(source["flags"]),
        batch.bits[batch.runs[row]],
    )
    return hash_words(hash_hot(batch.hot, row, batch.barcode_quality), batch.cold, first, stop)


@inline_kernel
def has_room(source: Any, staging: Staged) -> bool:
    """Return whether a row fits into the staging."""
    words = cold_words(
        np.int64(source["length_1"]), np.int64(source["length_2"]), np.int64(source["flags"]), 8
    )
    return staging.fill[0] < staging.hot.size and staging.fill[1] + words + 8 <= staging.cold.size


@inline_kernel
def stage_row(
    batch: Batch,
    row: int,
    key: Any,
    family: Any,
    original_family: Any,
    staging: Staged,
    scratch: Any,
    hash_sums: Any,
) -> None:
    """Copy a row to the staging under another key; the caller made sure that it fits."""
    source = batch.hot[row]
    run = batch.runs[row]
    length_1 = np.int64(source["length_1"])
    length_2 = np.int64(source["length_2"])
    first = batch.starts[row]
    stop = first + cold_words(length_1, length_2, np.int64(source["flags"]), batch.bits[run])
    hash_sums[source["sample"]] += row_hash(batch, row)
    place = staging.fill[0]
    at = staging.fill[1]
    staging.hot[place] = source
    staging.hot[place]["key"] = key
    staging.moved[place]["original_key"] = source["key"]
    staging.moved[place]["family"] = family
    staging.moved[place]["original_family"] = original_family
    differs = U(source["key"]) ^ U(key)
    for position in range(staging.barcode_quality.shape[1]):
        # A base that was not read so says nothing for the barcode that it is corrected to.
        read = (differs >> U(62 - 2 * (position))) & U(3) == U(0)
        quality = batch.barcode_quality[row, position]
        staging.barcode_quality[place, position] = quality if read else np.uint8(0)
    staging.starts[place] = at
    base_words = ((length_1 + 31) >> 5) + ((length_2 + 31) >> 5)
    for word in range(base_words):
        staging.cold[at + word] = batch.cold[first + word]
    at += base_words
    behind = widen_qualities(
        batch, run, first + base_words, length_1, staging.cold, at, staging.seen, scratch
    )
    at += (length_1 + 7) >> 3
    if length_2 > 0:
        behind = widen_qualities(
            batch, run, behind, length_2, staging.cold, at, staging.seen, scratch
        )
        at += (length_2 + 7) >> 3
    if np.int64(source["flags"]) & HAS_UNKNOWN:
        for word in range(behind, stop):
            staging.cold[at] = batch.cold[word]
            at += 1
    staging.fill[0] = place + 1
    staging.fill[1] = at


@kernel
def stage_moved(
    batch: Batch,
    first_row: int,
    families: Any,
    fates: Any,
    family_of: Any,
    staging: Staged,
    scratch: Any,
    hash_sums: Any,
) -> int:
    """Stage the rows of corrected families until the staging is full.

    Args:
        batch: rows sorted by key.
        first_row: row to begin with.
        families: FAMILY[*] that hold the keys of the batch.
        fates: FATE[*], their fates.
        family_of: i64[rows], the number of each row's family.
        staging: rows are added.
        scratch: u8[>= longest read + 64].
        hash_sums: u64[S], hashes of the staged rows as they were read.

    Returns:
        The first row not yet looked at.
    """
    for row in range(first_row, batch.hot.size):
        fate = fates[family_of[row]]
        if fate["moved"] == 0:
            continue
        if not has_room(batch.hot[row], staging):
            return row
        stage_row(
            batch,
            row,
            fate["root_key"],
            fate["root_family"],
            families[family_of[row]]["family"],
            staging,
            scratch,
            hash_sums,
        )
    return batch.hot.size


@kernel
def stage_placed(
    batch: Batch,
    order: Any,
    start: int,
    first_row: int,
    places: Any,
    staging: Staged,
    scratch: Any,
    hash_sums: Any,
) -> int:
    """Stage the rows that were placed until the staging is full.

    Args:
        batch: rows whose barcode was not fully read.
        order: i64[n], their order by key.
        start: place in the order to begin with.
        first_row: number of the first row in that order, in its bucket.
        places: PLACE[*], by row; those of the batch.
        staging: rows are added.
        scratch: u8[>= longest read + 64].
        hash_sums: u64[S], hashes of all rows that were looked at, placed or not.

    Returns:
        The first place in the order not yet looked at.
    """
    at = 0
    for index in range(start, order.size):
        row = order[index]
        source = batch.hot[row]
        while at < places.size and np.int64(places[at]["row"]) < first_row + index:
            at += 1
        if at == places.size or np.int64(places[at]["row"]) > first_row + index:
            hash_sums[source["sample"]] += row_hash(batch, row)
            continue
        if not has_room(source, staging):
            return index
        place = staging.fill[0]
        found = places[at]
        # Its barcode as it was read has one family, see family_tables.partials_table.
        stage_row(
            batch,
            row,
            found["root_key"],
            found["root_family"],
            0,
            staging,
            scratch,
            hash_sums,
        )
        staging.hot[place]["umi_length"] = found["umi_length"]
        for position in range(staging.barcode_quality.shape[1]):
            # Of a barcode with a base less or more it is not known which of its bases are which.
            unread = (U(source["n_mask"]) >> U(position)) & U(1) == U(1)
            if unread or found["shift"] != 0:
                staging.barcode_quality[place, position] = 0
    return order.size
