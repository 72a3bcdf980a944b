"""Outcomes: what families became, by the reads they had; counted by move, added up by index."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.statuses import STATUSES

OUTCOMES = (*STATUSES, "corrected")
CORRECTED = OUTCOMES.index("corrected")
# Bin k holds families of 2^k to 2^(k+1) - 1 reads; a family's reads are a u32.
BINS = 32

Array = npt.NDArray[Any]


class OutcomeCounts:
    """Counts the families of a bucket.

    Args:
        samples: number of samples.
    """

    def __init__(self, samples: int) -> None:
        self._shape = (samples, BINS, len(OUTCOMES))
        self._families = np.zeros(samples * BINS * len(OUTCOMES), np.int64)
        self._reads = np.zeros_like(self._families)

    def add(self, families: Array, fates: Array) -> None:
        """Count families.

        Args:
            families: FAMILY[n].
            fates: FATE[n].
        """
        corrected = fates["moved"] == 1
        outcome = np.where(corrected, CORRECTED, fates["status"])
        reads = np.where(corrected, families["reads"], fates["reads"]).astype(np.int64)
        # The exponent of a double is exact for a u32.
        doubling = np.frexp(families["reads"].astype(np.float64))[1] - 1
        place = (families["sample"].astype(np.intp) * BINS + doubling) * len(OUTCOMES) + outcome
        np.add.at(self._families, place, 1)
        np.add.at(self._reads, place, reads)

    def rows(self) -> npt.NDArray[np.int64]:
        """Return what is not 0, i64[n, 5].

        Columns are sample, bin, outcome, families, and reads: their own where they were corrected,
        else all that are in them now.
        """
        found = np.flatnonzero(self._families)
        place = np.unravel_index(found, self._shape)
        return np.column_stack([*place, self._families[found], self._reads[found]])
