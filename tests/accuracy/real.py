"""Real libraries: how many molecules each tool finds. What is true of them is known in part."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accuracy.contestants import Contestant, Task
from accuracy.scores import ASIDE

RECORD_LINES = 4


@dataclass(frozen=True)
class RealLibrary:
    """Reads with barcodes, from the folder of test data.

    Attributes:
        name: in the table.
        about: what is known of it.
        path: below that folder.
        layout: anchored MIGEC pattern.
    """

    name: str
    about: str
    path: str
    layout: str


LIBRARIES = (
    RealLibrary(
        "mageri",
        "one amplicon; seven molecules have 522 reads or more, of 936 and 773 two one base apart",
        "mageri/src__test__resources__sample__R1.fastq.gz",
        "^NNNNNNNNNNNNNN",
    ),
    RealLibrary(
        "umierrorcorrect",
        "one amplicon, 562 barcodes with 1 to 100 reads",
        "umierrorcorrect/test_data__test_R1.fastq.gz",
        "^NNNNNNNNNNNNATGGGAAAGAGTGTCC",
    ),
    RealLibrary(
        "slim",
        "iCLIP, many places of a genome share 1,024 UMIs; by payloads alone 7,004 molecules",
        "umitools/tests__slim.fastq.gz",
        "^NNNGGTTNN",
    ),
)


def real_table(folder: Path, contestants: Sequence[Contestant]) -> str:
    """Return a table of what tools find in the real libraries, as Markdown.

    Args:
        folder: of the test data.
        contestants: who takes part.
    """
    present = [one for one in contestants if not one.missing()]
    lines = [
        "| library | reads | " + " | ".join(one.name for one in present) + " |",
        "|---|---:|" + "---:|" * len(present),
    ]
    for library in LIBRARIES:
        with tempfile.TemporaryDirectory(prefix="umimill-real-") as work:
            fastq = Path(work) / "reads.fastq.gz"
            reads = write_numbered(folder / library.path, library.layout, fastq)
            found = []
            for number, contestant in enumerate(present):
                own = Path(work) / str(number)
                own.mkdir()
                place = np.zeros(reads, np.int64)
                labels = contestant.label(Task(fastq, library.layout, reads, 1, own, place))
                found.append(np.unique(labels[(labels >= 0) & (labels < ASIDE)]).size)
        cells = "".join(f" {molecules:,} |" for molecules in found)
        lines.append(f"| {library.name}: {library.about} | {reads:,} |{cells}")
    return "\n".join(lines) + "\n"


def write_numbered(source: Path, layout: str, path: Path) -> int:
    """Write the reads that fit a layout exactly, named by numbers; return how many there are.

    Tools differ in what they make of other reads, which says nothing of correction.
    """
    pattern = layout.removeprefix("^").encode()
    lines = gzip.decompress(source.read_bytes()).splitlines()
    count = 0
    with gzip.open(path, "wb", compresslevel=1) as file:
        for bases, qualities in zip(lines[1::RECORD_LINES], lines[3::RECORD_LINES], strict=True):
            head = bases[: len(pattern)]
            if len(head) == len(pattern) and all(
                base in b"ACGT" if wanted in b"N" else base == wanted
                for base, wanted in zip(head, pattern, strict=True)
            ):
                file.write(b"@r%09d\n%s\n+\n%s\n" % (count, bases, qualities))
                count += 1
    return count
