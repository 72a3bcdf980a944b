"""Tables of what correction did, made up: errors of single reads, and a few unsure decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from umimill.refine_tables import rank_rows

Row = tuple[Any, ...]

COLUMNS = {
    "posteriors": "posterior_from posterior_to families reads corrected",
    "corrections": "reads_from families corrected fraction_corrected molecules errors_left "
    "wrong_merges",
    "umi_errors": "parent_reads_from parents parent_reads children child_reads error_merged "
    "error_model",
    "family_sizes": "reads families molecules",
    "ranks": "rank reads share_of_reads",
}
ERROR = 0.0012
BASES = 12


def refine_rows(sizes: Counter[int], errors: int, others: int) -> dict[str, list[Row]]:
    """Return the rows of a sample behind its ids, by table.

    Args:
        sizes: molecules by their reads.
        errors: families of one read that were corrected.
        others: families of one read that are no molecules.
    """
    families = sizes + Counter({1: errors + others})
    return {
        "posteriors": list(_posteriors(errors)),
        "corrections": list(_corrections(families, sizes, errors)),
        "umi_errors": list(_umi_errors(sizes, errors)),
        "family_sizes": [(n, families[n], sizes[n]) for n in sorted(families)],
        "ranks": [row[1:] for row in rank_rows([sorted(sizes.items())])],
    }


def _posteriors(errors: int) -> Iterator[Row]:
    bins = ((0.0, 0.001, errors // 9, 0), (0.4, 0.5, 7, 0), (0.5, 0.6, 9, 9))
    for least, most, families, corrected in (*bins, (0.999, 1, errors - 9, errors - 9)):
        if errors > 9 and families:
            yield least, most, families, families, corrected


def _corrections(families: Counter[int], sizes: Counter[int], errors: int) -> Iterator[Row]:
    for k in range(max(families, default=0).bit_length()):
        before, after = (
            sum(count for n, count in held.items() if n.bit_length() - 1 == k)
            for held in (families, sizes)
        )
        corrected = errors if k == 0 else 0
        left = (3.2, 1.1) if corrected else (0, 0)
        if before:
            yield 2**k, before, corrected, f"{corrected / before:.6g}", after, *left


def _umi_errors(sizes: Counter[int], errors: int) -> Iterator[Row]:
    """Yield more errors where molecules are deep, as if PCR had made some."""
    for k in range(max(sizes, default=0).bit_length()):
        own = {n: count for n, count in sizes.items() if n.bit_length() - 1 == k}
        parents, reads = sum(own.values()), sum(n * count for n, count in own.items())
        children = reads * (k + 1) // 200 if errors else 0
        error = children / (BASES * (reads + children)) if parents else 0
        if parents:
            yield 2**k, parents, reads, children, children, f"{error:.6g}", ERROR
