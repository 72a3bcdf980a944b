"""probe: what a unit's reads are like, decided once from its first 10,000 templates.

Decides the quality encoding, measures base composition and the share of foreign reads, and checks
that the layouts fit. Every part of the unit reads the answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from umimill.errors import UmimillError
from umimill.fastq import TemplateChunk, base_codes, first_templates, read_templates
from umimill.files import write_json
from umimill.kernels import fastq as kernels
from umimill.kernels.match import UNMATCHED, Foreign
from umimill.layout import SampleLayout, sample_layouts
from umimill.matching import Matcher
from umimill.metrics import Meter
from umimill.patterns import log2_scaled

PROBE_TEMPLATES = 10_000
# Not even a perfect library is free of foreign reads; with a prior of zero no read could be one.
LEAST_FOREIGN = Decimal("0.001")
MOST_FOREIGN = Decimal("0.9")


def quality_offset(histogram: Sequence[int], name: str) -> int:
    """Decide the byte of Phred 0 from the quality bytes met.

    Phred+64 has bytes 64 to 106. A Phred+33 file in that range would have no quality below 31 and
    some above 43, which no instrument gives; long reads go up to byte 126.

    Raises:
        UmimillError: where the bytes are those of Solexa's odds-based scale.
    """
    met = [byte for byte, count in enumerate(histogram) if count]
    if not met or met[-1] <= 76 or met[-1] > 106:
        return 33
    if met[0] >= 64:
        return 64
    if met[0] >= 59:
        raise UmimillError(
            f"{name}: quality bytes {met[0]} to {met[-1]} are Solexa's scale, which is not read; "
            "convert the file to Phred+33"
        )
    return 33


def probe(
    reads: Sequence[Path],
    layouts: Sequence[Sequence[str | None]],
    output: Path,
    meter: Meter,
) -> None:
    """Look at the first templates of a unit and write what was found as JSON.

    Args:
        reads: one file, or the two of a pair.
        layouts: rows (sample, layout, layout of read 2 or nothing) of the library.
        output: JSON file to write.
        meter: metrics of the job.

    Raises:
        FastqError: where the files cannot be read.
        UmimillError: where no read is long enough for a layout.
    """
    samples, rows = sample_layouts(layouts)
    codes = base_codes()
    qualities = np.zeros(256, np.int64)
    bases = np.zeros(5, np.int64)
    longest = [0, 0]
    digest = hashlib.sha256()
    templates = 0
    for chunk in _first_chunks(reads):
        for side, mate in enumerate(chunk.mates):
            kernels.count_qualities(mate.buffer, mate.records, mate.count, qualities)
            kernels.count_bases(mate.buffer, mate.records, mate.count, codes, bases)
            lengths = mate.records[:, kernels.BASES_STOP] - mate.records[:, kernels.BASES_START]
            longest[side] = max(longest[side], int(lengths.max()))
            for name, _, start, stop, quality in mate.records.tolist():
                digest.update(mate.buffer[name:stop])
                digest.update(mate.buffer[quality : quality + stop - start])
        templates += chunk.count
    offset = quality_offset(qualities.tolist(), str(reads[0]))
    if templates:
        _check_lengths(reads, layouts, rows, longest)
    base_scores = _base_scores(bases)
    foreign, found = _foreign_share(reads, rows, len(samples), offset, base_scores)
    meter.reads = templates
    odds = foreign / (1 - foreign)
    write_json(
        output,
        {
            "reads": [str(path) for path in reads],
            "templates": templates,
            "quality_offset": offset,
            "quality_levels": [byte - offset for byte in np.flatnonzero(qualities).tolist()],
            "longest": longest,
            "bases": bases.tolist(),
            "base_scores": base_scores,
            "foreign_share": float(foreign),
            "foreign_prior": log2_scaled(odds),
            "assigned": dict(zip(samples, found, strict=True)),
            "digest": digest.hexdigest() if templates else None,
        },
    )


def _first_chunks(reads: Sequence[Path]) -> Iterator[TemplateChunk]:
    chunks = read_templates(tuple(reads), chunk_records=PROBE_TEMPLATES)
    return first_templates(chunks, PROBE_TEMPLATES)


def _check_lengths(
    reads: Sequence[Path],
    layouts: Sequence[Sequence[str | None]],
    rows: Sequence[SampleLayout],
    longest: Sequence[int],
) -> None:
    for spelled, row in zip(layouts, rows, strict=True):
        for side, layout in enumerate(row.sides):
            if layout and len(layout.symbols) > longest[side]:
                raise UmimillError(
                    f"{reads[side]}: layout {spelled[1 + side]} of sample {spelled[0]} takes "
                    f"{len(layout.symbols)} bases, but the longest of the first reads has "
                    f"{longest[side]}; correct the layout, or exchange read1 and read2"
                )


def _base_scores(bases: Any) -> list[int]:
    """Return 1024 log2(4 p) of A, C, G, T, one read added to each count, and 0 for N."""
    counts = [int(count) + 1 for count in bases[:4]]
    total = sum(counts)
    return [log2_scaled(Decimal(4 * count) / total) for count in counts] + [0]


def _foreign_share(
    reads: Sequence[Path],
    rows: Sequence[SampleLayout],
    samples: int,
    offset: int,
    base_scores: Sequence[int],
) -> tuple[Decimal, list[int]]:
    """Match the first templates under the least prior; return the share refused, and counts."""
    least = log2_scaled(LEAST_FOREIGN / (1 - LEAST_FOREIGN))
    foreign = Foreign(least, np.array(base_scores, np.int64))
    matcher = Matcher(rows, samples, foreign, offset)
    for chunk in _first_chunks(reads):
        matcher.count(chunk)
    total = int(matcher.ledger.sum())
    assigned = matcher.ledger[:, 0]
    if not total:
        return LEAST_FOREIGN, assigned.tolist()
    share = Decimal(int(matcher.ledger[:, UNMATCHED].sum())) / total
    return min(max(share, LEAST_FOREIGN), MOST_FOREIGN), assigned.tolist()
