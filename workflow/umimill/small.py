"""small: all stages of a library of one bucket and one part a unit, in one process.

A stage as a job of its own costs a second to start, thirteen of them more than 100,000 reads do. So
a job runs the stages of a small library one after the other, and may own several libraries. They
are the stages of the other rules with the same files between them, which nobody reads again: they
lie in a folder that is removed.

A library that fails leaves a text that says why instead of its files; the others go on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from umimill import link, move, settle
from umimill.assemble import Settings, Sources, assemble
from umimill.cell_list import list_cells
from umimill.cells import Filter
from umimill.checkout import Aside, Part, checkout
from umimill.errors import error_text, note, tell
from umimill.gather import gather, gather_unmatched
from umimill.index import Fragments, index
from umimill.job import Jobs
from umimill.layout import cell_samples, sample_layouts, tiled_samples
from umimill.library_tables import LibrarySettings
from umimill.lineage import Sources as LineageSources
from umimill.lineage import lineage
from umimill.metrics import summary_text
from umimill.model import model
from umimill.names import fastq_files, lineage_file, unmatched_files
from umimill.place import place
from umimill.plan import plan
from umimill.probe import probe
from umimill.route import route
from umimill.tally import tally

# The one bucket and the one part, as other rules name them.
ONLY = "1-of-1"
FAILED = "failed.txt"
RESULTS = "results"


@dataclass(frozen=True)
class SmallLibrary:
    """A library as its rows say.

    Attributes:
        name: its name.
        units: files of each unit, one or two, in order.
        layouts: rows (sample, layout, layout of read 2 or nothing).
        cell_list: file of its cell barcodes, or None.
    """

    name: str
    units: Mapping[str, Sequence[str]]
    layouts: Sequence[Sequence[str | None]]
    cell_list: str | None = None

    @property
    def paired(self) -> bool:
        """Whether templates are pairs."""
        return len(next(iter(self.units.values()))) == 2

    @property
    def samples(self) -> list[str]:
        """Samples in order."""
        return sorted({str(row[0]) for row in self.layouts})


@dataclass(frozen=True)
class Wishes:
    """What a run asks of every library: the config keys of these names, read (config.py)."""

    limit_reads: int
    min_umi_quality: int
    placement: str
    refine_method: str
    min_posterior: float
    floor: float
    min_reads: int
    unmatched: bool
    suspects: bool
    lineage: bool


class _Library:
    """Runs the stages of a library.

    Args:
        library: the library.
        wishes: what is asked.
        home: folder of its outputs, named as below `results`.
        jobs: measures the stages.
    """

    def __init__(self, library: SmallLibrary, wishes: Wishes, home: Path, jobs: Jobs) -> None:
        self._library = library
        self._wishes = wishes
        self._home = home
        self._jobs = jobs
        self._work = home / "work"
        self._plan = self._file("plan")

    def _file(self, name: str, *folders: str) -> Path:
        return self._work.joinpath(*folders, name)

    def _output(self, name: str) -> Path:
        """Return where a file goes that is named as one of the run."""
        return self._home / Path(name).relative_to(RESULTS)

    def run(self) -> None:
        """Make all outputs of the library."""
        rows = self._checkout()
        self._tally(rows)
        self._refine()
        self._assemble()
        listed = self._index()
        self._gather(listed)
        if self._wishes.unmatched:
            self._gather_unmatched()
        if self._wishes.lineage:
            self._lineage(listed)
        shutil.rmtree(self._work)

    def _part(self, unit: str, ending: str) -> Path:
        return self._file(f"{ONLY}.{ending}", "partition", unit)

    def _checkout(self) -> list[Path]:
        """Run probe, cells, checkout and place; return the partition files."""
        library = self._library
        reads = {unit: [Path(one) for one in files] for unit, files in library.units.items()}
        for unit, files in reads.items():
            with self._jobs.stage("probe", "match", unit=unit) as meter:
                probe(files, library.layouts, self._probes[unit], meter)
        cells = self._list_cells()
        for number, (unit, files) in enumerate(reads.items()):
            with self._jobs.stage(
                "checkout", "match", threaded=True, unit=unit, part=ONLY
            ) as meter:
                checkout(
                    files,
                    library.layouts,
                    self._probes,
                    unit,
                    Part(number, 0, 1),
                    self._part(unit, "rows"),
                    meter,
                    partial=self._part(unit, "partial"),
                    limit=self._wishes.limit_reads,
                    minimum_umi_quality=self._wishes.min_umi_quality,
                    unmatched=self._part(unit, "unmatched") if self._wishes.unmatched else None,
                    aside=Aside(cells, self._part(unit, "unplaced")) if cells else None,
                    names=self._part(unit, "names") if self._wishes.lineage else None,
                )
        rows = [self._part(unit, "rows") for unit in reads]
        if cells:
            rows.append(self._file("placed"))
            with self._jobs.stage("place", "match") as meter:
                place([self._part(unit, "unplaced") for unit in reads], cells, rows[-1], meter)
        return rows

    @property
    def _probes(self) -> dict[str, Path]:
        return {unit: self._file(f"{unit}.json", "probe") for unit in self._library.units}

    def _list_cells(self) -> Path | None:
        if self._library.cell_list is None:
            return None
        output = self._file("cells")
        _, layouts = sample_layouts(self._library.layouts)
        with self._jobs.stage("cells", "decode") as meter:
            list_cells(Path(self._library.cell_list), layouts[0].cell_length, output, meter)
        return output

    def _tally(self, rows: Sequence[Path]) -> None:
        with self._jobs.stage("plan", "sort") as meter:
            plan(
                rows,
                1,
                self._plan,
                meter,
                partials=[self._part(unit, "partial") for unit in self._library.units],
                tile=tiled_samples(self._library.layouts, self._wishes.placement),
            )
        with self._jobs.stage("tally", "sort", bucket=ONLY) as meter:
            tally(self._plan, 0, self._file("families"), meter, scratch=self._work)

    def _refine(self) -> None:
        """Run model to route."""
        tables, wishes = [self._file("families")], self._wishes
        model_path, settled = self._file("model"), self._file("settled")
        with self._jobs.stage("model", "model") as meter:
            model(self._plan, tables, model_path, meter)
        linked = link.Outputs(self._file("edges"), self._file("queries"))
        with self._jobs.stage("link", "match", bucket=ONLY) as meter:
            link.link(self._plan, tables, 0, model_path, linked, meter)
        with self._jobs.stage("settle", "sort") as meter:
            sources = settle.Sources(tables, [linked.edges], [linked.queries])
            rule = settle.make_rule(wishes.refine_method, wishes.min_posterior)
            settle.settle(self._plan, sources, model_path, rule, settled, meter)
        with self._jobs.stage("move", "sort", bucket=ONLY) as meter:
            move.move(
                self._plan,
                move.Sources(tables[0], linked.edges, settled, model_path),
                0,
                move.Outputs(self._file("outbox"), self._file("fates")),
                meter,
                judge=wishes.refine_method == "posterior",
            )
        with self._jobs.stage("route", "write") as meter:
            route(self._plan, settled, [self._file("outbox")], self._file("routes"), meter)

    def _assemble(self) -> None:
        wanted = Filter(self._wishes.min_reads, suspects=self._wishes.suspects)
        with self._jobs.stage("assemble", "model", threaded=True, bucket=ONLY) as meter:
            assemble(
                self._plan,
                Sources(self._file("families"), self._file("fates"), self._file("routes")),
                0,
                Settings(wanted, self._wishes.floor, 2 if self._library.paired else 1),
                (self._file("mate1"), self._file("mate2")),
                self._file("molecules"),
                meter,
                lineage_path=self._file("lineage") if self._wishes.lineage else None,
            )

    def _index(self) -> Path:
        library, wishes = self._library, self._wishes
        output, folder = self._file("index"), self._home / "metrics" / library.name
        fragments = Fragments(
            mates=([self._file("mate1")], [self._file("mate2")]),
            molecules=[self._file("molecules")],
            families=[self._file("families")],
            fates=[self._file("fates")],
        )
        settings = LibrarySettings(
            library=library.name,
            layouts=library.layouts,
            reads=library.units,
            probes=self._probes,
            model=self._file("model"),
            buckets=1,
            parts=1,
            floor=wishes.floor,
            minimum_reads=wishes.min_reads,
            method=wishes.refine_method,
            minimum_posterior=wishes.min_posterior,
            suspects=wishes.suspects,
            limit_reads=wishes.limit_reads,
            cell_list=library.cell_list,
        )
        jobs = self._jobs.paths
        with self._jobs.stage("index", "write", folder / "index.json") as meter:
            index(
                self._plan,
                fragments,
                self._file("routes"),
                jobs,
                output,
                folder,
                settings,
                meter,
            )
        return output

    def _gather(self, listed: Path) -> None:
        library = self._library
        fastq = {
            sample: [self._output(name) for name in fastq_files(sample, paired=library.paired)]
            for sample in library.samples
        }
        metrics = self._home / "metrics" / library.name / "gather.1.json"
        with self._jobs.stage("gather", "write", metrics, samples=library.samples) as meter:
            gather(
                listed,
                library.samples,
                fastq,
                self._home / "samples",
                meter,
                cells=cell_samples(library.layouts),
            )

    def _gather_unmatched(self) -> None:
        library = self._library
        names = unmatched_files(library.name, paired=library.paired)
        outputs = [self._output(name) for name in names]
        metrics = outputs[0].parent / f"{library.name}.metrics.json"
        with self._jobs.stage("gather_unmatched", "write", metrics) as meter:
            pieces = [self._part(unit, "unmatched") for unit in library.units]
            gather_unmatched(pieces, 1, outputs, meter)

    def _lineage(self, listed: Path) -> None:
        library = self._library
        output = self._output(lineage_file(library.name))
        metrics = output.parent / f"{library.name}.metrics.json"
        sources = LineageSources(
            index=listed,
            units=list(library.units),
            names=[self._part(unit, "names") for unit in library.units],
            fragments=[self._file("lineage")],
        )
        with self._jobs.stage("lineage", "compress", metrics) as meter:
            lineage(sources, 1, output, meter)


def run_small(
    libraries: Sequence[SmallLibrary],
    wishes: Wishes,
    homes: Sequence[Path],
    make_jobs: Callable[[str, Path], Jobs],
) -> None:
    """Run small libraries one after the other.

    Args:
        libraries: the libraries.
        wishes: what is asked of all of them.
        homes: folder of the outputs of each.
        make_jobs: makes what measures the stages of a library, of its name and a folder.
    """
    for library, home in zip(libraries, homes, strict=True):
        jobs = make_jobs(library.name, home / "work" / "jobs")
        try:
            _Library(library, wishes, home, jobs).run()
        # Whatever stops one library, a fault of ours among them, must not stop the others.
        except Exception as error:
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            text = error_text(error)
            (home / FAILED).write_text(text, encoding="utf-8", errors="backslashreplace")
            # The rule that publishes the library says it aloud.
            if jobs.log_path is not None:
                note(text, jobs.log_path)
        else:
            tell(summary_text(jobs.sum()), jobs.log_path)
