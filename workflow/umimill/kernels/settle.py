"""Roots of accepted edges, and what becomes of each family of a key."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import inline_kernel, kernel
from umimill.kernels.families import compare

U = np.uint64

# Stands for a root where a rule drops a barcode.
DROPPED = 0xFFFF
DROPPED_STATUS = 3


@inline_kernel
def compare_families(first: Any, second: Any) -> int:
    """Order two rows by (sample, key, barcode length, cell length, family): -1, 0 or 1."""
    order = compare(first, second)
    if order == 0 and first["family"] != second["family"]:
        order = -1 if first["family"] < second["family"] else 1
    return order


@kernel
def accept_edges(families: Any, edges: Any, least_score: int, corrections: Any) -> int:
    """List the families whose edge is accepted.

    Args:
        families: FAMILY[n].
        edges: EDGE[n].
        least_score: score from which an edge is accepted.
        corrections: CORRECTION[>= n], filled with child and parent.

    Returns:
        Corrections.
    """
    count = 0
    for row in range(families.size):
        if edges[row]["score"] < least_score:
            continue
        correction = corrections[count]
        family = families[row]
        correction["key"] = family["key"]
        correction["family"] = family["family"]
        correction["sample"] = family["sample"]
        correction["umi_length"] = family["umi_length"]
        correction["cell_length"] = family["cell_length"]
        correction["reads"] = family["reads"]
        correction["root_key"] = edges[row]["parent_key"]
        correction["root_family"] = edges[row]["parent_family"]
        count += 1
    return count


@kernel
def follow(queries: Any, corrections: Any, found: Any) -> None:
    """Replace each query's root by that root's own root, as long as `corrections` know one.

    A parent ranks above its child, so this ends.

    Args:
        queries: CORRECTION[n]; root_key and root_family are changed.
        corrections: CORRECTION[m], sorted by child.
        found: CORRECTION[1], scratch.
    """
    for number in range(queries.size):
        query = queries[number]
        found[0] = query
        while True:
            found[0]["key"] = query["root_key"]
            found[0]["family"] = query["root_family"]
            start = 0
            stop = corrections.size
            while start < stop:
                middle = (start + stop) // 2
                if compare_families(corrections[middle], found[0]) < 0:
                    start = middle + 1
                else:
                    stop = middle
            if start == corrections.size or compare_families(corrections[start], found[0]) != 0:
                break
            query["root_key"] = corrections[start]["root_key"]
            query["root_family"] = corrections[start]["root_family"]


@kernel
def join_families(families: Any, corrections: Any, arrivals: Any, fates: Any) -> tuple[int, int]:
    """Say what becomes of each family: which molecule of its key it is, or where it went.

    Args:
        families: FAMILY[n], whole keys.
        corrections: CORRECTION[*] from the first family on, sorted by child.
        arrivals: ARRIVAL[*] from the first family on, sorted by root.
        fates: FATE[n], zeros; filled.

    Returns:
        (corrections, arrivals) that concern these families.
    """
    correction = 0
    arrival = 0
    for row in range(families.size):
        fate = fates[row]
        fate["reads"] = U(families[row]["reads"])
        fate["families"] = 1
        fate["root_key"] = families[row]["key"]
        fate["root_family"] = families[row]["family"]
        if (
            correction < corrections.size
            and compare_families(corrections[correction], families[row]) == 0
        ):
            if corrections[correction]["root_family"] == DROPPED:
                fate["status"] = DROPPED_STATUS
            else:
                fate["moved"] = 1
                fate["root_key"] = corrections[correction]["root_key"]
                fate["root_family"] = corrections[correction]["root_family"]
            correction += 1
        if arrival < arrivals.size and compare_families(arrivals[arrival], families[row]) == 0:
            fate["reads"] += arrivals[arrival]["reads"]
            fate["families"] += arrivals[arrival]["families"]
            arrival += 1
    return correction, arrival


@kernel
def add_arrivals(families: Any, arrivals: Any, fates: Any) -> int:
    """Add the reads that were placed to the families they went to.

    Args:
        families: FAMILY[n], whole keys.
        arrivals: ARRIVAL[*] from the first family on, sorted by root.
        fates: FATE[n]; reads are added to.

    Returns:
        Arrivals that concern these families.
    """
    arrival = 0
    for row in range(families.size):
        if arrival == arrivals.size:
            break
        if compare_families(arrivals[arrival], families[row]) == 0:
            fates[row]["reads"] += arrivals[arrival]["reads"]
            arrival += 1
    return arrival


@kernel
def find_pieces(samples: Any, keys: Any, first_samples: Any, first_keys: Any, places: Any) -> None:
    """Find the last piece that does not begin behind each key.

    Args:
        samples: u16[n].
        keys: u64[n].
        first_samples: i64[m], in order with first_keys.
        first_keys: u64[m].
        places: i64[n], filled; -1 where all begin behind.
    """
    for number in range(keys.size):
        sample = np.int64(samples[number])
        key = keys[number]
        start = 0
        stop = first_keys.size
        while start < stop:
            middle = (start + stop) // 2
            if first_samples[middle] < sample or (
                first_samples[middle] == sample and first_keys[middle] <= key
            ):
                start = middle + 1
            else:
                stop = middle
        places[number] = start - 1


@inline_kernel
def comes_before(fate: Any, other: Any) -> bool:
    """Return whether a family stands before another of its key: molecules first, then by reads."""
    is_other = fate["status"] != 0
    other_is = other["status"] != 0
    if is_other != other_is:
        return other_is
    return fate["reads"] > other["reads"]


@kernel
def number_molecules(families: Any, fates: Any, order: Any) -> None:
    """Number the families of each key that stayed, from 0: molecules first, then by reads.

    A name needs the number where its key has another molecule, and where it is none itself but not
    alone.

    Args:
        families: FAMILY[n], whole keys.
        fates: FATE[n]; number and several are filled.
        order: i64[n], scratch.
    """
    start = 0
    while start < families.size:
        count = 0
        molecules = 0
        row = start
        while row < families.size and compare(families[start], families[row]) == 0:
            if fates[row]["moved"] == 0:
                # Families come by reads, so most are in place already.
                place = count
                while place > 0 and comes_before(fates[row], fates[order[place - 1]]):
                    order[place] = order[place - 1]
                    place -= 1
                order[place] = row
                count += 1
                molecules += np.int64(fates[row]["status"] == 0)
            row += 1
        for place in range(count):
            fate = fates[order[place]]
            fate["number"] = place
            fate["several"] = molecules > 1 or place > 0
        start = row
