"""Families in order of their keys, added up by cell."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inline_kernel, kernel
from umimill.kernels.cell_list import cell_bits

U = np.uint64

BELOW, CALLED = range(2)
SIZE_BINS = 32


class Profile(NamedTuple):
    """What molecules look like.

    Attributes:
        umi: i64[groups, 32, 4], molecules by UMI position and base.
        draft: i64[groups, 32, 4], the same by place of the payload's draft; unknown bases not.
        sizes: i64[groups, 32], molecules of 2^k to 2^(k + 1) - 1 reads.
    """

    umi: Any
    draft: Any
    sizes: Any


@inline_kernel
def end_cell(cells: Any, count: int, least: int, open_one: Profile, profile: Profile) -> None:
    """Add what the open cell holds to the profile of its group, and clear it."""
    group = CALLED if np.int64(cells[count]["molecules"]) >= least else BELOW
    for place in range(32):
        for base in range(4):
            profile.umi[group, place, base] += open_one.umi[0, place, base]
            profile.draft[group, place, base] += open_one.draft[0, place, base]
            open_one.umi[0, place, base] = 0
            open_one.draft[0, place, base] = 0
        profile.sizes[group, place] += open_one.sizes[0, place]
        open_one.sizes[0, place] = 0


@kernel
def sum_cells(
    families: Any, fates: Any, least: int, cells: Any, open_one: Profile, profile: Profile
) -> int:
    """Add up families by cell.

    The last cell stays open in the entry behind those that have ended, as more of its families may
    come; the caller moves it to the front before the next call.

    Args:
        families: FAMILY[n] of one sample, in order; none = the open cell has ended.
        fates: FATE[n].
        least: molecules of a cell that is called.
        cells: CELL[n + 2], the open cell in front; filled with those that have ended, then with the
            one that is open. An open cell without families is none.
        open_one: the profile of the open cell, one group.
        profile: those of the cells that have ended, by group (BELOW, CALLED).

    Returns:
        Cells that have ended.
    """
    count = 0
    for row in range(families.size):
        family = families[row]
        fate = fates[row]
        length = np.int64(family["cell_length"])
        key = family["key"]
        cell = key & cell_bits(length)
        other = cells[count]["cell"] != cell or cells[count]["length"] != length
        if other and cells[count]["families"] > 0:
            end_cell(cells, count, least, open_one, profile)
            count += 1
            cells[count]["families"] = 0
        if cells[count]["families"] == 0:
            cells[count]["cell"] = cell
            cells[count]["length"] = length
            cells[count]["reads"] = 0
            cells[count]["molecules"] = 0
        cells[count]["families"] += 1
        if fate["moved"] == 1 or fate["status"] != 0:
            # Reads of what is no molecule are the cell's all the same.
            if fate["moved"] == 0:
                cells[count]["reads"] += fate["reads"]
            continue
        cells[count]["reads"] += fate["reads"]
        cells[count]["molecules"] += 1
        for position in range(np.int64(family["umi_length"])):
            base = np.int64((key >> U(62 - 2 * (length + position))) & U(3))
            open_one.umi[0, position, base] += 1
        for place in range(32):
            if (np.int64(family["mask"]) >> (31 - place)) & 1:
                base = np.int64((family["draft"] >> U(62 - 2 * place)) & U(3))
                open_one.draft[0, place, base] += 1
        size = 0
        reads = np.int64(fate["reads"])
        while (reads >> (size + 1)) > 0:
            size += 1
        open_one.sizes[0, size] += 1
    if families.size == 0 and cells[count]["families"] > 0:
        end_cell(cells, count, least, open_one, profile)
        count += 1
        cells[count]["families"] = 0
    return count
