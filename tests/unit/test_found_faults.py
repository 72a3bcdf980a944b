"""Faults that attacks on the stages found; each input stays as a test."""

import contextlib
import gc
import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from bucket_fixture import run_assemble, run_buckets, run_index, run_refine
from stage_fixture import (
    fastq_text,
    files_below,
    key_text,
    library_of,
    new_meter,
    place,
    random_bases,
    random_reads,
    read_records,
    refusal,
    run_checkout,
    run_plan,
    write_fastq,
)
from umimill import fates
from umimill.blockfile import BlockFile, BlockWriter
from umimill.errors import UmimillError
from umimill.files import read_json, write_json
from umimill.gather import gather, gather_unmatched
from umimill.metrics import summary_lines
from umimill.partition import PartitionFile
from umimill.probe import probe
from umimill.tally import tally


def test_cut_gzip_names_the_record_that_is_cut(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    records = [(b"%d" % number, random_bases(rng, 100), b"I" * 100) for number in range(2000)]
    packed = gzip.compress(fastq_text(records))
    path = tmp_path / "cut.fq.gz"
    path.write_bytes(packed[: len(packed) // 2])
    read = gzip.GzipFile(path)
    lines = 0
    with contextlib.suppress(EOFError):
        while read.readline():
            lines += 1
    for options in ({}, {"buffer_bytes": 64}, {"buffer_bytes": 1000, "chunk_records": 3}):
        error = refusal([path], **options)
        assert abs(error.record - (lines // 4 + 1)) <= 1
        assert error.record > 900


@pytest.mark.parametrize("chunk_records", [1, 2, 8])
def test_reading_ahead_with_records_larger_than_a_buffer(
    tmp_path: Path, chunk_records: int
) -> None:
    lengths = [10, 5, 60, 5, 400, 400, 400, 200, 30, 5, 400, 1]
    found = [
        (b"%d" % place, b"ACGT"[place % 4 : place % 4 + 1] * length, b"I" * length)
        for place, length in enumerate(lengths)
    ]
    path = write_fastq(tmp_path / "a.fq", found)
    options = {"buffer_bytes": 64, "chunk_records": chunk_records}
    assert read_records([path], ahead=True, **options) == [(one,) for one in found]


@pytest.mark.parametrize("names", [(b"", b"x"), (b"x", b"")])
def test_name_missing_in_one_mate(tmp_path: Path, names: tuple[bytes, bytes]) -> None:
    paths = [write_fastq(tmp_path / f"R{s}.fq", [(n, b"A", b"I")]) for s, n in enumerate(names)]
    assert "mates are named differently" in refusal(paths).message


def test_quality_length_does_not_depend_on_the_buffer(tmp_path: Path) -> None:
    path = tmp_path / "a.fq"
    path.write_bytes(b"@b\nACGTACGTAC\n+\n" + b"I" * 310 + b"\n")
    for buffer_bytes in (64, 4096):
        assert refusal([path], buffer_bytes=buffer_bytes).message == (
            "sequence has 10 bases, quality 310"
        )


def test_refused_mate_closes_the_other_file(tmp_path: Path) -> None:
    """Else a ResourceWarning, which is an error here."""
    paths = [write_fastq(tmp_path / "R1.fq", [(b"a", b"A", b"I")]), tmp_path / "R2.fq"]
    paths[1].write_bytes(b"BAM\x01")
    with pytest.raises(UmimillError, match="this is BAM"):
        read_records(paths)
    gc.collect()


@pytest.mark.parametrize(("text", "line"), [(b"@b", 5), (b"@b\nAC\n+", 7)])
def test_line_at_which_the_file_ends(tmp_path: Path, text: bytes, line: int) -> None:
    path = tmp_path / "a.fq"
    path.write_bytes(b"@a\nACGT\n+\nIIII\n" + text)
    assert place(refusal([path])) == ("a.fq", 2, line)


def test_table_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    reads = random_reads(np.random.default_rng(1), 3000, [b"ACGT"], umis=900)
    library = library_of(tmp_path, [("S1", "^ACGTNNNNNN", None)], reads)
    plan = run_plan(library, run_checkout(library)[0], 1)
    written = set()
    for tally_bytes in (None, 1, 3000) * 3:
        junk = [np.full(50_000 + 1000 * n, 0xAB, np.uint8) for n in range(40)]
        del junk
        tally(plan, 0, tmp_path / "a", new_meter("tally"), batch_bytes=tally_bytes)
        written.add((tmp_path / "a").read_bytes())
        with BlockFile(tmp_path / "a") as file:
            assert not file.read("draws")["padding"].any()
    assert len(written) == 1


def test_gather_that_fails_leaves_no_file_of_the_sample(tmp_path: Path) -> None:
    reads = random_reads(np.random.default_rng(1), 300, [b"ACGT"])
    library = library_of(tmp_path, [("S1", "^ACGTNNNNNN", None)], reads)
    partitions, metrics = run_checkout(library)
    plan = run_plan(library, partitions, 1)
    made, more = run_buckets(library, plan)
    index = run_index(library, made, metrics + more)
    changed = read_json(index)
    changed["samples"][0]["molecules"] *= 2
    write_json(index, changed)
    out = tmp_path / "samples"
    fastq = {"S1": [out / "S1" / "S1.consensus.fastq.gz"]}
    with pytest.raises(UmimillError, match="out of order"):
        gather(index, ["S1"], fastq, out, new_meter("gather"))
    assert not files_below(out)


def test_what_a_layout_matched_is_not_foreign(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    reads = [
        (b"%d" % n, b"ACGT" + (b"NNNN" if n % 2 else b"ACGT") + random_bases(rng, 30), b"I" * 38)
        for n in range(200)
    ]
    path = write_fastq(tmp_path / "a.fq", reads)
    probe([path], [("S1", "^ACGTNNNN", None)], tmp_path / "a.json", new_meter("probe"))
    assert read_json(tmp_path / "a.json")["foreign_share"] == 0.001


def test_cell_and_umi_of_equal_total_length(tmp_path: Path) -> None:
    """(cell AC, UMI GTAC) and (cell ACGT, UMI AC) are two keys, whatever the parts."""
    layouts = [("S1", "^ACGTXXNNNN", None), ("S1", "^TTGCXXXXNN", None)]
    reads = [(b"%d" % n, tag + b"A" * 10, b"I" * 20) for n, tag in enumerate(
        (b"ACGTGGGGGG", b"ACGTACGTAC", b"TTGCACGTAC"))]  # fmt: skip
    found = []
    for parts in (1, 2):
        library = library_of(tmp_path / str(parts), layouts, reads)
        partitions, metrics = run_checkout(library, parts=parts, record_block=1)
        plan = run_plan(library, partitions, 1)
        made, more = run_buckets(library, plan)
        index = run_index(library, made, metrics + more)
        out = library.folder / "out"
        fastq = {"S1": [out / "a.fastq.gz"]}
        gather(index, ["S1"], fastq, out, new_meter("gather"))
        table = pq.read_table(out / "S1" / "S1.molecules.parquet")
        found.append(list(zip(table["cell"].to_pylist(), table["umi"].to_pylist(), strict=True)))
    assert found[0] == found[1]
    assert set(found[0]) == {("AC", "GTAC"), ("ACGT", "AC"), ("GG", "GGGG")}


def test_unmatched_are_phred_33(tmp_path: Path) -> None:
    reads = [(b"a", b"TTTTACGTACGT", b"hhhhhhhhhhBB"), (b"b", b"ACGTACGTACGT", b"hhhhhhhhhhBB")]
    library = library_of(tmp_path, [("S1", "^ACGTNNNN", None)], reads)
    partitions, _ = run_checkout(library, unmatched=True)
    output = tmp_path / "unmatched.fastq.gz"
    gather_unmatched([partitions[0].with_suffix(".unmatched")], 1, [output], new_meter("gather"))
    assert gzip.decompress(output.read_bytes()) == b"@a\nTTTTACGTACGT\n+\nIIIIIIIIII##\n"


def test_molecule_below_the_filter_that_does_not_fit(tmp_path: Path) -> None:
    """Memory decides nothing: now letters are written behind the end of an empty buffer."""
    reads = [(b"r%d" % n, b"ACGTAC" + b"A" * 1000, b"I" * 1006) for n in range(3)]
    library = library_of(tmp_path, [("S1", "^NNNNNN", None)], reads)
    plan = run_plan(library, run_checkout(library)[0], 1)
    made = run_refine(plan, tmp_path / "buckets")
    written = []
    for batch_bytes in (None, 1):
        run_assemble(made, 0, minimum_reads=5, batch_bytes=batch_bytes)
        written.append(made.files[0]["molecules"].read_bytes())
    assert written[0] == written[1]


def test_move_passes_over_families_without_corrections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the families before the first corrected one were taken for rows without a family."""
    monkeypatch.setattr(fates, "READ_FAMILIES", 2)
    payload = random_bases(np.random.default_rng(3), 60)
    umis = [b"AAAAAA", b"ACACAC", b"CCCCCC", b"GAGAGA", b"GGGGGG", b"TCTCTC", b"TTTTTT"]
    # Two reads of 400 say T for the last base.
    held = [umi for umi in umis for _ in range(400)] + [b"TTTTTG"] * 2
    held += [b"GGGGGC"] * 2
    reads = [(b"%d" % n, umi + payload, b"5" * 66) for n, umi in enumerate(held)]
    library = library_of(tmp_path, [("S1", "^NNNNNN", None)], reads)
    plan = run_plan(library, run_checkout(library)[0], 1)
    made = run_refine(plan, tmp_path / "buckets", method="posterior")
    run_assemble(made, 0)
    with BlockFile(made.files[0]["molecules"]) as file:
        molecules = file.read("molecules")
    assert [key_text(int(key), 6).encode() for key in molecules["key"]] == umis
    assert molecules["reads"].tolist() == [400, 400, 400, 400, 402, 400, 402]


def test_flipped_length_of_a_small_file(tmp_path: Path) -> None:
    path = tmp_path / "a.block"
    with BlockWriter(path) as writer:
        writer.finish({})
    whole = path.read_bytes()
    for change in range(1, 256):
        flipped = bytearray(whole)
        flipped[-20] ^= change
        path.write_bytes(flipped)
        with pytest.raises(UmimillError, match="its end is missing or damaged"):
            BlockFile(path)


def test_refused_partition_is_closed(tmp_path: Path) -> None:
    with BlockWriter(tmp_path / "a.rows") as writer:
        writer.add("flushes", np.zeros(0, np.uint8))
        writer.finish({"partition_version": 2})
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(UmimillError):
        PartitionFile(tmp_path / "a.rows")
    assert len(os.listdir("/proc/self/fd")) == before


def test_two_lines_add_up_with_threads() -> None:
    """The driver's clock is busy seconds of all threads; the sum in the line must be wall time."""
    result = {
        "wall_seconds": 1.2, "reads_per_second": 1000, "threads": 4, "driver": "model",
        "clocks": {"model": 4.0}, "peak_rss_bytes": 1, "umi_memory_bytes": 0,
        "umi_spilled": False, "umi_spill_bytes": 0,
    }  # fmt: skip
    assert summary_lines(result)[0] == (
        "1.2 s (1,000 reads/s) = 1.0 s consensus on 4 threads + 0.2 s for the rest"
    )
