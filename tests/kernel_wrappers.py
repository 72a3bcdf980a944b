"""Inner kernels as functions that Python can call: they have no wrapper of their own for that.

With NUMBA_DISABLE_JIT=1 these are plain calls.
"""

from __future__ import annotations

from typing import Any

from umimill.jit import kernel
from umimill.kernels import (
    bases,
    cell_list,
    consensus,
    drafts,
    families,
    match,
    pairs,
    posterior,
    rows,
    search,
    windows,
)
from umimill.kernels import text as text_kernels


@kernel
def splitmix64(value: Any) -> Any:
    return bases.splitmix64(value)


@kernel
def pack_eight(word: Any) -> Any:
    return bases.pack_eight(word)


@kernel
def spread_eight(packed: Any) -> Any:
    return bases.spread_eight(packed)


@kernel
def gather_eight(codes: Any) -> Any:
    return bases.gather_eight(codes)


@kernel
def pack_text(buffer: Any, start: int, length: int, words: Any, first: int) -> None:
    bases.pack_text(buffer, start, length, words, first)


@kernel
def count_unknown(buffer: Any, start: int, length: int) -> Any:
    return bases.count_unknown(buffer, start, length)


@kernel
def unpack_codes(words: Any, first: int, length: int, codes: Any) -> None:
    bases.unpack_codes(words, first, length, codes)


@kernel
def log2_of(table: Any, count: int) -> Any:
    return match.log2_of(table, count)


@kernel
def weight_of(weights: Any, difference: int) -> Any:
    return posterior.weight_of(weights, difference)


@kernel
def shifted_word(words: Any, at: int) -> Any:
    return windows.shifted_word(words, at)


@kernel
def window_mismatches(words: Any, at: int, bases: Any, mask: Any) -> Any:
    return windows.window_mismatches(words, at, bases, mask)


@kernel
def low_quality_words(read: Any, letters: Any, least: int, scratch: Any, words: Any) -> None:
    windows.low_quality_words(read, letters, least, scratch, words)


@kernel
def list_rows(patterns: Any, read: Any, letters: Any, scratch: Any) -> int:
    return posterior.list_rows(patterns, read, letters, scratch)


@kernel
def match_anchored(
    patterns: Any, read_1: Any, read_2: Any, foreign: Any, letters: Any, scratch: Any
) -> Any:
    return posterior.match_anchored(patterns, read_1, read_2, foreign, letters, scratch)


@kernel
def match_searched(patterns: Any, read: Any, letters: Any, scratch: Any) -> Any:
    return search.match_searched(patterns, read, letters, scratch)


@kernel
def match_both_sides(
    patterns: Any, read_1: Any, read_2: Any, letters: Any, scratch: Any, places: Any
) -> Any:
    return pairs.match_both_sides(patterns, read_1, read_2, letters, scratch, places)


@kernel
def reverse_read(read: Any, complements: Any, text: Any) -> Any:
    """Return where the bases and the qualities of the read in `text` begin, and its length."""
    turned = search.reverse_read(read, complements, text)
    return turned.bases, turned.qualities, turned.length


@kernel
def mix(state: Any, word: Any) -> Any:
    return rows.mix(state, word)


@kernel
def cold_words(length_1: int, length_2: int, flags: int, quality_bits: int) -> Any:
    return rows.cold_words(length_1, length_2, flags, quality_bits)


@kernel
def leaf_of(key: Any, base: int, shift: Any) -> Any:
    return rows.leaf_of(key, base, shift)


@kernel
def compare(first: Any, second: Any, left: int, right: int) -> Any:
    return families.compare(first[left], second[right])


@kernel
def add_row(batch: Any, row: int, model: Any, votes: Any) -> Any:
    return consensus.add_row(batch, row, model, votes)


@kernel
def put_number(buffer: Any, at: int, value: int) -> Any:
    return text_kernels.put_number(buffer, at, value)


@kernel
def put_millionths(buffer: Any, at: int, numerator: int, denominator: int) -> Any:
    return text_kernels.put_millionths(buffer, at, numerator, denominator)


@kernel
def put_key(buffer: Any, at: int, key: Any, start: int, stop: int) -> Any:
    return text_kernels.put_key(buffer, at, key, start, stop)


@kernel
def mask_to_lanes(mask: Any) -> Any:
    return drafts.mask_to_lanes(mask)


@kernel
def lanes_to_mask(lanes: Any) -> Any:
    return drafts.lanes_to_mask(lanes)


@kernel
def take_values(words: Any, at: int, length: int, stride: int) -> Any:
    return drafts.take_values(words, at, length, stride)


@kernel
def compare_drafts(draft: Any, mask: Any, other: Any, other_mask: Any) -> Any:
    lanes, other_lanes = drafts.mask_to_lanes(mask), drafts.mask_to_lanes(other_mask)
    return drafts.compare_lanes(draft, lanes, other, other_lanes)


@kernel
def are_compatible(draft: Any, mask: Any, other: Any, other_mask: Any) -> Any:
    return drafts.are_compatible(draft, mask, other, other_mask)


@kernel
def find_cell(listed: Any, cell: Any) -> int:
    return cell_list.find_cell(listed, cell)
