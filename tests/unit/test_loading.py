"""The loader: rows by ranges of keys, from any leaves of several files, as they were written."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from row_fixture import BARCODE_WIDTH, cases, leaf_of, make_rows, order_of, packed, write_rows
from stage_fixture import Row, cold_size, new_meter, slow_settings, unpack_row, unpack_rows
from umimill.assemble import Settings, assemble
from umimill.blockfile import BlockFile
from umimill.errors import UmimillError
from umimill.kernels.consensus import Batch
from umimill.loading import READ_ROWS, RowLoader, make_batch
from umimill.partition import HOT, Leaves, PartitionFile
from umimill.plan import plan, read_plan
from umimill.tally import FAMILY, tally


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("partition")


def unpack_batch(batch: Batch) -> Iterator[Row]:
    cold = batch.cold.tolist()
    for number in range(batch.hot.size):
        run = int(batch.runs[number])
        start = int(batch.starts[number])
        bits = int(batch.bits[run])
        words = cold[start : start + cold_size(batch.hot[number], bits)]
        levels = batch.levels[run].tolist()
        yield unpack_row(batch.hot[number], batch.barcode_quality[number], words, bits, levels)


def family_of(row: Row) -> Any:
    family = np.zeros(1, FAMILY)
    family["sample"], family["key"] = row[0], (packed(row[1]) or [0])[0]
    family["cell_length"], family["umi_length"] = row[2], len(row[1]) - row[2]
    return family


@slow_settings(40)
@given(case=cases(), second=st.integers(0, 5), data=st.data())
def test_loader_reads_key_ranges(
    folder: Path, case: tuple[list[list[Row]], Leaves], second: int, data: st.DataObject
) -> None:
    """Any run of leaves, in steps that end at any keys, from two files."""
    flushes, leaves = case
    files = [flushes[:second], flushes[second:]]
    paths = [
        write_rows(folder / f"load{number}.rows", own, leaves) for number, own in enumerate(files)
    ]
    start = data.draw(st.integers(0, leaves.count), "first leaf")
    stop = data.draw(st.integers(start, leaves.count), "last leaf")
    expected = [row for rows in flushes for row in rows if start <= leaf_of(row, leaves) < stop]
    ends = sorted(data.draw(st.lists(st.sampled_from(expected), max_size=4)) if expected else [],
                  key=order_of)  # fmt: skip
    parts = [PartitionFile(path) for path in paths]
    loader = RowLoader(parts, start, stop)
    found: list[Row] = []
    for end in ends:
        pieces = loader.through(family_of(end))
        batch = make_batch(pieces, BARCODE_WIDTH)
        rows = list(unpack_batch(batch))
        assert all(order_of(row) <= order_of(end) for row in rows)
        found += rows
    left = len(expected) - len(found)
    if left:
        with pytest.raises(UmimillError, match=f"^{left} rows belong to no family; delete"):
            loader.check_finished()
    if expected:
        for piece in loader.pieces_through(family_of(max(expected, key=order_of))):
            found += unpack_batch(make_batch([piece], BARCODE_WIDTH))
    loader.check_finished()
    assert Counter(found) == Counter(expected)
    assert loader.read_bytes == sum(
        HOT.itemsize + BARCODE_WIDTH + 8 * words for words in cold_sizes(parts, expected)
    )
    for part in parts:
        part.__exit__()


def cold_sizes(parts: Sequence[PartitionFile], expected: Sequence[Row]) -> list[int]:
    wanted = Counter(expected)
    sizes = []
    for part in parts:
        for number, entry in enumerate(part.flushes):
            count, bits = int(entry["rows"]), int(entry["quality_bits"])
            hot = part.read_hot(number, 0, count)
            cold = part.read_cold(number, 0, int(entry["cold_words"]))
            barcode = part.read_barcode_quality(number, 0, count)
            rows = unpack_rows(hot, barcode, cold, bits, entry["levels"].tolist())
            for place, row in enumerate(rows):
                if wanted[row] > 0:
                    wanted[row] -= 1
                    sizes.append(cold_size(hot[place], bits))
    return sizes


def test_runs_longer_than_what_is_read_at_once(tmp_path: Path) -> None:
    """More rows than READ_ROWS in a run, and a key that has more of them itself."""
    rng = np.random.default_rng(6)
    count = 2 * READ_ROWS + 100
    leaves = Leaves((1,))
    rows = make_rows(rng, [(3, 0)] * count, [(0, 0, 2)], [2, 30], unknown=0.1, umis=2)
    path = write_rows(tmp_path / "a.rows", [rows, rows[: READ_ROWS + 1]], leaves)
    with PartitionFile(path) as part:
        loader = RowLoader([part], 0, leaves.count)
        keys = sorted({row[1] for row in rows})
        found: Counter[Row] = Counter()
        for key in keys:
            last = next(row for row in rows if row[1] == key)
            step = Counter(unpack_batch(make_batch(loader.through(family_of(last)), BARCODE_WIDTH)))
            assert {row[1] for row in step} == {key}
            found += step
        loader.check_finished()
    assert len(keys) == 2
    assert found == Counter(rows) + Counter(rows[: READ_ROWS + 1])


def test_no_rows_at_all(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.rows", [[], []], Leaves((2, 0)))
    with PartitionFile(path) as part:
        assert part.flushes.size == 0
        assert part.runs(0, 0, part.leaves.count) == []
        assert [total.tolist() for total in part.sample_totals()] == [[0, 0]] * 3
        loader = RowLoader([part], 0, part.leaves.count)
        assert loader.through(np.zeros(1, FAMILY)) == []
        loader.check_finished()
    batch = make_batch([], BARCODE_WIDTH)
    assert list(unpack_batch(batch)) == []
    assert batch.barcode_quality.shape == (0, BARCODE_WIDTH)


@pytest.mark.parametrize("batch_bytes", [None, 1])
def test_hashes_are_the_same_at_both_ends(tmp_path: Path, batch_bytes: int | None) -> None:
    """Rows as assemble reads them, in cells or one key by one, have the hashes they were given."""
    rng = np.random.default_rng(10)
    barcodes = [(0, 0, 6), (1, 3, 5), (1, 3, 6)]
    files = []
    for name in "ab":
        flushes = [
            make_rows(rng, [(int(rng.integers(1, 300)), int(rng.integers(90))) for _ in range(400)],
                      barcodes, levels, unknown=unknown, umis=3)
            for levels, unknown in (([2, 12, 23, 37], 0.01), (range(94), 0.0), ([40], 0.9))
        ]  # fmt: skip
        files.append(write_rows(tmp_path / f"{name}.rows", flushes, Leaves((3, 4))))
    plan(files, 1, tmp_path / "a.plan", new_meter("plan"))
    tally(tmp_path / "a.plan", 0, tmp_path / "families", new_meter("tally"))
    meter = new_meter("assemble")
    assemble(
        tmp_path / "a.plan",
        tmp_path / "families",
        0,
        Settings(1, 1e-4, 2),
        (tmp_path / "mate1", tmp_path / "mate2"),
        tmp_path / "molecules",
        meter,
        batch_bytes=batch_bytes,
    )
    assert meter.reads == 2400
    expected = read_plan(tmp_path / "a.plan").hash_sums.tolist()
    with BlockFile(tmp_path / "molecules") as file:
        assert file.read("hash_sums").tolist() == expected
    assert all(expected)
