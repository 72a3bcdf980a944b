"""What a tool is to this judge, and umimill as one.

A contestant gets a library as its users would have it, and labels every read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from accuracy.scores import DROPPED
from pipeline import Library, run_checkout
from umimill.partition import PartitionFile

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Task:
    """A library to be partitioned into molecules.

    Attributes:
        fastq: gzip; reads are named r and their number, 9 digits.
        layout: anchored MIGEC pattern, N = UMI, X = cell.
        reads: how many there are.
        seed: for tools that draw random numbers.
        folder: an empty one, to work in.
        place: int64[reads], where an aligner would put each read: one number a clone. For tools
            that need an alignment and no one else.
    """

    fastq: Path
    layout: str
    reads: int
    seed: int
    folder: Path
    place: Integers


class Contestant(Protocol):
    """A tool.

    Attributes:
        name: in the table.
    """

    name: str

    def label(self, task: Task) -> Integers:
        """Return the cluster of each read, int64[reads], DROPPED where it has none."""

    def missing(self) -> str:
        """Return why the tool cannot run here, or nothing."""


class ExactKeys:
    """umimill's checkout; a molecule is whatever has one barcode."""

    name = "umimill exact"

    def missing(self) -> str:
        """It is always here."""
        return ""

    def label(self, task: Task) -> Integers:
        """Number the keys of the partition files."""
        library = Library((("S1", task.layout, None),), {"L001": (task.fastq,)}, name="case")
        keys = np.zeros(task.reads, np.uint64)
        found = np.zeros(task.reads, bool)
        for path in run_checkout(library, task.folder):
            with PartitionFile(path) as part:
                for number, flush in enumerate(part.flushes):
                    hot = part.read_hot(number, 0, int(flush["rows"]))
                    keys[hot["record"]], found[hot["record"]] = hot["key"], True
        labels = np.full(task.reads, DROPPED)
        labels[found] = np.unique(keys[found], return_inverse=True)[1]
        return labels


def own_contestants() -> list[Contestant]:
    """Return what umimill can do, the best last."""
    return [ExactKeys()]
