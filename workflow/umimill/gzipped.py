"""How a gzip file is broken."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Generator
from pathlib import Path

from umimill.bgzf import BLOCK_BYTES, EOF_BLOCK
from umimill.errors import UmimillError

GZIP_MAGIC = b"\x1f\x8b"
# gzip with an extra field, which begins with the size of the block.
_BGZF_MAGIC = b"\x1f\x8b\x08\x04"
_BGZF_SIZE = struct.Struct("<2sHH")
_BGZF_SIZE_AT = 12
_BGZF_HEADER_BYTES = 18
_MOST_BLOCK_BYTES = 1 << 16
# Blocks that end with a record are not quite full.
_FULL_SHARE = 0.99


def text_before_damage(path: Path, start: int) -> Generator[bytes, None, bool]:
    """Yield the text of a gzip file from byte `start` up to where it is cut or damaged.

    Returns:
        Whether all gzip data is sound, and bytes of another kind follow it.
    """
    inflater = zlib.decompressobj(31)
    with path.open("rb") as file:
        while data := file.read(1 << 16):
            while data:
                if inflater.eof:
                    # Zeros pad files and members.
                    data = data.lstrip(b"\0")
                    if data and not data.startswith(GZIP_MAGIC[: len(data)]):
                        return True
                    if not data:
                        break
                    inflater = zlib.decompressobj(31)
                try:
                    piece = inflater.decompress(data)
                except zlib.error:
                    return False
                yield piece[min(start, len(piece)) :]
                start = max(0, start - len(piece))
                data = inflater.unused_data
    return False


def check_end(path: Path) -> None:
    """Refuse a BGZF file that was cut between two blocks.

    That the end-of-file block is missing is no proof: Illumina's bcl2fastq writes none, so htslib
    warns and goes on. Then the last block is full, as all but the last of a whole file are.

    Raises:
        UmimillError: where both hold.
    """
    with path.open("rb") as file:
        head = file.read(_BGZF_HEADER_BYTES)
        size = _block_size(head)
        if size is None:
            return
        file.seek(max(0, size - 4))
        first = int.from_bytes(file.read(4), "little")
        stop = file.seek(0, os.SEEK_END)
        file.seek(max(0, stop - _MOST_BLOCK_BYTES))
        tail = file.read()
    if tail.rstrip(b"\0").endswith(EOF_BLOCK.rstrip(b"\0")):
        return
    start = tail.rfind(_BGZF_MAGIC)
    while start >= 0 and _block_size(tail[start:]) != len(tail) - start:
        start = tail.rfind(_BGZF_MAGIC, 0, start)
    if start < 0:
        # It ends inside a block, which is found where it is read.
        return
    full = BLOCK_BYTES if size == stop else first
    if int.from_bytes(tail[-4:], "little") >= _FULL_SHARE * full:
        raise UmimillError(
            f"{path}: cut short: its last BGZF block is full and no end-of-file block follows; "
            "fetch it again, or if you know that it is whole, pack it anew (zcat OLD | bgzip > NEW)"
        )


def _block_size(data: bytes) -> int | None:
    """Return the size of the BGZF block that data begins with, None where it is none."""
    if len(data) < _BGZF_HEADER_BYTES or not data.startswith(_BGZF_MAGIC):
        return None
    name, length, size = _BGZF_SIZE.unpack_from(data, _BGZF_SIZE_AT)
    return int(size) + 1 if (name, length) == (b"BC", 2) else None
