"""families.parquet: every barcode that was read, what it was taken for, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from umimill import tables
from umimill.blockfile import BlockFile
from umimill.edge_numbers import SCORE_UNITS, differing_bases, posteriors
from umimill.files import whole_file
from umimill.kernels.tally import OVERFULL
from umimill.statuses import STATUSES

FAMILIES_VERSION = "1"
READ_FAMILIES = 1 << 15

FAMILIES = pa.schema(
    [
        pa.field("sample", pa.string(), nullable=False),
        pa.field("cell", pa.string()),
        pa.field("umi", pa.string(), nullable=False),
        pa.field("family", pa.int32(), nullable=False),
        pa.field("reads", pa.int64(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("molecule_umi", pa.string(), nullable=False),
        pa.field("molecule_family", pa.int32(), nullable=False),
        pa.field("molecule_reads", pa.int64()),
        pa.field("molecule_families", pa.int32()),
        pa.field("parent_umi", pa.string()),
        pa.field("parent_family", pa.int32()),
        pa.field("parent_reads", pa.int64()),
        pa.field("distance", pa.int32()),
        pa.field("posterior", pa.float64()),
        pa.field("ln_error", pa.float64()),
        pa.field("ln_independent", pa.float64()),
        pa.field("ln_payload", pa.float64()),
        pa.field("flags", pa.string(), nullable=False),
    ],
    metadata={"umimill.table": "families", "umimill.schema": FAMILIES_VERSION},
)

Array = npt.NDArray[Any]


def families_table(families: Array, fates: Array, edges: Array, sample: str) -> Any:
    """Make families of one sample into a table of schema FAMILIES.

    Args:
        families: FAMILY[n].
        fates: FATE[n].
        edges: EDGE[n].
        sample: name of the sample.
    """
    count = families.size
    cell_length = families["cell_length"].astype(np.int64)
    umi_length = families["umi_length"].astype(np.int64)
    zeros = np.zeros(count, np.int64)
    cell = pa.nulls(count, pa.string())
    if cell_length.any():
        cell = tables.barcode_strings(families["key"], zeros, cell_length)
    moved = fates["moved"] == 1
    status = np.where(moved, len(STATUSES), fates["status"])
    orphan = edges["parent_reads"] == 0

    def umi(keys: Array) -> Any:
        return tables.barcode_strings(keys, cell_length, umi_length)

    def of_parent(values: Array, kind: Any) -> Any:
        return pa.array(values.astype(kind), mask=orphan)

    parent = umi(edges["parent_key"])
    parent = pc.if_else(pa.array(orphan), pa.scalar(None, pa.string()), parent)
    return pa.table(
        [
            tables.chosen_strings([sample], np.zeros(count, np.uint8)),
            cell,
            umi(families["key"]),
            pa.array(families["family"].astype(np.int32) + 1),
            pa.array(families["reads"].astype(np.int64)),
            tables.chosen_strings((*STATUSES, "corrected"), status),
            umi(fates["root_key"]),
            pa.array(fates["root_family"].astype(np.int32) + 1),
            pa.array(fates["reads"].astype(np.int64), mask=moved),
            pa.array(fates["families"].astype(np.int32), mask=moved),
            parent,
            of_parent(edges["parent_family"].astype(np.int32) + 1, np.int32),
            of_parent(edges["parent_reads"], np.int64),
            of_parent(differing_bases(families["key"], edges["parent_key"]), np.int32),
            pa.array(tables.six_digits(posteriors(edges["score"].astype(np.int64))), mask=orphan),
            of_parent(edges["ln_error"] / SCORE_UNITS, np.float64),
            of_parent(edges["ln_independent"] / SCORE_UNITS, np.float64),
            of_parent(edges["payload"] / SCORE_UNITS, np.float64),
            tables.chosen_strings(("", "overfull"), families["flags"] & OVERFULL),
        ],
        schema=FAMILIES,
    )


def partials_table(fates: Array, sample: str) -> Any:
    """Make barcodes of one sample that were not fully read into a table of schema FAMILIES.

    Args:
        fates: PARTIAL_FATE[n].
        sample: name of the sample.
    """
    count = fates.size
    cell_length = fates["cell_length"].astype(np.int64)
    umi_length = fates["umi_length"].astype(np.int64)
    cell = tables.cell_strings(fates["key"], cell_length)
    umi = tables.umi_strings(fates["key"], cell_length, umi_length, fates["n_mask"])
    root = tables.barcode_strings(fates["root_key"], cell_length, umi_length - fates["shift"])
    left = fates["placed"] == 0
    family = fates["root_family"].astype(np.int32) + 1

    def of_parent(values: Array, kind: Any) -> Any:
        return pa.array(values.astype(kind), mask=left)

    return pa.table(
        [
            pa.array([sample] * count, pa.string()),
            cell,
            umi,
            pa.array(np.zeros(count, np.int32)),
            pa.array(fates["reads"].astype(np.int64)),
            tables.chosen_strings(("unresolved", "placed"), fates["placed"]),
            pc.if_else(pa.array(left), umi, root),
            pa.array(np.where(left, 0, family).astype(np.int32)),
            pa.nulls(count, pa.int64()),
            pa.nulls(count, pa.int32()),
            pc.if_else(pa.array(left), pa.scalar(None, pa.string()), root),
            of_parent(family, np.int32),
            of_parent(fates["parent_reads"], np.int64),
            of_parent(np.abs(fates["shift"]), np.int32),
            pa.array(posteriors(fates["score"].astype(np.int64)), mask=left),
            of_parent(fates["ln_error"] / SCORE_UNITS, np.float64),
            of_parent(fates["ln_independent"] / SCORE_UNITS, np.float64),
            of_parent(fates["payload"] / SCORE_UNITS, np.float64),
            tables.chosen_strings(
                ("base_lost", "unknown_base", "base_gained"), fates["shift"].astype(np.int64) + 1
            ),
        ],
        schema=FAMILIES,
    )


def family_pieces(entry: Mapping[str, Any]) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the families of a sample in order with their fates and edges.

    Args:
        entry: the sample in the index of its library.
    """
    for families, fates, start, stop in entry["families"]:
        with BlockFile(Path(families)) as family_file, BlockFile(Path(fates)) as fate_file:
            for at in range(start, stop, READ_FAMILIES):
                end = min(at + READ_FAMILIES, stop)
                yield (
                    family_file.read("families", at, end),
                    fate_file.read("fates", at, end),
                    fate_file.read("edges", at, end),
                )


def write_families(entry: Mapping[str, Any], path: Path) -> None:
    """Write families.parquet of a sample.

    Args:
        entry: the sample in the index of its library.
        path: file to write.
    """
    with whole_file(path) as temporary:
        writer = tables.TableWriter(temporary, FAMILIES, ["sample", "status", "flags"])
        for families, fates, edges in family_pieces(entry):
            writer.add(families_table(families, fates, edges, entry["sample"]))
        for path_name, start, stop in entry["partials"]:
            with BlockFile(Path(path_name)) as file:
                for at in range(start, stop, READ_FAMILIES):
                    some = file.read("partials", at, min(at + READ_FAMILIES, stop))
                    writer.add(partials_table(some, entry["sample"]))
        writer.close()
