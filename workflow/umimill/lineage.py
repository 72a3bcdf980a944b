"""lineage: what became of every read of a library, a row each, in the order of units and records.

Names and verdicts come from checkout, molecules from assemble, in the order of barcodes. These are
cut into spans of records that fit into memory, on disk where they do not fit all together; a span
at a time is put in order by its record numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from umimill import tables
from umimill.checkout import LIBRARY_LINES, SAMPLE_LINES, UNPLACED
from umimill.errors import UmimillError
from umimill.files import read_json, whole_file
from umimill.fragments import LEFT_LINES
from umimill.kernels.match import ASSIGNED, PARTIAL
from umimill.lineage_rows import LINEAGE, read_lineage
from umimill.metrics import Meter
from umimill.read_names import OF_LIBRARY, NamedReads, UnitNames
from umimill.shelf import Scratch, Shelf
from umimill.statuses import STATUSES

LINEAGE_VERSION = "1"
TABLE = pa.schema(
    [
        pa.field("unit", pa.string(), nullable=False),
        pa.field("record", pa.uint64(), nullable=False),
        pa.field("read", pa.string(), nullable=False),
        pa.field("sample", pa.string()),
        pa.field("stage", pa.string(), nullable=False),
        pa.field("line", pa.string(), nullable=False),
        pa.field("status", pa.string()),
        pa.field("cell", pa.string()),
        pa.field("umi", pa.string()),
        pa.field("family", pa.int32()),
        pa.field("molecule_id", pa.string()),
    ],
    metadata={"umimill.table": "lineage", "umimill.schema": LINEAGE_VERSION},
)
REPEATED = ("unit", "sample", "stage", "line", "status")
# Lines by verdict of checkout, and behind them those of assemble.
VERDICTS = {number: line for line, number in {**LIBRARY_LINES, **SAMPLE_LINES}.items()}
CHECKOUT_LINES = [VERDICTS[number] for number in range(len(VERDICTS))]
# Where reads end: what checkout leaves out, by verdict, then what later stages do.
LINES = (
    *(("checkout", line) for line in CHECKOUT_LINES),
    ("place", "off_list"),
    ("settle", "unresolved"),
    *(("assemble", line) for line in ("voted", *LEFT_LINES)),
)
OFF_LIST = len(CHECKOUT_LINES)
NOT_FOUND, ASSEMBLED = OFF_LIST + 1, OFF_LIST + 2
SHELF_SHARE = 0.25
SPAN_SHARE = 0.15

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Sources:
    """What lineage reads.

    Attributes:
        index: index of the library.
        units: its units, in order.
        names: checkout's names, unit after unit and part after part.
        fragments: assemble's lineage of all buckets.
    """

    index: Path
    units: Sequence[str]
    names: Sequence[Path]
    fragments: Sequence[Path]


class Spans:
    """Runs of records of all units, each of which fits into memory.

    Args:
        records: records of each unit.
        most: records of a span.
    """

    def __init__(self, records: Sequence[int], most: int) -> None:
        self.most = most
        counts = [-(-count // most) for count in records]
        self._first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def of(self, rows: Array) -> npt.NDArray[np.int64]:
        """Return the span of each row, i64[n]."""
        spans: npt.NDArray[np.int64] = self._first[rows["unit"]] + rows["record"] // self.most
        return spans

    def holding(self, unit: int, record: int) -> int:
        """Return the span that holds a record."""
        return int(self._first[unit]) + record // self.most


class Counts:
    """Templates by sample and ledger line, to be held against the index.

    Args:
        samples: number of samples; lines of the library count as one more.
    """

    def __init__(self, samples: int) -> None:
        self.verdicts = np.zeros((samples + 1, len(CHECKOUT_LINES)), np.int64)
        self.ends = np.zeros((samples + 1, len(LINES)), np.int64)

    def check(self, index: Mapping[str, Any]) -> None:
        """Make sure that all templates are where the ledger has them.

        Raises:
            UmimillError: naming the line.
        """
        samples = [*(entry["sample"] for entry in index["samples"]), None]
        due: Counter[tuple[str, str | None, str]] = Counter()
        for stage, sample, line, templates in index["ledger"]:
            # What was set aside for place was assigned before.
            due[stage, sample, "assigned" if line == UNPLACED else line] += templates
        found: dict[tuple[str, str | None, str], int] = {}
        for row, sample in enumerate(samples):
            for line, count in zip(CHECKOUT_LINES, self.verdicts[row].tolist(), strict=True):
                found["checkout", sample, line] = count
            ends = self.ends[row, OFF_LIST:].tolist()
            for (stage, line), count in zip(LINES[OFF_LIST:], ends, strict=True):
                found[stage, sample, line] = count
        for place, templates in due.items():
            if found.get(place, templates) != templates:
                stage, sample, line = place
                raise UmimillError(
                    f"{stage}, {sample or 'library'}: {templates:,} templates are {line}, but "
                    f"{found[place]:,} reads of the lineage are; delete results/partition and "
                    "run again"
                )


def lineage(
    sources: Sources,
    parts: int,
    output: Path,
    meter: Meter,
    *,
    span_records: int | None = None,
    shelf_bytes: int | None = None,
) -> None:
    """Write what became of every read.

    Args:
        sources: files to read.
        parts: parts of a unit.
        output: table to write, schema TABLE.
        meter: metrics of the job.
        span_records: records that are put in order at a time; None takes it from the budget.
        shelf_bytes: memory for the rows of all spans; None takes it from the budget.

    Raises:
        UmimillError: where reads are missing, or not where the ledger has them.
    """
    index = read_json(sources.index)
    names = [sources.names[at : at + parts] for at in range(0, len(sources.names), parts)]
    records = []
    for paths in names:
        with UnitNames(paths) as unit_names:
            records.append(unit_names.records)
            block = unit_names.record_block
    if span_records is None:
        span_records = int(meter.budget_bytes * SPAN_SHARE) // LINEAGE.itemsize
    spans = Spans(records, max(1, span_records // block) * block)
    counts = Counts(len(index["samples"]))
    with (
        Scratch(meter) as scratch,
        whole_file(output) as temporary,
    ):
        shelf_bytes = shelf_bytes or int(meter.budget_bytes * SHELF_SHARE)
        shelf = scratch.shelf(LINEAGE, shelf_bytes)
        with meter.clock("sort"):
            for path in sources.fragments:
                for rows in read_lineage(path):
                    shelf.scatter(spans.of(rows), rows)
        writer = tables.TableWriter(temporary, TABLE, REPEATED)
        listed = any(stage == "place" for stage, *_ in index["ledger"])
        names_of_samples = [entry["sample"] for entry in index["samples"]]
        maker = TableMaker(names_of_samples, counts, listed=listed)
        for number, (unit, paths) in enumerate(zip(sources.units, names, strict=True)):
            with UnitNames(paths) as unit_names:
                for reads, rows in _joined(number, unit_names, spans, shelf):
                    with meter.clock("compress"):
                        writer.add(maker.table(unit, reads, rows))
                    meter.reads += reads.reads.size
        writer.close()
        counts.check(index)
        meter.written_bytes = temporary.stat().st_size


def _joined(
    unit: int, unit_names: UnitNames, spans: Spans, shelf: Shelf
) -> Iterator[tuple[NamedReads, Array]]:
    """Yield reads of a unit in order, with the row of each: LINEAGE[n], `kept` 255 for none."""
    span = -1
    held = np.empty(0, LINEAGE)
    for reads in unit_names.blocks():
        first = reads.first_record
        if first // spans.most != span:
            span = first // spans.most
            held = np.zeros(min(spans.most, unit_names.records - first), LINEAGE)
            held["kept"] = 255
            for rows in shelf.take(spans.holding(unit, first)):
                held[rows["record"] - first] = rows
        start = first - span * spans.most
        yield reads, held[start : start + reads.reads.size]


class TableMaker:
    """Makes reads into rows of the table.

    Args:
        samples: samples of the library.
        counts: templates so far.
        listed: whether cells are on a list, so that reads are left out by place.
    """

    def __init__(self, samples: Sequence[str], counts: Counts, *, listed: bool) -> None:
        self._listed = listed
        self._samples = pa.array([*samples, None], pa.string())
        self._counts = counts

    def table(self, unit: str, reads: NamedReads, rows: Array) -> Any:
        """Return a table of schema TABLE.

        Args:
            unit: their unit.
            reads: n reads of consecutive records.
            rows: LINEAGE[n], `kept` 255 where a read is in no molecule.

        Raises:
            UmimillError: where a read was assigned and is nowhere, or the other way round.
        """
        count = rows.size
        verdict = reads.reads["verdict"].astype(np.int64)
        found = rows["kept"] != 255
        assigned = verdict == ASSIGNED
        off_list = ~found & assigned & self._listed
        partial = verdict == PARTIAL
        lost = np.flatnonzero((found != assigned) & ~off_list & ~partial)
        if lost.size:
            record = reads.first_record + int(lost[0]) + 1
            raise UmimillError(
                f"unit {unit}, record {record:,}: checkout and assemble disagree on whether it is "
                "in a molecule; delete results/partition and run again"
            )
        sample = np.where(np.isin(verdict, OF_LIBRARY), -1, reads.reads["sample"].astype(np.int64))
        sample[found] = rows["sample"][found]
        status = rows["status"].astype(np.int64)
        # voted, below_filter, then the statuses behind molecule.
        left = np.select([off_list, partial], [OFF_LIST, NOT_FOUND], verdict)
        end = np.where(found, ASSEMBLED + np.where(rows["kept"] == 1, 0, 1 + status), left)
        np.add.at(self._counts.verdicts, (sample, verdict), 1)
        np.add.at(self._counts.ends, (sample, end), 1)
        none = ~found
        cell_length = rows["cell_length"].astype(np.int64)
        umi_length = rows["umi_length"].astype(np.int64)
        cell = tables.cell_strings(rows["original_key"], cell_length)
        umi = tables.umi_strings(
            rows["original_key"],
            cell_length,
            rows["original_umi_length"].astype(np.int64),
            rows["original_n_mask"],
        )
        samples = self._samples.take(pa.array(sample % len(self._samples)))
        names = tables.molecule_names(
            samples,
            tables.cell_strings(rows["key"], cell_length),
            tables.barcode_strings(rows["key"], cell_length, umi_length),
            pa.array(rows["number"].astype(np.int32) + 1),
            rows["several"] == 1,
        )
        return pa.table(
            [
                tables.chosen_strings([unit], np.zeros(count, np.uint8)),
                pa.array(np.arange(count, dtype=np.uint64) + np.uint64(reads.first_record)),
                name_strings(reads),
                samples,
                tables.chosen_strings([stage for stage, _ in LINES], end),
                tables.chosen_strings([line for _, line in LINES], end),
                _known(tables.chosen_strings(STATUSES, status), none),
                cell,
                _known(umi, none),
                pa.array(rows["original_family"].astype(np.int32), mask=none),
                _known(names, none),
            ],
            schema=TABLE,
        )


def _known(values: Any, none: Array) -> Any:
    """Return pyarrow strings, null where `none`."""
    return pc.if_else(pa.array(none), pa.scalar(None, pa.string()), values)


def name_strings(reads: NamedReads) -> Any:
    """Return names as a pyarrow string array; bytes that are no UTF-8 as backslash codes."""
    stops = reads.reads["stop"].astype(np.int64)
    if reads.text.size and int(reads.text.max()) > 127:
        starts = np.concatenate([[0], stops[:-1]])
        data = reads.text.tobytes()
        pieces = [
            data[start:stop].decode("utf-8", "backslashreplace")
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
        ]
        return pa.array(pieces, pa.string())
    offsets = np.concatenate([[0], stops]).astype(np.int32)
    return pa.StringArray.from_buffers(
        stops.size, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(reads.text))
    )
