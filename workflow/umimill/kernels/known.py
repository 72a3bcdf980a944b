"""A filter of the keys that a library has: it may say yes to another, never no to one of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import inline_kernel, kernel
from umimill.kernels.bases import splitmix64

U = np.uint64

HASH_MULTIPLIER = U(0xD6E8FEB86659FD93)
BITS_MULTIPLIER = U(0x9E3779B97F4A7C15)


@inline_kernel
def seed_of(row: Any) -> Any:
    """Return what the hashes of all keys of a sample and of these lengths begin with."""
    return splitmix64(
        U(row["sample"]) | (U(row["umi_length"]) << U(16)) | (U(row["cell_length"]) << U(24))
    )


@inline_kernel
def hash_key(key: Any, seed: Any) -> Any:
    """Return the hash of a key: its high bits are good, and take all bases in."""
    return ((key ^ (key >> U(32))) ^ seed) * HASH_MULTIPLIER


@inline_kernel
def filter_bits(word: Any) -> Any:
    """Return the four bits of a filter's word that stand for a key, from its hash."""
    more = (word ^ (word >> U(32))) * BITS_MULTIPLIER
    return (
        (U(1) << (more >> U(58)))
        | (U(1) << ((more >> U(52)) & U(63)))
        | (U(1) << ((more >> U(46)) & U(63)))
        | (U(1) << ((more >> U(40)) & U(63)))
    )


@inline_kernel
def word_shift(words: int) -> Any:
    """Return by how much to shift a hash to get a word of a filter of so many, at least 2."""
    shift = U(64)
    while words > 1:
        words >>= 1
        shift -= U(1)
    return shift


@kernel
def mark_keys(families: Any, known: Any) -> None:
    """Add the keys of families to a filter.

    Args:
        families: FAMILY[n].
        known: u64[a power of two, >= 2]; four bits of one word a key are set.
    """
    shift = word_shift(known.size)
    for row in range(families.size):
        word = hash_key(families[row]["key"], seed_of(families[row]))
        known[word >> shift] |= filter_bits(word)
