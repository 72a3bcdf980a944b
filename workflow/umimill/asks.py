"""Asks: the families of a bucket that may be misread at several bases, as link lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockWriter
from umimill.closing import Closing
from umimill.kernels.asks import find_asks
from umimill.kernels.queries import MOST_UNSURE
from umimill.kernels.score import EdgeModel

ASK = np.dtype(
    [
        ("key", "<u8"),
        ("draft", "<u8"),
        ("independent", "<i4"),
        ("mask", "<u4"),
        ("reads", "<u4"),
        ("row", "<u4"),
        ("quality_sum", "<u2"),
        ("sample", "<u2"),
        ("family", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
        ("draft_quality", "u1"),
        ("quality", "u1", (32,)),
        ("padding", "u1", (7,)),
    ]
)
READ_ASKS = 1 << 14

Array = npt.NDArray[Any]


class AskWriter(Closing):
    """Writes the families of a bucket that ask.

    Args:
        path: file to write.
        model: tables of the library.
    """

    def __init__(self, path: Path, model: EdgeModel) -> None:
        self._writer = BlockWriter(path)
        self._model = model
        self._asks = np.zeros(READ_ASKS, ASK)
        self._places = np.zeros(MOST_UNSURE, np.int64)
        self._count = 0
        self._start = self._writer.append(self._asks[:0])

    def close(self) -> None:
        """Close the file, and remove it unless it is finished."""
        self._writer.close()

    def add(self, families: Array, quality: Array, edges: Array, first_row: int) -> None:
        """List those of some families that ask.

        Args:
            families: FAMILY[n].
            quality: u8[n, B].
            edges: EDGE[n], their best parents so far.
            first_row: row of the first family in the bucket's table.
        """
        start = 0
        while start < families.size:
            start, count = find_asks(
                families,
                quality,
                edges,
                first_row,
                start,
                self._model,
                self._places,
                self._asks,
            )
            self._writer.append(self._asks[:count])
            self._count += count

    def finish(self, bucket: int) -> int:
        """Give the file its name; return the families that ask."""
        self._writer.list_array("asks", self._start, (self._count,), ASK)
        self._writer.finish({"bucket": bucket})
        return self._count
