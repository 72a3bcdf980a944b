"""plan: cut the leaves of a library into output groups and the groups into n buckets.

Groups depend on the data alone: a run of leaves of one sample that holds about 2,000 rows or more.
Buckets are contiguous runs of groups of near-equal bytes, so their number moves no byte of a
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile, BlockWriter
from umimill.errors import UmimillError
from umimill.metrics import Meter
from umimill.partition import Leaves, PartitionFile

# BGZF blocks end with a group: groups of 300 molecules cost 118% more bytes, of 2,000 rows 1-2%.
GROUP_ROWS = 2000

GROUP = np.dtype(
    [
        ("sample", "<i8"),
        ("leaf_start", "<i8"),
        ("leaf_stop", "<i8"),
        ("rows", "<i8"),
        ("bytes", "<i8"),
    ]
)


@dataclass(frozen=True)
class Plan:
    """A plan as later stages read it.

    Attributes:
        partitions: partition files, by unit and part.
        samples: samples in order.
        leaves: leaves of the library.
        groups: GROUP[*], in order.
        bounds: i64[n + 1], bucket i has groups [bounds[i], bounds[i + 1]).
        rows: i64[S], rows of each sample.
        bases: i64[S], payload bases of each sample.
        hash_sums: u64[S], sums of row hashes.
        tile: u8[S], 1 where the reads of a molecule start anywhere, so that payloads say nothing.
        partials: partition files of rows whose barcode was not fully read.
        partial_rows: i64[S], rows of each sample in them.
        partial_hash_sums: u64[S], sums of their hashes.
    """

    partitions: tuple[Path, ...]
    samples: tuple[str, ...]
    leaves: Leaves
    groups: npt.NDArray[Any]
    bounds: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    bases: npt.NDArray[np.int64]
    hash_sums: npt.NDArray[np.uint64]
    tile: npt.NDArray[np.uint8]
    partials: tuple[Path, ...]
    partial_rows: npt.NDArray[np.int64]
    partial_hash_sums: npt.NDArray[np.uint64]

    def bucket_groups(self, bucket: int) -> npt.NDArray[Any]:
        """Return the groups of a bucket, GROUP[*]."""
        return self.groups[self.bounds[bucket] : self.bounds[bucket + 1]]

    def bucket_leaves(self, bucket: int) -> tuple[int, int]:
        """Return the leaves [start, stop) of a bucket; (0, 0) where it has none."""
        groups = self.bucket_groups(bucket)
        if not groups.size:
            return 0, 0
        return int(groups[0]["leaf_start"]), int(groups[-1]["leaf_stop"])

    def leaves_of(
        self, samples: npt.NDArray[np.uint16], keys: npt.NDArray[np.uint64]
    ) -> npt.NDArray[np.int64]:
        """Return the leaf of each key, i64[n].

        Args:
            samples: u16[n].
            keys: u64[n].
        """
        shifts = self.leaves.shifts[samples]
        # A shift by 64 is undefined; a sample of one leaf has width 0.
        wide = shifts < 64
        leaf = np.where(wide, keys >> np.where(wide, shifts, np.uint64(0)), np.uint64(0))
        return leaf.astype(np.int64) + self.leaves.bases[samples]


def group_width(rows: int, leaves: int) -> int:
    """Return how many leaves of a sample make a group: a power of two, all of them at most."""
    width = 1
    while width < leaves and rows * width < GROUP_ROWS * leaves:
        width *= 2
    return width


def make_groups(leaf_rows: Any, leaf_bytes: Any, leaves: Leaves) -> npt.NDArray[Any]:
    """Cut the leaves of each sample into groups; return GROUP[*]."""
    groups = []
    bases = leaves.bases
    for sample in range(len(leaves.widths)):
        start, stop = int(bases[sample]), int(bases[sample + 1])
        width = group_width(int(leaf_rows[start:stop].sum()), stop - start)
        for leaf in range(start, stop, width):
            span = slice(leaf, leaf + width)
            groups.append(
                (sample, leaf, leaf + width, leaf_rows[span].sum(), leaf_bytes[span].sum())
            )
    return np.array(groups, GROUP)


def make_bounds(cost: npt.NDArray[np.int64], buckets: int) -> npt.NDArray[np.int64]:
    """Cut groups into contiguous buckets of near-equal cost; return i64[buckets + 1]."""
    total = int(cost.sum())
    behind = np.concatenate([[0], np.cumsum(cost)])
    targets = np.array([total * bucket // buckets for bucket in range(1, buckets)], np.int64)
    above = np.clip(np.searchsorted(behind, targets, side="left"), 1, cost.size)
    nearer_below = targets - behind[above - 1] < behind[above] - targets
    inner = np.where(nearer_below, above - 1, above)
    return np.concatenate([[0], inner, [cost.size]]).astype(np.int64)


@dataclass(frozen=True)
class Head:
    """What all partition files of a library share, and where it was read."""

    path: Path
    leaves: Leaves
    samples: tuple[str, ...]


class Totals(NamedTuple):
    """Sums over partition files: by leaf, and by sample."""

    leaf_rows: npt.NDArray[np.int64]
    leaf_bytes: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    bases: npt.NDArray[np.int64]
    hash_sums: npt.NDArray[np.uint64]


def _read_head(path: Path) -> Head:
    with PartitionFile(path) as part:
        return Head(path, part.leaves, tuple(part.header["samples"]))


def _add_totals(paths: Sequence[Path], head: Head) -> Totals:
    samples = len(head.samples)
    by_leaf = np.zeros(head.leaves.count, np.int64), np.zeros(head.leaves.count, np.int64)
    by_sample = np.zeros(samples, np.int64), np.zeros(samples, np.int64)
    totals = Totals(*by_leaf, *by_sample, np.zeros(samples, np.uint64))
    for path in paths:
        with PartitionFile(path) as part:
            if part.leaves != head.leaves or tuple(part.header["samples"]) != head.samples:
                raise UmimillError(
                    f"{path}: made with other samples or layouts than {head.path}; delete "
                    "results/partition and run again"
                )
            for total, more in zip(
                totals, (*part.leaf_totals(), *part.sample_totals()), strict=True
            ):
                total += more
    return totals


def plan(
    partitions: Sequence[Path],
    buckets: int,
    output: Path,
    meter: Meter,
    *,
    partials: Sequence[Path] = (),
    tile: Sequence[str] = (),
) -> None:
    """Plan the buckets of a library.

    Args:
        partitions: partition files of all units and parts, in order.
        buckets: n.
        output: plan file to write.
        meter: metrics of the job.
        partials: partition files of the rows whose barcode was not fully read.
        tile: samples whose molecules have reads that start anywhere; see layout.tiled_samples.

    Raises:
        UmimillError: where the files are not of one library and layout.
    """
    first = _read_head(partitions[0])
    totals = _add_totals(partitions, first)
    partial = _add_totals(partials, first)
    leaf_rows, leaf_bytes, rows, bases, hash_sums = totals
    groups = make_groups(leaf_rows, leaf_bytes, first.leaves)
    # Rows that are to be placed cost as others do, but move no bound of an output.
    spread = np.repeat(np.arange(groups.size), groups["leaf_stop"] - groups["leaf_start"])
    cost = groups["bytes"] + 64 * groups["rows"]
    np.add.at(cost, spread, partial.leaf_bytes + 64 * partial.leaf_rows)
    meter.reads = int(leaf_rows.sum())
    for number, sample in enumerate(first.samples):
        meter.count(sample, "planned", int(rows[number]))
    with BlockWriter(output) as writer:
        writer.add("groups", groups)
        writer.add("bounds", make_bounds(cost, buckets))
        writer.add("rows", rows)
        writer.add("bases", bases)
        writer.add("hash_sums", hash_sums)
        tiled = set(tile)
        writer.add("tile", np.array([sample in tiled for sample in first.samples], np.uint8))
        writer.add("partial_rows", partial.rows)
        writer.add("partial_hash_sums", partial.hash_sums)
        writer.finish(
            {
                "partitions": [str(path) for path in partitions],
                "partials": [str(path) for path in partials],
                "samples": list(first.samples),
                "widths": list(first.leaves.widths),
                "buckets": buckets,
            }
        )


def read_plan(path: Path) -> Plan:
    """Read a plan."""
    with BlockFile(path) as file:
        return Plan(
            tuple(Path(one) for one in file.header["partitions"]),
            tuple(file.header["samples"]),
            Leaves(tuple(file.header["widths"])),
            file.read("groups"),
            file.read("bounds"),
            file.read("rows"),
            file.read("bases"),
            file.read("hash_sums"),
            file.read("tile"),
            tuple(Path(one) for one in file.header["partials"]),
            file.read("partial_rows"),
            file.read("partial_hash_sums"),
        )
