"""Changes of a run, by the words of CONTRIBUTING.md, and its table of what they run again."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

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
    "`libraries_per_job`": ("kept", config("libraries_per_job=auto")),
    "`limit_reads`": ("kept", config("limit_reads=100")),
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
