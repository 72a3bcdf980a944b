"""BGZF out: blocks that end where the caller says, the same bytes on every machine.

Compared between models of x86-64 from SSE 4.2 on, without which numpy does not run; not on aarch64.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from isal import igzip_lib, isal_zlib

# Levels 1 and 2 are not safe as they are (see deflate.py), and level 3 gives other bytes on other
# CPU models. Level 1 made safe takes 12% fewer bytes but 29% more CPU time (consensus of the q4
# corpus: 53.6 B and 0.395 us a record, level 0: 60.8 B and 0.307 us). How to measure that, and how
# bytes were compared between CPU models, is in tests/benchmark/gzip_levels.py.
LEVEL = 0
# What htslib puts into a block at most: deflate can then not outgrow the 64 kB of its length field.
BLOCK_BYTES = 65280
EOF_BLOCK = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")

# gzip magic, deflate, extra field; time 0; no flags of the compressor; unknown system; extra field
# of 6 bytes: "BC", 2 bytes, block size less 1.
_HEADER = struct.Struct("<4BI2BH2BHH")
_STORED = struct.Struct("<BHH")
_TRAILER = struct.Struct("<II")


def compress_block(data: memoryview) -> bytes:
    """Return `data`, at most 65,280 bytes, as one BGZF block."""
    body = igzip_lib.compress(data, LEVEL, igzip_lib.COMP_DEFLATE)
    if len(body) > len(data) + _STORED.size:
        # What does not compress would outgrow a block: stored as it is.
        body = _STORED.pack(1, len(data), 0xFFFF - len(data)) + bytes(data)
    size = _HEADER.size + len(body) + _TRAILER.size
    header = _HEADER.pack(0x1F, 0x8B, 8, 4, 0, 0, 0xFF, 6, 66, 67, 2, size - 1)
    return b"".join((header, body, _TRAILER.pack(isal_zlib.crc32(data), len(data))))


def cut_blocks(ends: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield where blocks start and stop: as full as whole records make them.

    Args:
        ends: i64[records], where each record ends. One longer than a block is cut.
    """
    start = 0
    total = int(ends[-1]) if ends.size else 0
    while start < total:
        last = int(np.searchsorted(ends, start + BLOCK_BYTES, side="right")) - 1
        stop = int(ends[last]) if last >= 0 else 0
        if stop <= start:
            stop = min(start + BLOCK_BYTES, total)
        yield start, stop
        start = stop


def compress_records(text: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> list[bytes]:
    """Compress records to blocks, none of which cuts a record that fits into one.

    Args:
        text: u8[*], records one after the other.
        ends: i64[records], where each ends.

    Returns:
        Blocks; the bytes depend on the records alone.
    """
    view = memoryview(text)
    return [compress_block(view[start:stop]) for start, stop in cut_blocks(ends)]
