"""Files of reads packed in other ways than gzip, whole, cut and damaged."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from stage_fixture import fastq_text, read_records
from umimill.errors import FastqError
from umimill.estimate import Wanted, estimate
from umimill.formats import format_of
from umimill.packed import open_text, unpack_head

RECORDS = [(b"r%d" % number, b"ACGTACGTAC" * 5, b"IIFIF,FIFI" * 5) for number in range(9000)]
TEXT = fastq_text(RECORDS)


def pack_zstd(text: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(text, asbytes=True))


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": lambda text: gzip.compress(text, 1),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": pack_zstd,
}
PACKED = [name for name in PACKERS if name != "plain"]


def write(folder: Path, data: bytes) -> Path:
    # A name that says something else.
    path = folder / "reads.fastq.gz"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("name", PACKERS)
def test_reads_are_those_of_the_text(tmp_path: Path, name: str, members: int) -> None:
    size = -(-len(TEXT) // members)
    pieces = [TEXT[start : start + size] for start in range(0, len(TEXT), size)]
    data = b"".join(map(PACKERS[name], pieces))
    assert format_of(data) == name
    path = write(tmp_path, data)
    with open_text(path) as file:
        assert file.read() == TEXT
    expected = [(record,) for record in RECORDS]
    assert read_records([path]) == expected
    assert read_records([path], buffer_bytes=3000, chunk_records=7) == expected
    assert unpack_head(data) == TEXT
    found = estimate([Wanted([[str(path)]], 1, small=False)], 0, tmp_path / "estimate.json")
    assert (found["templates"], found["plain_bytes"]) == (9000, len(TEXT))


@pytest.mark.parametrize("name", PACKED)
def test_a_cut_file_is_refused_where_it_ends(tmp_path: Path, name: str) -> None:
    data = PACKERS[name](TEXT)
    for stop in (len(data) // 2, len(data) - 1):
        path = write(tmp_path, data[:stop])
        with pytest.raises(FastqError) as caught:
            read_records([path])
        assert caught.value.message == f"the {name} file is cut short here; fetch it again"
        # All that could be read of it was.
        assert caught.value.record == unpack_head(data[:stop]).count(b"\n") // 4 + 1


@pytest.mark.parametrize("name", ["bzip2", "xz"])
def test_a_damaged_file_is_refused(tmp_path: Path, name: str) -> None:
    """zstd files have a checksum where they were made with one; bzip2 has one behind each block."""
    data = bytearray(PACKERS[name](TEXT))
    data[len(data) // 2] ^= 0x55
    with pytest.raises(FastqError) as caught:
        read_records([write(tmp_path, bytes(data))])
    if name == "xz":
        assert f"the {name} data is damaged here or before" in caught.value.message
        assert "fetch it again" in caught.value.message


def test_errors_of_the_system_are_no_damage(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_records([tmp_path / "gone.fastq"])
    with pytest.raises(IsADirectoryError):
        read_records([tmp_path])
