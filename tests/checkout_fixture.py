"""Templates through the kernels of checkout, and what the oracle makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import oracle_match
from kernel_cases import (
    LETTERS,
    compiled,
    foreign_of,
    oracle_rows,
    read_back,
    row_scratch,
    scratch_for,
    text_of,
)
from oracle import HAS_UNKNOWN, Template
from oracle_match import ASSIGNED, Read
from umimill.kernels import checkout as kernels
from umimill.kernels import cut as cut_kernels
from umimill.kernels import pairs as pair_kernels
from umimill.kernels import posterior, search
from umimill.kernels.match import VERDICTS, Mates, Patterns
from umimill.kernels.search import Scratch
from umimill.layout import SampleLayout, check_row
from umimill.matching import complements, staged_rows, table_of
from umimill.partition_writer import Staging

EMPTY: Read = ("", [])
EVEN = (0.25, 0.25, 0.25, 0.25)
SHARE = 0.02
Pair = tuple[Read, Read]


@dataclass
class Outcome:
    verdicts: list[int]
    rows: list[Template]
    ledger: Any
    counters: list[int]
    seen: set[int]
    partial: list[Template] = field(default_factory=list)


def laid_out(reads: Sequence[Read]) -> tuple[Any, Any]:
    """Return text and records of reads."""
    records = np.zeros((len(reads), 5), np.int32)
    data = b""
    for number, (bases, qualities) in enumerate(reads):
        data += b"@r\n"
        records[number, 2:4] = len(data), len(data) + len(bases)
        records[number, 4] = len(data) + len(bases) + 3
        data += bases.encode() + b"\n+\n" + bytes(33 + one for one in qualities) + b"\n"
    return text_of(data), records


def layouts_of(layouts: Sequence[tuple[str, str]], samples: Sequence[int]) -> list[SampleLayout]:
    return [
        SampleLayout(sample, check_row(*pair).sides)
        for sample, pair in zip(samples, layouts, strict=True)
    ]


def checkout(
    layouts: Sequence[SampleLayout],
    pairs: Sequence[Pair],
    paired: bool,
    minimum: int = 0,
    row_limit: int = 1000,
    partial: bool = False,
) -> Outcome:
    """Run the kernel until all templates are through, emptying the rows where they are full."""
    patterns = compiled(layouts)
    width = max(row.cell_length + row.umi_length for row in layouts)
    longest = max([len(one) for pair in pairs for one, _ in pair], default=0)
    stagings = Staging(1, width, 64), Staging(1, width + 1, 64)
    for staging in stagings:
        staging.hot = staging.hot[:row_limit].copy()
        staging.reserve(2 * (longest // 8 + longest // 32 + longest // 64 + 4))
        staging.hot["n_mask"] = 7
        staging.barcode_quality[:] = 99
        staging.cold[:] = 0xDEADBEEFDEADBEEF
    rules = cut_kernels.Rules(LETTERS, complements(), minimum, 3, int(partial), 0)
    first, second = (laid_out([pair[mate] for pair in pairs]) for mate in range(2))
    mates = Mates(*first, *(second if paired else first), int(paired))
    result = Outcome([], [], np.zeros((patterns.samples, VERDICTS), np.int64), [], set())
    counters = np.zeros(cut_kernels.COUNTERS, np.int64)
    matches, levels = np.full((len(pairs), 5), 99, np.int32), np.zeros((2, 6), np.int64)
    scratch = scratch_for(longest)
    match_templates(mates, len(pairs), patterns, rules, scratch, matches)
    start = 0
    while start < len(pairs):
        stop, full = kernels.stage_templates(
            mates,
            start,
            len(pairs),
            1000,
            matches,
            table_of(patterns),
            rules,
            scratch.text,
            *map(staged_rows, stagings),
            levels,
            result.ledger,
            counters,
        )
        assert stagings[full].fill[0] or stop == len(pairs)
        for staging, rows in zip(stagings, (result.rows, result.partial), strict=True):
            count, words = staging.fill.tolist()
            rows += read_back(
                staging.hot[:count],
                staging.barcode_quality[:count],
                staging.starts[:count].tolist(),
                staging.cold[:words],
            )
            result.seen |= set(np.flatnonzero(staging.seen).tolist())
            staging.clear()
        levels[:] = 0
        start = stop
    result.verdicts, result.counters = matches[:, 0].tolist(), counters.tolist()
    return result


def match_templates(
    mates: Mates, count: int, patterns: Patterns, rules: Any, scratch: Scratch, matches: Any
) -> None:
    """Match as umimill.matching does."""
    buffers, places = row_scratch(patterns)
    letters, others = rules.letters, rules.complements
    if patterns.posterior:
        foreign = foreign_of(SHARE, EVEN)
        posterior.weigh_templates(mates, 0, count, patterns, foreign, letters, buffers, matches)
    elif patterns.two_sided:
        pair_kernels.search_pairs(
            mates, 0, count, patterns, letters, others, scratch, places, matches
        )
    else:
        search.search_templates(mates, 0, count, patterns, letters, others, scratch, matches)


def expect(
    layouts: Sequence[SampleLayout],
    pairs: Sequence[Pair],
    paired: bool,
    minimum: int = 0,
    partial: bool = False,
) -> tuple[Outcome, set[int]]:
    """Return what the oracle makes of templates, and those whose verdict rounding may change."""
    rows = oracle_rows(layouts)
    anchored = all(side.anchored for row in rows for side in row.sides)
    two_sided = any(row.sides[1].symbols for row in rows)
    composition = dict.fromkeys("ACGTN", 0.25)
    result = Outcome(
        [], [], np.zeros((1 + max(row.sample for row in rows), VERDICTS), np.int64), [], set()
    )
    counters: Counter[int] = Counter()
    doubtful = set()

    def search(reads: Pair) -> Sequence[int]:
        return (
            oracle_match.search_both(rows, reads)
            if two_sided
            else (*oracle_match.search(rows, reads[0]), 0)
        )

    for number, pair in enumerate(pairs):
        reads = pair if paired else (pair[0], EMPTY)
        flags = 0
        if anchored:
            found = oracle_match.posterior(rows, reads, SHARE / (1 - SHARE), composition)
            if found.doubt <= 0 or len(found.verdicts) > 1:
                doubtful.add(number)
            place: Sequence[int] = (max(found.verdicts), found.row, 0, 0)
        else:
            place, reads, flags = oracle_match.both_ways(search, reads, paired)
        verdict, row, *offsets = place
        sample = 0
        if verdict == ASSIGNED:
            sample = rows[row].sample
            verdict, cut, shift = oracle_match.cut(
                rows[row], (offsets[0], offsets[1]), reads, minimum, partial=partial
            )
            counters[cut_kernels.SHIFTED_BARCODE] += shift != 0
            not_read = verdict in (oracle_match.UNRESOLVED, oracle_match.PARTIAL)
            counters[cut_kernels.UNKNOWN_IN_BARCODE] += not_read and shift == 0
            if cut:
                counters[cut_kernels.FLIPPED] += flags > 0
                counters[cut_kernels.UNKNOWN_IN_PAYLOAD] += bool(cut.flags & HAS_UNKNOWN)
                counters[cut_kernels.PAYLOAD_BASES] += len("".join(cut.payload))
                result.seen |= {value for values in cut.quality for value in values}
                cut = replace(cut, record=1000 + number, unit=3, flags=cut.flags | flags)
                (result.rows if verdict == ASSIGNED else result.partial).append(cut)
        result.verdicts.append(verdict)
        result.ledger[sample, verdict] += 1
    result.counters = [counters[place] for place in range(cut_kernels.COUNTERS)]
    return result, doubtful


def check(
    layouts: Sequence[SampleLayout],
    pairs: Sequence[Pair],
    paired: bool,
    minimum: int = 0,
    row_limit: int = 1000,
    partial: bool = False,
) -> Outcome:
    _, doubtful = expect(layouts, pairs, paired, minimum, partial)
    pairs = [pair for number, pair in enumerate(pairs) if number not in doubtful]
    expected, _ = expect(layouts, pairs, paired, minimum, partial)
    found = checkout(layouts, pairs, paired, minimum, row_limit, partial)
    assert found.partial == expected.partial
    assert found.verdicts == expected.verdicts
    assert found.rows == expected.rows
    assert found.ledger.tolist() == expected.ledger.tolist()
    assert found.counters == expected.counters
    if row_limit == 1000:
        # A fifth value ends the search for levels.
        assert found.seen <= expected.seen
        assert len(found.seen) >= min(5, len(expected.seen))
    return found
