"""Files of reads as text: plain, gzip, bzip2, xz or zstd by their content."""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO, Any

from isal import igzip, isal_zlib

from umimill import gzipped
from umimill.errors import UmimillError
from umimill.formats import GZIP, HEAD_BYTES, PLAIN, REFUSED, format_of

# What a reader raises where its data is damaged; an OSError that has a number is of the system.
DAMAGE: tuple[type[Exception], ...] = (
    zlib.error,
    isal_zlib.error,  # type: ignore[assignment]
    lzma.LZMAError,
    OSError,
)
_PIECE_BYTES = 1 << 12


def read_format(path: Path) -> str:
    """Return the format of a file, see formats."""
    with path.open("rb") as file:
        return format_of(file.read(HEAD_BYTES))


def open_text(path: Path) -> IO[bytes]:
    """Open a FASTQ file by its first bytes.

    Raises:
        UmimillError: where the content is of a format that is not read.
    """
    found = read_format(path)
    if found in REFUSED.values():
        raise UmimillError(
            f"{path}: this is {found}; give FASTQ as plain text, gzip, bzip2, xz or zstd"
        )
    if found == PLAIN:
        return path.open("rb", buffering=0)
    openers: dict[str, Callable[[Path], Any]] = {
        GZIP: igzip.open,
        "bzip2": bz2.open,
        "xz": lzma.open,
        "zstd": _Zstd,
    }
    opened: IO[bytes] = openers[found](path)
    return opened


def is_damage(error: Exception) -> bool:
    """Return whether an error of DAMAGE is one of the data."""
    return not isinstance(error, OSError) or error.errno is None


def text_before_damage(path: Path, start: int) -> Generator[bytes, None, bool]:
    """Yield the text of a file from byte `start` up to where it is cut or damaged.

    Returns:
        Whether all packed data is sound, and bytes of another kind follow it.
    """
    if read_format(path) == GZIP:
        return (yield from gzipped.text_before_damage(path, start))
    with open_text(path) as file:
        try:
            # What is there at once: `read` loses it where the rest is missing.
            while piece := getattr(file, "read1", file.read)(_PIECE_BYTES):
                yield piece[min(start, len(piece)) :]
                start = max(0, start - len(piece))
        except DAMAGE:
            pass
        except EOFError:
            pass
    return False


def unpack_head(head: bytes) -> bytes:
    """Return the text of the first bytes of a file, which may end anywhere."""
    found = format_of(head)
    if found == "zstd":
        return _unpack_zstd(head)
    make: Any = {
        GZIP: lambda: isal_zlib.decompressobj(wbits=31),
        "bzip2": bz2.BZ2Decompressor,
        "xz": lzma.LZMADecompressor,
    }.get(found)
    pieces = []
    while make and format_of(head) == found:
        member = make()
        try:
            pieces.append(member.decompress(head))
        except DAMAGE:
            break
        head = member.unused_data
    return b"".join(pieces) if make else head


def _unpack_zstd(head: bytes) -> bytes:
    import pyarrow

    text = b""
    with pyarrow.input_stream(pyarrow.BufferReader(head), compression="zstd") as file:
        try:
            while piece := file.read(_PIECE_BYTES):
                text += piece
        except OSError:
            pass
    return text


class _Zstd(io.RawIOBase):
    """Reads a zstd file; pyarrow is loaded for it alone."""

    def __init__(self, path: Path) -> None:
        import pyarrow

        self._stream = pyarrow.input_stream(str(path), compression="zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count: int = self._stream.readinto(buffer)
        except OSError as error:
            if "Truncated" in str(error):
                raise EOFError(str(error)) from error
            raise
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()
