"""Barcodes that were not fully read: which barcodes they may be, who has those, and their rows.

Such a barcode has one or two unknown bases, or a base less or more than it should. It may be any of
those that fill its unknown bases, have one base more at any place, or one less. A read of it is put
to a family that has one of these barcodes by the odds

    reads of the family * P(this barcode | read of that one, with a loss or gain) * payload
    / (reads of molecules that nobody else has read * P(this barcode))

against all other such families. How often bases get lost is in both, and cancels out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import inline_kernel, kernel
from umimill.kernels.answers import TRIED, first_from
from umimill.kernels.consensus import Batch
from umimill.kernels.drafts import (
    DRAFT_BASES,
    LEAST_COMPARED,
    Drafts,
    are_compatible,
    compare_lanes,
    mask_to_lanes,
)
from umimill.kernels.families import compare
from umimill.kernels.known import has_bits, hash_key
from umimill.kernels.queries import Known, wanted_of
from umimill.kernels.rows import SHIFT_MINUS, SHIFT_PLUS
from umimill.kernels.score import (
    FINE_BITS,
    LN_TWO,
    MOST_SCORE,
    MOST_TERM,
    EdgeModel,
    ln_whole,
    log_add,
    score_payload,
    to_unit,
)

U = np.uint64

# Barcodes that one may be: of 32 bases each of 33 places takes 4 bases.
MOST_CANDIDATES = 132
# Columns of the table of reads of molecules that nobody else has read.
UNKNOWN_BASES, SHIFTED = range(2)


@kernel
def fill_partials(batch: Batch, order: Any, drafts: Drafts, partials: Any) -> None:
    """Fill PARTIAL[n] with rows in order.

    Args:
        batch: rows.
        order: i64[n], their order.
        drafts: of the rows, as they are in the batch.
        partials: PARTIAL[n], zeros.
    """
    for place in range(order.size):
        row = order[place]
        hot = batch.hot[row]
        entry = partials[place]
        entry["key"] = hot["key"]
        entry["n_mask"] = hot["n_mask"]
        entry["sample"] = hot["sample"]
        entry["umi_length"] = hot["umi_length"]
        entry["cell_length"] = hot["cell_length"]
        flags = np.int64(hot["flags"])
        entry["shift"] = np.int64(flags & SHIFT_PLUS > 0) - np.int64(flags & SHIFT_MINUS > 0)
        entry["draft"] = drafts.draft[row]
        entry["mask"] = drafts.mask[row]
        known = np.int64(0)
        trust = np.int64(0)
        for base in range(DRAFT_BASES):
            quality = np.int64(drafts.quality[DRAFT_BASES * row + base])
            trust += quality
            known += quality > 0
        entry["draft_quality"] = (2 * trust) // known if known > 0 else 0


@inline_kernel
def base_at(key: Any, place: int) -> Any:
    """Return the base of a left-aligned key at a place."""
    return (key >> U(62 - 2 * place)) & U(3)


@inline_kernel
def run_before(key: Any, start: int, place: int, base: Any) -> int:
    """Return how many bases in a row before a place, from `start` on, are this one."""
    count = 0
    while place - count > start and base_at(key, place - count - 1) == base:
        count += 1
    return count


@inline_kernel
def bases_before(key: Any, place: int) -> Any:
    """Return a key with its first `place` bases alone."""
    return U(0) if place == 0 else (key >> U(64 - 2 * place)) << U(64 - 2 * place)


@inline_kernel
def bases_from(key: Any, place: int) -> Any:
    """Return a key with its bases from `place` on alone, in place."""
    return key if place == 0 else (U(0) if place > 31 else (key << U(2 * place)) >> U(2 * place))


@inline_kernel
def list_candidates(entry: Any, log: Any, keys: Any, ways: Any) -> int:
    """List the barcodes that one may be, each once.

    Args:
        entry: PARTIAL.
        log: see EdgeModel.
        keys: u64[MOST_CANDIDATES], filled.
        ways: i64[MOST_CANDIDATES], filled with fine ln P(the barcode as read | read of this one,
            which lost, or gained, one base).

    Returns:
        Barcodes.
    """
    key = U(entry["key"])
    start = np.int64(entry["cell_length"])
    stop = start + np.int64(entry["umi_length"])
    shift = np.int64(entry["shift"])
    count = 0
    if shift == 0:
        keys[0] = key
        ways[0] = 0
        count = 1
        for place in range(start, stop):
            if (U(entry["n_mask"]) >> U(place)) & U(1) == U(0):
                continue
            for base in range(1, 4):
                for number in range(count):
                    keys[base * count + number] = keys[number] | (U(base) << U(62 - 2 * place))
                    ways[base * count + number] = 0
            count *= 4
    elif shift < 0:
        # A base put in before its like gives the same as behind it: each run has one place.
        for place in range(start, stop + 1):
            for base in range(4):
                if place < stop and base_at(key, place) == U(base):
                    continue
                behind = bases_from(key, place) >> U(2)
                keys[count] = bases_before(key, place) | (U(base) << U(62 - 2 * place)) | behind
                run = run_before(key, start, place, U(base)) + 1
                ways[count] = log[run] - log[stop - start + 1]
                count += 1
    else:
        for place in range(start, stop):
            if place + 1 < stop and base_at(key, place + 1) == base_at(key, place):
                continue
            behind = U(0) if place > 30 else bases_from(key, place + 1) << U(2)
            keys[count] = bases_before(key, place) | behind
            run = run_before(key, start, place, base_at(key, place)) + 1
            ways[count] = log[run] - log[4 * (stop - start)]
            count += 1
    return count


@inline_kernel
def ln_barcode(entry: Any, sample: int, model: EdgeModel) -> int:
    """Return fine ln P(a molecule has a barcode's known bases)."""
    total = np.int64(0)
    length = np.int64(entry["cell_length"]) + np.int64(entry["umi_length"])
    # A base that is too many is one of four.
    if entry["shift"] > 0:
        length -= 1
        total -= (2 * LN_TWO) >> (40 - FINE_BITS)
    for place in range(length):
        if (U(entry["n_mask"]) >> U(place)) & U(1) == U(0):
            total += model.composition[sample, place, np.int64(base_at(entry["key"], place))]
    return total


@kernel
def ask_for_partials(
    partials: Any,
    start: int,
    first_row: int,
    model: EdgeModel,
    unseen: Any,
    known: Known,
    span: Any,
    keys: Any,
    ways: Any,
    queries: Any,
) -> tuple[int, int]:
    """List the barcodes that some may be, as far as someone has them.

    Args:
        partials: PARTIAL[n].
        start: which to begin with.
        first_row: number of the first in the table of its bucket.
        model: tables.
        unseen: i64[S, 2], fine ln(reads of molecules that nobody else has read).
        known: filter of the families in the span; that of their drafts is not used.
        span: u64[2, 2], first and last (sample, key) that may be asked for.
        keys: u64[MOST_CANDIDATES], scratch.
        ways: i64[MOST_CANDIDATES], scratch.
        queries: QUERY[>= MOST_CANDIDATES], filled.

    Returns:
        (which to go on with, n at the end; queries).
    """
    count = 0
    for number in range(start, partials.size):
        if count + MOST_CANDIDATES > queries.size:
            return number, count
        entry = partials[number]
        sample = np.int64(entry["sample"])
        shift = np.int64(entry["shift"])
        independent = ln_barcode(entry, sample, model)
        independent += unseen[sample, SHIFTED if shift != 0 else UNKNOWN_BASES]
        if entry["cell_length"] > 0:
            independent += model.cell_families[sample] - model.families[sample]
        independent = min(max(to_unit(independent), -MOST_TERM), MOST_TERM)
        listed = list_candidates(entry, model.log, keys, ways)
        for choice in range(listed):
            query = queries[count]
            query["key"] = keys[choice]
            query["umi_length"] = np.int64(entry["umi_length"]) - shift
            query["cell_length"] = entry["cell_length"]
            query["sample"] = entry["sample"]
            wanted = wanted_of(query, known, span)
            word = hash_key(keys[choice], wanted.seed)
            if keys[choice] < wanted.low or keys[choice] > wanted.high:
                continue
            if not has_bits(keys[choice], word, known.starts, 1, known.keys):
                continue
            query["child_key"] = entry["key"]
            query["draft"] = entry["draft"]
            query["mask"] = entry["mask"]
            query["reads"] = 1
            query["row"] = first_row + number
            query["changes"] = ways[choice]
            query["independent"] = independent
            query["quality_sum"] = 0
            query["family"] = 0
            query["draft_quality"] = entry["draft_quality"]
            query["shift"] = shift
            count += 1
    return partials.size, count


@kernel
def place_queries(
    families: Any, queries: Any, start: int, model: EdgeModel, places: Any
) -> tuple[int, int]:
    """Find the families that reads may belong to.

    A read with a shift needs a payload that says so too.

    Args:
        families: FAMILY[n], whole keys, in order.
        queries: QUERY[m], in order.
        start: which to begin with.
        model: tables.
        places: PLACE[>= TRIED], filled.

    Returns:
        (query to go on with, m at the end; places).
    """
    count = 0
    row = 0
    for number in range(start, queries.size):
        if count + TRIED > places.size:
            return number, count
        query = queries[number]
        sample = np.int64(query["sample"])
        row = first_from(families, row, query)
        for other in range(row, min(row + TRIED, families.size)):
            family = families[other]
            if compare(family, query) != 0:
                break
            if not are_compatible(query["draft"], query["mask"], family["draft"], family["mask"]):
                continue
            _, compared = compare_lanes(
                query["draft"],
                mask_to_lanes(query["mask"]),
                family["draft"],
                mask_to_lanes(family["mask"]),
            )
            if query["shift"] != 0 and compared < LEAST_COMPARED:
                continue
            payload = score_payload(query, query["child_key"], family, sample, model)
            error = to_unit(ln_whole(model.log, np.int64(family["reads"])) + query["changes"])
            place = places[count]
            place["key"] = query["child_key"]
            place["root_key"] = family["key"]
            place["score"] = min(
                max(error - np.int64(query["independent"]) + payload, -MOST_SCORE), MOST_SCORE
            )
            place["ln_error"] = error
            place["ln_independent"] = query["independent"]
            place["payload"] = payload
            place["reads"] = family["reads"]
            place["row"] = query["row"]
            place["asker"] = query["asker"]
            place["sample"] = family["sample"]
            place["root_family"] = family["family"]
            place["umi_length"] = family["umi_length"]
            place["cell_length"] = family["cell_length"]
            place["shift"] = query["shift"]
            count += 1
    return queries.size, count


@kernel
def choose_places(places: Any, least_score: int, softplus: Any) -> int:
    """Keep the best root of each row where it is better than all others together.

    Args:
        places: PLACE[n], by row, and the best first; those that are kept come to the front, with
            their score against the others.
        least_score: score from which a place is kept.
        softplus: see EdgeModel.

    Returns:
        Places kept.
    """
    count = 0
    start = 0
    while start < places.size:
        best = places[start]
        against = rivals = np.int64(0)
        stop = start + 1
        while stop < places.size and places[stop]["row"] == best["row"]:
            other = places[stop]
            if (
                other["root_key"] != best["root_key"]
                or other["root_family"] != best["root_family"]
                or other["umi_length"] != best["umi_length"]
            ):
                against = log_add(softplus, against, np.int64(other["score"]))
                rivals = np.int64(1)
            stop += 1
        # Of two that are as good neither is the better one.
        score = np.int64(best["score"]) - against - rivals
        if score >= least_score:
            places[count] = best
            places[count]["score"] = score
            count += 1
        start = stop
    return count
