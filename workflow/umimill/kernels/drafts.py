"""Drafts: up to 32 payload bases of a read or family, their comparison, and the assignment rule.

A draft is a u64, two bits a base, the first base highest and 0 where a base is not known; its mask
a u32, the first base in the highest bit, 1 where known. In lanes, a mask has two bits a base as a
draft has, of which only the lower is used, so that masks and drafts meet in one operation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import count_bits, inline_kernel, kernel, store_word
from umimill.kernels.bases import spread_eight
from umimill.kernels.consensus import Batch
from umimill.kernels.rows import HAS_UNKNOWN, cold_words

U = np.uint64

DRAFT_BASES = 32
# Fewer bases known in both drafts say nothing.
LEAST_COMPARED = 12
# Drafts that differ at no more bases are one payload where payloads are counted.
NEAR_MISMATCHES = 1
LOW_BITS = U(0x5555555555555555)


class Drafts(NamedTuple):
    """Drafts of the rows of a batch.

    Attributes:
        draft: u64[n].
        mask: u32[n].
        quality: u8[32 n], the Phred at each base of a draft, row after row; 0 where not known.
    """

    draft: Any
    mask: Any
    quality: Any


# -- comparison ------------------------------------------------------------------------------------


@inline_kernel
def mask_to_lanes(mask: Any) -> Any:
    """Return a mask in lanes."""
    lanes = U(mask)
    lanes = (lanes | (lanes << U(16))) & U(0x0000FFFF0000FFFF)
    lanes = (lanes | (lanes << U(8))) & U(0x00FF00FF00FF00FF)
    lanes = (lanes | (lanes << U(4))) & U(0x0F0F0F0F0F0F0F0F)
    lanes = (lanes | (lanes << U(2))) & U(0x3333333333333333)
    return (lanes | (lanes << U(1))) & LOW_BITS


@inline_kernel
def lanes_to_mask(lanes: Any) -> Any:
    """Undo mask_to_lanes."""
    mask = (lanes | (lanes >> U(1))) & U(0x3333333333333333)
    mask = (mask | (mask >> U(2))) & U(0x0F0F0F0F0F0F0F0F)
    mask = (mask | (mask >> U(4))) & U(0x00FF00FF00FF00FF)
    mask = (mask | (mask >> U(8))) & U(0x0000FFFF0000FFFF)
    return np.uint32((mask | (mask >> U(16))) & U(0xFFFFFFFF))


@inline_kernel
def compare_lanes(draft: Any, lanes: Any, other: Any, other_lanes: Any) -> tuple[int, int]:
    """Compare two drafts whose masks are in lanes.

    Returns:
        (bases known in both that differ, bases known in both).
    """
    both = lanes & other_lanes
    differ = draft ^ other
    return count_bits((differ | (differ >> U(1))) & both), count_bits(both)


@inline_kernel
def mismatch_limit(compared: int) -> int:
    """Return the most mismatches that drafts of one molecule have in so many compared bases."""
    return (3 * compared + 16) // 32


@inline_kernel
def are_compatible(draft: Any, mask: Any, other: Any, other_mask: Any) -> bool:
    """Return whether two drafts may be of one molecule: they agree, or there is no evidence."""
    mismatches, compared = compare_lanes(
        draft, mask_to_lanes(mask), other, mask_to_lanes(other_mask)
    )
    return compared < LEAST_COMPARED or mismatches <= mismatch_limit(compared)


@inline_kernel
def find_family(draft: Any, mask: Any, families: Any, start: int, stop: int) -> int:
    """Return the family of a read's key to which the read belongs, or -1 without evidence.

    That is the one with the fewest mismatches of those with enough compared bases; of equals the
    one with the most compared bases, then of the smallest draft, then of the smallest mask. A read
    without evidence is counted in the first family.

    Args:
        draft: the read's.
        mask: the read's.
        families: FAMILY[*].
        start: first family of the key.
        stop: end.
    """
    lanes = mask_to_lanes(mask)
    best = np.int64(-1)
    fewest = np.int64(0)
    most = np.int64(0)
    for number in range(start, stop):
        mismatches, compared = compare_lanes(
            draft, lanes, families[number]["draft"], mask_to_lanes(families[number]["mask"])
        )
        if compared < LEAST_COMPARED:
            continue
        if best >= 0:
            if mismatches > fewest or (mismatches == fewest and compared < most):
                continue
            if mismatches == fewest and compared == most:
                held = families[best]
                if families[number]["draft"] > held["draft"]:
                    continue
                if families[number]["draft"] == held["draft"] and (
                    families[number]["mask"] >= held["mask"]
                ):
                    continue
        best = np.int64(number)
        fewest = mismatches
        most = compared
    return best


@kernel
def spread_masks(masks: Any, lanes: Any) -> None:
    """Fill lanes, u64[n], with masks, u32[n]."""
    for number in range(masks.size):
        lanes[number] = mask_to_lanes(masks[number])


@kernel
def count_near(drafts: Any, lanes: Any, near: Any) -> None:
    """Count how many others each draft is near to.

    Args:
        drafts: u64[n].
        lanes: u64[n], their masks in lanes.
        near: i64[n], filled.
    """
    for number in range(drafts.size):
        near[number] = 0
        for other in range(drafts.size):
            mismatches, compared = compare_lanes(
                drafts[number], lanes[number], drafts[other], lanes[other]
            )
            near[number] += (
                other != number and compared >= LEAST_COMPARED and mismatches <= NEAR_MISMATCHES
            )


# -- drafts of rows --------------------------------------------------------------------------------


@inline_kernel
def every_second(word: Any) -> Any:
    """Return values 0, 2, .. 30 of a word of 32, from the top."""
    word = word & U(0xCCCCCCCCCCCCCCCC)
    word = (word | (word << U(2))) & U(0xF0F0F0F0F0F0F0F0)
    word = (word | (word << U(4))) & U(0xFF00FF00FF00FF00)
    word = (word | (word << U(8))) & U(0xFFFF0000FFFF0000)
    return (word | (word << U(16))) & U(0xFFFFFFFF00000000)


@inline_kernel
def every_third(word: Any) -> Any:
    """Return values 0, 3, .. 30 of a word of 32, from the top."""
    word = word & U(0xC30C30C30C30C30C)
    word = (word | (word << U(4))) & U(0xF00F00F00F00F00F)
    word = (word | (word << U(8))) & U(0xFF0000FF0000FF00)
    word = (word | (word << U(16))) & U(0xFFFF00000000FF00)
    return (word | (word << U(32))) & U(0xFFFFFF0000000000)


@inline_kernel
def take_values(words: Any, at: int, length: int, stride: int) -> Any:
    """Return the values 0, stride, 2 stride, .. of `length` two-bit values, 32 at most.

    Args:
        words: u64[*], 32 values a word.
        at: first word.
        length: values.
        stride: 1, 2 or 3.
    """
    if length == 0:
        return U(0)
    if stride == 1:
        return words[at]
    count = (length + 31) >> 5
    if stride == 2:
        taken = every_second(words[at])
        if count > 1:
            taken |= every_second(words[at + 1]) >> U(32)
        return taken
    taken = every_third(words[at])
    if count > 1:
        taken |= every_third(words[at + 1] << U(2)) >> U(22)
    if count > 2:
        taken |= every_third(words[at + 2] << U(4)) >> U(44)
    return taken


@inline_kernel
def first_lanes(count: int) -> Any:
    """Return the mask, in lanes, of the first `count` bases of 32."""
    if count >= DRAFT_BASES:
        return LOW_BITS
    return LOW_BITS & ~((U(1) << U(64 - 2 * count)) - U(1)) if count > 0 else U(0)


@inline_kernel
def known_lanes(words: Any, at: int, count: int, stride: int) -> Any:
    """Return, in lanes, where bases 0, stride, .. are no N by a mask of unknown bases."""
    lanes = first_lanes(count)
    for number in range(count):
        position = number * stride
        unknown = (words[at + (position >> 6)] >> U(63 - (position & 63))) & U(1)
        lanes &= ~(unknown << U(62 - 2 * number))
    return lanes


@inline_kernel
def level_lanes(codes: Any, levels: Any, run: int, least_quality: int) -> Any:
    """Return, in lanes, where quality codes stand for at least `least_quality`."""
    below = 0
    for level in range(4):
        below += np.int64(levels[run, level]) < least_quality
    if below == 0:
        return LOW_BITS
    if below == 1:
        return (codes | (codes >> U(1))) & LOW_BITS
    if below == 2:
        return (codes >> U(1)) & LOW_BITS
    if below == 3:
        return codes & (codes >> U(1)) & LOW_BITS
    return U(0)


@inline_kernel
def fill_levels(
    codes: Any, lanes: Any, levels: Any, run: int, quality: Any, first: int, width: int
) -> None:
    """Fill quality[first:first + width] with what codes stand for, 0 where lanes are; eight a step.

    Args:
        codes: two-bit quality codes, the first highest.
        lanes: known bases.
        levels: u8[runs, 4].
        run: row of `levels`.
        quality: u8[*].
        first: first place.
        width: 16 or 32.
    """
    ones = U(0x0101010101010101)
    level_0, level_1 = U(levels[run, 0]) * ones, U(levels[run, 1]) * ones
    level_2, level_3 = U(levels[run, 2]) * ones, U(levels[run, 3]) * ones
    for eighth in range(width >> 3):
        shift = U(48 - 16 * eighth)
        eight = spread_eight(codes >> shift)
        odd = (eight & ones) * U(255)
        upper = ((eight >> U(1)) & ones) * U(255)
        known = spread_eight(lanes >> shift) * U(255)
        low = (level_0 & ~odd) | (level_1 & odd)
        high = (level_2 & ~odd) | (level_3 & odd)
        store_word(quality, first + 8 * eighth, ((low & ~upper) | (high & upper)) & known)


@inline_kernel
def fill_bytes(
    words: Any,
    at: int,
    lanes: Any,
    stride: int,
    least_quality: int,
    quality: Any,
    first: int,
    width: int,
) -> Any:
    """Fill quality[first:first + width] from 8-bit qualities, 0 where a base is not known.

    Returns:
        Those of the lanes where they are high enough.
    """
    for number in range(width):
        bit = U(1) << U(62 - 2 * number)
        value = np.uint8(0)
        if lanes & bit:
            position = number * stride
            value = np.uint8((words[at + (position >> 3)] >> U(8 * (position & 7))) & U(0xFF))
            if value < least_quality:
                value = np.uint8(0)
                lanes &= ~bit
        quality[first + number] = value
    return lanes


@kernel
def extract_drafts(batch: Batch, strides: Any, least_quality: int, drafts: Drafts) -> None:
    """Take the drafts of all rows of a batch.

    A single read gives bases 0, s, 2s, .., a pair 16 of mate 1 and 16 of mate 2. A base is known
    if it is there, is no N, and has at least `least_quality`.

    Args:
        batch: rows.
        strides: i64[S], s of each sample: 1, 2 or 3, or 0: no base of its drafts is known.
        least_quality: Phred.
        drafts: arrays of at least as many rows, filled.
    """
    cold = batch.cold
    for row in range(batch.hot.size):
        hot = batch.hot[row]
        run = batch.runs[row]
        bits = batch.bits[run]
        stride = strides[hot["sample"]]
        if stride == 0:
            drafts.draft[row] = U(0)
            drafts.mask[row] = np.uint32(0)
            for position in range(DRAFT_BASES):
                drafts.quality[DRAFT_BASES * row + position] = 0
            continue
        length_1 = np.int64(hot["length_1"])
        length_2 = np.int64(hot["length_2"])
        flags = np.int64(hot["flags"])
        sides = 2 if length_2 > 0 else 1
        width = DRAFT_BASES // sides
        base_at = batch.starts[row]
        quality_at = base_at + ((length_1 + 31) >> 5) + ((length_2 + 31) >> 5)
        unknown_at = base_at + cold_words(length_1, length_2, flags & ~HAS_UNKNOWN, bits)
        draft = U(0)
        known = U(0)
        for side in range(sides):
            length = length_1 if side == 0 else length_2
            first = DRAFT_BASES * row + width * side
            count = min(width, (length + stride - 1) // stride)
            lanes = first_lanes(count)
            if flags & HAS_UNKNOWN:
                lanes = known_lanes(cold, unknown_at, count, stride)
                unknown_at += (length + 63) >> 6
            if bits == 2:
                codes = take_values(cold, quality_at, length, stride)
                lanes &= level_lanes(codes, batch.levels, run, least_quality)
                fill_levels(codes, lanes, batch.levels, run, drafts.quality, first, width)
                quality_at += (length + 31) >> 5
            else:
                lanes = fill_bytes(
                    cold, quality_at, lanes, stride, least_quality, drafts.quality, first, width
                )
                quality_at += (length + 7) >> 3
            bases = take_values(cold, base_at, length, stride) & (lanes | (lanes << U(1)))
            base_at += (length + 31) >> 5
            draft |= bases >> U(32 * side)
            known |= lanes >> U(32 * side)
        drafts.draft[row] = draft
        drafts.mask[row] = lanes_to_mask(known)
