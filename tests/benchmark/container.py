"""Measures the two candidates for the container of intermediate files: block file and Arrow IPC.

    PYTHONPATH=workflow python tests/benchmark/container.py

Writes and reads the arrays of a flush of 500,000 rows (hot records of 32 bytes, 12 barcode
qualities, 48 bytes of cold words), each in a process of its own: CPU seconds of importing, of
writing and of reading all of it with its checks, and peak memory. Best of five.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS = 500_000


def arrays() -> dict[str, object]:
    """Makes the three arrays of a flush."""
    import numpy as np

    random = np.random.Generator(np.random.PCG64(1))
    return {
        "hot": random.integers(0, 1 << 62, ROWS * 4, np.int64),
        "barcode_quality": random.integers(2, 41, ROWS * 12, np.uint8),
        "cold": random.integers(0, 1 << 62, ROWS * 6, np.int64),
    }


def run_blockfile(path: Path) -> tuple[float, float, float]:
    """Writes and reads a block file."""
    start = time.process_time()
    from umimill.blockfile import BlockFile, BlockWriter

    imported = time.process_time()
    data = arrays()
    begin = time.process_time()
    with BlockWriter(path) as writer:
        for name, array in data.items():
            writer.add(name, array)
        writer.finish({})
    written = time.process_time()
    with BlockFile(path) as file:
        for name in data:
            file.read(name)
    return imported - start, written - begin, time.process_time() - written


def run_arrow(path: Path) -> tuple[float, float, float]:
    """Writes and reads an Arrow IPC file; it has no checksums."""
    start = time.process_time()
    import pyarrow as pa

    imported = time.process_time()
    data = arrays()
    begin = time.process_time()
    widths = {"hot": 32, "barcode_quality": 12, "cold": 48}
    columns = [
        pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(widths[name]), ROWS, [None, pa.py_buffer(array)]
        )
        for name, array in data.items()
    ]
    table = pa.table(columns, names=list(data))
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    written = time.process_time()
    with pa.OSFile(str(path), "rb") as source:
        pa.ipc.open_file(source).read_all()
    return imported - start, written - begin, time.process_time() - written


def main() -> None:
    """Prints a table."""
    print("container\timport_seconds\twrite_seconds\tread_seconds\tpeak_rss_mb")
    for name in ("blockfile", "arrow"):
        rounds = []
        for _ in range(5):
            output = subprocess.run(
                [sys.executable, __file__, name], check=True, capture_output=True, text=True
            ).stdout
            rounds.append([float(value) for value in output.split()])
        best = [min(column) for column in zip(*rounds, strict=True)]
        print(name, *(f"{value:.3f}" for value in best), sep="\t")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        with tempfile.TemporaryDirectory() as folder:
            kind = run_blockfile if sys.argv[1] == "blockfile" else run_arrow
            times = kind(Path(folder) / "file")
        status = Path("/proc/self/status").read_text()
        peak = int(status.split("VmHWM:")[1].split()[0]) / 1e3
        print(*times, peak)
    else:
        main()
