"""A library of the report, made up: its tables, its ledger, which closes, and its jobs."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refine_tables_fixture import COLUMNS as REFINE_COLUMNS
from refine_tables_fixture import refine_rows

VERSIONS = {
    "umimill": "0.1.0",
    "algorithm": 1,
    "python": "3.11.7",
    "numpy": "2.4.6",
    "numba": "0.68.1",
    "snakemake": "9.27.1",
    "host": "node-07",
    "cpu": "Example CPU @ 2.40GHz",
}
READS_PER_SECOND = {
    "probe": 4_000_000,
    "checkout": 1_300_000,
    "tally": 5_000_000,
    "link": 6_000_000,
    "move": 9_000_000,
    "assemble": 900_000,
    "gather": 8_000_000,
}
SHARES = {
    "probe": {"decode": 0.7, "match": 0.2},
    "checkout": {"decode": 0.31, "match": 0.33, "sort": 0.12, "compress": 0.02, "write": 0.08},
    "plan": {"sort": 0.4, "write": 0.3},
    "tally": {"decode": 0.2, "sort": 0.55, "write": 0.1},
    "model": {"decode": 0.1, "model": 0.7},
    "link": {"decode": 0.1, "match": 0.7, "sort": 0.1, "write": 0.05},
    "settle": {"match": 0.4, "sort": 0.3, "write": 0.1},
    "move": {"sort": 0.7, "write": 0.2},
    "route": {"write": 0.6},
    "assemble": {"decode": 0.14, "sort": 0.08, "model": 0.41, "compress": 0.24, "write": 0.06},
    "index": {"write": 0.6},
    "gather": {"decode": 0.1, "write": 0.75},
}
BARCODES = """families corrected corrected_reads molecules chimera_suspects chimera_suspect_reads
unresolved unresolved_reads dropped dropped_reads shifted shifted_reads
barcode_length effective_length space occupancy clonality error error_basis error_census
error_quality chimera_rate shift_rate barcodes agreement"""


@dataclass(frozen=True)
class LibrarySpec:
    """What to make up: molecules by sample, and how the jobs were cut."""

    name: str
    samples: Mapping[str, int]
    buckets: int = 1
    units: int = 1
    mean_reads: float = 5.0
    lost: Mapping[str, float] | None = None
    spill_buckets: Sequence[int] = ()
    min_reads: int = 1
    metadata: Mapping[str, str] | None = None
    layout: str = "^NNNNNNNNNNNNtGGACGT"
    correct: bool = True

    def errors(self, molecules: int) -> int:
        """Families of one read that were taken for errors."""
        return molecules // 3 if self.correct else 0

    def suspects(self, molecules: int) -> int:
        """Families of one read taken for chimeras; a third are shifted, a sixth unresolved."""
        return molecules // 50 if self.correct else 0


def write_library(folder: Path, spec: LibrarySpec, rng: random.Random) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {name: _draw_sizes(spec, n, rng) for name, n in spec.samples.items()}
    ledger = _ledger(spec, sizes)
    jobs = _jobs(spec, ledger, rng)
    _write_json(folder / "jobs.json", {"schema": 1, "library": spec.name, "jobs": jobs[:-2]})
    _write_json(folder / "index.json", jobs[-2])
    _write_json(folder / "gather.1.json", jobs[-1])
    kept = [row for row in ledger if row[0] != "gather"]
    _write_tsv(
        folder / "ledger.tsv",
        ("stage", "library", "sample", "line", "templates"),
        [(stage, spec.name, sample or ".", line, n) for stage, sample, line, n in kept],
    )
    _write_tsv(
        folder / "sizes.tsv",
        ("library", "sample", "family_size", "count"),
        [(spec.name, name, k, n) for name, h in sizes.items() for k, n in sorted(h.items())],
    )
    _write_tsv(
        folder / "outcomes.tsv",
        ("library", "sample", "reads_from", "outcome", "families", "reads"),
        [(spec.name, name, *row) for name in spec.samples for row in _outcomes(spec, sizes[name])],
    )
    _write_refine_tables(folder, spec, sizes)
    _write_tsv(
        folder / "barcodes.tsv",
        ("library", "sample", *BARCODES.split()),
        [(spec.name, name, *_barcode_row(spec, sizes[name])) for name in spec.samples],
    )
    header = "reads molecules molecules_all mean_reads_per_molecule median_reads_per_molecule"
    _write_tsv(
        folder / "samples.tsv",
        ("library", "sample", *header.split(), "mean_quality", "posterior_error", "below_filter"),
        [(spec.name, name, *_sample_row(spec, sizes[name])) for name in spec.samples],
    )
    _write_json(folder / "provenance.json", _provenance(spec, ledger))


def _draw_sizes(spec: LibrarySpec, molecules: int, rng: random.Random) -> Counter[int]:
    centre = math.log(spec.mean_reads) - 0.32
    return Counter(max(1, round(rng.lognormvariate(centre, 0.8))) for _ in range(molecules))


def _outcomes(spec: LibrarySpec, sizes: Counter[int]) -> list[tuple[int, str, int, int]]:
    """Families by size and what they became, as if no molecule but single reads had errors."""
    found: dict[tuple[int, str], list[int]] = {}
    molecules = sizes.total()
    errors, suspects = spec.errors(molecules), spec.suspects(molecules)
    singles = (("chimera_suspect", suspects), ("shifted", suspects // 3))
    singles += (("unresolved", suspects // 2 - suspects // 3), ("corrected", errors))
    for size, count in sizes.items():
        cell = found.setdefault((1 << (size.bit_length() - 1), "molecule"), [0, 0])
        cell[0], cell[1] = cell[0] + count, cell[1] + size * count
    for outcome, count in singles:
        if count:
            found[1, outcome] = [count, count]
    return [(size, outcome, *cell) for (size, outcome), cell in sorted(found.items())]


def _write_refine_tables(
    folder: Path, spec: LibrarySpec, sizes: Mapping[str, Counter[int]]
) -> None:
    made = {
        name: refine_rows(h, spec.errors(h.total()), _others(spec, h)) for name, h in sizes.items()
    }
    for table, columns in REFINE_COLUMNS.items():
        rows = [(spec.name, name, *row) for name, found in made.items() for row in found[table]]
        _write_tsv(folder / f"{table}.tsv", ("library", "sample", *columns.split()), rows)


def _barcode_row(spec: LibrarySpec, sizes: Counter[int]) -> tuple[Any, ...]:
    molecules = sizes.total()
    errors, suspects = spec.errors(molecules), spec.suspects(molecules)
    unresolved, shifted = suspects // 2 - suspects // 3, suspects // 3
    families = molecules + errors + suspects + unresolved + shifted
    others = [suspects, suspects, unresolved, unresolved, 0, 0, shifted, shifted]
    counts = (families, errors, errors, molecules, *others)
    space = 4.0**12
    if not molecules:
        return (*counts, 0, 0, 1, 0, 0, 0.001, "default", "", "", 0, 0, 0, "")
    error = ("0.0012", "both", "0.0011", "0.0019")
    filled = f"{molecules / space:.6g}"
    return (*counts, 12, 11.9, space, filled, 0.08, *error, 0.0031, 0.0004, families, 0.97)


def _others(spec: LibrarySpec, sizes: Counter[int]) -> int:
    suspects = spec.suspects(sizes.total())
    return suspects + suspects // 2


def _sample_row(spec: LibrarySpec, sizes: Counter[int]) -> tuple[Any, ...]:
    reads = sum(k * n for k, n in sizes.items())
    kept = sum(n for k, n in sizes.items() if k >= spec.min_reads)
    below = sum(k * n for k, n in sizes.items() if k < spec.min_reads)
    if not reads:
        return (0, 0, 0, "", "", "", "", 0)
    others = _others(spec, sizes)
    every = sizes.total() + others
    ordered = sorted(sizes.elements())
    quality = 31.0 + 1.3 * math.log2(spec.mean_reads) + (reads % 17) / 20
    mean = f"{reads / len(ordered):.4g}"
    error = f"{10 ** (-quality / 10):.6g}"
    return (
        reads + others,
        kept,
        every,
        mean,
        ordered[len(ordered) // 2],
        f"{quality:.2f}",
        error,
        below,
    )


def _ledger(
    spec: LibrarySpec, sizes: Mapping[str, Counter[int]]
) -> list[tuple[str, str | None, str, int]]:
    rows: list[tuple[str, str | None, str, int]] = []
    reads = {name: sum(k * n for k, n in h.items()) + _others(spec, h) for name, h in sizes.items()}
    total = sum(reads.values())
    lost = spec.lost or {}
    came = total / (1 - sum(lost.values()))
    for line in ("unmatched", "ambiguous"):
        rows.append(("checkout", None, line, round(came * lost.get(line, 0))))
    for line in ("too_short", "low_umi_quality", "empty_payload", "unresolved"):
        for name in sizes:
            part = reads[name] / total if total else 0.0
            rows.append(("checkout", name, line, round(came * lost.get(line, 0) * part)))
    for name, h in sizes.items():
        below = sum(k * n for k, n in h.items() if k < spec.min_reads)
        rows.append(("checkout", name, "assigned", reads[name]))
        rows.append(("plan", name, "planned", reads[name]))
        rows.append(("tally", name, "families", reads[name]))
        errors, suspects = spec.errors(h.total()), spec.suspects(h.total())
        rows.append(("settle", name, "kept", reads[name] - errors))
        rows.append(("settle", name, "corrected", errors))
        voted = reads[name] - below - _others(spec, h)
        rows.append(("assemble", name, "voted", voted))
        rows.append(("assemble", name, "below_filter", below))
        rows.append(("assemble", name, "chimera_suspect", suspects))
        rows.append(("assemble", name, "shifted", suspects // 3))
        rows.append(("assemble", name, "unresolved", suspects // 2 - suspects // 3))
        kept = sum(n for k, n in h.items() if k >= spec.min_reads)
        rows.append(("gather", name, "records", kept))
    return rows


def _jobs(
    spec: LibrarySpec, ledger: Sequence[tuple[str, str | None, str, int]], rng: random.Random
) -> list[dict[str, Any]]:
    came = sum(n for stage, _, _, n in ledger if stage == "checkout")
    given = sum(n for stage, _, line, n in ledger if (stage, line) == ("checkout", "assigned"))
    clock = [1_772_000_000.0]
    plan: list[tuple[str, str | None, str | None, str | None, int]] = []
    for unit in _units(spec):
        plan.append(("probe", unit, None, None, min(10_000, came // spec.units)))
        plan.append(("checkout", unit, "1-of-1", None, came // spec.units))
    plan.append(("plan", None, None, None, 0))
    buckets = [f"{i}-of-{spec.buckets}" for i in range(1, spec.buckets + 1)]
    weights = [rng.uniform(0.6, 1.4) for _ in buckets]
    for stage in ("tally", "model", "link", "settle", "move", "route", "assemble"):
        if stage in ("model", "settle", "route"):
            plan.append((stage, None, None, None, given if stage != "route" else given // 30))
            continue
        for bucket, weight in zip(buckets, weights, strict=True):
            plan.append((stage, None, None, bucket, int(given * weight / sum(weights))))
    plan += [("index", None, None, None, 0), ("gather", None, None, None, given)]
    return [_job(spec, *entry, ledger, clock, rng) for entry in plan]


def _job(
    spec: LibrarySpec,
    stage: str,
    unit: str | None,
    part: str | None,
    bucket: str | None,
    reads: int,
    ledger: Sequence[tuple[str, str | None, str, int]],
    clock: list[float],
    rng: random.Random,
) -> dict[str, Any]:
    reads *= 40
    work = reads / READS_PER_SECOND.get(stage, 1e9) * rng.uniform(0.85, 1.2)
    wall = 0.62 + work
    clocks = {name: work * share for name, share in SHARES[stage].items()}
    number = int(bucket.split("-of-")[0]) if bucket else 0
    spilled = 0
    memory = int(reads * 1.4) + 1_500_000 if stage in ("tally", "checkout") else 0
    if stage == "tally" and number in spec.spill_buckets:
        spilled, memory = int(memory * rng.uniform(0.3, 0.9)), int(memory * 0.9)
    base = 141_000_000 if stage != "plan" else 92_000_000
    started = clock[0]
    clock[0] += wall / 2 + 0.1
    return {
        "schema": 1,
        "stage": stage,
        "library": spec.name,
        "unit": unit,
        "part": part,
        "bucket": bucket,
        "samples": list(spec.samples) if stage == "gather" else None,
        "reads": reads // 40,
        "wall_seconds": round(wall, 6),
        "cpu_seconds": round(wall * 0.97, 6),
        "reads_per_second": round(reads / 40 / wall, 3),
        "threads": 1,
        "peak_rss_bytes": base + int(work * 4e7) + memory + rng.randrange(8_000_000),
        "baseline_rss_bytes": base,
        "budget_bytes": (400 if stage in ("tally", "assemble") else 350) * 1_000_000 - base,
        "umi_memory_bytes": memory,
        "umi_spilled": spilled > 0,
        "umi_spill_bytes": spilled,
        "umi_read_back_bytes": spilled * 2,
        "read_bytes": reads * 70,
        "written_bytes": reads * 60,
        "clocks": {"start": 0.5, "compile": 0.08} | {k: round(v, 6) for k, v in clocks.items()},
        "driver": max(clocks, key=lambda name: clocks[name]),
        "ledger": [
            {"sample": sample, "line": line, "templates": n}
            for row_stage, sample, line, n in ledger
            if row_stage == stage == "gather"
        ],
        "counters": {},
        "provenance": VERSIONS | {"started": _iso(started)},
    }


def _iso(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _units(spec: LibrarySpec) -> list[str]:
    return [f"lane{i}" for i in range(1, spec.units + 1)]


def _provenance(
    spec: LibrarySpec, ledger: Sequence[tuple[str, str | None, str, int]]
) -> dict[str, Any]:
    came = sum(n for stage, _, _, n in ledger if stage == "checkout")
    given = {s: n for stage, s, line, n in ledger if (stage, line) == ("checkout", "assigned")}
    each, rest = divmod(came, spec.units)
    return {
        "layouts": [
            {
                "sample": name,
                "layout": spec.layout,
                "layout_read2": None,
                "umi_length": 12,
                "cell_length": 0,
                "anchored": True,
            }
            for name in spec.samples
        ],
        "units": [
            {
                "unit": unit,
                "read1": f"reads/{spec.name}_{unit}_R1.fastq.gz",
                "read2": f"reads/{spec.name}_{unit}_R2.fastq.gz",
                "templates": each + (rest if i == 0 else 0),
                "phred_offset": 33,
                "quality_levels": 4,
            }
            for i, unit in enumerate(_units(spec))
        ],
        "buckets": spec.buckets,
        "parts": 1,
        "floor": 1e-4,
        "min_reads": spec.min_reads,
        "refine_method": "posterior" if spec.correct else "unique",
        "min_posterior": 0.5,
        "suspects": False,
        "expected_chance_matches": {
            name: round(0.0008 * came if name == "S4" else 1e-5 * came, 3) for name in given
        },
    }


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _write_tsv(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    lines = ["\t".join(header), *("\t".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
