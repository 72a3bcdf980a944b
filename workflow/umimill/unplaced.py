"""Rows of checkout on their way to disk: those with a listed cell, and those set aside for place.

Beside the rows that are set aside stand the counts of those that are not, by cell and flush
(`cells_0`, `cells_1` ...): what place takes for the abundance of cells.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from umimill.cell_list import CELL_COUNT
from umimill.closing import Closing
from umimill.kernels.cell_list import CellList, split_rows
from umimill.partition import Leaves, sorted_order
from umimill.partition_writer import PartitionWriter, Staging


class SplitWriter(Closing):
    """Writes rows to two partition files, by whether their cell is on a list.

    Args:
        rows: file of the rows whose cell is.
        unplaced: file of the others.
        leaves: leaves of the library.
        barcode_width: bytes of barcode qualities a row has.
        listed: the list.

    Attributes:
        set_aside: i64[S], rows of the second file.
    """

    def __init__(
        self, rows: Path, unplaced: Path, leaves: Leaves, barcode_width: int, listed: CellList
    ) -> None:
        self._rows = PartitionWriter(rows, leaves, barcode_width)
        try:
            self._unplaced = PartitionWriter(unplaced, leaves, barcode_width)
        except BaseException:
            self._rows.close()
            raise
        self._listed = listed
        self._flushes = 0
        self.set_aside = np.zeros(len(leaves.widths), np.int64)

    def close(self) -> None:
        """Close the files, and remove them unless they are finished."""
        self._rows.close()
        self._unplaced.close()

    @property
    def written_bytes(self) -> int:
        """Bytes of both files so far."""
        return self._rows.written_bytes + self._unplaced.written_bytes

    def flush(self, staging: Staging) -> None:
        """Sort, encode and append the staged rows, then clear the staging."""
        count = int(staging.fill[0])
        if count:
            order = sorted_order(staging.hot, count)
            on, off = np.empty(count, np.int64), np.empty(count, np.int64)
            counts = np.zeros(count, CELL_COUNT)
            listed, others, cells = split_rows(staging.hot, order, self._listed, on, off, counts)
            self._rows.write(staging, on[:listed])
            self._unplaced.write(staging, off[:others])
            samples = staging.hot["sample"][off[:others]]
            self.set_aside += np.bincount(samples, minlength=self.set_aside.size)
            self._unplaced.add(f"cells_{self._flushes}", counts[:cells])
            self._flushes += 1
        staging.clear()

    def finish(self, header: dict[str, Any]) -> None:
        """Give both files their names."""
        self._unplaced.finish({**header, "count_flushes": self._flushes})
        self._rows.finish(header)
