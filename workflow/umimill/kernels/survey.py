"""What the rows of a sample whose cell is not on the list show together, barcode by barcode."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inline_kernel, kernel
from umimill.kernels.cell_list import CellList, cell_bits
from umimill.kernels.near_cells import Near, find_near

U = np.uint64

# Columns of a survey's sums.
NEAR, FAR, UNKNOWN = range(3)
# Fields of a survey's state.
CELL, KEY = range(2)
READS, KEYS = range(2)
# A cell on no list that was read with this many UMIs more than ten times what errors explain is
# one of its own: rates of errors differ by ten between bases and positions.
OWN_FACTOR = 10
OWN_KEYS = 5
ERROR_BITS = 24


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
