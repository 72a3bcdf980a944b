"""Libraries with a list of cells: what is placed where, and that every read is accounted for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import cell_fixture
from cell_fixture import Cells
from pipeline import Knobs, Library, run_checkout, run_pipeline
from umimill.errors import UmimillError
from umimill.kernels.rows import U
from umimill.metrics import Meter
from umimill.partition import PartitionFile
from umimill.place import looks_two_away, place

LAYOUT = "^" + "X" * cell_fixture.CELL + "N" * cell_fixture.UMI


def library_of(cells: Cells, *, listed: bool = True) -> Library:
    rows = (("S1", LAYOUT, None),)
    return Library(rows, cells.units, cell_list=cells.cell_list if listed else None)


def cells_of(paths: list[Path]) -> dict[tuple[int, int], str]:
    """Return the cell of each row, by unit and record."""
    found = {}
    for path in paths:
        with PartitionFile(path) as part:
            for flush, entry in enumerate(part.flushes):
                hot = part.read_hot(flush, 0, int(entry["rows"]))
                assert (hot["n_mask"] == 0).all()
                for key, unit, record in hot[["key", "unit", "record"]].tolist():
                    name = (unit, record)
                    assert name not in found
                    found[name] = text_of(key)
    return found


def text_of(key: int) -> str:
    return "".join("ACGT"[key >> (62 - 2 * place) & 3] for place in range(cell_fixture.CELL))


def test_cells_are_placed(tmp_path: Path) -> None:
    cells = cell_fixture.make_cells(tmp_path / "reads")
    library = library_of(cells)
    found = cells_of(run_checkout(library, tmp_path / "run"))
    half = len(cells.cell) // 2
    truth = {
        divmod(number, half): (cell, read, listed)
        for number, (cell, read, listed) in enumerate(
            zip(cells.cell, cells.read, cells.listed, strict=True)
        )
    }
    outcome: Counter[str] = Counter()
    for name, (cell, read, listed) in truth.items():
        if listed and read == cell:
            assert found[name] == cell
            outcome["as read"] += 1
        elif listed:
            one = sum(first != second for first, second in zip(read, cell, strict=True)) == 1
            kind = ("unknown" if "N" in read else "misread") if one else "several"
            got = found.get(name)
            outcome[f"{kind} {'lost' if got is None else 'right' if got == cell else 'wrong'}"] += 1
        else:
            outcome["other kept" if name in found else "other lost"] += 1
    assert outcome["misread right"] > 0.8 * (outcome["misread right"] + outcome["misread lost"])
    assert outcome["misread wrong"] < 0.01 * outcome["misread right"]
    # Beside the largest cell is one of its own: at the base where they differ N may be either's.
    assert outcome["unknown right"] > 0.9 * (outcome["unknown right"] + outcome["unknown lost"])
    assert outcome["unknown wrong"] == outcome["several wrong"] == 0
    assert outcome["other kept"] < 0.02 * outcome["other lost"]


def test_ledger_closes(tmp_path: Path) -> None:
    cells = cell_fixture.make_cells(tmp_path / "reads", reads=2000)
    run = run_pipeline(library_of(cells), tmp_path / "run", Knobs(buckets=2, parts=2))
    aside = run.line("unplaced", "S1")
    assert aside == run.line("placed", "S1", "place") + run.line("off_list", "S1", "place") > 100
    assert run.line("placed", "S1", "place") > 50
    assigned = run.line("assigned", "S1") + run.line("placed", "S1", "place")
    assert run.line("families", "S1", "tally") == assigned
    lines = run.outputs["samples/S1/S1.ledger.tsv"].read_text()
    assert "place\tL1\tS1\toff_list\t" in lines
    placed = sum(
        run.total("place", f"placed_{kind}") for kind in ("one_base", "unknown_base", "two_bases")
    )
    assert placed == run.line("placed", "S1", "place")
    listed = {cell for cell, good in zip(cells.cell, cells.listed, strict=True) if good}
    assert {row["cell"] for row in run.molecules("S1")} <= listed


def test_without_a_list_there_is_no_place(tmp_path: Path) -> None:
    cells = cell_fixture.make_cells(tmp_path / "reads", reads=500)
    run = run_pipeline(library_of(cells, listed=False), tmp_path / "run")
    assert not run.of("place")
    assert not list((tmp_path / "run").rglob("*.unplaced"))
    ledger = run.outputs["samples/S1/S1.ledger.tsv"].read_text().splitlines()
    assert not any(line.startswith("place\t") for line in ledger)


def test_a_lost_row_is_noticed(tmp_path: Path) -> None:
    cells = cell_fixture.make_cells(tmp_path / "reads", reads=1000)
    run_checkout(library_of(cells), tmp_path / "run")
    home = tmp_path / "run" / "results"
    unplaced = sorted(home.rglob("*.unplaced"))
    meter = Meter("place", "L1", 8000)
    listed = home / "cells" / "L1.cells"
    place(unplaced, listed, tmp_path / "again.rows", meter)
    data = (home / "place" / "L1.rows").read_bytes()
    assert (tmp_path / "again.rows").read_bytes() == data
    with pytest.MonkeyPatch.context() as patch:
        totals = PartitionFile.sample_totals

        def other_hashes(self: PartitionFile) -> object:
            rows, bases, hashes = totals(self)
            return rows, bases, hashes + U(1)

        patch.setattr(PartitionFile, "sample_totals", other_hashes)
        with pytest.raises(UmimillError, match="the rows placed are not the rows"):
            place(unplaced, listed, tmp_path / "third.rows", meter)


def test_two_bases_where_the_list_is_sparse() -> None:
    assert looks_two_away(737_280, 16)
    assert not looks_two_away(6_794_880, 16)
    assert not looks_two_away(384, 8)
