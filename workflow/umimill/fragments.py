"""Fragments: what a bucket made, sample after sample, for gather to append.

A FASTQ fragment is a block file whose bytes are BGZF; a molecule fragment has MOLECULE rows. Both
list what each sample has in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockWriter
from umimill.closing import Closing
from umimill.metrics import Meter
from umimill.statuses import STATUSES

if TYPE_CHECKING:
    from umimill.assemble import Result

# Ledger lines of reads without a record, by the status of what they are in.
LEFT_LINES = ("below_filter", *STATUSES[1:])

Array = npt.NDArray[Any]


class FragmentWriter(Closing):
    """Appends results in key order.

    Args:
        outputs: FASTQ fragments to write, one a mate.
        molecules: molecule fragment to write.
        samples: number of samples.

    Attributes:
        hash_sums: u64[2, S], sums of row hashes so far: of partition files, and of outboxes.
    """

    def __init__(self, outputs: Sequence[Path], molecules: Path, samples: int) -> None:
        self._stack = ExitStack()
        self._mates = [self._stack.enter_context(BlockWriter(path)) for path in outputs]
        self._rows = self._stack.enter_context(BlockWriter(molecules))
        self.hash_sums = np.zeros((2, samples), np.uint64)
        self._mate_bytes = np.zeros((len(outputs), samples), np.int64)
        self._records = np.zeros(samples, np.int64)
        self._molecules = np.zeros(samples, np.int64)
        # Reads of molecules with a record, of others by status.
        self._voted = np.zeros(samples, np.int64)
        self._left = np.zeros((samples, len(STATUSES)), np.int64)
        # Called columns, sum of their qualities, and of 2^20 times their p_error.
        self._totals = np.zeros((samples, 3), np.int64)
        self._sizes: list[dict[int, int]] = [{} for _ in range(samples)]

    def close(self) -> None:
        """Close the files, and remove them unless they are finished."""
        self._stack.close()

    def add(self, result: Result) -> None:
        """Append what a cell gave."""
        sample, molecules = result.sample, result.molecules
        for mate, blocks in enumerate(result.blocks):
            self._mates[mate].append_bytes(blocks)
            self._mate_bytes[mate, sample] += len(blocks)
        self._rows.append(molecules)
        self.hash_sums += result.hash_sums
        self._records[sample] += result.records
        self._molecules[sample] += molecules.size
        reads = molecules["reads"].astype(np.int64)
        kept = molecules["kept"] == 1
        self._voted[sample] += reads[kept].sum()
        np.add.at(self._left[sample], molecules["status"][~kept], reads[~kept])
        self._totals[sample, 0] += molecules["called"].astype(np.int64).sum()
        self._totals[sample, 1] += int(
            (molecules["quality_sum_1"] + molecules["quality_sum_2"]).sum()
        )
        self._totals[sample, 2] += int(molecules["error_sum"].sum()) >> 20
        sizes, counts = np.unique(reads[molecules["status"] == 0], return_counts=True)
        held = self._sizes[sample]
        for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
            held[size] = held.get(size, 0) + count

    def finish(self, samples: Sequence[str], dtype: np.dtype[Any], meter: Meter) -> None:
        """Give the files their names and write the ledger."""
        for mate, writer in enumerate(self._mates):
            writer.add("sample_bytes", self._mate_bytes[mate])
            writer.finish({"mate": mate + 1})
        total = int(self._molecules.sum())
        # The first row lies behind the 8-byte head of the file.
        self._rows.list_array("molecules", 8, (total,), dtype)
        sizes = [
            (sample, size, count)
            for sample, held in enumerate(self._sizes)
            for size, count in sorted(held.items())
        ]
        self._rows.add("sizes", np.array(sizes, np.int64).reshape(-1, 3))
        self._rows.add("records", self._records)
        self._rows.add("sample_molecules", self._molecules)
        self._rows.add("hash_sums", self.hash_sums)
        self._rows.add("totals", self._totals)
        self._rows.finish({})
        meter.written_bytes = self._rows.offset + sum(writer.offset for writer in self._mates)
        for number, sample in enumerate(samples):
            meter.count(sample, "voted", int(self._voted[number]))
            for line, reads in zip(LEFT_LINES, self._left[number].tolist(), strict=True):
                meter.count(sample, line, reads)
        meter.counters["molecules"] = total
        meter.counters["records"] = int(self._records.sum())
