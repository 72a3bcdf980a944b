"""FASTQ in: text in large reused buffers, records as offset tables, never as objects.

Knows: truncation, record numbers, what is legal in a record, mates.
Does not know: layouts, barcodes, samples.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from umimill.errors import FastqError
from umimill.gzipped import check_end
from umimill.kernels import fastq as kernels
from umimill.packed import DAMAGE, is_damage, open_text, read_format, text_before_damage

Bytes = npt.NDArray[np.uint8]
Records = npt.NDArray[np.int32]

# 4-16 MB of text stays in the last-level cache between inflating and parsing; 32 MB and more do
# not, and inflating took 1.6 times as long.
BUFFER_BYTES = 4 << 20
CHUNK_RECORDS = 1 << 15
# Words are loaded 8 bytes at a time, also at the end of a buffer.
PADDING_BYTES = 64
# A record is given up as endless (not FASTQ, or one line) at this size.
MAXIMUM_RECORD_BYTES = 1 << 28

_PROBLEMS = {
    kernels.SCAN_NO_AT: "the first line of a record does not begin with @",
    kernels.SCAN_NO_PLUS: (
        "the third line of a record does not begin with + (sequences over several lines are not "
        "read); write each record as four lines"
    ),
    kernels.SCAN_CUT: "the file ends inside this record; fetch it again",
    kernels.SCAN_BLANK: "a blank line between records; remove it",
}
_FOLLOWED = (
    "what follows the gzip data here is of another kind; cut it off, or fetch the file again"
)


def base_codes() -> Bytes:
    """Return u8[256]: A, C, G, T = 0..3 in either case, U as T, any other byte 4 (unknown)."""
    codes = np.full(256, 4, np.uint8)
    for code, letters in enumerate(("Aa", "Cc", "Gg", "TtUu")):
        for letter in letters:
            codes[ord(letter)] = code
    return codes


def known_bases() -> Bytes:
    """Return u8[256]: 1 for the letters of a sequence (IUPAC, U, '.'), 0 for all else."""
    known = np.zeros(256, np.uint8)
    for letter in "ACGTUNRYSWKMBDHV":
        known[ord(letter)] = known[ord(letter.lower())] = 1
    known[ord(".")] = 1
    return known


@dataclass
class Chunk:
    """Records of one file in memory.

    Attributes:
        buffer: u8[*], text; valid until the next chunk is asked for.
        records: i32[count, 5], see kernels.fastq.
        count: records here.
        first_record: number of the first of them in the file, from 0.
    """

    buffer: Bytes
    records: Records
    count: int
    first_record: int


class FastqReader:
    """Reads a FASTQ file chunk by chunk into one buffer.

    Args:
        path: the file, plain or packed.
        buffer_bytes: size of the buffer; it grows only for a record that does not fit.
        chunk_records: most records a chunk holds.
        quality_offset: byte of Phred 0; a lower one is an error.
    """

    def __init__(
        self,
        path: Path,
        *,
        buffer_bytes: int = BUFFER_BYTES,
        chunk_records: int = CHUNK_RECORDS,
        quality_offset: int = 33,
    ) -> None:
        self.path = path
        self._quality_offset = quality_offset
        self._format = read_format(path)
        self._file = open_text(path)
        # Two of each, used in turn, so that one chunk can be read ahead of the one in use.
        self._buffers = [np.zeros(buffer_bytes + PADDING_BYTES, np.uint8) for _ in range(2)]
        self._tables = [np.zeros((chunk_records, 5), np.int32) for _ in range(2)]
        self._buffer = self._buffers[0]
        self._records = self._tables[0]
        self._known = known_bases()
        self._start = 0
        self._stop = 0
        self._ended = False
        self._damage = ""
        self._fault = ""
        self._rest: Generator[bytes, None, bool] | None = None
        self._piece = b""
        self._turned = False
        self._next_record = 0
        self.text_bytes = 0

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _fill(self) -> None:
        """Move what is left to the front of the other buffer and read behind it.

        Once a chunk: the buffer of the chunk in use is left alone, and what does not fit makes the
        other one grow.
        """
        left = self._stop - self._start
        if not self._turned:
            self._buffers.reverse()
            self._turned = True
        capacity = self._buffers[0].size - PADDING_BYTES
        old = self._buffer
        if left >= capacity:
            if left >= MAXIMUM_RECORD_BYTES:
                raise self._error(0, "a record is longer than 256 MB; is this FASTQ?")
            capacity = 2 * left
            self._buffers[0] = np.zeros(capacity + PADDING_BYTES, np.uint8)
        self._buffer = self._buffers[0]
        self._buffer[:left] = old[self._start : self._stop]
        self._start, self._stop = 0, left
        view = memoryview(self._buffer)[left:capacity]
        while len(view):
            count = self._read_into(view)
            if not count:
                self._ended = True
                break
            view = view[count:]
            self._stop += count
            self.text_bytes += count

    def _read_into(self, view: memoryview) -> int:
        """Read text into `view`; where packed data is damaged, all of it before the damage.

        A read that fails hands out nothing of what it inflated, so from there on the file is
        inflated again, piece by piece: the record named is then the right one.
        """
        if self._rest is None:
            try:
                count: int = self._file.readinto(view)  # type: ignore[attr-defined]
                return count
            except EOFError:
                self._fault = f"the {self._format} file is cut short here; fetch it again"
            except DAMAGE as error:
                if not is_damage(error):
                    raise
                what = f"the {self._format} data is damaged here or before ({error})"
                self._fault = f"{what}; fetch it again"
            self._rest = text_before_damage(self.path, self.text_bytes)
        while not self._piece:
            try:
                self._piece = next(self._rest)
            except StopIteration as end:
                self._damage = _FOLLOWED if end.value else self._fault
                return 0
        taken = self._piece[: len(view)]
        view[: len(taken)] = taken
        self._piece = self._piece[len(taken) :]
        return len(taken)

    def _error(self, line: int, message: str) -> FastqError:
        record = self._next_record
        return FastqError(str(self.path), record + 1, 4 * record + line + 1, message)

    def _raise_scan(self, code: int, line: int) -> None:
        if code != kernels.SCAN_QUALITY_LENGTH:
            raise self._error(line, _PROBLEMS[code])
        while not self._ended and self._buffer[self._start : self._stop].tobytes().count(b"\n") < 4:
            self._fill()
        lines = self._buffer[self._start : self._stop].tobytes().split(b"\n", 4)
        bases, qualities = len(lines[1].rstrip(b"\r")), len(lines[3].rstrip(b"\r"))
        raise self._error(line, f"sequence has {bases} bases, quality {qualities}")

    def read(self) -> Chunk | None:
        """Return the next records, or None at the end of the file.

        Raises:
            FastqError: names file, record and line of what is wrong.
        """
        self._tables.reverse()
        self._records = self._tables[0]
        self._turned = False
        while True:
            last = int(self._ended and not self._damage)
            count, used, code, line = kernels.scan_records(
                self._buffer, self._start, self._stop, last, self._records
            )
            if count:
                break
            if code:
                self._raise_scan(code, line)
            self._start = used
            if self._damage:
                # The records before the damage were handed out, so this number is exact.
                raise self._error(0, self._damage)
            if self._ended:
                return None
            self._fill()
        chunk = Chunk(self._buffer, self._records, count, self._next_record)
        self._check(chunk)
        self._start = used
        self._next_record += count
        return chunk

    def _check(self, chunk: Chunk) -> None:
        record, line, column = kernels.first_bad_record(
            chunk.buffer, chunk.records, chunk.count, self._known, self._quality_offset, 126
        )
        if record < 0:
            return
        self._next_record += record
        field = kernels.BASES_START if line == 1 else kernels.QUALITIES_START
        byte = int(chunk.buffer[chunk.records[record, field] + column])
        shown = repr(chr(byte)) if 32 < byte < 127 else f"byte {byte}"
        legal = f"bytes {self._quality_offset} to 126"
        what = "is not a base" if line == 1 else f"is not a quality ({legal})"
        raise self._error(line, f"{shown} at column {column + 1} {what}")


@dataclass
class TemplateChunk:
    """Templates in memory: reads, or pairs with both mates.

    Attributes:
        mates: one chunk a file, with equal counts; their tables are valid until the next chunk.
        count: templates.
        first_record: number of the first, from 0.
    """

    mates: tuple[Chunk, ...]
    count: int
    first_record: int

    def first(self, count: int) -> TemplateChunk:
        """Return the first `count` templates."""
        mates = tuple(_slice(mate, 0, count) for mate in self.mates)
        return TemplateChunk(mates, count, self.first_record)


def _slice(chunk: Chunk, start: int, count: int) -> Chunk:
    return Chunk(
        chunk.buffer, chunk.records[start : start + count], count, chunk.first_record + start
    )


_Item = TypeVar("_Item")


def read_ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """Yield items while the next one is made in another thread; errors come in order."""
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(next, items, None)
        while (item := pending.result()) is not None:
            pending = pool.submit(next, items, None)
            yield item


def read_templates(paths: tuple[Path, ...], **options: Any) -> Iterator[TemplateChunk]:
    """Yield templates from one file, or from two in step.

    Raises:
        FastqError: also where one file has more records, or mates are named differently.
        UmimillError: where a file is of another format, or a file without mates was cut.
    """
    if len(paths) == 1:
        # Of two files each shows whether the other is whole.
        check_end(paths[0])
    with ExitStack() as stack:
        readers = [stack.enter_context(closing(FastqReader(path, **options))) for path in paths]
        pending: list[Chunk | None] = [None] * len(readers)
        taken = [0] * len(readers)
        while True:
            for index, reader in enumerate(readers):
                chunk = pending[index]
                if chunk is None or taken[index] == chunk.count:
                    pending[index], taken[index] = reader.read(), 0
            chunks = [chunk for chunk in pending if chunk is not None]
            if len(chunks) < len(readers):
                _check_ends(paths, pending, taken)
                return
            count = min(chunk.count - start for chunk, start in zip(chunks, taken, strict=True))
            mates = tuple(
                _slice(chunk, start, count) for chunk, start in zip(chunks, taken, strict=True)
            )
            if len(mates) == 2:
                _check_names(paths, mates[0], mates[1])
            yield TemplateChunk(mates, count, mates[0].first_record)
            taken = [start + count for start in taken]


def first_templates(chunks: Iterator[TemplateChunk], limit: int) -> Iterator[TemplateChunk]:
    """Yield the first `limit` templates of a file; with 0 all of them."""
    for chunk in chunks:
        last = chunk.first_record + chunk.count
        yield chunk if not limit or last <= limit else chunk.first(limit - chunk.first_record)
        if limit and last >= limit:
            return


def _check_ends(paths: tuple[Path, ...], pending: list[Chunk | None], taken: list[int]) -> None:
    longer = [index for index, chunk in enumerate(pending) if chunk is not None]
    if not longer:
        return
    index = longer[0]
    chunk = pending[index]
    assert chunk is not None
    record = chunk.first_record + taken[index]
    raise FastqError(
        str(paths[index]),
        record + 1,
        4 * record + 1,
        f"its mate is missing: {paths[1 - index]} ends after {record:,} records; "
        "give both files of one run",
    )


def _text(chunk: Chunk, record: int) -> str:
    start, stop = chunk.records[record, :2]
    return chunk.buffer[start:stop].tobytes().decode("latin-1").replace("\t", " ").partition(" ")[0]


def _check_names(paths: tuple[Path, ...], mate_1: Chunk, mate_2: Chunk) -> None:
    record = kernels.first_other_name(
        mate_1.buffer, mate_1.records, mate_2.buffer, mate_2.records, mate_1.count
    )
    if record < 0:
        return
    number = mate_1.first_record + record
    name_1, name_2 = _text(mate_1, record), _text(mate_2, record)
    if name_1.endswith("/2") and name_1[:-1] == name_2[:-1]:
        what = f"the files are swapped: {name_1} in {paths[0]}, {name_2} here; exchange read1 and "
        what += "read2 in the units sheet (a barcode on read 2 has its layout in layout_read2)"
    else:
        what = f"mates are named differently: {name_1} in {paths[0]}, {name_2} here; the files "
        what += "are out of step"
    raise FastqError(str(paths[1]), number + 1, 4 * number + 1, what)
