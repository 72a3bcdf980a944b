"""Barcodes misread at several bases: which barcodes they may have been, and who has those."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inline_kernel, kernel
from umimill.kernels.known import (
    WHOLE,
    has_bits,
    has_quarter,
    hash_key,
    seed_of,
)
from umimill.kernels.score import FINE_BITS, EdgeModel, to_unit

U = np.uint64

# Of bases that are wrong more often than once in fifty any number may be; of the others two, or one
# and one of those.
UNSURE_MISREAD = -5 << FINE_BITS
# So many unsure bases are tried at most, the worst ones: 4^6 barcodes.
MOST_UNSURE = 6
# What a parent of 4,096 reads adds to the odds.
LN_LARGE_PARENT = 8517
# Of one family at most: what its unsure bases may have been, and any two of 32.
MOST_QUERIES = (1 << (2 * MOST_UNSURE)) + 9 * 496


class Choices(NamedTuple):
    """Room for the barcodes that one family may have been.

    Attributes:
        key: u64[4^MOST_UNSURE].
        total: i64[4^MOST_UNSURE], fine ln of the rate of the errors that lead to the family's.
        changes: i64[4^MOST_UNSURE], bases that differ.
        places: i64[MOST_UNSURE], the least sure positions.
    """

    key: Any
    total: Any
    changes: Any
    places: Any


class Known(NamedTuple):
    """What there is in a span of keys, as filters; see kernels.known.

    Attributes:
        keys: u64[*], of all keys.
        quarters: u64[*], of keys with quarters of drafts; one word where there is none.
        starts: i64[REGIONS + 1], where regions begin in them.
    """

    keys: Any
    quarters: Any
    starts: Any


class Wanted(NamedTuple):
    """What the barcodes that one family asks for must be.

    Attributes:
        known: filters.
        seed: of the hashes of its sample and lengths.
        low: least key.
        high: greatest key.
        reach: keys between them differ from the family's at this base or at one before it.
    """

    known: Any
    seed: Any
    low: Any
    high: Any
    reach: Any


@inline_kernel
def find_unsure(quality: Any, row: int, start: int, stop: int, misread: Any, places: Any) -> int:
    """List the least sure barcode positions of a family, the worst first.

    Args:
        quality: u8[n, B].
        row: family.
        start: first position of the UMI.
        stop: end.
        misread: i64[256], fine ln(e / 3) by half-Phred.
        places: i64[MOST_UNSURE], filled.

    Returns:
        Positions.
    """
    count = 0
    for position in range(start, stop):
        own = misread[quality[row, position]]
        if own < UNSURE_MISREAD:
            continue
        place = min(count, MOST_UNSURE)
        while place > 0 and misread[quality[row, places[place - 1]]] < own:
            if place < MOST_UNSURE:
                places[place] = places[place - 1]
            place -= 1
        if place < MOST_UNSURE:
            places[place] = position
            count = min(count + 1, MOST_UNSURE)
    return count


@inline_kernel
def least_total(independent: int, sample: int, model: EdgeModel) -> int:
    """Return from which ln of the rate of its errors on a barcode is asked for."""
    return independent + model.clonal[sample] - LN_LARGE_PARENT


@inline_kernel
def needs_payload(total: int, independent: int) -> bool:
    """Return whether errors are so rare that a parent is none unless its payload agrees."""
    return to_unit(total) + LN_LARGE_PARENT < independent


@inline_kernel
def ln_right(ask: Any, model: EdgeModel) -> int:
    """Return fine ln P(all bases of the UMI were read right in all reads of a family)."""
    sample = np.int64(ask["sample"])
    cell = np.int64(ask["cell_length"])
    total = np.int64(0)
    for position in range(cell, cell + np.int64(ask["umi_length"])):
        total += model.right[sample, ask["quality"][position]]
    return np.int64(ask["reads"]) * total


@inline_kernel
def list_choices(asks: Any, number: int, model: EdgeModel, choices: Choices) -> int:
    """List the barcodes that differ from an ask's at its least sure bases, itself the first.

    Returns:
        Barcodes; those whose errors are too rare are left out.
    """
    ask = asks[number]
    sample = np.int64(ask["sample"])
    reads = np.int64(ask["reads"])
    misread = model.misread[sample]
    least = least_total(np.int64(ask["independent"]), sample, model)
    cell = np.int64(ask["cell_length"])
    stop = cell + np.int64(ask["umi_length"])
    unsure = find_unsure(asks["quality"], number, cell, stop, misread, choices.places)
    choices.key[0] = ask["key"]
    choices.total[0] = ln_right(ask, model)
    choices.changes[0] = 0
    size = 1
    for place in range(unsure):
        position = choices.places[place]
        own = reads * (
            misread[ask["quality"][position]] - model.right[sample, ask["quality"][position]]
        )
        shift = U(62 - 2 * position)
        end = size
        for code in range(size):
            total = choices.total[code] + own
            if to_unit(total) < least:
                continue
            for digit in range(1, 4):
                choices.key[end] = choices.key[code] ^ (U(digit) << shift)
                choices.total[end] = total
                choices.changes[end] = choices.changes[code] + 1
                end += 1
        size = end
    for place in range(unsure, MOST_UNSURE):
        choices.places[place] = -1
    return size


@inline_kernel
def first_change(key: Any, other: Any) -> int:
    """Return the first base at which two keys differ, 32 where they are equal."""
    change = key ^ other
    position = np.int64(0)
    while position < 32 and change >> U(62 - 2 * position) == U(0):
        position += 1
    return position


@inline_kernel
def wanted_of(ask: Any, known: Known, span: Any) -> Wanted:
    """Return what an ask may ask for; see make_queries."""
    sample = U(ask["sample"])
    low = span[0, 1] if sample == span[0, 0] else U(0)
    high = span[1, 1] if sample == span[1, 0] else ~U(0)
    if sample < span[0, 0] or sample > span[1, 0]:
        low, high = U(1), U(0)
    cell = U(2) * U(ask["cell_length"])
    if cell > U(0):
        # The cell is never asked for.
        first = (ask["key"] >> (U(64) - cell)) << (U(64) - cell)
        last = first | (~U(0) >> cell)
        if last < low or first > high:
            low, high = U(1), U(0)
    reach = first_change(ask["key"], min(max(ask["key"], low), high))
    return Wanted(known, seed_of(ask), low, high, reach)


@inline_kernel
def put_query(ask: Any, key: Any, total: int, wanted: Wanted, queries: Any, count: int) -> int:
    """Add the query for a barcode if someone may have it; return the queries, -1 without room."""
    if key < wanted.low or key > wanted.high:
        return count
    word = hash_key(key, wanted.seed)
    known = wanted.known
    if not has_bits(key, word, known.starts, 1, known.keys):
        return count
    if (
        known.quarters.size > 1
        and ask["mask"] == WHOLE
        and needs_payload(total, np.int64(ask["independent"]))
        and not has_quarter(key, word, ask, known.starts, known.quarters)
    ):
        return count
    if count == queries.size:
        return -1
    query = queries[count]
    query["key"] = key
    query["child_key"] = ask["key"]
    query["draft"] = ask["draft"]
    query["mask"] = ask["mask"]
    query["reads"] = ask["reads"]
    query["row"] = ask["row"]
    query["changes"] = total
    query["independent"] = ask["independent"]
    query["quality_sum"] = ask["quality_sum"]
    query["sample"] = ask["sample"]
    query["family"] = ask["family"]
    query["umi_length"] = ask["umi_length"]
    query["cell_length"] = ask["cell_length"]
    query["draft_quality"] = ask["draft_quality"]
    return count + 1


@inline_kernel
def add_choices(
    ask: Any, listed: int, choices: Choices, wanted: Wanted, queries: Any, count: int
) -> int:
    """Add the queries of an ask's choices with two changes or more; see put_query."""
    for code in range(listed):
        if choices.changes[code] < 2:
            continue
        count = put_query(ask, choices.key[code], choices.total[code], wanted, queries, count)
        if count < 0:
            break
    return count


@inline_kernel
def add_pairs(
    ask: Any, model: EdgeModel, places: Any, wanted: Wanted, queries: Any, count: int
) -> int:
    """Add the queries for barcodes that differ at two bases, not both of `places`."""
    sample = np.int64(ask["sample"])
    reads = np.int64(ask["reads"])
    misread = model.misread[sample]
    least = least_total(np.int64(ask["independent"]), sample, model)
    cell = np.int64(ask["cell_length"])
    stop = cell + np.int64(ask["umi_length"])
    right = ln_right(ask, model)
    tried = U(0)
    for place in range(places.size):
        if places[place] >= 0:
            tried |= U(1) << U(places[place])
    for second in range(cell + 1, stop):
        for first in range(cell, min(second, wanted.reach + 1)):
            if (tried >> U(first)) & (tried >> U(second)) & U(1):
                continue
            one, other = ask["quality"][first], ask["quality"][second]
            total = misread[one] + misread[other]
            total = right + reads * (total - model.right[sample, one] - model.right[sample, other])
            if to_unit(total) < least:
                continue
            for digits in range(16):
                if digits < 4 or digits & 3 == 0:
                    continue
                change = (U(digits & 3) << U(62 - 2 * first)) | (
                    U(digits >> 2) << U(62 - 2 * second)
                )
                count = put_query(ask, ask["key"] ^ change, total, wanted, queries, count)
                if count < 0:
                    return count
    return count


@kernel
def make_queries(
    asks: Any, start: int, model: EdgeModel, known: Known, span: Any, choices: Choices, queries: Any
) -> tuple[int, int]:
    """List the barcodes that families may have been, as far as someone has them.

    Args:
        asks: ASK[n].
        start: ask to begin with.
        model: tables.
        known: filters of the families in the span.
        span: u64[2, 2], first and last (sample, key) that may be asked for.
        choices: scratch.
        queries: QUERY[>= MOST_QUERIES], filled.

    Returns:
        (ask to go on with, n at the end; queries).
    """
    count = 0
    for number in range(start, asks.size):
        ask = asks[number]
        wanted = wanted_of(ask, known, span)
        if wanted.low > wanted.high:
            continue
        first = count
        listed = list_choices(asks, number, model, choices)
        count = add_choices(ask, listed, choices, wanted, queries, first)
        if count >= 0:
            count = add_pairs(ask, model, choices.places, wanted, queries, count)
        if count < 0:
            return number, first
    return asks.size, count
