"""Barcodes without qualities: the library's own error rate takes their place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accuracy.cases import Case, parameters
from accuracy.contestants import Task, make_library
from accuracy.generate import Reads, generate, write_reads
from pipeline import Knobs, run_refine
from umimill.fates import SettledTable
from umimill.model import read_estimates

# Qualities that differ from base to base, and bases that are wrong one by one.
ALONE: dict[str, Any] = {"quality_persistence": 0.0}
# Bad bases come in runs: reads with three wrong ones and more are known by their qualities alone.
IN_RUNS: dict[str, Any] = {}


def without_qualities(reads: Reads) -> Reads:
    """Return the same reads, with Phred 0 in the barcode: not known."""
    qualities = reads.qualities.copy()
    qualities[:, reads.case.parameters.umi_columns] = 33
    return replace(reads, qualities=qualities)


def merges_of(reads: Reads, folder: Path) -> tuple[set[tuple[int, int]], dict[str, Any]]:
    """Return the pairs of keys that were merged, the smaller first, and the estimates.

    Which of two with as many reads goes to the other is told by their qualities.
    """
    folder.mkdir()
    write_reads(reads, folder / "reads.fastq.gz")
    count = reads.bases.shape[0]
    place = np.zeros(count, np.int64)
    task = Task(folder / "reads.fastq.gz", reads.case.layout, count, 1, folder, place)
    refined = run_refine(make_library(task), folder, Knobs(buckets=2))
    merges = set()
    for table, fates in zip(refined.tables, refined.fates, strict=True):
        with SettledTable(table, fates) as settled:
            for piece in settled.pieces():
                moved = piece.fates["moved"] == 1
                keys = (piece.families["key"][moved], piece.fates["root_key"][moved])
                rows = zip(np.minimum(*keys).tolist(), np.maximum(*keys).tolist(), strict=True)
                merges.update(rows)
    return merges, read_estimates(refined.model)["S1"]


def changes(pair: tuple[int, int]) -> int:
    """Return how many bases differ."""
    differ = pair[0] ^ pair[1]
    return ((differ | differ >> 1) & 0x5555_5555_5555_5555).bit_count()


@pytest.mark.parametrize(
    ("depth", "more", "most"), [(5.0, ALONE, 12), (2.0, ALONE, 12), (5.0, IN_RUNS, 1)]
)
def test_the_same_merges_with_qualities_and_without(
    tmp_path: Path, depth: float, more: dict[str, Any], most: int
) -> None:
    case = Case("bare", "", parameters(mean_reads=depth, molecules=5000, **more))
    reads = generate(case, 1)
    merges, known = merges_of(reads, tmp_path / "with")
    bare_merges, bare = merges_of(without_qualities(reads), tmp_path / "without")
    assert (bare["error_basis"], bare["error_quality"]) == ("census", None)
    assert known["error_quality"] is not None
    found, again = (
        {pair for pair in one if changes(pair) <= most} for one in (merges, bare_merges)
    )
    assert len(found) > 250
    assert abs(len(again) - len(found)) <= 0.02 * len(found)
    assert len(found & again) >= 0.96 * len(found)
