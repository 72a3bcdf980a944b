"""Tables of gather: molecules.parquet, whatever the fragments, and small ones."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_fixture import files_below, key_text, slow_settings
from umimill import tables
from umimill.blockfile import BlockWriter
from umimill.cells import MOLECULE
from umimill.gather import write_molecules, write_sizes

Array = npt.NDArray[Any]
GROUP = 1 << 17


def made_molecules(count: int) -> Array:
    """Make molecules of one sample in key order, with and without enough reads."""
    rng = np.random.default_rng(3)
    rows = np.zeros(count, MOLECULE)
    keys = np.sort(rng.choice(1 << 24, count, replace=False))
    rows["key"] = keys.astype(np.uint64) << np.uint64(40)
    rows["umi_length"], rows["cell_length"] = 9, 3
    rows["reads"] = rng.geometric(0.3, count)
    rows["length_1"] = rng.integers(0, 150, count)
    rows["called"] = rows["length_1"] // 2
    rows["quality_sum_1"] = rows["length_1"] * rng.integers(2, 40, count).astype(np.uint64)
    rows["error_sum"] = rng.integers(0, 1 << 50, count)
    rows["depth_max"] = rows["reads"]
    rows["families"] = 1
    rows["kept"] = rows["reads"] >= 3
    return rows


def write_pieces(rows: Array, bounds: Sequence[int], folder: Path) -> Path:
    pieces = []
    for number, (start, stop) in enumerate(pairwise(bounds)):
        path = folder / f"{number}.molecules"
        with BlockWriter(path) as writer:
            writer.add("molecules", np.concatenate([np.zeros(5, MOLECULE), rows[start:stop]]))
            writer.finish({})
        pieces.append((str(path), 5, 5 + stop - start))
    output = folder / "S1.molecules.parquet"
    entry: Mapping[str, Any] = {"sample": "S1", "molecules": pieces}
    records = write_molecules(entry, output, paired=False)
    assert records == (rows["reads"] >= 3).sum()
    return output


def test_row_groups_do_not_depend_on_fragments(tmp_path: Path) -> None:
    rows = made_molecules(300_000)
    written = []
    for number, bounds in enumerate(
        [[0, 300_000], [0, 1, 100, 130_000, GROUP, GROUP + 1, 299_999, 300_000]]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = write_pieces(rows, bounds, folder)
        written.append(path.read_bytes())
    assert written[0] == written[1]
    file = pq.ParquetFile(path)
    groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    assert groups == [GROUP, GROUP, 300_000 - 2 * GROUP]
    assert file.schema_arrow.equals(tables.MOLECULES, check_metadata=False)
    assert file.schema_arrow.metadata[b"umimill.schema"] == b"1"
    table = file.read()
    assert table["reads"].to_pylist() == rows["reads"].tolist()
    assert table["umi"].to_pylist()[::9999] == [
        key_text(key, 12)[3:] for key in rows["key"][::9999].tolist()
    ]


@pytest.mark.parametrize("count", [0, 1, GROUP])
def test_no_empty_row_group_at_the_end(tmp_path: Path, count: int) -> None:
    file = pq.ParquetFile(write_pieces(made_molecules(count), [0, count], tmp_path))
    assert file.num_row_groups == min(1, count)
    assert file.metadata.num_rows == count


def test_means_have_six_digits(tmp_path: Path) -> None:
    rows = made_molecules(200)
    table = pq.read_table(write_pieces(rows, [0, 90, 200], tmp_path)).to_pylist()
    for row, found in zip(rows, table, strict=True):
        length, called = int(row["length_1"]), int(row["called"])
        enough = row["reads"] >= 3
        mean = float(f"{int(row['quality_sum_1']) / length:.6g}") if enough and length else None
        assert found["mean_quality_1"] == mean
        error = int(row["error_sum"]) / 2**40 / called if enough and called else None
        assert found["posterior_error"] == (error and float(f"{error:.6g}"))
        assert found["mean_quality_2"] is None


@slow_settings(100)
@given(
    st.lists(
        st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 32), st.integers(0, 32)).filter(
            lambda one: one[1] + one[2] <= 32
        ),
        max_size=8,
    )
)
def test_barcodes_as_text(found: list[tuple[int, int, int]]) -> None:
    keys = np.array([key for key, _, _ in found], np.uint64)
    starts, lengths = (np.array([one[place] for one in found], np.int64) for place in (1, 2))
    strings = tables.barcode_strings(keys, starts, lengths)
    strings.validate(full=True)
    assert strings.type == pa.string()
    assert strings.to_pylist() == [
        key_text(key, 32)[start : start + length] for key, start, length in found
    ]


@slow_settings(200)
@given(
    st.lists(st.floats(1e-15, 9e8) | st.sampled_from([0.0, 1.0, 40.0, 0.1, 12.03125]), max_size=9)
)
def test_six_digits(values: list[float]) -> None:
    found = tables.six_digits(np.array(values, np.float64))
    for value, rounded in zip(values, found.tolist(), strict=True):
        assert rounded == pytest.approx(float(f"{value:.6g}"), rel=1e-5)
        assert abs(rounded - value) <= 5.001e-6 * value
        assert rounded == float(f"{rounded:.6g}"), "no digit more"


@slow_settings(100)
@given(st.dictionaries(st.integers(1, 10**6), st.integers(1, 10**9), max_size=30))
def test_fractions_sum_to_one(
    tmp_path_factory: pytest.TempPathFactory, sizes: dict[int, int]
) -> None:
    path = tmp_path_factory.mktemp("sizes") / "a.tsv"
    write_sizes(path, sorted(sizes.items()))
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    assert {int(size): int(count) for size, count, _, _ in rows} == sizes
    if rows:
        assert sum(float(row[2]) for row in rows) == pytest.approx(1, abs=1e-5)
        assert float(rows[0][3]) == 1


def test_tsv_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    tables.write_tsv(path, ("a", "b"), [(1, 1 / 3), ("x", 1234567.0), (10**15, 2e-9)])
    assert path.read_text() == "a\tb\n1\t0.333333\nx\t1.23457e+06\n1000000000000000\t2e-09\n"
    with pytest.raises(ZeroDivisionError):
        tables.write_tsv(path, ("a",), ((1 / number,) for number in (1, 0)))
    assert files_below(tmp_path) == ["a.tsv"]
