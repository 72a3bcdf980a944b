"""What the model needs of a bucket's families: sizes, composition, Phreds, and a sample of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockWriter
from umimill.kernels.families import hash_families, sum_families
from umimill.kernels.score import ONE_BITS
from umimill.kernels.status import MINORS, count_minors
from umimill.kernels.tally import Phreds, count_cells
from umimill.likelihood import MOST_ERROR, phred_errors

DRAW = np.dtype(
    [
        ("hash", "<u8"),
        ("draft", "<u8"),
        ("mask", "<u4"),
        ("reads", "<u4"),
        ("sample", "<u2"),
        ("draft_quality", "u1"),
        ("padding", "u1", (5,)),
    ]
)
# Families drawn of a sample.
DRAWS = 1 << 11
# Families of fewer reads are counted in an array, larger ones in a Counter.
SMALL = 1 << 9
BARCODE_BASES = 32
PHREDS = 94

Array = npt.NDArray[Any]


class Draws:
    """Families drawn at random of each sample: those of smallest hash.

    Args:
        samples: samples.
        most: families of a sample.
    """

    def __init__(self, samples: int, most: int = DRAWS) -> None:
        self._most = most
        self._limits = np.full(samples, np.iinfo(np.uint64).max, np.uint64)
        self._drawn: dict[int, Array] = {}

    def add(self, families: Array) -> None:
        """Take FAMILY[*]."""
        hashes = np.empty(families.size, np.uint64)
        hash_families(families, hashes)
        near = hashes <= self._limits[families["sample"]]
        chosen = families[near]
        draws = np.zeros(chosen.size, DRAW)
        draws["hash"] = hashes[near]
        for name in ("draft", "mask", "reads", "sample", "draft_quality"):
            draws[name] = chosen[name]
        for sample in np.unique(draws["sample"]).tolist():
            own = draws[draws["sample"] == sample]
            held = np.concatenate([self._drawn.get(sample, own[:0]), own])
            self._drawn[sample] = held if held.size < 2 * self._most else self._cut(sample, held)

    def _cut(self, sample: int, held: Array) -> Array:
        held = held[np.argsort(held["hash"], kind="stable")][: self._most]
        if held.size == self._most:
            self._limits[sample] = held["hash"][-1]
        return held

    def result(self) -> Array:
        """Return DRAW[*], sorted by sample and hash."""
        parts = [self._cut(sample, self._drawn[sample]) for sample in sorted(self._drawn)]
        return np.concatenate([np.empty(0, DRAW), *parts])


def new_phreds(samples: int) -> Phreds:
    """Return sums of no read."""
    errors = np.minimum(phred_errors(), MOST_ERROR)
    odds = np.column_stack([errors, errors / (1.0 - errors)]) * (1 << ONE_BITS)
    return Phreds(
        np.zeros((samples, PHREDS), np.int64),
        np.zeros((samples, 2), np.int64),
        np.rint(odds).astype(np.int64),
    )


class FamilySums:
    """Sums over the families of a bucket.

    Args:
        samples: samples.

    Attributes:
        reads: i64[S].
        phreds: of reads' barcodes.
    """

    def __init__(self, samples: int) -> None:
        self.reads = np.zeros(samples, np.int64)
        self.phreds = new_phreds(samples)
        self._composition = np.zeros((samples, BARCODE_BASES, 4), np.int64)
        self._small = np.zeros((samples, SMALL), np.int64)
        self._large: Counter[tuple[int, int]] = Counter()
        self._draws = Draws(samples)
        self._minors = np.zeros((samples, MINORS), np.int64)
        self._minor_sizes = np.zeros((samples, 64), np.int64)
        self._cells = np.zeros((samples, 3), np.int64)
        self._run = np.zeros(4, np.uint64)

    def add(self, families: Array) -> None:
        """Take FAMILY[*], whole keys in order."""
        count_minors(families, self._minors, self._minor_sizes)
        count_cells(families, self._run, self._cells)
        sum_families(families, self.reads, self._composition, self._small)
        large = families[families["reads"] >= SMALL]
        self._large.update(zip(large["sample"].tolist(), large["reads"].tolist(), strict=True))
        self._draws.add(families)

    def sizes(self) -> npt.NDArray[np.int64]:
        """Return i64[*, 3]: sample, reads, families of so many reads; sorted."""
        counted = dict(self._large)
        for sample, reads in np.argwhere(self._small).tolist():
            counted[sample, reads] = int(self._small[sample, reads])
        rows = [(*place, families) for place, families in sorted(counted.items())]
        return np.array(rows, np.int64).reshape(len(rows), 3)

    def write(self, writer: BlockWriter) -> None:
        """Write the arrays."""
        writer.add("sizes", self.sizes())
        writer.add("composition", self._composition)
        writer.add("barcode_phred", self.phreds.counts)
        writer.add("barcode_wrong", self.phreds.wrong)
        writer.add("minors", self._minors)
        writer.add("minor_sizes", self._minor_sizes)
        writer.add("cells", self._cells)
        writer.add("draws", self._draws.result())
