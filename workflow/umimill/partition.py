"""Partition file, version 1: the packed rows of one part, leaf-ordered, with their index.

A file is a series of flushes, each sorted by (sample, key, barcode length), so a run of leaves, and
within it a range of keys, is one contiguous range of rows in each flush. A flush is three arrays:
hot records, barcode qualities, cold words (kernels/rows.py). docs in config/README.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile
from umimill.closing import Closing
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


class PartitionFile(Closing):
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

    def close(self) -> None:
        """Close the file."""
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
