"""What became of the barcodes of a sample, and the sums of that which the report shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

OUTCOMES = ("molecule", "corrected", "chimera_suspect", "unresolved", "dropped")
# Bins of one figure: those beyond the last in which a family is no molecule are one.
LEAST_BINS = 3


@dataclass(frozen=True)
class Barcodes:
    """One row of barcodes.tsv; what cannot be told is None."""

    families: int = 0
    corrected: int = 0
    corrected_reads: int = 0
    molecules: int = 0
    chimera_suspects: int = 0
    chimera_suspect_reads: int = 0
    unresolved: int = 0
    unresolved_reads: int = 0
    dropped: int = 0
    dropped_reads: int = 0
    occupancy: float = 0.0
    clonality: float | None = None
    error: float | None = None
    error_basis: str = ""
    error_census: float | None = None
    error_quality: float | None = None
    chimera_rate: float | None = None

    @property
    def suspects(self) -> int:
        """Families that have a record where the run asks for suspects."""
        return self.chimera_suspects + self.unresolved

    @property
    def others(self) -> int:
        """Families that are neither corrected nor a molecule."""
        return self.suspects + self.dropped

    @property
    def other_reads(self) -> int:
        """Templates of such families."""
        return self.chimera_suspect_reads + self.unresolved_reads + self.dropped_reads


@dataclass(frozen=True)
class Outcome:
    """One row of outcomes.tsv: families of `size` to twice as many reads that became `outcome`."""

    sample: str
    size: int
    outcome: str
    families: int


def total(rows: Iterable[Barcodes]) -> Barcodes:
    """Sums of the counts; what is estimated is left out."""
    rows = list(rows)
    return Barcodes(
        families=sum(row.families for row in rows),
        corrected=sum(row.corrected for row in rows),
        corrected_reads=sum(row.corrected_reads for row in rows),
        molecules=sum(row.molecules for row in rows),
        chimera_suspects=sum(row.chimera_suspects for row in rows),
        chimera_suspect_reads=sum(row.chimera_suspect_reads for row in rows),
        unresolved=sum(row.unresolved for row in rows),
        unresolved_reads=sum(row.unresolved_reads for row in rows),
        dropped=sum(row.dropped for row in rows),
        dropped_reads=sum(row.dropped_reads for row in rows),
    )


def outcome_bins(rows: Sequence[Outcome]) -> list[tuple[int, bool, Mapping[str, int]]]:
    """Families by outcome, bin after bin: (bin, whether it holds all larger ones too, counts).

    Bin k holds families of 2^k to 2^(k+1) - 1 reads. An empty bin is left out.
    """
    bins = [row.size.bit_length() - 1 for row in rows]
    mixed = [k for k, row in zip(bins, rows, strict=True) if row.outcome != "molecule"]
    last = max(max(mixed, default=0) + 1, LEAST_BINS)
    found: dict[int, dict[str, int]] = {}
    for k, row in zip(bins, rows, strict=True):
        counts = found.setdefault(min(k, last), dict.fromkeys(OUTCOMES, 0))
        counts[row.outcome] = counts.get(row.outcome, 0) + row.families
    top = max(bins, default=0)
    return [(k, k == last < top, counts) for k, counts in sorted(found.items())]
