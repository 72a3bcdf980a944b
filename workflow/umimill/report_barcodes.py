"""Tables of the report page on barcodes: what became of them, what was estimated, what spilled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from umimill import barcode_sums, job_sums, summary
from umimill.barcode_sums import SATURATED_SHARE
from umimill.findings import count, duration, percent, plural, size
from umimill.report_tables import (
    LARGEST_JOBS,
    NOTHING,
    Cell,
    Table,
    number_columns,
    real_cell,
    whole_cell,
    without_empty,
    word_cell,
)
from umimill.summary import Job, Library

# Stages whose tables are of barcodes.
SPILL_STAGES = ("cells", "place", "tally", "link", "settle", "move", "assemble")
TIMES = "over spilled"
# Where the barcode error is from.
BASES = {"both": "both", "census": "neighbours", "quality": "qualities", "default": "a default"}


def barcodes(libraries: Sequence[Library]) -> Table:
    """What the families of each sample were taken for."""
    reads = {s.name: s.reads for library in libraries for s in library.samples}
    rows = tuple(
        (
            word_cell(library.name),
            word_cell(name),
            whole_cell(row.families),
            whole_cell(row.corrected, percent(row.corrected, row.families)),
            whole_cell(row.corrected_reads, percent(row.corrected_reads, reads.get(name, 0))),
            whole_cell(row.molecules),
            whole_cell(row.chimera_suspects),
            whole_cell(row.shifted),
            whole_cell(row.unresolved),
            whole_cell(row.dropped),
            whole_cell(row.molecules + row.others),
        )
        for library in libraries
        for name, row in library.barcodes.items()
    )
    columns = (
        "Library",
        "Sample",
        "Families",
        "Corrected",
        "Reads corrected",
        "Molecules",
        "Chimera suspects",
        "Shifted",
        "Unresolved",
        "Dropped",
        "All left",
    )
    title = "What families were taken for"
    table = Table("barcodes-table", title, columns, number_columns(2, columns), rows, True)
    return without_empty(table, ("Shifted", "Dropped"))


def estimates(libraries: Sequence[Library]) -> Table:
    """What was estimated of each sample, and correction follows."""
    rows = tuple(
        (
            word_cell(library.name),
            word_cell(name),
            real_cell(row.error, ".1e"),
            _estimate(row.error_census),
            _estimate(row.error_quality),
            word_cell(BASES.get(row.error_basis, row.error_basis)),
            _occupancy(row.occupancy),
            _share_of_one(row.clonality),
            _share_of_one(row.chimera_rate),
        )
        for library in libraries
        for name, row in library.barcodes.items()
    )
    columns = (
        "Library",
        "Sample",
        "Barcode error",
        "by neighbours",
        "by qualities",
        "taken from",
        "Occupancy",
        "Clonality",
        "Chimera rate",
    )
    numeric = tuple(i >= 2 and i != 5 for i in range(len(columns)))
    title = "What was estimated of the barcodes"
    return Table("estimates-table", title, columns, numeric, rows, True)


def _estimate(rate: float | None) -> Cell:
    return Cell("not estimable", kind="zero") if rate is None else real_cell(rate, ".1e")


def _occupancy(share: float) -> Cell:
    cell = _share_of_one(share)
    return replace(cell, note="saturated") if share > SATURATED_SHARE else cell


def _share_of_one(share: float | None) -> Cell:
    return Cell(NOTHING) if share is None else Cell(percent(share, 1.0), share)


def corrections(libraries: Sequence[Library]) -> Table:
    """What correction did to families of so many reads, and what is expected to be wrong in it."""
    rows = tuple(
        (
            Cell(summary.bin_title(row.size.bit_length() - 1), row.size),
            whole_cell(row.families),
            whole_cell(row.corrected, percent(row.corrected, row.families)),
            _expected(row.wrong_merges, row.corrected),
            whole_cell(row.molecules),
            _expected(row.errors_left, row.molecules),
        )
        for row in barcode_sums.corrections_by_size(
            row for library in libraries for row in library.corrections
        )
    )
    columns = ("Reads", "Families", "Corrected", "wrongly", "Molecules", "errors among them")
    title = "Families by their reads before correction, and what is expected to be wrong"
    return Table("corrections-table", title, columns, (True,) * len(columns), rows)


def _expected(number: float, whole: int) -> Cell:
    """Cell of an expected number, which is no whole one: of few the first decimal counts."""
    if not number:
        return Cell("0", 0.0, kind="zero")
    text = count(number) if number >= 10 else f"{number:.1f}" if number >= 0.1 else "<0.1"
    return Cell(text, number, note=percent(number, whole))


def spilled(libraries: Sequence[Library]) -> Table:
    """The jobs that spilled most: what they held, and with how many buckets they would not."""
    found = [(job, library) for library in libraries for job in library.jobs if job.umi_spill_bytes]
    top = sorted(found, key=lambda one: -one[0].umi_spill_bytes)[:LARGEST_JOBS]
    rows = []
    for job, library in top:
        wanted = job_sums.buckets_without_spill(library, [job])
        seconds = float(job.clocks.get("spill", 0.0))
        rows.append(
            (
                Cell(job.title),
                Cell(size(job.umi_memory_bytes), job.umi_memory_bytes),
                Cell(size(job.umi_spill_bytes), job.umi_spill_bytes),
                Cell(size(job.umi_read_back_bytes), job.umi_read_back_bytes),
                Cell(duration(seconds), seconds),
                whole_cell(wanted if wanted > library.buckets else None),
            )
        )
    columns = ("Job", "Held", "Spilled", "Read back", "Time spilling", "Buckets without spill")
    title = "Jobs that spilled"
    if len(top) < len(found):
        title = f"The {count(len(top))} of {plural(len(found), 'job')} that spilled most"
    return Table("spilled-table", title, columns, number_columns(1, columns), tuple(rows))


def spill(jobs: Sequence[Job]) -> Table:
    """What the tables of barcodes held, spilled and read back, by stage."""
    rows = []
    for stage in SPILL_STAGES:
        own = [job for job in jobs if job.stage == stage]
        if not any(job.umi_memory_bytes for job in own):
            continue
        spilled = sum(job.umi_spill_bytes for job in own)
        back = sum(job.umi_read_back_bytes for job in own)
        seconds = sum(float(job.clocks.get("spill", 0.0)) for job in own)
        held = max(job.umi_memory_bytes for job in own)
        times = f"{back / spilled:.1f}" if spilled else NOTHING
        rows.append(
            (
                Cell(stage),
                Cell(count(len(own)), len(own)),
                Cell(size(held), held),
                Cell(size(spilled), spilled, kind="" if spilled else "zero"),
                Cell(size(back), back, kind="" if back else "zero"),
                Cell(times, back / spilled if spilled else None),
                Cell(duration(seconds), seconds, kind="" if seconds else "zero"),
            )
        )
    columns = ("Stage", "Jobs", "Most held", "Spilled", "Read back", TIMES, "Time spilling")
    numeric = number_columns(1, columns)
    table = Table("spill-table", "UMI tables by stage", columns, numeric, tuple(rows))
    return without_empty(table, (TIMES, "Time spilling"))
