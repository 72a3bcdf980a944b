"""Listed cells near a cell barcode that is not on the list."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inline_kernel
from umimill.kernels.cell_list import CellList, find_cell

U = np.uint64


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
