"""Parameters of a simulated library, checked, and the numbers that follow from them.

Knows the formulas of qualities and barcode errors; the model itself is described in `simulate`.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from umimill.synthetic import Integers, phred_errors

DEMO_LAYOUTS = tuple(
    f"aa{tag}cagtggtatcaacgcagagtNNNNtNNNNtNNNN" for tag in ("ACT", "AGA", "GCC", "GGT")
)


@dataclass(frozen=True)
class SimulationParameters:
    """What to simulate; the defaults are the demo library. The model is described in `simulate`.

    Attributes:
        seed: Of PCG64.
        molecules: Molecules made; those without a read are dropped.
        mean_reads, sigma_reads: Reads per molecule: mean of the lognormal, and standard deviation
            of its logarithm.
        uniform_reads: With U > 0, reads per molecule are uniform on 1 .. U instead.
        clones, zipf_exponent: Different inserts, and how their shares fall.
        clone_families, family_divergence: Ancestors of the clones (0: none, all independent), and
            share of bases in which a clone differs from its ancestor.
        samples, layouts: Sample ids and their patterns: ACGT in either case, N = UMI base.
        payload_length: Bases of read 1 after the pattern.
        insert_length: Bases after the pattern until the adapter; 0 = `payload_length`.
        read2_length: Bases of read 2; 0 = single-end.
        mean_error: Mean sequencing error per base.
        quality_levels, quality_weights: Phred levels, rising, and the relative shares of all but
            the highest.
        quality_persistence: Probability that a base keeps the quality of the one before.
        barcode_error: Mean error per UMI base.
        barcode_prefix_length, barcode_prefix_share: The first bases of the UMI and their share of
            its errors.
        pcr_error, pcr_cycles: Errors per base and cycle; cycles.
        chimera_share, shift_share, front_share: Shares of the tagged reads.
        foreign_share: Share of all reads.
        front_bases: Most random bases in front of a pattern.
    """

    seed: int = 1
    molecules: int = 5000
    mean_reads: float = 5.0
    sigma_reads: float = 0.8
    uniform_reads: int = 0
    clones: int = 60
    zipf_exponent: float = 1.0
    clone_families: int = 0
    family_divergence: float = 0.15
    samples: tuple[str, ...] = ("S1", "S2", "S3", "S4")
    layouts: tuple[str, ...] = DEMO_LAYOUTS
    payload_length: int = 90
    insert_length: int = 0
    read2_length: int = 0
    mean_error: float = 3e-3
    quality_levels: tuple[int, ...] = (2, 11, 25, 37)
    quality_weights: tuple[float, ...] = (1, 6, 100)
    quality_persistence: float = 0.85
    barcode_error: float = 3e-3
    barcode_prefix_length: int = 4
    barcode_prefix_share: float = 1 / 3
    pcr_error: float = 1e-5
    pcr_cycles: int = 25
    chimera_share: float = 0.005
    shift_share: float = 0.001
    foreign_share: float = 0.02
    front_share: float = 0.02
    front_bases: int = 2

    def __post_init__(self) -> None:
        """Refuse what the model cannot make.

        Raises:
            ValueError: naming the field, its value and what it may be.
        """
        levels, umi_length = self.quality_levels, self.umi_columns.size
        at_most_1 = (
            "family_divergence", "barcode_error", "barcode_prefix_share", "pcr_error",
            "mean_error", "chimera_share", "shift_share", "front_share",
        )  # fmt: skip
        below_1 = ("quality_persistence", "foreign_share")
        at_least_0 = (
            "seed", "insert_length", "read2_length", "clone_families", "sigma_reads",
            "uniform_reads",
        )  # fmt: skip
        above_0 = ("molecules", "clones", "mean_reads", "payload_length", "barcode_prefix_length")
        for names, bounds, minimum, maximum in (
            (at_most_1, "0 .. 1", 0.0, 1.0),
            (below_1, "0 .. below 1", 0.0, 1 - 2.0**-30),
            (at_least_0, "0 or more", 0.0, math.inf),
            (above_0, "above 0", 2.0**-30, math.inf),
            (("pcr_cycles",), "1 .. 50", 1.0, 50.0),
            (("front_bases",), "0 .. below payload_length", 0.0, self.payload_length - 1.0),
        ):
            for name in names:
                _require(minimum <= getattr(self, name) <= maximum, self, name, bounds)
        shapes = {tuple(base == "N" for base in layout) for layout in self.layouts}
        letters = set("".join(self.layouts).upper())
        one_each = len(self.layouts) == len(self.samples) > 0
        fits = one_each and len(shapes) == 1 and letters <= set("ACGTN") and umi_length > 0
        _require(fits, self, "layouts", "one a sample, of ACGTN, N at the same places in all")
        prefix = self.barcode_prefix_length
        _require(prefix <= umi_length, self, "barcode_prefix_length", "at most the UMI length")
        split = prefix < umi_length or self.barcode_prefix_share == 1
        _require(split, self, "barcode_prefix_share", "1 where the prefix is the whole UMI")
        _require(self.barcode_errors.max() <= 1, self, "barcode_error", "such that no E exceeds 1")
        changes = self.pcr_cycles * self.pcr_error * (self.insert + umi_length)
        _require(changes <= 100, self, "pcr_error", "at most 100 changes a molecule")
        mixes = self.chimera_share == 0 or (self.clones > 1 and self.insert > 1)
        _require(mixes, self, "chimera_share", "0 where there is one clone or one base")
        rising = list(levels) == sorted(set(levels)) and levels[0] >= 0 and levels[-1] <= 93
        weighed = len(levels) == len(self.quality_weights) + 1
        _require(rising and weighed, self, "quality_levels", "rising, one more than the weights")
        shares = self.quality_shares
        mean = math.fsum(a * b for a, b in zip(shares, phred_errors(levels), strict=True))
        reached = self.mean_error == 0 or math.isclose(mean, self.mean_error, rel_tol=1e-9)
        _require(min(shares) >= 0 and reached, self, "mean_error", "what the qualities can mean")

    @property
    def insert(self) -> int:
        """Bases between pattern and adapter."""
        return self.insert_length or self.payload_length

    @property
    def umi_columns(self) -> Integers:
        """0-based places of the UMI bases in the pattern, int64."""
        return np.flatnonzero(np.frombuffer(self.layouts[0].encode(), np.uint8) == ord("N"))

    @property
    def barcode_errors(self) -> npt.NDArray[np.float64]:
        """E(j), the error probability of each UMI base, float64 of shape (UMI length,)."""
        length, prefix = self.umi_columns.size, self.barcode_prefix_length
        total, share = length * self.barcode_error, self.barcode_prefix_share
        rest = total * (1 - share) / (length - prefix) if length > prefix else 0.0
        return np.array([total * share / prefix] * prefix + [rest] * (length - prefix))

    @property
    def barcode_pcr_error(self) -> float:
        """Probability of a PCR error per UMI base and cycle."""
        return min(self.pcr_error, float(self.barcode_errors.min()) / self.pcr_cycles)

    @property
    def quality_shares(self) -> list[float]:
        """pi, the share of every quality level."""
        errors = phred_errors(self.quality_levels)
        slope = sum(
            weight * (error - errors[-1])
            for weight, error in zip(self.quality_weights, errors, strict=False)
        )
        factor = (self.mean_error - errors[-1]) / slope if self.mean_error > 0 and slope else 0.0
        low = [factor * weight for weight in self.quality_weights]
        return [*low, 1 - sum(low)]


def _require(holds: object, parameters: SimulationParameters, name: str, bounds: str) -> None:
    if not holds:
        value = getattr(parameters, name)
        raise ValueError(f"SimulationParameters: {name} is {value!r}; give {bounds}")
