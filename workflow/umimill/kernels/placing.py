"""Rows to the families of their keys."""

from __future__ import annotations

from typing import Any

from umimill.jit import kernel
from umimill.kernels.drafts import Drafts, find_family
from umimill.kernels.families import compare


@kernel
def find_keys(
    hot: Any, order: Any, given: Any, families: Any, family_of: Any, family_stop: Any
) -> int:
    """Find the families of each row's key.

    Args:
        hot: HOT[n].
        order: i64[n], rows by key.
        given: i64[n], family of a row that was moved here, else -1.
        families: FAMILY[*], which hold every key of the rows.
        family_of: i64[n], filled with the row's family in `families`, or with the first of its key
            where there is a choice.
        family_stop: i64[n], filled with the end of the key's families where there is a choice,
            else 0.

    Returns:
        Rows with a choice, or -1 where a row's key or family is not in `families`.
    """
    open_rows = 0
    start = 0
    stop = 0
    for index in range(order.size):
        row = order[index]
        if stop == start or compare(families[start], hot[row]) != 0:
            start = stop
            while start < families.size and compare(families[start], hot[row]) < 0:
                start += 1
            stop = start
            while stop < families.size and compare(families[stop], hot[row]) == 0:
                stop += 1
            if stop == start:
                return -1
        family_of[row] = start
        family_stop[row] = 0
        if given[row] >= 0:
            if given[row] >= stop - start:
                return -1
            family_of[row] = start + given[row]
        elif stop > start + 1:
            family_stop[row] = stop
            open_rows += 1
    return open_rows


@kernel
def choose_families(
    rows: Any, drafts: Drafts, families: Any, family_of: Any, family_stop: Any
) -> None:
    """Choose the families of rows by their drafts.

    Args:
        rows: i64[m], row numbers.
        drafts: drafts of these rows, in this order.
        families: FAMILY[*].
        family_of: i64[n], first family of each row's key; replaced by the row's own.
        family_stop: i64[n], end of the key's families.
    """
    for index in range(rows.size):
        row = rows[index]
        found = find_family(
            drafts.draft[index], drafts.mask[index], families, family_of[row], family_stop[row]
        )
        if found >= 0:
            family_of[row] = found
