"""The table of all samples of a run: their numbers and what samples.tsv says of them.

Made by the job of the report, so that a changed word in the sheet runs nothing else again. Imported
there, so the standard library only.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from umimill.files import whole_file

# A row of samples.tsv: the sample, and the cells of further columns by name.
SheetRow = tuple[str, Mapping[str, str]]


def write_sample_table(
    tables: Sequence[Sequence[Mapping[str, str]]], sheet: Sequence[SheetRow], output: Path
) -> None:
    """Write one row a sample, the columns of the sheet behind those of the libraries' tables.

    Cells with a quote are quoted, as spreadsheets, R and pandas read it. A column of the sheet that
    has the name of another one gets `sheet_` in front.

    Args:
        tables: rows of each library's samples.tsv, all with the same columns.
        sheet: rows of the sheet of all libraries; where a sample has several, different cells are
            joined by `; `.
        output: table to write, whole or not at all.
    """
    rows = [row for table in tables for row in table]
    own = list(rows[0]) if rows else []
    extra = list(dict.fromkeys(name for _, cells in sheet for name in cells))
    with (
        whole_file(output) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow([*own, *free_names(extra, own)])
        for row in rows:
            cells = [_joined(sheet, row["sample"], name) for name in extra]
            writer.writerow([*(row[name] for name in own), *cells])


def free_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Put `sheet_` in front of names that are taken, without regard to case."""
    used = {name.casefold() for name in taken}
    others = {name.casefold() for name in names} - used
    free = []
    for name in names:
        new = " ".join(name.split())
        if new.casefold() in used:
            while new.casefold() in used | others:
                new = f"sheet_{new}"
        used.add(new.casefold())
        free.append(new)
    return free


def _joined(sheet: Sequence[SheetRow], sample: str, column: str) -> str:
    cells = (" ".join(row.get(column, "").split()) for name, row in sheet if name == sample)
    return "; ".join(dict.fromkeys(cell for cell in cells if cell))
