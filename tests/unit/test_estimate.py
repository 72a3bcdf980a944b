"""What a run is estimated to take, from the heads of its files."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import report_fixture
from report_page import read
from umimill.bgzf import EOF_BLOCK, compress_block
from umimill.estimate import COSTS, HEAD_BYTES, Wanted, estimate, estimate_lines
from umimill.report import report

RECORD = b"@read:%06d\nACGTACGTACGTACGTACGTACGTACGTACGTACGTACGT\n+\n%s\n"
QUALITY = b"FFFFFFFFFFFFFF:FFFFFFF,FFFFFFFFFFFFF#FFF"


class Usage(NamedTuple):
    free: int


def text_of(records: int) -> bytes:
    return b"".join(RECORD % (number, QUALITY) for number in range(records))


def asked(folder: Path, *units: list[Path], limit: int = 0) -> dict[str, Any]:
    wanted = Wanted([[str(path) for path in unit] for unit in units], 10, small=False)
    found = estimate([wanted], limit, folder / "estimate.json")
    assert json.loads((folder / "estimate.json").read_text()) == found
    return found


@pytest.mark.parametrize("records", [0, 1, 100, 50_000])
@pytest.mark.parametrize("kind", ["plain", "gzip", "members", "bgzf"])
def test_templates_and_text_are_counted_or_nearly(tmp_path: Path, records: int, kind: str) -> None:
    text = text_of(records)
    pieces = [text[start : start + 60_000] for start in range(0, len(text), 60_000)]
    data = {
        "plain": text,
        "gzip": gzip.compress(text, 1),
        "members": b"".join(gzip.compress(piece, 1) for piece in pieces),
        "bgzf": b"".join(compress_block(piece) for piece in pieces) + EOF_BLOCK,
    }[kind]
    path = tmp_path / "reads"
    path.write_bytes(data)
    found = asked(tmp_path, [path])
    assert found["templates"] == pytest.approx(records, rel=0.02)
    assert found["plain_bytes"] == pytest.approx(len(text), rel=0.02)
    # Larger than what is looked at, or read to its end.
    if len(data) <= HEAD_BYTES:
        assert found["templates"] == records


def test_of_pairs_the_text_of_both_counts_and_of_a_limit_its_share(tmp_path: Path) -> None:
    paths = [tmp_path / f"R{mate}" for mate in (1, 2)]
    for path in paths:
        path.write_bytes(text_of(2000))
    single, pairs = asked(tmp_path, paths[:1]), asked(tmp_path, paths)
    assert pairs["templates"] == single["templates"] == 2000
    assert pairs["plain_bytes"] == 2 * single["plain_bytes"]
    limited = asked(tmp_path, paths, limit=500)
    assert (limited["templates"], limited["plain_bytes"]) == (500, pairs["plain_bytes"] / 4)
    assert asked(tmp_path, paths, limit=5000) == pairs
    two = asked(tmp_path, paths, paths)
    assert two["plain_bytes"] == 2 * pairs["plain_bytes"]
    assert two["results_bytes"] == pytest.approx(2 * pairs["results_bytes"], abs=1)


def test_damaged_files_are_no_matter_here(tmp_path: Path) -> None:
    whole = gzip.compress(text_of(1000))
    path = tmp_path / "reads"
    path.write_bytes(whole[:40] + b"\xff" * 200 + whole[240:])
    assert asked(tmp_path, [path])["templates"] < 1000


def test_small_libraries_leave_nothing_between_the_stages_but_one(tmp_path: Path) -> None:
    path = tmp_path / "reads"
    path.write_bytes(text_of(1000))
    units = [[str(path)]]
    output = tmp_path / "estimate.json"
    staged = estimate([Wanted(units, 10, small=False)] * 3, 0, output)
    small = estimate([Wanted(units, 1, small=True)] * 3, 0, output)
    assert staged["between_bytes"] == pytest.approx(3 * small["between_bytes"], abs=2)
    assert staged["results_bytes"] == small["results_bytes"]
    assert staged["cpu_seconds"] - small["cpu_seconds"] == pytest.approx(27 * 1.2)


def test_what_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "templates": 20_000_000,
        "plain_bytes": 6_500_000_000,
        "cpu_seconds": 140.0,
        "results_bytes": 400_000_000,
        "between_bytes": 3_400_000_000,
        "stages": {name: {"peak_rss_bytes": cost.peak_rss_bytes} for name, cost in COSTS.items()},
    }
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(3_900_000_000))
    lines = [
        "estimate: about 20,000,000 templates, 6.5 GB of FASTQ text: 2 min 20 s of CPU time, "
        "1 min 10 s or more on 2 cores",
        "estimate: 400 MB of results, 3.4 GB between the stages; no job of more than 360 MB",
    ]
    assert estimate_lines(found, 2, tmp_path) == lines
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(3_700_000_000))
    assert estimate_lines(found, 2, tmp_path) == [
        *lines,
        "estimate: only 3.7 GB are free here: free some, run in a folder on another disk, or set "
        "keep_intermediates to false",
    ]


def test_the_report_has_it_beside_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "reads"
    path.write_bytes(text_of(1000))
    estimate([Wanted([[str(path)]], 10, small=False)], 0, tmp_path / "estimate.json")
    sheet = report_fixture.typical(tmp_path / "metrics")
    arguments = (tmp_path / "metrics", sheet, tmp_path / "a.html", tmp_path / "a.tsv")
    report(*arguments, tmp_path / "estimate.json")
    table = read((tmp_path / "a.html").read_text()).tables["estimated-table"]
    assert [row[0] for row in table[1:]] == list(COSTS)
    report(*arguments)
    assert "estimated-table" not in (tmp_path / "a.html").read_text()
