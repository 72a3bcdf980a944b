"""Families in blocks that fit into memory, and all pairs of keys that differ at one base.

A block is all families of a sample whose keys begin with the same `depth` bases. Two keys that
differ at a later base are in one block; the keys that differ from those of a block at an earlier
base are three ranges a base, its siblings, wherever they lie: in other blocks or other buckets. So
pairs are found whatever the blocks are. A key is never in two of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile
from umimill.closing import Closing
from umimill.kernels import link as kernels
from umimill.kernels.neighbours import Pairs
from umimill.partition import Leaves
from umimill.plan import Plan

BASES = 32
# Rows read at a time where a table is searched, and where one is streamed.
PAGE_ROWS = 1 << 11
PIECE_ROWS = 1 << 14
# A file costs a descriptor and its page checksums.
OPEN_FILES = 16
KNOWN_PAGES = 1 << 12
# Of a family in a block: key, where it starts and ends, i32 both.
KEY_BYTES = 16

Array = npt.NDArray[Any]


class SortedRows:
    """A table of families, sorted by (sample, key), read piece by piece.

    Args:
        rows: rows of the table.
        read: gives rows [start, stop) of it as FAMILY[stop - start].
    """

    def __init__(self, rows: int, read: Callable[[int, int], Array]) -> None:
        self.rows = rows
        self.read = read
        # The first row of each page that was looked at, as (sample, key), and the last page.
        self._firsts: dict[int, tuple[int, int]] = {}
        self._page: tuple[int, Array] | None = None

    def _first(self, page: int) -> tuple[int, int]:
        found = self._firsts.get(page)
        if found is None:
            row = self.read(page * PAGE_ROWS, page * PAGE_ROWS + 1)[0]
            if len(self._firsts) == KNOWN_PAGES:
                self._firsts.clear()
            found = self._firsts[page] = int(row["sample"]), int(row["key"])
        return found

    def _read_page(self, page: int) -> Array:
        if self._page is None or self._page[0] != page:
            start = page * PAGE_ROWS
            self._page = page, self.read(start, min(start + PAGE_ROWS, self.rows))
        return self._page[1]

    def find(self, sample: int, key: int, start: int = 0) -> int:
        """Return the first row from `start` on that does not come before (sample, key).

        Args:
            sample: number of the sample.
            key: left-aligned; 2^64 stands for behind the sample.
            start: a row known to come no later.
        """
        if key >> 64:
            sample, key = sample + 1, 0
        low, high = start // PAGE_ROWS, -(-self.rows // PAGE_ROWS)
        # Ever longer steps first: most of the time the row is near.
        step = 1
        while low + step < high:
            if self._first(low + step) >= (sample, key):
                high = low + step
                break
            low += step
            step *= 2
        while low + 1 < high:
            middle = (low + high) // 2
            if self._first(middle) >= (sample, key):
                high = middle
            else:
                low = middle
        if low >= high:
            return self.rows
        before = kernels.rows_before(self._read_page(low), sample, np.uint64(key))
        return low * PAGE_ROWS + before


class FamilyFile(Closing):
    """The families of a bucket as tally wrote them.

    Args:
        path: table of families.

    Attributes:
        read_bytes: bytes of families and of their qualities read so far.
    """

    def __init__(self, path: Path) -> None:
        self._file = BlockFile(path)
        self.read_bytes = 0
        self.table = SortedRows(
            self._file.length("families"), lambda start, stop: self._read("families", start, stop)
        )
        self.quality_width = self._file.read("quality", 0, 0).shape[1]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read_quality(self, start: int, stop: int) -> Array:
        """Return the barcode qualities of rows [start, stop), u8[stop - start, B]."""
        return self._read("quality", start, stop)

    def _read(self, name: str, start: int, stop: int) -> Array:
        rows = self._file.read(name, start, stop)
        self.read_bytes += rows.nbytes
        return rows


class FamilyFiles(Closing):
    """The families of a library, by bucket.

    Args:
        plan: plan of the library.
        paths: tables of families, by bucket.

    Attributes:
        closed_bytes: bytes read from files that are closed by now.
    """

    def __init__(self, plan: Plan, paths: Sequence[Path]) -> None:
        self.leaves = plan.leaves
        firsts = np.append(plan.groups["leaf_start"], plan.leaves.count)
        self._bounds: list[int] = firsts[plan.bounds].tolist()
        self._paths = paths
        self.closed_bytes = 0
        self._open: OrderedDict[int, FamilyFile] = OrderedDict()

    def close(self) -> None:
        """Close the files."""
        while self._open:
            self._close_first()

    def bucket_leaves(self, bucket: int) -> tuple[int, int]:
        """Return the first leaf of a bucket and the one behind its last."""
        return self._bounds[bucket], self._bounds[bucket + 1]

    def _file(self, bucket: int) -> FamilyFile:
        found = self._open.pop(bucket, None)
        if found is None:
            found = FamilyFile(self._paths[bucket])
            if len(self._open) == OPEN_FILES:
                self._close_first()
        self._open[bucket] = found
        return found

    def _close_first(self) -> None:
        file = self._open.popitem(last=False)[1]
        self.closed_bytes += file.read_bytes
        file.close()

    def holding(self, block: Block) -> Iterator[FamilyFile]:
        """Yield the files of the buckets that a block is in; each is valid until the next."""
        first, last = block_leaves(block, self.leaves)
        for bucket in range(len(self._paths)):
            start, stop = self.bucket_leaves(bucket)
            if start < last and stop > first:
                yield self._file(bucket)


@dataclass(frozen=True)
class Block:
    """All families of a sample whose keys begin with the same bases.

    Attributes:
        sample: number of the sample.
        depth: how many bases these are.
        key: the least such key, left-aligned.
        start: first row of the table.
        stop: behind the last one.
    """

    sample: int
    depth: int
    key: int
    start: int = 0
    stop: int = 0

    @property
    def rows(self) -> int:
        """Families."""
        return self.stop - self.start

    def sibling(self, position: int, change: int) -> Block:
        """Return the block, of no known rows, with another base at a position before `depth`.

        Args:
            position: number of the base.
            change: 1 to 3: bits of the base to change.
        """
        return Block(self.sample, self.depth, self.key ^ flipped(position, change))


def flipped(position: int, change: int) -> int:
    """Return the bits of a left-aligned key that change with those of a base."""
    return change << (62 - 2 * position)


def block_leaves(block: Block, leaves: Leaves) -> tuple[int, int]:
    """Return the first leaf that a block has a part of, and the one behind the last."""
    width = leaves.widths[block.sample]
    first = int(leaves.bases[block.sample]) + (block.key >> (64 - 2 * width))
    return first, first + 4 ** max(0, width - block.depth)


def split_block(block: Block, table: SortedRows) -> list[Block]:
    """Split a block by its next base."""
    keys = [block.key | flipped(block.depth, base) for base in range(4)]
    starts = [block.start]
    for key in keys[1:]:
        starts.append(table.find(block.sample, key, starts[-1]))
    stops = [*starts[1:], block.stop]
    return [
        Block(block.sample, block.depth + 1, key, start, stop)
        for key, start, stop in zip(keys, starts, stops, strict=True)
        if start < stop
    ]


def cut_blocks(
    table: SortedRows, leaves: Leaves, leaf_start: int, leaf_stop: int, rows: int
) -> Iterator[Block]:
    """Cut the families of a run of leaves into blocks, in order, as large as they may be.

    Args:
        table: the families of these leaves.
        leaves: leaves of the library.
        leaf_start: first leaf.
        leaf_stop: end; a block has all families of its first bases, so no leaf from elsewhere.
        rows: most families of a block of more than one key.
    """
    bases = leaves.bases.tolist()
    stop = 0
    for sample in range(len(leaves.widths)):
        if bases[sample] >= leaf_stop or bases[sample + 1] <= leaf_start:
            continue
        start, stop = stop, table.find(sample + 1, 0, stop)
        pending = [Block(sample, 0, 0, start, stop)]
        while pending:
            block = pending.pop()
            first, last = block_leaves(block, leaves)
            if not block.rows or first >= leaf_stop or last <= leaf_start:
                continue
            whole = leaf_start <= first and last <= leaf_stop
            if whole and (block.rows <= rows or block.depth == BASES):
                yield block
            else:
                pending += reversed(split_block(block, table))


def read_into(read: Callable[[int, int], Array], start: int, stop: int, rows: Array) -> Array:
    """Read rows [start, stop) into the first of `rows`, piece by piece; return those."""
    for row in range(start, stop, PIECE_ROWS):
        end = min(row + PIECE_ROWS, stop)
        rows[row - start : end - start] = read(row, end)
    return rows[: stop - start]


def new_keys(families: Array) -> kernels.KeyTable:
    """Return a table with room for the keys of families."""
    return kernels.KeyTable(
        families,
        np.empty(families.size, np.uint64),
        np.empty(families.size, np.int32),
        np.empty(families.size, np.int32),
    )


def first_keys(table: kernels.KeyTable, count: int) -> kernels.KeyTable:
    """Return a table with its first `count` keys alone."""
    return table._replace(
        keys=table.keys[:count], starts=table.starts[:count], stops=table.stops[:count]
    )


def barcode_lengths(families: Array) -> list[tuple[int, int]]:
    """Return the pairs (umi_length, cell_length) of families that have a UMI."""
    counts = np.zeros((BASES + 1, BASES + 1), np.int64)
    kernels.count_lengths(families, counts)
    return [(umi, cell) for umi, cell in np.argwhere(counts).tolist() if umi]


@dataclass(frozen=True)
class Siblings:
    """Keys of another table that differ from those of a block at one base.

    Attributes:
        start: first row of the piece of that table.
        table: the piece and its keys.
        pairs: pairs, first of the block's keys, second of the piece's.
    """

    start: int
    table: kernels.KeyTable
    pairs: Pairs


def pairs_beside(
    keys: Array,
    sample: int,
    lengths: tuple[int, int],
    position: int,
    change: int,
    table: SortedRows,
) -> Iterator[Siblings]:
    """Find the keys of a table that differ from those of a block at a base that these share.

    The table is streamed, but what lies between two keys that are far apart is not read.

    Args:
        keys: u64[n], keys of the block: in order, each once, in the lowest bits.
        sample: number of the sample.
        lengths: (umi_length, cell_length) of the keys.
        position: number of the base.
        change: 1 to 3: bits of the base to change.
        table: table to search.
    """
    shift = 64 - 2 * sum(lengths)
    flip = flipped(position, change)
    end = table.find(sample, ((int(keys[-1]) << shift) ^ flip) + 1)
    at = row = 0
    while at < keys.size:
        row = table.find(sample, (int(keys[at]) << shift) ^ flip, row)
        if row >= end:
            return
        families = whole_keys(table, row, end)
        found = new_keys(families)
        found = first_keys(found, kernels.list_keys(found, *lengths))
        size = min(found.keys.size, keys.size - at)
        pairs = Pairs(np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.uint8))
        last = np.uint64(int(families[-1]["key"]) >> shift)
        at, count = kernels.join_keys(
            keys, at, found.keys, last, position, np.uint64(flip >> shift), pairs
        )
        if count:
            yield Siblings(row, found, Pairs(*(buffer[:count] for buffer in pairs)))
        row += families.size


def whole_keys(table: SortedRows, start: int, stop: int) -> Array:
    """Read rows from `start` on, before `stop`: about PIECE_ROWS, all those of a key or none."""
    rows = PIECE_ROWS
    while True:
        families = table.read(start, min(start + rows, stop))
        if start + families.size == stop:
            return families
        last = families[-1]
        count = kernels.rows_before(families, int(last["sample"]), np.uint64(last["key"]))
        if count:
            return families[:count]
        rows *= 2
