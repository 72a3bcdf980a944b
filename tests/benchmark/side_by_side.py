"""Measures the stages of umimill beside the closest peer on one file: CPU seconds and peak memory.

    PYTHONPATH=workflow python tests/benchmark/side_by_side.py corpus.fastq.gz rows.tsv

Each stage is a process of its own, measured from outside (wait4). A first run, not timed, fills
the kernel cache. "start" is a job of the same imports that does nothing; its CPU time is taken off
every stage, and that of `migec --help` off the peer's. Loading kernels, a quarter of a second a
process or more, is left in. Both are measured in one call.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TAGS = ("ACT", "AGA", "GCC", "GGT")
PATTERN = "aa{}cagtggtatcaacgcagagtNNNNtNNNNtNNNN"
LAYOUTS = [[f"S{number + 1}", PATTERN.format(tag), None] for number, tag in enumerate(TAGS)]
STAGES = (
    "probe",
    "checkout",
    "plan",
    "tally",
    "model",
    "link",
    "settle",
    "move",
    "route",
    "assemble",
    "gather",
)
# All of them in one process, which is what the workflow does with a library of one bucket.
SMALL = "small"
COLUMNS = ("corpus", "tool", "stage", "cpu_seconds", "start_seconds", "peak_rss_mb", "wall_seconds")


def run_reads(stage: str, reads: Path, folder: Path, meter: Any) -> None:
    """Does the work of a stage up to plan."""
    from umimill import checkout, plan, probe

    rows = folder / "rows"
    if stage == "probe":
        probe.probe([reads], LAYOUTS, folder / "probe", meter)
    elif stage == "checkout":
        part, probes = checkout.Part(0, 0, 1), {"L1": folder / "probe"}
        checkout.checkout([reads], LAYOUTS, probes, "L1", part, rows, meter)
    else:
        plan.plan([rows], 1, folder / "plan", meter)


def run_refine(stage: str, folder: Path, meter: Any) -> None:
    """Does the work of a stage from tally to route."""
    from umimill import link, model, move, route, settle, tally

    plan, families, tables, settled = (
        folder / name for name in ("plan", "families", "model", "settled")
    )
    edges, queries, outbox = (folder / name for name in ("edges", "queries", "outbox"))
    if stage == "tally":
        tally.tally(plan, 0, families, meter)
    elif stage == "model":
        model.model(plan, [families], tables, meter)
    elif stage == "link":
        link.link(plan, [families], 0, tables, link.Outputs(edges, queries), meter)
    elif stage == "settle":
        sources = settle.Sources([families], [edges], [queries])
        rule = settle.make_rule("posterior", 0.5)
        settle.settle(plan, sources, tables, rule, settled, meter)
    elif stage == "move":
        files = move.Sources(families, edges, settled, tables)
        move.move(plan, files, 0, move.Outputs(outbox, folder / "fates"), meter)
    else:
        route.route(plan, settled, [outbox], folder / "routes", meter)


def run_outputs(stage: str, reads: Path, folder: Path, meter: Any) -> None:
    """Does the work of assemble, or of index and gather."""
    from umimill import assemble, cells, gather, index, library_tables

    plan, routes, molecules = (folder / name for name in ("plan", "routes", "molecules"))
    families, fates = folder / "families", folder / "fates"
    mates = (folder / "mate1", folder / "mate2")
    if stage == "assemble":
        sources = assemble.Sources(families, fates, routes)
        settings = assemble.Settings(cells.Filter(1), floor=1e-4, mates=1)
        assemble.assemble(plan, sources, 0, settings, mates, molecules, meter)
        return
    jobs = [folder / f"{name}.metrics" for name in STAGES[:-1]]
    wanted = library_tables.LibrarySettings(
        library="bench",
        layouts=LAYOUTS,
        reads={"L1": [str(reads)]},
        probes={"L1": folder / "probe"},
        model=folder / "model",
        buckets=1,
        parts=1,
        floor=1e-4,
        minimum_reads=1,
    )
    fragments = index.Fragments(
        mates=([mates[0]], [mates[1]]), molecules=[molecules], families=[families], fates=[fates]
    )
    listed, tables = folder / "index", folder / "metrics"
    index.index(plan, fragments, routes, jobs, listed, tables, wanted, meter)
    samples = [row[0] for row in LAYOUTS]
    fastq = {one: [folder / "samples" / one / f"{one}.fastq.gz"] for one in samples}
    gather.gather(listed, samples, fastq, folder / "samples", meter)


def run_small(reads: Path, folder: Path) -> None:
    """Does the work of all stages, as the job of a small library does."""
    from umimill import small
    from umimill.job import Jobs

    def make_jobs(library: str, metrics: Path) -> Jobs:
        return Jobs(library, metrics, "small", 800, 1, lambda: 0.0, None, shared=False)

    wishes = small.Wishes(
        limit_reads=0,
        min_umi_quality=0,
        placement="auto",
        refine_method="posterior",
        min_posterior=0.5,
        floor=1e-4,
        min_reads=1,
        unmatched=False,
        suspects=False,
        lineage=False,
    )
    library = small.SmallLibrary("bench", {"L1": [str(reads)]}, LAYOUTS)
    small.run_small([library], wishes, [folder / SMALL], make_jobs)


def run_stage(stage: str, reads: Path, folder: Path) -> None:
    """Does the work of one stage; the parent measures this process."""
    from umimill import assemble, checkout, gather, link, metrics, settle, tally

    # All jobs import the same, so that one figure is the start-up of each.
    assert all((assemble, checkout, gather, link, settle, tally))
    if stage == "start":
        return
    if stage == SMALL:
        run_small(reads, folder)
        return
    where = {"unit": "L1"} if stage in ("probe", "checkout") else {}
    meter = metrics.Meter(stage, "bench", 500, where=where)
    if stage in ("probe", "checkout", "plan"):
        run_reads(stage, reads, folder, meter)
    elif stage in ("assemble", "gather"):
        run_outputs(stage, reads, folder, meter)
    else:
        run_refine(stage, folder, meter)
    meter.write(folder / f"{stage}.metrics", "match")


def measure(command: list[str]) -> tuple[float, float, float]:
    """Runs a command; returns CPU seconds, wall seconds and peak RSS in MB of its process tree."""
    start = os.times().elapsed
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    errors = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}\n{errors}")
    wall = os.times().elapsed - start
    # A child that was exec'd carries its parent's peak; this parent has loaded nothing.
    return usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1e3


def umimill_rows(reads: Path, folder: Path) -> list[tuple[object, ...]]:
    """Measures every stage; the first, untimed round compiles."""
    own = [sys.executable, __file__, "--stage"]
    rows: list[tuple[object, ...]] = []
    for timed in (False, True):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        start, _, _ = measure([*own, "start", str(reads), str(folder)])
        for stage in (*STAGES, SMALL):
            cpu, wall, peak = measure([*own, stage, str(reads), str(folder)])
            if timed:
                rows.append((reads.name, "umimill", stage, cpu, start, peak, wall))
    return rows


def migec_rows(reads: Path, folder: Path) -> list[tuple[object, ...]]:
    """Measures `migec checkout`, `refine` and `assemble` of each sample, on one thread."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sheet = folder / "barcodes.txt"
    sheet.write_text("".join(f"{sample}\t{layout}\n" for sample, layout, _ in LAYOUTS))
    start, _, _ = measure(["migec", "--help"])
    cpu, wall, peak = measure(
        ["migec", "checkout", str(reads), "-b", str(sheet), "-o", str(folder / "c"), "-t", "1"]
    )
    rows: list[tuple[object, ...]] = [(reads.name, "migec", "checkout", cpu, start, peak, wall)]
    for sample, _, _ in LAYOUTS:
        source = folder / "c" / f"{sample}.fq.gz"
        for stage in ("refine", "assemble"):
            output = folder / stage
            command = ["migec", stage, str(source), "-o", str(output), "-t", "1"]
            cpu, wall, peak = measure(command)
            rows.append((reads.name, "migec", f"{stage} {sample}", cpu, start, peak, wall))
            source = next(output.glob(f"{sample}*.f*q.gz"))
    return rows


def main() -> None:
    """Measures both tools and appends the rows to a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reads", type=Path)
    parser.add_argument("table", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="umimill-bench-") as scratch:
        rows = umimill_rows(arguments.reads, Path(scratch) / "umimill")
        rows += migec_rows(arguments.reads, Path(scratch) / "migec")
    new = not arguments.table.exists()
    with arguments.table.open("a") as file:
        if new:
            file.write(f"# python {platform.python_version()}, {platform.machine()}; command: ")
            file.write("PYTHONPATH=workflow python tests/benchmark/side_by_side.py CORPUS TABLE\n")
            file.write("\t".join(COLUMNS) + "\n")
        for row in rows:
            cells = [f"{one:.2f}" if isinstance(one, float) else str(one) for one in row]
            file.write("\t".join(cells) + "\n")
    for tool, stages in (("umimill", STAGES), ("umimill", (SMALL,)), ("migec", None)):
        own = [row for row in rows if row[1] == tool and (not stages or row[2] in stages)]
        busy = sum(float(str(row[3])) - float(str(row[4])) for row in own)
        name = f"{tool} {SMALL}" if stages == (SMALL,) else tool
        print(f"{name}: {busy:.2f} CPU seconds less start-up, {max(row[5] for row in own):.0f} MB")


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "--stage":
        run_stage(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
    else:
        main()
