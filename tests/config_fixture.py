"""A folder with input files and both sheets, for tests of the config and the sheets."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from umimill.config import load_config
from umimill.errors import ConfigError, UmimillError

ROOT = Path(__file__).parents[1]
RULE = "use letters, digits, _ and -, single dots inside, first a letter or digit"
UNITS = "library unit read1 read2\nL1 u1 a1.fq a2.fq\nL1 u2 b1.fq b2.fq\nL2 u1 c1.fq\n"
SAMPLES = "library sample layout layout_read2\nL1 S1 ACGTNNN .\nL1 S2 TTGTNNN\nL2 S3 0:12\n"


@pytest.fixture(autouse=True)
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a working directory with empty input files."""
    monkeypatch.chdir(tmp_path)
    os.mkdir("config")
    for letter in "abcd":
        for mate in "12":
            Path(f"{letter}{mate}.fq").touch()


def write(units: str = UNITS, samples: str = SAMPLES) -> None:
    """Write both sheets; a blank stands for a tab, -- for an empty cell."""
    for name, text in (("units", units), ("samples", samples)):
        lines = [
            "\t".join(cell.replace("--", "") for cell in line.split(" "))
            for line in text.split("\n")
        ]
        Path(f"config/{name}.tsv").write_text("\n".join(lines), encoding="utf-8")


def problems(config: Mapping[str, Any] | None = None, **options: Any) -> list[str]:
    try:
        load_config(config or {}, **options)
    except ConfigError as error:
        return list(error.problems)
    return []


def refuse_j(layout: str) -> None:
    """Stand in for the parser of layouts."""
    if "J" in layout:
        raise UmimillError(f"layout {layout}: J is not a symbol;\nuse N or X")
