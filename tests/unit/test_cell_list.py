"""Files of cell barcodes: what is taken, and what is wrong with them in one line."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from kernel_cases import pack_key
from umimill import cell_list
from umimill.cell_list import list_cells, read_cell_list
from umimill.errors import UmimillError
from umimill.metrics import Meter


def read(folder: Path, data: bytes, length: int = 4) -> tuple[list[int], dict[str, int]]:
    """Return the keys on a list, and the counters of the job."""
    (folder / "list.txt").write_bytes(data)
    meter = Meter("cells", "L1", 8000)
    list_cells(folder / "list.txt", length, folder / "L1.cells", meter)
    listed = read_cell_list(folder / "L1.cells")
    assert listed.length.tolist() == [length]
    return listed.cells.tolist(), meter.counters


@pytest.mark.parametrize(
    "data",
    [
        b"ACGT\nCCCC\nAAAA\n",
        b"ACGT\r\nCCCC\r\nAAAA",
        b"\n\nCCCC\racgt\r\rAAAA",
        b"CCCC-1\n  AAAA\t\nACGT-1\n",
    ],
)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("piece", [1 << 22, 1, 3])
def test_lists_are_read(
    data: bytes, packed: bool, piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_list, "READ_BYTES", piece)
    keys, counters = read(tmp_path, gzip.compress(data) if packed else data)
    assert keys == [int(pack_key(cell)) for cell in ("AAAA", "ACGT", "CCCC")]
    assert counters == {"cells": 3, "cells_repeated": 0}


def test_repeated_barcodes_count_once(tmp_path: Path) -> None:
    keys, counters = read(tmp_path, b"CCCC\nACGT\nCCCC\nCCCC-1\n")
    assert len(keys) == counters["cells"] == 2
    assert counters["cells_repeated"] == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "list.txt: has no barcode; give a list, one barcode a line"),
        (b"\r\n\n", "list.txt: has no barcode; give a list, one barcode a line"),
        (
            b"ACGT\n\r\nACNT\n",
            "list.txt, line 3: 'ACNT' is no barcode of A, C, G and T; "
            "give one barcode a line and nothing else",
        ),
        (
            b"cell,reads\nACGT,5\n",
            "list.txt, line 1: 'cell,reads' is no barcode of A, C, G and T; "
            "give one barcode a line and nothing else",
        ),
        (
            b"ACGT\rACGTA-1\rAA",
            "list.txt, line 2: 'ACGTA-1' has 5 bases, but cell barcodes of this library have 4; "
            "give the list of its chemistry, or mend the layout",
        ),
        (
            b"A" * 9000,
            "list.txt: has a line of more than 4,096 letters, so it is no list of cell barcodes; "
            "check the path",
        ),
        (
            gzip.compress(b"ACGT\n" * 5000, mtime=0)[:-20],
            "list.txt: its gzip data is cut or damaged; fetch it again",
        ),
        (
            gzip.compress(b"ACGT\n" * 50, mtime=0)[:20] + b"x" * 50,
            "list.txt: its gzip data is cut or damaged; fetch it again",
        ),
    ],
)
def test_faults_have_file_and_line(data: bytes, message: str, tmp_path: Path) -> None:
    # A path is never cut, however long.
    folder = tmp_path / "folder-of-a-cell-list" / "of-which-the-path-is-longer-than-a-line"
    folder.mkdir(parents=True)
    with pytest.raises(UmimillError, match=re.escape(f"{folder}/{message}") + "$"):
        read(folder, data)
    assert not (folder / "L1.cells").exists()


def test_lines_are_counted_over_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_list, "READ_BYTES", 7)
    with pytest.raises(UmimillError, match=r"line 1,001: 'TTT' has 3 bases"):
        read(tmp_path, b"ACGT\r\n" * 1000 + b"TTT\n")
