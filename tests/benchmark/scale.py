"""Measures the stages of refine as libraries grow: time, memory, disk.

    PYTHONPATH=workflow python tests/benchmark/scale.py tests/benchmark/scale.toml TABLE

Libraries are made up: random barcodes and payloads, reads a molecule as the settings say, errors.
Each job is a process of its own, with the same memory for every size; the buckets of a stage run
one after the other. A small library goes first, not measured, to compile. scale_page.py writes the
page.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STAGES = ("checkout", "plan", "tally", "model", "link", "settle", "move", "route")
MEASURED = STAGES[2:]
BY_BUCKET = ("tally", "link", "move")
CHUNK = 1 << 15
WARM_UP = 20_000
COLUMNS = (
    "library",
    "molecules",
    "reads",
    "barcodes",
    "stage",
    "jobs",
    "wall_seconds",
    "cpu_seconds",
    "start_seconds",
    "peak_rss_mb",
    "baseline_rss_mb",
    "disk_mb",
    "umi_memory_mb",
    "umi_spill_mb",
    "umi_read_back_mb",
    "spill_seconds",
    "corrected_barcodes",
)


@dataclass(frozen=True)
class Library:
    """What one library of the settings file is; see there."""

    seed: int
    error: float
    payload: int
    mem_mb: int
    name: str
    molecules: list[int]
    cell_length: int
    umi_length: int
    molecules_a_cell: int
    mean_reads: float
    sigma_reads: float
    one_molecule: bool
    buckets: list[int]

    @property
    def layout(self) -> str:
        """The layout of the reads."""
        return "^" + "X" * self.cell_length + "N" * self.umi_length


def read_settings(path: Path) -> dict[str, Library]:
    """Reads the settings; libraries by name."""
    settings = tomllib.loads(path.read_text())
    libraries = settings.pop("library")
    return {one["name"]: Library(**settings, **one) for one in libraries}


def library_text(library: Library, molecules: int) -> Iterator[bytes]:
    """Yields the FASTQ text of a library, a chunk of molecules at a time."""
    import numpy as np

    from umimill.synthetic import (
        ALPHABET,
        draw_below,
        draw_family_sizes,
        draw_hits,
        fastq_text,
        replace_bases,
    )

    source = np.random.PCG64(library.seed)
    cell, width = library.cell_length, library.cell_length + library.umi_length
    cells = max(1, molecules // max(1, library.molecules_a_cell))
    cell_bases = draw_below(source, 4, cells, cell).astype(np.uint8)
    made = draw_below(source, 4, 1, width + library.payload).astype(np.uint8)
    for start in range(0, molecules, CHUNK):
        count = min(CHUNK, molecules - start)
        if library.one_molecule:
            codes = np.repeat(made, count, axis=0)
        else:
            made = draw_below(source, 4, count, width + library.payload).astype(np.uint8)
            made[:, :cell] = cell_bases[draw_below(source, cells, count)]
            sizes = draw_family_sizes(source, count, library.mean_reads, library.sigma_reads)
            codes = np.repeat(made, sizes, axis=0)
        wrong = draw_hits(source, library.error, *codes.shape)
        wrong[:, :cell] = False
        replace_bases(source, codes, wrong)
        names = np.array([b"%d.%d" % (start, row) for row in range(codes.shape[0])])
        # What says most of a wrong base: a quality that is low.
        quality = np.where(wrong, 25, 37).astype(np.uint8) + np.uint8(33)
        yield fastq_text(names, b"", ALPHABET[codes], quality)


def run_job(
    stage: str, bucket: int, buckets: int, library: Library, folder: Path, meter: Any
) -> None:
    """Does the work of one job."""
    from umimill import checkout, link, model, move, plan, probe, route, settle, tally

    def of(name: str) -> list[Path]:
        return [folder / f"{number}.{name}" for number in range(buckets)]

    layouts = [["S1", library.layout, None]]
    reads, rows, planned, tables, settled = (
        folder / name for name in ("reads.fastq.gz", "rows", "plan", "model", "settled")
    )
    families, edges, asks, outboxes = of("families"), of("edges"), of("queries"), of("outbox")
    if stage == "checkout":
        probe.probe([reads], layouts, folder / "probe", meter)
        part, probes = checkout.Part(0, 0, 1), {"L1": folder / "probe"}
        checkout.checkout([reads], layouts, probes, "L1", part, rows, meter)
    elif stage == "plan":
        plan.plan([rows], buckets, planned, meter)
    elif stage == "tally":
        tally.tally(planned, bucket, families[bucket], meter, scratch=folder)
    elif stage == "model":
        model.model(planned, families, tables, meter)
    elif stage == "link":
        outputs = link.Outputs(edges[bucket], asks[bucket])
        link.link(planned, families, bucket, tables, outputs, meter)
    elif stage == "settle":
        sources = settle.Sources(families, edges, asks)
        rule = settle.make_rule("posterior", 0.95)
        settle.settle(planned, sources, tables, rule, settled, meter)
    elif stage == "move":
        files = move.Sources(families[bucket], edges[bucket], settled, tables)
        outputs_of = move.Outputs(outboxes[bucket], of("fates")[bucket])
        move.move(planned, files, bucket, outputs_of, meter)
    else:
        route.route(planned, settled, outboxes, folder / "routes", meter)


def run_child(stage: str, bucket: int, buckets: int, library: Library, folder: Path) -> None:
    """Does the work of one job in this process, and writes its metrics."""
    from umimill import checkout, link, metrics, move, settle, tally

    # All jobs import the same, so that one figure is the start-up of each.
    assert all((checkout, link, move, settle, tally))
    # Reads are no part of the measurement, and have more memory.
    mem_mb = library.mem_mb if stage in MEASURED else 4 * library.mem_mb
    meter = metrics.Meter(stage, library.name, mem_mb, where={"bucket": str(bucket)})
    run_job(stage, bucket, buckets, library, folder, meter)
    meter.write(folder / f"{stage}.{bucket}.json", "match")


def disk_bytes(folder: Path) -> int:
    """Returns the bytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def measure(
    settings: Path, library: Library, molecules: int, buckets: int, folder: Path
) -> list[str]:
    """Makes a library and runs all stages on it; returns a line of the table a stage."""
    from umimill.synthetic import write_gzip

    write_gzip(folder / "reads.fastq.gz", library_text(library, molecules))
    lines: list[str] = []
    reads = barcodes = 0
    for stage in STAGES:
        before = disk_bytes(folder)
        jobs = []
        for bucket in range(buckets if stage in BY_BUCKET else 1):
            own = [sys.executable, __file__, "--job", stage, str(bucket), str(buckets)]
            subprocess.run([*own, str(settings), library.name, str(folder)], check=True)
            jobs.append(json.loads((folder / f"{stage}.{bucket}.json").read_text()))
        if stage == "plan":
            reads = jobs[0]["reads"]
            (folder / "reads.fastq.gz").unlink()
        if stage == "tally":
            barcodes = sum(job["counters"]["families"] for job in jobs)
        if stage in MEASURED:
            size = (library.name, molecules, reads, barcodes)
            cells = stage_cells(stage, jobs, disk_bytes(folder) - before)
            lines.append("\t".join(map(str, (*size, *cells))))
            print(lines[-1], flush=True)
    return lines


def stage_cells(stage: str, jobs: list[dict[str, Any]], disk: int) -> tuple[object, ...]:
    """Returns the cells of a stage's row behind the size of its library."""

    def total(name: str) -> float:
        return sum(float(job[name]) for job in jobs)

    def most_mb(name: str) -> str:
        return f"{max(job[name] for job in jobs) / 1e6:.1f}"

    def clock(name: str) -> str:
        return f"{sum(job['clocks'].get(name, 0.0) for job in jobs):.1f}"

    return (
        stage,
        len(jobs),
        f"{total('wall_seconds'):.1f}",
        f"{total('cpu_seconds'):.1f}",
        clock("start"),
        most_mb("peak_rss_bytes"),
        most_mb("baseline_rss_bytes"),
        f"{disk / 1e6:.1f}",
        most_mb("umi_memory_bytes"),
        f"{total('umi_spill_bytes') / 1e6:.1f}",
        f"{total('umi_read_back_bytes') / 1e6:.1f}",
        clock("spill"),
        sum(job["counters"].get("corrected_families", 0) for job in jobs),
    )


def append_lines(table: Path, lines: list[str]) -> None:
    """Appends lines to a table, which is begun where there is none."""
    new = not table.exists()
    with table.open("a") as file:
        if new:
            file.write(f"# {os.cpu_count()} cores, {platform.machine()}, ")
            file.write(f"python {platform.python_version()}. Command: PYTHONPATH=workflow ")
            file.write("python tests/benchmark/scale.py tests/benchmark/scale.toml TABLE\n")
            file.write("\t".join(COLUMNS) + "\n")
        file.writelines(line + "\n" for line in lines)


def main() -> None:
    """Measures all sizes and appends the rows to a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("settings", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--library", nargs="+", help="these alone")
    parser.add_argument("--molecules", type=int, nargs="+", help="these sizes alone")
    parser.add_argument("--warm-up", type=int, default=WARM_UP, help="molecules; 0: none")
    parser.add_argument("--scratch", type=Path, help="folder for the files; the system's if not")
    arguments = parser.parse_args()
    libraries = read_settings(arguments.settings)
    for name in arguments.library or libraries:
        library = libraries[name]
        sizes = dict(zip(library.molecules, library.buckets, strict=True))
        wanted = arguments.molecules or library.molecules
        for size in [arguments.warm_up, *wanted] if arguments.warm_up else wanted:
            with tempfile.TemporaryDirectory(
                prefix="umimill-scale-", dir=arguments.scratch
            ) as folder:
                buckets = sizes.get(size, 1)
                lines = measure(arguments.settings, library, size, buckets, Path(folder))
            if size != arguments.warm_up:
                append_lines(arguments.table, lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        stage, bucket, buckets, settings, name, folder = sys.argv[2:]
        library = read_settings(Path(settings))[name]
        run_child(stage, int(bucket), int(buckets), library, Path(folder))
    else:
        main()
