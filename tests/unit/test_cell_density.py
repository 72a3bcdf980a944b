"""How close the barcodes of cells lie, for payloads that say nothing."""

from collections import Counter

import numpy as np
import pytest

from umimill.census import cell_density
from umimill.kernels.tally import count_cells
from umimill.tally import FAMILY


def random_cells(rng: np.random.Generator, cell_length: int) -> np.ndarray:
    """Families of two samples with cells of very different sizes, in order."""
    cells = rng.integers(0, 4**cell_length, 12, np.uint64)
    chosen = cells[rng.integers(0, 12, 600) * rng.integers(0, 2, 600)]
    umis = rng.integers(0, 4**6, 600, np.uint64)
    table = np.zeros(600, FAMILY)
    table["key"] = (chosen << np.uint64(64 - 2 * cell_length)) | (
        umis << np.uint64(64 - 2 * (cell_length + 6))
    )
    table["sample"] = rng.integers(0, 2, 600)
    table["cell_length"], table["umi_length"] = cell_length, 6
    return table[np.lexsort((table["key"], table["sample"]))]


def counted(table: np.ndarray, cuts: list[int]) -> np.ndarray:
    """Count the cells of a table that comes in pieces."""
    run, cells = np.zeros(4, np.uint64), np.zeros((2, 3), np.int64)
    for piece in np.split(table, cuts):
        count_cells(piece, run, cells)
    return cells


@pytest.mark.parametrize("cell_length", [4, 8, 16])
def test_families_of_cells_are_counted_wherever_the_table_is_cut(cell_length: int) -> None:
    rng = np.random.default_rng(cell_length)
    table = random_cells(rng, cell_length)
    cells = counted(table, [])
    for sample in range(2):
        own = table["key"][table["sample"] == sample] >> np.uint64(64 - 2 * cell_length)
        sizes = Counter(own.tolist()).values()
        assert cells[sample].tolist() == [own.size, sum(n * n for n in sizes), cell_length]
    cuts = np.sort(rng.choice(599, 40, replace=False) + 1).tolist()
    assert (counted(table, cuts) == cells).all()


@pytest.mark.parametrize("cell_length", [0, 3])
def test_without_cells_nothing_is_counted(cell_length: int) -> None:
    table = random_cells(np.random.default_rng(1), 4)
    table["cell_length"] = cell_length
    assert not counted(table, []).any()


def test_density_is_that_of_equal_cells() -> None:
    """Ten cells of even size among 4^8 barcodes: neighbours are 4^8 / 10 times as close."""

    class Sums:
        cells = np.array([1000, 10 * 100 * 100, 8])

    composition = np.full((32, 4), 0.25)
    assert cell_density(Sums(), composition) == pytest.approx(4**8 / 10)  # type: ignore[arg-type]
