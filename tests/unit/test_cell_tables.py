"""Tables of cells hold what the molecules of a library say, and the report shows them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import cell_fixture
from pipeline import Knobs, Library, Run, run_pipeline
from umimill.report import report
from workflow_run import read_table

LAYOUT = "^" + "X" * cell_fixture.CELL + "N" * cell_fixture.UMI
# Without reads; its cells begin behind other bases.
EMPTY = "^ACGTACGTACGTACGTA" + "X" * 3 + "N" * 6


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("cells")
    cells = cell_fixture.make_cells(folder / "reads", reads=3000)
    rows = (("S1", LAYOUT, None), ("S2", EMPTY, None))
    return run_pipeline(Library(rows, cells.units), folder / "run", Knobs(buckets=3))


def test_cells_are_those_of_the_molecules(run: Run) -> None:
    molecules: Counter[str] = Counter()
    reads: Counter[str] = Counter()
    for row in run.molecules("S1"):
        molecules[row["cell"]] += row["status"] == "molecule"
        reads[row["cell"]] += row["reads"]
    table = pq.read_table(run.outputs["samples/S1/S1.cells.parquet"]).to_pylist()
    found = {row["cell"]: (row["molecules"], row["reads"]) for row in table}
    assert found == {cell: (molecules[cell], reads[cell]) for cell in reads}
    assert [row["cell"] for row in table] == sorted(reads)
    calls = {row["method"]: row for row in read_table(run.outputs["samples/S1/S1.cell_calls.tsv"])}
    assert int(calls["all"]["cells"]) == len(table)
    assert int(calls["all"]["molecules"]) == sum(molecules.values())
    for method in ("ordmag", "knee"):
        called = [row for row in table if row[f"called_{method}"]]
        assert int(calls[method]["cells"]) == len(called) > 0
        assert int(calls[method]["molecules"]) == sum(row["molecules"] for row in called)
        assert int(calls[method]["least_molecules"]) <= min(row["molecules"] for row in called)
    ranks = read_table(run.outputs["samples/S1/S1.cell_ranks.tsv"])
    assert int(ranks[-1]["rank"]) == sum(row["molecules"] > 0 for row in table)
    profile = read_table(run.outputs["samples/S1/S1.cell_profile.tsv"])
    first = [row for row in profile if (row["measure"], row["place"]) == ("umi_base", "1")]
    assert sum(int(row["called"]) for row in first) == int(calls["ordmag"]["molecules"])
    sizes = [row for row in profile if row["measure"] == "molecules_of_reads"]
    assert sum(int(row["called"]) + int(row["below"]) for row in sizes) == sum(molecules.values())


def test_a_sample_without_reads_has_empty_tables(run: Run) -> None:
    assert pq.read_table(run.outputs["samples/S2/S2.cells.parquet"]).num_rows == 0
    calls = read_table(run.outputs["samples/S2/S2.cell_calls.tsv"])
    assert [(row["cells"], row["least_molecules"]) for row in calls] == [("0", "")] * 3
    assert read_table(run.outputs["samples/S2/S2.cell_ranks.tsv"]) == []


def test_report_shows_the_cells(run: Run, tmp_path: Path) -> None:
    home = run.folder / "results" / "metrics" / "L1"
    (home / "index.json").write_text(json.dumps(run.of("index")[0]))
    (home / "gather.1.json").write_text(json.dumps(run.of("gather")[0]))
    sheet = {"L1": [(row[0], {}) for row in run.library.layouts]}
    report(home.parent, sheet, tmp_path / "index.html", tmp_path / "samples.tsv")
    page = (tmp_path / "index.html").read_text()
    table = pq.read_table(run.outputs["samples/S1/S1.cells.parquet"]).num_rows
    assert f"Of {table:,} cell barcodes," in page
    assert "How many molecules has a cell barcode?" in page
    # The other sample has none: no panel is left out for it.
    assert "samples of most molecules" not in page
