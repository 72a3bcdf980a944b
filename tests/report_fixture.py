"""A metrics folder as a run leaves it, made up but consistent: every ledger in it closes.

Three shapes: `typical` (two libraries, spill, a blank sample, a library without reads), `single`
(one sample, one bucket) and `large` (96 samples in 64 buckets). Same call, same bytes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from report_library_fixture import LibrarySpec, write_library

# Rows of samples.tsv by library.
Sheet = dict[str, list[tuple[str, Mapping[str, str]]]]


def typical(folder: Path) -> Sheet:
    """Two libraries: L1 with a blank sample and two spilling buckets, L2 without any read."""
    lost = {"unmatched": 0.121, "ambiguous": 0.004, "too_short": 0.002, "low_umi_quality": 0.03}
    first = LibrarySpec(
        "L1",
        {"S1": 9000, "S2": 4100, "S3": 0, "S4": 700},
        buckets=8,
        units=2,
        lost=lost | {"empty_payload": 0.001, "unresolved": 0.0007},
        spill_buckets=(3, 4),
        metadata={"tissue": "blood <b>left</b>"},
    )
    second = LibrarySpec("L2", {"S5": 0}, buckets=1)
    return write_metrics(folder, [first, second])


def single(folder: Path) -> Sheet:
    """One library, one sample, one bucket."""
    spec = LibrarySpec("demo", {"demo": 5000}, lost={"unmatched": 0.02})
    return write_metrics(folder, [spec])


def large(folder: Path, libraries: int = 1) -> Sheet:
    """96 samples and 64 buckets a library, some of them spilling."""
    per = 96 // libraries
    specs = []
    for i in range(libraries):
        samples = {f"P{i * per + j + 1:02d}-week{j % 4}": 60 + (j * 7919) % 900 for j in range(per)}
        lost = {"unmatched": 0.05 + 0.002 * i, "ambiguous": 0.001, "unresolved": 0.0005}
        spilling = tuple(range(5, 64, 9)) if i % 3 == 0 else ()
        specs.append(
            LibrarySpec(
                f"plate{i + 1}", samples, 64, 4, 3.0 + i % 5, lost, spilling, min_reads=1 + i % 2
            )
        )
    return write_metrics(folder, specs)


def write_metrics(folder: Path, specs: Sequence[LibrarySpec]) -> Sheet:
    """Write `folder/<library>/...` for every spec and return the rows of samples.tsv."""
    for number, spec in enumerate(specs):
        write_library(folder / spec.name, spec, random.Random(number))
    return {spec.name: [(name, spec.metadata or {}) for name in spec.samples] for spec in specs}
