"""Measures ISA-L's level 0 beside level 1 as deflate.py makes it: CPU time, size, equal bytes.

    PYTHONPATH=workflow python tests/benchmark/gzip_levels.py S1.fastq.gz [more.fastq.gz ..]

Text is cut into blocks as the workflow cuts it. Both ways take turns in one process; the least of
the rounds counts. The digest, of the blocks of both ways, must be the same on every machine with
the same isal. Other CPU models than the one at hand are asked by

    export PYTHONPATH=workflow
    qemu-x86_64 -cpu Nehalem python tests/benchmark/gzip_levels.py --rounds 1 FASTQ

and Westmere, SandyBridge, Haswell, EPYC.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from isal import igzip_lib

from umimill.bgzf import cut_blocks
from umimill.deflate import RAW, deflate


def level_0(data: memoryview) -> bytes:
    """Deflates as bgzf.py does."""
    return igzip_lib.compress(data, 0, igzip_lib.COMP_DEFLATE)


def level_1(data: memoryview) -> bytes:
    """Deflates as the simulator does."""
    return b"".join(deflate([data], RAW))


WAYS: dict[str, Callable[[memoryview], bytes]] = {"level 0": level_0, "level 1": level_1}


def measure(path: Path, rounds: int, most: int) -> None:
    """Prints a line for each way."""
    text = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8)
    ends = (np.flatnonzero(text == ord("\n"))[3::4] + 1)[:most]
    view = memoryview(text)
    blocks = [view[start:stop] for start, stop in cut_blocks(ends)]
    seconds = dict.fromkeys(WAYS, float("inf"))
    for _ in range(rounds):
        for name, way in WAYS.items():
            start = time.process_time()
            for block in blocks:
                way(block)
            seconds[name] = min(seconds[name], time.process_time() - start)
    for name, way in WAYS.items():
        made = b"".join(map(way, blocks))
        print(
            f"{path.name}: {name}: {seconds[name] / ends.size * 1e6:.3f} us and "
            f"{len(made) / ends.size:.1f} B a record of {int(ends[-1]) / ends.size:.0f} B, "
            f"{ends.size:,} records, digest {hashlib.sha256(made).hexdigest()[:16]}"
        )


def main() -> None:
    """Reads the command line and measures each file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("fastq", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--records", type=int, default=100_000, help="most of a file")
    arguments = parser.parse_args()
    for path in arguments.fastq:
        measure(path, arguments.rounds, arguments.records)


if __name__ == "__main__":
    main()
