"""What is told of an edge between a family and its parent: its posterior, the bases that differ."""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

# Scores are in 1/1024 nat.
SCORE_UNITS = 1024
# A score beyond 64 nat is certain in a double.
MOST_NATS = 64

Array = npt.NDArray[Any]


@cache
def _exp_tables() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return exp(-i), and exp(-i / 1024)."""
    with localcontext() as context:
        context.prec = 30
        coarse = np.array([float(Decimal(-nats).exp()) for nats in range(MOST_NATS + 1)])
        fine = np.array([float((Decimal(-k) / SCORE_UNITS).exp()) for k in range(SCORE_UNITS)])
    return coarse, fine


def posteriors(scores: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return 1 / (1 + exp(-score / 1024)).

    From two exact tables and single divisions, which every machine rounds alike.

    Args:
        scores: i64[n], log-odds in 1/1024 nat.
    """
    coarse, fine = _exp_tables()
    size = np.minimum(np.abs(scores), MOST_NATS * SCORE_UNITS)
    small = coarse[size // SCORE_UNITS] * fine[size % SCORE_UNITS]
    found: npt.NDArray[np.float64] = np.where(scores >= 0, 1.0, small) / (1.0 + small)
    return found


def differing_bases(keys: Array, others: Array) -> npt.NDArray[np.int64]:
    """Return how many bases of packed barcodes differ, i64[n]."""
    differ = keys ^ others
    lanes = (differ | (differ >> np.uint64(1))) & np.uint64(0x5555555555555555)
    counts: npt.NDArray[np.int64] = np.bitwise_count(lanes).astype(np.int64)
    return counts
