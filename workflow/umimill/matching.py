"""The matcher with its buffers: chunks of templates in, verdicts and staged rows out.

Which kernel matches is decided by the layouts (kernels/match.py); one kernel stages for all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from umimill.fastq import TemplateChunk, base_codes
from umimill.kernels import checkout, cut, pairs, posterior, search, shifts
from umimill.kernels.fastq import BASES_START, BASES_STOP
from umimill.kernels.match import (
    MATCH_COLUMNS,
    SAMPLE,
    VERDICTS,
    Foreign,
    Letters,
    Mates,
    Patterns,
)
from umimill.layout import SampleLayout
from umimill.partition_writer import Staging
from umimill.patterns import compile_patterns

Matches = npt.NDArray[np.int32]

_PROBE_STAGING_BYTES = 1 << 20


def complements() -> npt.NDArray[np.uint8]:
    """Return u8[256]: letters to the complement; what is not A, C, G, T or U becomes N."""
    table = np.full(256, ord("N"), np.uint8)
    for letter, other in zip("ACGTUacgtu", "TGCAATGCAA", strict=True):
        table[ord(letter)] = ord(other)
    return table


class Matcher:
    """Matches chunks of one unit.

    Args:
        rows: layouts of the library.
        samples: number of samples.
        foreign: the alternative, from probe.
        quality_offset: byte of Phred 0.
        minimum_umi_quality: see kernels.checkout.Rules.
        unit: number of the unit.
        partial: whether to stage rows whose barcode was not fully read.
        unknown_cell_bases: how many bases of a cell may be unknown.

    Attributes:
        barcode_width: bases of the longest barcode.
        ledger: i64[S, VERDICTS], templates by sample and verdict so far.
        counters: i64[*], see kernels.checkout.
    """

    def __init__(
        self,
        rows: Sequence[SampleLayout],
        samples: int,
        foreign: Foreign,
        quality_offset: int,
        *,
        minimum_umi_quality: int = 0,
        unit: int = 0,
        partial: bool = False,
        unknown_cell_bases: int = 0,
    ) -> None:
        self.patterns = compile_patterns(rows, samples)
        self.barcode_width = max(row.cell_length + row.umi_length for row in rows)
        self._foreign = foreign
        self._rules = cut.Rules(
            Letters(base_codes(), quality_offset),
            complements(),
            minimum_umi_quality,
            unit,
            int(partial),
            unknown_cell_bases,
        )
        self._table = table_of(self.patterns)
        self._row_scratch = posterior.RowScratch(
            rows=np.zeros(len(rows) + 1, np.int64),
            scores=np.zeros(len(rows), np.int64),
            sums=np.zeros(samples, np.uint64),
            words=np.zeros(3, np.uint64),
        )
        self._places = np.zeros((len(rows), pairs.PLACE_COLUMNS), np.int64)
        self._scratch = _make_scratch(1024)
        self._longest = 1024
        self._levels = np.zeros((2, 6), np.int64)
        self.ledger = np.zeros((samples, VERDICTS), np.int64)
        self.counters = np.zeros(cut.COUNTERS, np.int64)

    def match(self, chunk: TemplateChunk, start: int, stop: int) -> Matches:
        """Match templates [start, stop) of a chunk.

        Returns:
            i32[chunk, MATCH_COLUMNS], of which rows start..stop are filled.
        """
        longest = _longest(chunk)
        if longest > self._longest:
            self._scratch = _make_scratch(longest)
            self._longest = longest
        matches = np.zeros((chunk.count, MATCH_COLUMNS), np.int32)
        mates, letters, patterns = _mates(chunk), self._rules.letters, self.patterns
        if patterns.posterior:
            posterior.weigh_templates(
                mates,
                start,
                stop,
                patterns,
                self._foreign,
                letters,
                self._row_scratch,
                matches,
            )
        elif patterns.two_sided:
            pairs.search_pairs(
                mates,
                start,
                stop,
                patterns,
                letters,
                self._rules.complements,
                self._scratch,
                self._places,
                matches,
            )
        else:
            search.search_templates(
                mates,
                start,
                stop,
                patterns,
                letters,
                self._rules.complements,
                self._scratch,
                matches,
            )
        return matches

    @property
    def row_samples(self) -> npt.NDArray[np.int64]:
        """i64[R], sample of each row of the layouts."""
        samples: npt.NDArray[np.int64] = self.patterns.rows[:, SAMPLE]
        return samples

    def stage(
        self,
        chunk: TemplateChunk,
        matches: Matches,
        start: int,
        stop: int,
        stagings: Sequence[Staging],
    ) -> tuple[int, int]:
        """Stage the matched templates of [start, stop) that are assigned.

        Args:
            chunk: the templates.
            matches: what `match` found; verdicts become final.
            start: first template.
            stop: end.
            stagings: where rows go, and those whose barcode was not fully read: wider by a base.

        Returns:
            (the first template that did not fit, or `stop`; the number of the staging that is
            full).
        """
        for staging, levels in zip(stagings, self._levels, strict=True):
            if staging.fill[0] == 0:
                levels[:] = 0
                longest = self._longest
                staging.reserve(2 * (longest // 8 + longest // 32 + longest // 64 + 4))
        reached, full = checkout.stage_templates(
            _mates(chunk),
            start,
            stop,
            chunk.first_record,
            matches,
            self._table,
            self._rules,
            self._scratch.text,
            staged_rows(stagings[0]),
            staged_rows(stagings[1]),
            self._levels,
            self.ledger,
            self.counters,
        )
        return int(reached), int(full)

    def count(self, chunk: TemplateChunk) -> None:
        """Match a whole chunk and keep no row."""
        matches = self.match(chunk, 0, chunk.count)
        stagings = (
            Staging(_PROBE_STAGING_BYTES, self.barcode_width, 256),
            Staging(1, self.barcode_width + 1, 256),
        )
        start = 0
        while start < chunk.count:
            start, _ = self.stage(chunk, matches, start, chunk.count, stagings)
            for staging in stagings:
                staging.clear()


def table_of(patterns: Patterns) -> shifts.Table:
    """Return what the stager needs of the patterns."""
    return shifts.Table(*(getattr(patterns, name) for name in shifts.Table._fields))


def staged_rows(staging: Staging) -> cut.Rows:
    """Return a staging as the kernel takes it."""
    return cut.Rows(
        staging.hot,
        staging.barcode_quality,
        staging.starts,
        staging.cold,
        staging.fill,
        staging.seen,
    )


def _make_scratch(longest: int) -> search.Scratch:
    words = longest // 32 + 4
    return search.Scratch(
        words=np.zeros(words, np.uint64),
        words_2=np.zeros(words, np.uint64),
        low_words=np.zeros(words, np.uint64),
        codes=np.zeros(longest + 64, np.uint8),
        text=np.zeros(2 * longest + 256, np.uint8),
        hint=np.zeros(1, np.int64),
        best=np.zeros(4, np.int64),
    )


def _longest(chunk: TemplateChunk) -> int:
    return max(
        int((mate.records[:, BASES_STOP] - mate.records[:, BASES_START]).max(initial=0))
        for mate in chunk.mates
    )


def _mates(chunk: TemplateChunk) -> Mates:
    first, last = chunk.mates[0], chunk.mates[-1]
    return Mates(first.buffer, first.records, last.buffer, last.records, len(chunk.mates) - 1)
