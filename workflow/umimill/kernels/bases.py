"""Bases two bits each, the first base in the highest bits of a u64 word; 32 bases a word."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import inline_kernel, load_word, merged_kernel, store_word

U = np.uint64


@inline_kernel
def splitmix64(value: Any) -> Any:
    """Return the splitmix64 hash of a word: one to one."""
    state = value + U(0x9E3779B97F4A7C15)
    state = (state ^ (state >> U(30))) * U(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> U(27))) * U(0x94D049BB133111EB)
    return state ^ (state >> U(31))


@inline_kernel
def pack_eight(text: Any) -> Any:
    """Pack 8 letters (little-endian u64 of text) into 16 bits, the first letter highest.

    A, C, G, T and U in either case come out right; any other letter as some base.
    """
    codes = (text >> U(1)) & U(0x0303030303030303)
    codes = codes ^ ((codes >> U(1)) & U(0x0101010101010101))
    codes = ((codes << U(2)) | (codes >> U(8))) & U(0x000F000F000F000F)
    codes = ((codes << U(4)) | (codes >> U(16))) & U(0x000000FF000000FF)
    return ((codes << U(8)) | (codes >> U(32))) & U(0xFFFF)


@inline_kernel
def spread_eight(packed: Any) -> Any:
    """Undo the gathering of pack_eight: 16 bits to 8 bytes of codes 0..3, little-endian."""
    codes = ((packed & U(0xFF)) << U(32)) | ((packed >> U(8)) & U(0xFF))
    codes = ((codes & U(0x0000000F0000000F)) << U(16)) | ((codes >> U(4)) & U(0x0000000F0000000F))
    return ((codes & U(0x0003000300030003)) << U(8)) | ((codes >> U(2)) & U(0x0003000300030003))


@inline_kernel
def gather_eight(codes: Any) -> Any:
    """Pack 8 bytes of codes 0..3 (little-endian u64) into 16 bits, the first highest."""
    codes = ((codes << U(2)) | (codes >> U(8))) & U(0x000F000F000F000F)
    codes = ((codes << U(4)) | (codes >> U(16))) & U(0x000000FF000000FF)
    return ((codes << U(8)) | (codes >> U(32))) & U(0xFFFF)


@inline_kernel
def pack_text(buffer: Any, start: int, length: int, words: Any, first: int) -> None:
    """Pack `length` letters of text into words[first:]; bits past the end are 0.

    Args:
        buffer: u8[*]; 8 bytes past the last letter must be readable.
        start: first letter.
        length: letters.
        words: u64[*]; ceil(length / 32) words are written.
        first: first word.
    """
    whole = length >> 5
    for index in range(whole):
        at = start + 32 * index
        words[first + index] = (
            (pack_eight(load_word(buffer, at)) << U(48))
            | (pack_eight(load_word(buffer, at + 8)) << U(32))
            | (pack_eight(load_word(buffer, at + 16)) << U(16))
            | pack_eight(load_word(buffer, at + 24))
        )
    left = length & 31
    if left:
        at = start + 32 * whole
        word = U(0)
        shift = 48
        for eighth in range((left + 7) >> 3):
            word |= pack_eight(load_word(buffer, at + 8 * eighth)) << U(shift)
            shift -= 16
        words[first + whole] = word & ~((U(1) << U(64 - 2 * left)) - U(1))


@merged_kernel
def count_unknown(buffer: Any, start: int, length: int) -> int:
    """Return 1 where one of the letters is not A, C, G, T or U in either case, else 0."""
    letters = buffer[start : start + length]
    others = np.uint8(0)
    for offset in range(length):
        upper = letters[offset] & np.uint8(0xDF)
        known = (upper == 65) | (upper == 67) | (upper == 71) | (upper == 84) | (upper == 85)
        others |= np.uint8(not known)
    return np.int64(others)


@inline_kernel
def unpack_codes(words: Any, first: int, length: int, codes: Any) -> None:
    """Unpack two-bit values to one byte each.

    Args:
        words: u64[*].
        first: first word.
        length: values.
        codes: u8[>= length + 7], filled with 0..3; up to 7 bytes past the end are overwritten.
    """
    done = 0
    index = first
    while done < length:
        word = words[index]
        for quarter in range(4):
            store_word(codes, done, spread_eight(word >> U(48 - 16 * quarter)))
            done += 8
            if done >= length:
                break
        index += 1
