"""Writes partition files: rows are staged in memory, then sorted and appended as one flush."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockWriter
from umimill.closing import Closing
from umimill.kernels import rows as kernels
from umimill.partition import FLUSH, FORMAT_VERSION, HOT, MOVED, Leaves, sorted_order

ENCODE_ROWS = 1 << 14

Array = npt.NDArray[Any]


class Staging:
    """Rows of one flush in memory, as the checkout kernel writes them.

    Attributes:
        hot: HOT[rows].
        barcode_quality: u8[rows, B].
        starts: i64[rows], first cold word of each row.
        cold: u64[words], 8-bit qualities.
        fill: i64[2], rows and words used.
        seen: u8[94], quality values met.
        moved: MOVED[rows] of an outbox, else MOVED[0].
    """

    def __init__(
        self, budget_bytes: int, barcode_width: int, row_bytes: int, *, outbox: bool = False
    ) -> None:
        # What a row takes here: hot group, its place in the sort (keys and order, twice), cold.
        fixed = HOT.itemsize + barcode_width + 8 + 32
        rows = max(256, budget_bytes // (fixed + row_bytes))
        words = max(4096, rows * row_bytes // 8)
        self.hot: Array = np.zeros(rows, HOT)
        self.barcode_quality: Array = np.zeros((rows, barcode_width), np.uint8)
        self.starts: Array = np.zeros(rows, np.int64)
        self.cold: Array = np.zeros(words, np.uint64)
        self.fill: Array = np.zeros(2, np.int64)
        self.seen: Array = np.zeros(94, np.uint8)
        self.moved: Array = np.zeros(rows if outbox else 0, MOVED)

    def reserve(self, words: int) -> None:
        """Make the cold buffer hold at least `words` words; only while it is empty."""
        if self.cold.size < words:
            self.cold = np.zeros(words, np.uint64)

    def reserve_row(self, bases: int) -> None:
        """Make room for a row of so many payload bases; only while it is empty."""
        self.reserve(2 * (4 + bases // 4) + 8)

    def clear(self) -> None:
        """Forget all rows."""
        self.fill[:] = 0
        self.seen[:] = 0


class PartitionWriter(Closing):
    """Writes flushes and their index.

    Args:
        path: file to make.
        leaves: leaves of the library.
        barcode_width: bytes of barcode qualities a row has.
    """

    def __init__(self, path: Path, leaves: Leaves, barcode_width: int) -> None:
        self._writer = BlockWriter(path)
        self._leaves = leaves
        self._width = barcode_width
        self._flushes: list[Any] = []
        self._row_before: list[Array] = []
        self._word_before: list[Array] = []
        self._hash_sums = np.zeros(len(leaves.widths), np.uint64)
        self._rows = np.zeros(len(leaves.widths), np.int64)
        self._bases = np.zeros(len(leaves.widths), np.int64)

    def close(self) -> None:
        """Close the file, and remove it unless it is finished."""
        self._writer.close()

    @property
    def written_bytes(self) -> int:
        """Bytes so far."""
        return self._writer.offset

    @property
    def samples(self) -> int:
        """Samples of the library."""
        return len(self._leaves.widths)

    def flush(self, staging: Staging) -> None:
        """Sort, encode and append the staged rows, then clear the staging."""
        if staging.fill[0]:
            self.write(staging, sorted_order(staging.hot, int(staging.fill[0])))
        staging.clear()

    def write(self, staging: Staging, order: Array) -> None:
        """Encode and append staged rows as one flush.

        Args:
            staging: rows in memory.
            order: i64[n], those to write, sorted.
        """
        count = order.size
        if count == 0:
            return
        levels, quality_bits = _quality_levels(staging.seen)
        row_before = np.zeros(self._leaves.count + 1, np.int64)
        word_before = np.zeros(self._leaves.count + 1, np.int64)
        kernels.count_leaves(
            staging.hot,
            order,
            quality_bits,
            self._leaves.bases,
            self._leaves.shifts,
            row_before,
            word_before,
        )
        entry = np.zeros((), FLUSH)
        entry["rows"], entry["quality_bits"], entry["levels"] = count, quality_bits, levels
        entry["cold_words"] = word_before[-1]
        self._append_hot(staging, order, entry)
        self._append_cold(staging, order, entry)
        self._flushes.append(entry)
        self._row_before.append(row_before)
        self._word_before.append(word_before)
        self._rows += np.diff(row_before[self._leaves.bases])
        kernels.sum_bases(staging.hot, order, self._bases)

    def _append_hot(self, staging: Staging, order: Array, entry: Array) -> None:
        count = order.size
        step = min(count, ENCODE_ROWS)
        hot = np.zeros(step, HOT)
        barcode = np.zeros((step, self._width), np.uint8)
        parts = []
        for start in range(0, count, step):
            stop = min(start + step, count)
            kernels.gather_hot(
                staging.hot, staging.barcode_quality, order, start, stop, hot, barcode
            )
            offset = self._writer.append(hot[: stop - start])
            if start == 0:
                entry["hot_offset"] = offset
            parts.append(barcode[: stop - start].copy())
        entry["barcode_offset"] = self._writer.append(np.concatenate(parts))
        if staging.moved.size:
            entry["moved_offset"] = self._writer.append(staging.moved[order])

    def _append_cold(self, staging: Staging, order: Array, entry: Array) -> None:
        count = order.size
        staged = staging.hot[: int(staging.fill[0])]
        longest = int((staged["length_1"] + staged["length_2"]).max())
        row_words = 4 + longest // 4 + longest // 32
        step = max(1, min(ENCODE_ROWS, (1 << 19) // row_words))
        cold = np.zeros(step * row_words, np.uint64)
        scratch = np.zeros(longest + 64, np.uint8)
        entry["cold_offset"] = self._writer.append(cold[:0])
        for start in range(0, count, step):
            words = kernels.encode_cold(
                staging.hot,
                staging.barcode_quality,
                staging.starts,
                staging.cold,
                order,
                start,
                min(start + step, count),
                entry["levels"].copy(),
                int(entry["quality_bits"]),
                cold,
                scratch,
                self._hash_sums,
            )
            self._writer.append(cold[:words])

    def add(self, name: str, array: Array) -> None:
        """Add an array of another kind to the file."""
        self._writer.add(name, array)

    def finish(self, header: dict[str, Any]) -> None:
        """Write the index and give the file its name."""
        leaves = self._leaves.count + 1
        count = len(self._flushes)
        self._writer.add("flushes", np.array(self._flushes, FLUSH).reshape(count))
        self._writer.add("row_before", np.array(self._row_before, np.int64).reshape(count, leaves))
        self._writer.add(
            "word_before", np.array(self._word_before, np.int64).reshape(count, leaves)
        )
        self._writer.add("rows", self._rows)
        self._writer.add("bases", self._bases)
        self._writer.add("hash_sums", self._hash_sums)
        self._writer.finish(
            {
                **header,
                "partition_version": FORMAT_VERSION,
                "widths": list(self._leaves.widths),
                "barcode_width": self._width,
                "key_words": 1,
            }
        )


def _quality_levels(seen: Array) -> tuple[Array, int]:
    """Return up to four levels, 255 for those not there, and the bits a quality takes."""
    values = np.flatnonzero(seen)
    if values.size > 4:
        return np.zeros(4, np.uint8), 8
    levels = np.zeros(4, np.uint8)
    levels[: values.size] = values
    # No quality reaches 255, so none is counted past the last level.
    levels[values.size :] = 255
    return levels, 2
