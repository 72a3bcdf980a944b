"""How close the barcodes of cells lie, for payloads that say nothing."""

from collections import Counter

import numpy as np
import pytest

from score_fixture import World, sample_sums, simulate
from umimill.census import cell_crowd, estimate
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


@pytest.mark.parametrize(
    ("cells", "wanted"), [((1000, 10 * 100 * 100, 8), 100.0), ((0, 0, 0), 777.0), ((1, 1, 8), 1.0)]
)
def test_crowd_is_that_of_a_family_s_cell(cells: tuple[int, int, int], wanted: float) -> None:
    """Ten cells of 100; no cells; one family."""

    class Sums:
        def __init__(self) -> None:
            self.cells = np.array(cells)

    assert cell_crowd(Sums(), 777) == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize("clones", [1, 20])
def test_errors_of_cells_are_told_by_their_umis(clones: int) -> None:
    """Cell bases are not corrected here, so their errors leave no neighbour and no child."""
    world = World(
        molecules=20_000, depth=4, clones=clones, length=22, cells=10, cell_length=12, seed=2
    )
    found = estimate(sample_sums(simulate(world)))
    assert found.error_census == pytest.approx(world.error, rel=0.1)
    # Reads with a wrong cell are families of their own.
    lost = 1 - (1 - world.error) ** 12
    assert found.molecules == pytest.approx(20_000 * (1 + 4 * lost), rel=0.03)
