"""What runs again after a change; CONTRIBUTING.md has the answer as a table."""

from __future__ import annotations

import gzip
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml

import cell_fixture
import workflow_run as runs

LAYOUTS = [("^ACGTACttgcaNNNNNNNN", "^NNNNcag"), ("^TGCATGttgcaNNNNNNNN", "^NNNNcag")]
UNITS = [("a", "L1"), ("b", "L1"), ("b", "L2")]
SAMPLES = [("a", "A1", *LAYOUTS[0]), ("a", "A2", *LAYOUTS[1]), ("b", "B1", *LAYOUTS[0])]
SPARE = ("a_L2_R1.fastq", "a_L2_R2.fastq")

# A library with a list of cell barcodes, and one without.
LISTED_UNITS = [("a", "L1", "cells/L1.fastq.gz"), ("b", "L1", "cells/L2.fastq.gz")]


def listed_samples(*lists: str) -> list[tuple[str, ...]]:
    layout = "^" + "X" * cell_fixture.CELL + "N" * cell_fixture.UMI
    return [
        (library, sample, layout, "", path)
        for library, sample, path in zip("ab", ("A1", "B1"), (*lists, "")[:2], strict=True)
    ]


# Changes a run and gives the arguments to call Snakemake with.
Change = Callable[[Path], Sequence[str]]


def unit_rows() -> list[tuple[str, ...]]:
    return [
        (library, unit, *(f"{library}_{unit}_R{mate}.fastq" for mate in (1, 2)))
        for library, unit in UNITS
    ]


def config(*values: str) -> Change:
    return lambda _folder: ("--config", *values)


def options(*arguments: str) -> Change:
    return lambda _folder: arguments


def sheets(
    units: Callable[[list[tuple[str, ...]]], list[tuple[str, ...]]] = list,
    samples: Callable[[list[tuple[str, ...]]], list[tuple[str, ...]]] = list,
) -> Change:
    def change(folder: Path) -> Sequence[str]:
        runs.write_sheets(folder, units(unit_rows()), samples(list(SAMPLES)))
        return ()

    return change


def copy_sheets(folder: Path) -> Sequence[str]:
    for name in ("units", "samples"):
        shutil.copyfile(folder / f"{name}.tsv", folder / f"{name} 2.tsv")
    return ("--config", "units=units 2.tsv", "samples=samples 2.tsv")


def add_library(folder: Path) -> Sequence[str]:
    units = [*unit_rows(), ("c", "L1", *SPARE)]
    runs.write_sheets(folder, units, [*SAMPLES, ("c", "C1", *LAYOUTS[0])])
    return ()


def rename_file(folder: Path) -> Sequence[str]:
    shutil.copy2(folder / "a_L1_R1.fastq", folder / "renamed.fastq")
    first, *others = unit_rows()
    runs.write_sheets(folder, [(*first[:2], "renamed.fastq", first[3]), *others], SAMPLES)
    return ()


def add_column(folder: Path) -> Sequence[str]:
    rows = [(*row, "", "x") for row in SAMPLES]
    (folder / "samples.tsv").write_text(runs.table_text((*runs.SAMPLES, "donor"), rows))
    return ()


def change_content(folder: Path) -> Sequence[str]:
    shutil.copyfile(folder / "a_L2_R1.fastq", folder / "a_L1_R1.fastq")
    return ()


def change_list(folder: Path) -> Sequence[str]:
    path = folder / "cells.txt"
    path.write_text(path.read_text() + "ACGTACGTAC\n")
    return ()


def other_list(folder: Path) -> Sequence[str]:
    shutil.copy2(folder / "cells.txt", folder / "others.txt")
    runs.write_sheets(folder, LISTED_UNITS, listed_samples("others.txt"))
    return ()


def no_list(folder: Path) -> Sequence[str]:
    runs.write_sheets(folder, LISTED_UNITS, listed_samples(""))
    return ()


def give_list(folder: Path) -> Sequence[str]:
    runs.write_sheets(folder, LISTED_UNITS, listed_samples("cells.txt", "cells.txt"))
    return ()


def touch(folder: Path) -> Sequence[str]:
    os.utime(folder / "a_L1_R1.fastq")
    return ()


# By the words of CONTRIBUTING.md: the run that was finished, and the change.
CASES: dict[str, tuple[str, Change]] = {
    "`buckets`": ("kept", config("buckets=2")),
    "`--set-scatter LIBRARY=3`": ("kept", options("--set-scatter", "a=3")),
    "`parts`": ("kept", config("parts=2")),
    "`min_reads`": ("kept", config("min_reads=2")),
    "`min_umi_quality`": ("kept", config("min_umi_quality=10")),
    "`placement`": ("kept", config("placement=tile")),
    "`refine_method`": ("kept", config("refine_method=unique")),
    "`min_posterior`": ("kept", config("min_posterior=0.8")),
    "`floor`": ("kept", config("floor=high")),
    "`outputs`: `unmatched` is asked for": ("kept", config("outputs=unmatched")),
    "`outputs`: `unmatched` is no longer asked for": ("removed", config("outputs=")),
    "`outputs`: `lineage` is asked for": ("kept", config("outputs=lineage")),
    "`outputs`: `lineage` is no longer asked for": ("removed", config("outputs=unmatched")),
    "`outputs`: `suspects` is asked for, or no longer": ("kept", config("outputs=suspects")),
    "`keep_intermediates`: from `true` to `false`": ("kept", config("keep_intermediates=false")),
    "`keep_intermediates`: from `false` to `true`": ("removed", config("keep_intermediates=true")),
    "`min_reads`, in a run that removed its intermediates": ("removed", config("min_reads=2")),
    "`units` and `samples`: another path, the same rows": ("kept", copy_sheets),
    "units sheet: a unit more": ("kept", sheets(lambda rows: [*rows, ("a", "L2", *SPARE)])),
    "units sheet: a library more": ("kept", add_library),
    "units sheet: rows in another order": ("kept", sheets(lambda rows: rows[::-1])),
    "units sheet: a file of another name": ("kept", rename_file),
    "samples sheet: a layout": (
        "kept",
        sheets(samples=lambda rows: [(*rows[0][:3], "^NNNNca"), *rows[1:]]),
    ),
    "samples sheet: a sample more": (
        "kept",
        sheets(samples=lambda rows: [*rows, ("b", "B2", *LAYOUTS[1])]),
    ),
    "samples sheet: rows in another order": (
        "kept",
        sheets(samples=lambda rows: [rows[1], rows[0], rows[2]]),
    ),
    "samples sheet: a further column, or what is in it": ("kept", add_column),
    "samples sheet: a `cell_list`": ("listed", give_list),
    "samples sheet: another `cell_list`": ("listed", other_list),
    "samples sheet: `cell_list` cleared": ("listed", no_list),
    "a list of cells: its content": ("listed", change_list),
    "a file of reads: its content": ("kept", change_content),
    "a file of reads: its time alone, up to 1 MB": ("kept", touch),
    "cores, threads, memory": (
        "kept",
        options("--set-threads", "checkout=1", "--set-resources", "tally:mem_mb=900"),
    ),
}


def table() -> dict[str, tuple[str, str]]:
    text = (runs.CLONE / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("\n## What reruns when a key changes\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.*?) \| ?(.*?) ?\|$", section, re.MULTILINE)
    return {what: (stage, where) for what, stage, where in rows[1:]}


def test_table_covers_every_key() -> None:
    text = (runs.CLONE / "workflow" / "schemas" / "config.schema.yaml").read_text(encoding="utf-8")
    words = " ".join(row.split(":")[0] for row in table())
    named = set(re.findall(r"`(\w+)`", words))
    assert named == set(yaml.safe_load(text)["properties"])
    assert list(table()) == list(CASES)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run that kept its intermediates, one that removed them, one with a list of cells."""
    home = tmp_path_factory.mktemp("reruns")
    rng = np.random.default_rng(9)
    folders = {name: home / name for name in ("kept", "removed")}
    for library, unit in (*UNITS, ("a", "L2")):
        texts = runs.simulate_reads(rng, LAYOUTS, molecules=200, templates=1000, foreign=20)
        for mate, text in enumerate(texts, start=1):
            for folder in folders.values():
                runs.write_reads(folder / f"{library}_{unit}_R{mate}.fastq", text)
    for folder in folders.values():
        runs.write_sheets(folder, unit_rows(), SAMPLES)
    runs.write_config(folders["kept"])
    runs.write_config(
        folders["removed"], keep_intermediates=False, outputs=["unmatched", "lineage"]
    )
    folders["listed"] = home / "listed"
    cells = cell_fixture.make_cells(folders["listed"] / "cells", reads=2000)
    packed = gzip.decompress(cells.cell_list.read_bytes())
    (folders["listed"] / "cells.txt").write_bytes(packed)
    runs.write_sheets(folders["listed"], LISTED_UNITS, listed_samples("cells.txt"))
    runs.write_config(folders["listed"])
    for folder in folders.values():
        runs.succeed(folder)
    return folders


def library_of(job: runs.Job) -> str:
    """Name the library a job belongs to; samples are called as their library, in upper case."""
    return Path(job.output).parts[2].split(".")[0][0].lower()


@pytest.mark.parametrize("what", CASES)
def test_first_stage_is_that_of_the_table(
    finished: dict[str, Path], tmp_path: Path, what: str
) -> None:
    name, change = CASES[what]
    folder = tmp_path / "run"
    shutil.copytree(finished[name], folder)
    result = runs.succeed(folder, "--dry-run", *change(folder))
    order = runs.LISTED_STAGES if "cells" in result.stages else runs.STAGES
    stages = [stage for stage in order if stage in result.stages]
    ran = {library_of(job) for job in result.jobs if job.stage != "report"}
    where = {0: "", 1: "that library", 2: "all libraries"}[len(ran)]
    assert (stages[0] if stages else "nothing", where) == table()[what]
    assert stages == (list(order[order.index(stages[0]) :]) if stages else [])


def test_other_buckets_in_place_give_the_same_bytes(finished: dict[str, Path]) -> None:
    folder = finished["kept"]
    before = runs.digests(folder)
    runs.succeed(folder, "gather_a_1", "--config", "buckets=2")
    assert runs.digests(folder) == before
    # The plan of one bucket, and what was made by it, is still there.
    again = runs.succeed(folder, "gather_a_1")
    assert set(again.stages) == {"index", "gather"}
    assert runs.digests(folder) == before


def test_removed_intermediates_are_made_again(finished: dict[str, Path], tmp_path: Path) -> None:
    """Also where they are to be kept from now on: the jobs that need them are not told of them."""
    for name in ("kept", "removed"):
        shutil.copytree(finished[name], tmp_path / name)
    runs.succeed(tmp_path / "kept", "--config", "min_reads=2")
    options = ("--config", "min_reads=2", "keep_intermediates=true", "outputs=")
    result = runs.succeed(tmp_path / "removed", *options)
    assert [stage for stage in runs.STAGES if stage in result.stages] == list(runs.STAGES[1:])
    names = [f"results/samples/{sample}" for _, sample, *_ in SAMPLES]
    digests = [runs.digests(tmp_path / name, *names) for name in ("kept", "removed")]
    assert digests[0] == digests[1]
