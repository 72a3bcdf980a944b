"""What the page says of correction: the section, its figures and tables, and the curve of ranks."""

import csv
import re

import pytest

import report_fixture
import report_library_fixture
from report_page import made, read, whole
from umimill import report_barcodes, report_refine
from umimill.barcode_sums import Correction, DepthError, PosteriorBin, RankPoint, SizeCount
from umimill.errors import UmimillError
from umimill.report import load_library, report
from umimill.summary import Job, Library

TABLES = ("posteriors", "corrections", "umi_errors", "family_sizes", "ranks")


@pytest.fixture(scope="module")
def typical(tmp_path_factory):
    return made(report_fixture.typical, tmp_path_factory.mktemp("typical"))


def rows_of(folder, table):
    with (folder / f"{table}.tsv").open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def labels(text):
    return re.findall(r'<svg role="img" aria-label="([^"]+)"', text)


# -- the page --------------------------------------------------------------------------------------


def test_every_table_is_loaded_whole(tmp_path):
    sheet = report_fixture.typical(tmp_path)
    library = load_library(tmp_path / "L1", "L1", sheet["L1"])
    for table in TABLES:
        written = rows_of(tmp_path / "L1", table)
        loaded = getattr(library, table)
        assert len(loaded) == len(written) > 3
    sums = [
        ("posteriors", "families", "families"),
        ("posteriors", "corrected", "corrected"),
        ("corrections", "families", "families"),
        ("corrections", "corrected", "corrected"),
        ("corrections", "molecules", "molecules"),
        ("corrections", "errors_left", "errors_left"),
        ("corrections", "wrong_merges", "wrong_merges"),
        ("umi_errors", "children", "children"),
        ("umi_errors", "error_merged", "merged"),
        ("umi_errors", "error_model", "model"),
        ("family_sizes", "families", "families"),
        ("family_sizes", "molecules", "molecules"),
        ("ranks", "rank", "rank"),
        ("ranks", "reads", "reads"),
        ("ranks", "share_of_reads", "share"),
    ]
    for table, column, field in sums:
        written = [float(row[column]) for row in rows_of(tmp_path / "L1", table)]
        assert [getattr(row, field) for row in getattr(library, table)] == written
    parents = [
        int(row["parent_reads"]) + int(row["child_reads"])
        for row in rows_of(tmp_path / "L1", "umi_errors")
    ]
    assert [row.reads for row in library.umi_errors] == parents


def test_table_of_corrections_adds_up_to_that_of_barcodes(typical):
    text, libraries = typical
    tables = read(text).tables
    head, *rows = tables["corrections-table"]
    assert head == ["Reads", "Families", "Corrected", "wrongly", "Molecules", "errors among them"]
    assert [row[0] for row in rows[:3]] == ["1", "2\N{EN DASH}3", "4\N{EN DASH}7"]
    barcodes = [row for library in libraries for row in library.barcodes.values()]
    assert sum(whole(row[1]) for row in rows) == sum(row.families for row in barcodes)
    assert sum(whole(row[4]) for row in rows) == sum(row.molecules for row in barcodes)
    assert rows[0][2:4] == ["4,59966.5%", "3.3<0.1%"]
    assert rows[0][5] == "9.60.5%"
    assert rows[1][2:4] == ["00%", "0"]


def test_each_figure_says_its_finding(typical):
    text, _ = typical
    found = labels(text)
    for label in (
        "99.1% of the decisions on barcodes were sure.",
        "18,813 families became 13,800 molecules.",
        "The deepest molecules show 2.4 single errors in 1,000 barcode bases; correction reckoned "
        "with 1.2.",
        "The 40 largest of 4,100 molecules hold 6.5% of the reads of sample S2.",
    ):
        assert found.count(label) == 2
    assert (
        "By their posteriors, correction is expected to have left 10 errors among the 13,800 "
        "molecules, and to have lost 3 molecules among the 4,599 corrected families."
    ) in text


def test_figures_take_the_colours_of_both_themes(typical):
    text, _ = typical
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    for name in ("posteriors", "before", "depths", "ranks"):
        own = [drawing for drawing in drawings if f"url(#{name}-" in drawing]
        assert len(own) == 2
        for drawing in own:
            assert "var(--muted)" in drawing
            assert "#0102" not in drawing
            assert "#ffffff" not in drawing


def test_barcodes_that_were_left_have_no_section_but_the_curve_of_ranks(tmp_path):
    spec = report_library_fixture.LibrarySpec("L1", {"S1": 900}, correct=False)
    text, _ = made(lambda folder: report_fixture.write_metrics(folder, [spec]), tmp_path)
    assert "Correction" not in read(text).headings
    assert any(label.startswith("The 9 largest of 900 molecules hold ") for label in labels(text))


def test_a_library_without_reads_has_neither(tmp_path):
    spec = report_library_fixture.LibrarySpec("L1", {"S1": 0})
    text, _ = made(lambda folder: report_fixture.write_metrics(folder, [spec]), tmp_path)
    assert "Correction" not in read(text).headings
    assert not any("largest" in label for label in labels(text))


@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_is_not_there_is_named(tmp_path, table):
    sheet = report_fixture.single(tmp_path)
    (tmp_path / "demo" / f"{table}.tsv").unlink()
    with pytest.raises(UmimillError, match=rf"{table}\.tsv: No such file"):
        report(tmp_path, sheet, tmp_path / "index.html", tmp_path / "samples.tsv")


# -- its parts -------------------------------------------------------------------------------------


def test_decisions_between_a_tenth_and_nine_tenths_are_unsure():
    bins = (PosteriorBin(0.05, 50, 0), PosteriorBin(0.1, 4, 1), PosteriorBin(0.8, 6, 6))
    more = (PosteriorBin(0.9, 20, 20), PosteriorBin(0.05, 20, 0))
    libraries = [Library("L1", posteriors=bins), Library("L2", posteriors=more)]
    figure = report_refine.posteriors(libraries)
    assert figure is not None
    assert figure.title == "90.0% of the decisions on barcodes were sure"
    assert report_refine.posteriors([Library("L1")]) is None


def test_sizes_are_shown_where_they_changed():
    after = (SizeCount(1, 5, 2), SizeCount(5, 1, 1))
    figure = report_refine.sizes([Library("L1", family_sizes=after)])
    assert figure is not None
    assert figure.title == "6 families became 3 molecules"
    same = (SizeCount(1, 5, 5),)
    assert report_refine.sizes([Library("L1", family_sizes=same)]) is None
    assert report_refine.sizes([Library("L1")]) is None


def test_errors_are_shown_where_two_depths_have_enough_children():
    few = (DepthError(1, 900, 9, 1e-3, 2e-3), DepthError(4, 900, 12, 2e-3, 2e-3))
    assert report_refine.errors([Library("L1", umi_errors=few)]) is None
    # A second sample of the same depth, a third as deep: the mean is by reads.
    more = (DepthError(1, 100, 1, 1e-3, 2e-3), DepthError(4, 300, 3, 6e-3, 4e-3))
    libraries = [Library("L1", umi_errors=few), Library("L2", umi_errors=more)]
    figure = report_refine.errors(libraries)
    assert figure is not None
    assert figure.title == (
        "The deepest molecules show 3 single errors in 1,000 barcode bases; correction reckoned "
        "with 2.5"
    )


@pytest.mark.parametrize(
    ("points", "title"),
    [
        (
            [("A", 1, 50, 0.2), ("A", 2, 40, 0.3), ("A", 250, 1, 1.0)],
            "The 2 largest of 250 molecules hold 30.0% of the reads",
        ),
        (
            [("A", 1, 50, 0.2), ("A", 40, 1, 1.0)],
            "The largest of 40 molecules holds 20.0% of the reads",
        ),
        ([("A", 1, 7, 1.0)], "The largest of 1 molecule holds 100% of the reads"),
        (
            [("A", 1, 5, 0.1), ("A", 9, 1, 1.0), ("B", 1, 8, 0.4), ("B", 9, 1, 1.0)],
            "The largest of 9 molecules holds 40.0% of the reads of sample B",
        ),
    ],
)
def test_the_first_hundredth_of_the_ranks_is_named(points, title):
    figure = report_refine.ranks([Library("L1", ranks=tuple(RankPoint(*p) for p in points))])
    assert figure is not None
    assert figure.title == title


def corrected(*rows):
    return [Library("L1", corrections=tuple(Correction(*row) for row in rows))]


@pytest.mark.parametrize(
    ("libraries", "sentence"),
    [
        ([Library("L1")], ""),
        (corrected((1, 90, 0, 90, 12.0, 0.0)), ""),
        (
            corrected((1, 90, 40, 50, 0.4, 0.2)),
            "By their posteriors, none of the decisions on barcodes is expected to be wrong.",
        ),
        (
            corrected((1, 90, 40, 50, 1.0, 0.3), (2, 10, 1, 9, 0.4, 0.0)),
            "By their posteriors, correction is expected to have left 1 error among the 59 "
            "molecules, and to have lost 0 molecules among the 41 corrected families.",
        ),
    ],
)
def test_what_is_expected_to_be_wrong(libraries, sentence):
    assert report_refine.expected(libraries) == sentence


def test_expected_numbers_keep_a_decimal_where_they_are_small():
    libraries = corrected((1, 900, 400, 500, 0.04, 12.4), (2, 9, 1, 8, 3.26, 0.0))
    rows = report_barcodes.corrections(libraries).rows
    assert [(row[3].text, row[5].text) for row in rows] == [("12", "<0.1"), ("0", "3.3")]


def test_spill_is_added_up_by_stage():
    jobs = [
        Job("tally", "L1", umi_memory_bytes=9_000, clocks={"sort": 3.0}),
        Job(
            "tally",
            "L1",
            umi_memory_bytes=5_000,
            umi_spill_bytes=20_000,
            umi_read_back_bytes=50_000,
            clocks={"sort": 3.0, "spill": 0.5},
        ),
        Job("settle", "L1", umi_memory_bytes=100),
        Job("gather", "L1"),
    ]
    table = report_barcodes.spill(jobs)
    head = ("Stage", "Jobs", "Most held", "Spilled", "Read back", "over spilled", "Time spilling")
    assert table.columns == head
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["tally", "2", "9.0 kB", "20 kB", "50 kB", "2.5", "0.5 s"],
        ["settle", "1", "100 B", "0 B", "0 B", "\N{EN DASH}", "0.00 s"],
    ]
    assert report_barcodes.spill([jobs[0], jobs[2]]).columns == head[:5]
