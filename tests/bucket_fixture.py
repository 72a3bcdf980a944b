"""The stages between plan and gather, called directly, bucket by bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stage_fixture import Library, new_meter
from umimill import link, move, settle
from umimill.assemble import Settings, Sources, assemble
from umimill.cells import Filter
from umimill.files import write_json
from umimill.fragments import LEFT_LINES
from umimill.index import Fragments, index
from umimill.library_tables import LibrarySettings
from umimill.metrics import Meter
from umimill.model import model
from umimill.plan import read_plan
from umimill.route import route
from umimill.tally import tally

NAMES = ("families", "edges", "queries", "outbox", "fates", "mate1", "mate2", "molecules")
# Lines of assemble's ledger.
ASSEMBLE_LINES = ("voted", *LEFT_LINES)


@dataclass(frozen=True)
class Buckets:
    """Files of a library behind its plan.

    Attributes:
        plan_path: plan.
        files: files of each bucket by name, see NAMES.
        model: model of the library.
        settled: settle's file.
        routes: route's list.
    """

    plan_path: Path
    files: list[dict[str, Path]]
    model: Path
    settled: Path
    routes: Path

    def all(self, name: str) -> list[Path]:
        """Return the files of one kind, by bucket."""
        return [one[name] for one in self.files]

    def sources(self, bucket: int) -> Sources:
        """Return what assemble reads."""
        return Sources(self.files[bucket]["families"], self.files[bucket]["fates"], self.routes)

    @property
    def fragments(self) -> Fragments:
        """What index reads."""
        mates = self.all("mate1"), self.all("mate2")
        return Fragments(mates, self.all("molecules"), self.all("families"), self.all("fates"))


def run_refine(
    plan_path: Path,
    home: Path,
    metrics: list[dict[str, Any]] | None = None,
    *,
    method: str = "unique",
    minimum_posterior: float = 0.95,
    tally_bytes: int | None = None,
    table_bytes: int | None = None,
    block_bytes: int | None = None,
    staging_bytes: int | None = None,
) -> Buckets:
    """Run tally, model, link, settle, move and route of all buckets.

    Args:
        plan_path: plan.
        home: folder for the files.
        metrics: metrics of the jobs are appended.
        method: "unique": each family is a molecule; "posterior": as in the config.
        minimum_posterior: as in the config.
        tally_bytes, table_bytes, block_bytes, staging_bytes: memory of the stages.
    """
    count = read_plan(plan_path).bounds.size - 1
    held: list[dict[str, Any]] = [] if metrics is None else metrics
    files = [{name: home / f"{bucket}.{name}" for name in NAMES} for bucket in range(count)]
    made = Buckets(plan_path, files, home / "model", home / "settled", home / "routes.json")

    def meter(stage: str, bucket: int) -> Meter:
        return new_meter(stage, bucket=f"{bucket + 1}-of-{count}")

    def done(meter: Meter, clock: str) -> None:
        held.append(meter.result(clock))

    for bucket, own in enumerate(files):
        timer = meter("tally", bucket)
        tally(plan_path, bucket, own["families"], timer, batch_bytes=tally_bytes)
        done(timer, "sort")
    families, edges, queries = (made.all(name) for name in NAMES[:3])
    timer = new_meter("model")
    model(plan_path, families, made.model, timer)
    done(timer, "model")
    for bucket, own in enumerate(files):
        timer = meter("link", bucket)
        outputs = link.Outputs(own["edges"], own["queries"])
        link.link(plan_path, families, bucket, made.model, outputs, timer, block_bytes=block_bytes)
        done(timer, "match")
    timer = new_meter("settle")
    rule = settle.make_rule(method, minimum_posterior)
    sources = settle.Sources(families, edges, queries)
    settle.settle(
        plan_path, sources, made.model, rule, made.settled, timer, table_bytes=table_bytes
    )
    done(timer, "sort")
    for bucket, own in enumerate(files):
        timer = meter("move", bucket)
        move.move(
            plan_path,
            move.Sources(own["families"], own["edges"], made.settled, made.model),
            bucket,
            move.Outputs(own["outbox"], own["fates"]),
            timer,
            judge=method == "posterior",
            staging_bytes=staging_bytes,
        )
        done(timer, "sort")
    timer = new_meter("route")
    route(plan_path, made.settled, made.all("outbox"), made.routes, timer)
    done(timer, "write")
    return made


def run_assemble(
    made: Buckets,
    bucket: int,
    *,
    mates: int = 1,
    minimum_reads: int = 1,
    batch_bytes: int | None = None,
) -> Meter:
    """Assemble one bucket."""
    own = made.files[bucket]
    meter = new_meter("assemble", bucket=f"{bucket + 1}-of-{len(made.files)}")
    assemble(
        made.plan_path,
        made.sources(bucket),
        bucket,
        Settings(Filter(minimum_reads), 1e-4, mates),
        (own["mate1"], own["mate2"]),
        own["molecules"],
        meter,
        batch_bytes=batch_bytes,
    )
    return meter


def run_buckets(
    library: Library, plan_path: Path, *, minimum_reads: int = 1, **options: Any
) -> tuple[Buckets, list[dict[str, Any]]]:
    """Run all that lies between plan and index; return the files and all metrics.

    Args:
        library: the library.
        plan_path: plan.
        minimum_reads: molecules of fewer reads get no record.
        options: see run_refine.
    """
    metrics: list[dict[str, Any]] = []
    home = library.folder / "buckets" / plan_path.stem
    made = run_refine(plan_path, home, metrics, **options)
    for bucket in range(len(made.files)):
        meter = run_assemble(made, bucket, mates=library.mates, minimum_reads=minimum_reads)
        metrics.append(meter.result("model"))
    return made, metrics


def run_index(
    library: Library,
    made: Buckets,
    metrics: Sequence[Mapping[str, Any]],
    *,
    minimum_reads: int = 1,
) -> Path:
    """Index a library; return the index. Its tables are in the folder `metrics`."""
    jobs = []
    for number, job in enumerate(metrics):
        jobs.append(library.folder / "jobs" / f"{number}.json")
        write_json(jobs[-1], job)
    output = library.folder / "index.json"
    index(
        made.plan_path,
        made.fragments,
        made.routes,
        jobs,
        output,
        library.folder / "metrics",
        settings(library, made, minimum_reads=minimum_reads),
        new_meter("index"),
    )
    return output


def settings(library: Library, made: Buckets, *, minimum_reads: int = 1) -> LibrarySettings:
    """Make the settings that index takes."""
    return LibrarySettings(
        "L1",
        library.layouts,
        {unit: [str(path) for path in reads] for unit, reads in library.units.items()},
        {unit: library.folder / "probe" / f"{unit}.json" for unit in library.units},
        made.model,
        len(made.files),
        1,
        1e-4,
        minimum_reads,
    )
