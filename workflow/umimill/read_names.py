"""Names of a part's reads and what checkout decided of each, kept where a run asks for lineage.

Blocks of records are the same for any number of parts, so the names of all parts can be read in the
order of records again, one block at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from umimill.blockfile import BlockFile, BlockWriter
from umimill.closing import Closing
from umimill.errors import UmimillError
from umimill.fastq import TemplateChunk
from umimill.kernels import match as verdicts
from umimill.kernels.fastq import copy_names

LEVEL = 1
# A verdict of checkout, the sample it is counted in, and where the name ends.
READ = np.dtype([("stop", "<u4"), ("sample", "<u2"), ("verdict", "u1"), ("padding", "u1")])
OF_LIBRARY = (verdicts.UNMATCHED, verdicts.AMBIGUOUS)

Array = npt.NDArray[Any]


class NameWriter(Closing):
    """Keeps the names of a part.

    Args:
        path: block file to write, or None to keep nothing.
        samples: i64[rows], sample of each row of the layouts.
        record_block: records of a block.
    """

    def __init__(self, path: Path | None, samples: Array, record_block: int) -> None:
        self._writer = BlockWriter(path) if path else None
        self._samples = samples
        self._record_block = record_block
        self._pieces: list[tuple[int, int, int]] = []
        self._block = -1
        self._reads: list[Array] = []
        self._names: list[Array] = []

    def close(self) -> None:
        """Close the file, and remove it unless it is finished."""
        if self._writer:
            self._writer.close()

    def add(self, chunk: TemplateChunk, matches: Array, start: int, stop: int) -> None:
        """Take templates [start, stop) of a chunk, all of one block.

        Args:
            chunk: the templates.
            matches: i32[stop - start, *], what was found of them; verdicts are final.
            start: first template.
            stop: end.
        """
        if self._writer is None:
            return
        block = (chunk.first_record + start) // self._record_block
        if block != self._block:
            self._close_block()
            self._block = block
        mate = chunk.mates[0]
        records = np.ascontiguousarray(mate.records[start:stop])
        text = np.empty(int((records[:, 1] - records[:, 0]).sum()), np.uint8)
        stops = np.empty(stop - start, np.int64)
        copy_names(mate.buffer, records, text, stops)
        reads = np.zeros(stop - start, READ)
        verdict = matches[:, verdicts.VERDICT]
        reads["verdict"] = verdict
        of_sample = ~np.isin(verdict, OF_LIBRARY)
        reads["sample"][of_sample] = self._samples[matches[of_sample, verdicts.ROW]]
        before = sum(names.size for names in self._names)
        reads["stop"] = before + stops
        self._reads.append(reads)
        self._names.append(text[: int(stops[-1])])

    def _close_block(self) -> None:
        if self._writer is None or not self._reads:
            return
        reads = np.concatenate(self._reads)
        data = b"".join((reads.tobytes(), *(names.tobytes() for names in self._names)))
        offset = self._writer.append_bytes(isal_zlib.compress(data, LEVEL))
        self._pieces.append((offset, self._writer.offset - offset, reads.size))
        self._reads.clear()
        self._names.clear()

    def finish(self) -> None:
        """Write the list of blocks and give the file its name."""
        self._close_block()
        if self._writer:
            self._writer.add("blocks", np.array(self._pieces, np.int64).reshape(-1, 3))
            self._writer.finish({"record_block": self._record_block})


@dataclass(frozen=True)
class NamedReads:
    """Reads of consecutive records.

    Attributes:
        first_record: number of the first of them in its unit.
        reads: READ[n].
        text: u8[*], their names one after the other.
    """

    first_record: int
    reads: Array
    text: Array


class UnitNames(Closing):
    """Reads the names of a unit in the order of records.

    Args:
        paths: files of its parts.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._stack = ExitStack()
        self._parts = [self._stack.enter_context(BlockFile(path)) for path in paths]
        self._blocks = [part.read("blocks") for part in self._parts]
        self.record_block = int(self._parts[0].header["record_block"])
        self.records = sum(int(blocks[:, 2].sum()) for blocks in self._blocks)

    def close(self) -> None:
        """Close the files."""
        self._stack.close()

    def blocks(self) -> Iterator[NamedReads]:
        """Yield the reads block by block.

        Raises:
            UmimillError: where a block does not hold what its file says.
        """
        count = len(self._parts)
        scratch = np.zeros(0, np.uint8)
        for block in range(-(-self.records // self.record_block)):
            part = self._parts[block % count]
            offset, size, reads = self._blocks[block % count][block // count].tolist()
            packed, scratch = part.read_bytes(offset, offset + size, scratch)
            data = np.frombuffer(isal_zlib.decompress(packed), np.uint8)
            first = block * self.record_block
            if reads != min(self.record_block, self.records - first):
                raise UmimillError(
                    f"{part.path}: its blocks are not those of the other parts; delete "
                    "results/partition and run again"
                )
            held = data[: reads * READ.itemsize].view(READ)
            yield NamedReads(first, held, data[reads * READ.itemsize :])
