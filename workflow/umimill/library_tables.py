"""The tables of a library that the report reads: ledger, sizes, samples, barcodes, provenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umimill import tables
from umimill.files import read_json, write_json
from umimill.kernels import match as columns
from umimill.layout import SampleLayout, sample_layouts
from umimill.model import read_estimates
from umimill.outcomes import CORRECTED, OUTCOMES
from umimill.patterns import compile_patterns
from umimill.refine_tables import write_refine_tables

# A searched layout accepts one foreign read in a hundred at most.
SEARCH_CHANCE = 0.01
# What the table of barcodes takes from the model, in the order of its columns.
_ESTIMATES = (
    "clonality",
    "error",
    "error_basis",
    "error_census",
    "error_quality",
    "chimera_rate",
    "shift_rate",
)


@dataclass(frozen=True)
class LibrarySettings:
    """What was asked for a library.

    Attributes:
        library: its name.
        layouts: rows (sample, layout, layout of read 2 or nothing).
        reads: files of each unit.
        probes: probe's answer for each unit.
        model: model of the library.
        buckets: n.
        parts: parts of a unit.
        floor: error floor.
        minimum_reads: molecules of fewer reads get no record.
        method, minimum_posterior: how barcodes with errors are found.
        suspects: whether families that are taken for no molecule get a record.
        cell_list: file of its cell barcodes, or None.
        limit_reads: templates read of each unit; 0 = all.
    """

    library: str
    layouts: Sequence[Sequence[str | None]]
    reads: Mapping[str, Sequence[str]]
    probes: Mapping[str, Path]
    model: Path
    buckets: int
    parts: int
    floor: float
    minimum_reads: int
    method: str = "posterior"
    minimum_posterior: float = 0.5
    suspects: bool = False
    cell_list: str | None = None
    limit_reads: int = 0


def write_library_tables(index: Mapping[str, Any], settings: LibrarySettings, folder: Path) -> None:
    """Write the tables and provenance.json of a library.

    Args:
        index: what index found (index.py).
        settings: what was asked.
        folder: where to write.
    """
    library = settings.library
    tables.write_tsv(
        folder / "ledger.tsv",
        tables.LEDGER,
        (
            (stage, library, sample or ".", line, templates)
            for stage, sample, line, templates in index["ledger"]
        ),
    )
    names = [entry["sample"] for entry in index["samples"]]
    reads: Counter[str] = Counter()
    for stage, sample, line, templates in index["ledger"]:
        if (stage, line) in (("checkout", "assigned"), ("place", "placed")):
            reads[sample] += templates
    tables.write_tsv(
        folder / "sizes.tsv",
        tables.SAMPLE_SIZES,
        (
            (library, sample, size, count)
            for sample, sizes in zip(names, index["sizes"], strict=True)
            for size, count in sizes
        ),
    )
    tables.write_tsv(
        folder / "samples.tsv",
        tables.SAMPLES,
        (
            (
                library,
                entry["sample"],
                reads[entry["sample"]],
                *sample_summary(sizes, entry, totals, settings.minimum_reads),
            )
            for entry, sizes, totals in zip(
                index["samples"], index["sizes"], index["totals"], strict=True
            )
        ),
    )
    tables.write_tsv(
        folder / "outcomes.tsv",
        tables.OUTCOMES,
        (
            (library, sample, 1 << size, OUTCOMES[outcome], families, templates)
            for sample, held in zip(names, index["outcomes"], strict=True)
            for size, outcome, families, templates in held
        ),
    )
    estimates = read_estimates(settings.model)
    keys = {sample: numbers for sample, _, *numbers in index["merges"]["keys"]}
    tables.write_tsv(
        folder / "barcodes.tsv",
        tables.BARCODES,
        (
            (
                library,
                sample,
                *barcode_summary(held, estimates[sample]),
                *key_summary(*keys.get(number, (0, 0, 0))),
            )
            for number, (sample, held) in enumerate(zip(names, index["outcomes"], strict=True))
        ),
    )
    errors = [estimates[sample]["error"] for sample in names]
    write_refine_tables(index, library, errors, folder)
    write_json(folder / "provenance.json", provenance(index, settings))


def sample_summary(
    sizes: Sequence[Sequence[int]],
    entry: Mapping[str, Any],
    totals: Sequence[int],
    minimum_reads: int,
) -> tuple[int, int, float, float, float, float, int]:
    """Summarise a sample; the columns behind library, sample and reads.

    Args:
        sizes: ascending (reads, molecules of so many reads).
        entry: the sample in the index.
        totals: called columns, sum of their qualities, and of 2^20 times their p_error.
        minimum_reads: molecules of fewer reads have no record.
    """
    kept = [(size, count) for size, count in sizes if size >= minimum_reads]
    molecules = sum(count for _, count in kept)
    reads = sum(size * count for size, count in sizes)
    kept_reads = sum(size * count for size, count in kept)
    called, quality_sum, error_sum = totals
    return (
        molecules,
        entry["molecule_count"],
        kept_reads / molecules if molecules else 0.0,
        median_size(kept),
        quality_sum / called if called else 0.0,
        error_sum / (1 << 20) / called if called else 0.0,
        reads - kept_reads,
    )


def barcode_summary(held: Sequence[Sequence[int]], estimates: Mapping[str, Any]) -> list[Any]:
    """Summarise the barcodes of a sample; the columns behind library and sample.

    Args:
        held: rows [size, outcome, families, reads] of the sample.
        estimates: what the model says of it; see model.report_fields.
    """
    counts = [[0, 0] for _ in OUTCOMES]
    for _, outcome, families, reads in held:
        counts[outcome][0] += families
        counts[outcome][1] += reads
    (molecules, _), *others = counts[:CORRECTED]
    values = [
        sum(families for families, _ in counts),
        *counts[CORRECTED],
        molecules,
        *(number for pair in others for number in pair),
        estimates["barcode_length"],
        estimates["effective_length"],
        estimates["space"],
        # The model's own is of families, of which many are errors.
        molecules / estimates["space"],
        *(estimates[name] for name in _ESTIMATES),
    ]
    return ["" if value is None else value for value in values]


def key_summary(barcodes: int, pairs: int, agreeing: int) -> tuple[int, float | str]:
    """Return the last columns of the table of barcodes.

    Args:
        barcodes: barcodes that were read.
        pairs: ordered pairs of reads of one barcode.
        agreeing: those of one family.
    """
    return barcodes, agreeing / pairs if pairs else ""


def median_size(sizes: Sequence[tuple[int, int]]) -> float:
    """Return the median reads of a molecule from ascending (size, count)."""
    total = sum(count for _, count in sizes)
    if not total:
        return 0.0
    middle = []
    for place in ((total - 1) // 2, total // 2):
        behind = 0
        for size, count in sizes:
            behind += count
            if behind > place:
                middle.append(size)
                break
    return sum(middle) / 2


def chance_matches(rows: Sequence[SampleLayout], samples: int, foreign: int) -> list[float | None]:
    """Return how many of `foreign` reads each sample gets by chance; None = nothing is scored."""
    patterns = compile_patterns(rows, samples)
    found: list[float | None] = []
    for sample in range(samples):
        own = [row for row in patterns.rows if row[columns.SAMPLE] == sample]
        perfect = [int(row[columns.PERFECT : columns.PERFECT + 2].sum()) for row in own]
        if min(perfect) == 0:
            found.append(None)
        elif patterns.posterior:
            found.append(foreign * min(1.0, sum(2.0 ** (-bits / 1024) for bits in perfect)))
        else:
            found.append(foreign * SEARCH_CHANCE * len(own) / len(rows))
    return found


def provenance(index: Mapping[str, Any], settings: LibrarySettings) -> dict[str, Any]:
    """Return inputs, layouts and settings of a library as plain values."""
    samples, rows = sample_layouts(settings.layouts)
    probes = {unit: read_json(path) for unit, path in settings.probes.items()}
    foreign = sum(
        templates
        for stage, _, line, templates in index["ledger"]
        if stage == "checkout" and line == "unmatched"
    )
    chances = chance_matches(rows, len(samples), foreign)
    return {
        "layouts": [
            {
                "sample": sample,
                "layout": layout,
                "layout_read2": layout_read2 or None,
                "umi_length": row.umi_length,
                "cell_length": row.cell_length,
                "anchored": all(side.anchored for side in row.sides if side),
            }
            for (sample, layout, layout_read2), row in zip(settings.layouts, rows, strict=True)
        ],
        "units": [
            {
                "unit": unit,
                "read1": files[0],
                "read2": files[1] if len(files) > 1 else None,
                "templates": index["unit_templates"].get(unit, 0),
                "phred_offset": probes[unit]["quality_offset"],
                "quality_levels": probes[unit]["quality_levels"],
            }
            for unit, files in settings.reads.items()
        ],
        "buckets": settings.buckets,
        "parts": settings.parts,
        "floor": settings.floor,
        "min_reads": settings.minimum_reads,
        "refine_method": settings.method,
        "min_posterior": settings.minimum_posterior,
        "suspects": settings.suspects,
        "cell_list": settings.cell_list,
        "limit_reads": settings.limit_reads,
        "expected_chance_matches": {
            sample: chance
            for sample, chance in zip(samples, chances, strict=True)
            if chance is not None
        },
    }
