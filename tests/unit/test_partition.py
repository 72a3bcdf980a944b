"""Partition files: what goes in comes out, and damage is noticed."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from row_fixture import (
    BARCODE_WIDTH,
    MASK,
    cases,
    leaf_of,
    make_rows,
    met_levels,
    order_of,
    row_hash,
    stage,
    write_rows,
)
from stage_fixture import Row, all_rows, files_below, partition_rows, slow_settings
from umimill.blockfile import BlockFile, BlockWriter
from umimill.errors import UmimillError
from umimill.partition import HOT, Leaves, PartitionFile
from umimill.partition_writer import PartitionWriter


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("partition")


@slow_settings(70)
@given(case=cases())
def test_rows_come_back_sorted(folder: Path, case: tuple[list[list[Row]], Leaves]) -> None:
    flushes, leaves = case
    path = write_rows(folder / "a.rows", flushes, leaves)
    written = [rows for rows in flushes if rows]
    found = partition_rows(path)
    # Rows of one key keep their order.
    assert found == [sorted(rows, key=order_of) for rows in written]
    everything = [row for rows in written for row in rows]
    with PartitionFile(path) as part:
        rows, bases, hashes = (total.tolist() for total in part.sample_totals())
        leaf_rows, leaf_bytes = part.leaf_totals()
        levels = [met_levels(rows) for rows in written]
        bits = [2 if len(met) <= 4 else 8 for met in levels]
        assert part.flushes["quality_bits"].tolist() == bits
    for sample in range(len(leaves.widths)):
        own = [row for row in everything if row[0] == sample]
        assert rows[sample] == len(own)
        assert bases[sample] == sum(len(text) for row in own for text, _ in row[7])
        assert hashes[sample] & MASK == MASK & sum(
            row_hash(row, met)
            for flush, met in zip(written, levels, strict=True)
            for row in flush
            if row[0] == sample
        )
    counts = Counter(leaf_of(row, leaves) for row in everything)
    assert leaf_rows.tolist() == [counts[leaf] for leaf in range(leaves.count)]
    assert leaf_bytes.sum() == sum(
        (HOT.itemsize + BARCODE_WIDTH) * entry["rows"] + 8 * entry["cold_words"]
        for entry in BlockFile(path).read("flushes")
    )


def test_many_rows_are_encoded_in_steps(tmp_path: Path) -> None:
    """More rows than are encoded at once give one flush that reads as one."""
    rng = np.random.default_rng(7)
    lengths = [(int(length), 0) for length in rng.integers(0, 9, 20_000)]
    rows = make_rows(rng, lengths, [(0, 2, 3), (1, 0, 9)], [2, 12, 23, 37], unknown=0.01, umis=500)
    path = write_rows(tmp_path / "a.rows", [rows], Leaves((2, 4)))
    assert all_rows([path]) == Counter(rows)


def test_leaves() -> None:
    leaves = Leaves((2, 0, 4))
    assert leaves.bases.tolist() == [0, 16, 17, 273]
    assert leaves.shifts.tolist() == [60, 64, 56]
    assert leaves.count == 273


# -- damage ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(folder: Path) -> bytes:
    rng = np.random.default_rng(8)
    barcodes = [(0, 0, 3), (1, 0, 1)]
    flushes = [
        make_rows(rng, [(9, 4), (40, 0), (0, 3)], barcodes, [2, 37], unknown=0.1),
        make_rows(rng, [(9, 4), (70, 1)], barcodes, range(94), unknown=0.0),
    ]
    return write_rows(folder / "small.rows", flushes, Leaves((1, 0))).read_bytes()


def test_flipped_byte_is_noticed(tmp_path: Path, small: bytes) -> None:
    path = tmp_path / "small.rows"
    for place in range(len(small)):
        flipped = bytearray(small)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(UmimillError, match=r"small\.rows: .* damaged; delete it and run again"):
            partition_rows(path)


def test_file_cut_at_any_byte_is_refused(tmp_path: Path, small: bytes) -> None:
    path = tmp_path / "small.rows"
    for stop in range(len(small)):
        path.write_bytes(small[:stop])
        with pytest.raises(UmimillError, match=r"small\.rows: its end is missing or damaged"):
            PartitionFile(path)


def test_another_file_or_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.rows"
    for header in ({}, {"partition_version": 2}):
        with BlockWriter(path) as writer:
            writer.add("flushes", np.zeros(0, np.uint8))
            writer.finish(header)
        with pytest.raises(UmimillError, match=r"other\.rows: partition file of another version"):
            PartitionFile(path)


def test_error_while_writing_leaves_nothing(tmp_path: Path) -> None:
    rows = make_rows(np.random.default_rng(9), [(5, 0)], [(0, 0, 4)], [30], unknown=0.0)
    with (  # noqa: PT012
        pytest.raises(RuntimeError),
        PartitionWriter(tmp_path / "a.rows", Leaves((2,)), BARCODE_WIDTH) as writer,
    ):
        writer.flush(stage(rows))
        raise RuntimeError
    assert not files_below(tmp_path)
