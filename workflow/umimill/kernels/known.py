"""Filters of what a library has: they may say yes to another, never no to one of them.

One has the keys of all families. Where barcodes are dense, most that one may ask for exist, but
hardly any has a payload like one's own: a second filter has each key with a quarter of the draft.
Drafts that differ at three bases of 32 at most have an equal quarter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import inline_kernel, kernel
from umimill.kernels.bases import splitmix64

U = np.uint64

HASH_MULTIPLIER = U(0xD6E8FEB86659FD93)
BITS_MULTIPLIER = U(0x9E3779B97F4A7C15)
QUARTERS = 4
WHOLE = 0xFFFFFFFF
# Of a filter, by the first bases of keys.
REGION_BASES = 6
REGIONS = 4**REGION_BASES
REGION_SHIFT = U(64 - 2 * REGION_BASES)


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


@kernel
def count_regions(families: Any, counts: Any) -> None:
    """Add the families of each region, by its first bases, to counts, i64[REGIONS]."""
    for row in range(families.size):
        counts[families[row]["key"] >> REGION_SHIFT] += 1


@inline_kernel
def find_word(key: Any, word: Any, starts: Any, copies: int) -> int:
    """Return the word of a filter that has the bits of a key, -1 where its region has no family.

    Keys with the same first bases share a region: barcodes that one family asks for are mostly in
    one, and families come in the order of keys, so that what is looked at stays in the cache.

    Args:
        key: the key.
        word: hash that is looked for.
        starts: i64[REGIONS + 1], first word of each region in a filter of one entry a key.
        copies: entries a key.
    """
    region = key >> REGION_SHIFT
    first = starts[region] * copies
    size = starts[region + U(1)] * copies - first
    if size == 0:
        return -1
    return first + np.int64(((word >> U(32)) * U(size)) >> U(32))


@inline_kernel
def has_bits(key: Any, word: Any, starts: Any, copies: int, known: Any) -> bool:
    """Return whether a filter has the bits of a key; see find_word."""
    place = find_word(key, word, starts, copies)
    bits = filter_bits(word)
    return place >= 0 and known[place] & bits == bits


@inline_kernel
def may_agree(first: Any, second: Any) -> bool:
    """Return whether two drafts can be of one molecule by a quarter of theirs, or are not whole."""
    if first["mask"] != WHOLE or second["mask"] != WHOLE:
        return True
    differ = first["draft"] ^ second["draft"]
    return (
        (differ >> U(48)) == U(0)
        or (differ >> U(32)) & U(0xFFFF) == U(0)
        or (differ >> U(16)) & U(0xFFFF) == U(0)
        or differ & U(0xFFFF) == U(0)
    )


@inline_kernel
def hash_quarter(word: Any, draft: Any, quarter: int) -> Any:
    """Return the hash of a key, given as its hash, with a quarter of a draft; 4 for any draft."""
    value = (draft >> U(16 * quarter)) & U(0xFFFF) if quarter < QUARTERS else U(0)
    return splitmix64(word ^ (value | (U(quarter + 1) << U(16))))


@kernel
def mark_quarters(families: Any, starts: Any, quarters: Any) -> None:
    """Add the quarters of families' drafts to a filter.

    Args:
        families: FAMILY[n].
        starts: see find_word.
        quarters: u64[QUARTERS * starts[-1]]; four bits of a word for each quarter are set.
    """
    for row in range(families.size):
        key = hash_key(families[row]["key"], seed_of(families[row]))
        whole = families[row]["mask"] == WHOLE
        for quarter in range(0 if whole else QUARTERS, QUARTERS if whole else QUARTERS + 1):
            word = hash_quarter(key, families[row]["draft"], quarter)
            place = find_word(families[row]["key"], word, starts, QUARTERS)
            quarters[place] |= filter_bits(word)


@inline_kernel
def has_quarter(key: Any, word: Any, ask: Any, starts: Any, quarters: Any) -> bool:
    """Return whether a key may have a family whose draft may agree with an ask's.

    Args:
        key: the key.
        word: its hash.
        ask: ASK, its draft whole.
        starts: see find_word.
        quarters: see mark_quarters.
    """
    for quarter in range(QUARTERS + 1):
        found = hash_quarter(word, ask["draft"], quarter)
        if has_bits(key, found, starts, QUARTERS, quarters):
            return True
    return False


@kernel
def mark_keys(families: Any, starts: Any, known: Any) -> None:
    """Add the keys of families to a filter.

    Args:
        families: FAMILY[n].
        starts: see find_word.
        known: u64[starts[-1]]; four bits of one word a key are set.
    """
    for row in range(families.size):
        key = families[row]["key"]
        word = hash_key(key, seed_of(families[row]))
        known[find_word(key, word, starts, 1)] |= filter_bits(word)
