"""The loader: rows by ranges of keys, from any leaves of several files, as they were written."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucket_fixture import run_assemble, run_refine
from row_fixture import BARCODE_WIDTH, cases, leaf_of, make_rows, order_of, packed, write_rows
from stage_fixture import Row, cold_size, new_meter, slow_settings, unpack_row, unpack_rows
from umimill.blockfile import BlockFile
from umimill.errors import UmimillError
from umimill.kernels.consensus import Batch
from umimill.loading import READ_ROWS, RowLoader, make_batch
from umimill.partition import HOT, Leaves, PartitionFile
from umimill.plan import plan, read_plan
from umimill.tally import FAMILY


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
        part.close()


@slow_settings(40)
@given(case=cases(), second=st.integers(0, 5), rows=st.integers(1, 60), ahead=st.integers(1, 40))
def test_loader_reads_whole_keys(
    folder: Path, case: tuple[list[list[Row]], Leaves], second: int, rows: int, ahead: int
) -> None:
    """Keys in order, each with all its rows, however few are read at a time."""
    flushes, leaves = case
    files = [flushes[:second], flushes[second:]]
    paths = [
        write_rows(folder / f"keys{number}.rows", own, leaves) for number, own in enumerate(files)
    ]
    expected: dict[Any, Counter[Row]] = {}
    for row in sorted((row for rows in flushes for row in rows), key=order_of):
        expected.setdefault((order_of(row), row[2]), Counter())[row] += 1
    parts = [PartitionFile(path) for path in paths]
    loader = RowLoader(parts, 0, leaves.count)
    loader._read_rows = ahead
    runs = sum(len(part.runs(0, 0, leaves.count)) for part in parts)
    found: dict[Any, Counter[Row]] = {}
    while True:
        pieces, key = loader.next_keys(rows)
        if key is not None:
            assert not pieces
            own = passes(loader, key)
            # It was not one of the keys that fit.
            assert own.total() > max(1, rows // runs)
        else:
            own = Counter(unpack_batch(make_batch(pieces, BARCODE_WIDTH)))
            assert own.total() <= max(rows, runs)
        if not own:
            break
        keys = sorted({(order_of(row), row[2]) for row in own})
        assert key is None or len(keys) == 1
        for one in keys:
            assert one not in found
            found[one] = Counter(
                {row: n for row, n in own.items() if (order_of(row), row[2]) == one}
            )
    loader.check_finished()
    assert list(found) == sorted(found)
    assert found == expected
    for part in parts:
        part.close()


def passes(loader: RowLoader, key: Any) -> Counter[Row]:
    """Read the rows of a key three times."""
    marks = loader.marks()
    found = []
    for number in range(3):
        if number:
            loader.rewind(marks)
        rows: Counter[Row] = Counter()
        for piece in loader.pieces_through(key):
            rows.update(unpack_batch(make_batch([piece], BARCODE_WIDTH)))
        found.append(rows)
    assert found[0] == found[1] == found[2]
    return found[0]


def test_rows_read_ahead_of_many_runs(tmp_path: Path) -> None:
    """Of many runs fewer rows are held at a time."""
    leaves = Leaves((0,))
    rows = make_rows(np.random.default_rng(1), [(3, 0)] * 3, [(0, 0, 2)], [2], unknown=0)
    path = write_rows(tmp_path / "a.rows", [rows] * 40, leaves)
    with PartitionFile(path) as part:
        for files, ahead in ((0, 1 << 13), (1, (1 << 17) // 40), (4, 1 << 10)):
            assert RowLoader([part] * files, 0, 1)._read_rows == ahead


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
    made = run_refine(tmp_path / "a.plan", tmp_path)
    meter = run_assemble(made, 0, mates=2, batch_bytes=batch_bytes)
    assert meter.reads == 2400
    expected = read_plan(tmp_path / "a.plan").hash_sums.tolist()
    with BlockFile(made.files[0]["molecules"]) as file:
        assert file.read("hash_sums").tolist() == [expected, [0, 0]]
    assert all(expected)
