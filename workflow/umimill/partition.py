"""Partition file, version 1: the packed rows of one part, leaf-ordered, with their index.

A file is a series of flushes, each sorted by (sample, key, barcode length), so a run of leaves, and
within it a range of keys, is one contiguous range of rows in each flush. A flush is three arrays:
hot records, barcode qualities, cold words (kernels/rows.py). docs in config/README.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile, BlockWriter
from umimill.errors import UmimillError
from umimill.kernels import rows as kernels

FORMAT_VERSION = 1

HOT = np.dtype(
    [
        ("key", "<u8"),
        ("record", "<u4"),
        ("n_mask", "<u4"),
        ("length_1", "<u4"),
        ("length_2", "<u4"),
        ("unit", "<u2"),
        ("sample", "<u2"),
        ("flags", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
    ]
)
# What `record` can number.
MOST_RECORDS = 1 << 32
FLUSH = np.dtype(
    [
        ("rows", "<i8"),
        ("hot_offset", "<i8"),
        ("barcode_offset", "<i8"),
        ("cold_offset", "<i8"),
        ("cold_words", "<i8"),
        ("moved_offset", "<i8"),
        ("quality_bits", "<i8"),
        ("levels", "u1", (4,)),
        ("padding", "u1", (4,)),
    ]
)
# What an outbox says of a row that correction moved: the barcode that was read and its family, and
# the family of its new key that it belongs to.
MOVED = np.dtype(
    [
        ("original_key", "<u8"),
        ("family", "<u2"),
        ("original_family", "<u2"),
        ("padding", "u1", (4,)),
    ]
)
ENCODE_ROWS = 1 << 14

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Leaves:
    """The leaves of a library: those of sample 0, then of sample 1, and so on.

    Attributes:
        widths: w of each sample.
    """

    widths: tuple[int, ...]

    @property
    def bases(self) -> npt.NDArray[np.int64]:
        """i64[S + 1]: first leaf of each sample, and their number."""
        return np.concatenate([[0], np.cumsum([4**width for width in self.widths])]).astype(
            np.int64
        )

    @property
    def shifts(self) -> npt.NDArray[np.uint64]:
        """u64[S]: bits to shift a key right by to get its leaf."""
        return np.array([64 - 2 * width for width in self.widths], np.uint64)

    @property
    def count(self) -> int:
        """Leaves of all samples."""
        return sum(4**width for width in self.widths)


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


class PartitionWriter:
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

    def __enter__(self) -> PartitionWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        self._writer.__exit__(*error)

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


def sorted_order(hot: Array, count: int) -> npt.NDArray[np.int64]:
    """Return the first `count` rows of HOT[*] in the order of (sample, key, barcode length)."""
    order = np.empty(count, np.int64)
    kernels.sort_rows(
        hot,
        count,
        np.empty(count, np.uint64),
        order,
        np.empty(count, np.uint64),
        np.empty(count, np.int64),
        np.empty(256, np.int64),
    )
    return order


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


@dataclass(frozen=True)
class Run:
    """A run of leaves in one flush of one part: sorted rows that lie together.

    Attributes:
        file: number of the part.
        flush: number of the flush.
        row_start: first row in the flush.
        row_stop: end.
        word_start: first cold word in the flush.
        word_stop: end.
    """

    file: int
    flush: int
    row_start: int
    row_stop: int
    word_start: int
    word_stop: int


class PartitionFile:
    """Reads ranges of rows.

    Args:
        path: partition file.

    Raises:
        UmimillError: where it is damaged, or of another version.
    """

    def __init__(self, path: Path) -> None:
        self._blocks = BlockFile(path)
        self.header = self._blocks.header
        if self.header.get("partition_version") != FORMAT_VERSION:
            self._blocks.close()
            raise UmimillError(
                f"{path}: partition file of another version; delete results/partition, run again"
            )
        self.leaves = Leaves(tuple(self.header["widths"]))
        self.barcode_width = int(self.header["barcode_width"])
        self.flushes = self._blocks.read("flushes")
        self._hot_scratch = np.zeros(0, np.uint8)
        self._barcode_scratch = np.zeros(0, np.uint8)
        self._cold_scratch = np.zeros(0, np.uint8)
        self._moved_scratch = np.zeros(0, np.uint8)

    @property
    def is_outbox(self) -> bool:
        """Whether its rows were moved by correction."""
        return bool(self.header.get("outbox", False))

    def __enter__(self) -> PartitionFile:
        return self

    def __exit__(self, *error: Any) -> None:
        self._blocks.close()

    def leaf_totals(self) -> tuple[Array, Array]:
        """Return rows and bytes of each leaf over all flushes, i64[leaves] both."""
        rows = np.zeros(self.leaves.count, np.int64)
        size = np.zeros(self.leaves.count, np.int64)
        for number in range(self.flushes.size):
            leaf_rows = np.diff(self._index("row_before", number))
            rows += leaf_rows
            size += leaf_rows * (HOT.itemsize + self.barcode_width)
            size += 8 * np.diff(self._index("word_before", number))
        return rows, size

    def read(self, name: str) -> Array:
        """Return an array of another kind."""
        return self._blocks.read(name)

    def _index(self, name: str, flush: int) -> Array:
        row: Array = self._blocks.read(name, flush, flush + 1)[0]
        return row

    def sample_totals(self) -> tuple[Array, Array, Array]:
        """Return rows and payload bases, i64[S] both, and the sums of row hashes, u64[S]."""
        blocks = self._blocks
        return blocks.read("rows"), blocks.read("bases"), blocks.read("hash_sums")

    def runs(self, file: int, leaf_start: int, leaf_stop: int) -> list[Run]:
        """Return the non-empty runs of leaves [leaf_start, leaf_stop), one a flush."""
        found = []
        for number in range(self.flushes.size):
            rows = self._index("row_before", number)
            words = self._index("word_before", number)
            run = Run(
                file,
                number,
                int(rows[leaf_start]),
                int(rows[leaf_stop]),
                int(words[leaf_start]),
                int(words[leaf_stop]),
            )
            if run.row_stop > run.row_start:
                found.append(run)
        return found

    def read_hot(self, flush: int, start: int, stop: int) -> Array:
        """Return HOT[stop - start]; valid until the next call."""
        offset = int(self.flushes[flush]["hot_offset"])
        width = HOT.itemsize
        data, self._hot_scratch = self._blocks.read_bytes(
            offset + start * width, offset + stop * width, self._hot_scratch
        )
        return data.view(HOT)

    def read_barcode_quality(self, flush: int, start: int, stop: int) -> Array:
        """Return u8[stop - start, B]; valid until the next call."""
        offset = int(self.flushes[flush]["barcode_offset"])
        width = self.barcode_width
        data, self._barcode_scratch = self._blocks.read_bytes(
            offset + start * width, offset + stop * width, self._barcode_scratch
        )
        return data.reshape(-1, width)

    def read_moved(self, flush: int, start: int, stop: int) -> Array:
        """Return MOVED[stop - start] of an outbox; valid until the next call."""
        offset = int(self.flushes[flush]["moved_offset"])
        width = MOVED.itemsize
        data, self._moved_scratch = self._blocks.read_bytes(
            offset + start * width, offset + stop * width, self._moved_scratch
        )
        return data.view(MOVED)

    def read_cold(self, flush: int, start: int, stop: int) -> Array:
        """Return u64[stop - start] cold words; valid until the next call."""
        offset = int(self.flushes[flush]["cold_offset"])
        data, self._cold_scratch = self._blocks.read_bytes(
            offset + 8 * start, offset + 8 * stop, self._cold_scratch
        )
        return data.view(np.uint64)


def open_partitions(paths: Sequence[Path]) -> list[PartitionFile]:
    """Open the partition files of a library."""
    return [PartitionFile(path) for path in paths]
