"""Data outputs have the same bytes however a library is run.

The product of knobs runs on small libraries with the sizes of groups, cells and row groups scaled
down, so that 64 buckets have something in them; a few runs keep the real sizes. What shows that
these comparisons can fail is in test_sameness_guards.py.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import cell_fixture
import sameness_fixture
from pipeline import Knobs, Library, Run, run_pipeline
from sameness_fixture import (
    BLOCK,
    CLEAN,
    HOT_READS,
    Base,
    Watch,
    covering,
    rows_from_elsewhere,
)
from umimill import cells, gather, place, tables
from umimill.blockfile import BlockWriter

# Fixtures.
bases = sameness_fixture.bases
folder = sameness_fixture.folder
large = sameness_fixture.large
scaled = sameness_fixture.scaled
watch = sameness_fixture.watch


def row_groups(run: Run) -> int:
    """Return the row groups of the table that has most."""
    names = [name for name in run.outputs if name.endswith(".parquet")]
    return max(pq.ParquetFile(run.outputs[name]).num_row_groups for name in names)


@pytest.mark.parametrize("kind", ["single", "paired"])
def test_base_run_has_what_the_product_needs(kind: str, bases: Callable[[str], Base]) -> None:
    base = bases(kind)
    run, water = base.run, "samples/water/water"
    per_sample = len(run.library.samples) * (6 if kind == "paired" else 5)
    # Unmatched reads, tables of the library, lineage.
    assert len(run.outputs) == per_sample + (2 if kind == "paired" else 1) + 10 + 1
    deepest = {
        sample: max((row["reads"] for row in run.molecules(sample)), default=0)
        for sample in run.library.samples
    }
    assert deepest["hot"] > HOT_READS * 0.8 > 1000
    assert deepest["water"] == 0
    assert run.line("assigned", "water") == 0
    assert run.molecules("water") == []
    ledger = run.outputs[f"{water}.ledger.tsv"].read_text().splitlines()
    assert "checkout\tL1\twater\tassigned\t0" in ledger
    assert all(run.line("assigned", sample) > 3000 for sample in ("hot", "b.1", "A"))
    assert run.line("unmatched") > 100
    for status in ("chimera_suspect", "shifted"):
        assert any(run.line(status, sample, "assemble") for sample in run.library.samples), status
    assert run.records("water") == []
    units = json.loads((run.folder / "results/metrics/L1/provenance.json").read_text())["units"]
    levels = [len(unit["quality_levels"]) for unit in units]
    assert (levels[0], levels[2]) == (4, 4)
    assert levels[1] > 10


FACTORS: dict[str, tuple[Any, ...]] = {
    "kind": ("single", "paired"),
    "buckets": (1, 3, 16, 64),
    "parts": (1, 2, 5),
    "threads": (1, 2),
    # Three to twenty flushes a unit, of other sizes in every cell.
    "staging_bytes": (300_000, 900_000),
    "tally_bytes": (1, None),
    "table_bytes": (1, None),
    "block_bytes": (1, 5000, None),
    "batch_bytes": (1, None),
    "span_records": (1, 3000, None),
    "shelf_bytes": (1, None),
}
CELLS = covering(FACTORS)


def test_each_two_knobs_meet() -> None:
    for first, second in itertools.combinations(FACTORS, 2):
        met = {(cell[first], cell[second]) for cell in CELLS}
        assert met == set(itertools.product(FACTORS[first], FACTORS[second]))


@pytest.mark.parametrize("cell", CELLS, ids=["-".join(map(str, cell.values())) for cell in CELLS])
def test_same_bytes(
    cell: dict[str, Any], bases: Callable[[str], Base], scaled: Watch, folder: Path
) -> None:
    base = bases(cell["kind"])
    knobs = Knobs(
        **{name: value for name, value in cell.items() if name != "kind"}, record_block=BLOCK
    )
    knobs = replace(knobs, staging_bytes=cell["staging_bytes"] // knobs.parts)
    scaled.clear()
    run = run_pipeline(base.library, folder, knobs)

    checkouts = run.of("checkout")
    assert len(checkouts) == 3 * knobs.parts
    assert min(job["counters"]["flushes"] for job in checkouts) >= 2
    assert (run.total("tally", "streamed") > 0) == (knobs.tally_bytes == 1)
    # Families are linked to those of other blocks and buckets, and asked of them.
    apart = knobs.buckets > 1 or knobs.block_bytes is not None
    assert (run.total("link", "sibling_pairs") > 50) == apart
    assert run.total("settle", "queries") > 200
    assert run.total("settle", "answers") > 50
    assert (run.total("settle", "umi_spill_bytes") > 0) == (knobs.table_bytes == 1)
    # Rows are moved, into other buckets too.
    moved, placed = (run.total("move", name) for name in ("moved_rows", "placed_rows"))
    assert moved + placed == scaled.from_outboxes
    assert moved > 300
    assert (rows_from_elsewhere(run, knobs.buckets) > 0) == (knobs.buckets > 1)
    # So are rows whose barcode was not fully read.
    assert run.total("settle", "n_placed") > 50
    assert run.total("settle", "shift_placed") > 50
    # A key of several molecules is called as it is read.
    assert (scaled.streamed > 0) == (scaled.several > 0) == (knobs.batch_bytes == 1)
    assert scaled.streamed_pieces >= 2 * scaled.streamed
    assert sum(job["reads"] > 0 for job in run.of("assemble")) >= knobs.buckets * 2 // 3
    # Two cells under way at once, so that one could be written before the other.
    assert max(scaled.cells) >= 2
    assert row_groups(run) >= 3
    assert run.total("lineage", "reads") == run.total("checkout", "reads")
    assert (run.total("lineage", "umi_spill_bytes") > 0) == (knobs.shelf_bytes == 1)
    assert run.hashes() == base.hashes


def test_the_data_alone_decide_whatever_is_asked_of_the_run(
    bases: Callable[[str], Base], scaled: Watch, folder: Path
) -> None:
    # Filters move the books and the records: with them, too, knobs move nothing.
    library = replace(
        bases("paired").library, minimum_reads=3, minimum_umi_quality=12, floor=1e-6,
        minimum_posterior=0.99, suspects=True,
    )  # fmt: skip
    other = replace(CLEAN, buckets=16, parts=2, threads=2, staging_bytes=1, tally_bytes=1,
                    table_bytes=1, block_bytes=1, batch_bytes=1)  # fmt: skip
    first = run_pipeline(library, folder / "first", CLEAN)
    second = run_pipeline(library, folder / "second", other)
    assert first.hashes() == second.hashes()
    assert first.hashes() != bases("paired").hashes
    assert first.line("low_umi_quality", "A") > 0
    assert first.line("below_filter", "A", "assemble") > 0


def test_streamed_reads_that_grow(
    scaled: Watch, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The last of four flushes brings a few reads of the large key that are longer than its sums are
    # wide: they must grow and keep all, those of a barcode that no few reads are sure of, too.
    monkeypatch.setattr(cells, "CELL_READS", 100)
    rng = np.random.default_rng(5)
    letters = np.frombuffer(b"ACGT", np.uint8)
    template = rng.choice(letters, 2100)
    lines = []
    for number in range(1000):
        deep = number % 10 > 0 if number < 700 else number % 60 == 1
        umi = b"ACGTACGT" if deep else rng.choice(letters, 8).tobytes()
        length = (20 + number // 4 if number < 768 else 2 * number) - number % 7
        read = umi + template[:length].tobytes()
        qualities = rng.integers(35, 74, len(read)).astype(np.uint8).tobytes()
        lines.append(b"@r%d\n%s\n+\n%s\n" % (number, read, b"#" * 8 + qualities[8:]))
    reads = folder / "long.fastq"
    reads.write_bytes(b"".join(lines))
    library = Library([("S", "^N{8}", None)], {"L1": (reads,)})
    whole = run_pipeline(library, folder / "whole")
    assert scaled.streamed == 0
    pieces = run_pipeline(library, folder / "pieces", Knobs(staging_bytes=1, batch_bytes=1))
    assert scaled.streamed > 0
    assert max(row["length_1"] for row in whole.molecules("S")) > 1900
    assert pieces.hashes() == whole.hashes()


# -- real sizes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "knobs",
    [
        Knobs(buckets=1, parts=2, threads=2, staging_bytes=1, tally_bytes=1, batch_bytes=1),
        Knobs(buckets=16, threads=2, staging_bytes=1 << 20, table_bytes=1, batch_bytes=1),
        Knobs(buckets=5, parts=2, tally_bytes=1, block_bytes=5000),
    ],
    ids=["one", "many", "few"],
)
def test_same_bytes_at_real_sizes(knobs: Knobs, large: Base, watch: Watch, folder: Path) -> None:
    watch.clear()
    run = run_pipeline(large.library, folder, knobs)
    assert (watch.streamed > 0) == (knobs.batch_bytes == 1)
    assert sum(job["reads"] > 0 for job in run.of("checkout")) >= 1 + 2 * (knobs.parts - 1)
    assert run.hashes() == large.hashes


def test_three_row_groups_of_the_real_size_are_cut_alike(tmp_path: Path) -> None:
    count = 2 * tables.ROW_GROUP_ROWS + 4321
    rng = np.random.default_rng(3)
    rows = np.zeros(count, cells.MOLECULE)
    rows["key"] = np.arange(count, dtype=np.uint64) << np.uint64(64 - 24)
    rows["umi_length"], rows["length_1"], rows["called"] = 12, 90, 90
    rows["reads"], rows["kept"] = rng.integers(1, 50, count), 1
    rows["error_sum"] = rng.integers(0, 1 << 40, count)
    rows["quality_sum_1"] = rng.integers(90 * 2, 90 * 41, count)
    written = []
    for name, cuts in (
        ("whole", []),
        ("halves", [count // 2]),
        ("many", sorted(set(rng.integers(1, count, 40).tolist()))),
    ):
        pieces = []
        for start, stop in itertools.pairwise([0, *cuts, count]):
            path = tmp_path / f"{name}.{start}"
            with BlockWriter(path) as writer:
                writer.add("molecules", rows[start:stop])
                writer.finish({})
            pieces.append([str(path), 0, stop - start])
        path = tmp_path / f"{name}.parquet"
        entry = {"sample": "S1", "molecules": pieces}
        gather.write_molecules(entry, path, paired=False)
        written.append(hashlib.sha256(path.read_bytes()).hexdigest())
    file = pq.ParquetFile(tmp_path / "many.parquet")
    groups = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    assert groups == [1 << 17, 1 << 17, 4321]
    assert len(set(written)) == 1


CELL_KNOBS = (
    Knobs(buckets=3, parts=2, staging_bytes=100_000, record_block=BLOCK),
    Knobs(buckets=16, parts=5, threads=2, staging_bytes=1, tally_bytes=1, record_block=BLOCK),
    Knobs(buckets=1, parts=5, tally_bytes=1, batch_bytes=1, table_bytes=1, record_block=BLOCK),
    Knobs(buckets=16, parts=1, staging_bytes=1, block_bytes=1, record_block=BLOCK),
)


def listed_library(folder: Path) -> Library:
    """Return a library of two samples with a list of cells."""
    tags = ("ACGTAC", "TGCATG")
    cells = cell_fixture.make_cells(folder, reads=5000, tags=tags)
    layout = "X" * cell_fixture.CELL + "N" * cell_fixture.UMI
    rows = [(name, f"^{tag}{layout}", None) for name, tag in zip("BA", tags, strict=True)]
    return Library(rows, cells.units, cell_list=cells.cell_list)


def test_listed_cells_give_the_same_bytes(scaled: Watch, tmp_path: Path) -> None:
    library = listed_library(tmp_path / "reads")
    base = run_pipeline(library, tmp_path / "base", CLEAN)
    assert base.line("off_list", "A", "place") > 30
    for number, knobs in enumerate(CELL_KNOBS):
        run = run_pipeline(library, tmp_path / str(number), knobs)
        assert run.hashes() == base.hashes()
        assert run.ledger() == base.ledger()
        for kind in ("one_base", "unknown_base", "two_bases"):
            name = f"placed_{kind}"
            assert run.total("place", name) == base.total("place", name)
        assert base.total("place", "placed_one_base") > 50
        assert base.total("place", "placed_unknown_base") > 50
        assert base.total("place", "cells_of_their_own") > 0


def test_cells_counted_by_part_would_be_noticed(
    scaled: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = listed_library(tmp_path / "reads")
    placer = place.Placer._listed_reads

    def of_first_part(self: Any, sample: int) -> Any:
        files, self._files = self._files, self._files[:1]
        reads = placer(self, sample)
        self._files = files
        return reads

    monkeypatch.setattr(place.Placer, "_listed_reads", of_first_part)
    knobs = [Knobs(parts=parts, record_block=BLOCK) for parts in (1, 5)]
    runs = [run_pipeline(library, tmp_path / str(number), one) for number, one in enumerate(knobs)]
    assert runs[0].hashes() != runs[1].hashes()
