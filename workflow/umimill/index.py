"""index: check the books of a library, and list where each sample's fragments are.

The one job between all buckets and gather: its output lists paths, offsets and lengths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill.blockfile import BlockFile
from umimill.checkout import LIBRARY_LINES, SAMPLE_LINES
from umimill.errors import UmimillError
from umimill.files import read_json, write_json
from umimill.library_tables import LibrarySettings, write_library_tables
from umimill.metrics import SCHEMA, Meter, sum_ledger
from umimill.plan import Plan, read_plan

FRAGMENT_START = 8  # behind the head of a block file


def index(
    plan_path: Path,
    mates: Sequence[Sequence[Path]],
    molecules: Sequence[Path],
    jobs: Sequence[Path],
    output: Path,
    folder: Path,
    settings: LibrarySettings,
    meter: Meter,
) -> None:
    """Check that every template is accounted for, and write the list of fragments.

    Args:
        plan_path: plan of the library.
        mates: FASTQ fragments of each mate, by bucket.
        molecules: molecule fragments, by bucket.
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
            "mates": [[] for _ in mates],
            "molecules": [],
            "records": 0,
            "molecule_count": 0,
        }
        for sample in plan.samples
    ]
    hash_sums = np.zeros(len(plan.samples), np.uint64)
    sizes: list[dict[int, int]] = [{} for _ in plan.samples]
    totals = np.zeros((len(plan.samples), 3), np.int64)
    for path in molecules:
        with BlockFile(path) as file:
            hash_sums += file.read("hash_sums")
            totals += file.read("totals")
            _list_molecules(file, path, entries)
            for sample, size, count in file.read("sizes").tolist():
                sizes[sample][size] = sizes[sample].get(size, 0) + count
    for mate, paths in enumerate(mates):
        for path in paths:
            _list_mate(path, mate, entries)
    ledger = check_books(plan, metrics, hash_sums)
    meter.reads = int(plan.rows.sum())
    found = {
        "library": meter.library,
        "samples": entries,
        "sizes": [sorted(held.items()) for held in sizes],
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


def check_books(
    plan: Plan, jobs: Sequence[Mapping[str, Any]], hash_sums: npt.NDArray[np.uint64]
) -> list[list[Any]]:
    """Check that the lines of every stage sum to those of the stage before.

    Args:
        plan: plan of the library.
        jobs: metrics of all jobs.
        hash_sums: u64[S], row hashes as assemble read them.

    Returns:
        Ledger rows [stage, sample or None, line, templates].

    Raises:
        UmimillError: naming stage, sample and both numbers.
    """
    checkout = sum_ledger(jobs, "checkout")
    tally = sum_ledger(jobs, "tally")
    assemble = sum_ledger(jobs, "assemble")
    templates = sum(int(job["reads"]) for job in jobs if job["stage"] == "checkout")
    _close("checkout", "all lines", sum(checkout.values()), "templates read", templates)
    for number, sample in enumerate(plan.samples):
        assigned = checkout[sample, "assigned"]
        name = f"sample {sample}"
        _close(name, "rows of the partition", int(plan.rows[number]), "assigned", assigned)
        _close(name, "reads in families", tally[sample, "families"], "assigned", assigned)
        done = assemble[sample, "voted"] + assemble[sample, "below_filter"]
        _close(name, "reads assembled", done, "assigned", assigned)
        if int(plan.hash_sums[number]) != int(hash_sums[number]):
            raise UmimillError(
                f"{name}: the rows assembled are not the rows partitioned (their hashes differ); "
                "delete results/partition and results/plan and run again"
            )
    rows: list[list[Any]] = [
        ["checkout", None, line, checkout[None, line]] for line in LIBRARY_LINES
    ]
    for sample in plan.samples:
        rows += [["checkout", sample, line, checkout[sample, line]] for line in SAMPLE_LINES]
        rows.append(["tally", sample, "families", tally[sample, "families"]])
        rows += [
            ["assemble", sample, line, assemble[sample, line]] for line in ("voted", "below_filter")
        ]
    return rows


def _close(where: str, first_name: str, first: int, second_name: str, second: int) -> None:
    if first != second:
        raise UmimillError(
            f"{where}: {first:,} {first_name} but {second:,} {second_name}; this is a fault of "
            "umimill or of the disk: please report it"
        )
