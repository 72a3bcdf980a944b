"""What became of the barcodes of a sample, and the sums of that which the report shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

OUTCOMES = ("molecule", "corrected", "chimera_suspect", "shifted", "unresolved", "dropped")
# First posterior of each bin.
POSTERIOR_BINS = (
    *(0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999),
)
# Above it molecules are too many for the barcodes there could be.
SATURATED_SHARE = 0.90
# Bins of one figure: those beyond the last in which a family is no molecule are one.
LEAST_BINS = 3
# Molecules of most reads: one in so many.
TOP_PART = 100
# An error of fewer is more chance than rate.
LEAST_CHILDREN = 10


@dataclass(frozen=True)
class Barcodes:
    """One row of barcodes.tsv; what cannot be told is None."""

    families: int = 0
    corrected: int = 0
    corrected_reads: int = 0
    molecules: int = 0
    chimera_suspects: int = 0
    chimera_suspect_reads: int = 0
    shifted: int = 0
    shifted_reads: int = 0
    unresolved: int = 0
    unresolved_reads: int = 0
    dropped: int = 0
    dropped_reads: int = 0
    occupancy: float = 0.0
    space: float = 0.0
    clonality: float | None = None
    error: float | None = None
    error_basis: str = ""
    error_census: float | None = None
    error_quality: float | None = None
    chimera_rate: float | None = None
    shift_rate: float | None = None
    barcodes: int = 0
    agreement: float | None = None

    @property
    def suspects(self) -> int:
        """Families that have a record where the run asks for suspects."""
        return self.chimera_suspects + self.shifted + self.unresolved

    @property
    def others(self) -> int:
        """Families that are neither corrected nor a molecule."""
        return self.suspects + self.dropped

    @property
    def other_reads(self) -> int:
        """Templates of such families."""
        suspects = self.chimera_suspect_reads + self.shifted_reads + self.unresolved_reads
        return suspects + self.dropped_reads


@dataclass(frozen=True)
class Outcome:
    """One row of outcomes.tsv: families of `size` to twice as many reads that became `outcome`."""

    sample: str
    size: int
    outcome: str
    families: int


@dataclass(frozen=True)
class PosteriorBin:
    """One row of posteriors.tsv: families with a posterior of `least` or more."""

    least: float
    families: int
    corrected: int


@dataclass(frozen=True)
class Correction:
    """One row of corrections.tsv: families of `size` to twice as many reads."""

    size: int
    families: int
    corrected: int
    molecules: int
    errors_left: float
    wrong_merges: float


@dataclass(frozen=True)
class DepthError:
    """One row of umi_errors.tsv: what parents of `size` to twice as many reads say."""

    size: int
    reads: int
    children: int
    merged: float
    model: float


@dataclass(frozen=True)
class SizeCount:
    """One row of family_sizes.tsv: families and molecules of exactly so many reads."""

    size: int
    families: int
    molecules: int


@dataclass(frozen=True)
class RankPoint:
    """One row of ranks.tsv: reads of the molecule of a rank, share of those up to it."""

    sample: str
    rank: int
    reads: int
    share: float


def posterior_bins(rows: Iterable[PosteriorBin]) -> list[tuple[float, int, int]]:
    """(least posterior, families corrected, families left apart) of each bin, all samples."""
    found = dict.fromkeys(POSTERIOR_BINS, (0, 0))
    for row in rows:
        corrected, apart = found.get(row.least, (0, 0))
        apart += row.families - row.corrected
        found[row.least] = corrected + row.corrected, apart
    return [(least, *found[least]) for least in sorted(found)]


def corrections_by_size(rows: Iterable[Correction]) -> list[Correction]:
    """Sums of all samples by size, ascending."""
    found: dict[int, Correction] = {}
    for row in rows:
        held = found.get(row.size, Correction(row.size, 0, 0, 0, 0.0, 0.0))
        found[row.size] = Correction(
            row.size,
            held.families + row.families,
            held.corrected + row.corrected,
            held.molecules + row.molecules,
            held.errors_left + row.errors_left,
            held.wrong_merges + row.wrong_merges,
        )
    return [found[size] for size in sorted(found)]


def rank_curves(rows: Iterable[RankPoint]) -> dict[str, list[RankPoint]]:
    """Points of each sample that has molecules, by rank."""
    found: dict[str, list[RankPoint]] = {}
    for row in rows:
        found.setdefault(row.sample, []).append(row)
    return {
        sample: sorted(points, key=lambda point: point.rank) for sample, points in found.items()
    }


def top_point(curve: Sequence[RankPoint]) -> RankPoint:
    """Point of the largest rank that is in the first hundredth, else the first one."""
    most = max(1, curve[-1].rank // TOP_PART)
    return max((point for point in curve if point.rank <= most), key=lambda point: point.rank)


def size_bins(rows: Iterable[SizeCount]) -> list[tuple[int, int]]:
    """(families, molecules) by power-of-two bin, all samples; see summary.size_bins."""
    found: dict[int, tuple[int, int]] = {}
    for row in rows:
        number = row.size.bit_length() - 1
        families, molecules = found.get(number, (0, 0))
        found[number] = families + row.families, molecules + row.molecules
    return [found.get(number, (0, 0)) for number in range(max(found, default=-1) + 1)]


def depth_errors(rows: Sequence[DepthError]) -> list[tuple[int, float, float]]:
    """(bin, error by what was corrected, error of the model) where enough children tell."""
    found = []
    for size in sorted({row.size for row in rows}):
        own = [row for row in rows if row.size == size and row.reads]
        reads = sum(row.reads for row in own)
        if sum(row.children for row in own) >= LEAST_CHILDREN:
            merged = sum(row.merged * row.reads for row in own) / reads
            model = sum(row.model * row.reads for row in own) / reads
            found.append((size.bit_length() - 1, merged, model))
    return found


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
        shifted=sum(row.shifted for row in rows),
        shifted_reads=sum(row.shifted_reads for row in rows),
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
