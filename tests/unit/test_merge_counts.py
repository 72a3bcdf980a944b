"""What move counts of posteriors, errors and barcodes, against one family after another."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from stage_fixture import key_text
from umimill.barcode_sums import POSTERIOR_BINS
from umimill.fates import FATE
from umimill.link import EDGE
from umimill.merge_counts import COLUMNS, SHARE_BITS, MergeCounts, add_rows
from umimill.tally import FAMILY

CELL, UMI = 3, 5
Sums = dict[tuple[int, int], list[float]]


def case(rng: np.random.Generator, count: int) -> tuple[Any, Any, Any]:
    """Make families of few keys with fates and parents that no run would give them."""
    families, fates, edges = np.zeros(count, FAMILY), np.zeros(count, FATE), np.zeros(count, EDGE)
    shift = np.uint64(64 - 2 * (CELL + UMI))
    keys = np.sort(rng.integers(0, 4 ** (CELL + UMI), count // 3)).astype(np.uint64) << shift
    families["key"] = np.sort(rng.choice(keys, count))
    families["sample"] = np.arange(count) * 2 // count
    families["reads"] = rng.integers(1, 40, count)
    families["cell_length"], families["umi_length"] = CELL, UMI
    flip = rng.integers(1, 4, count).astype(np.uint64) << np.uint64(64 - 2 * (CELL + UMI - 1))
    more = np.where(rng.random(count) < 0.3, rng.integers(1, 4, count), 0).astype(np.uint64)
    edges["parent_key"] = families["key"] ^ flip ^ (more << shift)
    edges["parent_reads"] = np.where(rng.random(count) < 0.2, 0, rng.integers(1, 900, count))
    edges["score"] = np.where(edges["parent_reads"] > 0, rng.integers(-9000, 9000, count), -(2**31))
    fates["moved"] = (edges["score"] > 0) | (rng.random(count) < 0.1)
    fates["status"] = np.where(fates["moved"], 0, rng.integers(0, 2, count))
    return families, fates, edges


def counted(families: Any, fates: Any, edges: Any) -> Mapping[str, Sums]:
    """Count them one by one, with floats."""
    found: dict[str, Sums] = {name: {} for name in COLUMNS}

    def add(name: str, place: tuple[int, int], *values: float) -> None:
        held = found[name].setdefault(place, [0.0] * len(values))
        found[name][place] = [one + other for one, other in zip(held, values, strict=True)]

    keys: dict[tuple[int, int], list[int]] = defaultdict(list)
    for family, fate, edge in zip(families, fates, edges, strict=True):
        sample, reads = int(family["sample"]), int(family["reads"])
        keys[sample, int(family["key"])].append(reads)
        moved, parent = bool(fate["moved"]), int(edge["parent_reads"])
        posterior = 1 / (1 + np.exp(-int(edge["score"]) / 1024)) if parent else 0.0
        if parent:
            number = max(k for k, least in enumerate(POSTERIOR_BINS) if posterior >= least)
            add("posteriors", (sample, number), 1, reads, moved)
        counts = not moved and fate["status"] == 0
        add(
            "corrections",
            (sample, reads.bit_length() - 1),
            *(1, moved, counts, posterior * counts, (1 - posterior) * (moved and parent > 0)),
        )
        both = [key_text(int(key), CELL + UMI) for key in (family["key"], edge["parent_key"])]
        child = moved and parent and sum(a != b for a, b in zip(*both, strict=True)) == 1
        if child or counts:
            size = parent if child else reads
            add(
                "umi_errors",
                (sample, size.bit_length() - 1),
                *(counts, reads * counts, child, reads * child, reads * UMI),
            )
    for (sample, _), reads_of in keys.items():
        whole = sum(reads_of)
        same = sum(reads * (reads - 1) for reads in reads_of)
        add("keys", (sample, 0), 1, whole * (whole - 1), same)
    return found


# Columns that are sums of probabilities.
SHARES = {"corrections": (3, 4)}


def test_families_are_counted_as_one_by_one() -> None:
    rng = np.random.default_rng(4)
    arrays = case(rng, 4000)
    found = MergeCounts(2)
    # Whole keys at a time.
    key = arrays[0]["key"]
    cuts = [0, *(np.flatnonzero(key[1:] != key[:-1]) + 1)[[100, 500]].tolist(), key.size, key.size]
    for start, stop in itertools.pairwise(cuts):
        found.add(*(array[start:stop] for array in arrays))
    expected = counted(*arrays)
    for name, rows in found.arrays().items():
        assert [tuple(row[:2]) for row in rows.tolist()] == sorted(expected[name]), name
        for sample, number, *values in rows.tolist():
            held = expected[name][sample, number]
            for column, (one, other) in enumerate(zip(values, held, strict=True)):
                if column in SHARES.get(name, ()):
                    assert one / 2**SHARE_BITS == pytest.approx(other, rel=1e-3, abs=1e-3)
                else:
                    assert one == other, (name, column)


def test_rows_of_several_buckets_add_up() -> None:
    rng = np.random.default_rng(5)
    arrays = case(rng, 900)
    key = arrays[0]["key"]
    cut = int(np.flatnonzero(key[1:] != key[:-1])[80]) + 1
    whole, parts = MergeCounts(2), [MergeCounts(2), MergeCounts(2)]
    whole.add(*arrays)
    parts[0].add(*(array[:cut] for array in arrays))
    parts[1].add(*(array[cut:] for array in arrays))
    for name, rows in whole.arrays().items():
        total: dict[tuple[int, int], list[int]] = {}
        for part in parts:
            add_rows(total, part.arrays()[name])
        held: Sequence[Sequence[int]] = [[*place, *total[place]] for place in sorted(total)]
        assert held == rows.tolist()


def test_nothing_counted_gives_no_rows() -> None:
    for rows in MergeCounts(3).arrays().values():
        assert rows.shape[0] == 0
