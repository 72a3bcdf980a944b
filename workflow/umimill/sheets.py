"""Sheets as people save them: text tables from editors and spreadsheet programs.

Knows encodings, separators, quotes, headers and rows, and the rules a schema states for one
cell. What rows mean to each other is in `sheet_checks`.
"""

import codecs
import csv
import difflib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from umimill.errors import ConfigError

ID_RULE = "letters, digits, _ and -, single dots inside, first a letter or digit"

# A sheet of 100,000 rows has 10 MB; a file of reads given by mistake must not be loaded.
_MAX_SHEET_BYTES = 64 << 20
_SEPARATORS = {"\t": "tab", ";": '";"', ",": '","'}
_NOT_TEXT = {
    b"PK\x03\x04": "is an Excel workbook; save the sheet as tab-separated text",
    b"\xd0\xcf\x11\xe0": "is an Excel workbook; save the sheet as tab-separated text",
    b"\x1f\x8b": "is compressed; unpack it",
}
_BLANK_EDGES = re.compile(r"^[\s\ufeff\u200b]+|[\s\ufeff\u200b]+$")
# What a spreadsheet program writes in a broken cell: no comment, though it starts with "#".
_BROKEN_CELL = re.compile(r"#(REF!|NAME\?|VALUE!|DIV/0!|NUM!|NULL!|N/A)")

Finding = tuple[int, str]  # number of the row (0 = the whole sheet), what is wrong with it


@dataclass(frozen=True)
class Row:
    """A data row: number (1 = first data row), line in the file, cells by column."""

    number: int
    line: int
    cells: Mapping[str, str]


@dataclass(frozen=True)
class Table:
    """A sheet: its rows, and what is wrong with single cells and columns.

    Every row has a cell for every known column, "" where the sheet has none.
    """

    path: str
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]

    def problems(self, findings: Iterable[Finding]) -> list[str]:
        """Make lines of findings, one a text, by first row; equal texts share a line."""
        rows_of: dict[str, list[int]] = {}
        for row, text in findings:
            rows_of.setdefault(text, []).append(row)
        lines = {row.number: row.line for row in self.rows}
        return [
            f"{_place(self.path, sorted(rows), lines)}: {text}"
            for text, rows in sorted(rows_of.items(), key=lambda item: min(item[1]))
        ]


def read_table(path: str, schema: Mapping[str, Any]) -> Table:
    """Read a sheet and check each of its cells.

    Args:
        path: the sheet: UTF-8, UTF-16 with a byte order mark or Windows-1252; separated by
            tabs, semicolons or commas.
        schema: JSON schema of a row; its properties are the known columns.

    Returns:
        The table. Columns that the schema does not know are kept where it allows them.

    Raises:
        ConfigError: the sheet cannot be read as a table with the required columns.
    """
    known = list(schema["properties"])
    text = _read_text(path)
    separator = _find_separator(path, text, known)
    records = list(_records(path, text, separator))
    # Separators alone, whichever they are, make no header.
    if not records or not re.search(r"\w", text):
        raise ConfigError([f"{path}: the sheet is empty; give it a header and rows"])
    header = records[0][1]
    body = records[1:]
    columns, faults = _columns(header, body, schema)
    missing = [name for name in schema["required"] if name not in columns.values()]
    if missing:
        found = ", ".join(show(name) for name in header if name)
        are, them = (" is", "it") if len(missing) == 1 else ("s are", "them")
        names = ", ".join(missing)
        faults.append(f"column{are} missing: {names}; found: {found}; add {them}")
    if not body:
        faults.append(f"has a header but no rows; add a row for each {schema['required'][1]}")
    if missing or not body:
        raise ConfigError(f"{path}: {fault}" for fault in faults)
    rows = tuple(
        Row(number, line, _cells(record, columns, schema))
        for number, (line, record) in enumerate(body, start=1)
    )
    findings = [(0, fault) for fault in faults]
    for row, (_, record) in zip(rows, body, strict=True):
        findings += _check_width(row.number, record, header, separator)
    findings += _check_cells(rows, schema)
    return Table(path, rows, tuple(findings))


def file_fault(path: str) -> str | None:
    """Say why a file cannot be read: "does not exist", "is a folder" ...; None if it can."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "is a link to a missing file" if os.path.islink(path) else "does not exist"
    except OSError as error:
        return f"cannot be reached ({error.strerror})"
    if stat.S_ISDIR(mode):
        return "is a folder"
    if not stat.S_ISREG(mode):
        return "is not a regular file"
    if not os.access(path, os.R_OK):
        return "cannot be read (no permission)"
    return None


def clean(value: object) -> str:
    """Make a text fit for a message: one line, no control characters, at most 80 characters."""
    text = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in str(value)
    )
    return text if len(text) <= 80 else text[:77] + "..."


def show(value: object) -> str:
    """Quote a value for a message, made fit by `clean`."""
    return f"'{clean(value)}'"


def nearest(word: str, known: Sequence[str]) -> str | None:
    """Return the known word a mistyped one most likely means, None if none is near."""
    plain = re.sub(r"[\s-]+", "_", word.lower())
    matches = difflib.get_close_matches(plain, known, n=1, cutoff=0.6)
    return matches[0] if matches else None


def span(rows: Sequence[int]) -> str:
    """Write ascending row numbers: "row 3", "rows 1-2, 5"."""
    parts: list[str] = []
    start = rows[0]
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        if following != row + 1:
            parts.append(str(row) if row == start else f"{start}-{row}")
            start = following or 0
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(parts)}"


def _place(path: str, rows: Sequence[int], lines: Mapping[int, int]) -> str:
    if rows[0] == 0:
        return path
    # The line is worth saying only where comments, blanks or line breaks shift it.
    line = lines[rows[0]]
    shifted = len(rows) == 1 and line != rows[0] + 1
    return f"{path}, {span(rows)}{f' (line {line})' if shifted else ''}"


def _read_text(path: str) -> str:
    fault = file_fault(path)
    data = b""
    try:
        if not fault:
            with open(path, "rb") as sheet:
                data = sheet.read(_MAX_SHEET_BYTES + 1)
    except OSError as error:
        fault = f"cannot be read ({error.strerror})"
    if fault:
        raise ConfigError([f"{path}: {fault}; give a sheet, or set its key in the config"])
    for magic, remark in _NOT_TEXT.items():
        if data.startswith(magic):
            raise ConfigError([f"{path}: {remark}"])
    if len(data) > _MAX_SHEET_BYTES:
        raise ConfigError([f"{path}: larger than 64 MB; this is not a sheet, check the path"])
    try:
        text = _decode(data)
    except UnicodeDecodeError as error:
        line = max(data.count(end, 0, error.start) for end in (b"\n", b"\r")) + 1
        raise ConfigError(
            [f"{path}, line {line}: a character in an unknown encoding; save the sheet as UTF-8"]
        ) from None
    if "\0" in text:
        raise ConfigError([f"{path}: not a text file; save the sheet as tab-separated text"])
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decode(data: bytes) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # "Text (tab delimited)" of a spreadsheet program on Windows.
        return data.decode("cp1252")


def _find_separator(path: str, text: str, known: Sequence[str]) -> str:
    headers: dict[str, list[str]] = {}
    for separator in _SEPARATORS:
        try:
            headers[separator] = next(_records(path, text, separator), (0, []))[1]
        except ConfigError:
            # Quotes that do not end at this separator: it is another one, or none.
            headers[separator] = []
    counts = {
        separator: sum(name.lower() in known for name in header)
        for separator, header in headers.items()
    }
    best = max(counts.values())
    winners = [
        separator
        for separator, header in headers.items()
        if counts[separator] == best and len(header) > 1
    ]
    if best > 0 and len(winners) > 1:
        names = " and ".join(_SEPARATORS[separator] for separator in winners)
        raise ConfigError([f"{path}: columns are separated by {names}; use one of them"])
    words = " ".join(headers["\t"]).lower().split()
    if not winners and sum(word in known for word in words) > 1:
        raise ConfigError([f"{path}: columns are separated by blanks; separate them by tabs"])
    return max(headers, key=lambda separator: (counts[separator], len(headers[separator])))


def _records(path: str, text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, trimmed cells) of each record that is no comment and not blank."""
    line = 0
    fresh = True  # the next line starts a record

    def lines() -> Iterator[str]:
        nonlocal line, fresh
        for number, content in enumerate(text.split("\n"), start=1):
            # A quote in a comment opens nothing, so comments never reach the parser.
            if fresh and _skipped(content):
                continue
            if fresh:
                line = number
            fresh = False
            yield content + "\n"

    reader = csv.reader(lines(), delimiter=separator, skipinitialspace=True, strict=True)
    try:
        for record in reader:
            fresh = True
            cells = [_trim(re.sub(r"\s*\n\s*", " ", cell)) for cell in record]
            while cells and not cells[-1]:
                cells.pop()
            if cells and not _is_comment(cells[0]):
                yield line, cells
    except csv.Error:
        fault = f'{path}, line {line}: a cell opens with " and does not end with it'
        raise ConfigError([f'{fault}; close it, and double each " inside']) from None


def _trim(text: str) -> str:
    return _BLANK_EDGES.sub("", text)


def _is_comment(text: str) -> bool:
    return text.startswith("#") and not _BROKEN_CELL.match(text)


def _skipped(line: str) -> bool:
    text = _trim(line)
    if not text or re.fullmatch(r'"?sep=.?"?', text):
        return True
    # A tab in front is an empty first cell: what follows it is no comment.
    return _is_comment(line.lstrip(" \u00a0\ufeff\u200b"))


def _columns(
    header: Sequence[str],
    body: Iterable[tuple[int, Sequence[str]]],
    schema: Mapping[str, Any],
) -> tuple[dict[int, str], list[str]]:
    """Name the columns by position; known names in lower case, nameless ones left out."""
    known = list(schema["properties"])
    columns: dict[int, str] = {}
    faults: list[str] = []
    seen: set[str] = set()
    for index, name in enumerate(header):
        low = name.lower()
        if not name:
            if any(len(record) > index and record[index] for _, record in body):
                faults.append(f"column {index + 1} has cells but no name; name it")
        elif low in seen:
            faults.append(f"two columns are named {show(name)}; rename or remove one")
        elif low in known:
            columns[index] = low
        elif schema["additionalProperties"] is False or low.startswith("layout"):
            near = nearest(name, known)
            remedy = f"did you mean {near}?" if near else f"the columns are {', '.join(known)}"
            faults.append(f"column {show(name)} is not known; {remedy}")
        else:
            columns[index] = name
        seen.add(low)
    return columns, faults


def _cells(
    record: Sequence[str], columns: Mapping[int, str], schema: Mapping[str, Any]
) -> dict[str, str]:
    cells = dict.fromkeys(schema["properties"], "")
    cells |= {name: record[index] if index < len(record) else "" for index, name in columns.items()}
    return cells


def _check_width(
    number: int, record: Sequence[str], header: Sequence[str], separator: str
) -> list[Finding]:
    if len(record) <= len(header):
        return []
    text = f"{len(record)} cells, but the header has {len(header)}"
    return [(number, f'{text}; put cells that hold a {_SEPARATORS[separator]} in quotes (")')]


def _check_cells(rows: Iterable[Row], schema: Mapping[str, Any]) -> list[Finding]:
    # Imported here: 0.1 s that a job which only imports this module need not pay.
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(schema)
    findings: list[Finding] = []
    for row in rows:
        faults = {str(error.path[0]): error for error in validator.iter_errors(row.cells)}
        findings += [
            (row.number, _say_cell(column, row.cells[column], faults[column].schema))
            for column in row.cells
            if column in faults
        ]
    return findings


def _say_cell(column: str, cell: str, rule: Mapping[str, Any]) -> str:
    if rule.get("maxLength") == 0:
        return f"{column} is given, but index reads are not read yet; clear it"
    if not cell:
        return f"{column} is empty; give it in every row"
    if len(cell) > rule["maxLength"]:
        return f"{column} {show(cell)} is longer than {rule['maxLength']} characters; shorten it"
    return f"{column} {show(cell)} is not a legal id; use {ID_RULE}"
