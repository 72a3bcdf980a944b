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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from umimill import link as link_module
from umimill import move as move_module
from umimill import settle as settle_module
from umimill.assemble import Settings, Sources, assemble
from umimill.cell_list import list_cells
from umimill.cells import Filter
from umimill.checkout import RECORD_BLOCK, Aside, Part, checkout
from umimill.files import write_json
from umimill.gather import gather, gather_unmatched
from umimill.index import Fragments, index
from umimill.layout import cell_samples, sample_layouts, tiled_samples
from umimill.library_tables import LibrarySettings
from umimill.lineage import Sources as LineageSources
from umimill.lineage import lineage
from umimill.link import link
from umimill.metrics import Meter
from umimill.model import model
from umimill.move import move
from umimill.names import (
    SAMPLES_FOLDER,
    fastq_files,
    lineage_file,
    sample_runs,
    table_files,
    unmatched_files,
)
from umimill.place import place
from umimill.plan import plan
from umimill.probe import probe
from umimill.route import route
from umimill.settle import make_rule, settle
from umimill.tally import tally

LIBRARY_TABLES = (
    *("barcodes.tsv", "corrections.tsv", "family_sizes.tsv", "ledger.tsv", "outcomes.tsv"),
    *("posteriors.tsv", "ranks.tsv", "samples.tsv", "sizes.tsv", "umi_errors.tsv"),
)


@dataclass(frozen=True)
class Library:
    """What is run.

    Attributes:
        layouts: rows (sample, layout, layout of read 2 or None).
        units: files of each unit, one or two.
        name: the library.
        minimum_reads, minimum_umi_quality, floor, method, minimum_posterior: as in the config.
        cell_list: file of cell barcodes, or None.
    """

    layouts: Sequence[tuple[str, str, str | None]]
    units: Mapping[str, Sequence[Path]]
    name: str = "L1"
    minimum_reads: int = 1
    minimum_umi_quality: int = 0
    floor: float = 1e-4
    method: str = "posterior"
    minimum_posterior: float = 0.5
    suspects: bool = False
    placement: str = "auto"
    cell_list: Path | None = None

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
        tally_bytes: rows that tally holds; 1 = each key is read in passes.
        table_bytes: edges that settle holds; 1 = each bucket's go to scratch.
        block_bytes: families that link holds.
        batch_bytes: rows that assemble holds; 1 = each cell of one key is streamed.
        record_block: records that go to one part in one go. It moves the blocks of the unmatched
            file, so it is no free knob: the package has one value.
        unmatched: whether to write the unmatched file.
        lineage: whether to write the table of all reads.
        span_records, shelf_bytes: records that lineage puts in order at a time, and rows it holds.
        mem_mb: memory of a job, more than any baseline of a test process.
    """

    buckets: int = 1
    parts: int = 1
    threads: int = 1
    staging_bytes: int | None = None
    tally_bytes: int | None = None
    table_bytes: int | None = None
    block_bytes: int | None = None
    batch_bytes: int | None = None
    record_block: int = RECORD_BLOCK
    unmatched: bool = True
    lineage: bool = True
    span_records: int | None = None
    shelf_bytes: int | None = None
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
        """Return the rows of all parts, those of place among them, and the unmatched."""
        knobs, rows, unmatched = self.knobs, [], []
        asides: list[Aside] = []
        cells = self.cells() if self.library.cell_list else None
        for number, (unit, reads) in enumerate(self.units()):
            for part in range(knobs.parts):
                name = f"{part + 1}-of-{knobs.parts}"
                home = self.path("partition", self.library.name, unit)
                rows.append(home / f"{name}.rows")
                if knobs.unmatched:
                    unmatched.append(home / f"{name}.unmatched")
                if cells:
                    asides.append(Aside(cells, home / f"{name}.unplaced"))
                meter = self.meter("checkout", knobs.threads, unit=unit, part=name)
                checkout(
                    reads,
                    self.library.layouts,
                    probes,
                    unit,
                    Part(number, part, knobs.parts, knobs.record_block),
                    rows[-1],
                    meter,
                    partial=rows[-1].with_suffix(".partial"),
                    minimum_umi_quality=self.library.minimum_umi_quality,
                    unmatched=unmatched[-1] if unmatched else None,
                    aside=asides[-1] if asides else None,
                    names=home / f"{name}.names" if knobs.lineage else None,
                    staging_bytes=knobs.staging_bytes,
                )
                self.done(meter, "match")
        if cells:
            rows.append(self.place(cells, [aside.unplaced for aside in asides]))
        return rows, unmatched

    def cells(self) -> Path:
        assert self.library.cell_list
        output = self.path("cells", f"{self.library.name}.cells")
        _, layouts = sample_layouts(self.library.layouts)
        meter = self.meter("cells")
        list_cells(self.library.cell_list, layouts[0].cell_length, output, meter)
        self.done(meter, "decode")
        return output

    def place(self, cells: Path, unplaced: Sequence[Path]) -> Path:
        output = self.path("place", f"{self.library.name}.rows")
        meter = self.meter("place")
        place(
            unplaced,
            cells,
            output,
            meter,
            staging_bytes=self.knobs.staging_bytes,
            batch_bytes=self.knobs.tally_bytes,
        )
        self.done(meter, "match")
        return output

    def plan(self, rows: Sequence[Path]) -> Path:
        output = self.path("plan", self.library.name, f"of-{self.knobs.buckets}.plan")
        meter = self.meter("plan")
        tile = tiled_samples(self.library.layouts, self.library.placement)
        partials = [path.with_suffix(".partial") for path in rows]
        partials = [path for path in partials if path.exists()]
        plan(rows, self.knobs.buckets, output, meter, partials=partials, tile=tile)
        self.done(meter, "sort")
        return output

    def home(self, stage: str, name: str) -> Path:
        return self.path(stage, self.library.name, name)

    def bucket_files(self, stage: str, ending: str) -> list[Path]:
        count = self.knobs.buckets
        names = [f"{number + 1}-of-{count}.{ending}" for number in range(count)]
        return [self.home(stage, name) for name in names]

    def bucket_meters(self, stage: str, threads: int = 1) -> list[Meter]:
        count = self.knobs.buckets
        names = [f"{number + 1}-of-{count}" for number in range(count)]
        return [self.meter(stage, threads, bucket=name) for name in names]

    def tally(self, plan_path: Path) -> list[Path]:
        tables = self.bucket_files("tally", "families")
        for number, meter in enumerate(self.bucket_meters("tally")):
            tally(
                plan_path,
                number,
                tables[number],
                meter,
                scratch=self.folder,
                batch_bytes=self.knobs.tally_bytes,
            )
            self.done(meter, "sort")
        return tables

    def refine(self, plan_path: Path, tables: Sequence[Path]) -> tuple[list[Path], Path]:
        """Correct the families; return the fates by bucket, and route's file."""
        knobs, library = self.knobs, self.library
        name = f"of-{knobs.buckets}"
        model_path = self.home("model", f"{name}.model")
        meter = self.meter("model")
        model(plan_path, tables, model_path, meter)
        self.done(meter, "model")
        links = self.bucket_files("link", "edges")
        queries = self.bucket_files("link", "queries")
        for number, meter in enumerate(self.bucket_meters("link")):
            link(
                plan_path,
                tables,
                number,
                model_path,
                link_module.Outputs(links[number], queries[number]),
                meter,
                block_bytes=knobs.block_bytes,
            )
            self.done(meter, "match")
        settled = self.home("settle", f"{name}.settled")
        meter = self.meter("settle")
        rule = make_rule(library.method, library.minimum_posterior)
        settle(
            plan_path,
            settle_module.Sources(tables, links, queries),
            model_path,
            rule,
            settled,
            meter,
            table_bytes=knobs.table_bytes,
        )
        self.done(meter, "sort")
        outboxes = self.bucket_files("move", "outbox")
        fates = self.bucket_files("move", "fates")
        for number, meter in enumerate(self.bucket_meters("move")):
            move(
                plan_path,
                move_module.Sources(tables[number], links[number], settled, model_path),
                number,
                move_module.Outputs(outboxes[number], fates[number]),
                meter,
                judge=library.method == "posterior",
                staging_bytes=knobs.staging_bytes,
            )
            self.done(meter, "sort")
        routes = self.home("route", f"{name}.json")
        meter = self.meter("route")
        route(plan_path, settled, outboxes, routes, meter)
        self.done(meter, "write")
        return fates, routes

    def assemble(
        self, plan_path: Path, tables: Sequence[Path], fates: Sequence[Path], routes: Path
    ) -> Fragments:
        knobs, library = self.knobs, self.library
        kinds = ("mate1", "mate2", "molecules")
        found = {kind: self.bucket_files("assemble", kind) for kind in kinds}
        lineages = self.bucket_files("assemble", "lineage")
        for number, meter in enumerate(self.bucket_meters("assemble", knobs.threads)):
            assemble(
                plan_path,
                Sources(tables[number], fates[number], routes),
                number,
                Settings(
                    Filter(library.minimum_reads, library.suspects),
                    library.floor,
                    2 if library.paired else 1,
                ),
                (found["mate1"][number], found["mate2"][number]),
                found["molecules"][number],
                meter,
                lineage_path=lineages[number] if knobs.lineage else None,
                batch_bytes=knobs.batch_bytes,
            )
            self.done(meter, "model")
        return Fragments(
            mates=(found["mate1"], found["mate2"]),
            molecules=found["molecules"],
            families=tables,
            fates=fates,
        )

    def index(
        self,
        plan_path: Path,
        probes: Mapping[str, Path],
        fragments: Fragments,
        routes: Path,
    ) -> Path:
        library, knobs = self.library, self.knobs
        output = self.path("index", f"{library.name}.json")
        meter = self.meter("index")
        index(
            plan_path,
            fragments,
            routes,
            self.metrics,
            output,
            self.path("metrics", library.name),
            LibrarySettings(
                library=library.name,
                layouts=library.layouts,
                reads={unit: [str(path) for path in reads] for unit, reads in self.units()},
                probes=probes,
                model=self.home("model", f"of-{knobs.buckets}.model"),
                buckets=knobs.buckets,
                parts=knobs.parts,
                floor=library.floor,
                minimum_reads=library.minimum_reads,
                method=library.method,
                minimum_posterior=library.minimum_posterior,
                suspects=library.suspects,
                cell_list=str(library.cell_list) if library.cell_list else None,
            ),
            meter,
        )
        self.done(meter, "write")
        return output

    def gather(self, index_path: Path) -> list[Path]:
        library, found = self.library, []
        cells = cell_samples(library.layouts)
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
                cells=cells,
            )
            self.done(meter, "write")
            found += [path for paths in fastq.values() for path in paths]
            found += [
                self.folder / name
                for sample in samples
                for name in table_files(sample, cells=sample in cells)
            ]
        return found

    def lineage(self, index_path: Path) -> list[Path]:
        knobs, parts = self.knobs, self.knobs.parts
        output = self.folder / lineage_file(self.library.name)
        meter = self.meter("lineage")
        lineage(
            LineageSources(
                index=index_path,
                units=[unit for unit, _ in self.units()],
                names=[
                    self.path("partition", self.library.name, unit, f"{part + 1}-of-{parts}.names")
                    for unit, _ in self.units()
                    for part in range(parts)
                ],
                fragments=self.bucket_files("assemble", "lineage"),
            ),
            knobs.parts,
            output,
            meter,
            span_records=knobs.span_records,
            shelf_bytes=knobs.shelf_bytes,
        )
        self.done(meter, "compress")
        return [output]

    def gather_unmatched(self, pieces: Sequence[Path]) -> list[Path]:
        names = unmatched_files(self.library.name, paired=self.library.paired)
        outputs = [self.folder / name for name in names]
        meter = self.meter("gather_unmatched")
        gather_unmatched(pieces, self.knobs.parts, outputs, meter)
        self.done(meter, "write")
        return outputs


def run_checkout(library: Library, folder: Path) -> list[Path]:
    """Run a library up to its partition files, for those who want to know of every read."""
    stages = _Stages(library, folder, Knobs(unmatched=False, lineage=False))
    rows, _ = stages.checkout(stages.probes())
    return rows


@dataclass(frozen=True)
class Refined:
    """A library whose families are settled.

    Attributes:
        plan: its plan.
        tables: families by bucket.
        fates: their fates.
        outboxes: rows that went to other families, by bucket.
        model: the model.
    """

    plan: Path
    tables: list[Path]
    fates: list[Path]
    outboxes: list[Path]
    model: Path


def run_refine(library: Library, folder: Path, knobs: Knobs) -> Refined:
    """Run a library up to the fates of its families."""
    stages = _Stages(library, folder, replace(knobs, unmatched=False, lineage=False))
    rows, _ = stages.checkout(stages.probes())
    plan_path = stages.plan(rows)
    tables = stages.tally(plan_path)
    fates, _ = stages.refine(plan_path, tables)
    model_path = stages.home("model", f"of-{knobs.buckets}.model")
    outboxes = stages.bucket_files("move", "outbox")
    return Refined(plan_path, tables, fates, outboxes, model_path)


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
    tables = stages.tally(plan_path)
    fates, routes = stages.refine(plan_path, tables)
    fragments = stages.assemble(plan_path, tables, fates, routes)
    index_path = stages.index(plan_path, probes, fragments, routes)
    found = stages.gather(index_path)
    if knobs.unmatched:
        found += stages.gather_unmatched(unmatched)
    if knobs.lineage:
        found += stages.lineage(index_path)
    found += [stages.path("metrics", library.name, name) for name in LIBRARY_TABLES]
    outputs = {str(path.relative_to(folder / "results")): path for path in found}
    return Run(library, folder, outputs, stages.jobs)
