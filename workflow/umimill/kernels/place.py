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
from umimill.kernels.cell_list import CellList, cell_bits, find_cell
from umimill.kernels.consensus import Batch
from umimill.kernels.move import Staged, has_room, row_hash, stage_row
from umimill.kernels.score import HALF_STEP, IMPOSSIBLE, STEP_BITS, ln_whole, log_add

U = np.uint64

# Columns of a survey's sums.
NEAR, FAR, UNKNOWN = range(3)
# Columns of the counters of what was placed.
ONE_BASE, ONE_UNKNOWN, TWO_BASES = range(3)
# Fields of a survey's state.
CELL, KEY = range(2)
READS, KEYS = range(2)

# A cell on no list that was read with this many UMIs more than ten times what errors explain is
# one of its own: rates of errors differ by ten between bases and positions.
OWN_FACTOR = 10
OWN_KEYS = 5
ERROR_BITS = 24


class Near(NamedTuple):
    """Listed cells near a barcode.

    Attributes:
        cell: i64[m], number in the list, -1 for a cell on no list; m from `most_near`.
        first: i64[m], base that differs, -1 where none does.
        second: i64[m], the second one, or -1.
        weight: i64[m], ln of the cell's reads.
    """

    cell: Any
    first: Any
    second: Any
    weight: Any


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


def most_near(length: int) -> int:
    """Return how many listed cells lie within two bases of a barcode, and others one base away."""
    return 1 + 6 * length + 9 * length * (length - 1) // 2


@inline_kernel
def find_near(cell: Any, unknown: int, two: int, listed: CellList, reads: Any, near: Near) -> int:
    """Find the listed cells near a barcode that is not on the list.

    Args:
        cell: the barcode; 0 bits at an unknown base.
        unknown: position of the unknown base, or -1.
        two: whether to look two bases away, at cells that have a read.
        listed: the list.
        reads: u32[n], reads of each listed cell.
        near: filled but for weights.

    Returns:
        How many there are. Those that fit but for the unknown base; or those one base away, by
        position, then those two away.
    """
    length = listed.length[0]
    count = 0
    if unknown >= 0:
        for base in range(4):
            found = find_cell(listed, cell | (U(base) << U(62 - 2 * unknown)))
            if found >= 0:
                near.cell[count] = found
                near.first[count] = -1
                near.second[count] = -1
                count += 1
        return count
    for first in range(length):
        for change in range(1, 4):
            found = find_cell(listed, cell ^ (U(change) << U(62 - 2 * first)))
            if found >= 0:
                near.cell[count] = found
                near.first[count] = first
                near.second[count] = -1
                count += 1
    if two == 0:
        return count
    for first in range(length):
        for change in range(1, 4):
            changed = cell ^ (U(change) << U(62 - 2 * first))
            for second in range(first + 1, length):
                for more in range(1, 4):
                    found = find_cell(listed, changed ^ (U(more) << U(62 - 2 * second)))
                    if found >= 0 and reads[found] > 0:
                        near.cell[count] = found
                        near.first[count] = first
                        near.second[count] = second
                        count += 1
    return count


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


class Survey(NamedTuple):
    """What is counted of the rows of a sample, in the order of their keys.

    Attributes:
        words: u64[2], the barcode that is open and its last key (CELL, KEY).
        state: i64[2], its reads and its distinct keys (READS, KEYS).
        sums: i64[3], rows near a listed cell with reads, far from all, and with an unknown base.
        composition: i64[32, 4], bases of the rows that are far.
    """

    words: Any
    state: Any
    sums: Any
    composition: Any


@inline_kernel
def end_barcode(
    survey: Survey, listed: CellList, reads: Any, near: Near, crowded: Any, count: int
) -> int:
    """Count the open barcode in; return the entries of `crowded`, of which it may be the last."""
    cell = survey.words[CELL]
    around = 0
    for place in range(find_near(cell, -1, 0, listed, reads, near)):
        around += np.int64(reads[near.cell[place]])
    if around == 0:
        survey.sums[FAR] += survey.state[READS]
        for position in range(listed.length[0]):
            base = np.int64((cell >> U(62 - 2 * position)) & U(3))
            survey.composition[position, base] += survey.state[READS]
    else:
        survey.sums[NEAR] += survey.state[READS]
        if survey.state[KEYS] > OWN_KEYS:
            crowded[count]["cell"] = cell
            crowded[count]["keys"] = survey.state[KEYS]
            crowded[count]["reads"] = survey.state[READS]
            crowded[count]["around"] = around
            count += 1
    survey.state[READS] = 0
    survey.state[KEYS] = 0
    return count


@kernel
def survey_rows(
    hot: Any, order: Any, listed: CellList, reads: Any, near: Near, survey: Survey, crowded: Any
) -> int:
    """Count rows whose cell is not on the list, barcode by barcode.

    The last barcode stays open, as more of its rows may come.

    Args:
        hot: HOT[*], rows of one sample.
        order: i64[n], the rows in the order of their keys, behind those of the calls before; none
            = the open barcode has ended.
        listed: the list.
        reads: u32[*], reads of each listed cell.
        near: scratch.
        survey: added to.
        crowded: CROWDED[n // OWN_KEYS + 2], filled: barcodes near a listed cell that have more than
            OWN_KEYS keys.

    Returns:
        Entries of `crowded`.
    """
    bits = cell_bits(listed.length[0])
    count = 0
    for index in range(order.size):
        row = hot[order[index]]
        if row["n_mask"] != 0:
            survey.sums[UNKNOWN] += 1
            continue
        key = row["key"]
        if survey.state[READS] > 0 and (key & bits) != survey.words[CELL]:
            count = end_barcode(survey, listed, reads, near, crowded, count)
        if survey.state[READS] == 0 or key != survey.words[KEY]:
            survey.state[KEYS] += 1
        survey.words[CELL] = key & bits
        survey.words[KEY] = key
        survey.state[READS] += 1
    if order.size == 0 and survey.state[READS] > 0:
        count = end_barcode(survey, listed, reads, near, crowded, count)
    return count


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
