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
from umimill.kernels.text import unpack_barcodes
from umimill.statuses import STATUSES

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
    "molecules_all",
    "mean_reads_per_molecule",
    "median_reads_per_molecule",
    "mean_quality",
    "posterior_error",
    "below_filter",
)
BARCODES = (
    "library",
    "sample",
    "families",
    "corrected",
    "corrected_reads",
    "molecules",
    "chimera_suspects",
    "chimera_suspect_reads",
    "unresolved",
    "unresolved_reads",
    "dropped",
    "dropped_reads",
    "shifted",
    "shifted_reads",
    "barcode_length",
    "effective_length",
    "space",
    "occupancy",
    "clonality",
    "error",
    "error_basis",
    "error_census",
    "error_quality",
    "chimera_rate",
    "shift_rate",
    "barcodes",
    "agreement",
)
OUTCOMES = ("library", "sample", "reads_from", "outcome", "families", "reads")
POSTERIORS = (
    "library",
    "sample",
    "posterior_from",
    "posterior_to",
    "families",
    "reads",
    "corrected",
)
CORRECTIONS = (
    "library",
    "sample",
    "reads_from",
    "families",
    "corrected",
    "fraction_corrected",
    "molecules",
    "errors_left",
    "wrong_merges",
)
UMI_ERRORS = (
    "library",
    "sample",
    "parent_reads_from",
    "parents",
    "parent_reads",
    "children",
    "child_reads",
    "error_merged",
    "error_model",
)
FAMILY_SIZES = ("library", "sample", "reads", "families", "molecules")
RANKS = ("library", "sample", "rank", "reads", "share_of_reads")

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
    offsets = np.concatenate([[0], np.cumsum(length)]).astype(np.int32)
    text = np.empty(offsets[-1], np.uint8)
    unpack_barcodes(np.ascontiguousarray(keys), start, length, text)
    return pa.StringArray.from_buffers(keys.size, pa.py_buffer(offsets), pa.py_buffer(text))


def umi_strings(keys: Array, cell_length: Array, umi_length: Array, n_mask: Array) -> Any:
    """Unpack the UMIs of packed keys, with N for bases that were not read.

    Args:
        keys: u64[n], first base in the highest bits.
        cell_length: i64[n], bases before the UMI.
        umi_length: i64[n], at most 32 together.
        n_mask: u32[n], bit i for base i of the key.

    Returns:
        A pyarrow string array of n UMIs.
    """
    umis = barcode_strings(keys, cell_length, umi_length)
    if not n_mask.any():
        return umis
    masks = (n_mask.astype(np.int64) >> cell_length).tolist()
    return pa.array(
        "".join("N" if mask >> place & 1 else base for place, base in enumerate(umi))
        for umi, mask in zip(umis.to_pylist(), masks, strict=True)
    )


def chosen_strings(choices: Sequence[str], chosen: Array) -> Any:
    """Return choices[chosen] as a pyarrow string array.

    Args:
        choices: few strings.
        chosen: integers [n].
    """
    return pa.array(choices, pa.string()).take(pa.array(chosen))


def cell_strings(keys: Array, cell_length: Array) -> Any:
    """Return the cell barcodes of packed keys as a pyarrow string array, null where there is none.

    Args:
        keys: u64[n].
        cell_length: i64[n].
    """
    cell = barcode_strings(keys, np.zeros(keys.size, np.int64), cell_length)
    return pc.if_else(pa.array(cell_length > 0), cell, pa.scalar(None, pa.string()))


def molecule_names(sample: Any, cell: Any, umi: Any, number: Any, several: Array) -> Any:
    """Return the names of molecules, `<sample>[.<cell>].<umi>[.<n>]`, as a pyarrow string array.

    Args:
        sample: pyarrow string array [n].
        cell: the same, null where there is none.
        umi: the same.
        number: pyarrow integer array [n], from 1.
        several: bool[n], whether the barcode has several molecules.
    """
    shown = pc.if_else(pa.array(several), number.cast(pa.string()), pa.scalar(None, pa.string()))
    return pc.binary_join_element_wise(sample, cell, umi, shown, ".", null_handling="skip")


def molecules_table(rows: Array, sample: str, *, paired: bool) -> Any:
    """Make molecules of one sample, MOLECULE[n], into a table of schema MOLECULES."""
    count = rows.size
    cell_length = rows["cell_length"].astype(np.int64)
    umi_length = rows["umi_length"].astype(np.int64)
    umi = barcode_strings(rows["key"], cell_length, umi_length)
    sample_column = chosen_strings([sample], np.zeros(count, np.uint8))
    cell = cell_strings(rows["key"], cell_length)
    number = pa.array(rows["number"].astype(np.int32) + 1)
    names = molecule_names(sample_column, cell, umi, number, rows["several"] == 1)
    below = rows["kept"] == 0
    too_few = below & (rows["status"] == 0)
    called = rows["called"].astype(np.float64)
    return pa.table(
        [
            sample_column,
            cell,
            umi,
            number,
            names,
            chosen_strings(STATUSES, rows["status"]),
            pa.array(rows["reads"].astype(np.int64)),
            pa.array(rows["families"].astype(np.int32)),
            pa.array(rows["length_1"].astype(np.int32)),
            _optional(rows["length_2"].astype(np.int32), paired),
            _mean(rows["quality_sum_1"], rows["length_1"], ~below),
            _mean(rows["quality_sum_2"], rows["length_2"], ~below & paired),
            pa.array(rows["depth_min"].astype(np.int32)),
            pa.array(rows["depth_max"].astype(np.int32)),
            _mean(rows["error_sum"] / FIXED_POINT, called, ~below),
            chosen_strings(("", "below_min_reads"), too_few.astype(np.uint8)),
        ],
        schema=MOLECULES,
    )


def _optional(values: Array, present: bool) -> Any:
    return pa.array(values) if present else pa.nulls(values.size, pa.from_numpy_dtype(values.dtype))


def _mean(total: Array, count: Array, present: Array) -> Any:
    known = present & (count > 0)
    mean = total.astype(np.float64) / np.maximum(count, 1)
    return pa.array(six_digits(mean), mask=~known)


class TableWriter:
    """Writes a Parquet table in row groups of exactly 2^17 rows.

    The bytes of a Parquet file depend on how rows are grouped and on the writer's options: both are
    fixed here.

    Args:
        path: file to write (a temporary name).
        schema: its columns.
        repeated: columns of few values, which are stored as dictionaries.
    """

    def __init__(self, path: Path, schema: Any, repeated: Sequence[str]) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(
            path,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=list(repeated),
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
