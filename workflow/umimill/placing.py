"""Which family of its key a row belongs to, as tally decided it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.drafts import batch_drafts
from umimill.errors import UmimillError
from umimill.kernels import placing as kernels
from umimill.kernels.consensus import Batch

Array = npt.NDArray[Any]


def find_families(
    batch: Batch, order: Array, given: Array, families: Array, strides: Array
) -> npt.NDArray[np.int64]:
    """Return the family of each row, as its number in `families`, i64[n].

    Args:
        batch: rows.
        order: i64[n], rows by key.
        given: i64[n], family of a row that was moved here, else -1.
        families: FAMILY[*], which hold every key of the rows.
        strides: i64[S], see draft_strides.

    Raises:
        UmimillError: where a row has no family.
    """
    count = batch.hot.size
    family_of = np.empty(count, np.int64)
    family_stop = np.empty(count, np.int64)
    found = kernels.find_keys(batch.hot, order, given, families, family_of, family_stop)
    if found < 0:
        raise UmimillError("a row belongs to no family; delete results/tally and run again")
    if found:
        rows = np.flatnonzero(family_stop)
        some = batch._replace(hot=batch.hot[rows], starts=batch.starts[rows], runs=batch.runs[rows])
        drafts = batch_drafts(some, strides)
        kernels.choose_families(rows, drafts, families, family_of, family_stop)
    return family_of
