"""Other tools as contestants: migec and umi_tools, run as programs on the same reads.

migec comes with the test environment. umi_tools is the program that UMIMILL_UMI_TOOLS names, which
scripts/umi_tools.sh compiles.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pysam

from accuracy.contestants import Contestant, Integers, Task
from accuracy.scores import DROPPED

MIGEC_VERSION = "2.5.1"
UMI_TOOLS_VERSION = "1.1.6"
# Raised where they are run in another way, so that kept scores are got again.
WAY = 1
METHODS = ("directional", "adjacency", "cluster", "unique", "percentile")
RECORD_LINES = 4
READ_NAME = 10  # r and nine digits


def run(command: Sequence[str | Path], **environment: str) -> str:
    """Run a program and return what it printed.

    Raises:
        RuntimeError: where it fails, with its last lines.
    """
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()[-5:]
        raise RuntimeError(f"{' '.join(map(str, command))}: " + " | ".join(said))
    return done.stdout


def fastq_lines(path: Path) -> list[bytes]:
    """Return the lines of a FASTQ file in gzip."""
    return gzip.decompress(path.read_bytes()).splitlines()


def number_of(name: bytes) -> int:
    """Return the number of a read from its name line."""
    return int(name[2 : 1 + READ_NAME])


def number_labels(reads: Sequence[int], keys: Sequence[bytes], total: int) -> Integers:
    """Return the labels of all reads from those of some."""
    labels = np.full(total, DROPPED)
    if reads:
        labels[np.array(reads)] = np.unique(np.array(keys), return_inverse=True)[1]
    return labels


class Migec:
    """migec checkout and refine, as they are set: reads with one corrected barcode are one.

    Args:
        assemble: run migec assemble as well, which splits some of these. It does not say which read
            went where, so a read of a group that was split goes to the consensus it differs least
            from.
        quality: let it use the qualities of the barcode. Where they are worse than they say, as
            with flat qualities, it is better without.
    """

    def __init__(self, *, assemble: bool = False, quality: bool = True) -> None:
        self.name = "migec refine" + ("+assemble" if assemble else "")
        self.version = f"{MIGEC_VERSION}, way {WAY}"
        self.name += "" if quality else ", no quality"
        self.program = Path(sys.executable).with_name("migec")
        self._assemble = assemble
        self._options = [] if quality else ["--no-quality"]

    def missing(self) -> str:
        """Say where there can be none."""
        if platform.machine() != "x86_64":
            return "migec has wheels for x86_64 alone"
        return "" if self.program.exists() else "the test environment has no migec"

    def label(self, task: Task) -> Integers:
        """Read the barcodes out of the files that refine wrote."""
        refined = self._refine(task)
        lines = fastq_lines(refined)
        reads = [number_of(name) for name in lines[::RECORD_LINES]]
        keys = [barcode(name) for name in lines[::RECORD_LINES]]
        if self._assemble:
            keys = self._split(task, refined, keys, lines[1::RECORD_LINES])
        return number_labels(reads, keys, task.reads)

    def error_rate(self, task: Task) -> float:
        """Read the summary of refine."""
        summary = json.loads((task.folder / "refine" / "refine.json").read_text())
        return float(summary["estimated_error"])

    def _refine(self, task: Task) -> Path:
        rows, checked = task.folder / "barcodes.tsv", task.folder / "checkout"
        rows.write_text(f"S1\t{task.layout}\n")
        run([self.program, "checkout", task.fastq, "-b", rows, "-o", checked, "-t", "1"])
        refined = task.folder / "refine"
        source = checked / "S1.fq.gz"
        run([self.program, "refine", source, "-o", refined, "-t", "1", *self._options])
        return refined / "S1.fq.gz"

    def _split(
        self, task: Task, refined: Path, keys: list[bytes], bases: Sequence[bytes]
    ) -> list[bytes]:
        """Give the reads of each group with several consensuses the number of the nearest one."""
        assembled = task.folder / "assemble"
        run([self.program, "assemble", refined, "-o", assembled, "-t", "1"])
        lines = fastq_lines(assembled / "S1.consensus.fq.gz")
        several: dict[bytes, list[bytes]] = {}
        for name, sequence in zip(lines[::RECORD_LINES], lines[1::RECORD_LINES], strict=True):
            several.setdefault(barcode(name), []).append(sequence)
        several = {key: found for key, found in several.items() if len(found) > 1}
        keys = list(keys)
        for row, key in enumerate(keys):
            if key in several:
                distance = [differences(bases[row], sequence) for sequence in several[key]]
                keys[row] = key + b".%d" % distance.index(min(distance))
        return keys


def barcode(name: bytes) -> bytes:
    """Return cell and UMI of a name line's tags, as they were corrected."""
    tags = {tag[:2]: tag[5:] for tag in name.replace(b" ", b"\t").split(b"\t")[1:]}
    return tags.get(b"CB", b"") + b"." + tags[b"RX"]


def differences(one: bytes, other: bytes) -> float:
    """Return the share of bases that differ where both have any."""
    length = min(len(one), len(other))
    pair = (np.frombuffer(text, np.uint8, length) for text in (one, other))
    return float(np.not_equal(*pair).mean()) if length else 0.0


class UmiTools:
    """umi_tools group on reads that all lie at one place, or at one place a clone.

    Args:
        method: one of METHODS.
        aligned: whether it gets to know the clone, as the place of the read.
    """

    def __init__(self, method: str = "directional", *, aligned: bool = False) -> None:
        self.name = f"umi_tools {method}" + (", aligned" if aligned else "")
        self.version = f"{UMI_TOOLS_VERSION}, way {WAY}"
        self._method = method
        self._aligned = aligned
        self.program = os.environ.get("UMIMILL_UMI_TOOLS")

    def missing(self) -> str:
        """Say where it is not installed."""
        if self.program:
            return ""
        return f"umi_tools {UMI_TOOLS_VERSION} is not here; run scripts/umi_tools.sh"

    def label(self, task: Task) -> Integers:
        """Write an alignment and read the groups."""
        assert self.program is not None
        alignment, groups = task.folder / "reads.bam", task.folder / "groups.tsv"
        write_alignment(task, alignment, aligned=self._aligned)
        options = ["--extract-umi-method", "tag", "--umi-tag", "RX", "--method", self._method]
        if "X" in task.layout:
            options += ["--per-cell", "--cell-tag", "CB"]
        run(
            [
                self.program, "group", "-I", alignment, "--group-out", groups, *options,
                "--random-seed", str(task.seed), "-L", task.folder / "log",
            ],
            PYTHONHASHSEED="0",
        )  # fmt: skip
        header, *rows = [line.split(b"\t") for line in groups.read_bytes().splitlines()]
        read, group = header.index(b"read_id"), header.index(b"unique_id")
        return number_labels(
            [int(row[read][1:READ_NAME]) for row in rows], [row[group] for row in rows], task.reads
        )

    def error_rate(self, task: Task) -> float:
        """It has none."""
        return math.nan


def write_alignment(task: Task, path: Path, *, aligned: bool) -> None:
    """Write the barcodes as a sorted, indexed BAM file, a contig a place and one base a read."""
    place = task.place if aligned else np.zeros(task.reads, np.int64)
    symbols = np.frombuffer(task.layout.removeprefix("^").encode(), np.uint8)
    lines = fastq_lines(task.fastq)
    names = [name[1:].split()[0].decode() for name in lines[::RECORD_LINES]]
    heads = b"".join(line[: symbols.size] for line in lines[1::RECORD_LINES])
    bases = np.frombuffer(heads, np.uint8).reshape(task.reads, -1)
    tags = []
    for tag, symbol in (("RX", "N"), ("CB", "X")):
        columns = np.flatnonzero(symbols == ord(symbol))
        if columns.size:
            texts = np.ascontiguousarray(bases[:, columns]).view(f"S{columns.size}").reshape(-1)
            tags.append([f"\t{tag}:Z:{text.decode()}" for text in texts.tolist()])
    records = path.with_suffix(".sam")
    with records.open("w") as file:
        file.write("@HD\tVN:1.6\tSO:coordinate\n")
        file.writelines(f"@SQ\tSN:c{one}\tLN:1000\n" for one in range(int(place.max()) + 1))
        file.writelines(
            f"{names[read]}\t0\tc{place[read]}\t1\t60\t1M\t*\t0\t0\tA\tI"
            + "".join(column[read] for column in tags)
            + "\n"
            for read in np.argsort(place, kind="stable").tolist()
        )
    pysam.view("-b", "-o", str(path), str(records), catch_stdout=False)
    pysam.index(str(path))


def peer_contestants(*, all_methods: bool = False) -> Iterator[Contestant]:
    """Yield the peers: migec, umi_tools directional and, if asked for, its other methods."""
    yield Migec()
    yield Migec(quality=False)
    yield Migec(assemble=True)
    for method in METHODS if all_methods else METHODS[:1]:
        yield UmiTools(method)
        yield UmiTools(method, aligned=True)
