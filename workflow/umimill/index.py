"""index: check the books of a library, and list where each sample's fragments are.

The one job between all buckets and gather: its output lists paths, offsets and lengths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile
from umimill.checkout import LIBRARY_LINES, SAMPLE_LINES, UNPLACED
from umimill.errors import UmimillError
from umimill.files import read_json, write_json
from umimill.fragments import LEFT_LINES
from umimill.library_tables import LibrarySettings, write_library_tables
from umimill.metrics import SCHEMA, Meter, sum_ledger
from umimill.outcomes import CORRECTED
from umimill.plan import Plan, read_plan
from umimill.refine_tables import RefineSums
from umimill.route import read_routes

PLACE_LINES = ("placed", "off_list")
TALLY_LINES = ("families", "partial")
SETTLE_LINES = ("kept", "corrected", "placed", "unresolved")
ASSEMBLE_LINES = ("voted", *LEFT_LINES)
FRAGMENT_START = 8  # behind the head of a block file


@dataclass(frozen=True)
class Fragments:
    """Files of a library that gather reads, each by bucket.

    Attributes:
        mates: FASTQ fragments of each mate.
        molecules: molecule fragments.
        families: tally's tables.
        fates: move's fates of their families.
    """

    mates: tuple[Sequence[Path], ...]
    molecules: Sequence[Path]
    families: Sequence[Path]
    fates: Sequence[Path]


def index(
    plan_path: Path,
    fragments: Fragments,
    routes: Path,
    jobs: Sequence[Path],
    output: Path,
    folder: Path,
    settings: LibrarySettings,
    meter: Meter,
) -> None:
    """Check that every template is accounted for, and write the list of fragments.

    Args:
        plan_path: plan of the library.
        fragments: what the buckets made.
        routes: route's list of the library.
        jobs: metrics of all jobs of the library so far.
        output: index to write.
        folder: folder for the library's metrics: jobs.json and the tables of the report.
        settings: what was asked for the library.
        meter: metrics of the job.

    Raises:
        UmimillError: where a sum does not close.
    """
    plan = read_plan(plan_path)
    metrics = [read_json(path) for path in jobs]
    entries: list[dict[str, Any]] = [
        {
            "sample": sample,
            "mates": [[] for _ in fragments.mates],
            "molecules": [],
            "families": [],
            "partials": [],
            "records": 0,
            "molecule_count": 0,
        }
        for sample in plan.samples
    ]
    hash_sums = np.zeros((2, len(plan.samples)), np.uint64)
    sizes: list[dict[int, int]] = [{} for _ in plan.samples]
    totals = np.zeros((len(plan.samples), 3), np.int64)
    for path in fragments.molecules:
        with BlockFile(path) as file:
            hash_sums += file.read("hash_sums")
            totals += file.read("totals")
            _list_molecules(file, path, entries)
            for sample, size, count in file.read("sizes").tolist():
                sizes[sample][size] = sizes[sample].get(size, 0) + count
    for mate, paths in enumerate(fragments.mates):
        for path in paths:
            _list_mate(path, mate, entries)
    outcomes: list[dict[tuple[int, int], tuple[int, int]]] = [{} for _ in plan.samples]
    sums = RefineSums()
    for paths in zip(fragments.families, fragments.fates, strict=True):
        _list_families(*paths, entries, outcomes, sums)
    moved = read_routes(routes)
    ledger = check_books(plan, metrics)
    check_outcomes(entries, outcomes, ledger)
    check_rows(plan, hash_sums[0] + moved.read_hash_sums, plan.hash_sums, "partition")
    check_rows(plan, hash_sums[1], moved.written_hash_sums, "move")
    check_rows(plan, moved.partial_hash_sums, plan.partial_hash_sums, "partition")
    meter.reads = int(plan.rows.sum())
    found = {
        "library": meter.library,
        "samples": entries,
        "sizes": [sorted(held.items()) for held in sizes],
        "outcomes": [[[*place, *held[place]] for place in sorted(held)] for held in outcomes],
        **sums.plain(),
        "totals": totals.tolist(),
        "ledger": ledger,
        "unit_templates": unit_templates(metrics),
    }
    write_json(output, found)
    write_json(folder / "jobs.json", {"schema": SCHEMA, "library": meter.library, "jobs": metrics})
    write_library_tables(found, settings, folder)


def _list_molecules(file: BlockFile, path: Path, entries: Sequence[dict[str, Any]]) -> None:
    start = 0
    counts = file.read("sample_molecules").tolist()
    records = file.read("records").tolist()
    for entry, count, written in zip(entries, counts, records, strict=True):
        if count:
            entry["molecules"].append([str(path), start, start + count])
        start += count
        entry["molecule_count"] += count
        entry["records"] += written


def _list_families(
    families: Path,
    fates: Path,
    entries: Sequence[dict[str, Any]],
    outcomes: Sequence[dict[tuple[int, int], tuple[int, int]]],
    sums: RefineSums,
) -> None:
    start = partial_start = 0
    with BlockFile(fates) as file:
        sums.add(families, file)
        for sample, size, outcome, count, reads in file.read("outcomes").tolist():
            before = outcomes[sample].get((size, outcome), (0, 0))
            outcomes[sample][size, outcome] = (before[0] + count, before[1] + reads)
        for entry, count in zip(entries, file.read("sample_families").tolist(), strict=True):
            if count:
                entry["families"].append([str(families), str(fates), start, start + count])
            start += count
        for entry, count in zip(entries, file.read("sample_partials").tolist(), strict=True):
            if count:
                entry["partials"].append([str(fates), partial_start, partial_start + count])
            partial_start += count


def _list_mate(path: Path, mate: int, entries: Sequence[dict[str, Any]]) -> None:
    start = FRAGMENT_START
    with BlockFile(path) as file:
        for entry, length in zip(entries, file.read("sample_bytes").tolist(), strict=True):
            if length:
                entry["mates"][mate].append([str(path), start, start + length])
            start += length


def unit_templates(jobs: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the templates that checkout read of each unit."""
    found: dict[str, int] = {}
    for job in jobs:
        if job["stage"] == "checkout":
            found[job["unit"]] = found.get(job["unit"], 0) + int(job["reads"])
    return found


def check_rows(
    plan: Plan, found: npt.NDArray[np.uint64], due: npt.NDArray[np.uint64], folder: str
) -> None:
    """Check that the rows assembled are those that were written.

    Args:
        plan: plan of the library.
        found: u64[S], sums of hashes of the rows that were read.
        due: u64[S], sums of hashes of the rows that were written.
        folder: folder of the files, below results.

    Raises:
        UmimillError: naming the sample.
    """
    for sample, one, other in zip(plan.samples, found.tolist(), due.tolist(), strict=True):
        if one != other:
            raise UmimillError(
                f"sample {sample}: the rows assembled are not the rows written (their hashes "
                f"differ); delete results/{folder} and results/plan and run again"
            )


def check_books(plan: Plan, jobs: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Check that the lines of every stage sum to those of the stage before.

    Args:
        plan: plan of the library.
        jobs: metrics of all jobs.

    Returns:
        Ledger rows [stage, sample or None, line, templates].

    Raises:
        UmimillError: naming stage, sample and both numbers.
    """
    # Of a job that is missing, each line is 0.
    stages = ("checkout", "place", "tally", "settle", "assemble")
    checkout, place, tally, settle, assemble = (
        Counter(sum_ledger(jobs, stage)) for stage in stages
    )
    places = any(job["stage"] == "place" for job in jobs)
    templates = sum(int(job["reads"]) for job in jobs if job["stage"] == "checkout")
    _close("checkout", "all lines", sum(checkout.values()), "templates read", templates)
    for number, sample in enumerate(plan.samples):
        name = f"sample {sample}"
        aside = checkout[sample, UNPLACED]
        decided = sum(place[sample, line] for line in PLACE_LINES)
        _close(name, "reads placed or not", decided, "set aside for place", aside)
        assigned = checkout[sample, "assigned"] + place[sample, "placed"]
        _close(name, "rows of the partition", int(plan.rows[number]), "assigned", assigned)
        _close(name, "reads in families", tally[sample, "families"], "assigned", assigned)
        settled = settle[sample, "kept"] + settle[sample, "corrected"]
        _close(name, "reads settled", settled, "assigned", assigned)
        partial, rows = checkout[sample, "partial"], int(plan.partial_rows[number])
        _close(name, "rows of the partition", rows, "partial", partial)
        _close(name, "partial reads listed", tally[sample, "partial"], "partial", partial)
        placed = settle[sample, "placed"]
        settled = placed + settle[sample, "unresolved"]
        _close(name, "partial reads settled", settled, "partial", partial)
        done = sum(assemble[sample, line] for line in ASSEMBLE_LINES)
        _close(name, "reads assembled", done, "assigned or placed", assigned + placed)
    found: list[list[Any]] = [
        ["checkout", None, line, checkout[None, line]] for line in LIBRARY_LINES
    ]
    for sample in plan.samples:
        lines = (*SAMPLE_LINES, UNPLACED) if places else SAMPLE_LINES
        found += [["checkout", sample, line, checkout[sample, line]] for line in lines]
        if places:
            found += [["place", sample, line, place[sample, line]] for line in PLACE_LINES]
        found += [["tally", sample, line, tally[sample, line]] for line in TALLY_LINES]
        found += [["settle", sample, line, settle[sample, line]] for line in SETTLE_LINES]
        found += [["assemble", sample, line, assemble[sample, line]] for line in ASSEMBLE_LINES]
    return found


def check_outcomes(
    entries: Sequence[Mapping[str, Any]],
    outcomes: Sequence[Mapping[tuple[int, int], tuple[int, int]]],
    ledger: Sequence[Sequence[Any]],
) -> None:
    """Check that what families became is what was assembled.

    Args:
        entries: samples of the index.
        outcomes: of each sample, {(size, outcome): (families, reads)}; see outcomes.py.
        ledger: rows of `check_books`.

    Raises:
        UmimillError: naming the sample and both numbers.
    """
    lines = {(stage, sample, line): templates for stage, sample, line, templates in ledger}
    for entry, held in zip(entries, outcomes, strict=True):
        sample = entry["sample"]
        kept = [numbers for (_, outcome), numbers in held.items() if outcome != CORRECTED]
        moved = [numbers for (_, outcome), numbers in held.items() if outcome == CORRECTED]
        for first_name, first, second_name, second in (
            ("families kept", sum(n for n, _ in kept), "assembled", entry["molecule_count"]),
            (
                "reads of families kept",
                sum(reads for _, reads in kept),
                "assigned or placed",
                assigned_reads(ledger, sample) + lines["settle", sample, "placed"],
            ),
            (
                "reads of families corrected",
                sum(reads for _, reads in moved),
                "corrected",
                lines["settle", sample, "corrected"],
            ),
        ):
            _close(f"sample {sample}", first_name, first, second_name, second)


def assigned_reads(ledger: Sequence[Sequence[Any]], sample: str) -> int:
    """Return the reads of a sample that went on: assigned by checkout, or placed."""
    return sum(
        templates
        for stage, name, line, templates in ledger
        if name == sample and (stage, line) in (("checkout", "assigned"), ("place", "placed"))
    )


def _close(where: str, first_name: str, first: int, second_name: str, second: int) -> None:
    if first != second:
        raise UmimillError(
            f"{where}: {first:,} {first_name} but {second:,} {second_name}; this is a fault of "
            "umimill or of the disk: please report it"
        )
