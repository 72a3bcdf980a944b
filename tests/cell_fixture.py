"""Single-cell libraries with known truth: cells of a list, of none, errors in cells and N."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LETTERS = np.frombuffer(b"ACGT", np.uint8)
CELL, UMI, PAYLOAD = 10, 8, 40


@dataclass(frozen=True)
class Cells:
    """A library.

    Attributes:
        cell_list: its list, gzip, Windows line ends.
        units: files of each unit.
        cell: true cell of each read, in the order of units and records.
        read: the cell that was read.
        listed: whether the true cell is on the list.
    """

    cell_list: Path
    units: dict[str, tuple[Path, ...]]
    cell: list[str]
    read: list[str]
    listed: list[bool]


def make_cells(
    folder: Path,
    *,
    reads: int = 6000,
    listed: int = 300,
    used: int = 25,
    off_list: float = 0.02,
    error: float = 0.005,
    seed: int = 1,
    tags: Sequence[str] = ("",),
) -> Cells:
    """Simulate reads: molecules of `used` cells, of which some have few; errors by quality.

    Args:
        folder: where to write.
        reads: how many.
        listed: barcodes on the list.
        used: of which so many have reads.
        off_list: share of reads with random cells; half as many are of one cell on no list.
        error: mean error of a base.
        seed: of the random numbers.
        tags: bases in front of the cell, in turn.
    """
    rng = np.random.default_rng(seed)
    barcodes = np.unique(rng.integers(0, 4, (listed, CELL)), axis=0)
    rng.shuffle(barcodes)
    weights = 1.0 / np.arange(1, used + 1)
    chosen = rng.choice(used, reads, p=weights / weights.sum())
    cells = barcodes[chosen]
    kind = rng.random(reads)
    random_cells = kind < off_list
    cells[random_cells] = rng.integers(0, 4, (int(random_cells.sum()), CELL))
    # One base from the cell of most reads, but a cell of its own.
    twin = barcodes[0].copy()
    twin[3] = (twin[3] + 1) & 3
    own = (kind >= off_list) & (kind < 1.5 * off_list)
    cells[own] = twin
    known = {row.tobytes() for row in barcodes}
    listed_cell = [row.tobytes() in known for row in cells]
    quality = rng.choice((10, 25, 37), (reads, CELL), p=(0.06, 0.14, 0.8))
    chance = 10 ** (-quality / 10) * (error / 0.0067)
    wrong = rng.random((reads, CELL)) < chance
    observed = np.where(wrong, (cells + rng.integers(1, 4, cells.shape)) & 3, cells)
    umi = rng.integers(0, 4, (500, UMI))[rng.integers(0, 500, reads)]
    body = rng.integers(0, 4, (50, PAYLOAD))[rng.integers(0, 50, reads)]
    front = np.array([["ACGT".index(base) for base in tag] for tag in tags], np.int64)
    front = front.reshape(len(tags), -1)[np.arange(reads) % len(tags)]
    text = LETTERS[np.concatenate([front, observed, umi, body], axis=1)]
    unknown = rng.random((reads, CELL)) < 0.004
    span = slice(front.shape[1], front.shape[1] + CELL)
    text[:, span][unknown] = ord("N")
    phred = np.full(text.shape, 37)
    phred[:, span] = np.where(unknown, 2, quality)
    folder.mkdir(parents=True, exist_ok=True)
    units = {}
    half = reads // 2
    for name, rows in (("L1", range(half)), ("L2", range(half, reads))):
        path = folder / f"{name}.fastq.gz"
        records = (
            b"@r%d\n%s\n+\n%s\n"
            % (row, text[row].tobytes(), (phred[row] + 33).astype(np.uint8).tobytes())
            for row in rows
        )
        path.write_bytes(gzip.compress(b"".join(records), 1))
        units[name] = (path,)
    path = folder / "list.txt.gz"
    lines = "\r\n".join([*("".join("ACGT"[code] for code in row) for row in barcodes), ""])
    path.write_bytes(gzip.compress(lines.encode(), 1))
    return Cells(
        path,
        units,
        [LETTERS[row].tobytes().decode() for row in cells],
        [row.tobytes().decode() for row in text[:, span]],
        listed_cell,
    )
