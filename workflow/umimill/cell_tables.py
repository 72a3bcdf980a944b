"""Tables of a sample's cells: each cell, which are called, the curve of ranks, what is in the rest.

Cells are added up from families in the order of keys, twice: once for the number of molecules that
a cell needs, once to write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from umimill import tables
from umimill.cell_calls import Call, count_sizes, make_calls, rank_curve
from umimill.family_tables import family_pieces
from umimill.fates import FATE
from umimill.files import whole_file
from umimill.kernels.cell_tables import BELOW, CALLED, SIZE_BINS, Profile, sum_cells
from umimill.tally import FAMILY

CELLS_VERSION = "1"
CELL = np.dtype(
    [
        ("cell", "<u8"),
        ("reads", "<u8"),
        ("molecules", "<i8"),
        ("families", "<i8"),
        ("length", "<i8"),
    ]
)
CELLS = pa.schema(
    [
        pa.field("sample", pa.string(), nullable=False),
        pa.field("cell", pa.string(), nullable=False),
        pa.field("reads", pa.int64(), nullable=False),
        pa.field("molecules", pa.int64(), nullable=False),
        pa.field("families", pa.int64(), nullable=False),
        pa.field("called_ordmag", pa.bool_(), nullable=False),
        pa.field("called_knee", pa.bool_(), nullable=False),
    ],
    metadata={"umimill.table": "cells", "umimill.schema": CELLS_VERSION},
)
CELL_CALLS = ("sample", "method", "least_molecules", "cells", "molecules", "molecules_share")
CELL_RANKS = ("sample", "rank", "molecules")
CELL_PROFILE = ("sample", "measure", "place", "value", "called", "below")

Array = npt.NDArray[Any]


def write_cells(entry: Mapping[str, Any], home: Path) -> None:
    """Write the tables of a sample's cells.

    Args:
        entry: the sample in the index of its library.
        home: folder of the sample.
    """
    sample = entry["sample"]
    profile = new_profile(2)
    # Nothing is called yet.
    counts = count_sizes(cells["molecules"] for cells in _cells(entry, 0, profile))
    calls = make_calls(counts)
    ordmag, knee = (np.iinfo(np.int64).max if call.least is None else call.least for call in calls)
    profile = new_profile(2)
    with whole_file(home / f"{sample}.cells.parquet") as temporary:
        writer = tables.TableWriter(temporary, CELLS, ["sample"])
        for cells in _cells(entry, ordmag, profile):
            writer.add(cells_table(cells, sample, ordmag, knee))
        writer.close()
    total = sum(size * cells for size, cells in counts.items())
    tables.write_tsv(
        home / f"{sample}.cell_calls.tsv",
        CELL_CALLS,
        [
            (sample, "all", "", sum(counts.values()), total, 1.0 if total else 0.0),
            *((sample, *call_row(call, total)) for call in calls),
        ],
    )
    tables.write_tsv(
        home / f"{sample}.cell_ranks.tsv",
        CELL_RANKS,
        ((sample, *point) for point in rank_curve(sorted(counts.items()))),
    )
    tables.write_tsv(
        home / f"{sample}.cell_profile.tsv",
        CELL_PROFILE,
        ((sample, *row) for row in profile_rows(profile)),
    )


def _cells(entry: Mapping[str, Any], least: int, profile: Profile) -> Iterator[Array]:
    """Yield the cells of a sample in order, CELL[*]; add their molecules to the profile."""
    one = new_profile(1)
    opened = np.zeros(1, CELL)
    end = (np.empty(0, FAMILY), np.empty(0, FATE))
    pieces = ((families, fates) for families, fates, _ in family_pieces(entry))
    for families, fates in chain(pieces, [end]):
        cells = np.zeros(families.size + 2, CELL)
        cells[0] = opened[0]
        count = sum_cells(families, fates, least, cells, one, profile)
        opened = cells[count : count + 1].copy()
        yield cells[:count]


def new_profile(groups: int) -> Profile:
    """Return a profile of nothing."""
    return Profile(
        np.zeros((groups, 32, 4), np.int64),
        np.zeros((groups, 32, 4), np.int64),
        np.zeros((groups, SIZE_BINS), np.int64),
    )


def cells_table(cells: Array, sample: str, ordmag: int, knee: int) -> Any:
    """Make cells of one sample into a table of schema CELLS.

    Args:
        cells: CELL[n].
        sample: name of the sample.
        ordmag: molecules that a cell called by OrdMag has at least.
        knee: the same by the knee.
    """
    count = cells.size
    return pa.table(
        [
            tables.chosen_strings([sample], np.zeros(count, np.uint8)),
            tables.barcode_strings(
                np.ascontiguousarray(cells["cell"]),
                np.zeros(count, np.int64),
                np.ascontiguousarray(cells["length"]),
            ),
            pa.array(cells["reads"].astype(np.int64)),
            pa.array(cells["molecules"]),
            pa.array(cells["families"]),
            pa.array(cells["molecules"] >= ordmag),
            pa.array(cells["molecules"] >= knee),
        ],
        schema=CELLS,
    )


def call_row(call: Call, total: int) -> tuple[Any, ...]:
    """Return the columns of a call behind the sample."""
    least = "" if call.least is None else call.least
    share = call.molecules / total if total else 0.0
    return call.method, least, call.cells, call.molecules, share


def profile_rows(profile: Profile) -> Iterator[tuple[Any, ...]]:
    """Yield what stands in cells called by OrdMag and in the rest, where there is anything."""
    for measure, counts in (("umi_base", profile.umi), ("payload_base", profile.draft)):
        for place in np.flatnonzero(counts.sum(axis=(0, 2))).tolist():
            for base, letter in enumerate("ACGT"):
                own = counts[:, place, base].tolist()
                yield measure, place + 1, letter, own[CALLED], own[BELOW]
    for size in np.flatnonzero(profile.sizes.sum(axis=0)).tolist():
        own = profile.sizes[:, size].tolist()
        yield "molecules_of_reads", 1 << size, "", own[CALLED], own[BELOW]
