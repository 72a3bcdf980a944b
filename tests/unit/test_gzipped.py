"""Gzip files that end where they should not, or go on where they should end."""

import gzip
from itertools import accumulate
from pathlib import Path

import numpy as np
import pysam
import pytest

from stage_fixture import (
    fastq_text,
    files_below,
    new_meter,
    place,
    random_bases,
    read_records,
    refusal,
)
from umimill.bgzf import EOF_BLOCK, compress_block, compress_records
from umimill.errors import UmimillError
from umimill.probe import probe

RECORDS = 1400
RECORD_BYTES = 217


def text_of_records() -> bytes:
    rng = np.random.default_rng(3)
    return fastq_text(
        [(b"r%06d" % number, random_bases(rng, 102), b"I" * 102) for number in range(RECORDS)]
    )


TEXT = text_of_records()


def aligned_blocks() -> list[bytes]:
    """Five blocks, all but the last full of whole records."""
    ends = np.arange(1, RECORDS + 1) * RECORD_BYTES
    assert ends[-1] == len(TEXT)
    return compress_records(np.frombuffer(TEXT, np.uint8), ends)


def refused(path: Path) -> str:
    """Probe what must be refused, which must leave nothing; return what is said."""
    output = path.parent / "out" / "unit.json"
    with pytest.raises(UmimillError) as caught:
        probe([path], [("S1", "^NNNN", None)], output, new_meter("probe"))
    assert not files_below(output.parent)
    return str(caught.value)


# -- BGZF without its end --------------------------------------------------------------------------


def test_bgzf_cut_between_blocks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "reads.fq.gz"
    blocks = aligned_blocks()
    assert len(blocks) == 5
    packed = b"".join(blocks) + EOF_BLOCK
    for stop in list(accumulate(map(len, blocks)))[:-1]:
        path.write_bytes(packed[:stop])
        assert refused(path) == (
            f"{path}: cut short: its last BGZF block is full and no end-of-file block follows; "
            "fetch it again, or if you know that it is whole, pack it anew (zcat OLD | bgzip > NEW)"
        )
    path.write_bytes(packed)
    assert len(read_records([path])) == RECORDS
    # Also behind a whole file; then the file behind it is the one that was cut.
    path.write_bytes(packed + packed[: len(blocks[0])])
    assert "cut short: its last BGZF block is full" in refused(path)


def test_bgzf_of_another_writer_cut_between_blocks(tmp_path: Path) -> None:
    """Its blocks take no heed of records: mostly the cut record shows it, but the cut is named."""
    path = tmp_path / "reads.fq.gz"
    with pysam.BGZFile(str(path), "w") as file:
        file.write(TEXT)
    packed = path.read_bytes()
    assert packed.endswith(EOF_BLOCK)
    assert len(read_records([path])) == RECORDS
    size = int.from_bytes(packed[16:18], "little") + 1
    path.write_bytes(packed[:size])
    assert "cut short: its last BGZF block is full" in refused(path)


@pytest.mark.parametrize(
    "ending",
    [
        [EOF_BLOCK],
        [EOF_BLOCK, EOF_BLOCK],
        [EOF_BLOCK, bytes(1)],
        [EOF_BLOCK, bytes(200_000)],
        # bcl2fastq writes no such block; the last one is not full.
        [],
        [EOF_BLOCK, *aligned_blocks(), EOF_BLOCK],
        [EOF_BLOCK, *aligned_blocks()],
        [EOF_BLOCK, gzip.compress(TEXT)],
        [gzip.compress(TEXT)],
        [gzip.compress(TEXT, 0)],
    ],
)
def test_whole_bgzf_is_taken(tmp_path: Path, ending: list[bytes]) -> None:
    path = tmp_path / "reads.fq.gz"
    path.write_bytes(b"".join(aligned_blocks() + ending))
    assert len(read_records([path])) in (RECORDS, 2 * RECORDS)


def test_bgzf_of_one_block(tmp_path: Path) -> None:
    """Nothing tells how full a short block could be."""
    path = tmp_path / "reads.fq.gz"
    path.write_bytes(compress_block(memoryview(TEXT[: 250 * RECORD_BYTES])))
    assert len(read_records([path])) == 250
    path.write_bytes(compress_block(memoryview(TEXT[: 300 * RECORD_BYTES])))
    assert "cut short: its last BGZF block is full" in refused(path)


def test_the_mate_shows_whether_a_file_is_whole(tmp_path: Path) -> None:
    blocks = aligned_blocks()
    paths = [tmp_path / "R1.fq.gz", tmp_path / "R2.fq.gz"]
    for path in paths:
        path.write_bytes(b"".join(blocks[:2]))
    count = 2 * (65280 // RECORD_BYTES)
    assert len(read_records(paths)) == count
    paths[1].write_bytes(b"".join(blocks))
    assert f"R1.fq.gz ends after {count} records" in refusal(paths).message


def test_other_extra_fields_are_no_bgzf(tmp_path: Path) -> None:
    path = tmp_path / "reads.fq.gz"
    for name in (b"XX\x02\x00", b"BC\x00\x00"):
        block = bytearray(compress_block(memoryview(TEXT[: 300 * RECORD_BYTES])))
        block[12:16] = name
        path.write_bytes(block)
        assert len(read_records([path])) == 300


# -- what follows the gzip data --------------------------------------------------------------------

FOLLOWED = "what follows the gzip data here is of another kind; cut it off, or fetch the file again"


@pytest.mark.parametrize("padding", [0, 1, 511, 70_000])
@pytest.mark.parametrize("rest", [b"m", b"more", b"\x1f\x8c", b"more than ten bytes", TEXT])
@pytest.mark.parametrize("bgzf", [False, True])
def test_what_follows_the_gzip_data_is_named(
    tmp_path: Path, rest: bytes, padding: int, bgzf: bool
) -> None:
    path = tmp_path / "reads.fq.gz"
    packed = b"".join(aligned_blocks()) + EOF_BLOCK if bgzf else gzip.compress(TEXT)
    path.write_bytes(packed + bytes(padding) + rest)
    error = refusal([path])
    assert (place(error), error.message) == (
        (path.name, RECORDS + 1, 4 * RECORDS + 1),
        FOLLOWED,
    )


def test_padding_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "reads.fq.gz"
    packed = gzip.compress(TEXT)
    for padding in (1, 512, 70_000):
        path.write_bytes(packed + bytes(padding))
        assert len(read_records([path])) == RECORDS
        path.write_bytes(packed + bytes(padding) + packed)
        assert len(read_records([path])) == 2 * RECORDS


@pytest.mark.parametrize("rest", [b"\x1f", b"\x1f\x8b", gzip.compress(TEXT, mtime=0)[:-9]])
@pytest.mark.parametrize("padding", [0, 700])
def test_a_member_that_was_begun_is_cut_short(tmp_path: Path, rest: bytes, padding: int) -> None:
    path = tmp_path / "reads.fq.gz"
    path.write_bytes(gzip.compress(TEXT) + bytes(padding) + rest)
    error = refusal([path])
    assert error.record > RECORDS
    assert error.message == "the gzip file is cut short here; fetch it again"


def test_nothing_is_left_where_more_follows(tmp_path: Path) -> None:
    path = tmp_path / "reads.fq.gz"
    path.write_bytes(gzip.compress(TEXT) + b"more")
    assert refused(path).endswith(FOLLOWED)
