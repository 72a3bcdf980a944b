"""Schemas of the tables that a run writes, in one place; config/README.md explains each column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from umimill.files import whole_file

MOLECULES_VERSION = "1"
ROW_GROUP_ROWS = 1 << 17
FIXED_POINT = float(1 << 40)

MOLECULES = pa.schema(
    [
        pa.field("sample", pa.string(), nullable=False),
        pa.field("cell", pa.string()),
        pa.field("umi", pa.string(), nullable=False),
        pa.field("n", pa.int32(), nullable=False),
        pa.field("molecule_id", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("reads", pa.int64(), nullable=False),
        pa.field("families", pa.int32(), nullable=False),
        pa.field("length_1", pa.int32(), nullable=False),
        pa.field("length_2", pa.int32()),
        pa.field("mean_quality_1", pa.float64()),
        pa.field("mean_quality_2", pa.float64()),
        pa.field("depth_min", pa.int32(), nullable=False),
        pa.field("depth_max", pa.int32(), nullable=False),
        pa.field("posterior_error", pa.float64()),
        pa.field("flags", pa.string(), nullable=False),
    ],
    metadata={"umimill.table": "molecules", "umimill.schema": MOLECULES_VERSION},
)

SIZES = ("family_size", "count", "fraction", "fraction_gt_or_eq_family_size")
LEDGER = ("stage", "library", "sample", "line", "templates")
SAMPLE_SIZES = ("library", "sample", "family_size", "count")
SAMPLES = (
    "library",
    "sample",
    "reads",
    "molecules",
    "mean_reads_per_molecule",
    "median_reads_per_molecule",
    "mean_quality",
    "posterior_error",
    "below_filter",
)

Array = npt.NDArray[Any]


def write_tsv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table, whole or not at all; numbers with six significant digits at most."""
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write("\t".join(columns) + "\n")
        for row in rows:
            file.write("\t".join(_cell(value) for value in row) + "\n")


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def six_digits(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Round numbers in [0, 10^9) to six significant digits; below 10^-16 to 0.

    By exact powers of ten and divisions alone, which every machine rounds alike; a logarithm would
    not do.
    """
    powers = np.array([float(f"1e{exponent}") for exponent in range(-16, 10)])
    # exponent of the first digit, from -17 (for zero) on
    exponent = np.searchsorted(powers, values, side="right") - 17
    digits = 5 - exponent
    scale = np.array([float(f"1e{power}") for power in range(23)])
    up, down = scale[np.clip(digits, 0, 22)], scale[np.clip(-digits, 0, 22)]
    rounded: npt.NDArray[np.float64] = np.rint(values * up / down) * down / up
    return rounded


def barcode_strings(keys: Array, start: Array, length: Array) -> Any:
    """Unpack bases [start, start + length) of packed keys.

    Args:
        keys: u64[n], first base in the highest bits.
        start: i64[n].
        length: i64[n], at most 32.

    Returns:
        A pyarrow string array of n barcodes.
    """
    count = keys.size
    offsets = np.concatenate([[0], np.cumsum(length)]).astype(np.int32)
    widest = int(length.max(initial=0))
    places = start[:, None] + np.arange(widest)[None, :]
    shifts = np.clip(62 - 2 * places, 0, 62).astype(np.uint64)
    codes = ((keys[:, None] >> shifts) & np.uint64(3)).astype(np.intp)
    letters = np.frombuffer(b"ACGT", np.uint8)[codes]
    data = letters[np.arange(widest)[None, :] < length[:, None]]
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))


def molecules_table(rows: Array, sample: str, *, paired: bool, minimum_reads: int) -> Any:
    """Make molecules of one sample, MOLECULE[n], into a table of schema MOLECULES."""
    count = rows.size
    cell_length = rows["cell_length"].astype(np.int64)
    umi_length = rows["umi_length"].astype(np.int64)
    umi = barcode_strings(rows["key"], cell_length, umi_length)
    sample_column = pa.array([sample] * count, pa.string())
    parts = [sample_column, umi]
    cell = pa.nulls(count, pa.string())
    if count and cell_length.any():
        cell = barcode_strings(rows["key"], np.zeros(count, np.int64), cell_length)
        parts.insert(1, cell)
    names = pc.binary_join_element_wise(*parts, ".") if count else pa.array([], pa.string())
    below = rows["reads"] < minimum_reads
    flags = np.where(below, "below_min_reads", "").tolist()
    called = rows["called"].astype(np.float64)
    return pa.table(
        [
            sample_column,
            cell,
            umi,
            pa.array(np.ones(count, np.int32)),
            names,
            pa.array(["molecule"] * count, pa.string()),
            pa.array(rows["reads"].astype(np.int64)),
            pa.array(np.ones(count, np.int32)),
            pa.array(rows["length_1"].astype(np.int32)),
            _optional(rows["length_2"].astype(np.int32), paired),
            _mean(rows["quality_sum_1"], rows["length_1"], ~below),
            _mean(rows["quality_sum_2"], rows["length_2"], ~below & paired),
            pa.array(rows["depth_min"].astype(np.int32)),
            pa.array(rows["depth_max"].astype(np.int32)),
            _mean(rows["error_sum"] / FIXED_POINT, called, ~below),
            pa.array(flags, pa.string()),
        ],
        schema=MOLECULES,
    )


def _optional(values: Array, present: bool) -> Any:
    return pa.array(values) if present else pa.nulls(values.size, pa.from_numpy_dtype(values.dtype))


def _mean(total: Array, count: Array, present: Array) -> Any:
    known = present & (count > 0)
    mean = total.astype(np.float64) / np.maximum(count, 1)
    return pa.array(six_digits(mean), mask=~known)


class MoleculesWriter:
    """Writes molecules.parquet in row groups of exactly 2^17 rows.

    The bytes of a Parquet file depend on how rows are grouped and on the writer's options: both are
    fixed here.

    Args:
        path: file to write (a temporary name).
    """

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(
            path,
            MOLECULES,
            compression="zstd",
            compression_level=1,
            use_dictionary=["sample", "status", "flags"],
            version="2.6",
            write_statistics=True,
            data_page_version="1.0",
        )
        self._pending: list[Any] = []
        self._count = 0

    def add(self, table: Any) -> None:
        """Take rows."""
        self._pending.append(table)
        self._count += table.num_rows
        while self._count >= ROW_GROUP_ROWS:
            whole = pa.concat_tables(self._pending).combine_chunks()
            self._write(whole.slice(0, ROW_GROUP_ROWS))
            self._pending = [whole.slice(ROW_GROUP_ROWS)]
            self._count = self._pending[0].num_rows

    def _write(self, table: Any) -> None:
        self._writer.write_table(table.combine_chunks(), row_group_size=ROW_GROUP_ROWS)

    def close(self) -> None:
        """Write what is left and close the file."""
        if self._count:
            self._write(pa.concat_tables(self._pending))
        self._writer.close()
