"""route: which outboxes hold rows for which bucket, and whether all that left arrived.

The one job between all buckets and all buckets: its output lists paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile
from umimill.errors import UmimillError
from umimill.files import read_json, write_json
from umimill.metrics import Meter
from umimill.partition import PartitionFile
from umimill.plan import Plan, read_plan

READ_ARRIVALS = 1 << 16


@dataclass(frozen=True)
class Routes:
    """What route found.

    Attributes:
        outboxes: the outboxes that hold rows for each bucket.
        read_hash_sums: u64[S], hashes of the moved rows as they lie in the partition files.
        written_hash_sums: u64[S], hashes of all rows as they lie in the outboxes.
        partial_hash_sums: u64[S], hashes of all rows whose barcode was not fully read.
    """

    outboxes: tuple[tuple[Path, ...], ...]
    read_hash_sums: npt.NDArray[np.uint64]
    written_hash_sums: npt.NDArray[np.uint64]
    partial_hash_sums: npt.NDArray[np.uint64]


def route(
    plan_path: Path, settled: Path, outboxes: Sequence[Path], output: Path, meter: Meter
) -> None:
    """List the outboxes that each bucket reads.

    Args:
        plan_path: plan of the library.
        settled: settle's file.
        outboxes: outboxes of all buckets.
        output: list to write.
        meter: metrics of the job.

    Raises:
        UmimillError: where the rows for a bucket are not those that settle sent there.
    """
    plan = read_plan(plan_path)
    buckets = plan.bounds.size - 1
    lists: list[list[str]] = [[] for _ in range(buckets)]
    rows = np.zeros(buckets, np.int64)
    read_sums = np.zeros(len(plan.samples), np.uint64)
    written_sums = np.zeros(len(plan.samples), np.uint64)
    partial_sums = np.zeros(len(plan.samples), np.uint64)
    for path in outboxes:
        with PartitionFile(path) as outbox:
            read_sums += np.array(outbox.header["read_hash_sums"], np.uint64)
            written_sums += outbox.sample_totals()[2]
            partial_sums += np.array(outbox.header["partial_hash_sums"], np.uint64)
            for bucket, count in enumerate(_bucket_rows(plan, outbox)):
                rows[bucket] += count
                if count:
                    lists[bucket].append(str(path))
    _check_arrivals(settled, rows)
    meter.reads = int(rows.sum())
    write_json(
        output,
        {
            "outboxes": lists,
            "read_hash_sums": read_sums.tolist(),
            "written_hash_sums": written_sums.tolist(),
            "partial_hash_sums": partial_sums.tolist(),
        },
    )


def read_routes(path: Path) -> Routes:
    """Read route's list."""
    found: dict[str, Any] = read_json(path)
    return Routes(
        tuple(tuple(Path(one) for one in paths) for paths in found["outboxes"]),
        np.array(found["read_hash_sums"], np.uint64),
        np.array(found["written_hash_sums"], np.uint64),
        np.array(found["partial_hash_sums"], np.uint64),
    )


def _bucket_rows(plan: Plan, outbox: PartitionFile) -> list[int]:
    leaf_rows, _ = outbox.leaf_totals()
    before = np.concatenate([[0], np.cumsum(leaf_rows)])
    leaves = [plan.bucket_leaves(bucket) for bucket in range(plan.bounds.size - 1)]
    return [int(before[stop] - before[start]) for start, stop in leaves]


def _check_arrivals(settled: Path, rows: npt.NDArray[np.int64]) -> None:
    with BlockFile(settled) as file:
        for bucket in range(rows.size):
            expected = 0
            for name in ("arrival", "placing"):
                first, last = file.read(f"{name}_bounds", bucket, bucket + 2).tolist()
                for start in range(first, last, READ_ARRIVALS):
                    some = file.read(f"{name}s", start, min(start + READ_ARRIVALS, last))
                    expected += int(some["reads"].sum(dtype=np.int64))
            if expected != rows[bucket]:
                raise UmimillError(
                    f"bucket {bucket + 1}: {expected:,} corrected reads are due, but "
                    f"{rows[bucket]:,} were moved there; delete results/move and run again"
                )
