"""Shelves give back what was put on them, whatever their memory, and say what that cost."""

import random
from pathlib import Path

import numpy as np
import pytest

from stage_fixture import new_meter
from umimill import shelf
from umimill.shelf import ARRAY_BYTES, Scratch

ROW = np.dtype([("place", "<i8"), ("number", "<i8")])


@pytest.mark.parametrize("budget", [0, 500, 5000, 1 << 20])
def test_rows_come_back_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: int
) -> None:
    monkeypatch.setattr(shelf, "READ_ROWS", 7)
    rng = random.Random(budget)
    meter = new_meter()
    expected: dict[int, list[int]] = {}
    with Scratch(meter, tmp_path) as scratch:
        held = scratch.shelf(ROW, budget)
        other = scratch.shelf(ROW, budget)
        for number in range(200):
            rows = np.zeros(rng.randrange(9), ROW)
            rows["place"] = [rng.randrange(5) for _ in range(rows.size)]
            rows["number"] = number
            for one in rows:
                expected.setdefault(int(one["place"]), []).append(number)
            if number % 2:
                held.scatter(rows["place"], rows)
            else:
                for place in range(5):
                    held.add(place, rows[rows["place"] == place])
            rows[:] = 0  # the caller's buffer
            other.add(1, np.zeros(1, ROW))
        rows_in = sum(len(one) for one in expected.values())
        assert held.places() == sorted(expected)
        for _ in range(2):
            for place, numbers in expected.items():
                assert held.get(place)["number"].tolist() == numbers
        for place, numbers in expected.items():
            pieces = []
            for piece in held.take(place):
                assert 0 < piece.size <= 7
                pieces += piece["number"].tolist()
                held.add(place, np.full(1, 77, ROW))
            assert pieces == numbers
            assert set(held.get(place)["number"].tolist()) == {77}
        held.clear()
        assert held.places() == []
        assert len(other.get(1)) == 200
        if budget < 1 << 20:
            assert meter.umi_spill_bytes > 0
            assert meter.umi_read_back_bytes >= 2 * rows_in * ROW.itemsize * (budget == 0)
            assert meter.umi_memory_bytes <= 2 * (budget + 9 * ROW.itemsize + ARRAY_BYTES)
            assert meter.clocks["spill"] > 0
        else:
            assert meter.umi_spill_bytes == meter.umi_read_back_bytes == 0
            assert meter.umi_memory_bytes >= rows_in * ROW.itemsize
        folders = list(tmp_path.iterdir())
        assert len(folders) == 1
    assert not folders[0].exists()
