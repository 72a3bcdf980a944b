"""What the rows of both sheets must mean together: ids, files, pairs, tags.

Works on tables that `sheets` read; knows nothing of how a sheet is written.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator

from umimill.errors import UmimillError, one_line
from umimill.sheets import Finding, Row, Table, clean, file_fault, show, span

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_WRITTEN = ("results", "logs", "benchmarks")  # all that a run writes is in these
# Rows of reads number the units and samples of their library in 16 bits, from 0.
MOST_OF_LIBRARY = 1 << 16


def check_units(table: Table) -> list[Finding]:
    """Find faults among the rows of units.tsv: ids, files, mates."""
    rows, findings = _split_twins(table)
    findings += _spellings(rows)
    findings += _units_twice(rows)
    findings += _too_many(table, "unit")
    findings += _files(rows)
    findings += _mates(table)
    return findings


def check_samples(
    table: Table,
    check_layout: Callable[[str], object] | None,
    check_row: Callable[[str, str | None], object] | None,
) -> list[Finding]:
    """Find faults among the rows of samples.tsv: ids, tags, layouts.

    Args:
        table: the sheet.
        check_layout: called with each layout; raises UmimillError on a bad one. None = skip.
        check_row: called with both layouts of a row whose layouts are good. None = skip.
    """
    rows, findings = _split_twins(table)
    findings += _spellings(rows)
    findings += _samples_twice(rows)
    findings += _too_many(table, "sample")
    findings += _tags_twice(rows)
    findings += _layouts(table.rows, check_layout, check_row)
    findings += _cell_lists(table)
    if not findings and check_row is not None:
        findings += _cell_lengths(table, check_row)
    return findings


def check_units_against(units: Table, samples: Table) -> Iterator[Finding]:
    """Find libraries of units.tsv that have no sample."""
    have = {library.lower() for library in _libraries(samples)}
    for library, rows in _libraries(units).items():
        if library.lower() not in have:
            text = f"library {clean(library)} has no row in {samples.path}"
            yield rows[0].number, f"{text}; add its samples there or remove its units"


def check_samples_against(samples: Table, units: Table) -> Iterator[Finding]:
    """Find libraries of samples.tsv without files, spelled otherwise, or without read 2."""
    theirs = _libraries(units)
    spelled = {library.lower(): library for library in theirs}
    for library, rows in _libraries(samples).items():
        name = spelled.get(library.lower())
        shown = f"library {clean(library)}"
        if name is None:
            text = f"{shown} has no row in {units.path}; add its units there or remove its samples"
            yield rows[0].number, text
            continue
        if name != library:
            text = f"{shown} is spelled {clean(name)} in {units.path}; use one spelling"
            yield from ((row.number, text) for row in rows)
        if not any(row.cells["read2"] for row in theirs[name]):
            text = f"layout_read2 is given, but {shown} has no read2 in {units.path}"
            text += "; clear it or add read2 there"
            yield from ((row.number, text) for row in rows if row.cells["layout_read2"])


def _libraries(table: Table) -> dict[str, list[Row]]:
    """Group rows by library, whatever its case; the name is the first row's."""
    names: dict[str, str] = {}
    groups: dict[str, list[Row]] = {}
    for row in table.rows:
        library = row.cells["library"]
        if library:
            name = names.setdefault(library.lower(), library)
            groups.setdefault(name, []).append(row)
    return groups


def _split_twins(table: Table) -> tuple[list[Row], list[Finding]]:
    """Set rows aside that repeat a row in full: one fault each is enough."""
    first: dict[tuple[str, ...], int] = {}
    rows: list[Row] = []
    findings: list[Finding] = []
    for row in table.rows:
        number = first.setdefault(tuple(row.cells.values()), row.number)
        if number == row.number:
            rows.append(row)
        else:
            findings.append((row.number, f"the same as row {number}; remove it"))
    return rows, findings


def _spellings(rows: Iterable[Row]) -> Iterator[Finding]:
    first: dict[str, Row] = {}
    for row in rows:
        library = row.cells["library"]
        other = first.setdefault(library.lower(), row)
        name = other.cells["library"]
        if name != library:
            text = f"library {clean(library)} differs only in case from {clean(name)}"
            yield row.number, f"{text} in row {other.number}; rename one or use one spelling"


def _units_twice(rows: Iterable[Row]) -> Iterator[Finding]:
    first: dict[tuple[str, str], Row] = {}
    for row in rows:
        library, unit = row.cells["library"], row.cells["unit"]
        if not library or not unit:
            continue
        other = first.setdefault((library.lower(), unit.lower()), row)
        name = other.cells["unit"]
        where = f"row {other.number}"
        if name != unit:
            text = f"unit {clean(unit)} differs only in case from {clean(name)} in {where}"
            yield row.number, f"{text}; rename one"
        elif other is not row:
            text = f"unit {clean(unit)} of library {clean(library)} is already in {where}"
            yield row.number, f"{text}; rename one"


def _too_many(table: Table, column: str) -> Iterator[Finding]:
    for library, rows in _libraries(table).items():
        names: set[str] = set()
        for row in rows:
            names.add(row.cells[column])
            if len(names) > MOST_OF_LIBRARY:
                text = f"library {clean(library)} has more than {MOST_OF_LIBRARY:,} {column}s"
                yield row.number, f"{text}; split it into several libraries"
                break


def _samples_twice(rows: Iterable[Row]) -> Iterator[Finding]:
    first: dict[str, Row] = {}
    for row in rows:
        library, sample = row.cells["library"], row.cells["sample"]
        if not library or not sample:
            continue
        other = first.setdefault(sample.lower(), row)
        name, home = other.cells["sample"], other.cells["library"]
        shown = f"sample {clean(sample)}"
        where = f"row {other.number}"
        if name != sample:
            text = f"{shown} differs only in case from {clean(name)} in {where}"
            yield row.number, f"{text}; rename one or use one spelling"
        elif home.lower() != library.lower():
            text = f"{shown} is already in library {clean(home)} ({where})"
            text += "; a sample belongs to one library, rename one, as in "
            yield row.number, f"{text}{clean(library)}-{clean(sample)}"


def _tags_twice(rows: Iterable[Row]) -> Iterator[Finding]:
    first: dict[tuple[str, ...], Row] = {}
    for row in rows:
        cells = row.cells
        if not cells["layout"]:
            continue
        tag = tuple(_spell_out(cells[name]) for name in ("library", "layout", "layout_read2"))
        other = first.setdefault(tag, row)
        if other is row:
            continue
        mine, theirs = cells["sample"], other.cells["sample"]
        if mine.lower() == theirs.lower():
            text = f"sample {clean(mine)} has the layout of row {other.number} again; remove one"
        else:
            text = f"two samples with one tag: {clean(mine)} has the layout of {clean(theirs)}"
            text += f" in row {other.number}; give each its own"
        yield row.number, text


def _spell_out(layout: str) -> str:
    """Write repeats out and in upper case, so that N{3} and nnn compare equal."""
    repeats = re.compile(r"(\S)\{(\d{1,3})\}")
    return repeats.sub(lambda repeat: repeat[1] * int(repeat[2]), layout).upper()


def _layouts(
    rows: Iterable[Row],
    check_layout: Callable[[str], object] | None,
    check_row: Callable[[str, str | None], object] | None,
) -> Iterator[Finding]:
    for row in rows:
        good = True
        for column in ("layout", "layout_read2"):
            try:
                if check_layout is not None and row.cells[column]:
                    check_layout(row.cells[column])
            except UmimillError as error:
                good = False
                yield row.number, _say_layout(column, error)
        try:
            if check_row is not None and good and row.cells["layout"]:
                check_row(row.cells["layout"], row.cells["layout_read2"] or None)
        except UmimillError as error:
            yield row.number, _say_layout("layout", error)


def _say_layout(column: str, error: UmimillError) -> str:
    return f"{column}: {one_line(error).removeprefix('layout ')}"


def _cell_lists(table: Table) -> Iterator[Finding]:
    for library, rows in _libraries(table).items():
        given = [row for row in rows if row.cells["cell_list"]]
        if not given:
            continue
        shown = f"library {clean(library)}"
        path = given[0].cells["cell_list"]
        have = f"{span([row.number for row in given])} of {shown} ha{'ve' if given[1:] else 's'} it"
        for row in rows:
            own = row.cells["cell_list"]
            if not own:
                yield row.number, f"cell_list is missing while {have}; give it in all or none"
            elif own != path:
                text = f"cell_list {show(own)} is not that of row {given[0].number}"
                yield row.number, f"{text}; {shown} has one list"
        wrong, fault = _place_fault(path), file_fault(path)
        if wrong or fault:
            text = wrong or f"{fault}; {_remedy(path, str(fault))}"
            yield given[0].number, f"cell_list {show(path)} {text}"


def _cell_lengths(
    table: Table, check_row: Callable[[str, str | None], object]
) -> Iterator[Finding]:
    """Find lists of libraries whose layouts have no cell barcode, or those of several lengths."""
    for library, rows in _libraries(table).items():
        if not rows[0].cells["cell_list"]:
            continue
        first: tuple[int, int] | None = None
        for row in rows:
            found = check_row(row.cells["layout"], row.cells["layout_read2"] or None)
            length = getattr(found, "cell_length", None)
            if length is None:
                return
            first = first or (length, row.number)
            if length == 0:
                text = "cell_list is given, but the layout has no cell barcode (X)"
                yield row.number, f"{text}; clear it or mark the cell"
            elif length != first[0]:
                text = f"the cell barcode has {length} bases, that of row {first[1]} has {first[0]}"
                yield (
                    row.number,
                    f"{text}, but library {clean(library)} has one cell_list; split it",
                )


def _mates(table: Table) -> Iterator[Finding]:
    for library, rows in _libraries(table).items():
        paired = [row.number for row in rows if row.cells["read2"]]
        if not paired:
            continue
        have = f"{span(paired)} of library {clean(library)} ha{'ve' if len(paired) > 1 else 's'} it"
        text = f"read2 is missing while {have}; give it or split the library"
        yield from ((row.number, text) for row in rows if not row.cells["read2"])


def _files(rows: Iterable[Row]) -> Iterator[Finding]:
    first: dict[tuple[object, ...], tuple[Row, str]] = {}
    for row in rows:
        for column in ("read1", "read2"):
            path = row.cells[column]
            if not path:
                continue
            shown = f"{column} {show(path)}"
            wrong = _place_fault(path)
            if wrong:
                yield row.number, f"{shown} {wrong}"
                continue
            fault = file_fault(path)
            if fault:
                yield row.number, f"{shown} {fault}; {_remedy(path, fault)}"
            others = [first.setdefault(key, (row, column)) for key in _identities(path)]
            other, name = next((pair for pair in others if pair != (row, column)), (None, ""))
            if other is row:
                text = f"read1 and read2 are one file, {show(path)}; give the file of read 2"
                yield row.number, text
            elif other is not None:
                text = f"{shown} is the same file as {name} of row {other.number}"
                yield row.number, f"{text}; give each file once in the run"


def _place_fault(path: str) -> str | None:
    """Say why no input can have this path, and what to do; None if one can."""
    if _ADDRESS.match(path):
        return "is an address; only local files are read, fetch it first"
    if "{" in path or "}" in path:
        # Snakemake takes it for a wildcard and ends in a WildcardError.
        return "has a brace; rename the file or link to it"
    folder = _written_folder(path)
    return f"lies in {folder}, where the run writes; move it elsewhere" if folder else None


def _written_folder(path: str) -> str | None:
    """Name the folder of outputs that a path, or a link at its end, leads into."""
    home, name = os.path.split(path)
    places = (os.path.join(os.path.realpath(home), name), os.path.realpath(path))
    for folder in _WRITTEN:
        real = os.path.realpath(folder)
        if any(os.path.commonpath((real, place)) == real for place in places):
            return folder
    return None


def _identities(path: str) -> list[tuple[object, ...]]:
    """Name a file so that links to it are found: its real path, and its inode if there."""
    keys: list[tuple[object, ...]] = [(os.path.realpath(path),)]
    try:
        status = os.stat(path)
    except OSError:
        return keys
    return [*keys, (status.st_dev, status.st_ino)]


def _remedy(path: str, fault: str) -> str:
    if "permission" in fault:
        return "change its mode or ask its owner"
    if "\\" in path:
        return "write paths with /, not with a backslash"
    if path.startswith("~"):
        return "~ is not expanded, write the whole path"
    if any(char in path for char in "*?["):
        return "patterns are not expanded, give each file a row"
    if "," in path or ";" in path:
        return "a cell holds one file, give each file a row"
    return "check the path, it starts at the working directory"
