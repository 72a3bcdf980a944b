"""checkout: find the barcode of every template of one part, cut it out, stage rows to a partition.

Part i of n reads the whole unit and owns every n-th block of 8,192 records; so the cut is at the
same record in all files, whatever their lengths, and the number of parts moves no byte of a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from umimill.bgzf import compress_records
from umimill.blockfile import BlockWriter
from umimill.cell_list import list_bytes, read_cell_list
from umimill.closing import Closing
from umimill.errors import FastqError, UmimillError
from umimill.fastq import TemplateChunk, first_templates, read_ahead, read_templates
from umimill.files import read_json
from umimill.kernels import cut
from umimill.kernels import match as verdicts
from umimill.kernels.cell_list import CellList
from umimill.kernels.fastq import copy_records
from umimill.kernels.match import Foreign
from umimill.layout import leaf_widths, sample_layouts
from umimill.matching import Matcher
from umimill.metrics import Meter
from umimill.partition import MOST_RECORDS, Leaves
from umimill.partition_writer import PartitionWriter, Staging
from umimill.read_names import NameWriter
from umimill.unplaced import SplitWriter

RECORD_BLOCK = 8192
LIBRARY_LINES = {"unmatched": verdicts.UNMATCHED, "ambiguous": verdicts.AMBIGUOUS}
SAMPLE_LINES = {
    "too_short": verdicts.TOO_SHORT,
    "low_umi_quality": verdicts.LOW_UMI_QUALITY,
    "empty_payload": verdicts.EMPTY_PAYLOAD,
    "unresolved": verdicts.UNRESOLVED,
    "partial": verdicts.PARTIAL,
    "assigned": verdicts.ASSIGNED,
}
# With a list of cells: rows whose cell is not on it, which go to place.
UNPLACED = "unplaced"
COUNTERS = {
    "flipped": cut.FLIPPED,
    "unknown_in_barcode": cut.UNKNOWN_IN_BARCODE,
    "shifted_barcode": cut.SHIFTED_BARCODE,
    "unknown_in_payload": cut.UNKNOWN_IN_PAYLOAD,
    "payload_bases": cut.PAYLOAD_BASES,
}
# Share of the budget for rows of a flush: sorting and encoding take the rest.
STAGING_SHARE = 0.7
MOST_STAGING_BYTES = 128 << 20
# Of these, a share for the rows whose barcode was not fully read.
PARTIAL_SHARE = 16


@dataclass(frozen=True)
class Part:
    """Which templates of a unit a job owns.

    Attributes:
        unit: number of the unit in its library.
        index: number of the part, from 0.
        count: parts of the unit.
        record_block: records of a block.
    """

    unit: int
    index: int
    count: int
    record_block: int = RECORD_BLOCK

    def ranges(self, chunk: TemplateChunk) -> Iterator[tuple[int, int]]:
        """Yield the ranges [start, stop) of a chunk that belong to the part, cut at blocks."""
        start = 0
        while start < chunk.count:
            block, inside = divmod(chunk.first_record + start, self.record_block)
            stop = min(chunk.count, start + self.record_block - inside)
            if block % self.count == self.index:
                yield start, stop
            start = stop


@dataclass(frozen=True)
class Aside:
    """A library whose cells are on a list.

    Attributes:
        cells: the list, from cells.
        unplaced: partition file to write, of the rows whose cell is not on it.
    """

    cells: Path
    unplaced: Path


def checkout(
    reads: Sequence[Path],
    layouts: Sequence[Sequence[str | None]],
    probes: Mapping[str, Path],
    unit: str,
    part: Part,
    output: Path,
    meter: Meter,
    *,
    limit: int = 0,
    minimum_umi_quality: int = 0,
    partial: Path | None = None,
    unmatched: Path | None = None,
    aside: Aside | None = None,
    names: Path | None = None,
    staging_bytes: int | None = None,
) -> None:
    """Partition one part of a unit.

    Args:
        reads: one file, or the two of a pair.
        layouts: rows (sample, layout, layout of read 2 or nothing) of the library.
        probes: probe's answer for each unit of the library.
        unit: the unit.
        part: which of its templates.
        output: partition file to write.
        meter: metrics of the job.
        limit: templates that are read of the unit, from its beginning; 0 = all.
        minimum_umi_quality: a UMI base below it sets the template aside.
        partial: partition file for the rows whose barcode was not fully read, or None to count
            these as unresolved.
        unmatched: file for the templates that no layout matched, or None.
        aside: what becomes of rows whose cell is not on a list, or None.
        names: file for the names and verdicts of all templates, or None.
        staging_bytes: memory for the rows of a flush; None takes it from the budget.

    Raises:
        FastqError: what is wrong with the reads, or there are too many to number.
        UmimillError: where two units hold the same reads.
    """
    if part.index == 0:
        check_distinct(reads[0], unit, probes)
    probe = read_json(probes[unit])
    samples, layout_rows = sample_layouts(layouts)
    foreign = Foreign(probe["foreign_prior"], np.array(probe["base_scores"], np.int64))
    matcher = Matcher(
        layout_rows,
        len(samples),
        foreign,
        probe["quality_offset"],
        minimum_umi_quality=minimum_umi_quality,
        unit=part.unit,
        partial=partial is not None,
        unknown_cell_bases=0 if aside is None else 1,
    )
    leaves = Leaves(leaf_widths(layout_rows, len(samples)))
    listed = _read_list(aside, meter)
    if staging_bytes is None:
        budget = meter.budget_bytes - meter.umi_memory_bytes
        staging_bytes = min(max(0, int(budget * STAGING_SHARE)), MOST_STAGING_BYTES)
    longest = sum(probe["longest"])
    row_bytes = longest + longest // 4 + 24
    widths = matcher.barcode_width, matcher.barcode_width + 1
    sizes = staging_bytes, staging_bytes // PARTIAL_SHARE if partial else 1
    stagings = [Staging(size, width, row_bytes) for size, width in zip(sizes, widths, strict=True)]
    header = {"samples": list(samples), "unit": unit, "part": part.index, "parts": part.count}
    options = {"quality_offset": probe["quality_offset"], "limit": limit}
    with ExitStack() as stack:
        rows = _open_writer(output, aside, leaves, widths[0], listed)
        stack.push(rows)
        writers = [rows]
        if partial is not None:
            writers.append(stack.enter_context(PartitionWriter(partial, leaves, widths[1])))
        refused = stack.enter_context(
            UnmatchedWriter(unmatched, len(reads), probe["quality_offset"])
        )
        named = stack.enter_context(NameWriter(names, matcher.row_samples, part.record_block))
        for chunk in _timed_chunks(reads, meter, **options):
            for start, stop in part.ranges(chunk):
                _check_number(reads[0], chunk.first_record + stop)
                found = _stage_range(matcher, chunk, start, stop, stagings, writers, meter)
                refused.add(chunk, found[:, verdicts.VERDICT], start, stop, part.record_block)
                named.add(chunk, found, start, stop)
                meter.reads += stop - start
        for writer, staging in zip(writers, stagings, strict=False):
            _flush(writer, staging, meter)
            writer.finish(header)
        refused.finish()
        named.finish()
        meter.written_bytes = sum(writer.written_bytes for writer in writers)
    _count_aside(writers[0], matcher, samples, meter)
    for line, verdict in LIBRARY_LINES.items():
        meter.count(None, line, int(matcher.ledger[:, verdict].sum()))
    for number, sample in enumerate(samples):
        for line, verdict in SAMPLE_LINES.items():
            meter.count(sample, line, int(matcher.ledger[number, verdict]))
    meter.counters.update({name: int(matcher.counters[place]) for name, place in COUNTERS.items()})


def _read_list(aside: Aside | None, meter: Meter) -> CellList | None:
    if aside is None:
        return None
    listed = read_cell_list(aside.cells)
    meter.umi_memory_bytes = list_bytes(listed)
    return listed


def _count_aside(
    writer: PartitionWriter | SplitWriter, matcher: Matcher, samples: Sequence[str], meter: Meter
) -> None:
    """Count what the matcher assigned and the writer set aside as set aside."""
    if isinstance(writer, SplitWriter):
        matcher.ledger[:, verdicts.ASSIGNED] -= writer.set_aside
        for sample, rows in zip(samples, writer.set_aside.tolist(), strict=True):
            meter.count(sample, UNPLACED, rows)


def _open_writer(
    output: Path, aside: Aside | None, leaves: Leaves, width: int, listed: CellList | None
) -> PartitionWriter | SplitWriter:
    if aside is None or listed is None:
        return PartitionWriter(output, leaves, width)
    return SplitWriter(output, aside.unplaced, leaves, width, listed)


def check_distinct(reads: Path, unit: str, probes: Mapping[str, Path]) -> None:
    """Refuse a unit that begins with the same 10,000 templates as one before it.

    Only the later of two complains, and of its parts the first, so that it is said once.

    Raises:
        UmimillError: naming the file and the two units.
    """
    own = read_json(probes[unit])["digest"]
    for other, path in probes.items():
        if other == unit or own is None:
            return
        found = read_json(path)
        if found["digest"] == own:
            raise UmimillError(
                f"{reads}: begins with the same 10,000 templates as {found['reads'][0]}, the same "
                f"lane given twice; remove unit {unit} or {other} from the units sheet"
            )


def _check_number(reads: Path, records: int) -> None:
    if records > MOST_RECORDS:
        raise FastqError(
            str(reads),
            MOST_RECORDS + 1,
            4 * MOST_RECORDS + 1,
            f"a unit holds at most {MOST_RECORDS:,} records; split it into two units",
        )


def _timed_chunks(
    reads: Sequence[Path], meter: Meter, *, limit: int, quality_offset: int
) -> Iterator[TemplateChunk]:
    def decoded() -> Iterator[TemplateChunk]:
        chunks = first_templates(read_templates(tuple(reads), quality_offset=quality_offset), limit)
        while True:
            with meter.clock("decode"):
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk

    yield from read_ahead(decoded()) if meter.threads > 1 else decoded()


def _stage_range(
    matcher: Matcher,
    chunk: TemplateChunk,
    start: int,
    stop: int,
    stagings: Sequence[Staging],
    writers: Sequence[PartitionWriter | SplitWriter],
    meter: Meter,
) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Stage a range, flushing as often as it takes; return what was found of its templates."""
    with meter.clock("match"):
        matches = matcher.match(chunk, start, stop)
    place = start
    while place < stop:
        with meter.clock("match"):
            reached, full = matcher.stage(chunk, matches, place, stop, stagings)
        if reached == place and stagings[full].fill[0] == 0:
            raise UmimillError("a template does not fit into an empty buffer: please report it")
        place = reached
        if place < stop:
            _flush(writers[full], stagings[full], meter)
    return matches[start:stop]


def _flush(writer: PartitionWriter | SplitWriter, staging: Staging, meter: Meter) -> None:
    with meter.clock("write"):
        meter.counters["flushes"] = meter.counters.get("flushes", 0) + int(staging.fill[0] > 0)
        writer.flush(staging)


class UnmatchedWriter(Closing):
    """Keeps the text of unmatched and ambiguous templates, compressed by block of records.

    Blocks of records are the same for any number of parts, so gather can put the pieces of all
    parts in order and always gets the same file.

    Args:
        path: block file to write, or None to keep nothing.
        files: files of the unit.
        quality_offset: byte of Phred 0 in them; what is written has 33.
    """

    def __init__(self, path: Path | None, files: int, quality_offset: int) -> None:
        self._excess = quality_offset - 33
        self._writer = BlockWriter(path) if path else None
        self._files = files
        self._pieces: list[tuple[int, int, int, int, int]] = []
        self._block = -1
        self._text: list[list[np.ndarray[Any, Any]]] = [[] for _ in range(files)]
        self._ends: list[list[np.ndarray[Any, Any]]] = [[] for _ in range(files)]

    def close(self) -> None:
        """Close the file, and remove it unless it is finished."""
        if self._writer:
            self._writer.close()

    def add(
        self,
        chunk: TemplateChunk,
        found: np.ndarray[Any, np.dtype[np.int32]],
        start: int,
        stop: int,
        record_block: int,
    ) -> None:
        """Take the refused templates of range [start, stop) of a chunk."""
        if self._writer is None:
            return
        block = (chunk.first_record + start) // record_block
        if block != self._block:
            self._close_block()
            self._block = block
        chosen = np.flatnonzero(
            (found == verdicts.UNMATCHED) | (found == verdicts.AMBIGUOUS)
        ).astype(np.int64)
        for file, mate in enumerate(chunk.mates):
            records = mate.records[start:stop][chosen]
            sizes = records[:, 1] - records[:, 0] + 2 * (records[:, 3] - records[:, 2]) + 6
            text = np.zeros(int(sizes.sum()), np.uint8)
            ends = np.zeros(chosen.size, np.int64)
            copy_records(mate.buffer, np.ascontiguousarray(records), self._excess, text, ends)
            self._text[file].append(text[: int(ends[-1])] if ends.size else text)
            self._ends[file].append(ends)

    def _close_block(self) -> None:
        if self._writer is None or not self._text[0]:
            return
        for file in range(self._files):
            sizes = np.cumsum([0, *(text.size for text in self._text[file])])
            ends = np.concatenate(
                [ends + first for ends, first in zip(self._ends[file], sizes, strict=False)]
            )
            text = np.concatenate(self._text[file])
            data = b"".join(compress_records(text, ends))
            offset = self._writer.append_bytes(data)
            self._pieces.append((file, self._block, offset, len(data), ends.size))
            self._text[file].clear()
            self._ends[file].clear()

    def finish(self) -> None:
        """Write the list of pieces and give the file its name."""
        self._close_block()
        if self._writer:
            self._writer.add("pieces", np.array(self._pieces, np.int64).reshape(-1, 5))
            self._writer.finish({"files": self._files})
