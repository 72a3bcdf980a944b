"""The stages of a library, one function each, with the paths and metrics they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from library_run import Knobs, Library
from umimill import link as link_module
from umimill import move as move_module
from umimill import settle as settle_module
from umimill.assemble import Settings, Sources, assemble
from umimill.cell_list import list_cells
from umimill.cells import Filter
from umimill.checkout import Aside, Part, checkout
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


@dataclass
class Stages:
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
