"""Rows whose cell barcode is on no list: which listed cell they are of, if any can be told.

    listed:  ln(reads of the cell) + sum over the barcode's bases of ln(1 - e) or, where the read
             has another base, ln(e / 3)
    another: ln(reads of cells on no list) + sum of ln(share of the base at its position)

A read goes to the best listed cell where that is likelier than all else together by a set ratio.
Log-likelihoods are whole numbers of 1/1024 nat.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inline_kernel, kernel
from umimill.kernels.cell_list import CellList, cell_bits
from umimill.kernels.consensus import Batch
from umimill.kernels.move import Staged, has_room, row_hash, stage_row
from umimill.kernels.near_cells import Near, find_near
from umimill.kernels.score import HALF_STEP, IMPOSSIBLE, STEP_BITS, ln_whole, log_add

U = np.uint64

# Columns of the counters of what was placed.
ONE_BASE, ONE_UNKNOWN, TWO_BASES = range(3)


class PlaceModel(NamedTuple):
    """What the rows of a sample are judged by; all in 1/1024 nat but `log` and `two`.

    Attributes:
        log: i64[*], see score.EdgeModel.
        softplus: i64[*], see score.EdgeModel.
        misread: i64[94], ln(e / 3) - ln(1 - e) by Phred.
        right: i64[94], ln(1 - e) by Phred.
        unseen: i64[1], ln of the reads that a listed cell without a read stands for.
        other: i64[1], ln of the reads of cells on no list.
        composition: i64[32, 4], ln of the share of a base at a position among these.
        threshold: i64[1], least log-odds to place a read.
        two: i64[1], 1 where cells that differ at two bases are looked at.
    """

    log: Any
    softplus: Any
    misread: Any
    right: Any
    unseen: Any
    other: Any
    composition: Any
    threshold: Any
    two: Any


@inline_kernel
def add_own(cell: Any, unknown: int, length: int, own: Any, near: Near, count: int) -> int:
    """Add the cells on no list that a barcode may be a misreading of, with their weights.

    Args:
        cell: the barcode.
        unknown: position of its unknown base, or -1.
        length: bases.
        own: OWN[*], ascending.
        near: added to.
        count: entries of `near`.

    Returns:
        Entries of `near` now.
    """
    first = unknown if unknown >= 0 else 0
    last = unknown + 1 if unknown >= 0 else length
    for position in range(first, last):
        for change in range(0 if unknown >= 0 else 1, 4):
            other = cell ^ (U(change) << U(62 - 2 * position))
            place = find_own(other, own)
            if place >= 0:
                near.cell[count] = -1
                near.first[count] = -1 if unknown >= 0 else position
                near.second[count] = -1
                near.weight[count] = own[place]["weight"]
                count += 1
    return count


@inline_kernel
def find_own(cell: Any, own: Any) -> int:
    """Return the entry of a barcode in OWN[*], -1 where it is not there."""
    start = 0
    stop = own.size
    while start < stop:
        middle = (start + stop) >> 1
        if own[middle]["cell"] == cell:
            return middle
        if own[middle]["cell"] < cell:
            start = middle + 1
        else:
            stop = middle
    return -1


@inline_kernel
def unknown_base(mask: Any) -> int:
    """Return the position of the one bit that is set in a mask of unknown bases, -1 for none."""
    position = -1
    while mask != 0:
        mask >>= 1
        position += 1
    return position


@kernel
def place_rows(
    hot: Any,
    order: Any,
    barcode_quality: Any,
    listed: CellList,
    reads: Any,
    model: PlaceModel,
    own: Any,
    near: Near,
    target: Any,
    counters: Any,
) -> None:
    """Decide of which listed cell each row is.

    Args:
        hot: HOT[n], rows of one sample whose cell is not on the list, or has an unknown base.
        order: i64[n], the rows in the order of their keys.
        barcode_quality: u8[n, B].
        listed: the list.
        reads: u32[*], reads of each listed cell in the sample.
        model: see PlaceModel.
        own: OWN[*], ascending: barcodes that are cells of their own, and ln of their reads.
        near: scratch.
        target: i64[n], filled with the cell's number in the list, -1 where it cannot be told.
        counters: i64[3], rows placed by what they differ in, added to.
    """
    length = listed.length[0]
    bits = cell_bits(length)
    count = 0
    cell = U(0)
    mask = np.int64(-1)
    background = np.int64(0)
    for index in range(order.size):
        number = order[index]
        row = hot[number]
        if (row["key"] & bits) != cell or np.int64(row["n_mask"]) != mask:
            cell = row["key"] & bits
            mask = np.int64(row["n_mask"])
            unknown = unknown_base(mask)
            count = 0
            if unknown >= 0 or find_own(cell, own) < 0:
                count = find_near(cell, unknown, model.two[0], listed, reads, near)
            for entry in range(count):
                seen = np.int64(reads[near.cell[entry]])
                near.weight[entry] = (
                    (ln_whole(model.log, seen) + HALF_STEP) >> STEP_BITS
                    if seen > 0
                    else model.unseen[0]
                )
            if count > 0:
                count = add_own(cell, unknown, length, own, near, count)
            background = model.other[0]
            for position in range(length):
                if position != unknown:
                    base = np.int64((cell >> U(62 - 2 * position)) & U(3))
                    background += model.composition[position, base]
        target[number] = -1
        if count == 0:
            continue
        best = choose_cell(barcode_quality[number], mask, length, background, model, near, count)
        if best >= 0:
            target[number] = near.cell[best]
            if mask != 0:
                counters[ONE_UNKNOWN] += 1
            elif near.second[best] >= 0:
                counters[TWO_BASES] += 1
            else:
                counters[ONE_BASE] += 1


@inline_kernel
def choose_cell(
    quality: Any,
    mask: int,
    length: int,
    background: int,
    model: PlaceModel,
    near: Near,
    count: int,
) -> int:
    """Return the entry of `near` that a read belongs to, -1 where none is sure enough.

    Args:
        quality: u8[B], Phred of the barcode's bases.
        mask: its unknown bases.
        length: bases of the cell.
        background: log-likelihood of a cell on no list.
        model: see PlaceModel.
        near: listed cells near the read's, with weights.
        count: how many there are.
    """
    right = 0
    for position in range(length):
        if (mask >> position) & 1 == 0:
            right += model.right[quality[position]]
    best = -1
    best_score = IMPOSSIBLE
    others = background
    for entry in range(count):
        score = near.weight[entry] + right
        if near.first[entry] >= 0:
            score += model.misread[quality[near.first[entry]]]
        if near.second[entry] >= 0:
            score += model.misread[quality[near.second[entry]]]
        if near.cell[entry] < 0:
            others = log_add(model.softplus, others, score)
        elif score > best_score:
            if best >= 0:
                others = log_add(model.softplus, others, best_score)
            best, best_score = entry, score
        else:
            others = log_add(model.softplus, others, score)
    return best if best_score - others >= model.threshold[0] else -1


@kernel
def stage_placed(
    batch: Batch,
    order: Any,
    first: int,
    target: Any,
    listed: CellList,
    staging: Staged,
    scratch: Any,
    hash_sums: Any,
    templates: Any,
) -> int:
    """Stage the rows that were placed, under their cell, until the staging is full.

    Args:
        batch: rows.
        order: i64[n], rows in order.
        first: entry of `order` to begin with.
        target: i64[n], the cell of each row in the list, or -1.
        listed: the list.
        staging: rows are added.
        scratch: u8[>= longest read + 64].
        hash_sums: u64[S], hashes of all rows as they were read, added to.
        templates: i64[S, 2], rows placed and rows not, added to.

    Returns:
        The first entry of `order` not yet looked at.
    """
    bits = cell_bits(listed.length[0])
    for index in range(first, order.size):
        row = order[index]
        source = batch.hot[row]
        if target[row] < 0:
            hash_sums[source["sample"]] += row_hash(batch, row)
            templates[source["sample"], 1] += 1
            continue
        if not has_room(source, staging):
            return index
        place = staging.fill[0]
        key = (source["key"] & ~bits) | listed.cells[target[row]]
        stage_row(batch, row, key, np.uint16(0), np.uint16(0), staging, scratch, hash_sums)
        templates[source["sample"], 0] += 1
        unknown = unknown_base(np.int64(source["n_mask"]))
        if unknown >= 0:
            staging.hot[place]["n_mask"] = 0
            staging.barcode_quality[place, unknown] = 0
    return order.size
