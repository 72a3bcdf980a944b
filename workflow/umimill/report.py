"""The report of a run: one HTML page from the metrics tables on disk.

Knows where the tables lie and how the page is written; what is on it is made in
`report_sections`, from sums of `summary` and sentences of `findings`.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from umimill import report_sections, summary
from umimill.barcode_sums import (
    Barcodes,
    Correction,
    DepthError,
    Outcome,
    PosteriorBin,
    RankPoint,
    SizeCount,
)
from umimill.cell_sums import CellCall, SampleCells
from umimill.errors import UmimillError
from umimill.files import whole_file
from umimill.sample_table import SheetRow, write_sample_table
from umimill.summary import Job, LedgerRow, Library, Sample

_NUMBERS = (
    "wall_seconds",
    "cpu_seconds",
    "reads",
    "threads",
    "peak_rss_bytes",
    "baseline_rss_bytes",
    "budget_bytes",
    "umi_memory_bytes",
    "umi_spill_bytes",
    "umi_read_back_bytes",
    "written_bytes",
)
# A number and its unit stay on one line.
_UNIT = re.compile(r"(\d) (GB|MB|kB|B|s|min|h|d)\b")
_Source = TypeVar("_Source")
_Value = TypeVar("_Value")


def report(
    metrics_folder: Path,
    sheet: Mapping[str, Sequence[SheetRow]],
    output: Path,
    sample_table: Path,
    estimate: Path | None = None,
) -> int:
    """Write the report page of a run and its table of samples.

    The same tables give the same bytes: the page holds no time of its own making.

    Args:
        metrics_folder: holds a folder for each library: jobs.json, index.json,
            gather.<r>.json, provenance.json, ledger.tsv, sizes.tsv, samples.tsv, barcodes.tsv,
            outcomes.tsv, posteriors.tsv, corrections.tsv, umi_errors.tsv, family_sizes.tsv and
            ranks.tsv.
        sheet: rows of samples.tsv by library: libraries in the order they are shown, rows in that
            of the sheet.
        output: the page; written under a temporary name beside it, then renamed.
        sample_table: table of all samples, written in the same way.
        estimate: what the run was estimated to take, or None.

    Returns:
        Templates of all libraries.

    Raises:
        UmimillError: a table is missing or cannot be read; says which and what to do.
    """
    loaded = [load_library(metrics_folder / name, name, rows) for name, rows in sheet.items()]
    text = render(loaded, _read(estimate, json.loads) if estimate else None)
    tables = [_rows(metrics_folder / name / "samples.tsv", dict) for name in sheet]
    write_sample_table(tables, [row for rows in sheet.values() for row in rows], sample_table)
    with whole_file(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return sum(summary.templates_in(library) for library in loaded)


def render(libraries: Sequence[Library], estimate: Mapping[str, Any] | None = None) -> str:
    """The page as text; everything that came from a table is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = _code
    page = report_sections.page(libraries, estimate)
    return environment.get_template("report.html.j2").render(page=page)


def _code(text: str) -> str:
    """Text with `backquoted` names set as code, escaped."""
    from markupsafe import Markup, escape

    pieces = [escape(piece) for piece in text.split("`")]
    if len(pieces) % 2 == 0:
        return escape(text)
    pieces = [Markup(_UNIT.sub("\\1\N{NO-BREAK SPACE}\\2", piece)) for piece in pieces]
    marked = [f"<code>{piece}</code>" if i % 2 else piece for i, piece in enumerate(pieces)]
    return Markup("".join(marked))


def load_library(folder: Path, name: str, sheet: Sequence[SheetRow]) -> Library:
    """All tables of one library.

    Args:
        folder: the library's folder under results/metrics.
        name: the library's name.
        sheet: its rows of samples.tsv, as many as there are layouts.

    Returns:
        The rows of its tables, in the order of the files.

    Raises:
        UmimillError: a table is missing or cannot be read.
    """
    runs = sorted(folder.glob("gather.*.json"), key=lambda path: (len(path.name), path.name))
    metrics = [*_read(folder / "jobs.json", json.loads).get("jobs", [])]
    metrics += [_read(path, json.loads) for path in (folder / "index.json", *runs)]
    jobs = tuple(_parse(folder / "jobs.json", _job, row) for row in metrics)
    ledger = tuple(_rows(folder / "ledger.tsv", _ledger_row))
    if not any(row.stage == "gather" for row in ledger):
        # The library's ledger may be written before its files are gathered.
        ledger += tuple(row for job in jobs if job.stage == "gather" for row in job.ledger)
    sizes: dict[str, list[tuple[int, int]]] = {}
    for sample, size, count in _rows(folder / "sizes.tsv", _size_row):
        sizes.setdefault(sample, []).append((size, count))
    samples = tuple(_rows(folder / "samples.tsv", _sample))
    return Library(
        name=name,
        samples=samples,
        jobs=jobs,
        ledger=ledger,
        sizes={sample: tuple(rows) for sample, rows in sizes.items()},
        provenance=_with_metadata(folder / "provenance.json", sheet),
        barcodes=dict(_rows(folder / "barcodes.tsv", _barcodes)),
        outcomes=tuple(_rows(folder / "outcomes.tsv", _outcome)),
        cells=tuple(_cells(folder.parents[1] / "samples", [sample.name for sample in samples])),
        posteriors=tuple(_rows(folder / "posteriors.tsv", _posterior)),
        corrections=tuple(_rows(folder / "corrections.tsv", _correction)),
        umi_errors=tuple(_rows(folder / "umi_errors.tsv", _depth_error)),
        family_sizes=tuple(_rows(folder / "family_sizes.tsv", _size_count)),
        ranks=tuple(_rows(folder / "ranks.tsv", _rank_point)),
    )


def _cells(home: Path, samples: Sequence[str]) -> Iterator[SampleCells]:
    """Yield the cells of those samples that have cell barcodes."""
    for sample in samples:
        calls = home / sample / f"{sample}.cell_calls.tsv"
        if calls.exists():
            curve = _rows(
                home / sample / f"{sample}.cell_ranks.tsv",
                lambda row: (int(row["rank"]), int(row["molecules"])),
            )
            found = _rows(calls, _cell_call)
            yield SampleCells(sample, tuple(curve), {call.method: call for call in found})


def _cell_call(row: Mapping[str, str]) -> CellCall:
    return CellCall(
        method=row["method"],
        least=int(row["least_molecules"]) if row["least_molecules"] else None,
        cells=int(row["cells"]),
        molecules=int(row["molecules"]),
        share=float(row["molecules_share"]),
    )


def _with_metadata(path: Path, sheet: Sequence[SheetRow]) -> dict[str, Any]:
    def joined(text: str) -> dict[str, Any]:
        provenance: dict[str, Any] = json.loads(text)
        rows = zip(provenance["layouts"], sheet, strict=True)
        return provenance | {"layouts": [row | {"metadata": cells} for row, (_, cells) in rows]}

    return _read(path, joined)


def _read(path: Path, parse: Callable[[str], _Value]) -> _Value:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        what = error.strerror or "cannot be read"
        raise UmimillError(f"{path}: {what}; run the workflow again to make it") from error
    return _parse(path, parse, text)


def _parse(path: Path, parse: Callable[[_Source], _Value], source: _Source) -> _Value:
    try:
        return parse(source)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UmimillError(
            f"{path}: is damaged ({type(error).__name__}: {error}); "
            "delete it and run the workflow again"
        ) from error


def _rows(path: Path, parse: Callable[[Mapping[str, str]], _Value]) -> list[_Value]:
    def table(text: str) -> list[_Value]:
        reader = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
        return [parse(row) for row in reader]

    return _read(path, table)


def _job(row: Mapping[str, Any]) -> Job:
    stage, library = str(row["stage"]), str(row["library"])
    numbers = {key: row[key] for key in _NUMBERS if row.get(key) is not None}
    lines = tuple(
        LedgerRow(stage, line.get("sample"), str(line["line"]), int(line["templates"]))
        for line in row.get("ledger") or ()
    )
    return Job(
        stage=stage,
        library=library,
        rule=str(row.get("rule") or stage),
        unit=_name(row.get("unit")),
        part=_name(row.get("part")),
        bucket=_name(row.get("bucket")),
        clocks={key: float(value) for key, value in (row.get("clocks") or {}).items()},
        ledger=lines,
        provenance=row.get("provenance") or {},
        **numbers,
    )


def _name(value: object) -> str | None:
    return None if value is None else str(value)


def _ledger_row(row: Mapping[str, str]) -> LedgerRow:
    sample = None if row["sample"] == "." else row["sample"]
    return LedgerRow(row["stage"], sample, row["line"], int(row["templates"]))


def _size_row(row: Mapping[str, str]) -> tuple[str, int, int]:
    return row["sample"], int(row["family_size"]), int(row["count"])


def _sample(row: Mapping[str, str]) -> Sample:
    return Sample(
        library=row["library"],
        name=row["sample"],
        reads=int(row["reads"]),
        molecules=int(row["molecules"]),
        mean_reads=_number(row["mean_reads_per_molecule"]),
        median_reads=_number(row["median_reads_per_molecule"]),
        mean_quality=_number(row["mean_quality"]),
        posterior_error=_number(row["posterior_error"]),
    )


def _barcodes(row: Mapping[str, str]) -> tuple[str, Barcodes]:
    return row["sample"], Barcodes(
        families=int(row["families"]),
        corrected=int(row["corrected"]),
        corrected_reads=int(row["corrected_reads"]),
        molecules=int(row["molecules"]),
        chimera_suspects=int(row["chimera_suspects"]),
        chimera_suspect_reads=int(row["chimera_suspect_reads"]),
        shifted=int(row["shifted"]),
        shifted_reads=int(row["shifted_reads"]),
        unresolved=int(row["unresolved"]),
        unresolved_reads=int(row["unresolved_reads"]),
        dropped=int(row["dropped"]),
        dropped_reads=int(row["dropped_reads"]),
        occupancy=float(row["occupancy"]),
        space=float(row["space"]),
        barcodes=int(row["barcodes"]),
        agreement=_number(row["agreement"]),
        clonality=_number(row["clonality"]),
        error=_number(row["error"]),
        error_basis=row["error_basis"],
        error_census=_number(row["error_census"]),
        error_quality=_number(row["error_quality"]),
        chimera_rate=_number(row["chimera_rate"]),
        shift_rate=_number(row["shift_rate"]),
    )


def _outcome(row: Mapping[str, str]) -> Outcome:
    return Outcome(row["sample"], int(row["reads_from"]), row["outcome"], int(row["families"]))


def _posterior(row: Mapping[str, str]) -> PosteriorBin:
    least = float(row["posterior_from"])
    return PosteriorBin(least, int(row["families"]), int(row["corrected"]))


def _correction(row: Mapping[str, str]) -> Correction:
    return Correction(
        int(row["reads_from"]),
        int(row["families"]),
        int(row["corrected"]),
        int(row["molecules"]),
        float(row["errors_left"]),
        float(row["wrong_merges"]),
    )


def _depth_error(row: Mapping[str, str]) -> DepthError:
    return DepthError(
        int(row["parent_reads_from"]),
        int(row["parent_reads"]) + int(row["child_reads"]),
        int(row["children"]),
        float(row["error_merged"]),
        float(row["error_model"]),
    )


def _size_count(row: Mapping[str, str]) -> SizeCount:
    return SizeCount(int(row["reads"]), int(row["families"]), int(row["molecules"]))


def _rank_point(row: Mapping[str, str]) -> RankPoint:
    share = float(row["share_of_reads"])
    return RankPoint(row["sample"], int(row["rank"]), int(row["reads"]), share)


def _number(text: str) -> float | None:
    """Number of a cell; a mean of nothing is empty, `.`, `NA` or `nan`."""
    return None if text.strip().lower() in ("", ".", "na", "nan", "none") else float(text)
