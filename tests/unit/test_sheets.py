"""Sheets as spreadsheet programs and editors leave them."""

import csv
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from umimill.errors import ConfigError
from umimill.sheets import Table, clean, nearest, read_table, show, span

UNITS: dict[str, Any] = {
    "properties": {
        "library": {"type": "string", "minLength": 1},
        "unit": {"type": "string", "minLength": 1},
        "read1": {"type": "string", "minLength": 1},
        "read2": {"type": "string"},
    },
    "required": ["library", "unit", "read1"],
    "additionalProperties": False,
}
SAMPLES: dict[str, Any] = {
    "properties": {
        "library": {"type": "string", "minLength": 1},
        "sample": {"type": "string", "minLength": 1},
        "layout": {"type": "string", "minLength": 1},
    },
    "required": ["library", "sample", "layout"],
    "additionalProperties": {"type": "string"},
}
PLAIN = "library\tsample\tlayout\tnote\nL1\tS1\t0:12\tearly\nL1\tS2\t0:4,5:10\t5 µl\n"
ROWS = [
    {"library": "L1", "sample": "S1", "layout": "0:12", "note": "early"},
    {"library": "L1", "sample": "S2", "layout": "0:4,5:10", "note": "5 µl"},
]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(content: bytes | str, schema: dict[str, Any] = SAMPLES) -> Table:
    Path("s.tsv").write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table("s.tsv", schema)


def problems(content: bytes | str, schema: dict[str, Any] = SAMPLES) -> list[str]:
    try:
        table = read(content, schema)
    except ConfigError as error:
        return list(error.problems)
    return table.problems(table.findings)


SAME = {
    "plain": PLAIN.encode(),
    "utf-8 with byte order mark": PLAIN.encode("utf-8-sig"),
    "utf-16 little-endian": b"\xff\xfe" + PLAIN.encode("utf-16-le"),
    "utf-16 big-endian": b"\xfe\xff" + PLAIN.encode("utf-16-be"),
    "windows-1252": PLAIN.encode("cp1252"),
    "CRLF": PLAIN.replace("\n", "\r\n").encode(),
    "CR": PLAIN.replace("\n", "\r").encode(),
    "no last line break": PLAIN.rstrip().encode(),
    "semicolons": PLAIN.replace("\t", ";").encode(),
    "commas, quoted": PLAIN.replace("0:4,5:10", '"0:4,5:10"').replace("\t", ",").encode(),
    "sep= line": b"sep=;\r\n" + PLAIN.replace("\t", ";").encode(),
    "all quoted": "".join(
        "\t".join(f'"{cell}"' for cell in line.split("\t")) + "\n" for line in PLAIN.splitlines()
    ).encode(),
    "blank rows": PLAIN.replace("\n", "\n\n\t\t\t\n").encode() + b"\t\t\t\n\n  \n",
    "blank rows first": b"\n\t\t\t\n" + PLAIN.encode(),
    "blank rows first, semicolons": b";;;\n" + PLAIN.replace("\t", ";").encode(),
    "blank columns": PLAIN.replace("\n", "\t\t\t\n").encode(),
    "blank column inside": PLAIN.replace("\t", "\t\t").encode(),
    "blanks around": PLAIN.replace("\t", " \t ").replace("\n", "\u00a0\n\u00a0").encode(),
    "header in capitals": PLAIN.replace(
        "library\tsample\tlayout", "Library\tSAMPLE\tLayout"
    ).encode(),
    "comments": ('# the "first\n' + PLAIN.replace("\n", '\n# a\t"b; c\n')).encode(),
    "comments quoted": ('"# a; ""b"", c"\n' + PLAIN).encode(),
    "zero-width blanks": PLAIN.replace("L1", "\u200bL1\ufeff").encode(),
}


@pytest.mark.parametrize("content", SAME.values(), ids=SAME.keys())
def test_variants_of_one_table(content: bytes) -> None:
    table = read(content)
    assert [row.cells for row in table.rows] == ROWS
    assert [row.number for row in table.rows] == [1, 2]
    assert table.findings == ()


def test_the_table_itself_matters() -> None:
    # What proves the comparison above: another cell is another table.
    assert [row.cells for row in read(PLAIN.replace("early", "late")).rows] != ROWS


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "s.tsv: the sheet is empty; give it a header and rows"),
        (b"\xef\xbb\xbf\r\n;;\r\n", "s.tsv: the sheet is empty; give it a header and rows"),
        (b"# only\n", "s.tsv: the sheet is empty; give it a header and rows"),
        (
            b"library\tsample\tlayout\n",
            "s.tsv: has a header but no rows; add a row for each sample",
        ),
        (
            b"library\tsample\tpattern\nL1\tS1\tNNN\n",
            "s.tsv: column is missing: layout; found: 'library', 'sample', 'pattern'; add it",
        ),
        (
            b"library\t\tsample\nL1\t\tS1\n",
            "s.tsv: column is missing: layout; found: 'library', 'sample'; add it",
        ),
        (
            b"L1\tS1\tNNN\n",
            [
                "s.tsv: columns are missing: library, sample, layout; found: 'L1', 'S1', 'NNN'; "
                "add them",
                "s.tsv: has a header but no rows; add a row for each sample",
            ],
        ),
        (
            b"library,sample;layout\nL1,S1;N\n",
            's.tsv: columns are separated by ";" and ","; use one of them',
        ),
        (
            b"a,b;c\nL1,S1;N\n",
            "s.tsv: columns are missing: library, sample, layout; found: 'a,b', 'c'; add them",
        ),
        (
            b"library sample  layout\nL1 S1 N\n",
            "s.tsv: columns are separated by blanks; separate them by tabs",
        ),
        (
            b"library\tsample\tlayout\tLayout\nL1\tS1\tN\tN\n",
            "s.tsv: two columns are named 'Layout'; rename or remove one",
        ),
        (
            b"library\tsample\tlayout\tnote\tNote\nL1\tS1\tN\tN\n",
            "s.tsv: two columns are named 'Note'; rename or remove one",
        ),
        (
            b"library\tsample\tlayout\t\tnote\nL1\tS1\tN\tx\ty\n",
            "s.tsv: column 4 has cells but no name; name it",
        ),
        (
            b"library\tsample\tlayout\tlayout_r2\nL1\tS1\tN\tx\n",
            "s.tsv: column 'layout_r2' is not known; did you mean layout?",
        ),
        (
            b"library\tsample\tlayout\nL1\tS1\tN\tx\n",
            's.tsv, row 1: 4 cells, but the header has 3; put cells that hold a tab in quotes (")',
        ),
        (
            b"library,sample,layout\nL1,S1,0:4,5:10\n",
            's.tsv, row 1: 4 cells, but the header has 3; put cells that hold a "," in quotes (")',
        ),
        (
            b"library\tsample\tlayout\n\n# c\nL1\tS1\n",
            "s.tsv, row 1 (line 4): layout is empty; give it in every row",
        ),
        (
            b"library\tsample\tlayout\n# c\nL1\tS1\nL1\tS2\tN\nL1\tS3\nL1\tS4\n",
            "s.tsv, rows 1, 3-4: layout is empty; give it in every row",
        ),
        (
            b'library\tsample\tlayout\nL1\tS1\tN\n\nL1\t"S2\tN\nL1\tS3\tN\n',
            's.tsv, line 4: a cell opens with " and does not end with it; '
            'close it, and double each " inside',
        ),
        (
            b'library\tsample\tlayout\nL1\tS1\t"N"N\n',
            's.tsv, line 2: a cell opens with " and does not end with it; '
            'close it, and double each " inside',
        ),
        (
            b"library\tsample\tlayout\tnote\r\nL1\tS1\tN\ta\r\nL1\tS2\tN\t\x81\r\n",
            "s.tsv, line 3: a character in an unknown encoding; save the sheet as UTF-8",
        ),
        (
            b"library\tsample\tlayout\tnote\rL1\tS1\tN\t\x81\r",
            "s.tsv, line 2: a character in an unknown encoding; save the sheet as UTF-8",
        ),
        (
            PLAIN.encode("utf-16-le"),
            "s.tsv: not a text file; save the sheet as tab-separated text",
        ),
        (
            b"PK\x03\x04\x14\0\x06\0",
            "s.tsv: is an Excel workbook; save the sheet as tab-separated text",
        ),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1",
            "s.tsv: is an Excel workbook; save the sheet as tab-separated text",
        ),
        (b"\x1f\x8b\x08\0", "s.tsv: is compressed; unpack it"),
    ],
)
def test_faults_of_a_sheet(content: bytes, expected: str | list[str]) -> None:
    assert problems(content) == ([expected] if isinstance(expected, str) else expected)


def test_unknown_columns_are_refused_where_the_schema_says_so() -> None:
    header = "library\tunit\tread1\tread_2\tcolour\n"
    assert problems(header + "L1\tu1\ta\tb\tc\n", UNITS) == [
        "s.tsv: column 'read_2' is not known; did you mean read2?",
        "s.tsv: column 'colour' is not known; the columns are library, unit, read1, read2",
    ]


@pytest.mark.parametrize("names", ["library;sample;layout", "LIBRARY;SAMPLE;LAYOUT"])
def test_known_names_find_the_separator(names: str) -> None:
    table = read(f"{names};a,b,c,d,e\nL1;S1;N;x\n")
    cells = {"library": "L1", "sample": "S1", "layout": "N", "a,b,c,d,e": "x"}
    assert [row.cells for row in table.rows] == [cells]


def test_a_broken_cell_of_a_spreadsheet_is_no_comment() -> None:
    assert [row.cells["library"] for row in read(PLAIN + "#REF!\tS3\tN\n").rows] == [
        "L1",
        "L1",
        "#REF!",
    ]


@pytest.mark.parametrize("separator", ["\t", ";"])
def test_only_the_first_cell_makes_a_comment(separator: str) -> None:
    text = PLAIN + "\t\t\t# late\n \u00a0# a comment\n"
    assert [row.cells["note"] for row in read(text.replace("\t", separator)).rows] == [
        "early",
        "5 µl",
        "# late",
    ]


def test_another_separator_alone_is_a_cell() -> None:
    assert [row.cells["note"] for row in read(PLAIN + "\t\t\t;\n").rows] == ["early", "5 µl", ";"]


def test_a_line_break_in_a_cell_becomes_a_blank() -> None:
    table = read('library\tsample\tlayout\tnote\nL1\tS1\tN\t"a\r\n b"\nL1\tS2\t\tc\n')
    assert table.rows[0].cells["note"] == "a b"
    assert table.problems(table.findings) == [
        "s.tsv, row 2 (line 4): layout is empty; give it in every row"
    ]


def test_what_is_no_sheet(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(path: str) -> str:
        with pytest.raises(ConfigError) as caught:
            read_table(path, UNITS)
        return str(caught.value)

    remedy = "give a sheet, or set its key in the config"
    os.mkdir("folder")
    os.mkfifo("pipe")
    os.symlink("gone", "link")
    os.symlink("loop", "loop")
    Path("huge.tsv").write_bytes(b"")
    os.truncate("huge.tsv", (64 << 20) + 1)
    Path("closed.tsv").write_text("x")
    assert fault("gone.tsv") == f"gone.tsv: does not exist; {remedy}"
    assert fault("closed.tsv/x") == f"closed.tsv/x: does not exist; {remedy}"
    assert fault("folder") == f"folder: is a folder; {remedy}"
    assert fault("pipe") == f"pipe: is not a regular file; {remedy}"
    assert fault("link") == f"link: is a link to a missing file; {remedy}"
    assert fault("loop") == (
        f"loop: cannot be reached (Too many levels of symbolic links); {remedy}"
    )
    if sys.platform == "linux":
        # Opens as a file and fails when read.
        mem = "/proc/self/mem"
        assert fault(mem) == f"{mem}: cannot be read (Input/output error); {remedy}"
    assert fault("huge.tsv") == "huge.tsv: larger than 64 MB; this is not a sheet, check the path"
    # The superuser may read everything, so permission is taken away here.
    monkeypatch.setattr(os, "access", lambda path, mode: path != "closed.tsv" or mode != os.R_OK)
    assert fault("closed.tsv") == f"closed.tsv: cannot be read (no permission); {remedy}"


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([3], "row 3"),
        ([1, 2], "rows 1-2"),
        ([1, 3], "rows 1, 3"),
        ([1, 2, 3, 7, 9, 10], "rows 1-3, 7, 9-10"),
    ],
)
def test_span(rows: list[int], text: str) -> None:
    assert span(rows) == text


def test_shown_values_stay_on_one_line() -> None:
    assert show("a\tb\nc\x1b[31m\u00a0é") == r"'a\tb\nc\x1b[31m\xa0é'"
    assert clean("x" * 81) == "x" * 77 + "..."
    assert show("C:\\data") == r"'C:\data'"


def test_nearest() -> None:
    known = ["min_reads", "min_umi_quality", "buckets"]
    assert nearest("Min-Reads", known) == "min_reads"
    assert nearest("BUCKET", known) == "buckets"
    assert nearest("colour", known) is None


CELL = st.text(
    st.characters(exclude_categories=("C", "Z")) | st.sampled_from(" ,;\t\"'#:"), max_size=8
)
RECORD = st.tuples(CELL.filter(lambda text: not text.strip().startswith("#")), CELL, CELL, CELL)


def render(records: Sequence[Sequence[str]], separator: str, end: str, quoting: int) -> str:
    text = io.StringIO()
    # The module's own constants are plain integers to the type checker.
    writer = csv.writer(text, delimiter=separator, lineterminator=end, quoting=quoting)  # type: ignore[arg-type]
    writer.writerows(records)
    return text.getvalue()


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    records=st.lists(RECORD, min_size=1, max_size=5),
    separator=st.sampled_from("\t;,"),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    header=st.sampled_from([str.lower, str.upper, str.title]),
    blank_columns=st.integers(0, 2),
    blank_rows=st.integers(0, 2),
    comment=st.sampled_from([None, "# a", '# "a\t;,']),
)
def test_any_rendering_reads_the_same(
    records: list[tuple[str, ...]],
    separator: str,
    end: str,
    quoting: int,
    encoding: str,
    header: Any,
    blank_columns: int,
    blank_rows: int,
    comment: str | None,
) -> None:
    columns = ["library", "sample", "layout", "note"]
    names = [header(name) for name in columns[:3]] + ["note"]
    parts = [
        render([[*record, *[""] * blank_columns]], separator, end, quoting)
        for record in [names, *records, *[("",) * 4] * blank_rows]
    ]
    text = (comment + end if comment else "").join(["", *parts])
    Path("s.tsv").write_bytes(text.encode(encoding))
    wanted = [[cell.strip() for cell in record] for record in records]
    wanted = [record for record in wanted if any(record)]
    if not wanted:
        with pytest.raises(ConfigError, match="a header but no rows"):
            read_table("s.tsv", SAMPLES)
        return
    table = read_table("s.tsv", SAMPLES)
    assert [list(row.cells.values()) for row in table.rows] == wanted
    assert {row.cells.keys() == set(columns) for row in table.rows} == {True}
