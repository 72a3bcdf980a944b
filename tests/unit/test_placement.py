"""Whether payloads can be compared: reads of a molecule that start anywhere are not told apart."""

import csv
from pathlib import Path

import numpy as np
import pytest

from pipeline import Library, Run, run_pipeline
from umimill.advice import disagrees
from umimill.barcode_sums import Barcodes
from umimill.layout import tiled_samples

CELLS, MOLECULES, READS = 4, 25, 6
LAYOUTS = (("S1", "cell:0:8,8:20", None),)


def write_tiled_reads(path: Path) -> None:
    """Write reads of molecules, each read a window of its own of a molecule's sequence."""
    rng = np.random.default_rng(1)
    letters = np.array(list("ACGT"))
    records = []
    for cell in range(CELLS):
        barcode = "".join(rng.choice(letters, 8))
        for molecule in range(MOLECULES):
            umi, sequence = "".join(rng.choice(letters, 12)), rng.choice(letters, 600)
            for read in range(READS):
                start = int(rng.integers(500))
                bases = barcode + umi + "".join(sequence[start : start + 90])
                records.append(f"@{cell}:{molecule}:{read}\n{bases}\n+\n{'I' * len(bases)}\n")
    path.write_text("".join(records))


def run(folder: Path, placement: str) -> Run:
    write_tiled_reads(folder / "reads.fastq")
    library = Library(LAYOUTS, {"L001": (folder / "reads.fastq",)}, placement=placement)
    return run_pipeline(library, folder)


@pytest.mark.parametrize("placement", ["auto", "tile"])
def test_reads_of_a_tiled_molecule_are_one(tmp_path: Path, placement: str) -> None:
    molecules = run(tmp_path, placement).molecules("S1")
    assert len(molecules) == CELLS * MOLECULES
    assert {one["reads"] for one in molecules} == {READS}
    assert {one["n"] for one in molecules} == {1}


def test_payloads_that_disagree_are_molecules_of_their_own(tmp_path: Path) -> None:
    assert len(run(tmp_path, "fixed").molecules("S1")) > 3 * CELLS * MOLECULES


@pytest.mark.parametrize("placement", ["fixed", "tile"])
def test_a_wrong_placement_is_seen_in_the_table_of_barcodes(tmp_path: Path, placement: str) -> None:
    table = run(tmp_path, placement).outputs["metrics/L1/barcodes.tsv"]
    with table.open(newline="") as file:
        (row,) = csv.DictReader(file, delimiter="\t")
    found = Barcodes(
        families=int(row["families"]),
        molecules=int(row["molecules"]),
        barcodes=int(row["barcodes"]),
        space=float(row["space"]),
        agreement=float(row["agreement"]),
    )
    assert disagrees(found) == (placement == "fixed")


def test_single_cells_are_tiled() -> None:
    rows = [("B", "0:8", None), ("A", "cell:0:8,8:16", None), ("C", "4M+T", "4C+T")]
    assert tiled_samples(rows, "auto") == ["A", "C"]
    assert tiled_samples(rows, "fixed") == []
    assert tiled_samples(rows, "tile") == ["A", "B", "C"]
