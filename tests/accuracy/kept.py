"""Scores that were got before, so that a table of hours can be made in several sittings.

A score is kept under the digest of all that decides it: the reads and their truth, how they are
scored, and the tool, of umimill its own sources. What has changed is run again.
"""

from __future__ import annotations

import csv
import hashlib
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import umimill
from accuracy import scores
from accuracy.generate import Reads
from accuracy.scores import Scores

NAMES = tuple(one.name for one in fields(Scores))
COLUMNS = ("digest", "case", "seed", "tool", "version", *NAMES)


def own_version() -> str:
    """Return a digest of umimill's sources."""
    digest = hashlib.sha256()
    for path in sorted(Path(umimill.__file__).parent.rglob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def digest_reads(reads: Reads) -> str:
    """Return a digest of a library, its truth, and of how it is scored."""
    digest = hashlib.sha256(Path(scores.__file__).read_bytes())
    truth = reads.truth
    columns = (truth.molecule, truth.observed, truth.chimera, truth.barcode, truth.clone)
    for array in (reads.bases, reads.qualities, *columns):
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    digest.update(f"{reads.case.layout} {reads.seed}".encode())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Entry:
    """What was scored: one tool on one library.

    Attributes:
        digest: of the library, see digest_reads.
        case: name of the case.
        seed: of the simulator.
        tool, version: which one.
    """

    digest: str
    case: str
    seed: int
    tool: str
    version: str


class Kept:
    """A file of scores, a row a library and tool.

    Args:
        path: TSV file that is read, and written to; None keeps nothing.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._rows: dict[Entry, Scores] = {}
        if path is not None and path.exists():
            with path.open(newline="") as file:
                reader = csv.DictReader(file, delimiter="\t")
                if tuple(reader.fieldnames or ()) != COLUMNS:
                    raise SystemExit(f"{path}: made with other scores; give another file to keep")
                for row in reader:
                    entry = Entry(
                        row["digest"], row["case"], int(row["seed"]), row["tool"], row["version"]
                    )
                    self._rows[entry] = Scores(**{name: float(row[name]) for name in NAMES})

    def get(self, entry: Entry) -> Scores | None:
        """Return the scores, if they are there."""
        return self._rows.get(entry)

    def add(self, entry: Entry, found: Scores) -> None:
        """Keep scores, in the file at once."""
        self._rows[entry] = found
        if self._path is None:
            return
        is_new = not self._path.exists()
        with self._path.open("a", newline="") as file:
            writer = csv.writer(file, delimiter="\t", lineterminator="\n")
            if is_new:
                writer.writerow(COLUMNS)
            writer.writerow([*astuple(entry), *map(repr, astuple(found))])
