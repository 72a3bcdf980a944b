"""What tells molecules from chimeras and unresolved reads, from the sums of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile
from umimill.census import Estimates
from umimill.kernels import status as kernels
from umimill.kernels.score import ONE_BITS
from umimill.kernels.settle import DROPPED_STATUS
from umimill.likelihood import MOST_ERROR, ln_fine, ln_unit

_NAMES = {
    kernels.MOLECULE: "molecule",
    kernels.CHIMERA_SUSPECT: "chimera_suspect",
    kernels.UNRESOLVED: "unresolved",
    DROPPED_STATUS: "dropped",
    kernels.SHIFT: "shifted",
}
# By number, as FATE has it.
STATUSES = tuple(_NAMES[number] for number in range(len(_NAMES)))
LAGS = 16
# Of the families that chance puts on a barcode, what the estimate of that may be off by.
CHANCE_DOUBT = 0.1
DEVIATIONS = 2.0
# Share of random pairs that share an end where no pair tells.
DEFAULT_SHARING = 0.01

Array = npt.NDArray[Any]


def chimera_rate(minors: Sequence[int], estimates: Estimates, sharing: float) -> float:
    """Return the chimeric reads of a read, 0 where no more are seen than chance gives.

    Families of one read that share an end with the larger family of their barcode, less the
    molecules that are expected there.

    Args:
        minors: sums of kernels.status.count_minors.
        estimates: of the sample.
        sharing: share of pairs of molecules that share an end.
    """
    chance = estimates.molecules * estimates.occupancy * float(estimates.sizes[1]) * sharing
    return _rate(minors[kernels.SHARING], minors[kernels.FIRST_READS], chance)


def neither_rate(minors: Sequence[int], estimates: Estimates, sharing: float) -> float:
    """Return the chimeric reads of a read where there are some for certain, else 0.

    Families that are another payload behind the end that they share, as chimera_rate.
    """
    seen, reads = minors[kernels.MIXED], minors[kernels.FIRST_READS]
    chance = estimates.molecules * estimates.occupancy * float(estimates.sizes[1]) * sharing
    return _rate(seen, reads, chance) if seen > DEVIATIONS * float(np.sqrt(seen + 1)) else 0.0


def shift_rate(minors: Sequence[int], estimates: Estimates, beside: float) -> float:
    """Return the shifted reads of a read, 0 where no more are seen than chance gives.

    Those of one molecule are two families, of all sizes: reads are counted.

    Args:
        minors: sums of kernels.status.count_minors.
        estimates: of the sample.
        beside: share of pairs of molecules of which one is as if it were the other, shifted.
    """
    chance = estimates.reads * estimates.occupancy * beside
    return _rate(minors[kernels.SHIFTS], minors[kernels.FIRST_READS], chance)


def beside_share(minors: Sequence[int]) -> float:
    """Return the share of pairs of molecules of which one is as if it were the other, shifted.

    Pairs of one key with about as many reads are two molecules.
    """
    even, shifts = minors[kernels.EVEN], minors[kernels.EVEN_SHIFTS]
    return (shifts + DEFAULT_SHARING) / (even + 1.0)


def _rate(seen: int, reads: int, chance: float) -> float:
    if not reads:
        return 0.0
    doubt = DEVIATIONS * float(np.sqrt(chance)) + CHANCE_DOUBT * chance
    return max(0.0, seen - chance - doubt) / reads


def sharing_share(draws: Array) -> float:
    """Return the share of pairs of molecules with different payloads that share an end.

    Args:
        draws: DRAW[n] of the sample, in the order of their hashes.
    """
    counts = np.array([kernels.count_sharing(draws, lag + 1) for lag in range(LAGS)])
    pairs, sharing = counts.sum(0).tolist()
    return float((sharing + DEFAULT_SHARING) / (pairs + 1.0))


@dataclass(frozen=True)
class Chimeras:
    """What is known of the chimeras of a sample.

    Attributes:
        rate: chimeric reads of a read.
        neither: chimeric reads of a read, 0 where none are there for certain.
        sharing: share of pairs of molecules that share an end.
        shifts: shifted reads of a read.
        beside: share of pairs of molecules of which one is as if it were the other, shifted.
        reads: reads of the first families of all barcodes.
    """

    rate: float
    neither: float
    sharing: float
    shifts: float
    beside: float
    reads: int


def estimate_chimeras(minors: Array, draws: Array, estimates: Estimates) -> Chimeras:
    """Estimate the chimeras of a sample.

    Args:
        minors: i64[6], see kernels.status.count_minors.
        draws: DRAW[n] of the sample.
        estimates: of the sample.
    """
    sharing = min(sharing_share(draws), 0.999)
    counts = minors.tolist()
    beside = beside_share(counts)
    return Chimeras(
        chimera_rate(counts, estimates, sharing),
        neither_rate(counts, estimates, sharing),
        sharing,
        shift_rate(counts, estimates, beside),
        beside,
        max(1, counts[kernels.FIRST_READS]),
    )


def status_tables(chimeras: Chimeras, estimates: Estimates) -> dict[str, Array]:
    """Return the tables of a sample, by their names in the model file."""
    lone = min(1.0, estimates.molecules * float(estimates.sizes[1]) / chimeras.reads)
    one = 1 << ONE_BITS
    sharing = chimeras.sharing
    tables = {
        "errors": np.rint(np.minimum(estimates.errors, MOST_ERROR) * one).astype(np.int64),
        "lone": np.array(round(lone * one), np.int64),
        "chimeras": _ln_rate(chimeras.rate),
        "neither": _ln_rate(chimeras.neither),
        "sharing": ln_unit(np.array([1.0 - sharing, sharing])),
        "shifts": _ln_rate(chimeras.shifts),
        "apart": _ln_rate(chimeras.rate + chimeras.shifts),
        "beside": ln_unit(np.array(chimeras.beside)),
    }
    return {f"status_{name}": table for name, table in tables.items()}


def _ln_rate(rate: float) -> Array:
    return ln_fine(rate) if rate > 0 else np.array(kernels.NO_CHIMERAS, np.int64)


def read_statuses(model_path: Path) -> kernels.StatusModel:
    """Read the tables from a model."""
    with BlockFile(model_path) as file:
        return kernels.StatusModel(
            *(file.read(f"status_{name}") for name in kernels.StatusModel._fields)
        )
