"""What is said to rows that do not go together: ids, files, pairs, tags, layouts."""

import os
from pathlib import Path
from typing import Any

import pytest

from config_fixture import RULE, SAMPLES, problems, refuse_j, run_folder, write
from umimill import sheet_checks
from umimill.errors import UmimillError
from umimill.layout import check_row, parse_layout

__all__ = ["run_folder"]


@pytest.mark.parametrize("legal", ["L1", "7", "a_b-c", "a.b.c_", "A-", "x" * 100])
def test_legal_ids(legal: str) -> None:
    write(
        f"library unit read1\n{legal} {legal} a1.fq\n",
        f"library sample layout\n{legal} {legal} N\n",
    )
    assert problems() == []


@pytest.mark.parametrize(
    "illegal", ["a/b", "..", ".a", "-a", "a..b", "a.", "_a", "a+b", "ä", "a\u00a0b", "../../etc"]
)
@pytest.mark.parametrize("column", ["library", "unit", "sample"])
def test_illegal_ids(column: str, illegal: str) -> None:
    ids = {"library": "L1", "unit": "u1", "sample": "S1", column: illegal}
    write(
        f"library unit read1\n{ids['library']} {ids['unit']} a1.fq\n",
        f"library sample layout\n{ids['library']} {ids['sample']} N\n",
    )
    shown = illegal.replace("\u00a0", "\\xa0")
    sheets = [
        name
        for name, columns in (("units", ("library", "unit")), ("samples", ("library", "sample")))
        if column in columns
    ]
    assert problems() == [
        f"config/{name}.tsv, row 1: {column} '{shown}' is not a legal id; {RULE}" for name in sheets
    ]


def transcript(name: str) -> list[Any]:
    """Read cases: a title after ==, rows, and after ! what is said to them."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    cases = []
    for case in text.split("\n== ")[1:]:
        title, *lines = case.strip().split("\n")
        rows = [line for line in lines if not line.startswith("! ")]
        said = [line[2:] for line in lines if line.startswith("! ")]
        cases.append(pytest.param("\n".join(rows), said, id=title))
    assert len(cases) > 10
    return cases


@pytest.mark.parametrize(("rows", "lines"), transcript("units_faults.txt"))
def test_faults_of_units(rows: str, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    os.symlink("a1.fq", "soft.fq")
    os.link("a1.fq", "hard.fq")
    os.symlink("gone.fq", "broken.fq")
    os.mkfifo("pipe")
    # The superuser may read everything, so permission is taken away here.
    monkeypatch.setattr(os, "access", lambda path, mode: path != "d1.fq" or mode != os.R_OK)
    write(f"library unit read1 read2 index1 index2\n{rows}\n", "library sample layout\nL1 S1 N\n")
    assert problems() == [f"config/units.tsv, {line}" for line in lines]


IN_OUTPUTS = {
    "results/a.fq": "results",
    "./results//samples/S1/a.fq": "results",
    "results/gone.fq": "results",
    "data/../results/a.fq": "results",
    "results/samples/../a.fq": "results",
    "{here}/results/a.fq": "results",
    "link.fq": "results",
    "chain.fq": "results",
    "folder/a.fq": "results",
    "folder/samples/../a.fq": "results",
    # Neither may a link among the outputs be taken for an input.
    "results/out.fq": "results",
    "logs/a.fq": "logs",
    "benchmarks/a.fq": "benchmarks",
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("path", IN_OUTPUTS)
def test_a_file_among_the_outputs(path: str, turned: bool, tmp_path: Path) -> None:
    if turned:
        # A run whose results lie on another device.
        Path("scratch/deep").mkdir(parents=True)
        os.symlink("scratch/deep", "results")
    for folder in ("data", "results/samples/S1", "logs", "benchmarks"):
        Path(folder).mkdir(parents=True)
    for file in ("results/a.fq", "results/samples/S1/a.fq", "logs/a.fq", "benchmarks/a.fq"):
        Path(file).write_text("")
    os.symlink("results/a.fq", "link.fq")
    os.symlink("link.fq", "chain.fq")
    os.symlink("results", "folder")
    os.symlink("../a1.fq" if not turned else "../../a1.fq", "results/out.fq")
    named = path.format(here=tmp_path)
    write(f"library unit read1 read2\nL1 u1 a2.fq {named}\n", "library sample layout\nL1 S1 N\n")
    shown = named if len(named) <= 80 else named[:77] + "..."
    assert problems() == [
        f"config/units.tsv, row 1: read2 '{shown}' lies in {IN_OUTPUTS[path]}, where the run "
        "writes; move it elsewhere"
    ]


@pytest.mark.parametrize("path", ["results.fq", "results2/a.fq", "data/results/a.fq"])
def test_a_file_beside_the_outputs(path: str) -> None:
    for folder in ("results", "results2", "data/results"):
        Path(folder).mkdir(parents=True)
    Path(path).write_text("")
    write(f"library unit read1\nL1 u1 {path}\n", "library sample layout\nL1 S1 N\n")
    assert problems() == []


@pytest.mark.parametrize(("rows", "lines"), transcript("samples_faults.txt"))
def test_faults_of_samples(rows: str, lines: list[str]) -> None:
    write(samples=f"library sample layout layout_read2 layout_index1 layout_index2\n{rows}\n")
    assert problems() == [f"config/samples.tsv, {line}" for line in lines]


def test_a_library_without_samples() -> None:
    write(samples="library sample layout\nL2 S3 0:12\n")
    assert problems() == [
        "config/units.tsv, row 1: library L1 has no row in config/samples.tsv; "
        "add its samples there or remove its units"
    ]


def test_a_typo_of_a_layout_column_is_no_metadata() -> None:
    write(samples=SAMPLES.replace("layout_read2", "Layout_R2"))
    assert problems() == [
        "config/samples.tsv: column 'Layout_R2' is not known; did you mean layout_read2?"
    ]


def want_n(layout: str, layout_read2: str | None) -> None:
    """Stand in for the check of both layouts of a row."""
    if "N" not in layout + (layout_read2 or ""):
        raise UmimillError(f"layout {layout} and {layout_read2}: no N in it")


def test_layouts_are_checked_only_if_asked() -> None:
    write(samples="library sample layout layout_read2\nL1 S1 ACJ\nL1 S2 AC TG\nL2 S3 AC\nL2 S4\n")
    empty = "config/samples.tsv, row 4: layout is empty; give it in every row"
    by_layout = ["config/samples.tsv, row 1: layout: ACJ: J is not a symbol; use N or X"]
    by_row = [
        "config/samples.tsv, row 2: layout: AC and TG: no N in it",
        "config/samples.tsv, row 3: layout: AC and None: no N in it",
    ]
    assert problems() == [empty]
    assert problems(check_layout=refuse_j) == [*by_layout, empty]
    # What the first check refused is not said again by the second.
    assert len(problems(check_row=want_n)) == 3 + 1
    assert problems(check_layout=refuse_j, check_row=want_n) == [*by_layout, *by_row, empty]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("L1 S1 ACGTNNN\nL1 S2 0:12 ^NN\nL2 S3 8M1S+T", []),
        (
            "L1 S1 ACJNN N{x}\nL1 S2 ACGT\nL2 S3 8B+T",
            [
                "row 1: layout: AC[J]NN: ",
                "row 1: layout_read2: N[{x}]: ",
                "row 2: layout: ACGT: ",
                "row 3: layout: [8B]+T: ",
            ],
        ),
    ],
)
def test_layouts_as_the_workflow_checks_them(rows: str, said: list[str]) -> None:
    write(samples=f"library sample layout layout_read2\n{rows}\n")
    lines = problems(check_layout=parse_layout, check_row=check_row)
    assert len(lines) == len(said)
    for line, start in zip(lines, said, strict=True):
        assert line.startswith(f"config/samples.tsv, {start}")


def test_no_more_samples_and_units_than_rows_of_reads_can_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sheet_checks, "MOST_OF_LIBRARY", 2)
    # A sample may have several rows.
    write(
        "library unit read1\nL1 a a1.fq\nL1 b b1.fq\n",
        "library sample layout\nL1 A aaN\nL1 A ccN\nL1 B ggN\n",
    )
    assert problems() == []
    write(
        "library unit read1\nL1 a a1.fq\nL1 b b1.fq\nL1 c c1.fq\n",
        "library sample layout\nL1 A aaN\nL1 B ccN\nL1 C ggN\n",
    )
    assert problems() == [
        "config/units.tsv, row 3: library L1 has more than 2 units; split it into several "
        "libraries",
        "config/samples.tsv, row 3: library L1 has more than 2 samples; split it into several "
        "libraries",
    ]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("L1 S1 ^XXNN c1.fq\nL1 S2 ^AXXNN c1.fq\nL2 S3 ^NN", []),
        (
            "L1 S1 ^XXNN c1.fq\nL1 S2 ^AXXNN\nL2 S3 ^NN",
            [
                "row 2: cell_list is missing while row 1 of library L1 has it; give it in all "
                "or none",
            ],
        ),
        (
            "L1 S1 ^XXNN c1.fq\nL1 S2 ^AXXNN c2.fq\nL2 S3 ^XNN none.txt",
            [
                "row 2: cell_list 'c2.fq' is not that of row 1; library L1 has one list",
                "row 3: cell_list 'none.txt' does not exist; check the path, it starts at the "
                "working directory",
            ],
        ),
        (
            "L1 S1 ^XXNN ftp://a/b\nL2 S3 ^XNN results/a.txt",
            [
                "row 1: cell_list 'ftp://a/b' is an address; only local files are read, fetch it "
                "first",
                "row 2: cell_list 'results/a.txt' lies in results, where the run writes; move it "
                "elsewhere",
            ],
        ),
        (
            "L1 S1 ^XXNN c1.fq\nL1 S2 ^AXXXNN c1.fq\nL2 S3 ^NN c1.fq",
            [
                "row 2: the cell barcode has 3 bases, that of row 1 has 2, but library L1 has one "
                "cell_list; split it",
                "row 3: cell_list is given, but the layout has no cell barcode (X); clear it or "
                "mark the cell",
            ],
        ),
    ],
)
def test_lists_of_cells(rows: str, said: list[str]) -> None:
    write(samples=f"library sample layout cell_list\n{rows}\n")
    lines = problems(check_layout=parse_layout, check_row=check_row)
    assert lines == [f"config/samples.tsv, {line}" for line in said]
