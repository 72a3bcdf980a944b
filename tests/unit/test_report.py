"""The page as a whole, made from metrics folders on disk."""

import csv
import json
import re

import pytest

import report_fixture
import report_library_fixture
from report_page import made, read, whole
from umimill.errors import UmimillError
from umimill.report import load_library, report
from umimill.sample_table import free_names, write_sample_table

MOST_BYTES = 5_000_000


@pytest.fixture(scope="module")
def typical(tmp_path_factory):
    return made(report_fixture.typical, tmp_path_factory.mktemp("typical"))


def test_sections_come_in_the_order_of_the_questions(typical):
    text, _ = typical
    assert read(text).headings == [
        "Samples",
        "Barcodes",
        "Correction",
        "Where every template went",
        "Throughput",
        "Memory",
        "UMI spill",
        "Reads per molecule",
        "Provenance",
        "Glossary",
    ]
    assert text.index("What should I change?") < text.index(">Samples</h2>")


def test_every_sample_has_one_row_with_its_own_numbers(typical):
    text, libraries = typical
    head, *rows = read(text).tables["samples-table"]
    assert head[:5] == ["Library", "Sample", "Templates", "of library", "Molecules"]
    shown = [(row[0], row[1], whole(row[2]), whole(row[4])) for row in rows]
    assert shown == [
        (library.name, sample.name, sample.reads, sample.molecules)
        for library in libraries
        for sample in library.samples
    ]


def test_ledger_names_every_library_once_and_holds_every_line(typical):
    text, libraries = typical
    head, *rows = read(text).tables["ledger-table"]
    assert head == ["Stage", "Line", "L1", "L2"]
    for column, library in enumerate(libraries, start=2):
        for row in rows:
            lines = [
                entry.templates
                for entry in library.ledger
                if (entry.stage, entry.line.replace("_", " ").replace("umi", "UMI"))
                == tuple(row[:2])
            ]
            number = re.match(r"[\d,]+?(?=\d+\.\d%|<|\d%|100%|$)", row[column])
            assert lines
            assert number
            assert row[column].startswith(f"{sum(lines):,}")


def test_sums_close_and_are_shown(typical):
    text, _ = typical
    rows = read(text).tables["checks-table"][1:]
    assert len(rows) == 7
    assert all(row[1] == row[2] and row[3] == "closes" for row in rows)
    assert "All 13 sums close" in text


def test_every_sample_has_its_barcodes(typical):
    text, libraries = typical
    tables = read(text).tables
    names = [["L1", "S1"], ["L1", "S2"], ["L1", "S3"], ["L1", "S4"], ["L2", "S5"]]
    for name in ("barcodes-table", "estimates-table"):
        assert [row[:2] for row in tables[name][1:]] == names
    rows = [row for library in libraries for row in library.barcodes.values()]
    for shown, row in zip(tables["barcodes-table"][1:], rows, strict=True):
        assert [whole(shown[i]) for i in (2, 5, 6, 7, 8)] == [
            row.families, row.molecules, row.chimera_suspects, row.shifted, row.unresolved,
        ]  # fmt: skip
        assert whole(shown[9]) == row.families - row.corrected
    assert tables["barcodes-table"][1][3] == "3,00024.4%"
    assert tables["estimates-table"][1][2:] == [
        "1.2e-03", "1.1e-03", "1.9e-03", "both", "<0.1%", "8.0%", "0.3%",
    ]  # fmt: skip
    assert tables["estimates-table"][3][3:6] == ["not estimable"] * 2 + ["a default"]
    assert 'id="outcomes-w' in text


def test_barcodes_that_were_left_are_said_to_be(tmp_path):
    spec = report_library_fixture.LibrarySpec("L1", {"S1": 900}, correct=False)
    text, _ = made(lambda folder: report_fixture.write_metrics(folder, [spec]), tmp_path)
    assert "Barcodes were left as they were read (<code>refine_method: unique</code>)." in text
    assert "so the number of molecules is an upper bound" in text
    assert 'id="outcomes-w' not in text


def test_a_broken_ledger_is_an_alarm(tmp_path):
    metrics = tmp_path / "metrics"
    sheet = report_fixture.single(metrics)
    ledger = metrics / "demo" / "ledger.tsv"
    ledger.write_text(ledger.read_text().replace("voted\t", "voted\t9"))
    report(metrics, sheet, tmp_path / "index.html", tmp_path / "samples.tsv")
    text = (tmp_path / "index.html").read_text()
    assert "The counts do not add up: do not use these results." in text
    assert "open in 1 of 1" in text


def test_text_of_the_user_is_escaped(typical):
    text, _ = typical
    assert "blood &lt;b&gt;left&lt;/b&gt;" in text
    assert "<b>" not in text


def test_hostile_paths_and_layouts_are_escaped(tmp_path):
    metrics = tmp_path / "metrics"
    sheet = report_fixture.single(metrics)
    path = metrics / "demo" / "provenance.json"
    provenance = json.loads(path.read_text())
    provenance["units"][0]["read1"] = '"><script>alert(1)</script>.fastq'
    provenance["layouts"][0]["layout"] = "</table><img src=x>"
    path.write_text(json.dumps(provenance))
    sheet["demo"] = [("demo", {"<i>note</i>": "`code` & more"})]
    report(metrics, sheet, tmp_path / "index.html", tmp_path / "samples.tsv")
    text = (tmp_path / "index.html").read_text()
    assert text.count("<script") == 1
    assert "<img" not in text
    assert "<i>" not in text
    assert "`code` &amp; more" in text


def test_page_loads_nothing(typical):
    text, _ = typical
    assert not re.search(r"https?://|@import|url\((?!#)|<link|<img|<iframe| src=", text)


def test_ids_are_unique_and_links_lead_somewhere(typical):
    text, _ = typical
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(set(ids)) == len(ids)
    targets = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))
    assert targets == set(ids) & targets


def test_every_figure_says_its_finding(typical):
    text, _ = typical
    labels = re.findall(r'<svg role="img" aria-label="([^"]+)"', text)
    assert len(labels) == text.count("<svg")
    assert all(label.endswith(".") for label in labels)
    assert "83.6% of the templates had a vote in a consensus." in labels
    # A wide and a narrow drawing of each, of which a page shows one.
    assert sorted(labels) == sorted(2 * list(dict.fromkeys(labels)))


def test_same_tables_same_bytes(tmp_path, typical):
    again, _ = made(report_fixture.typical, tmp_path)
    assert again == typical[0]


def test_blank_sample_and_library_without_reads(typical):
    text, _ = typical
    rows = {row[1]: row for row in read(text).tables["samples-table"]}
    for name in ("S3", "S5"):
        assert rows[name][2] == "0"
        assert rows[name][5] == "\N{EN DASH}"
    assert "Library L2 has no reads: its input files are empty." in text
    assert "Sample S3 has no reads" in text


def spilled_most(libraries):
    jobs = [job for library in libraries for job in library.jobs if job.umi_spill_bytes]
    return sorted(jobs, key=lambda job: -job.umi_spill_bytes)[:8]


def test_spill_is_stated(typical):
    text, loaded = typical
    assert "2 of 9 buckets spilled" in text
    assert "No job spilled" not in text
    _, *rows = read(text).tables["spilled-table"]
    assert [row[0] for row in rows] == [job.title for job in spilled_most(loaded)]
    assert all(int(row[5]) in (16, 32, 64) for row in rows)


def test_one_sample_and_one_bucket(tmp_path):
    text, _ = made(report_fixture.single, tmp_path)
    assert "Nothing: no finding asks for a change." in text
    assert "No job spilled: all UMI tables fit in memory, the largest took 2.9" in text
    assert 'id="spill-w' not in text
    assert "to sort by it" not in text


@pytest.mark.parametrize("libraries", [1, 8])
def test_many_samples_and_buckets_stay_small(tmp_path, libraries):
    text, loaded = made(report_fixture.large, tmp_path, libraries=libraries)
    assert len(text.encode()) < MOST_BYTES
    rows = read(text).tables["samples-table"][1:]
    assert len(rows) == 96
    assert sum(whole(row[2]) for row in rows) == sum(s.reads for x in loaded for s in x.samples)
    assert text.count("up to 100%") == 2


def test_ledger_of_many_libraries_has_a_row_for_each(tmp_path):
    text, loaded = made(report_fixture.large, tmp_path, libraries=8)
    rows = read(text).tables["ledger-table"][1:]
    assert [row[0] for row in rows] == [library.name for library in loaded]


def test_a_run_whose_only_library_is_empty(tmp_path):
    spec = report_library_fixture.LibrarySpec("L1", {"S1": 0})
    text, _ = made(lambda folder: report_fixture.write_metrics(folder, [spec]), tmp_path)
    assert "The run finished, but its inputs hold no reads." in text
    assert "Reads per molecule" not in read(text).headings


def test_gather_lines_are_taken_from_the_ledger_where_it_has_them(tmp_path):
    sheet = report_fixture.single(tmp_path)
    ledger = tmp_path / "demo" / "ledger.tsv"
    ledger.write_text(ledger.read_text() + "gather\tdemo\tdemo\trecords\t5000\n")
    loaded = load_library(tmp_path / "demo", "demo", sheet["demo"])
    assert [row.templates for row in loaded.ledger if row.stage == "gather"] == [5000]


def test_an_old_page_is_replaced_and_no_other_file_is_left(tmp_path):
    page = tmp_path / "report" / "index.html"
    page.parent.mkdir()
    page.write_text("old")
    sheet = report_fixture.single(tmp_path / "metrics")
    report(tmp_path / "metrics", sheet, page, page.with_name("samples.tsv"))
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert {path.name for path in page.parent.iterdir()} == {"index.html", "samples.tsv"}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), r"sizes\.tsv: No such file .*; run the workflow again"),
        (
            lambda path: path.write_text("library\tsample\nL1\tS1\n"),
            r"sizes\.tsv: is damaged \(KeyError: 'family_size'\); delete it and run",
        ),
        (
            lambda path: path.write_text("library\tsample\tfamily_size\tcount\nL1\tS1\tx\t1\n"),
            r"sizes\.tsv: is damaged \(ValueError: .*; delete it and run",
        ),
    ],
)
def test_a_table_that_cannot_be_read_is_named_and_the_old_page_kept(tmp_path, damage, message):
    page = tmp_path / "index.html"
    page.write_text("old")
    sheet = report_fixture.single(tmp_path / "metrics")
    damage(tmp_path / "metrics" / "demo" / "sizes.tsv")
    with pytest.raises(UmimillError, match=message) as caught:
        report(tmp_path / "metrics", sheet, page, tmp_path / "samples.tsv")
    assert "\n" not in str(caught.value)
    assert page.read_text() == "old"


def test_cut_json_is_named(tmp_path):
    sheet = report_fixture.single(tmp_path)
    (tmp_path / "demo" / "jobs.json").write_text('{"jobs": [')
    with pytest.raises(UmimillError, match=r"jobs\.json: is damaged"):
        report(tmp_path, sheet, tmp_path / "index.html", tmp_path / "samples.tsv")


def test_settings_are_shown(tmp_path):
    text, _ = made(report_fixture.large, tmp_path, libraries=2)
    head, *rows = read(text).tables["settings-table"]
    keys = ["buckets", "parts", "min_reads", "refine_method", "min_posterior", "floor"]
    assert head == ["Library", *keys]
    assert rows == [[f"plate{i}", "64", "1", str(i), "posterior", "0.5", "0.0001"] for i in (1, 2)]


def test_an_error_rate_of_zero_is_said_as_what_it_is(tmp_path):
    metrics = tmp_path / "metrics"
    sheet = report_fixture.single(metrics)
    table = metrics / "demo" / "samples.tsv"
    head, row = (line.split("\t") for line in table.read_text().splitlines())
    row[head.index("posterior_error")] = "0"
    table.write_text("\t".join(head) + "\n" + "\t".join(row) + "\n")
    report(metrics, sheet, tmp_path / "index.html", tmp_path / "samples.tsv")
    rows = read((tmp_path / "index.html").read_text()).tables["samples-table"]
    assert rows[1][8] == "<1e-06"


# -- the table of samples --------------------------------------------------------------------------


def test_table_of_samples_has_the_columns_of_the_sheet(tmp_path):
    page = tmp_path / "index.html"
    sheet = report_fixture.typical(tmp_path / "metrics")
    sheet["L1"][1] = ("S2", {"tissue": 'a "blood"\nclot', "donor": "D 2"})
    report(tmp_path / "metrics", sheet, page, tmp_path / "samples.tsv")
    with (tmp_path / "samples.tsv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [(row["library"], row["sample"]) for row in rows] == [
        (library, sample) for library, members in sheet.items() for sample, _ in members
    ]
    assert [row["tissue"] for row in rows] == [
        "blood <b>left</b>",
        'a "blood" clot',
        "blood <b>left</b>",
        "blood <b>left</b>",
        "",
    ]
    assert [row["donor"] for row in rows] == ["", "D 2", "", "", ""]
    with (tmp_path / "metrics" / "L1" / "samples.tsv").open(encoding="utf-8") as file:
        own = list(csv.DictReader(file, delimiter="\t"))
    assert [{name: row[name] for name in own[0]} for row in rows[:4]] == own
    assert list(rows[0]) == [*own[0], "tissue", "donor"]


def test_rows_of_one_sample_are_joined_and_taken_names_are_changed(tmp_path):
    table = [{"library": "L1", "sample": "S1", "reads": "3"}]
    cells = ("D1", "x"), ("D1", "y"), ("", "x")
    sheet = [("S1", {"donor": donor, "Reads": word}) for donor, word in cells]
    write_sample_table([table, []], sheet, tmp_path / "a.tsv")
    assert (tmp_path / "a.tsv").read_text() == (
        "library\tsample\treads\tdonor\tsheet_Reads\nL1\tS1\t3\tD1\tx; y\n"
    )
    assert free_names(["Reads", "sheet_reads"], ["reads"]) == ["sheet_sheet_Reads", "sheet_reads"]
    assert free_names(["tube\nnumber"], ["reads"]) == ["tube number"]
