"""The benchmark of scale, in small, and its page."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from benchmark_run import ROOT, load_benchmark, run_benchmark

LIBRARY = """
[[library]]
name = "{name}"
molecules = [300, 3000]
cell_length = {cell}
umi_length = 12
molecules_a_cell = 100
mean_reads = 2.0
sigma_reads = 0.8
one_molecule = {one}
buckets = [1, 2]
"""


@pytest.fixture(scope="module")
def scale_page() -> ModuleType:
    return load_benchmark("scale_page")


def row(stage: str, molecules: int, **more: float) -> dict[str, str]:
    """A row of a table that grows by 10 us, 100 bytes and nothing else a barcode."""
    values = {
        "reads": 2 * molecules,
        "barcodes": molecules,
        "jobs": 4,
        "cpu_seconds": 2 + molecules / 1e5 / 6,
        "start_seconds": 2,
        "peak_rss_mb": 190,
        "baseline_rss_mb": 106,
        "disk_mb": molecules / 1e4 / 6,
        "umi_memory_mb": 20,
        "umi_spill_mb": 0,
        "umi_read_back_mb": 0,
        "spill_seconds": 0,
        "corrected_barcodes": molecules / 100 if stage == "settle" else 0,
    } | more
    cells = {name: f"{value:.10g}" for name, value in values.items()}
    return {"library": "bulk", "molecules": str(molecules), "stage": stage} | cells


def test_costs_are_drawn_on_along_a_line(scale_page: ModuleType) -> None:
    rows = [row(stage, size) for size in (10**6, 10**7) for stage in scale_page.STAGES]
    sizes = scale_page.sizes_of(rows, "bulk")
    assert [size.barcodes for size in sizes] == [10**6, 10**7]
    text = scale_page.library_tables(sizes)
    lines = text.splitlines()
    time, disk = [line.split("|")[1:-1] for line in lines if line.startswith("| *400 M*")]
    assert [cell.strip() for cell in time[1:4]] == ["*800 M*", "*4 M*", "*667*"]
    assert [cell.strip() for cell in time[-2:]] == ["*4,000*", "*10.0*"]
    assert [cell.strip() for cell in disk[1:]] == [
        "*40,000*", "*0*", "*0*", "*100*", "*190*", "*20.0*", "*0.05*",
    ]  # fmt: skip
    assert "A barcode more costs 10.0 µs, from" in text
    assert "+0 MB" in text


def test_page_is_what_the_script_writes(scale_page: ModuleType, tmp_path: Path) -> None:
    """Of the table in the repository, to the byte."""
    machine, rows = scale_page.read_table(ROOT / "tests" / "benchmark" / "scale.tsv")
    page = (ROOT / "docs" / "scale.md").read_text()
    assert scale_page.page_text(machine, rows) == page


def test_page_keeps_what_it_promises(scale_page: ModuleType) -> None:
    """Nearly linear, and memory within a tenth of the smallest."""
    _, rows = scale_page.read_table(ROOT / "tests" / "benchmark" / "scale.tsv")
    for library in scale_page.TITLES:
        sizes = scale_page.sizes_of(rows, library)
        assert sizes[-1].barcodes > 15 * sizes[0].barcodes > 14e6
        for value in (lambda size: size.all_seconds, lambda size: size.disk_mb):
            first, last = (value(size) / size.barcodes for size in (sizes[0], sizes[-1]))
            # Without cells a larger library has more neighbours by chance.
            assert last < (1.3 if library == "bulk" else 1.1) * first
        assert sizes[-1].peak_rss_mb < 1.1 * sizes[0].peak_rss_mb < scale_page.ALLOWED_MB
    hot = [row for row in rows if row["library"] == "hot"]
    assert max(int(row["reads"]) for row in hot) > 9.9e6
    assert all(float(row["peak_rss_mb"]) < scale_page.ALLOWED_MB for row in hot)


@pytest.mark.slow
def test_commands_of_the_scale(tmp_path: Path) -> None:
    settings, table = tmp_path / "scale.toml", tmp_path / "rows.tsv"
    text = "seed = 1\nerror = 3e-3\npayload = 40\nmem_mb = 300\n"
    for name, cell, one in (("cells", 16, "false"), ("bulk", 0, "false"), ("hot", 0, "true")):
        text += LIBRARY.format(name=name, cell=cell, one=one)
    settings.write_text(text)
    options = ("--warm-up", "0", "--scratch", str(tmp_path))
    run_benchmark("scale", str(settings), str(table), *options, folder=tmp_path)
    lines = [line.split("\t") for line in table.read_text().splitlines()]
    assert len(lines) == 2 + 3 * 2 * 6
    reads = {(line[0], line[1]): int(line[2]) for line in lines[2:]}
    assert reads["hot", "3000"] == 3000
    assert 5500 < reads["bulk", "3000"] < 6500
    corrected = {line[0]: int(line[-1]) for line in lines[2:] if line[4] == "settle"}
    assert min(corrected.values()) > 20
    run_benchmark("scale_page", str(table), str(tmp_path / "docs"), folder=tmp_path)
    assert {path.name for path in (tmp_path / "docs").iterdir()} == {"scale.md", "scale.svg"}
