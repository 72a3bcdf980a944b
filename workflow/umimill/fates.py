"""Fates: what became of each family of a bucket, beside its table of families."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import ArrayReader, BlockFile
from umimill.kernels import families as family_kernels
from umimill.kernels import settle as kernels
from umimill.kernels import status as status_kernels
from umimill.model import read_model
from umimill.statuses import read_statuses

FATE = np.dtype(
    [
        ("reads", "<u8"),
        ("root_key", "<u8"),
        ("families", "<u4"),
        ("number", "<u2"),
        ("root_family", "<u2"),
        ("several", "u1"),
        ("moved", "u1"),
        ("status", "u1"),
        ("padding", "u1", (5,)),
    ]
)
READ_FAMILIES = 1 << 16

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Settled:
    """Families of whole keys with their fates.

    Attributes:
        families: FAMILY[n].
        fates: FATE[n]. Where `moved` is 0, the family stayed: reads and families that are now in
            it, its status (statuses.STATUSES), its number among those of its key, and whether its
            name needs that. Else its reads went to `root_key` and `root_family`.
    """

    families: Array
    fates: Array

    def part(self, start: int, stop: int) -> Settled:
        """Return families [start, stop)."""
        return Settled(self.families[start:stop], self.fates[start:stop])

    def with_more(self, other: Settled) -> Settled:
        """Return these families and those of `other` behind them."""
        return Settled(
            np.concatenate([self.families, other.families]),
            np.concatenate([self.fates, other.fates]),
        )

    def is_one_key(self) -> bool:
        """Whether all families are of one key."""
        return bool(family_kernels.last_key_start(self.families) == 0)


def whole_keys(table: BlockFile) -> Iterator[tuple[int, Array]]:
    """Yield (first row, FAMILY[*]) of a table in order, whole keys at a time."""
    total = table.length("families")
    start, wanted = 0, READ_FAMILIES
    while start < total:
        families = table.read("families", start, start + wanted)
        count = families.size
        if start + count < total:
            count = family_kernels.last_key_start(families)
        if count == 0:
            # One key fills the piece.
            wanted *= 2
            continue
        yield start, families[:count]
        start += count
        wanted = READ_FAMILIES


class FateJoiner:
    """Decides the fates of a bucket's families, in order, from what settle found.

    Args:
        settled: settle's file of the library.
        model_path: model of the library.
        bucket: number of the bucket.

    Attributes:
        corrected_reads: reads of the families that were corrected, so far.
    """

    def __init__(self, settled: Path, model_path: Path, bucket: int) -> None:
        self._model = read_model(model_path)
        self._statuses = read_statuses(model_path)
        self.corrected_reads = 0
        self._file = BlockFile(settled)
        self._corrections, self._arrivals, self._placings = (
            rows_of_bucket(self._file, name, bucket)
            for name in ("correction", "arrival", "placing")
        )

    def __enter__(self) -> FateJoiner:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def fates(self, families: Array, quality: Array, edges: Array, *, judge: bool) -> Array:
        """Return the fates of the next families of the bucket, FATE[n].

        Args:
            families: FAMILY[n], whole keys.
            quality: u8[n, B], half-Phred of their barcodes.
            edges: EDGE[n], their best parents.
            judge: whether a family may be no molecule.
        """
        fates = np.zeros(families.size, FATE)
        # No more than one of each concerns a family.
        corrections = self._corrections.ahead(families.size)
        arrivals = self._arrivals.ahead(families.size)
        corrected, arrived = kernels.join_families(families, corrections, arrivals, fates)
        self.corrected_reads += int(corrections["reads"][:corrected].sum(dtype=np.int64))
        self._corrections.skip(corrected)
        self._arrivals.skip(arrived)
        if judge:
            status_kernels.judge(families, quality, fates, self._model, self._statuses)
            status_kernels.judge_misread(families, edges, fates, self._statuses)
        # Behind the judge: what was not fully read does not decide what is a molecule.
        placings = self._placings.ahead(families.size)
        self._placings.skip(kernels.add_arrivals(families, placings, fates))
        kernels.number_molecules(families, fates, np.zeros(families.size, np.int64))
        return fates

    def left(self) -> int:
        """Return how many corrections and arrivals concerned no family."""
        return self._corrections.left + self._arrivals.left + self._placings.left


def rows_of_bucket(settled: BlockFile, name: str, bucket: int) -> ArrayReader:
    """Return a reader of what settle's file has for a bucket.

    Args:
        settled: the file.
        name: "correction", "arrival", "answer", "place" or "placing".
        bucket: number of the bucket.
    """
    start, stop = settled.read(f"{name}_bounds", bucket, bucket + 2).tolist()
    return ArrayReader(settled, f"{name}s", start, stop)


class SettledTable:
    """The families of a bucket with their fates, to be read in order.

    Args:
        families: tally's table of the bucket.
        fates: move's fates of them.
    """

    def __init__(self, families: Path, fates: Path) -> None:
        self._table = BlockFile(families)
        try:
            self._fates = BlockFile(fates)
        except BaseException:
            self._table.close()
            raise

    def __enter__(self) -> SettledTable:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._table.close()
        self._fates.close()

    def pieces(self) -> Iterator[Settled]:
        """Yield the families of the bucket in order, whole keys at a time."""
        for start, families in whole_keys(self._table):
            yield Settled(families, self._fates.read("fates", start, start + families.size))
