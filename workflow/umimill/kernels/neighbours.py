"""Pairs of barcodes that differ at one base, from a sorted table.

The table is walked as a trie: a node is a run of rows that begin with the same bases, its branches
the rows that share one base more. Rows of two branches are a pair where all that follows is equal,
which a merge of the branches finds; rows of a small node are compared two by two. Neither needs
memory, and a search can stop at any pair and go on from there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import count_bits, inline_kernel, kernel

U = np.uint64

# Nodes of so few rows are compared: 0.3 ns a pair for all bases that are left, against 4 ns a row
# and base of merging. With 8 or with 48 rows a search takes some 8% longer.
COMPARED_ROWS = 16

# Words of a state: the first row that was not walked yet; what comes next; end and place of the
# node at hand; how far it is done; how many ends of nodes are left to take, and these, the next one
# last. A node leaves at most 3 more ends than it takes, and at most 31 nodes are above it.
AT, STEP, STOP, PLACE, DONE, HEADS, EQUAL, LEFT, ENDS = 0, 1, 2, 3, 4, 5, 9, 13, 14
STATE_WORDS = ENDS + 1 + 3 * 32
TAKE, MERGE, COMPARE = 0, 1, 2

LOW_BITS = U(0x5555555555555555)


class Pairs(NamedTuple):
    """Buffers of pairs, all of one size.

    Attributes:
        first: i64[p], the smaller row.
        second: i64[p], the larger row.
        position: u8[p], the base at which their barcodes differ, from 0 on.
    """

    first: Any
    second: Any
    position: Any


@inline_kernel
def bit_length(word: Any) -> int:
    """Return the number of the highest bit of a u64 that is set, from 1 on, or 0."""
    word |= word >> U(1)
    word |= word >> U(2)
    word |= word >> U(4)
    word |= word >> U(8)
    word |= word >> U(16)
    word |= word >> U(32)
    return count_bits(word)


@inline_kernel
def is_one_base(bits: Any) -> bool:
    """Return whether the XOR of two keys, which is not 0, has bits of one base alone."""
    bases = (bits | (bits >> U(1))) & LOW_BITS
    return (bases & (bases - U(1))) == U(0)


@inline_kernel
def first_from(keys: Any, start: int, stop: int, least: Any) -> int:
    """Return the first of the sorted rows [start, stop) whose key is not below `least`, or stop."""
    while start < stop:
        middle = (start + stop) >> 1
        if keys[middle] < least:
            start = middle + 1
        else:
            stop = middle
    return start


@inline_kernel
def take_node(keys: Any, length: int, begin: int, end: int, state: Any) -> None:
    """Take the next node, and say what is done with it."""
    start = state[AT]
    state[LEFT] -= 1
    top = ENDS + state[LEFT]
    stop = state[top]
    # The first base at which the node's rows are not all equal.
    place = length
    if stop - start > 1:
        place -= (bit_length(keys[start] ^ keys[stop - 1]) + 1) >> 1
    if place >= end:
        state[AT] = stop
        return
    state[STOP] = stop
    state[PLACE] = place
    state[DONE] = 0
    if stop - start <= COMPARED_ROWS:
        state[STEP] = COMPARE
        state[HEADS] = start
        state[HEADS + 1] = start + 1
        return
    shift = U(2 * (length - 1 - place))
    base = ((keys[start] >> shift) >> U(2)) << U(2)
    second = first_from(keys, start, stop, (base | U(1)) << shift)
    third = first_from(keys, second, stop, (base | U(2)) << shift)
    fourth = first_from(keys, third, stop, (base | U(3)) << shift)
    state[top] = stop
    state[top + 1] = fourth
    state[top + 2] = third
    state[top + 3] = second
    state[LEFT] += 4
    if place >= begin:
        state[STEP] = MERGE
        state[HEADS] = start
        state[HEADS + 1] = second
        state[HEADS + 2] = third
        state[HEADS + 3] = fourth


@inline_kernel
def merge_branches(keys: Any, length: int, state: Any, pairs: Pairs, count: int) -> int:
    """Merge the four branches of a node.

    All at once, and without a jump but for pairs: 4 ns a row; merging them two by two takes 9.
    Unsigned rows spare numba's check for negative ones.

    Args:
        keys: see list_pairs.
        length: see list_pairs.
        state: search, at this node; updated.
        pairs: buffers; filled.
        count: pairs that they hold.

    Returns:
        Pairs that they hold then; the search is at the same node if they are full.
    """
    place = state[PLACE]
    shift = U(2 * (length - 1 - place))
    one = U(1) << shift
    base_0 = (((keys[state[AT]] >> shift) >> U(2)) << U(2)) << shift
    base_1 = base_0 + one
    base_2 = base_1 + one
    base_3 = base_2 + one
    stop = U(state[STOP])
    head_0, head_1 = U(state[HEADS]), U(state[HEADS + 1])
    head_2, head_3 = U(state[HEADS + 2]), U(state[HEADS + 3])
    while True:
        # Behind a branch is the next one, whose keys leave a rest of `one` or more.
        rest_0 = keys[head_0] - base_0 if head_0 < stop else one
        rest_1 = keys[head_1] - base_1 if head_1 < stop else one
        rest_2 = keys[head_2] - base_2 if head_2 < stop else one
        rest_3 = keys[head_3] - base_3 if head_3 < stop else one
        rest = min(min(rest_0, rest_1), min(rest_2, rest_3))
        if rest >= one:
            state[STEP] = TAKE
            return count
        here_0, here_1 = U(rest_0 == rest), U(rest_1 == rest)
        here_2, here_3 = U(rest_2 == rest), U(rest_3 == rest)
        equal = np.int64(here_0 + here_1 + here_2 + here_3)
        if equal > 1:
            # A head that is not equal is written over by the next that is.
            slot = EQUAL
            state[slot] = np.int64(head_0)
            slot += np.int64(here_0)
            state[slot] = np.int64(head_1)
            slot += np.int64(here_1)
            state[slot] = np.int64(head_2)
            slot += np.int64(here_2)
            state[slot] = np.int64(head_3)
            number = 0
            for left in range(EQUAL, EQUAL + equal - 1):
                for right in range(left + 1, EQUAL + equal):
                    number += 1
                    if number <= state[DONE]:
                        continue
                    if count == pairs.first.size:
                        state[DONE] = number - 1
                        state[HEADS], state[HEADS + 1] = np.int64(head_0), np.int64(head_1)
                        state[HEADS + 2], state[HEADS + 3] = np.int64(head_2), np.int64(head_3)
                        return count
                    pairs.first[count] = state[left]
                    pairs.second[count] = state[right]
                    pairs.position[count] = place
                    count += 1
            state[DONE] = 0
        head_0 += here_0
        head_1 += here_1
        head_2 += here_2
        head_3 += here_3


@inline_kernel
def compare_rows(
    keys: Any, length: int, begin: int, end: int, state: Any, pairs: Pairs, count: int
) -> int:
    """Compare the rows of a node two by two; as merge_branches, with the places asked for."""
    stop = state[STOP]
    row, other = state[HEADS], state[HEADS + 1]
    while row < stop:
        key = keys[row]
        # This loop is vectorised, and most rows end with it.
        near = np.int64(0)
        for index in range(other, stop):
            near += is_one_base(key ^ keys[index])
        while near > 0:
            bits = key ^ keys[other]
            if is_one_base(bits):
                place = length - ((bit_length(bits) + 1) >> 1)
                if place >= begin and place < end:
                    if count == pairs.first.size:
                        state[HEADS], state[HEADS + 1] = row, other
                        return count
                    pairs.first[count] = row
                    pairs.second[count] = other
                    pairs.position[count] = place
                    count += 1
                near -= 1
            other += 1
        row += 1
        other = row + 1
    state[AT] = stop
    state[STEP] = TAKE
    return count


@kernel
def start_pairs(start: int, stop: int, state: Any) -> None:
    """Set state, i64[STATE_WORDS], to the beginning of a search of the rows [start, stop)."""
    state[AT] = start
    state[STEP] = TAKE
    state[LEFT] = 1
    state[ENDS] = stop


@kernel
def list_pairs(keys: Any, length: int, begin: int, end: int, state: Any, pairs: Pairs) -> int:
    """List pairs of rows that differ at exactly one base, until the buffers are full.

    To be called until it returns fewer pairs than the buffers hold. Which pairs come, and in what
    order, depends on the table, the rows and the places alone, not on the buffers. It takes some
    4 ns a row for each of log4(n) bases, 12 ns a row, and 3 ns a pair.

    Args:
        keys: u64[n], strictly increasing from `start` to `stop`: barcodes in the lowest 2 * length
            bits, 2 bits a base, the first base highest.
        length: bases of a barcode, 1 to 32.
        begin: first base at which pairs may differ, from 0 on.
        end: behind the last such base, at most `length`.
        state: i64[STATE_WORDS], set by start_pairs or by the call before; updated.
        pairs: buffers for at least one pair; filled.

    Returns:
        Pairs in the buffers.
    """
    count = 0
    while count < pairs.first.size:
        if state[STEP] == MERGE:
            count = merge_branches(keys, length, state, pairs, count)
        elif state[STEP] == COMPARE:
            count = compare_rows(keys, length, begin, end, state, pairs, count)
        elif state[LEFT] > 0:
            take_node(keys, length, begin, end, state)
        else:
            break
    return count
