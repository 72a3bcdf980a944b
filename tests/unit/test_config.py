"""What a user may write into the config, and what is said to every mistake in it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from config_fixture import ROOT, RULE, problems, refuse_j, run_folder, write
from umimill.config import (
    Config,
    LayoutRow,
    Library,
    Unit,
    bucket_count,
    load_config,
    small_runs,
)
from umimill.layout import check_row, parse_layout

__all__ = ["run_folder"]


def load(config: Mapping[str, Any] | None = None) -> Config:
    return load_config(config or {})


def test_sheets_become_libraries() -> None:
    write(
        "library unit read1 read2\nL2 z ./c1.fq\nL1 u2 b1.fq .//b2.fq\nL1 u10 a1.fq a2.fq\n",
        "library sample layout donor layout_read2 day\n"
        "L1 S2 TTGTNNN D1 NN 3\nL1 S1 ACGTNNN D2 -- 4\nL2 S.b 0:12 D3\nL1 S2 GGGGNNN -- NN\n",
    )
    assert load() == Config(
        libraries=(
            Library(
                name="L2",
                units=(Unit("L2", "z", "c1.fq", None, 1),),
                samples=("S.b",),
                rows=(LayoutRow("S.b", "0:12", None, 3, (("donor", "D3"), ("day", ""))),),
            ),
            Library(
                name="L1",
                units=(
                    Unit("L1", "u10", "a1.fq", "a2.fq", 3),
                    Unit("L1", "u2", "b1.fq", "b2.fq", 2),
                ),
                samples=("S1", "S2"),
                rows=(
                    LayoutRow("S2", "TTGTNNN", "NN", 1, (("donor", "D1"), ("day", "3"))),
                    LayoutRow("S1", "ACGTNNN", None, 2, (("donor", "D2"), ("day", "4"))),
                    LayoutRow("S2", "GGGGNNN", "NN", 4, (("donor", ""), ("day", ""))),
                ),
            ),
        ),
        buckets="auto",
        parts=1,
        libraries_per_job="auto",
        limit_reads=0,
        min_reads=1,
        min_umi_quality=0,
        placement="auto",
        refine_method="posterior",
        min_posterior=0.5,
        floor=1e-4,
        unmatched=False,
        suspects=False,
        lineage=False,
        keep_intermediates=True,
    )
    assert [library.paired for library in load().libraries] == [False, True]


@pytest.mark.parametrize(
    ("key", "given", "field", "value"),
    [
        ("buckets", "64", "buckets", 64),
        ("buckets", 64.0, "buckets", 64),
        ("buckets", 4096, "buckets", 4096),
        ("buckets", " AUTO ", "buckets", "auto"),
        ("parts", "256", "parts", 256),
        ("libraries_per_job", "Auto", "libraries_per_job", "auto"),
        ("libraries_per_job", "0", "libraries_per_job", 0),
        ("libraries_per_job", 10_000, "libraries_per_job", 10_000),
        ("limit_reads", "200000", "limit_reads", 200_000),
        ("min_reads", "2", "min_reads", 2),
        ("min_umi_quality", 93, "min_umi_quality", 93),
        ("placement", "tile", "placement", "tile"),
        ("refine_method", "unique", "refine_method", "unique"),
        ("refine_method", " Posterior ", "refine_method", "posterior"),
        ("min_posterior", "0.99", "min_posterior", 0.99),
        ("min_posterior", 0.5, "min_posterior", 0.5),
        ("floor", "rt", "floor", 1e-4),
        ("floor", "Medium", "floor", 1e-5),
        ("floor", "high", "floor", 1e-6),
        ("floor", "3e-5", "floor", 3e-5),
        ("floor", 0.1, "floor", 0.1),
        ("floor", 1e-9, "floor", 1e-9),
        ("outputs", [], "unmatched", False),
        ("outputs", None, "unmatched", False),
        ("outputs", "", "unmatched", False),
        ("outputs", "unmatched", "unmatched", True),
        ("outputs", "Unmatched, unmatched", "unmatched", True),
        ("outputs", "unmatched, ,", "unmatched", True),
        ("outputs", ["unmatched"], "unmatched", True),
        ("outputs", ["unmatched"], "suspects", False),
        ("outputs", "suspects", "suspects", True),
        ("outputs", "suspects", "unmatched", False),
        ("outputs", "unmatched,Suspects", "suspects", True),
        ("outputs", "lineage", "lineage", True),
        ("outputs", "unmatched", "lineage", False),
        ("keep_intermediates", False, "keep_intermediates", False),
        ("keep_intermediates", "FALSE", "keep_intermediates", False),
        ("keep_intermediates", "true", "keep_intermediates", True),
    ],
)
def test_values_are_understood(key: str, given: Any, field: str, value: Any) -> None:
    write()
    read = getattr(load({key: given}), field)
    assert (read, type(read)) == (value, type(value))


BUCKETS = "give auto or a whole number from 1 to 4,096"
FLOOR = "give rt, medium, high or a number from 1e-09 to 0.1"
PARTS = "give a whole number from 1 to 256"
METHODS = "give posterior, unique, directional, adjacency, cluster, percentile"
POSTERIOR = "give a number from 0.5 to below 1"
OUTPUTS = "give a list of these: unmatched, suspects, lineage"


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"buckets": 0}, f"config, key buckets: '0' is not allowed; {BUCKETS}"),
        ({"buckets": 4097}, f"config, key buckets: '4097' is not allowed; {BUCKETS}"),
        ({"buckets": True}, f"config, key buckets: 'True' is not allowed; {BUCKETS}"),
        ({"buckets": "true"}, f"config, key buckets: 'true' is not allowed; {BUCKETS}"),
        ({"buckets": "many"}, f"config, key buckets: 'many' is not allowed; {BUCKETS}"),
        ({"buckets": [4]}, f"config, key buckets: '[4]' is not allowed; {BUCKETS}"),
        ({"buckets": None}, f"config, key buckets: is empty; {BUCKETS}"),
        (
            {"buckets": "9" * 5000},
            f"config, key buckets: '{'9' * 77}...' is not allowed; {BUCKETS}",
        ),
        ({"parts": "two"}, f"config, key parts: 'two' is not allowed; {PARTS}"),
        ({"parts": 1.5}, f"config, key parts: '1.5' is not allowed; {PARTS}"),
        ({"parts": "1.5"}, f"config, key parts: '1.5' is not allowed; {PARTS}"),
        ({"parts": "1e1"}, f"config, key parts: '1e1' is not allowed; {PARTS}"),
        ({"parts": -1}, f"config, key parts: '-1' is not allowed; {PARTS}"),
        ({"parts": 257}, f"config, key parts: '257' is not allowed; {PARTS}"),
        (
            {"min_reads": 0},
            "config, key min_reads: '0' is not allowed; "
            "give a whole number from 1 to 1,000,000,000",
        ),
        (
            {"min_umi_quality": 94},
            "config, key min_umi_quality: '94' is not allowed; give a whole number from 0 to 93",
        ),
        (
            {"placement": "offset"},
            "config, key placement: 'offset' is not allowed; give auto, fixed, tile",
        ),
        (
            {"refine_method": "directed"},
            f"config, key refine_method: 'directed' is not allowed; {METHODS}",
        ),
        ({"refine_method": None}, f"config, key refine_method: is empty; {METHODS}"),
        ({"min_posterior": 0.49}, f"config, key min_posterior: '0.49' is not allowed; {POSTERIOR}"),
        ({"min_posterior": "1"}, f"config, key min_posterior: '1' is not allowed; {POSTERIOR}"),
        ({"min_posterior": 95}, f"config, key min_posterior: '95' is not allowed; {POSTERIOR}"),
        ({"min_posterior": "nan"}, f"config, key min_posterior: 'nan' is not allowed; {POSTERIOR}"),
        (
            {"min_posterior": "high"},
            f"config, key min_posterior: 'high' is not allowed; {POSTERIOR}",
        ),
        ({"floor": 0}, f"config, key floor: '0' is not allowed; {FLOOR}"),
        ({"floor": "0.2"}, f"config, key floor: '0.2' is not allowed; {FLOOR}"),
        ({"floor": "low"}, f"config, key floor: 'low' is not allowed; {FLOOR}"),
        ({"floor": float("nan")}, f"config, key floor: 'nan' is not allowed; {FLOOR}"),
        ({"floor": "nan"}, f"config, key floor: 'nan' is not allowed; {FLOOR}"),
        ({"floor": float("-inf")}, f"config, key floor: '-inf' is not allowed; {FLOOR}"),
        (
            {"outputs": "unmatched,reads"},
            f"config, key outputs: 'reads' is not allowed; {OUTPUTS}",
        ),
        (
            {"outputs": 3},
            f"config, key outputs: '3' is not allowed; {OUTPUTS}",
        ),
        (
            {"keep_intermediates": "yes"},
            "config, key keep_intermediates: 'yes' is not allowed; give true or false",
        ),
        ({"units": ""}, "config, key units: is empty; give a path"),
        ({"units": 3}, "config, key units: '3' is not allowed; give a path"),
        ({"bucket": 3}, "config, key bucket: not known; did you mean buckets?"),
        ({"Min-Reads": 3}, "config, key Min-Reads: not known; did you mean min_reads?"),
        (
            {7: 3},
            "config, key 7: not known; the keys are units, samples, buckets, parts, "
            "libraries_per_job, limit_reads, min_reads, min_umi_quality, placement, "
            "refine_method, min_posterior, floor, outputs, keep_intermediates",
        ),
        (
            {"units": "no.tsv"},
            "no.tsv: does not exist; give a sheet, or set its key in the config",
        ),
    ],
)
def test_faults_of_the_config(config: Any, line: str) -> None:
    write()
    assert problems(config) == [line]


def test_all_problems_come_at_once_in_order() -> None:
    write(
        "library unit read1 read2\nL1 u1 a1.fq a2.fq\nL1 u/2 b1.fq\nL9 u1 no.fq\n",
        "library sample layout layout_read2\nL1 S1 AJ JC\nL1 S2 AJ JC\nL2 -- 0:12\n",
    )
    assert problems({"bucket": 3, "parts": 0}, check_layout=refuse_j) == [
        "config, key bucket: not known; did you mean buckets?",
        "config, key parts: '0' is not allowed; give a whole number from 1 to 256",
        f"config/units.tsv, row 2: unit 'u/2' is not a legal id; {RULE}",
        "config/units.tsv, row 2: read2 is missing while row 1 of library L1 has it; "
        "give it or split the library",
        "config/units.tsv, row 3: read1 'no.fq' does not exist; "
        "check the path, it starts at the working directory",
        "config/units.tsv, row 3: library L9 has no row in config/samples.tsv; "
        "add its samples there or remove its units",
        "config/samples.tsv, rows 1-2: layout: AJ: J is not a symbol; use N or X",
        "config/samples.tsv, rows 1-2: layout_read2: JC: J is not a symbol; use N or X",
        "config/samples.tsv, row 2: two samples with one tag: S2 has the layout of S1 in row 1; "
        "give each its own",
        "config/samples.tsv, row 3: sample is empty; give it in every row",
        "config/samples.tsv, row 3: library L2 has no row in config/units.tsv; "
        "add its units there or remove its samples",
    ]


def test_both_sheets_broken_are_both_named() -> None:
    Path("config/units.tsv").write_bytes(b"")
    Path("config/samples.tsv").write_bytes(b"library,sample,pattern\r\nL1,S1,N\r\n")
    assert problems({"floor": None}) == [
        f"config, key floor: is empty; {FLOOR}",
        "config/units.tsv: the sheet is empty; give it a header and rows",
        "config/samples.tsv: column is missing: layout; "
        "found: 'library', 'sample', 'pattern'; add it",
    ]


def test_a_broken_sheet_does_not_hide_the_other() -> None:
    write(units="library unit read1\nL1 u1 no.fq\n")
    Path("config/samples.tsv").unlink()
    assert problems() == [
        "config/units.tsv, row 1: read1 'no.fq' does not exist; "
        "check the path, it starts at the working directory",
        "config/samples.tsv: does not exist; give a sheet, or set its key in the config",
    ]


def test_sheets_of_a_spreadsheet_program() -> None:
    Path("Größe µ.fq").touch()
    Path("config/units.tsv").write_bytes(
        b"\xff\xfe" + '"Library";Unit;READ1;\r\nL1;u1;"Größe µ.fq";\r\n;;;\r\n'.encode("utf-16-le")
    )
    Path("config/samples.tsv").write_bytes(
        b"\xef\xbb\xbfLibrary,Sample,Layout,Dose\r\n"
        b'"L1",\xc2\xa0S1 ,"0:4,5:10",5 \xc2\xb5g\r\n,,,\r\n'
    )
    (library,) = load().libraries
    assert library.units == (Unit("L1", "u1", "Größe µ.fq", None, 1),)
    assert library.rows == (LayoutRow("S1", "0:4,5:10", None, 1, (("Dose", "5 µg"),)),)


def test_paths_of_the_sheets_come_from_the_config() -> None:
    write()
    os.rename("config", "My sheets")
    assert load({"units": "My sheets/units.tsv", "samples": " My sheets/samples.tsv "}).parts == 1


GIB = 1 << 30


@pytest.mark.parametrize(
    ("buckets", "sizes", "packed", "count"),
    [
        (7, [1], False, 7),
        ("auto", [0], False, 1),
        ("auto", [2 * GIB], False, 1),
        ("auto", [2 * GIB + 1], False, 2),
        ("auto", [GIB, GIB, 1], False, 2),
        ("auto", [2 * GIB] * 2 + [1], False, 4),
        ("auto", [GIB // 2], True, 1),
        ("auto", [GIB // 2 + 1], True, 2),
        ("auto", [300 * GIB], False, 256),
        ("auto", [300 * GIB], True, 1024),
        ("auto", [3000 * GIB], True, 1024),
    ],
)
def test_bucket_count(buckets: Any, sizes: list[int], packed: bool, count: int) -> None:
    units = []
    for number, size in enumerate(sizes):
        path = f"{number}.fq"
        # A sparse file: as long as asked, and nothing on the disk.
        with open(path, "wb") as file:
            file.write(b"\x1f\x8b"[: size if packed else 0])
            file.truncate(size)
        units.append(Unit("L1", f"u{number}", path, None, number + 1))
    write()
    library = Library("L1", tuple(units), ("S1",), ())
    assert bucket_count(load({"buckets": buckets}), library) == count


def test_bucket_count_adds_mates_and_skips_what_is_not_there() -> None:
    for name in ("a1.fq", "a2.fq"):
        os.truncate(name, GIB + 1)
    write()
    mates = Library("L1", (Unit("L1", "u1", "a1.fq", "a2.fq", 1),), ("S1",), ())
    gone = Library("L1", (Unit("L1", "u1", "gone.fq", "config", 1),), ("S1",), ())
    assert bucket_count(load(), mates) == 2
    assert bucket_count(load(), gone) == 1


@pytest.mark.parametrize("name", ["config", "units", "samples"])
def test_schemas_are_sound_and_say_what_each_key_means(name: str) -> None:
    schema = yaml.safe_load((ROOT / f"workflow/schemas/{name}.schema.yaml").read_text())
    Draft202012Validator.check_schema(schema)
    assert all(rule["description"].strip() for rule in schema["properties"].values())
    assert (schema["additionalProperties"] is False) == (name != "samples")


MIB = 1 << 20


@pytest.mark.parametrize(
    ("config", "sizes", "found"),
    [
        ({}, [1, 1, 1], ["012"]),
        ({}, [512 * MIB - 1, 1, 1], ["01", "2"]),
        ({}, [512 * MIB + 1, 1, 1], ["0", "12"]),
        ({}, [0, 2 * GIB, 2 * GIB + 1, 0], ["01", "3"]),
        ({"libraries_per_job": 2}, [1, 600 * MIB, 1], ["01", "2"]),
        ({"libraries_per_job": 1}, [0, 0], ["0", "1"]),
        ({"libraries_per_job": 0}, [1, 1], []),
        ({"parts": 2}, [1, 1], []),
        ({"buckets": 2}, [1, 1], []),
        ({"buckets": 1}, [3 * GIB, 1], ["0", "1"]),
        # A record is taken for 1 kB.
        ({"limit_reads": 300 * 1024}, [3 * GIB, 3 * GIB, 1], ["01", "2"]),
    ],
)
def test_small_runs(config: Mapping[str, Any], sizes: list[int], found: list[str]) -> None:
    rows = []
    for number, size in enumerate(sizes):
        with open(f"{number}.fq", "wb") as file:
            file.truncate(size)
        rows.append(f"L{number} u1 {number}.fq\n")
    samples = (f"L{number} S{number} NNN\n" for number in range(len(sizes)))
    write("library unit read1\n" + "".join(rows), "library sample layout\n" + "".join(samples))
    runs = small_runs(load(config))
    assert ["".join(library.name[1:] for library in run) for run in runs] == found


def test_small_runs_leave_out_what_is_to_stand_apart() -> None:
    write()
    (run,) = small_runs(load(), ["L1"])
    assert [library.name for library in run] == ["L2"]


def test_the_shipped_config_gives_each_key_its_default() -> None:
    schema = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text())
    text = (ROOT / "config/config.yaml").read_text()
    shipped = yaml.safe_load(text)
    assert shipped == {key: rule["default"] for key, rule in schema["properties"].items()}
    # Each key has a comment right above it.
    lines = text.splitlines()
    for key in shipped:
        number = next(n for n, line in enumerate(lines) if line.startswith(f"{key}:"))
        assert lines[number - 1].startswith("# "), key


@pytest.mark.parametrize("name", ["config", "units", "samples"])
def test_the_manual_says_what_the_schema_says(name: str) -> None:
    manual = (ROOT / "config/README.md").read_text(encoding="utf-8").splitlines()
    schema = yaml.safe_load((ROOT / f"workflow/schemas/{name}.schema.yaml").read_text())
    for key, rule in schema["properties"].items():
        default = f" `{yaml.safe_dump(rule['default']).split()[0]}` |" if name == "config" else ""
        description = " ".join(rule["description"].split())
        assert f"| `{key}` |{default} {description} |" in manual


def test_the_examples_of_the_manual() -> None:
    manual = (ROOT / "config/README.md").read_text(encoding="utf-8")
    blocks = manual.split("```\n")
    (units,) = [block for block in blocks if block.startswith("library\tunit")]
    samples, listed = [block for block in blocks if block.startswith("library\tsample")]
    Path("config/units.tsv").write_text(units)
    Path("config/samples.tsv").write_text(samples)
    os.mkdir("data")
    for cell in units.split():
        if cell.startswith("data/"):
            Path(cell).touch()
    assert problems(check_layout=parse_layout, check_row=check_row) == []

    library, _, _, path = listed.split("\n")[1].split("\t")
    write(f"library unit read1\n{library} u1 a.fq\n", "")
    Path("config/samples.tsv").write_text(listed)
    Path("a.fq").touch()
    Path(path).parent.mkdir()
    Path(path).touch()
    assert problems(check_layout=parse_layout, check_row=check_row) == []

    write(
        "library unit read1 read2\nL1 u1 a1.fq a2.fq\nL1 u2 b1.fq b2.fq\n"
        "L1 u3 c1.fq\nL2 u4 d1.fq\n",
        "library sample layout layout_read2\nL2 S1 ANN NN\nL2 S2 CNN NN\nL1 S3 NN\n",
    )
    said = problems({"bucket": 4})
    assert len(said) == 3
    assert "\n".join(["```", *said, "```"]) in manual


def test_importing_stays_light() -> None:
    script = (
        "import sys, umimill.config, umimill.errors\n"
        "print(sorted({'jsonschema', 'numpy', 'pandas', 'numba', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(ROOT / "workflow")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
