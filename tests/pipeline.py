"""All stages of a library in one process, through the stage functions, without Snakemake.

    library = Library((("S1", "^NNNNNNNN", None),), {"L001": (Path("reads.fastq.gz"),)})
    run = run_pipeline(library, folder, Knobs(buckets=4, threads=2))
    run.outputs["samples/S1/S1.molecules.parquet"], run.ledger(), run.total("tally", "reads")

`Library` holds what decides the bytes of the outputs, `Knobs` what must not move one of them; both
and `Run` are of library_run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from library_run import Knobs, Library, Run
from pipeline_stages import Stages

LIBRARY_TABLES = (
    *("barcodes.tsv", "corrections.tsv", "family_sizes.tsv", "ledger.tsv", "outcomes.tsv"),
    *("posteriors.tsv", "ranks.tsv", "samples.tsv", "sizes.tsv", "umi_errors.tsv"),
)


def run_checkout(library: Library, folder: Path) -> list[Path]:
    """Run a library up to its partition files, for those who want to know of every read."""
    stages = Stages(library, folder, Knobs(unmatched=False, lineage=False))
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
    stages = Stages(library, folder, replace(knobs, unmatched=False, lineage=False))
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
    stages = Stages(library, folder, knobs)
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
