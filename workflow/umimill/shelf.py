"""Rows by bucket, in memory as far as they fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Shelf:
    """Rows by bucket, on disk where they exceed a budget.

    Args:
        dtype: of a row.
        budget_bytes: most bytes in memory.
        folder: where the others are written.

    Attributes:
        peak_bytes: most bytes in memory.
        spill_bytes: bytes written to disk.
    """

    def __init__(self, dtype: np.dtype[Any], budget_bytes: int, folder: Path) -> None:
        self._dtype = dtype
        self._budget = budget_bytes
        self._folder = folder
        self._held: dict[int, list[Array]] = {}
        self._held_bytes = 0
        self.peak_bytes = 0
        self.spill_bytes = 0

    def add(self, bucket: int, rows: Array) -> None:
        """Keep rows behind those that the bucket has."""
        self._held.setdefault(bucket, []).append(rows)
        self._held_bytes += rows.nbytes
        self.peak_bytes = max(self.peak_bytes, self._held_bytes)
        if self._held_bytes > self._budget:
            self._spill()

    def replace(self, bucket: int, rows: Array) -> None:
        """Keep rows in place of those that the bucket has."""
        self._path(bucket).unlink(missing_ok=True)
        self._held_bytes -= sum(one.nbytes for one in self._held.pop(bucket, []))
        self.add(bucket, rows)

    def get(self, bucket: int) -> Array:
        """Return the rows of a bucket."""
        parts = [np.empty(0, self._dtype)]
        if self._path(bucket).exists():
            parts.append(np.fromfile(self._path(bucket), self._dtype))
        return np.concatenate([*parts, *self._held.get(bucket, [])])

    def _spill(self) -> None:
        for bucket, parts in self._held.items():
            with self._path(bucket).open("ab") as file:
                for one in parts:
                    file.write(memoryview(one).cast("B"))
        self.spill_bytes += self._held_bytes
        self._held.clear()
        self._held_bytes = 0

    def _path(self, bucket: int) -> Path:
        return self._folder / f"{bucket}.rows"
