"""Roots of forests."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import kernel

UNSEEN, ON_PATH = -2, -3


@kernel
def find_roots(parents: Any, roots: Any) -> int:
    """Find the root of each row: a chain is walked up once, then written down once, O(n) in all.

    Args:
        parents: i64[n], the row that each row hangs on, or -1 for a root.
        roots: i64[n], filled; a root is its own.

    Returns:
        -1, or a row whose parents lead outside the table or round in a circle; then roots are void.
    """
    size = parents.size
    for row in range(size):
        roots[row] = UNSEEN
    for row in range(size):
        at = np.int64(row)
        root = np.int64(-1)
        while root < 0:
            if roots[at] >= 0:
                root = roots[at]
            elif roots[at] == ON_PATH or parents[at] >= size or parents[at] < -1:
                return row
            elif parents[at] == -1:
                root = at
            else:
                roots[at] = ON_PATH
                at = parents[at]
        at = np.int64(row)
        while roots[at] == ON_PATH:
            roots[at] = root
            at = parents[at]
        roots[at] = root
    return -1
