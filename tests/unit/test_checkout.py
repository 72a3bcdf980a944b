"""checkout: rows are what the layouts say, whatever the parts, threads and memory."""

import gzip
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_fixture import (
    Library,
    Record,
    all_rows,
    checked_out,
    fastq_text,
    files_below,
    ledger,
    library_of,
    new_meter,
    partition_rows,
    random_bases,
    random_reads,
    read_records,
    run_checkout,
    run_probes,
    slow_settings,
    write_fastq,
)
from umimill import checkout as checkout_module
from umimill.bgzf import EOF_BLOCK
from umimill.checkout import Part, checkout
from umimill.errors import FastqError, UmimillError
from umimill.fastq import TemplateChunk, read_templates
from umimill.gather import gather_unmatched
from umimill.partition import HOT

# -- a limit -------------------------------------------------------------------------------------


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("limit", [1, 255, 256, 257, 700, 1499])
def test_a_limit_is_a_file_that_ends_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paired: bool, limit: int
) -> None:
    """Whatever parts and chunks it falls into."""
    monkeypatch.setattr(
        checkout_module, "read_templates", partial(read_templates, chunk_records=256)
    )
    mates = [
        random_reads(np.random.default_rng(limit), 1500, [b"ACGTAC"]) for _ in range(1 + paired)
    ]
    layouts = [("S1", "ACGTACNNNNNN", None)]
    whole, cut = (
        library_of(tmp_path / str(stop), layouts, *(mate[:stop] for mate in mates))
        for stop in (1500, limit)
    )
    for parts in (1, 3):
        found = checked_out(whole, parts=parts, record_block=100, limit=limit)
        assert found == checked_out(cut, parts=parts, record_block=100)
        assert sum(found[1].values()) == min(limit, 1500)


# -- parts -----------------------------------------------------------------------------------------


@slow_settings(100)
@given(
    chunks=st.lists(st.integers(1, 30), max_size=20),
    count=st.integers(1, 7),
    record_block=st.integers(1, 40),
)
def test_every_template_belongs_to_one_part(
    chunks: list[int], count: int, record_block: int
) -> None:
    owners: Counter[int] = Counter()
    for index in range(count):
        part = Part(0, index, count, record_block)
        first = 0
        for size in chunks:
            for start, stop in part.ranges(TemplateChunk((), size, first)):
                assert 0 <= start < stop <= size
                assert (first + start) // record_block == (first + stop - 1) // record_block
                for record in range(first + start, first + stop):
                    assert record // record_block % count == index
                    owners[record] += 1
            first += size
    assert owners == Counter(range(sum(chunks)))


LAYOUTS = [("S1", "^ACGTNNNNNN", None), ("S2", "^TTGCNNNNNN", None)]


@pytest.fixture(scope="module")
def two_units(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Two units with foreign reads, reads too short, N in UMIs and payloads."""
    folder = tmp_path_factory.mktemp("units")
    rng = np.random.default_rng(3)
    units = {}
    for unit, count in (("u1", 3000), ("u2", 1100)):
        reads = random_reads(rng, count, [b"ACGT", b"TTGC", b"GATC"])
        for number in range(0, count, 7):
            name, bases, qualities = reads[number]
            place = int(rng.integers(4, len(bases)))
            reads[number] = (name, bases[:place] + b"N" + bases[place + 1 :], qualities)
        for number in range(3, count, 50):
            name, bases, qualities = reads[number]
            reads[number] = (name, bases[: number % 11], qualities[: number % 11])
        units[unit] = [write_fastq(folder / f"{unit}.fq.gz", reads)]
    return Library(folder, LAYOUTS, units)


def unmatched_bytes(library: Library, parts: int, folder: Path) -> list[bytes]:
    pieces = [
        library.folder / "partition" / unit / f"{part + 1}-of-{parts}.unmatched"
        for unit in library.units
        for part in range(parts)
    ]
    outputs = [folder / f"unmatched_R{mate + 1}.fastq.gz" for mate in range(library.mates)]
    meter = new_meter("gather")
    gather_unmatched(pieces, parts, outputs, meter)
    written = [output.read_bytes() for output in outputs]
    assert meter.written_bytes == sum(map(len, written))
    return written


def test_parts_threads_and_memory_give_the_same(two_units: Library, tmp_path: Path) -> None:
    cases: list[dict[str, Any]] = [
        {"parts": 1},
        {"parts": 1, "threads": 2, "staging_bytes": 1},
        {"parts": 2, "staging_bytes": 60_000},
        {"parts": 5, "threads": 2},
    ]
    found = []
    for number, case in enumerate(cases):
        library = Library(tmp_path / str(number), two_units.layouts, two_units.units)
        partitions, metrics = run_checkout(library, unmatched=True, record_block=200, **case)
        flushes = [job["counters"]["flushes"] for job in metrics]
        assert flushes == [len(partition_rows(path)) for path in partitions]
        if "staging_bytes" in case:
            assert max(flushes) >= 2
        assert len(partitions) == 2 * case["parts"]
        counters = sum((Counter(job["counters"]) for job in metrics), Counter())
        del counters["flushes"]
        text = unmatched_bytes(library, case["parts"], tmp_path)
        found.append((all_rows(partitions), ledger(metrics), counters, text))
    assert all(one == found[0] for one in found)
    rows, lines, counters, _ = found[0]
    assert min(lines[place] for place in [(None, "unmatched"), ("S1", "assigned")]) > 100
    assert {line for _, line in lines} >= {"too_short", "empty_payload", "unresolved"}
    assert sum(lines.values()) == 4100
    assert rows.total() == lines["S1", "assigned"] + lines["S2", "assigned"]
    assert counters["payload_bases"] == sum(len(row[7][0][0]) for row in rows.elements())
    assert counters["unknown_in_payload"] == sum("N" in row[7][0][0] for row in rows.elements())
    assert counters["unknown_in_barcode"] == lines["S1", "unresolved"] + lines["S2", "unresolved"]
    assert counters["flipped"] == 0
    assert {row[4] for row in rows} == {0, 1}, "units by number"


def test_more_parts_than_blocks(tmp_path: Path) -> None:
    reads = random_reads(np.random.default_rng(4), 30, [b"ACGT"])
    library = library_of(tmp_path, LAYOUTS, reads)
    rows, lines = checked_out(library, parts=5)
    assert rows.total() == lines["S1", "assigned"] > 20
    assert files_below(tmp_path / "partition") == [f"u1/{part}-of-5.rows" for part in range(1, 6)]


# -- long reads, and memory ------------------------------------------------------------------------


def test_reads_longer_than_the_memory_for_rows(tmp_path: Path) -> None:
    """A read that does not fit behind others starts a flush; one that never fits makes room."""
    rng = np.random.default_rng(5)
    # The first are all that probe looks at.
    lengths = [20] * 10_000 + [200] * 300 + [70_000, 200, 5000, 5000, 120_000, 0, 1] + [200] * 300
    found = []
    for number, length in enumerate(lengths):
        bases = random_bases(rng, 6) + random_bases(rng, length, b"ACGTN")
        found.append((b"%d" % number, bases, random_bases(rng, len(bases), b"!~I5#")))
    library = library_of(tmp_path, [("S1", "^NNNNNN", None)], found)
    partitions, metrics = run_checkout(library, staging_bytes=1)
    assert metrics[0]["counters"]["flushes"] >= 3
    rows = sorted((row for flush in partition_rows(partitions[0]) for row in flush),
                  key=lambda row: row[5])  # fmt: skip
    assert [row[5] for row in rows] == [number for number, length in enumerate(lengths) if length]
    for row in rows:
        _, bases, qualities = found[row[5]]
        assert (row[1] + row[7][0][0]).encode() == bases
        assert row[6] + row[7][0][1] == bytes(byte - 33 for byte in qualities)


# -- unmatched -------------------------------------------------------------------------------------


def test_unmatched_templates_are_kept_as_they_are(tmp_path: Path) -> None:
    """In the order of units and records, mates in step; a block ends where records do."""
    rng = np.random.default_rng(6)
    units: dict[str, list[Path]] = {}
    expected: list[list[Record]] = [[], []]
    for unit in ("b", "a"):
        pairs = []
        for number in range(500):
            tag = b"ACGT" if number % 3 else b"GCTA"
            name = b"%s:%d" % (unit.encode(), number)
            pairs.append([
                (b"%s %d:N" % (name, mate), (tag if mate == 1 else b"") + random_bases(rng, 30),
                 b"I" * (34 if mate == 1 else 30))
                for mate in (1, 2)
            ])  # fmt: skip
        units[unit] = []
        for side in range(2):
            path = tmp_path / f"{unit}{side}.fq"
            text = fastq_text([pair[side] for pair in pairs], b"\r\n")
            path.write_bytes(text.replace(b"\r\n+\r\n", b"\r\n+ again\r\n"))
            units[unit].append(path)
            expected[side] += [pair[side] for pair in pairs[::3]]
    library = Library(tmp_path / "run", [("S1", "^ACGTNNNN", None)], units)
    run_checkout(library, parts=3, record_block=64, unmatched=True)
    (tmp_path / "out").mkdir()
    for side, data in enumerate(unmatched_bytes(library, 3, tmp_path / "out")):
        assert data.endswith(EOF_BLOCK)
        assert gzip.decompress(data) == fastq_text(expected[side])
    paths = [tmp_path / "out" / f"unmatched_R{mate}.fastq.gz" for mate in (1, 2)]
    assert len(read_records(paths)) == 334


def test_no_unmatched_template(tmp_path: Path) -> None:
    reads = random_reads(np.random.default_rng(7), 20, [b"ACGT"])
    library = library_of(tmp_path, LAYOUTS[:1], reads)
    run_checkout(library, unmatched=True)
    assert unmatched_bytes(library, 1, tmp_path) == [EOF_BLOCK]


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["fq", "fq.gz"])
def test_the_same_lane_twice_is_refused(tmp_path: Path, ending: str) -> None:
    reads = random_reads(np.random.default_rng(8), 10_400, [b"ACGT"], length=5)
    units = {
        "lane1": [write_fastq(tmp_path / "1.fq", reads)],
        "lane2": [write_fastq(tmp_path / "2.fq", reads[::-1])],
        # The same at the start only: a copy that was cut off is no other lane.
        "lane3": [write_fastq(tmp_path / f"3.{ending}", reads[:10_100])],
    }
    library = Library(tmp_path / "run", LAYOUTS, units)
    with pytest.raises(UmimillError) as caught:
        run_checkout(library)
    assert str(caught.value) == (
        f"{tmp_path}/3.{ending}: begins with the same 10,000 templates as {tmp_path}/1.fq, the "
        "same lane given twice; remove unit lane3 or lane1 from the units sheet"
    )
    assert not [name for name in files_below(tmp_path / "run") if "partition/lane3" in name]


def test_the_same_lane_is_named_by_one_part(tmp_path: Path) -> None:
    record = (b"r", b"ACGTAAAAAAC", b"I" * 11)
    reads = [write_fastq(tmp_path / f"{number}.fq", [record]) for number in "12"]
    library = Library(tmp_path / "run", LAYOUTS, {"u1": reads[:1], "u2": reads[1:]})
    probes = run_probes(library)
    for index in range(3):
        part, meter = Part(1, index, 3), new_meter("checkout")
        output = tmp_path / f"{index}.rows"
        if index:
            checkout(reads[1:], LAYOUTS, probes, "u2", part, output, meter)
            continue
        with pytest.raises(UmimillError, match="the same lane given twice"):
            checkout(reads[1:], LAYOUTS, probes, "u2", part, output, meter)


@pytest.mark.parametrize("most", [400, 401, 599, 600])
def test_more_records_than_can_be_numbered(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part refuses what it owns beyond the limit, and no other part complains."""
    assert np.iinfo(HOT["record"]).max + 1 == checkout_module.MOST_RECORDS
    monkeypatch.setattr(checkout_module, "MOST_RECORDS", most)
    reads = random_reads(np.random.default_rng(8), 600, [b"ACGT"])
    library = library_of(tmp_path, LAYOUTS, reads)
    probes = run_probes(library)
    for index in range(3):
        output, meter = tmp_path / f"{index}.rows", new_meter("checkout")
        case = (library.units["u1"], LAYOUTS, probes, "u1", Part(0, index, 3, 200), output, meter)
        if most == 600 or index < 2:
            checkout(*case)
            continue
        with pytest.raises(FastqError) as caught:
            checkout(*case)
        assert str(caught.value) == (
            f"{library.units['u1'][0]}, record {most + 1} (line {4 * most + 1:,}): a unit holds "
            f"at most {most} records; split it into two units"
        )
        assert not output.exists()
        assert not list(tmp_path.glob(".*.tmp"))


def test_empty_units_are_not_the_same_lane(tmp_path: Path) -> None:
    units = {unit: [write_fastq(tmp_path / f"{unit}.fq", [])] for unit in "abc"}
    rows, lines = checked_out(Library(tmp_path / "run", LAYOUTS, units))
    assert (rows, lines) == (Counter(), {})


@pytest.mark.parametrize("ending", [b"@cut", b"\n@blank\nA\n+\nI\n"])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_late_in_the_file_leaves_nothing(
    tmp_path: Path, ending: bytes, threads: int
) -> None:
    """Behind what probe looks at, when rows were already flushed."""
    reads = random_reads(np.random.default_rng(9), 12_000, [b"ACGT", b"GGGG"], length=4)
    path = write_fastq(tmp_path / "u1.fq", reads)
    path.write_bytes(path.read_bytes() + ending)
    library = Library(tmp_path / "run", LAYOUTS, {"u1": [path]})
    with pytest.raises(UmimillError, match=r"u1\.fq, record 12,001 \(line 48,00[12]\)"):
        run_checkout(library, threads=threads, unmatched=True, staging_bytes=1)
    assert files_below(tmp_path / "run") == ["probe/u1.json"]
