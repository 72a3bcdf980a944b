"""Pieces: families cut where a key ends, and where rows and keys lie among them."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from umimill import pieces
from umimill.blockfile import BlockWriter
from umimill.pieces import cut_pieces
from umimill.tally import FAMILY


def write_families(folder: Path, keys: list[list[tuple[int, int]]]) -> list[Path]:
    paths = []
    for bucket, own in enumerate(keys):
        table = np.zeros(len(own), FAMILY)
        for row, (sample, key) in enumerate(own):
            table[row]["sample"], table[row]["key"] = sample, key << 50
        paths.append(folder / f"{bucket}.families")
        with BlockWriter(paths[-1]) as writer:
            writer.add("families", table)
            writer.finish({})
    return paths


def random_keys(rng: Any, buckets: int, rows: int) -> list[list[tuple[int, int]]]:
    """Sorted keys of up to a hundred families; a bucket may have none."""
    keys: list[tuple[int, int]] = []
    while len(keys) < rows:
        key = (int(rng.integers(3)), int(rng.integers(200)))
        if key not in keys:
            keys += [key] * int(rng.choice([1, 1, 1, 2, 3, 100]))
    keys.sort()
    cuts = sorted(rng.integers(0, len(keys), buckets - 1).tolist())
    edges = [0, *cuts, len(keys)]
    for number, cut in enumerate(edges):
        while 0 < cut < len(keys) and keys[cut] == keys[cut - 1]:
            cut += 1
        edges[number] = cut
    return [keys[start:stop] for start, stop in pairwise(edges)]


@pytest.mark.parametrize("most", [1, 2, 7, 30, 1000])
def test_pieces_are_whole_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(pieces, "LEAST_ROWS", 1)
    rng = np.random.default_rng(most)
    for trial in range(10):
        keys = random_keys(rng, 4, 300)
        folder = tmp_path / str(trial)
        folder.mkdir()
        found = cut_pieces(write_families(folder, keys), most)
        seen = []
        for piece in range(found.count):
            bucket = int(found.buckets[piece])
            assert piece in found.of_bucket(bucket)
            own = keys[bucket][found.starts[piece] : found.stops[piece]]
            assert own
            assert len(own) <= most or len(set(own)) == 1
            rows = [row for span in found.row_ranges(piece, 3) for row in range(*span)]
            assert rows == list(range(found.starts[piece], found.stops[piece]))
            assert set(found.of_rows(bucket, np.array(rows, np.uint32)).tolist()) == {piece}
            samples = np.array([sample for sample, _ in own], np.uint16)
            words = np.array([key << 50 for _, key in own], np.uint64)
            assert set(found.of_keys(samples, words).tolist()) == {piece}
            seen.append(own)
        assert [key for own in seen for key in own] == [key for own in keys for key in own]
        # As few as there may be: a key is not left out of a piece that has room for it.
        for (one, bucket), (two, other) in pairwise(zip(seen, found.buckets, strict=True)):
            first = sum(key == two[0] for key in two)
            assert bucket != other or len(one) + first > most
    assert cut_pieces([], 5).count == 0
