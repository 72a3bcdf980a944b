"""UMI-tools' rules for a library: which barcodes are one, by counts and distance alone.

These rules know no payload, so all families of a barcode are one, and those of a group are moved to
the first family of the barcode that leads it. A rule looks at whole components, so the barcodes of
one sample are in memory at a time, and what does not fit is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile
from umimill.errors import UmimillError
from umimill.fates import whole_keys
from umimill.methods import group_rows, neighbour_batches

MEMBER = np.dtype(
    [
        ("key", "<u8"),
        ("reads", "<u4"),
        ("bucket", "<u4"),
        ("sample", "<u2"),
        ("family", "<u2"),
        ("umi_length", "u1"),
        ("cell_length", "u1"),
        ("padding", "u1", (2,)),
    ]
)

# Of a family: itself, and what a rule needs beside it where all barcodes are of one family.
MEMBER_BYTES = 200

Array = npt.NDArray[Any]


def sample_members(tables: Sequence[Path], most_bytes: int | None = None) -> Iterator[Array]:
    """Yield the families of one sample after another, MEMBER[*] in the order of keys.

    Args:
        tables: tables of families, by bucket.
        most_bytes: memory for a sample's; None is no limit.

    Raises:
        UmimillError: where a sample has more.
    """
    held: list[Array] = []
    rows = 0
    for bucket, path in enumerate(tables):
        with BlockFile(path) as file:
            for _, families in whole_keys(file):
                members = np.zeros(families.size, MEMBER)
                for name in ("key", "reads", "sample", "family", "umi_length", "cell_length"):
                    members[name] = families[name]
                members["bucket"] = bucket
                ends = np.flatnonzero(np.diff(members["sample"])) + 1
                for part in np.split(members, ends):
                    if held and held[0]["sample"][0] != part["sample"][0]:
                        whole, held, rows = np.concatenate(held), [], 0
                        yield whole
                    held.append(part)
                    rows += part.size
                    if most_bytes is not None and rows * MEMBER_BYTES > most_bytes:
                        raise _too_many(rows, most_bytes)
    if held:
        whole, held = np.concatenate(held), []
        yield whole


def _too_many(rows: int, most_bytes: int) -> UmimillError:
    return UmimillError(
        f"settle: a sample has {rows:,} families or more, and the rules of UMI-tools hold all of a "
        f"sample at once, for which the job has {most_bytes / 1e6:,.0f} MB; raise mem_mb with "
        "--set-resources settle:mem_mb=..., by 250 for a million families, or set "
        "refine_method: posterior"
    )


def group_members(members: Array, method: str) -> Array:
    """Group the barcodes of a sample.

    Args:
        members: MEMBER[n] in the order of keys.
        method: one of methods.METHODS.

    Returns:
        i64[n], the member that leads each one's group: the first family of its barcode; -1 where
        the rule drops the barcode.
    """
    names = ("key", "umi_length", "cell_length")
    new = np.ones(members.size, bool)
    new[1:] = np.logical_or.reduce([members[name][1:] != members[name][:-1] for name in names])
    starts = np.flatnonzero(new)
    reads = np.add.reduceat(members["reads"].astype(np.int64), starts)
    counts = np.minimum(reads, 2**32 - 1).astype(np.uint32)
    leaders = np.empty(starts.size, np.int64)
    first = members[starts]
    lengths = first["umi_length"].astype(np.int64) * 64 + first["cell_length"]
    for both in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == both)
        for own in _cells(first[rows], both % 64, rows):
            found = _group(first[own], counts[own], both // 64, both % 64, method)
            leaders[own] = np.where(found >= 0, own[found], -1)
    groups = leaders[np.cumsum(new) - 1]
    return np.where(groups >= 0, starts[groups], -1)


def _cells(first: Array, cell_length: int, rows: Array) -> list[Array]:
    """Split barcodes by their cells: a rule is applied to each by itself."""
    if not cell_length:
        return [rows]
    cells = first["key"] >> np.uint64(64 - 2 * cell_length)
    return np.split(rows, np.flatnonzero(np.diff(cells)) + 1)


def _group(first: Array, counts: Array, umi: int, cell: int, method: str) -> Array:
    length = umi + cell
    keys = first["key"] >> np.uint64(64 - 2 * length)
    return group_rows(method, counts, neighbour_batches(keys, length, bases=(cell, length)))
