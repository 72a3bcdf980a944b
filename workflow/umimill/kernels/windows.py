"""A packed read compared with 32 bases at any of its places."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import count_bits, inline_kernel, merged_kernel
from umimill.kernels.bases import gather_eight, pack_text
from umimill.kernels.match import Letters, Read

U = np.uint64


@inline_kernel
def shifted_word(words: Any, at: int) -> Any:
    """Return the 32 bases of a packed read from base `at` on."""
    index = at >> 5
    shift = U(2 * (at & 31))
    return (words[index] << shift) | ((words[index + 1] >> U(1)) >> (U(63) - shift))


@inline_kernel
def window_mismatches(words: Any, at: int, bases: Any, mask: Any) -> Any:
    """Return the positions of a window at which the packed read differs, one bit each."""
    bits = shifted_word(words, at) ^ bases
    return (bits | (bits >> U(1))) & mask


@merged_kernel
def pack_padded(read: Read, words: Any) -> None:
    """Pack the bases of a read into words, u64[>= length / 32 + 2], and two words of padding."""
    count = (read.length + 31) >> 5
    pack_text(read.text, read.bases, read.length, words, np.int64(0))
    words[count] = U(0)
    words[count + 1] = U(0)


@merged_kernel
def count_close(words: Any, first: int, stop: int, bases: Any, mask: Any, allowed: int) -> int:
    """Count the places in [first, stop) whose window differs at no more than `allowed` positions.

    Without a branch in the inner loop, so that it is vectorised.
    """
    close = np.int64(0)
    for index in range(first >> 5, (stop + 31) >> 5):
        word = words[index]
        following = words[index + 1] >> U(1)
        lowest = max(np.int64(0), first - 32 * index)
        highest = min(np.int64(32), stop - 32 * index)
        for place in range(lowest, highest):
            shift = U(2 * place)
            bits = ((word << shift) | (following >> (U(63) - shift))) ^ bases
            close += count_bits((bits | (bits >> U(1))) & mask) <= allowed
    return close


@merged_kernel
def low_quality_words(read: Read, letters: Letters, least: int, scratch: Any, words: Any) -> None:
    """Set both bits of each base that is unknown or below Phred `least`, packed as the bases are.

    Args:
        read: the read.
        letters: see Letters.
        least: the least Phred that is not low.
        scratch: u8[*], scratch.
        words: u64[*], filled, with two words of padding.
    """
    floor = letters.quality_offset + least
    for place in range(read.length):
        uncertain = read.text[read.qualities + place] < floor or (
            letters.codes[read.text[read.bases + place]] > 3
        )
        scratch[place] = 3 if uncertain else 0
    for place in range(read.length, (read.length + 31) & ~31):
        scratch[place] = 0
    count = (read.length + 31) >> 5
    for index in range(count):
        word = U(0)
        for quarter in range(4):
            packed = U(0)
            for eighth in range(8):
                packed |= U(scratch[32 * index + 8 * quarter + eighth]) << U(8 * eighth)
            word |= gather_eight(packed) << U(48 - 16 * quarter)
        words[index] = word
    words[count] = U(0)
    words[count + 1] = U(0)
