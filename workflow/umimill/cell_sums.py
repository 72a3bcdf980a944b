"""What the tables of a sample's cells say, as the report takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class CellCall:
    """A row of cell_calls.tsv; `least` is None where nothing is called."""

    method: str
    least: int | None
    cells: int
    molecules: int
    share: float


@dataclass(frozen=True)
class SampleCells:
    """The cells of a sample: points (rank, molecules) of its curve, calls by method.

    The call of the method `all` is all barcodes.
    """

    sample: str
    curve: tuple[tuple[int, int], ...]
    calls: Mapping[str, CellCall]
