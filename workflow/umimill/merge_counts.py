"""How sure correction was, and what it says of errors: counted by move, added up by index."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.barcode_sums import POSTERIOR_BINS
from umimill.edge_numbers import posteriors
from umimill.kernels import merges as kernels
from umimill.likelihood import posterior_threshold
from umimill.outcomes import BINS

SHARE_BITS = kernels.SHARE_BITS
# Columns behind sample and bin of each table. Shares are added up in 2^-SHARE_BITS.
COLUMNS = {
    "posteriors": ("families", "reads", "corrected"),
    "corrections": ("families", "corrected", "molecules", "errors_left", "wrong_merges"),
    "umi_errors": ("parents", "parent_reads", "children", "child_reads", "bases"),
    "keys": ("barcodes", "pairs", "agreeing"),
}

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


@cache
def score_tables() -> tuple[Integers, Integers]:
    """Return the shares of all scores, and the least score of each posterior bin but the first.

    See kernels.merges.count_merges.
    """
    scores = np.arange(-kernels.SURE_SCORE, kernels.SURE_SCORE + 1)
    shares = np.rint(posteriors(scores) * (1 << SHARE_BITS)).astype(np.int64)
    bounds = [posterior_threshold(least) for least in POSTERIOR_BINS[1:]]
    return shares, np.array(bounds, np.int64)


class MergeCounts:
    """Counts the families of a bucket, with their best parents.

    Args:
        samples: number of samples.
    """

    def __init__(self, samples: int) -> None:
        bins = (len(POSTERIOR_BINS), BINS, BINS, 1)
        self._counts = kernels.Counts(
            *(
                np.zeros((samples, number, len(columns)), np.int64)
                for number, columns in zip(bins, COLUMNS.values(), strict=True)
            )
        )

    def add(self, families: Array, fates: Array, edges: Array) -> None:
        """Count families of whole keys.

        Args:
            families: FAMILY[n].
            fates: FATE[n].
            edges: EDGE[n], their best parents.
        """
        kernels.count_merges(families, fates, edges, *score_tables(), self._counts)

    def arrays(self) -> dict[str, Integers]:
        """Return what is not 0 of each table by name: i64[n, 2 + columns], sample, bin, sums."""
        found = {}
        for name, sums in zip(COLUMNS, self._counts, strict=True):
            samples, bins = np.nonzero(sums.any(2))
            found[name] = np.column_stack([samples, bins, sums[samples, bins]])
        return found


def add_rows(total: dict[tuple[int, int], list[int]], rows: Integers) -> None:
    """Add rows of one table to a total by (sample, bin)."""
    for sample, number, *values in rows.tolist():
        held = total.setdefault((sample, number), [0] * len(values))
        total[sample, number] = [one + other for one, other in zip(held, values, strict=True)]
