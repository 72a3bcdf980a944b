"""Measures many small libraries beside the same reads as one library: Snakemake and all included.

    PYTHONPATH=workflow python tests/benchmark/small_libraries.py FOLDER [--libraries 96]

Three runs in one call, each in a folder of its own, after one of two libraries that compiles:

libraries   each library is a file of one sample
samples     the same reads, one behind the other, as one library of as many samples
sample      as many reads of one sample

Prints wall and CPU seconds of each, and the two ratios that matter. Reads are those of `corpus.py`
q4; every sample has a tag of six bases, any two of which differ at two or more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from corpus import corpus_text

from umimill.synthetic import write_gzip

CLONE = Path(__file__).parents[2]
PATTERN = "{}agtggtatcaacgcagagtNNNNtNNNNtNNNN"


class Cost(NamedTuple):
    """What a run took."""

    wall_seconds: float
    cpu_seconds: float


def make_tags(count: int) -> list[str]:
    """Return tags of six bases of which the last makes any two differ at two bases or more."""
    tags = []
    for bases in product(range(4), repeat=5):
        letters = (*bases, sum(bases) % 4)
        tags.append("".join("ACGT"[base] for base in letters))
    step = len(tags) // count
    return tags[: step * count : step]


def write_run(
    folder: Path, units: Sequence[Sequence[str]], samples: Sequence[Sequence[str]]
) -> None:
    """Write the sheets and the config of a run."""
    home = folder / "config"
    shutil.rmtree(folder, ignore_errors=True)
    home.mkdir(parents=True)
    for name, columns, rows in (
        ("units", ("library", "unit", "read1"), units),
        ("samples", ("library", "sample", "layout"), samples),
    ):
        lines = ["\t".join(row) for row in (columns, *rows)]
        (home / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    (home / "config.yaml").write_text("{}\n")


def measure(folder: Path, *arguments: str) -> Cost:
    """Run the workflow in a folder on two cores."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(CLONE / "Snakefile")]
    command += ["--directory", str(folder), "--cores", "2", "--quiet", "all", *arguments]
    command += ["--configfile", str(folder / "config" / "config.yaml")]
    start, before = time.monotonic(), os.times()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    after = os.times()
    cpu = sum(after[2:4]) - sum(before[2:4])
    return Cost(time.monotonic() - start, cpu)


def main() -> None:
    """Make the reads where they are not there yet, and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--libraries", type=int, default=96)
    parser.add_argument("--reads", type=int, default=100_000)
    arguments = parser.parse_args()
    count, reads = arguments.libraries, arguments.reads
    folder = arguments.folder.resolve()
    layouts = [PATTERN.format(tag) for tag in make_tags(count)]
    files = [folder / f"L{number}.fastq.gz" for number in range(count)]
    together, alone = folder / "together.fastq.gz", folder / "alone.fastq.gz"
    if not alone.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with together.open("wb") as all_reads:
            for seed, (path, layout) in enumerate(zip(files, layouts, strict=True)):
                write_gzip(path, corpus_text("q4", reads, seed, [layout]))
                all_reads.write(path.read_bytes())
        write_gzip(alone, corpus_text("q4", reads * count, 1, layouts[:1]))
    names = [f"L{number}" for number in range(count)]
    rows = list(zip(names, (f"S{number}" for number in range(count)), layouts, strict=True))
    units = [(name, "L001", str(path)) for name, path in zip(names, files, strict=True)]
    os.environ.setdefault("NUMBA_CACHE_DIR", str(folder / "numba"))
    write_run(folder / "warm", units[:2], rows[:2])
    measure(folder / "warm")
    runs = {
        "libraries": (units, rows),
        "samples": ([("L", "L001", str(together))], [("L", *row[1:]) for row in rows]),
        "sample": ([("L", "L001", str(alone))], [("L", *rows[0][1:])]),
    }
    costs = {}
    for name, (own_units, own_rows) in runs.items():
        write_run(folder / name, own_units, own_rows)
        costs[name] = measure(folder / name)
        print(f"{name}: {costs[name].wall_seconds:.1f} s, CPU {costs[name].cpu_seconds:.1f} s")
    for name, other in (("libraries", "samples"), ("samples", "sample")):
        ratio = costs[name].wall_seconds / costs[other].wall_seconds
        print(f"{name} / {other}: {ratio:.2f}")


if __name__ == "__main__":
    main()
