"""One pass over the templates of a chunk: match, cut, pack into staged rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from umimill.jit import inline_kernel, inner_kernel, kernel
from umimill.kernels.bases import pack_text
from umimill.kernels.cut import FLIPPED, Rows, Rules, stage_row
from umimill.kernels.fastq import BASES_START, BASES_STOP, QUALITIES_START
from umimill.kernels.match import ASSIGNED, SAMPLE, UNMATCHED, Foreign, Match, Patterns, Read
from umimill.kernels.posterior import match_anchored
from umimill.kernels.rows import REVERSED, SWAPPED
from umimill.kernels.search import match_both_sides, match_searched

U = np.uint64


class Scratch(NamedTuple):
    """Buffers of a worker: words and letters of the longest read, with padding.

    Attributes:
        words: u64[*], packed bases.
        low_words: u64[*], masks.
        codes: u8[*], one byte a base.
        text: u8[*], a reversed read: bases, and qualities from `text_half` on.
        scores: i64[R].
        sums: u64[S].
        hint: i64[1], offset of the last hit.
        best: i64[4], best offset so far.
    """

    words: Any
    low_words: Any
    codes: Any
    text: Any
    scores: Any
    sums: Any
    hint: Any
    best: Any


@inline_kernel
def read_of(buffer: Any, records: Any, index: int) -> Read:
    """Return the read of a record."""
    bases = np.int64(records[index, BASES_START])
    return Read(
        buffer,
        bases,
        np.int64(records[index, QUALITIES_START]),
        np.int64(records[index, BASES_STOP]) - bases,
    )


@inner_kernel
def reverse_read(read: Read, complements: Any, text: Any) -> Read:
    """Write the reverse complement of a read into text, u8[>= 2 * length + 128]."""
    half = text.size // 2
    for position in range(read.length):
        last = read.length - 1 - position
        text[position] = complements[read.text[read.bases + last]]
        text[half + position] = read.text[read.qualities + last]
    return Read(text, np.int64(0), np.int64(half), read.length)


@inline_kernel
def match_template(
    patterns: Patterns, read_1: Read, read_2: Read, foreign: Foreign, rules: Rules, scratch: Scratch
) -> Match:
    """Match one orientation of a template."""
    if patterns.posterior == 1:
        return match_anchored(
            patterns,
            read_1,
            read_2,
            foreign,
            rules.letters,
            scratch.scores,
            scratch.sums,
        )
    if patterns.two_sided == 1:
        return match_both_sides(patterns, read_1, read_2, rules.letters)
    words = (read_1.length + 31) >> 5
    pack_text(read_1.text, read_1.bases, read_1.length, scratch.words, 0)
    scratch.words[words] = U(0)
    scratch.words[words + 1] = U(0)
    scratch.low_words[words] = U(0)
    scratch.low_words[words + 1] = U(0)
    match = match_searched(
        patterns,
        read_1,
        scratch.words,
        scratch.low_words,
        scratch.codes,
        rules.letters,
        scratch.hint[0],
        scratch.best,
    )
    if match.verdict == ASSIGNED:
        scratch.hint[0] = match.offset_1
    return match


@kernel
def checkout_templates(
    buffer_1: Any,
    records_1: Any,
    buffer_2: Any,
    records_2: Any,
    paired: int,
    start: int,
    stop: int,
    first_record: int,
    patterns: Patterns,
    foreign: Foreign,
    rules: Rules,
    scratch: Scratch,
    rows: Rows,
    levels: Any,
    verdicts: Any,
    ledger: Any,
    counters: Any,
) -> int:
    """Match and stage templates [start, stop) of a chunk.

    Args:
        buffer_1: u8[*], text of mate 1.
        records_1: i32[*, 5].
        buffer_2: u8[*], text of mate 2 (of mate 1 where there is one file).
        records_2: i32[*, 5].
        paired: 1 for pairs.
        start: first template of the chunk.
        stop: end.
        first_record: record number of template 0 of the chunk.
        patterns: layouts of the library.
        foreign: the alternative.
        rules: see Rules.
        scratch: see Scratch.
        rows: staged rows.
        levels: i64[6], see note_levels.
        verdicts: u8[>= stop], filled.
        ledger: i64[S, 7], templates by sample and verdict; UNMATCHED and AMBIGUOUS in row 0.
        counters: i64[COUNTERS].

    Returns:
        The first template not staged because the rows are full, or `stop`.
    """
    for index in range(start, stop):
        read_1 = read_of(buffer_1, records_1, index)
        if paired == 1:
            read_2 = read_of(buffer_2, records_2, index)
        else:
            read_2 = Read(buffer_1, np.int64(0), np.int64(0), np.int64(0))
        flags = 0
        match = Match(UNMATCHED, -1, 0, 0, 0)
        for turn in range(2):
            if turn == 1:
                # Only a read that is clearly foreign is looked at the other way round.
                if match.verdict != UNMATCHED or patterns.posterior == 1:
                    break
                if paired == 1:
                    read_1, read_2 = read_2, read_1
                    flags = SWAPPED
                else:
                    read_1 = reverse_read(read_1, rules.complements, scratch.text)
                    flags = REVERSED
            match = match_template(patterns, read_1, read_2, foreign, rules, scratch)
        verdict = match.verdict
        sample = 0
        if verdict == ASSIGNED:
            sample = patterns.rows[match.row, SAMPLE]
            verdict = stage_row(
                patterns,
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
        verdicts[index] = verdict
        ledger[sample, verdict] += 1
    return stop
