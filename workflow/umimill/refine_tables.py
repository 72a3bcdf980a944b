"""The tables of a library that say what correction did, and how far to trust it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from umimill import tables
from umimill.barcode_sums import POSTERIOR_BINS
from umimill.blockfile import BlockFile
from umimill.merge_counts import COLUMNS, SHARE_BITS, add_rows

# Ranks in a factor of ten.
RANKS = 20

Row = tuple[Any, ...]


@dataclass
class RefineSums:
    """What the buckets of a library counted, added up.

    Attributes:
        merges: sums by (sample, bin), for each table of merge_counts.
        families: families by (sample, reads).
    """

    merges: dict[str, dict[tuple[int, int], list[int]]] = field(
        default_factory=lambda: {name: {} for name in COLUMNS}
    )
    families: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, families: Path, fates: BlockFile) -> None:
        """Add a bucket.

        Args:
            families: tally's table.
            fates: move's file.
        """
        for name, total in self.merges.items():
            add_rows(total, fates.read(name))
        with BlockFile(families) as file:
            for sample, reads, count in file.read("sizes").tolist():
                place = sample, reads
                self.families[place] = self.families.get(place, 0) + count

    def plain(self) -> dict[str, Any]:
        """Return all as lists in order, as the index holds them."""
        found = {
            name: [[*place, *total[place]] for place in sorted(total)]
            for name, total in self.merges.items()
        }
        families = [[*place, self.families[place]] for place in sorted(self.families)]
        return {"merges": found, "family_sizes": families}


def write_refine_tables(
    index: Mapping[str, Any], library: str, errors: Sequence[float], folder: Path
) -> None:
    """Write the tables.

    Args:
        index: what index found (index.py).
        library: name of the library.
        errors: error of a barcode's base that correction took for each sample.
        folder: where to write.
    """
    names = [entry["sample"] for entry in index["samples"]]
    merges = index["merges"]
    made: dict[str, tuple[Sequence[str], Iterator[Row]]] = {
        "posteriors": (tables.POSTERIORS, map(posterior_row, merges["posteriors"])),
        "corrections": (tables.CORRECTIONS, map(correction_row, merges["corrections"])),
        "umi_errors": (tables.UMI_ERRORS, error_rows(merges["umi_errors"], errors)),
        "family_sizes": (tables.FAMILY_SIZES, size_rows(index["family_sizes"], index["sizes"])),
        "ranks": (tables.RANKS, rank_rows(index["sizes"])),
    }
    for name, (columns, rows) in made.items():
        tables.write_tsv(
            folder / f"{name}.tsv",
            columns,
            ((library, names[sample], *values) for sample, *values in rows),
        )


def posterior_row(sums: Sequence[int]) -> Row:
    """Return a row of posteriors.tsv behind its library, the sample as a number."""
    sample, number, *values = sums
    least = POSTERIOR_BINS[number]
    most = POSTERIOR_BINS[number + 1] if number + 1 < len(POSTERIOR_BINS) else 1.0
    return (sample, least, most, *values)


def correction_row(sums: Sequence[int]) -> Row:
    """Return a row of corrections.tsv behind its library, the sample as a number."""
    sample, number, families, corrected, molecules, left, wrong = sums
    one = 1 << SHARE_BITS
    share = corrected / families
    return (sample, 1 << number, families, corrected, share, molecules, left / one, wrong / one)


def error_rows(sums: Sequence[Sequence[int]], errors: Sequence[float]) -> Iterator[Row]:
    """Yield the rows of umi_errors.tsv behind their library.

    Args:
        sums: rows (sample, bin, sums).
        errors: error of a barcode's base of each sample, as the model has it.
    """
    for sample, number, *counts, bases in sums:
        yield sample, 1 << number, *counts, counts[3] / bases, float(errors[sample])


def size_rows(
    families: Sequence[Sequence[int]], molecules: Sequence[Sequence[Sequence[int]]]
) -> Iterator[Row]:
    """Yield the rows of family_sizes.tsv behind their library.

    Args:
        families: rows (sample, reads, families).
        molecules: of each sample, (reads, molecules of so many reads).
    """
    for sample, sizes in enumerate(molecules):
        before = {reads: count for one, reads, count in families if one == sample}
        after = {reads: count for reads, count in sizes}
        for reads in sorted({*before, *after}):
            yield sample, reads, before.get(reads, 0), after.get(reads, 0)


def rank_rows(molecules: Sequence[Sequence[Sequence[int]]]) -> Iterator[Row]:
    """Yield the rows of ranks.tsv behind their library.

    Args:
        molecules: of each sample, ascending (reads, molecules of so many reads).
    """
    for sample, sizes in enumerate(molecules):
        total = sum(count for _, count in sizes)
        whole = sum(reads * count for reads, count in sizes)
        wanted = iter(ranks(total))
        rank = next(wanted, None)
        before = before_reads = 0
        for reads, count in reversed(sizes):
            while rank is not None and rank <= before + count:
                held = before_reads + (rank - before) * reads
                yield sample, rank, reads, held / whole
                rank = next(wanted, None)
            before += count
            before_reads += reads * count


def ranks(total: int) -> list[int]:
    """Return ranks from 1 to `total`, both included, near-even on a log scale."""
    found = [1, total] if total else []
    step, power = 0, 1.0
    # Multiplications alone, which every machine rounds alike.
    factor = 1.1220184543019633
    while power < total:
        found.append(round(power))
        step, power = step + 1, power * factor
        if step % RANKS == 0:
            power = float(10 ** (step // RANKS))
    return sorted(set(found))
