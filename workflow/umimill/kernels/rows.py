"""Packed rows: sizes, hashes, sorting, and the two forms of qualities.

A row is in two groups. Hot: one record of the `HOT` dtype (partition.py) and its barcode qualities.
Cold: u64 words, mate 1 then mate 2 in each of three parts: bases (32 a word), qualities (8 a word,
or 32 where the flush has at most four levels), and, with the flag HAS_UNKNOWN, a mask of unknown
bases (64 a word, the first base in the highest bit).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import inline_kernel, kernel, load_word, merged_kernel, prefetch, store_word
from umimill.kernels.bases import gather_eight

U = np.uint64

# Bits of HOT["flags"].
SWAPPED, REVERSED, STRAND, SHIFT_PLUS, SHIFT_MINUS, HAS_UNKNOWN = 1, 2, 4, 8, 16, 32

# Rows are fetched from memory in the order of their keys, which is random: asked for so many rows
# ahead, their cache lines come in while others are encoded.
PREFETCH_ROWS = 12

HASH_MULTIPLIER = U(0xD6E8FEB86659FD93)


@inline_kernel
def mix(state: Any, word: Any) -> Any:
    """Take one word into a running hash (xor, multiply, fold)."""
    state = (state ^ word) * HASH_MULTIPLIER
    return state ^ (state >> U(32))


@inline_kernel
def cold_words(length_1: int, length_2: int, flags: int, quality_bits: int) -> int:
    """Return the cold words of a row with these lengths and qualities of 2 or 8 bits."""
    words = ((length_1 + 31) >> 5) + ((length_2 + 31) >> 5)
    if quality_bits == 2:
        words += words
    else:
        words += ((length_1 + 7) >> 3) + ((length_2 + 7) >> 3)
    if flags & HAS_UNKNOWN:
        words += ((length_1 + 63) >> 6) + ((length_2 + 63) >> 6)
    return words


@kernel
def fill_cold_starts(hot: Any, count: int, quality_bits: int, first: int, starts: Any) -> int:
    """Fill starts, i64[>= count], with each row's first cold word; return the end of the last."""
    at = np.int64(first)
    for row in range(count):
        starts[row] = at
        at += cold_words(
            np.int64(hot[row]["length_1"]),
            np.int64(hot[row]["length_2"]),
            np.int64(hot[row]["flags"]),
            quality_bits,
        )
    return at


@merged_kernel
def hash_hot(hot: Any, row: int, barcode_quality: Any) -> Any:
    """Hash the hot group of a row."""
    entry = hot[row]
    state = mix(U(0x9E3779B97F4A7C15), U(entry["key"]))
    state = mix(
        state,
        U(entry["record"]) | (U(entry["unit"]) << U(32)) | (U(entry["sample"]) << U(48)),
    )
    state = mix(state, U(entry["length_1"]) | (U(entry["length_2"]) << U(32)))
    state = mix(
        state,
        U(entry["n_mask"])
        | (U(entry["flags"]) << U(32))
        | (U(entry["umi_length"]) << U(48))
        | (U(entry["cell_length"]) << U(56)),
    )
    word = U(0)
    for position in range(barcode_quality.shape[1]):
        word = (word << U(8)) | U(barcode_quality[row, position])
        if position & 7 == 7:
            state = mix(state, word)
            word = U(0)
    return mix(state, word)


@merged_kernel
def hash_words(state: Any, words: Any, start: int, stop: int) -> Any:
    """Take words[start:stop] into a hash."""
    for index in range(start, stop):
        state = mix(state, words[index])
    return state


@kernel
def radix_sort(keys: Any, order: Any, other_keys: Any, other_order: Any, places: Any) -> None:
    """Sort pairs by key, stable, 8 bits a pass, passing over bytes that all keys share.

    4.5-9 ns a row against 49-63 of numpy's sort. The result is in keys and order.

    Args:
        keys: u64[n].
        order: i64[n], what goes with each key.
        other_keys: u64[n], scratch.
        other_order: i64[n], scratch.
        places: i64[256], scratch.
    """
    count = keys.size
    if count == 0:
        return
    varying = U(0)
    for index in range(count):
        varying |= keys[index] ^ keys[0]
    in_place = True
    for byte in range(8):
        shift = U(8 * byte)
        if (varying >> shift) & U(0xFF) == U(0):
            continue
        from_keys, from_order = (keys, order) if in_place else (other_keys, other_order)
        to_keys, to_order = (other_keys, other_order) if in_place else (keys, order)
        places[:] = 0
        for index in range(count):
            places[np.int64((from_keys[index] >> shift) & U(0xFF))] += 1
        total = np.int64(0)
        for digit in range(256):
            held = places[digit]
            places[digit] = total
            total += held
        for index in range(count):
            digit = np.int64((from_keys[index] >> shift) & U(0xFF))
            place = places[digit]
            places[digit] = place + 1
            to_keys[place] = from_keys[index]
            to_order[place] = from_order[index]
        in_place = not in_place
    if not in_place:
        for index in range(count):
            keys[index] = other_keys[index]
            order[index] = other_order[index]


@kernel
def sort_rows(
    hot: Any,
    count: int,
    keys: Any,
    order: Any,
    other_keys: Any,
    other_order: Any,
    places: Any,
) -> None:
    """Order rows by (sample, key, barcode length, cell length), rows of one key as they came.

    Args:
        hot: HOT[>= count].
        count: rows.
        keys: u64[count], filled with the sorted keys of the last pass.
        order: i64[count], filled with row numbers in order.
        other_keys: u64[count], scratch.
        other_order: i64[count], scratch.
        places: i64[256], scratch.
    """
    samples_vary = False
    lengths_vary = False
    for row in range(count):
        order[row] = row
        keys[row] = hot[row]["key"]
        samples_vary |= hot[row]["sample"] != hot[0]["sample"]
        lengths_vary |= hot[row]["umi_length"] != hot[0]["umi_length"]
        lengths_vary |= hot[row]["cell_length"] != hot[0]["cell_length"]
    if lengths_vary:
        for row in range(count):
            cell = U(hot[row]["cell_length"])
            keys[row] = ((U(hot[row]["umi_length"]) + cell) << U(8)) | cell
        radix_sort(keys, order, other_keys, other_order, places)
        for row in range(count):
            keys[row] = hot[order[row]]["key"]
    radix_sort(keys, order, other_keys, other_order, places)
    if samples_vary:
        for row in range(count):
            keys[row] = U(hot[order[row]]["sample"])
        radix_sort(keys, order, other_keys, other_order, places)


@kernel
def gather_hot(
    hot: Any,
    barcode_quality: Any,
    order: Any,
    start: int,
    stop: int,
    hot_out: Any,
    barcode_quality_out: Any,
) -> None:
    """Copy the hot groups of rows order[start:stop] to the front of two arrays."""
    width = barcode_quality.shape[1]
    ahead = order.size - 1
    for index in range(start, stop):
        soon = order[min(index + PREFETCH_ROWS, ahead)]
        prefetch(hot, soon)
        prefetch(barcode_quality, soon * width)
        hot_out[index - start] = hot[order[index]]
        for position in range(width):
            barcode_quality_out[index - start, position] = barcode_quality[order[index], position]


@kernel
def count_leaves(
    hot: Any,
    order: Any,
    quality_bits: int,
    leaf_base: Any,
    leaf_shift: Any,
    row_before: Any,
    word_before: Any,
) -> None:
    """Fill the index of a flush: rows and cold words before each leaf.

    Args:
        hot: HOT[*].
        order: i64[n], the rows of the flush.
        quality_bits: 2 or 8.
        leaf_base: i64[S], first leaf of each sample.
        leaf_shift: u64[S], 64 - 2 w of each sample.
        row_before: i64[leaves + 1], filled.
        word_before: i64[leaves + 1], filled.
    """
    row_before[:] = 0
    word_before[:] = 0
    for index in range(order.size):
        entry = hot[order[index]]
        sample = entry["sample"]
        leaf = leaf_of(U(entry["key"]), leaf_base[sample], leaf_shift[sample])
        row_before[leaf + 1] += 1
        word_before[leaf + 1] += cold_words(
            np.int64(entry["length_1"]),
            np.int64(entry["length_2"]),
            np.int64(entry["flags"]),
            quality_bits,
        )
    for leaf in range(row_before.size - 1):
        row_before[leaf + 1] += row_before[leaf]
        word_before[leaf + 1] += word_before[leaf]


@merged_kernel
def leaf_of(key: Any, base: int, shift: Any) -> int:
    """Return the leaf of a key; a shift of 64 (w = 0) means one leaf."""
    if shift >= U(64):
        return base
    return base + np.int64(key >> shift)


@kernel
def encode_cold(
    hot: Any,
    barcode_quality: Any,
    starts: Any,
    cold: Any,
    order: Any,
    start: int,
    stop: int,
    levels: Any,
    quality_bits: int,
    cold_out: Any,
    scratch: Any,
    hash_sums: Any,
) -> int:
    """Write the cold groups of rows order[start:stop] as they go to the file, and hash the rows.

    Args:
        hot: HOT[*].
        barcode_quality: u8[*, B].
        starts: i64[*], each row's first word in `cold`.
        cold: u64[*], rows with 8-bit qualities.
        order: i64[*], row numbers.
        start: first entry of `order`.
        stop: end.
        levels: u8[4], ascending quality levels, used with 2 bits.
        quality_bits: 2 or 8.
        cold_out: u64[*], filled from its front.
        scratch: u8[>= longest read + 64].
        hash_sums: u64[S], row hashes are added to their sample's, modulo 2^64.

    Returns:
        Words written.
    """
    at = 0
    ahead = order.size - 1
    for index in range(start, stop):
        soon = order[min(index + PREFETCH_ROWS, ahead)]
        prefetch(hot, soon)
        prefetch(barcode_quality, soon * barcode_quality.shape[1])
        place = starts[soon]
        for line in range(3):
            prefetch(cold, min(place + 8 * line, cold.size - 1))
        row = order[index]
        length_1 = np.int64(hot[row]["length_1"])
        length_2 = np.int64(hot[row]["length_2"])
        first = starts[row]
        words = cold_words(length_1, length_2, np.int64(hot[row]["flags"]), np.int64(8))
        start_at = at
        base_words = ((length_1 + 31) >> 5) + ((length_2 + 31) >> 5)
        for word in range(base_words):
            cold_out[at + word] = cold[first + word]
        at += base_words
        source = first + base_words
        if quality_bits == 2:
            for side in range(2):
                length = length_1 if side == 0 else length_2
                at = squeeze_qualities(cold, source, length, levels, scratch, cold_out, at)
                source += (length + 7) >> 3
        else:
            raw_words = ((length_1 + 7) >> 3) + ((length_2 + 7) >> 3)
            for word in range(raw_words):
                cold_out[at + word] = cold[source + word]
            at += raw_words
            source += raw_words
        for word in range(first + words - source):
            cold_out[at + word] = cold[source + word]
        at += first + words - source
        hash_sums[hot[row]["sample"]] += hash_words(
            hash_hot(hot, row, barcode_quality), cold_out, start_at, at
        )
    return at


@merged_kernel
def squeeze_qualities(
    cold: Any, source: int, length: int, levels: Any, scratch: Any, out: Any, at: int
) -> int:
    """Write `length` 8-bit qualities of cold[source:] as 2-bit levels; return the next word."""
    whole = (length + 7) >> 3
    for word in range(whole):
        store_word(scratch, 8 * word, cold[source + word])
    level_1, level_2, level_3 = levels[1], levels[2], levels[3]
    for position in range(8 * whole):
        value = scratch[position]
        code = np.uint8(value >= level_1) + np.uint8(value >= level_2) + np.uint8(value >= level_3)
        scratch[position] = code
    for position in range(length, (length + 31) & ~31):
        scratch[position] = 0
    for word in range((length + 31) >> 5):
        packed = U(0)
        for quarter in range(4):
            bits = gather_eight(load_word(scratch, 32 * word + 8 * quarter))
            packed |= bits << U(48 - 16 * quarter)
        out[at] = packed
        at += 1
    return at


@kernel
def sum_bases(hot: Any, order: Any, bases: Any) -> None:
    """Add the payload bases of the rows in order, i64[n], to bases, i64[S]."""
    for index in range(order.size):
        row = order[index]
        bases[hot[row]["sample"]] += np.int64(hot[row]["length_1"]) + np.int64(hot[row]["length_2"])
