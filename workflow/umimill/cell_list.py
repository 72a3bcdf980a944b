"""The list of a library's cell barcodes: read once from its text, then looked up by all jobs."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from umimill.blockfile import BlockFile, BlockWriter
from umimill.errors import UmimillError
from umimill.fastq import base_codes
from umimill.kernels import cell_list as kernels
from umimill.kernels.cell_list import CellList
from umimill.metrics import Meter
from umimill.packed import open_text
from umimill.sheets import show

READ_BYTES = 1 << 22
# A line of a list has a few dozen letters; a file of reads given by mistake must not be loaded.
MOST_LINE_BYTES = 1 << 12
# About a slot a barcode; more than 2^24 slots would be larger than the list.
MOST_SLOT_BITS = 24

CELL_COUNT = np.dtype([("cell", "<u4"), ("reads", "<u4"), ("sample", "<u2"), ("padding", "<u2")])

Array = npt.NDArray[Any]


def list_cells(text: Path, length: int, output: Path, meter: Meter) -> None:
    """Read a list of cell barcodes into a file that jobs look barcodes up in.

    Args:
        text: one barcode a line, plain or packed.
        length: bases of a cell barcode in the layouts of the library.
        output: file to write.
        meter: metrics of the job.

    Raises:
        UmimillError: naming file and line of what is wrong.
    """
    parts = [np.empty(0, np.uint64)]
    place = np.zeros(3, np.int64)
    for lines in _whole_lines(text):
        keys = np.empty(lines.size // length + 2, np.uint64)
        place[1] = 0
        fault = kernels.parse_barcodes(lines, lines.size, base_codes(), length, keys, place)
        if fault != kernels.GOOD:
            raise _fault(text, fault, lines[int(place[2]) :], int(place[0]) + 1, length)
        parts.append(keys[: int(place[1])].copy())
    keys = np.concatenate(parts)
    if not keys.size:
        raise UmimillError(f"{text}: has no barcode; give a list, one barcode a line")
    cells = np.unique(keys)
    meter.counters["cells"] = cells.size
    meter.counters["cells_repeated"] = keys.size - cells.size
    with BlockWriter(output) as writer:
        writer.add("cells", cells)
        writer.finish({"length": length})
        meter.written_bytes = writer.offset


def read_cell_list(path: Path) -> CellList:
    """Read what `list_cells` wrote, and make its index."""
    with BlockFile(path) as file:
        return make_cell_list(file.read("cells"), int(file.header["length"]))


def make_cell_list(cells: npt.NDArray[np.uint64], length: int) -> CellList:
    """Index ascending barcodes, u64[n], of `length` bases."""
    bits = max(1, min(MOST_SLOT_BITS, 2 * length, int(cells.size).bit_length()))
    starts = np.zeros((1 << bits) + 1, np.uint32)
    kernels.fill_starts(cells, 64 - bits, starts)
    return CellList(cells, starts, np.array([64 - bits]), np.array([length]))


def list_bytes(listed: CellList) -> int:
    """Return the memory that a list takes."""
    return int(listed.cells.nbytes + listed.starts.nbytes)


def _whole_lines(path: Path) -> Iterator[Array]:
    """Yield the text of a file in pieces of whole lines, u8[*].

    Raises:
        UmimillError: where it cannot be read as lines.
    """
    rest = b""
    with open_text(path) as file:
        while data := _read(file, path):
            data = rest + data
            # A carriage return at the end may be the half of an end of line.
            end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1
            if len(data) - end > MOST_LINE_BYTES:
                raise UmimillError(
                    f"{path}: has a line of more than {MOST_LINE_BYTES:,} letters, so it is no "
                    "list of cell barcodes; check the path"
                )
            rest = data[end:]
            if end:
                yield np.frombuffer(data, np.uint8, end)
    if rest:
        yield np.frombuffer(rest, np.uint8)


def _read(file: IO[bytes], path: Path) -> bytes:
    try:
        return file.read(READ_BYTES)
    except (EOFError, OSError, zlib.error, isal_zlib.error) as error:  # type: ignore[misc]
        raise UmimillError(f"{path}: its gzip data is cut or damaged; fetch it again") from error


def _fault(path: Path, fault: int, rest: Array, line: int, length: int) -> UmimillError:
    text = bytes(rest[:MOST_LINE_BYTES]).replace(b"\r", b"\n").split(b"\n")[0].strip()
    shown = show(text.decode("utf-8", "replace"))
    if fault == kernels.OTHER_LENGTH:
        bases = len(text.rsplit(b"-")[0])
        found = f"has {bases} bases, but cell barcodes of this library have {length}"
        remedy = "give the list of its chemistry, or mend the layout"
    else:
        found, remedy = "is no barcode of A, C, G and T", "give one barcode a line and nothing else"
    return UmimillError(f"{path}, line {line:,}: {shown} {found}; {remedy}")
