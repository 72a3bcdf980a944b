"""All stages of a library in one process, through the stage functions, without Snakemake.

    library = Library((("S1", "^NNNNNNNN", None),), {"L001": (Path("reads.fastq.gz"),)})
    run = run_pipeline(library, folder, Knobs(buckets=4, threads=2))
    run.outputs["samples/S1/S1.molecules.parquet"], run.ledger(), run.total("tally", "reads")

`Library` holds what decides the bytes of the outputs, `Knobs` what must not move one of them.
"""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from umimill.assemble import Settings, assemble
from umimill.checkout import RECORD_BLOCK, Part, checkout
from umimill.files import write_json
from umimill.gather import gather, gather_unmatched
from umimill.index import index
from umimill.library_tables import LibrarySettings
from umimill.metrics import Meter
from umimill.names import SAMPLES_FOLDER, fastq_files, sample_runs, table_files, unmatched_files
from umimill.plan import plan
from umimill.probe import probe
from umimill.tally import tally

LIBRARY_TABLES = ("ledger.tsv", "samples.tsv", "sizes.tsv")


@dataclass(frozen=True)
class Library:
    """What is run.

    Attributes:
        layouts: rows (sample, layout, layout of read 2 or None).
        units: files of each unit, one or two.
        name: the library.
        minimum_reads, minimum_umi_quality, floor: as in the config.
    """

    layouts: Sequence[tuple[str, str, str | None]]
    units: Mapping[str, Sequence[Path]]
    name: str = "L1"
    minimum_reads: int = 1
    minimum_umi_quality: int = 0
    floor: float = 1e-4

    @property
    def paired(self) -> bool:
        """Whether templates are pairs."""
        return len(next(iter(self.units.values()))) == 2

    @property
    def samples(self) -> list[str]:
        """Samples in order."""
        return sorted({row[0] for row in self.layouts})


@dataclass(frozen=True)
class Knobs:
    """How it is run.

    Attributes:
        buckets, parts, threads: numbers of them.
        staging_bytes: rows that checkout holds before a flush; 1 = flushes of 256 rows.
        table_bytes: families that tally holds; 1 = each table goes to scratch.
        batch_bytes: rows that assemble holds; 1 = each cell of one key is streamed.
        record_block: records that go to one part in one go. It moves the blocks of the unmatched
            file, so it is no free knob: the package has one value.
        unmatched: whether to write the unmatched file.
        mem_mb: memory of a job, more than any baseline of a test process.
    """

    buckets: int = 1
    parts: int = 1
    threads: int = 1
    staging_bytes: int | None = None
    table_bytes: int | None = None
    batch_bytes: int | None = None
    record_block: int = RECORD_BLOCK
    unmatched: bool = True
    mem_mb: int = 8000


class Record(NamedTuple):
    """A consensus record."""

    name: str
    tags: dict[str, str]
    bases: str
    qualities: bytes


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        library: what was run.
        folder: its folder.
        outputs: data outputs: FASTQ, Parquet, TSV, by path below `results`.
        jobs: metrics of all jobs, in the order in which they ran.
    """

    library: Library
    folder: Path
    outputs: dict[str, Path]
    jobs: list[dict[str, Any]]

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each data output."""
        return {
            name: hashlib.sha256(path.read_bytes()).hexdigest()
            for name, path in self.outputs.items()
        }

    def of(self, stage: str) -> list[dict[str, Any]]:
        """Return the metrics of a stage's jobs."""
        return [job for job in self.jobs if job["stage"] == stage]

    def total(self, stage: str, key: str) -> Any:
        """Add up a metric, or a counter, over a stage's jobs."""
        return sum(job.get(key, job["counters"].get(key, 0)) for job in self.of(stage))

    def ledger(self) -> dict[tuple[str, str | None, str], int]:
        """Return {(stage, sample or None, line): templates}, without lines of zero."""
        total: Counter[tuple[str, str | None, str]] = Counter()
        for job in self.jobs:
            for entry in job["ledger"]:
                total[job["stage"], entry["sample"], entry["line"]] += entry["templates"]
        return {line: count for line, count in total.items() if count}

    def line(self, name: str, sample: str | None = None, stage: str = "checkout") -> int:
        """Return one number of the ledger."""
        return self.ledger().get((stage, sample, name), 0)

    def molecules(self, sample: str) -> list[dict[str, Any]]:
        """Return the rows of a sample's molecules.parquet."""
        path = self.outputs[f"samples/{sample}/{sample}.molecules.parquet"]
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows

    def records(self, sample: str, mate: int = 1) -> list[Record]:
        """Return the consensus records of a sample, one mate's."""
        ending = f"_R{mate}" if self.library.paired else ""
        return list(
            read_consensus(self.outputs[f"samples/{sample}/{sample}.consensus{ending}.fastq.gz"])
        )


def read_consensus(path: Path) -> Iterator[Record]:
    """Read a consensus file with zlib, which shares nothing with the compressor that wrote it."""
    lines = gzip.decompress(path.read_bytes()).decode("ascii").splitlines()
    for first in range(0, len(lines), 4):
        name, comment = lines[first][1:].split(" ")
        tags = dict((tag[:2], tag[5:]) for tag in comment.split("\t"))
        qualities = bytes(ord(letter) - 33 for letter in lines[first + 3])
        yield Record(name, tags, lines[first + 1], qualities)


@dataclass
class _Stages:
    """Runs the stages one after the other and keeps what they say."""

    library: Library
    folder: Path
    knobs: Knobs
    jobs: list[dict[str, Any]] = field(default_factory=list)
    metrics: list[Path] = field(default_factory=list)

    def path(self, *names: str) -> Path:
        return self.folder.joinpath("results", *names)

    def meter(self, stage: str, threads: int = 1, **where: Any) -> Meter:
        return Meter(stage, self.library.name, self.knobs.mem_mb, threads, where)

    def done(self, meter: Meter, driver: str) -> None:
        self.jobs.append(meter.result(driver))
        self.metrics.append(self.path("metrics", "jobs", f"{len(self.jobs)}.json"))
        write_json(self.metrics[-1], self.jobs[-1])

    def probes(self) -> dict[str, Path]:
        found = {}
        for unit, reads in self.units():
            found[unit] = self.path("probe", self.library.name, f"{unit}.json")
            meter = self.meter("probe", unit=unit)
            probe(reads, self.library.layouts, found[unit], meter)
            self.done(meter, "match")
        return found

    def units(self) -> list[tuple[str, Sequence[Path]]]:
        return sorted(self.library.units.items())

    def checkout(self, probes: Mapping[str, Path]) -> tuple[list[Path], list[Path]]:
        knobs, rows, unmatched = self.knobs, [], []
        for number, (unit, reads) in enumerate(self.units()):
            for part in range(knobs.parts):
                name = f"{part + 1}-of-{knobs.parts}"
                home = self.path("partition", self.library.name, unit)
                rows.append(home / f"{name}.rows")
                if knobs.unmatched:
                    unmatched.append(home / f"{name}.unmatched")
                meter = self.meter("checkout", knobs.threads, unit=unit, part=name)
                checkout(
                    reads,
                    self.library.layouts,
                    probes,
                    unit,
                    Part(number, part, knobs.parts, knobs.record_block),
                    rows[-1],
                    meter,
                    minimum_umi_quality=self.library.minimum_umi_quality,
                    unmatched=unmatched[-1] if unmatched else None,
                    staging_bytes=knobs.staging_bytes,
                )
                self.done(meter, "match")
        return rows, unmatched

    def plan(self, rows: Sequence[Path]) -> Path:
        output = self.path("plan", self.library.name, f"of-{self.knobs.buckets}.plan")
        meter = self.meter("plan")
        plan(rows, self.knobs.buckets, output, meter)
        self.done(meter, "sort")
        return output

    def bucket(self, plan_path: Path, number: int) -> dict[str, Path]:
        knobs, library = self.knobs, self.library
        name = f"{number + 1}-of-{knobs.buckets}"
        families = self.path("tally", library.name, f"{name}.families")
        meter = self.meter("tally", bucket=name)
        tally(
            plan_path,
            number,
            families,
            meter,
            scratch=self.folder,
            table_bytes=knobs.table_bytes,
        )
        self.done(meter, "sort")
        found = {
            kind: self.path("assemble", library.name, f"{name}.{kind}")
            for kind in ("mate1", "mate2", "molecules")
        }
        meter = self.meter("assemble", knobs.threads, bucket=name)
        assemble(
            plan_path,
            families,
            number,
            Settings(library.minimum_reads, library.floor, 2 if library.paired else 1),
            (found["mate1"], found["mate2"]),
            found["molecules"],
            meter,
            batch_bytes=knobs.batch_bytes,
        )
        self.done(meter, "model")
        return found

    def index(
        self, plan_path: Path, probes: Mapping[str, Path], buckets: Sequence[Mapping[str, Path]]
    ) -> Path:
        library, knobs = self.library, self.knobs
        output = self.path("index", f"{library.name}.json")
        meter = self.meter("index")
        index(
            plan_path,
            [[files[mate] for files in buckets] for mate in ("mate1", "mate2")],
            [files["molecules"] for files in buckets],
            self.metrics,
            output,
            self.path("metrics", library.name),
            LibrarySettings(
                library=library.name,
                layouts=library.layouts,
                reads={unit: [str(path) for path in reads] for unit, reads in self.units()},
                probes=probes,
                buckets=knobs.buckets,
                parts=knobs.parts,
                floor=library.floor,
                minimum_reads=library.minimum_reads,
            ),
            meter,
        )
        self.done(meter, "write")
        return output

    def gather(self, index_path: Path) -> list[Path]:
        library, found = self.library, []
        for samples in sample_runs(library.samples):
            fastq = {
                sample: [self.folder / name for name in fastq_files(sample, paired=library.paired)]
                for sample in samples
            }
            meter = self.meter("gather", samples=list(samples))
            gather(
                index_path,
                samples,
                fastq,
                self.folder / SAMPLES_FOLDER,
                meter,
                minimum_reads=library.minimum_reads,
            )
            self.done(meter, "write")
            found += [path for paths in fastq.values() for path in paths]
            found += [self.folder / name for sample in samples for name in table_files(sample)]
        return found

    def gather_unmatched(self, pieces: Sequence[Path]) -> list[Path]:
        names = unmatched_files(self.library.name, paired=self.library.paired)
        outputs = [self.folder / name for name in names]
        meter = self.meter("gather_unmatched")
        gather_unmatched(pieces, self.knobs.parts, outputs, meter)
        self.done(meter, "write")
        return outputs


def run_checkout(library: Library, folder: Path) -> list[Path]:
    """Run a library up to its partition files, for those who want to know of every read."""
    stages = _Stages(library, folder, Knobs(unmatched=False))
    rows, _ = stages.checkout(stages.probes())
    return rows


def run_pipeline(library: Library, folder: Path, knobs: Knobs | None = None) -> Run:
    """Run a library from its reads to its outputs.

    Args:
        library: what to run.
        folder: where; the files below it are named as in a run of the workflow.
        knobs: how to run it.

    Returns:
        The outputs and the metrics of all jobs.
    """
    knobs = knobs or Knobs()
    stages = _Stages(library, folder, knobs)
    probes = stages.probes()
    rows, unmatched = stages.checkout(probes)
    plan_path = stages.plan(rows)
    buckets = [stages.bucket(plan_path, number) for number in range(knobs.buckets)]
    index_path = stages.index(plan_path, probes, buckets)
    found = stages.gather(index_path)
    if knobs.unmatched:
        found += stages.gather_unmatched(unmatched)
    found += [stages.path("metrics", library.name, name) for name in LIBRARY_TABLES]
    outputs = {str(path.relative_to(folder / "results")): path for path in found}
    return Run(library, folder, outputs, stages.jobs)
