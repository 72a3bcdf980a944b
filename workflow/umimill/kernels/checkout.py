"""What follows a match: orientation, cutting, and the rows that are staged."""

from __future__ import annotations

from typing import Any

import numpy as np

from umimill.jit import kernel
from umimill.kernels.cut import FLIPPED, Rows, Rules, Table, stage_row
from umimill.kernels.match import (
    ASSIGNED,
    FLAGS,
    OFFSET_1,
    OFFSET_2,
    ROW,
    SAMPLE,
    VERDICT,
    Match,
    Mates,
    reads_of,
)
from umimill.kernels.rows import REVERSED, SWAPPED
from umimill.kernels.search import reverse_read


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
    levels: Any,
    ledger: Any,
    counters: Any,
) -> int:
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
        levels: i64[6], see note_levels.
        ledger: i64[S, 7], templates by sample and verdict; UNMATCHED and AMBIGUOUS in row 0.
        counters: i64[COUNTERS].

    Returns:
        The first template not staged because the rows are full, or `stop`.
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
            verdict = stage_row(
                table,
                match,
                read_1,
                read_2,
                flags,
                first_record + index,
                rules,
                rows,
                levels,
                counters,
            )
            if verdict < 0:
                return index
            if flags > 0 and verdict == ASSIGNED:
                counters[FLIPPED] += 1
            matches[index, VERDICT] = verdict
        ledger[sample, verdict] += 1
    return stop
