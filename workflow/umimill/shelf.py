"""Rows by place, in memory as far as they fit, and what it costs where they do not."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.closing import Closing
from umimill.metrics import Meter

# Rows at a time as they are read.
READ_ROWS = 1 << 15
# What an array takes beside its rows.
ARRAY_BYTES = 128

Array = npt.NDArray[Any]


class Scratch(Closing):
    """Makes the shelves of a job, and measures what they hold, spill and read back.

    Args:
        meter: metrics of the job.
        folder: where scratch files go; None is the system's.
    """

    def __init__(self, meter: Meter, folder: Path | None = None) -> None:
        self.meter = meter
        self._folder = tempfile.TemporaryDirectory(prefix="umimill-", dir=folder)
        self._held_bytes = 0
        self._shelves = 0

    def close(self) -> None:
        """Remove what was spilled."""
        self._folder.cleanup()

    def shelf(self, dtype: np.dtype[Any], budget_bytes: int) -> Shelf:
        """Return an empty shelf for rows of a dtype, with so much memory."""
        self._shelves += 1
        return Shelf(dtype, budget_bytes, self, Path(self._folder.name) / str(self._shelves))

    def hold(self, more_bytes: int) -> None:
        """Note that tables take so many bytes more, or fewer, in memory."""
        self._held_bytes += more_bytes
        self.meter.umi_memory_bytes = max(self.meter.umi_memory_bytes, self._held_bytes)


class Shelf:
    """Rows by place, on disk where they exceed a budget; made by Scratch.

    Args:
        dtype: of a row.
        budget_bytes: most bytes in memory.
        scratch: what measures.
        stem: beginning of the names of its files.
    """

    def __init__(
        self, dtype: np.dtype[Any], budget_bytes: int, scratch: Scratch, stem: Path
    ) -> None:
        self._dtype = dtype
        self._budget = budget_bytes
        self._scratch = scratch
        self._stem = stem
        self._held: dict[int, list[Array]] = {}
        self._held_bytes = 0
        self._spilled: set[int] = set()

    def add(self, place: int, rows: Array) -> None:
        """Keep rows behind those that a place has."""
        if not rows.size:
            return
        self._held.setdefault(place, []).append(rows)
        self._hold(rows.nbytes + ARRAY_BYTES)
        if self._held_bytes > self._budget:
            self._spill()

    def scatter(self, places: npt.NDArray[np.int64], rows: Array) -> None:
        """Keep each row behind those that its place has.

        Args:
            places: i64[n].
            rows: n rows; they are copied.
        """
        if not rows.size:
            return
        order = np.argsort(places, kind="stable")
        places, rows = places[order], rows[order]
        ends = np.append(np.flatnonzero(np.diff(places)) + 1, rows.size).tolist()
        start = 0
        for end in ends:
            # A copy: what is left of a row's neighbours would stay in memory with it.
            self.add(int(places[start]), rows[start:end].copy())
            start = end

    def places(self) -> list[int]:
        """Return the places that have rows, in order."""
        return sorted(self._spilled | self._held.keys())

    def pieces(self, place: int) -> Iterator[Array]:
        """Yield the rows of a place piece by piece, in the order in which they were added."""
        if place in self._spilled:
            with self._path(place).open("rb") as file:
                while (rows := self._read(file)).size:
                    yield rows
        if place in self._held:
            rows = np.concatenate(self._held[place])
            for start in range(0, rows.size, READ_ROWS):
                yield rows[start : start + READ_ROWS]

    def take(self, place: int) -> Iterator[Array]:
        """Yield the same, and forget them; others may be added to the place meanwhile."""
        taken = self._path(place).with_suffix(".taken")
        held = self._held.pop(place, [])
        spilled = place in self._spilled
        if spilled:
            self._spilled.remove(place)
            self._path(place).rename(taken)
            with taken.open("rb") as file:
                while (rows := self._read(file)).size:
                    yield rows
            taken.unlink()
        if held:
            rows = np.concatenate(held)
            self._hold(-sum(one.nbytes + ARRAY_BYTES for one in held))
            for start in range(0, rows.size, READ_ROWS):
                yield rows[start : start + READ_ROWS]

    def get(self, place: int) -> Array:
        """Return all rows of a place."""
        return np.concatenate([np.empty(0, self._dtype), *self.pieces(place)])

    def clear(self) -> None:
        """Forget all rows."""
        for place in self._spilled:
            self._path(place).unlink()
        self._spilled.clear()
        self._held.clear()
        self._hold(-self._held_bytes)

    def _hold(self, more_bytes: int) -> None:
        self._held_bytes += more_bytes
        self._scratch.hold(more_bytes)

    def _read(self, file: Any) -> Array:
        meter = self._scratch.meter
        with meter.clock("spill"):
            rows = np.fromfile(file, self._dtype, READ_ROWS)
        meter.umi_read_back_bytes += rows.nbytes
        return rows

    def _spill(self) -> None:
        meter = self._scratch.meter
        with meter.clock("spill"):
            for place, parts in self._held.items():
                with self._path(place).open("ab") as file:
                    for one in parts:
                        file.write(memoryview(np.ascontiguousarray(one)).cast("B"))
                        meter.umi_spill_bytes += one.nbytes
                self._spilled.add(place)
        self._held.clear()
        self._hold(-self._held_bytes)

    def _path(self, place: int) -> Path:
        return self._stem.with_name(f"{self._stem.name}-{place}.rows")
