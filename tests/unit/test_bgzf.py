"""BGZF: blocks that any reader takes, cut between records alone."""

import gzip
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pysam
from hypothesis import given
from hypothesis import strategies as st

from stage_fixture import fastq_text, random_bases, slow_settings
from umimill.bgzf import BLOCK_BYTES, EOF_BLOCK, compress_block, compress_records


def text_of(
    lengths: list[int], seed: int = 1
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    parts = [random_bases(rng, length, b"ACGTIF#\n") for length in lengths]
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    return np.frombuffer(b"".join(parts), np.uint8), ends


def contents(blocks: list[bytes]) -> list[bytes]:
    """Unpack blocks one by one by zlib, and check their headers by the specification."""
    found = []
    for block in blocks:
        assert block[:4] == b"\x1f\x8b\x08\x04"
        assert block[4:8] == bytes(4), "no time"
        assert block[9] == 255, "unknown system"
        assert struct.unpack("<H2sHH", block[10:18]) == (6, b"BC", 2, len(block) - 1)
        assert len(block) <= 1 << 16
        found.append(gzip.decompress(block))
    return found


@slow_settings(60)
@given(
    st.lists(
        st.integers(0, 4000)
        | st.sampled_from([BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 150_000]),
        max_size=30,
    )
)
def test_blocks_are_cut_between_records(lengths: list[int]) -> None:
    text, ends = text_of(lengths)
    parts = contents(compress_records(text, ends))
    assert b"".join(parts) == text.tobytes()
    assert all(0 < len(part) <= BLOCK_BYTES for part in parts)
    starts = {0, *ends.tolist()}
    inside = [
        (start, stop) for start, stop in pairwise([0, *ends.tolist()]) if stop - start > BLOCK_BYTES
    ]
    at = 0
    for part in parts:
        at += len(part)
        assert at in starts or any(start < at < stop for start, stop in inside)


def test_blocks_are_as_full_as_records_allow() -> None:
    text, ends = text_of([100] * 3000)
    sizes = [len(part) for part in contents(compress_records(text, ends))]
    assert sizes == [65_200] * 4 + [39_200]


def test_no_records() -> None:
    assert compress_records(np.empty(0, np.uint8), np.empty(0, np.int64)) == []
    # Records that were left out end where the one before them ends.
    text, _ = text_of([50])
    assert contents(compress_records(text, np.array([0, 50, 50, 50]))) == [text.tobytes()]


def test_bytes_depend_on_the_records_alone() -> None:
    """Not on where they lie in memory, nor on what was compressed before."""
    text, ends = text_of([300] * 700)
    first = compress_records(text, ends)
    moved = np.concatenate([np.zeros(13, np.uint8), text])[13:]
    compress_records(*text_of([77] * 50, seed=2))
    assert compress_records(moved, ends) == first
    for block in first:
        assert compress_block(memoryview(gzip.decompress(block))) == block


def test_what_does_not_compress_fits_a_block() -> None:
    noise = np.random.default_rng(3).integers(0, 256, BLOCK_BYTES, np.uint8)
    (block,) = compress_records(noise, np.array([BLOCK_BYTES]))
    assert contents([block]) == [noise.tobytes()]


def test_empty_and_end_of_file_block() -> None:
    assert gzip.decompress(compress_block(memoryview(b""))) == b""
    # As the SAM specification prints it.
    assert EOF_BLOCK.hex(" ") == (
        "1f 8b 08 04 00 00 00 00 00 ff 06 00 42 43 02 00 1b 00 03 00 00 00 00 00 00 00 00 00"
    )


def test_others_read_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    records = [
        (b"m%d" % number, random_bases(rng, 150), random_bases(rng, 150, b"IF:#"))
        for number in range(2000)
    ]
    text = fastq_text(records)
    ends = np.cumsum([len(fastq_text([record])) for record in records])
    blocks = compress_records(np.frombuffer(text, np.uint8), ends)
    assert len(blocks) > 5
    path = tmp_path / "out.fastq.gz"
    path.write_bytes(b"".join(blocks) + EOF_BLOCK)
    assert gzip.decompress(path.read_bytes()) == text
    with pysam.FastxFile(str(path)) as file:
        found = [(one.name.encode(), one.sequence.encode(), one.quality.encode()) for one in file]
    assert found == records
    with pysam.BGZFile(str(path)) as file:
        assert file.read(len(text) + 1) == text
        # A block is found by its offset alone.
        file.seek(sum(map(len, blocks[:3])) << 16)
        assert file.read(100) == gzip.decompress(blocks[3])[:100]
