"""Which molecule each read of a bucket is in, written by assemble where a run asks for lineage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile, BlockWriter
from umimill.closing import Closing
from umimill.kernels.rows import SHIFT_MINUS, SHIFT_PLUS

LINEAGE = np.dtype(
    [
        ("original_key", "<u8"),
        ("key", "<u8"),
        ("record", "<u4"),
        ("original_n_mask", "<u4"),
        ("unit", "<u2"),
        ("sample", "<u2"),
        ("original_family", "<u2"),
        ("number", "<u2"),
        ("umi_length", "u1"),
        ("original_umi_length", "u1"),
        ("cell_length", "u1"),
        ("status", "u1"),
        ("several", "u1"),
        ("kept", "u1"),
        ("padding", "u1", (2,)),
    ]
)
READ_ROWS = 1 << 16

Array = npt.NDArray[Any]


def lineage_rows(
    hot: Array, families: Array, given: Array, moved: Array, molecules: Array
) -> Array:
    """Return the lineage of reads.

    Args:
        hot: HOT[n], their rows.
        families: u16[n], the number of their family among those of the barcode they lie under.
        given: i64[n], below 0 for those that correction did not move here.
        moved: MOVED[n], where the others came from.
        molecules: MOLECULE[n], the molecule of each.

    Returns:
        LINEAGE[n].
    """
    rows = np.zeros(hot.size, LINEAGE)
    for name in ("record", "unit", "sample", "umi_length", "cell_length"):
        rows[name] = hot[name]
    for name in ("key", "number", "status", "several", "kept"):
        rows[name] = molecules[name]
    rows["original_key"] = np.where(given < 0, hot["key"], moved["original_key"])
    rows["original_n_mask"] = hot["n_mask"]
    gained = (hot["flags"] & SHIFT_PLUS > 0).astype(np.uint8)
    lost = (hot["flags"] & SHIFT_MINUS > 0).astype(np.uint8)
    rows["original_umi_length"] = hot["umi_length"] + gained - lost
    # A barcode that was not fully read has no families.
    partial = (hot["n_mask"] != 0) | (gained != lost)
    family = np.where(given < 0, families, moved["original_family"])
    rows["original_family"] = np.where(partial, 0, family + 1)
    return rows


class LineageWriter(Closing):
    """Writes the lineage of a bucket's reads, in no order.

    Args:
        path: block file to write.
    """

    def __init__(self, path: Path) -> None:
        self._writer = BlockWriter(path)
        self._rows = 0
        self._start = self._writer.append(np.empty(0, LINEAGE))

    def close(self) -> None:
        """Close the file, and remove it unless it is finished."""
        self._writer.close()

    def add(self, rows: Array) -> None:
        """Write LINEAGE[n]."""
        self._writer.append(rows)
        self._rows += rows.size

    def finish(self) -> int:
        """Give the file its name; return its bytes."""
        self._writer.list_array("lineage", self._start, (self._rows,), LINEAGE)
        self._writer.finish({})
        return self._writer.offset


def read_lineage(path: Path) -> Iterator[Array]:
    """Yield the rows of a bucket, LINEAGE[*]."""
    with BlockFile(path) as file:
        for start in range(0, file.length("lineage"), READ_ROWS):
            yield file.read("lineage", start, start + READ_ROWS)
