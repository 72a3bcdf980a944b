"""The matcher with its buffers: chunks of templates in, verdicts and staged rows out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from umimill.fastq import TemplateChunk, base_codes
from umimill.kernels import checkout as kernels
from umimill.kernels import cut
from umimill.kernels.fastq import BASES_START, BASES_STOP
from umimill.kernels.match import Foreign, Letters
from umimill.layout import SampleLayout
from umimill.partition import Staging
from umimill.patterns import compile_patterns

_PROBE_STAGING_BYTES = 1 << 20


def complements() -> npt.NDArray[np.uint8]:
    """Return u8[256]: letters to the complement; what is not A, C, G, T or U becomes N."""
    table = np.full(256, ord("N"), np.uint8)
    for letter, other in zip("ACGTUacgtu", "TGCAATGCAA", strict=True):
        table[ord(letter)] = ord(other)
    return table


@dataclass(frozen=True)
class Staged:
    """What became of a range of templates.

    Attributes:
        stop: first template that did not fit, or the end of the range.
        verdicts: u8[chunk], verdict of each template of the chunk.
    """

    stop: int
    verdicts: npt.NDArray[np.uint8]


class Matcher:
    """Matches chunks of one unit.

    Args:
        rows: layouts of the library.
        samples: number of samples.
        foreign: the alternative, from probe.
        quality_offset: byte of Phred 0.
        minimum_umi_quality: see kernels.checkout.Rules.
        unit: number of the unit.

    Attributes:
        ledger: i64[S, 7], templates by sample and verdict so far.
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
    ) -> None:
        self.patterns = compile_patterns(rows, samples)
        self.barcode_width = max(row.cell_length + row.umi_length for row in rows)
        self._foreign = foreign
        self._rules = cut.Rules(
            Letters(base_codes(), quality_offset), complements(), minimum_umi_quality, unit
        )
        self._samples = samples
        self._scratch = self._make_scratch(1024)
        self._longest = 1024
        self._levels = np.zeros(6, np.int64)
        self.ledger = np.zeros((samples, 7), np.int64)
        self.counters = np.zeros(cut.COUNTERS, np.int64)

    def _make_scratch(self, longest: int) -> kernels.Scratch:
        words = longest // 32 + 4
        return kernels.Scratch(
            words=np.zeros(words, np.uint64),
            low_words=np.zeros(words, np.uint64),
            codes=np.zeros(longest + 64, np.uint8),
            text=np.zeros(2 * longest + 256, np.uint8),
            scores=np.zeros(self.patterns.rows.shape[0], np.int64),
            sums=np.zeros(self._samples, np.uint64),
            hint=np.zeros(1, np.int64),
            best=np.zeros(4, np.int64),
        )

    def stage(self, chunk: TemplateChunk, start: int, stop: int, staging: Staging) -> Staged:
        """Match templates [start, stop) of a chunk and stage those that are assigned."""
        longest = 0
        for mate in chunk.mates:
            lengths = mate.records[:, BASES_STOP] - mate.records[:, BASES_START]
            longest = max(longest, int(lengths.max(initial=0)))
        if longest > self._longest:
            self._scratch = self._make_scratch(longest)
            self._longest = longest
        if staging.fill[0] == 0:
            self._levels[:] = 0
            staging.reserve(2 * (longest // 8 + longest // 32 + longest // 64 + 4))
        verdicts = np.zeros(chunk.count, np.uint8)
        first, last = chunk.mates[0], chunk.mates[-1]
        reached = kernels.checkout_templates(
            first.buffer,
            first.records,
            last.buffer,
            last.records,
            len(chunk.mates) - 1,
            start,
            stop,
            chunk.first_record,
            self.patterns,
            self._foreign,
            self._rules,
            self._scratch,
            cut.Rows(
                staging.hot,
                staging.barcode_quality,
                staging.starts,
                staging.cold,
                staging.fill,
                staging.seen,
            ),
            self._levels,
            verdicts,
            self.ledger,
            self.counters,
        )
        return Staged(reached, verdicts)

    def count(self, chunk: TemplateChunk) -> None:
        """Match a whole chunk and keep no row."""
        staging = Staging(_PROBE_STAGING_BYTES, self.barcode_width, 256)
        start = 0
        while start < chunk.count:
            start = self.stage(chunk, start, chunk.count, staging).stop
            staging.clear()
