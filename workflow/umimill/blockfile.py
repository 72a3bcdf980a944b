"""The container of every intermediate file: named arrays one after the other, then a directory.

    head (8 bytes) | array | array | ... | page checksums | directory (JSON) | footer (20 bytes)

The directory at the end makes a file writable in one pass and unreadable unless whole. All before
the checksums is checksummed in pages of 64 kB, so that a range is verified without reading more.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from umimill.closing import Closing
from umimill.errors import UmimillError
from umimill.files import temporary_path

PAGE_BYTES = 1 << 16
_HEAD = b"umimill\x00"
_TAIL = b"umimill\x01"
_FOOTER = struct.Struct("<QI8s")

Bytes = npt.NDArray[np.uint8]


class BlockWriter(Closing):
    """Writes a block file under a temporary name; `finish` gives it its own.

    Args:
        path: final name.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = temporary_path(path)
        self._file = self._temporary.open("wb", buffering=1 << 20)
        self._arrays: dict[str, dict[str, Any]] = {}
        self._pages: list[int] = []
        self._page_fill = 0
        self._page_crc = 0
        self.offset = 0
        self.append_bytes(_HEAD)

    def close(self) -> None:
        """Close the file, and remove it unless it is finished."""
        self._file.close()
        self._temporary.unlink(missing_ok=True)

    def append_bytes(self, data: bytes | memoryview) -> int:
        """Append raw bytes and return where they start."""
        start = self.offset
        view = memoryview(data).cast("B")
        self._file.write(view)
        self.offset += len(view)
        while len(view):
            part = view[: PAGE_BYTES - self._page_fill]
            self._page_crc = isal_zlib.crc32(part, self._page_crc)
            self._page_fill += len(part)
            if self._page_fill == PAGE_BYTES:
                self._pages.append(self._page_crc)
                self._page_fill = self._page_crc = 0
            view = view[len(part) :]
        return start

    def append(self, array: npt.NDArray[Any]) -> int:
        """Append an array's bytes, 8-byte aligned, and return where they start."""
        self.append_bytes(bytes(-self.offset % 8))
        if not array.size:
            return self.offset
        return self.append_bytes(memoryview(np.ascontiguousarray(array).view(np.uint8).reshape(-1)))

    def read_back(self, offset: int, count: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return `count` values that were appended from `offset` on."""
        self._file.flush()
        return np.fromfile(self._temporary, dtype, count, offset=offset)

    def add(self, name: str, array: npt.NDArray[Any]) -> None:
        """Append an array and list it in the directory."""
        self.list_array(name, self.append(array), array.shape, array.dtype)

    def list_array(
        self, name: str, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        """List bytes that were appended as an array."""
        description = dtype.descr if dtype.names else dtype.str
        self._arrays[name] = {"offset": offset, "shape": list(shape), "dtype": description}

    def finish(self, header: Mapping[str, Any]) -> None:
        """Write checksums and directory, flush to disk, and rename to the final name."""
        if self._page_fill:
            self._pages.append(self._page_crc)
        data_bytes = self.offset
        pages = np.array(self._pages, np.uint32).tobytes()
        directory = json.dumps(
            {
                "data_bytes": data_bytes,
                "pages_crc32": isal_zlib.crc32(pages),
                "arrays": self._arrays,
                "header": header,
            },
            sort_keys=True,
        ).encode()
        self._file.write(pages)
        self._file.write(directory)
        self._file.write(_FOOTER.pack(len(directory), isal_zlib.crc32(directory), _TAIL))
        self._file.close()
        self._temporary.replace(self._path)


class BlockFile(Closing):
    """Reads a block file; every byte handed out was checked.

    Args:
        path: file.

    Raises:
        UmimillError: where it is missing, cut or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError as error:
            raise UmimillError(
                f"{path}: missing; run again with --rerun-incomplete, or delete the rest of its "
                "folder to make it anew"
            ) from error
        try:
            self._read_directory()
        except (ValueError, KeyError, TypeError, OverflowError, OSError, struct.error) as error:
            self.close()
            raise self._damaged("its end is missing or damaged") from error

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _damaged(self, what: str) -> UmimillError:
        return UmimillError(f"{self.path}: {what}; delete it and run again")

    def _read_directory(self) -> None:
        size = os.fstat(self._descriptor).st_size
        footer = os.pread(self._descriptor, _FOOTER.size, max(0, size - _FOOTER.size))
        length, crc, tail = _FOOTER.unpack(footer)
        if tail != _TAIL or length > size:
            raise ValueError("no footer")
        text = os.pread(self._descriptor, length, size - _FOOTER.size - length)
        if isal_zlib.crc32(text) != crc:
            raise ValueError("directory checksum")
        directory = json.loads(text)
        data_bytes = int(directory["data_bytes"])
        count = -(-data_bytes // PAGE_BYTES)
        pages = os.pread(self._descriptor, 4 * count, data_bytes)
        if isal_zlib.crc32(pages) != directory["pages_crc32"]:
            raise ValueError("page checksums")
        self._pages = np.frombuffer(pages, np.uint32)
        self._data_bytes = data_bytes
        self._arrays = directory["arrays"]
        self.header: dict[str, Any] = directory["header"]

    def read_bytes(self, start: int, stop: int, scratch: Bytes) -> tuple[Bytes, Bytes]:
        """Read and verify a byte range.

        Args:
            start: first byte.
            stop: end.
            scratch: u8[*], reused if it is large enough.

        Returns:
            (the bytes, a view of the scratch buffer; the scratch buffer, maybe a larger one).
        """
        first = start // PAGE_BYTES
        last = -(-stop // PAGE_BYTES)
        page_start = first * PAGE_BYTES
        page_stop = min(last * PAGE_BYTES, self._data_bytes)
        wanted = max(0, page_stop - page_start)
        if scratch.size < wanted + 64:
            scratch = np.zeros(wanted + wanted // 4 + 64, np.uint8)
        view = memoryview(scratch)[:wanted]
        done = 0
        while done < wanted:
            count = os.preadv(self._descriptor, [view[done:]], page_start + done)
            if count == 0:
                raise self._damaged("it is shorter than it says")
            done += count
        for page in range(first, last):
            part = view[(page - first) * PAGE_BYTES : (page - first + 1) * PAGE_BYTES]
            if isal_zlib.crc32(part) != self._pages[page]:
                raise self._damaged(f"the 64 kB at byte {page * PAGE_BYTES:,} are damaged")
        return scratch[start - page_start : stop - page_start], scratch

    def _entry(self, name: str) -> tuple[int, tuple[int, ...], np.dtype[Any]]:
        entry = self._arrays[name]
        description = entry["dtype"]
        if isinstance(description, list):
            description = [tuple(field) for field in description]
        return int(entry["offset"]), tuple(entry["shape"]), np.dtype(description)

    def length(self, name: str) -> int:
        """Return the first dimension of an array."""
        return self._entry(name)[1][0]

    def read(self, name: str, start: int = 0, stop: int | None = None) -> npt.NDArray[Any]:
        """Return rows [start, stop) of an array as a copy."""
        offset, shape, dtype = self._entry(name)
        stop = shape[0] if stop is None else min(stop, shape[0])
        width = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        data, _ = self.read_bytes(
            offset + start * width, offset + stop * width, np.zeros(0, np.uint8)
        )
        return data.copy().view(dtype).reshape(stop - start, *shape[1:])


class ArrayReader:
    """Reads rows of an array one after the other, and looks ahead.

    Args:
        file: file that holds it.
        name: the array.
        start: first row.
        stop: behind the last one; None is the end of the array.
    """

    def __init__(self, file: BlockFile, name: str, start: int = 0, stop: int | None = None) -> None:
        self._file = file
        self._name = name
        self._row = start
        self._stop = file.length(name) if stop is None else stop
        self._held = file.read(name, start, start)

    def ahead(self, rows: int) -> npt.NDArray[Any]:
        """Return the next rows, `rows` or all that are left, as the first of those held."""
        missing = min(rows - self._held.shape[0], self._stop - self._row)
        if missing > 0:
            more = self._file.read(self._name, self._row, self._row + missing)
            self._held = np.concatenate([self._held, more])
            self._row += missing
        return self._held

    def skip(self, rows: int) -> None:
        """Go on behind so many of the rows held."""
        self._held = self._held[rows:]

    @property
    def left(self) -> int:
        """Rows that are left."""
        return len(self._held) + self._stop - self._row
