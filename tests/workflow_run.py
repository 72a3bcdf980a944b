"""Run directories with simulated reads, and Snakemake as a process, for tests of the workflow."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

CLONE = Path(__file__).parents[1]
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
    "index",
    "gather",
    "report",
)
# Stages of a library whose cell barcodes are on a list.
LISTED_STAGES = ("probe", "cells", "checkout", "place", *STAGES[2:])
# Jobs of small libraries.
SMALL_STAGES = ("small", "publish", "report")
UNITS = ("library", "unit", "read1", "read2")
SAMPLES = ("library", "sample", "layout", "layout_read2", "cell_list")

Bytes = npt.NDArray[np.uint8]
# Layouts of read 1 and, where there is one, of read 2.
Layouts = tuple[str, ...]


# -- reads -----------------------------------------------------------------------------------------


def draw_bases(rng: np.random.Generator, *shape: int) -> Bytes:
    """Draw bases as letters."""
    return np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, shape)]


def simulate_reads(
    rng: np.random.Generator,
    layouts: Sequence[Layouts],
    *,
    molecules: int,
    templates: int,
    lengths: Sequence[int] = (60, 52),
    foreign: int = 0,
    umi_errors: float = 0.0,
) -> list[bytes]:
    """Make the FASTQ text of a unit, one a mate.

    Molecules belong to the layouts in turn and have random barcodes, payloads of eight clones, and
    very unequal numbers of reads, or one read each where there are no more templates. Tags are read
    without an error and at Q40, payloads with errors, some N and four levels of quality, so the
    number of reads a sample gets is known.

    Args:
        rng: random numbers.
        layouts: of the samples; anchored MIGEC patterns of equal length.
        molecules: different molecules.
        templates: reads or pairs.
        lengths: payload lengths; the reads come in so many blocks.
        foreign: further templates that hold no barcode.
        umi_errors: errors of a UMI base.
    """
    mates = len(layouts[0])
    owners = np.arange(molecules) % len(layouts)
    clones = draw_bases(rng, mates, 8, max(lengths))
    heads = []
    umis = []
    for mate in range(mates):
        patterns = [row[mate].strip("^").upper().encode() for row in layouts]
        head = np.stack([np.frombuffer(one, np.uint8) for one in patterns])[owners]
        unknown = head == ord("N")
        head[unknown] = draw_bases(rng, int(unknown.sum()))
        heads.append(head)
        umis.append(unknown[0])
    if templates > molecules:
        shares = rng.pareto(1.5, molecules)
        drawn = rng.choice(molecules, templates, p=shares / shares.sum())
    else:
        drawn = np.arange(templates)
    parts = np.array_split(drawn, len(lengths))
    texts = [b""] * mates
    first = 0
    for part, length in zip(parts, lengths, strict=True):
        for mate in range(mates):
            payload = _misread(rng, clones[mate][part % 8, :length])
            head = heads[mate][part]
            if umi_errors:
                wrong = (rng.random(head.shape) < umi_errors * 4 / 3) & umis[mate]
                head = np.where(wrong, draw_bases(rng, *head.shape), head)
            bases = np.concatenate([head, payload], axis=1)
            levels = np.frombuffer(b"#,:FFFFFFF", np.uint8)
            quality = levels[rng.integers(0, 10, bases.shape)]
            quality[:, : heads[mate].shape[1]] = ord("I")
            texts[mate] += _fastq(first, bases, quality)
        first += part.size
    for mate in range(mates):
        bases = draw_bases(rng, foreign, heads[mate].shape[1] + lengths[0])
        texts[mate] += _fastq(first, bases, np.full_like(bases, ord("F")))
    return texts


def _misread(rng: np.random.Generator, payload: Bytes) -> Bytes:
    wrong = rng.random(payload.shape)
    payload = np.where(wrong < 0.01, draw_bases(rng, *payload.shape), payload)
    return np.where(wrong > 0.999, np.uint8(ord("N")), payload)


def _fastq(first: int, bases: Bytes, quality: Bytes) -> bytes:
    """Write records of one length, named by a number."""
    count = bases.shape[0]
    numbers = first + np.arange(count)
    digits = numbers[:, None] // 10 ** np.arange(6, -1, -1) % 10 + ord("0")

    def repeat(text: bytes) -> Bytes:
        return np.tile(np.frombuffer(text, np.uint8), (count, 1))

    name = [repeat(b"@r"), digits.astype(np.uint8), repeat(b"\n")]
    rest = [bases, repeat(b"\n+\n"), quality, repeat(b"\n")]
    return np.concatenate([*name, *rest], axis=1).tobytes()


def write_reads(path: Path, text: bytes) -> None:
    """Write text, compressed where the name ends in .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text, 1, mtime=0) if path.suffix == ".gz" else text)


def count_tags(text: bytes, layouts: Mapping[str, Layouts]) -> dict[str, int]:
    """Count the reads that begin as each sample's layout does before its first UMI base."""
    tags = {layout[0].strip("^").split("N")[0].upper(): name for name, layout in layouts.items()}
    found = Counter(tags.get(line[: len(next(iter(tags)))]) for line in text.decode().split()[1::4])
    return {name: found[name] for name in layouts}


def read_fastq(path: Path) -> list[tuple[str, ...]]:
    """Read records as (name line, bases, +, qualities)."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    return list(zip(*(lines[start::4] for start in range(4)), strict=True))


# -- tables ----------------------------------------------------------------------------------------


def table_text(columns: Sequence[str], rows: Iterable[Sequence[str]], separator: str = "\t") -> str:
    """Write a sheet; rows may be short."""
    lines = (list(row) + [""] * (len(columns) - len(row)) for row in rows)
    return "".join(separator.join(line) + "\n" for line in (columns, *lines))


def read_table(path: Path) -> list[dict[str, str]]:
    """Read a TSV table."""
    return list(csv.DictReader(io.StringIO(path.read_text()), delimiter="\t"))


def write_config(folder: Path, **values: Any) -> None:
    """Write config.yaml; a JSON value is a YAML value. Each stage is a job, unless asked."""
    folder.mkdir(parents=True, exist_ok=True)
    defaults = {"units": "units.tsv", "samples": "samples.tsv", "libraries_per_job": 0}
    values = defaults | values
    lines = (f"{key}: {json.dumps(value)}\n" for key, value in values.items())
    (folder / "config.yaml").write_text("".join(lines))


def write_sheets(
    folder: Path, units: Iterable[Sequence[str]], samples: Iterable[Sequence[str]]
) -> None:
    """Write units.tsv and samples.tsv."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "units.tsv").write_text(table_text(UNITS, units))
    (folder / "samples.tsv").write_text(table_text(SAMPLES, samples))


# -- Snakemake -------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Job:
    """A job as Snakemake lists it: its rule and the first file it makes."""

    rule: str
    output: str

    @property
    def stage(self) -> str:
        """The stage; each library has gather rules of its own."""
        return self.rule.split("_")[0]


@dataclass(frozen=True)
class Result:
    """What a Snakemake process said and did."""

    code: int
    output: str

    @property
    def jobs(self) -> list[Job]:
        """All jobs announced, without the targets."""
        block = re.compile(r"^(?:local)?rule (\S+):\n((?: {4}.*\n)*)", re.MULTILINE)
        found = []
        for rule, lines in block.findall(self.output):
            output = re.search(r"^ {4}output: ([^\n]*?)(?:, |$)", lines, re.MULTILINE)
            if output:
                found.append(Job(rule, output[1]))
        return sorted(found)

    @property
    def stages(self) -> Counter[str]:
        """Number of jobs by stage."""
        return Counter(job.stage for job in self.jobs)

    @property
    def errors(self) -> list[str]:
        """The lines by which jobs told what is wrong."""
        return [line for line in self.output.splitlines() if line.startswith("umimill: ")]


def command(
    folder: Path, *arguments: str, cores: int = 2, snakefile: str = "Snakefile"
) -> list[str]:
    """Give the command that runs the workflow in a folder with a config.yaml."""
    options = ["--directory", folder, "--configfile", folder / "config.yaml", "--cores", cores]
    run = [sys.executable, "-m", "snakemake", "--snakefile", CLONE / snakefile]
    return [str(part) for part in (*run, *options, *arguments)]


def environment() -> dict[str, str]:
    """Give this process's environment without what would change Snakemake or its jobs."""
    unwanted = ("PYTHONPATH", "SNAKEMAKE_PROFILE", "NUMBA_DISABLE_JIT")
    return {name: value for name, value in os.environ.items() if name not in unwanted}


def run_snakemake(folder: Path, *arguments: str, **options: Any) -> Result:
    """Run Snakemake to its end."""
    return run_command(command(folder, *arguments, **options), folder.parent)


def run_command(arguments: Sequence[str], cwd: Path) -> Result:
    """Run a command to its end; stdout and stderr are read as one."""
    done = subprocess.run(
        arguments,
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
        timeout=500,
    )
    return Result(done.returncode, done.stdout)


def succeed(folder: Path, *arguments: str, **options: Any) -> Result:
    """Run Snakemake, which must succeed."""
    result = run_snakemake(folder, *arguments, **options)
    assert result.code == 0, result.output
    return result


# -- what a run wrote ------------------------------------------------------------------------------


def files_below(folder: Path) -> Iterator[Path]:
    """Yield all files, hidden ones too."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def is_metrics(path: Path) -> bool:
    """Tell whether a file holds times and sizes, which may differ between runs."""
    return path.name.endswith(".metrics.json")


def digests(folder: Path, *parts: str) -> dict[str, str]:
    """Give the SHA-256 of files by path; by default of all data outputs of a run."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for part in parts or ("results/samples", "results/unmatched", "results/lineage")
        for path in files_below(folder / part)
        if not is_metrics(path)
    }


def job_metrics(folder: Path) -> list[dict[str, Any]]:
    """Read the metrics of all jobs."""
    paths = [path for path in files_below(folder / "results") if is_metrics(path)]
    paths += sorted((folder / "results" / "metrics").glob("*/gather.*.json"))
    paths += sorted((folder / "results" / "metrics").glob("*/index.json"))
    return [json.loads(path.read_text()) for path in paths]


def leftovers(folder: Path) -> list[Path]:
    """List the temporary files of a run."""
    return [path for path in files_below(folder / "results") if path.name.endswith(".tmp")]
