"""Families that may be misread at several bases: which of them ask what they may have been."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import inline_kernel, kernel
from umimill.kernels.queries import find_unsure, least_total
from umimill.kernels.score import (
    ONE_BITS,
    EdgeModel,
    exp_fine,
    ln_one,
    log_add,
    score_independent,
    to_unit,
)

# Families of more reads than that had the same several errors in all of them: not by sequencing.
MOST_READS = 3
# Posterior 0.999: such a family has its parent.
CERTAIN = 7073
NEVER = -(1 << 40)


@inline_kernel
def quality_sum(quality: Any, row: int) -> int:
    """Return the sum of a family's barcode qualities."""
    total = np.int64(0)
    for position in range(quality.shape[1]):
        total += np.int64(quality[row, position])
    return total


@inline_kernel
def likeliest_two(quality: Any, row: int, start: int, stop: int, misread: Any) -> int:
    """Return the sum of the two largest of misread at positions [start, stop) of a barcode."""
    first = second = np.int64(NEVER)
    for position in range(start, stop):
        own = misread[quality[row, position]]
        if own > first:
            first, second = own, first
        elif own > second:
            second = own
    return first + second


@inline_kernel
def ln_missed(
    quality: Any, row: int, start: int, stop: int, sample: int, model: EdgeModel, places: Any
) -> int:
    """Return fine ln P(a read is misread in a way that is not asked for), about.

    That is, both at a base that is tried and at another one.

    Args:
        quality: u8[n, B].
        row: family.
        start: first position of the UMI.
        stop: end.
        sample: its sample.
        model: tables.
        places: i64[MOST_UNSURE], scratch.
    """
    unsure = find_unsure(quality, row, start, stop, model.misread[sample], places)
    tried = np.int64(0)
    others = np.int64(0)
    for position in range(start, stop):
        others += model.right[sample, quality[row, position]]
    for place in range(unsure):
        tried += model.right[sample, quality[row, places[place]]]
    one = np.int64(1) << ONE_BITS
    some = max(np.int64(1), one - exp_fine(tried))
    more = max(np.int64(1), one - exp_fine(others - tried))
    return ln_one(model.log, some) + ln_one(model.log, more)


@inline_kernel
def score_unasked(
    families: Any, quality: Any, row: int, sample: int, model: EdgeModel, places: Any
) -> int:
    """Return 1024 ln of how many families of this key and reads have no parent to be found.

    Molecules with this very barcode, and reads misread in a way that is not asked for.
    """
    family = families[row]
    independent = score_independent(family, sample, model)
    if family["reads"] > 1:
        return independent
    cell = np.int64(family["cell_length"])
    stop = cell + np.int64(family["umi_length"])
    missed = ln_missed(quality, row, cell, stop, sample, model, places)
    missed += model.reads[sample] - model.families[sample] - model.sizes[sample, 1]
    return log_add(model.softplus, independent, independent + to_unit(missed))


@kernel
def find_asks(
    families: Any,
    quality: Any,
    edges: Any,
    first_row: int,
    start: int,
    model: EdgeModel,
    places: Any,
    asks: Any,
) -> tuple[int, int]:
    """List the families that may be misread at several bases.

    Args:
        families: FAMILY[n].
        quality: u8[n, B], half-Phred.
        edges: EDGE[n], best parents one base away.
        first_row: row of the first family in its bucket's table.
        start: family to begin with.
        model: tables.
        places: i64[MOST_UNSURE], scratch.
        asks: ASK[> 0], filled.

    Returns:
        (family to go on with, n at the end; asks).
    """
    count = 0
    for row in range(start, families.size):
        family = families[row]
        if np.int64(family["reads"]) > MOST_READS or edges[row]["score"] >= CERTAIN:
            continue
        sample = np.int64(family["sample"])
        cell = np.int64(family["cell_length"])
        length = cell + np.int64(family["umi_length"])
        independent = score_unasked(families, quality, row, sample, model, places)
        likeliest = likeliest_two(quality, row, cell, length, model.misread[sample])
        reads = np.int64(family["reads"])
        if to_unit(reads * likeliest) < least_total(independent, sample, model):
            continue
        if count == asks.size:
            return row, count
        ask = asks[count]
        ask["key"] = family["key"]
        ask["draft"] = family["draft"]
        ask["mask"] = family["mask"]
        ask["reads"] = family["reads"]
        ask["row"] = first_row + row
        ask["independent"] = independent
        ask["quality_sum"] = quality_sum(quality, row)
        ask["sample"] = family["sample"]
        ask["family"] = family["family"]
        ask["umi_length"] = family["umi_length"]
        ask["cell_length"] = family["cell_length"]
        ask["draft_quality"] = family["draft_quality"]
        for position in range(length):
            ask["quality"][position] = quality[row, position]
        count += 1
    return families.size, count
