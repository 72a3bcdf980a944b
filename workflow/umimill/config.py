"""The config and both sheets as frozen values, checked in full before any job.

Imported wherever the workflow is read, so light: no numeric or table library.
"""

import math
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from umimill import sheet_checks
from umimill.errors import ConfigError
from umimill.formats import HEAD_BYTES, PLAIN, format_of
from umimill.sheets import Table, clean, nearest, read_table, show

_SCHEMAS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "schemas")
_FLOORS = {"rt": 1e-4, "medium": 1e-5, "high": 1e-6}
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
# FASTQ shrinks three- to fivefold in gzip.
_PACKED_FACTOR = 4
_BUCKET_BYTES = 2 << 30
_MAX_AUTO_BUCKETS = 1024
_LARGE_BYTES = 1 << 30
# Of a file that is not read to its end: a read of 400 bases.
_RECORD_BYTES = 1024
# Small libraries of one job: it starts in about two seconds and works for ten.
_JOB_BYTES = 512 << 20


@dataclass(frozen=True)
class Unit:
    """A lane or file set of a library; `row` is its row in the sheet, 1 = first data row."""

    library: str
    unit: str
    read1: str
    read2: str | None
    row: int


@dataclass(frozen=True)
class LayoutRow:
    """A barcode of a sample; `row` as for units, `metadata` the further columns by name."""

    sample: str
    layout: str
    layout_read2: str | None
    row: int
    metadata: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Library:
    """Units by id, sample ids bytewise, barcode rows in sheet order, list of cell barcodes."""

    name: str
    units: tuple[Unit, ...]
    samples: tuple[str, ...]
    rows: tuple[LayoutRow, ...]
    cell_list: str | None = None

    @property
    def paired(self) -> bool:
        """Whether templates are pairs of reads."""
        return self.units[0].read2 is not None


@dataclass(frozen=True)
class Config:
    """What a run does; libraries in the order of units.tsv, `floor` an error rate."""

    libraries: tuple[Library, ...]
    buckets: Literal["auto"] | int
    parts: int
    libraries_per_job: Literal["auto"] | int
    limit_reads: int
    min_reads: int
    min_umi_quality: int
    placement: str
    refine_method: str
    min_posterior: float
    floor: float
    unmatched: bool
    suspects: bool
    lineage: bool
    keep_intermediates: bool


def load_config(
    config: Mapping[str, Any],
    *,
    check_layout: Callable[[str], object] | None = None,
    check_row: Callable[[str, str | None], object] | None = None,
) -> Config:
    """Check the config and read its sheets.

    Args:
        config: keys as Snakemake gives them; a text stands for a number, truth value or list.
            Paths in it and in the sheets start at the working directory.
        check_layout: called with each layout of samples.tsv; raises UmimillError on a bad one.
            None = layouts are not looked into.
        check_row: called with `layout` and `layout_read2` of each row that `check_layout` passed.

    Returns:
        The checked config, with defaults for the keys not given.

    Raises:
        ConfigError: with all problems of the config and both sheets.
    """
    values, problems = _read_keys(config)
    units, units_problems = _read_sheet(values.get("units"), "units")
    samples, samples_problems = _read_sheet(values.get("samples"), "samples")
    if units is not None:
        found = [*units.findings, *sheet_checks.check_units(units)]
        if samples is not None:
            found += sheet_checks.check_units_against(units, samples)
        units_problems += units.problems(found)
    if samples is not None:
        found = [*samples.findings, *sheet_checks.check_samples(samples, check_layout, check_row)]
        if units is not None:
            found += sheet_checks.check_samples_against(samples, units)
        samples_problems += samples.problems(found)
    problems += units_problems + samples_problems
    if problems or units is None or samples is None:
        raise ConfigError(problems)
    floor = values["floor"]
    return Config(
        libraries=_build_libraries(units, samples),
        buckets=values["buckets"],
        parts=values["parts"],
        libraries_per_job=values["libraries_per_job"],
        limit_reads=values["limit_reads"],
        min_reads=values["min_reads"],
        min_umi_quality=values["min_umi_quality"],
        placement=values["placement"],
        refine_method=values["refine_method"],
        min_posterior=float(values["min_posterior"]),
        floor=_FLOORS[floor] if isinstance(floor, str) else float(floor),
        unmatched="unmatched" in values["outputs"],
        suspects="suspects" in values["outputs"],
        lineage="lineage" in values["outputs"],
        keep_intermediates=values["keep_intermediates"],
    )


def bucket_count(config: Config, library: Library) -> int:
    """Give the number of buckets of a library.

    Args:
        config: `buckets` is the number, or "auto" for one bucket per 2 GiB of FASTQ, gzip
            counted fourfold, rounded up to a power of two from 1 to 1,024.
        library: its files are measured for "auto"; one that is not there counts nothing.

    Returns:
        A number of 1 or more, the same for every machine and number of cores.
    """
    if config.buckets != "auto":
        return config.buckets
    wanted = -(-_library_bytes(config, library) // _BUCKET_BYTES)
    return min(1 << max(wanted - 1, 0).bit_length(), _MAX_AUTO_BUCKETS)


def is_large(config: Config) -> bool:
    """Return whether a run reads a GiB or more, packed files counted fourfold."""
    return sum(_library_bytes(config, library) for library in config.libraries) >= _LARGE_BYTES


def small_runs(config: Config, apart: Collection[str] = ()) -> list[tuple[Library, ...]]:
    """Cut the small libraries, of one bucket and one part a unit, into runs: one job each.

    Args:
        config: `libraries_per_job` is how many a run has, 0 for no runs at all, or "auto" for a new
            run behind every 512 MiB of FASTQ, packed files counted fourfold.
        apart: libraries that are in no run.

    Returns:
        Runs in the order of the libraries, which are in that of their names in a run: the same for
        every machine and number of cores.
    """
    if not config.libraries_per_job or config.parts > 1:
        return []
    runs: list[list[Library]] = []
    room = 0
    for library in config.libraries:
        if library.name in apart or bucket_count(config, library) > 1:
            continue
        if room <= 0:
            runs.append([])
            room = _JOB_BYTES if config.libraries_per_job == "auto" else config.libraries_per_job
        runs[-1].append(library)
        room -= _library_bytes(config, library) if config.libraries_per_job == "auto" else 1
    return [tuple(sorted(run, key=lambda library: library.name)) for run in runs]


def _library_bytes(config: Config, library: Library) -> int:
    paths = [path for unit in library.units for path in (unit.read1, unit.read2) if path]
    most = config.limit_reads * _RECORD_BYTES
    return sum(min(_plain_bytes(path), most or _plain_bytes(path)) for path in paths)


def _plain_bytes(path: str) -> int:
    try:
        with open(path, "rb") as file:
            packed = format_of(file.read(HEAD_BYTES)) != PLAIN
            return os.fstat(file.fileno()).st_size * (_PACKED_FACTOR if packed else 1)
    except OSError:
        return 0


def _load_schema(name: str) -> dict[str, Any]:
    with open(os.path.join(_SCHEMAS, f"{name}.schema.yaml"), encoding="utf-8") as file:
        schema: dict[str, Any] = yaml.safe_load(file)
    return schema


def _read_keys(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Give the legal values by key, defaults included, and a line for each illegal one."""
    # Imported here: 0.1 s that a job which only imports this module need not pay.
    from jsonschema import Draft202012Validator

    schema = _load_schema("config")
    keys = schema["properties"]
    values = {key: rule["default"] for key, rule in keys.items()}
    problems = []
    for given, value in config.items():
        key = str(given)
        if key not in keys:
            near = nearest(key, list(keys))
            remedy = f"did you mean {near}?" if near else f"the keys are {', '.join(keys)}"
            problems.append(f"config, key {clean(key)}: not known; {remedy}")
            continue
        values[key] = _convert(value, keys[key])
        error = next(Draft202012Validator(keys[key]).iter_errors(values[key]), None)
        if error is not None:
            del values[key]
            wrong = "is empty" if error.instance in (None, "") else "is not allowed"
            shown = "" if error.instance in (None, "") else f"{show(error.instance)} "
            problems.append(f"config, key {key}: {shown}{wrong}; give {_describe(keys[key])}")
    return values, problems


def _convert(value: Any, rule: Mapping[str, Any]) -> Any:
    """Turn what YAML or --config left as text into the type that the schema asks for."""
    kinds = {option.get("type") for option in rule.get("anyOf", [rule])}
    if kinds == {"string"}:
        return value.strip() if isinstance(value, str) else value
    if isinstance(value, float):
        # No comparison refuses "not a number"; as a text it is refused by its type.
        return int(value) if value.is_integer() else value if math.isfinite(value) else str(value)
    if "array" in kinds and (value is None or isinstance(value, str)):
        return [item.strip().lower() for item in (value or "").split(",") if item.strip()]
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    if "boolean" in kinds and text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    # YAML reads 1e-5 as a text: its numbers need a dot.
    if "number" in kinds:
        try:
            return float(text) if math.isfinite(float(text)) else text
        except ValueError:
            return text
    return text


def _describe(rule: Mapping[str, Any]) -> str:
    """Say in words what a key's schema allows."""
    if "anyOf" in rule:
        return " or ".join(_describe(option) for option in rule["anyOf"])
    if "const" in rule:
        return str(rule["const"])
    if "enum" in rule:
        return ", ".join(rule["enum"])
    if rule["type"] == "array":
        return f"a list of these: {_describe(rule['items'])}"
    if rule["type"] == "boolean":
        return "true or false"
    if rule["type"] == "string":
        return "a path"
    noun = "a whole number" if rule["type"] == "integer" else "a number"
    if "exclusiveMaximum" in rule:
        return f"{noun} from {rule['minimum']:,} to below {rule['exclusiveMaximum']:,}"
    return f"{noun} from {rule['minimum']:,} to {rule['maximum']:,}"


def _read_sheet(path: str | None, name: str) -> tuple[Table | None, list[str]]:
    if path is None:
        return None, []
    try:
        return read_table(path, _load_schema(name)), []
    except ConfigError as error:
        return None, list(error.problems)


def _tidy(path: str) -> str:
    # Snakemake warns of every path that starts with "./" or holds "//".
    return re.sub(r"^(\./)+", "", re.sub(r"/+", "/", path))


def _build_libraries(units: Table, samples: Table) -> tuple[Library, ...]:
    known = set(_load_schema("samples")["properties"])
    libraries = []
    for name in dict.fromkeys(row.cells["library"] for row in units.rows):
        members = [
            Unit(
                library=name,
                unit=cells["unit"],
                read1=_tidy(cells["read1"]),
                read2=_tidy(cells["read2"]) or None,
                row=row.number,
            )
            for row in units.rows
            if (cells := row.cells)["library"] == name
        ]
        rows = tuple(
            LayoutRow(
                sample=cells["sample"],
                layout=cells["layout"],
                layout_read2=cells["layout_read2"] or None,
                row=row.number,
                metadata=tuple((key, text) for key, text in cells.items() if key not in known),
            )
            for row in samples.rows
            if (cells := row.cells)["library"] == name
        )
        lists = [row.cells["cell_list"] for row in samples.rows if row.cells["library"] == name]
        libraries.append(
            Library(
                name=name,
                units=tuple(sorted(members, key=lambda unit: unit.unit)),
                samples=tuple(sorted({row.sample for row in rows})),
                rows=rows,
                cell_list=_tidy(lists[0]) or None,
            )
        )
    return tuple(libraries)
