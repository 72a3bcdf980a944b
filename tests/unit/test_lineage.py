"""lineage.parquet: every read once, where the other tables have it."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import cell_fixture
import sameness_fixture
from kernel_cases import text_of
from pipeline import Knobs, Library, Run, run_pipeline
from stage_fixture import fastq_text, new_meter
from umimill.blockfile import BlockFile
from umimill.errors import UmimillError
from umimill.files import read_json, write_json
from umimill.kernels import fastq as kernels
from umimill.lineage import TABLE, Sources, lineage
from umimill.lineage_rows import LineageWriter, read_lineage


def names_of(path: Path) -> list[str]:
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    found = [line[1:].split()[0].decode() for line in text.splitlines()[::4]]
    return [name[:-2] if name.endswith(("/1", "/2")) else name for name in found]


@pytest.fixture(scope="module", params=["single", "paired"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A library of three units, with corrected reads, suspects and reads that were left out."""
    folder = tmp_path_factory.mktemp("lineage")
    library = sameness_fixture.make_library(
        folder / "reads",
        paired=request.param == "paired",
        molecules=900,
        hot_reads=500,
        bounds=(0.4, 0.7),
    )
    library = replace(library, minimum_reads=2, minimum_umi_quality=12)
    with sameness_fixture.watching(), sameness_fixture.scaled_down():
        knobs = Knobs(buckets=3, parts=2, record_block=256, span_records=600, batch_bytes=1)
        return run_pipeline(library, folder / "run", knobs)


def table(run: Run) -> pd.DataFrame:
    found = pq.read_table(run.outputs["lineage/L1/L1.lineage.parquet"])
    assert found.schema.equals(TABLE)
    return found.to_pandas()


def test_every_read_is_there_once_in_order(run: Run) -> None:
    rows = table(run)
    expected = [
        (unit, record, name)
        for unit, paths in sorted(run.library.units.items())
        for record, name in enumerate(names_of(paths[0]))
    ]
    assert list(zip(rows.unit, rows.record, rows["read"], strict=True)) == expected


def test_reads_are_where_the_ledger_has_them(run: Run) -> None:
    rows = table(run)
    samples = [None if pd.isna(sample) else sample for sample in rows["sample"]]
    found = Counter(zip(rows.stage, samples, rows.line, strict=True))
    # What is on no other line of a later stage.
    expected = {
        (stage, sample, line): count
        for (stage, sample, line), count in run.ledger().items()
        if stage in ("checkout", "assemble") or (stage, line) == ("settle", "unresolved")
        if line not in ("assigned", "partial") and count
    }
    assert found == expected
    assert {(stage, line) for stage, _, line in found} >= {
        ("assemble", "voted"), ("assemble", "below_filter"), ("checkout", "unmatched"),
        ("checkout", "ambiguous"), ("checkout", "low_umi_quality"), ("settle", "unresolved"),
    }  # fmt: skip
    assert {("assemble", "chimera_suspect"), ("assemble", "shifted")} & {
        (stage, line) for stage, _, line in found
    }


def test_reads_lead_to_their_family_and_molecule(run: Run) -> None:
    rows = table(run)
    rows = rows[rows.molecule_id.notna()]
    assert len(rows) == run.total("tally", "reads") + run.total("move", "placed_rows")
    moved = placed = 0
    for sample, own in rows.groupby("sample"):
        home = f"samples/{sample}/{sample}"
        families = pd.read_parquet(run.outputs[f"{home}.families.parquet"])
        molecules = pd.read_parquet(run.outputs[f"{home}.molecules.parquet"])
        families = families[(families.family > 0) | (families.status == "placed")]
        own = own.merge(molecules[["molecule_id", "umi"]], on="molecule_id", suffixes=("", "_m"))
        own = own.rename(columns={"umi_m": "molecule_umi"})
        place = ["umi", "family", "molecule_umi"]
        assert own.groupby(place).size().to_dict() == families.groupby(place).reads.sum().to_dict()
        reads = own.groupby(["molecule_id", "status"]).size().to_dict()
        assert reads == molecules.set_index(["molecule_id", "status"]).reads.to_dict()
        joined = own.merge(families.drop_duplicates(place), on=place, suffixes=("", "_family"))
        joined = joined.merge(molecules, on="molecule_id", suffixes=("", "_molecule"))
        assert len(joined) == len(own)
        elsewhere = joined.status_family.isin(["corrected", "placed"])
        assert (joined.status == joined.status_family)[~elsewhere].all()
        voted = joined.line == "voted"
        assert (voted == ((joined.status == "molecule") & (joined.reads_molecule >= 2))).all()
        moved += int((joined.status_family == "corrected").sum())
        placed += int((joined.status_family == "placed").sum())
    assert moved == run.total("move", "moved_rows") > 50
    assert placed == run.total("move", "placed_rows") > 5


def test_barcodes_are_those_of_the_reads(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    letters = np.frombuffer(b"ACGT", np.uint8)
    payload = rng.choice(letters, 60).tobytes()
    records = []
    names = [b"plain", b"a b/1", b"c/1 x", b"", b"\xe4\xf6 z", b"tab\tx"] + [
        b"n%d" % n for n in range(40)
    ]
    for number, name in enumerate(names):
        bases = rng.choice(letters, 10).tobytes() + (payload if number % 9 else b"")
        records.append((name, bases, b"I" * len(bases)))
    path = tmp_path / "reads.fastq"
    path.write_bytes(fastq_text(records))
    library = Library([("S", "cell:0:4,4:10", None)], {"u": (path,)})
    found = table(run_pipeline(library, tmp_path / "run", Knobs(parts=3, record_block=4)))
    assert found["read"].tolist()[:6] == ["plain", "a", "c", "", "\\xe4\\xf6", "tab"]
    for row, (_, bases, _) in zip(found.itertuples(), records, strict=True):
        if len(bases) > 10:
            assert (row.cell + row.umi, row.line) == (bases[:10].decode(), "voted")
            assert row.molecule_id.startswith(f"S.{row.cell}.{row.umi}")
        else:
            assert row.line == "empty_payload"
            assert all(pd.isna(cell) for cell in (row.cell, row.umi, row.family, row.molecule_id))
    assert {"voted", "empty_payload"} == set(found.line)


def test_a_library_without_reads_has_an_empty_table(tmp_path: Path) -> None:
    path = tmp_path / "none.fastq"
    path.write_bytes(b"")
    run = run_pipeline(Library([("S", "^N{8}", None)], {"u": (path,)}), tmp_path / "run")
    assert table(run).empty


def sources(run: Run, folder: Path) -> Sources:
    home = run.folder / "results"
    return Sources(
        home / "index/L1.json",
        sorted(run.library.units),
        [
            home / f"partition/L1/{unit}/{part}-of-2.names"
            for unit in sorted(run.library.units)
            for part in (1, 2)
        ],
        [home / f"assemble/L1/{bucket}-of-3.lineage" for bucket in (1, 2, 3)],
    )


def rewritten(path: Path, output: Path, change: Any) -> Path:
    """Write the rows of a bucket again, changed."""
    with LineageWriter(output) as writer:
        writer.add(change(np.concatenate(list(read_lineage(path)))))
        writer.finish()
    return output


def second_unit(rows: Any) -> Any:
    """Count a read for the ledger line of another."""
    rows["kept"][np.flatnonzero(rows["kept"] == 1)[0]] = 0
    return rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1:], r"unit L\d, record [\d,]+: checkout and assemble disagree"),
        (second_unit, r"assemble, .*: [\d,]+ templates are voted, but [\d,]+ reads of the lineage"),
    ],
)
def test_a_read_that_is_lost_or_elsewhere_is_noticed(
    run: Run, tmp_path: Path, change: Any, message: str
) -> None:
    asked = sources(run, tmp_path)
    fragments = [rewritten(asked.fragments[0], tmp_path / "1", change), *asked.fragments[1:]]
    output = tmp_path / "out.parquet"
    with pytest.raises(UmimillError, match=message):
        lineage(replace(asked, fragments=fragments), 2, output, new_meter("lineage"))
    assert not output.exists()


def test_an_index_of_another_run_is_noticed(run: Run, tmp_path: Path) -> None:
    asked = sources(run, tmp_path)
    index = read_json(asked.index)
    row = next(row for row in index["ledger"] if row[2] == "unmatched")
    row[3] += 1
    write_json(tmp_path / "index.json", index)
    changed = replace(asked, index=tmp_path / "index.json")
    with pytest.raises(UmimillError, match=r"checkout, library: .* templates are unmatched"):
        lineage(changed, 2, tmp_path / "out.parquet", new_meter("lineage"))


def test_parts_of_other_runs_are_noticed(run: Run, tmp_path: Path) -> None:
    asked = sources(run, tmp_path)
    names = [asked.names[1], asked.names[0], *asked.names[2:]]
    with BlockFile(asked.names[0]) as first, BlockFile(asked.names[1]) as second:
        assert first.length("blocks") + second.length("blocks") > 3
    with pytest.raises(UmimillError, match=r"disagree|not those of the other parts"):
        lineage(replace(asked, names=names), 2, tmp_path / "out", new_meter("lineage"))


def oracle_names(lines: Sequence[bytes]) -> list[bytes]:
    found = []
    for line in lines:
        name = line.split(b" ")[0].split(b"\t")[0]
        found.append(name[:-2] if name[-2:] in (b"/1", b"/2") else name)
    return found


def test_names_are_copied() -> None:
    lines = [b"", b"a", b"b/1", b"c/2 d", b"/1", b"e\tf", b"g/3", b"hh/1/2 i", b" x"]
    text = b"".join(b"@%s\nA\n+\nI\n" % line for line in lines)
    records = np.zeros((20, 5), np.int32)
    buffer = text_of(text)
    count, _, code, _ = kernels.scan_records(buffer, 0, len(text), 1, records)
    assert (count, code) == (len(lines), kernels.SCAN_OK)
    names, stops = np.zeros(len(text), np.uint8), np.zeros(count, np.int64)
    kernels.copy_names(buffer, records[:count], names, stops)
    found = [
        names[start:stop].tobytes()
        for start, stop in zip([0, *stops[:-1].tolist()], stops.tolist(), strict=True)
    ]
    assert found == oracle_names(lines)


def test_lineage_is_made_only_where_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "reads.fastq"
    path.write_bytes(fastq_text([(b"r", b"ACGTACGTAC" * 5, b"I" * 50)]))
    library = Library([("S", "^N{8}", None)], {"u": (path,)})
    run = run_pipeline(library, tmp_path / "run", Knobs(lineage=False))
    made = [path.name for path in (run.folder / "results").rglob("*") if path.is_file()]
    assert not [name for name in made if name.endswith((".names", ".lineage"))]
    assert json.loads((run.folder / "results/index/L1.json").read_text())["library"] == "L1"


def test_reads_that_place_gave_to_a_cell_and_those_it_did_not(tmp_path: Path) -> None:
    cells = cell_fixture.make_cells(tmp_path / "reads", reads=3000)
    structure = "^" + "X" * cell_fixture.CELL + "N" * cell_fixture.UMI
    library = Library([("S", structure, None)], cells.units, cell_list=cells.cell_list)
    run = run_pipeline(library, tmp_path / "run", Knobs(parts=2, record_block=256))
    rows = table(run)
    lines = Counter(zip(rows.stage, rows.line, strict=True))
    assert lines["place", "off_list"] == run.line("off_list", "S", "place") > 30
    known = set(gzip.decompress(cells.cell_list.read_bytes()).decode().split())
    placed = rows[rows.stage == "assemble"]
    assert set(placed.cell) <= known
    read = [cells.read[int(name[1:])] for name in placed["read"]]
    moved = sum(one != other for one, other in zip(read, placed.cell, strict=True))
    assert moved == run.line("placed", "S", "place") > 100
    assert rows.molecule_id[rows.line == "off_list"].isna().all()
