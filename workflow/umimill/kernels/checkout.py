"""What follows a match: orientation, cutting, and the rows that are staged."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import kernel
from umimill.kernels.cut import (
    FLIPPED,
    SHIFTED_BARCODE,
    UNKNOWN_IN_BARCODE,
    Rows,
    Rules,
    stage_row,
)
from umimill.kernels.match import (
    ASSIGNED,
    FLAGS,
    OFFSET_1,
    OFFSET_2,
    PARTIAL,
    ROW,
    RUN_SIDE,
    SAMPLE,
    UNRESOLVED,
    VERDICT,
    Match,
    Mates,
    reads_of,
)
from umimill.kernels.rows import REVERSED, SWAPPED
from umimill.kernels.search import reverse_read
from umimill.kernels.shifts import Table, find_shift


@kernel
def stage_templates(
    mates: Mates,
    start: int,
    stop: int,
    first_record: int,
    matches: Any,
    table: Table,
    rules: Rules,
    text: Any,
    rows: Rows,
    partial_rows: Rows,
    levels: Any,
    ledger: Any,
    counters: Any,
) -> tuple[int, int]:
    """Cut and stage templates [start, stop) of a chunk that have been matched.

    Args:
        mates: the chunk.
        start: first template of the chunk.
        stop: end.
        first_record: record number of template 0 of the chunk.
        matches: i32[>= stop, MATCH_COLUMNS]; the verdicts of what is staged become final.
        table: see Table.
        rules: see Rules.
        text: u8[*], scratch, see search.Scratch.
        rows: staged rows.
        partial_rows: staged rows whose barcode was not fully read.
        levels: i64[2, 6], of both, see note_levels.
        ledger: i64[S, VERDICTS], templates by sample and verdict; UNMATCHED and AMBIGUOUS in row 0.
        counters: i64[COUNTERS].

    Returns:
        (the first template not staged because rows are full, or `stop`; which, 1 = partial_rows).
    """
    for index in range(start, stop):
        verdict = np.int64(matches[index, VERDICT])
        sample = np.int64(0)
        if verdict == ASSIGNED:
            match = Match(
                verdict,
                np.int64(matches[index, ROW]),
                np.int64(matches[index, OFFSET_1]),
                np.int64(matches[index, OFFSET_2]),
                np.int64(0),
            )
            flags = np.int64(matches[index, FLAGS])
            read_1, read_2 = reads_of(mates, index)
            if flags == SWAPPED:
                read_1, read_2 = read_2, read_1
            elif flags == REVERSED:
                read_1 = reverse_read(read_1, rules.complements, text)
            sample = table.rows[match.row, SAMPLE]
            shift, moved = find_shift(table, match, read_1, read_2, rules.letters)
            side = table.rows[match.row, RUN_SIDE]
            match = Match(
                verdict,
                match.row,
                match.offset_1 + (moved if side == 0 else np.int64(0)),
                match.offset_2 + (moved if side == 1 else np.int64(0)),
                np.int64(0),
            )
            partial = np.int64(shift != 0)
            for _ in range(2):
                # Once more where the barcode turns out not to be fully read.
                verdict = stage_row(
                    table,
                    match,
                    shift,
                    partial,
                    read_1,
                    read_2,
                    flags,
                    first_record + index,
                    rules,
                    rows if partial == 0 else partial_rows,
                    levels[partial],
                    counters,
                )
                if verdict != PARTIAL or partial == 1:
                    break
                partial = np.int64(1)
            if verdict < 0:
                return index, partial
            if flags > 0 and verdict in (ASSIGNED, PARTIAL):
                counters[FLIPPED] += 1
            if shift != 0:
                counters[SHIFTED_BARCODE] += 1
            elif verdict in (PARTIAL, UNRESOLVED):
                counters[UNKNOWN_IN_BARCODE] += 1
            matches[index, VERDICT] = verdict
        ledger[sample, verdict] += 1
    return stop, np.int64(0)
