"""Rows whose barcode was not fully read: what they may be, where they go, what is said of them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from kernel_cases import pack_key
from pipeline import Knobs, Library, Run, run_pipeline
from stage_fixture import random_bases, write_fastq
from umimill import partial, places
from umimill.jit import kernel
from umimill.kernels import partial as kernels
from umimill.likelihood import log_tables

FRONT, BEHIND = "CAGTGGTATCAACGCAGAGT", "tgact"
LENGTH = 12
Pair = tuple[bytes, bytes]


@kernel
def candidates(partials: Any, log: Any, keys: Any, ways: Any) -> int:
    return kernels.list_candidates(partials[0], log, keys, ways)


def listed(umi: str, shift: int, cell: str = "") -> dict[str, int]:
    """Return what a barcode may be, and 4 (L + 1) or L times the share of errors that give it."""
    entry = np.zeros(1, partial.PARTIAL)
    entry["key"] = pack_key(cell + umi.replace("N", "A"))
    entry["umi_length"], entry["cell_length"], entry["shift"] = len(umi), len(cell), shift
    entry["n_mask"] = sum(1 << (len(cell) + at) for at, one in enumerate(umi) if one == "N")
    keys = np.zeros(kernels.MOST_CANDIDATES, np.uint64)
    ways = np.zeros(kernels.MOST_CANDIDATES, np.int64)
    log, _ = log_tables()
    count = candidates(entry, log, keys, ways)
    length = len(cell) + len(umi) - shift
    scale = {-1: len(umi) + 1, 0: 1, 1: 4 * len(umi)}[shift]
    found = {}
    for key, way in zip(keys[:count].tolist(), ways[:count].tolist(), strict=True):
        assert key & ((1 << (64 - 2 * length)) - 1) == 0
        bases = "".join("ACGT"[key >> (62 - 2 * at) & 3] for at in range(length))
        number = next(one for one in range(1, 40) if log[one] == way + log[scale])
        assert found.setdefault(bases, number) == number
    assert len(found) == count
    return found


@pytest.mark.parametrize("length", [1, 2, 5, 12, 30, 31, 32])
def test_what_a_barcode_may_be(length: int) -> None:
    """Against all that is lost, gained or filled, from every barcode that gives it."""
    rng = np.random.default_rng(length)
    for letters in (b"ACGT", b"AC", b"A"):
        umi = random_bases(rng, length, letters).decode()
        if length < 32:
            expected: Counter[str] = Counter()
            for one in {umi[:at] + base + umi[at:] for at in range(length + 1) for base in "ACGT"}:
                expected[one] = sum(one[:at] + one[at + 1 :] == umi for at in range(length + 1))
            assert listed(umi, -1) == expected
        if length > 1:
            expected = Counter()
            for one in {umi[:at] + umi[at + 1 :] for at in range(length)}:
                # Places and bases to put in, as often as they give what was read.
                expected[one] = sum(
                    one[:at] + base + one[at:] == umi for at in range(length) for base in "ACGT"
                )
            assert listed(umi, 1) == expected
        for unknown in range(min(length, 2) + 1):
            at = sorted(rng.choice(length, unknown, replace=False).tolist())
            with_n = "".join("N" if place in at else one for place, one in enumerate(umi))
            filled = {
                "".join(dict(zip(at, bases, strict=True)).get(p, one) for p, one in enumerate(umi))
                for bases in itertools.product("ACGT", repeat=unknown)
            }
            assert listed(with_n, 0) == dict.fromkeys(filled, 1)
            if length < 30:
                cells = {"GT" + one for one in filled}
                assert listed(with_n, 0, "GT") == dict.fromkeys(cells, 1)


# -- libraries -------------------------------------------------------------------------------------


def read_of(umi: str, payload: bytes, front: str = FRONT) -> bytes:
    return (front + umi + BEHIND.upper()).encode() + payload


def library_of(folder: Path, reads: Sequence[bytes], *, cell: int = 0, **options: Any) -> Library:
    folder.mkdir(parents=True, exist_ok=True)
    records = [(b"r%d" % number, bases, b"I" * len(bases)) for number, bases in enumerate(reads)]
    path = write_fastq(folder / "reads.fastq.gz", records)
    layout = "^" + FRONT + "X" * cell + "N" * LENGTH + BEHIND
    return Library((("S", layout, None),), {"L": (path,)}, **options)


def molecules(count: int, seed: int = 1) -> list[tuple[str, bytes]]:
    """Return barcodes and payloads."""
    rng = np.random.default_rng(seed)
    umis = {random_bases(rng, LENGTH).decode() for _ in range(count)}
    return [(umi, random_bases(rng, 60)) for umi in sorted(umis)]


def families(run: Run) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(
        run.outputs["samples/S/S.families.parquet"]
    ).to_pylist()
    return rows


def test_reads_with_an_unknown_base_join_the_barcode_that_they_fit(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    payload = random_bases(rng, 60)
    reads = [read_of("ACGTACGTACGT", payload)] * 10 + [read_of("ACGTACGTACNT", payload)] * 3
    run = run_pipeline(library_of(tmp_path, reads), tmp_path / "run")
    (molecule,) = run.molecules("S")
    assert (molecule["umi"], molecule["reads"]) == ("ACGTACGTACGT", 13)
    # Of the same reads with another payload nothing is known.
    other = random_bases(rng, 60)
    reads = [read_of("ACGTACGTACGT", payload)] * 10 + [read_of("ACGTACGTACNT", other)] * 3
    run = run_pipeline(library_of(tmp_path / "other", reads), tmp_path / "other/run")
    assert [row["reads"] for row in run.molecules("S")] == [10]
    assert run.line("unresolved", "S", "settle") == 3


def spoiled(umi: str) -> list[str]:
    """Return a barcode with one or two unknown bases, a base less, and a base more, everywhere."""
    found = [umi[:at] + "N" + umi[at + 1 :] for at in range(len(umi))]
    found += [umi[:at] + "N" + umi[at + 1 : -1] + "N" for at in range(len(umi) - 1)]
    found += [umi[:at] + umi[at + 1 :] for at in range(len(umi))]
    return found + [umi[:at] + "G" + umi[at:] for at in range(len(umi) + 1)]


@pytest.fixture(scope="module")
def spoiled_library(tmp_path_factory: pytest.TempPathFactory) -> tuple[Library, dict[str, int]]:
    """400 molecules of six reads; ten of them are spoiled at every position."""
    pool = molecules(400)
    reads = [read_of(umi, payload) for umi, payload in pool for _ in range(6)]
    counts = {umi: 6 for umi, _ in pool}
    for umi, payload in pool[::40]:
        for one in spoiled(umi):
            reads.append(read_of(one, payload))
            counts[umi] += 1
    # Of nobody's barcode, and of a payload that its barcode does not have.
    rng = np.random.default_rng(5)
    reads += [
        read_of("ANNACCTTGGCA", random_bases(rng, 60)),
        read_of("ACCTTGGCATA", reads[0][-60:]),
    ]
    reads.append(read_of(pool[0][0][1:], random_bases(rng, 60)))
    order = np.random.default_rng(6).permutation(len(reads)).tolist()
    folder = tmp_path_factory.mktemp("spoiled")
    return library_of(folder, [reads[number] for number in order]), counts


def test_every_read_goes_to_its_molecule(
    spoiled_library: tuple[Library, dict[str, int]], tmp_path: Path
) -> None:
    library, counts = spoiled_library
    run = run_pipeline(library, tmp_path)
    assert {row["umi"]: row["reads"] for row in run.molecules("S")} == counts
    placed = sum(counts.values()) - 6 * len(counts)
    assert run.line("partial", "S") == placed + 3
    assert run.line("partial", "S", "tally") == placed + 3
    assert run.line("placed", "S", "settle") == placed
    assert run.line("unresolved", "S", "settle") == 3
    assert run.line("voted", "S", "assemble") == sum(counts.values())
    assert run.total("settle", "n_placed") == 10 * (2 * LENGTH - 1)
    assert run.total("settle", "shift_placed") == 10 * (2 * LENGTH + 1)
    rows = families(run)
    assert sum(row["reads"] for row in rows) == sum(counts.values()) + 3
    by_status = Counter(row["status"] for row in rows)
    assert by_status["unresolved"] == 3
    kinds = {"unknown_base": "N", "base_lost": "", "base_gained": ""}
    for row in rows:
        if row["status"] == "placed":
            assert row["flags"] in kinds
            assert ("N" in row["umi"]) == (row["flags"] == "unknown_base")
            assert row["molecule_umi"] == row["parent_umi"]
            assert row["umi"] in spoiled(row["molecule_umi"])
            assert row["posterior"] > 0.95
            assert row["distance"] == (row["flags"] != "unknown_base")
        elif row["status"] == "unresolved":
            assert row["umi"] == row["molecule_umi"]
            assert row["parent_umi"] is None
    # No base is made up: the records know none that was not read.
    assert all("N" not in record.bases for record in run.records("S"))


def test_nothing_else_moves(
    spoiled_library: tuple[Library, dict[str, int]], tmp_path: Path
) -> None:
    """Edges, model and statuses are those of a library without such reads."""
    library, _ = spoiled_library
    run = run_pipeline(library, tmp_path)
    reads = [read_of(umi, payload) for umi, payload in molecules(400) for _ in range(6)]
    clean = run_pipeline(library_of(tmp_path / "clean", reads), tmp_path / "clean/run")
    columns = ["umi", "family", "reads", "status", "parent_umi", "posterior", "ln_independent"]

    def known(run: Run) -> list[list[Any]]:
        kept = [row for row in families(run) if row["flags"] in ("", "overfull")]
        return [[row[name] for name in columns] for row in kept]

    assert known(run) == known(clean)
    assert [row["umi"] for row in run.molecules("S")] == [
        row["umi"] for row in clean.molecules("S")
    ]


def test_buckets_and_memory_decide_nothing(
    spoiled_library: tuple[Library, dict[str, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library, _ = spoiled_library
    whole = run_pipeline(library, tmp_path / "one")
    monkeypatch.setattr("umimill.plan.GROUP_ROWS", 20)
    again = run_pipeline(library, tmp_path / "again")
    monkeypatch.setattr(partial, "READ_PARTIALS", 7)
    monkeypatch.setattr(places, "ANSWER_PLACES", 1)
    monkeypatch.setattr(places, "READ_PARTIALS", 7)
    for number, knobs in enumerate(
        (
            Knobs(buckets=16, parts=3, record_block=100, staging_bytes=1, tally_bytes=1,
                  table_bytes=1, block_bytes=1, batch_bytes=1),
            Knobs(buckets=3, threads=2, tally_bytes=1),
        )
    ):  # fmt: skip
        run = run_pipeline(library, tmp_path / str(number), replace(knobs, unmatched=True))
        assert (
            run.hashes()["samples/S/S.families.parquet"]
            == (again.hashes()["samples/S/S.families.parquet"])
        )
        assert run.total("move", "placed_rows") == 10 * 4 * LENGTH
    assert families(whole) == families(again)


def test_a_molecule_made_with_a_base_less_is_not_put_to_another(tmp_path: Path) -> None:
    pool = molecules(300)
    reads = [read_of(umi, payload) for umi, payload in pool for _ in range(6)]
    umi, payload = pool[7]
    few = [read_of(umi[:4] + umi[5:], payload)] * 6
    run = run_pipeline(library_of(tmp_path / "few", reads + few), tmp_path / "few/run")
    assert run.line("placed", "S", "settle") == 6
    run = run_pipeline(library_of(tmp_path / "many", reads + few + few[:1]), tmp_path / "many/run")
    assert run.line("placed", "S", "settle") == 0
    assert run.line("unresolved", "S", "settle") == 7


def test_two_barcodes_that_fit_alike_leave_a_read_unresolved(tmp_path: Path) -> None:
    pool = molecules(300)
    _, payload = pool[0]
    reads = [read_of(umi, other) for umi, other in pool for _ in range(6)]
    reads += [read_of("ACGTACGTACGT", payload)] * 6 + [read_of("ACGTACGTACCA", payload)] * 6
    reads += [read_of("ACGTACGTACNN", payload)]
    run = run_pipeline(library_of(tmp_path, reads), tmp_path / "run")
    assert run.line("unresolved", "S", "settle") == 1


def test_rules_without_posterior_place_nothing(
    spoiled_library: tuple[Library, dict[str, int]], tmp_path: Path
) -> None:
    library, _ = spoiled_library
    run = run_pipeline(replace(library, method="unique"), tmp_path)
    assert run.line("placed", "S", "settle") == 0
    assert run.line("unresolved", "S", "settle") == run.line("partial", "S") > 400


def test_payloads_that_say_nothing_place_no_shift(
    spoiled_library: tuple[Library, dict[str, int]], tmp_path: Path
) -> None:
    library, _ = spoiled_library
    run = run_pipeline(replace(library, placement="tile"), tmp_path)
    assert run.total("settle", "shift_placed") == 0
    assert run.total("settle", "n_placed") > 200


def test_cells_keep_their_reads(tmp_path: Path) -> None:
    pool = molecules(300)
    cells = ["ACGTTGCA", "GGATCCAA"]
    reads = [read_of(cell + umi, payload) for cell in cells for umi, payload in pool * 3]
    umi, payload = pool[3]
    reads += [
        read_of(cells[0] + "N" + umi[1:], payload),
        read_of("N" + cells[0][1:] + umi, payload),
        read_of(cells[0] + umi[1:], payload),
    ]
    run = run_pipeline(library_of(tmp_path, reads, cell=8), tmp_path / "run")
    assert run.line("partial", "S") == 1
    assert run.line("unresolved", "S") == 2
    assert run.line("placed", "S", "settle") == 1
    found = [row["cell"] for row in run.molecules("S") if row["umi"] == umi and row["reads"] == 4]
    assert found == cells[:1]
