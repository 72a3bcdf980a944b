"""What a tool is to this judge, and umimill as one.

A contestant gets a library as its users would have it, and labels every read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from accuracy.kept import own_version
from accuracy.scores import ASIDE, DROPPED
from pipeline import Knobs, Library, Refined, run_checkout, run_refine
from umimill.drafts import draft_strides
from umimill.fates import SettledTable
from umimill.loading import RowLoader, make_batch
from umimill.model import read_estimates
from umimill.partition import PartitionFile
from umimill.placing import find_families
from umimill.plan import read_plan
from umimill.statuses import STATUSES

Integers = npt.NDArray[np.int64]
SAMPLE = "S1"
SHIFTED = STATUSES.index("shifted")
# A family that others may have been corrected to.
ROOT = np.dtype([("key", "<u8"), ("family", "<u8")])


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
        version: which one it is; scores of another are got again.
    """

    name: str
    version: str

    def label(self, task: Task) -> Integers:
        """Return the cluster of each read, int64[reads], DROPPED where it has none.

        Clusters from ASIDE on are no molecules, and are not claimed to be any.
        """

    def error_rate(self, task: Task) -> float:
        """Return what it took the error of a barcode base for when it labelled this task's reads.

        nan where it says none.
        """

    def missing(self) -> str:
        """Return why the tool cannot run here, or nothing."""


class ExactKeys:
    """umimill's checkout; a molecule is whatever has one barcode."""

    name = "umimill unique"
    version = own_version()

    def missing(self) -> str:
        """It is always here."""
        return ""

    def label(self, task: Task) -> Integers:
        """Number the keys of the partition files."""
        library = make_library(task)
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

    def error_rate(self, task: Task) -> float:
        """It corrects nothing."""
        return math.nan


class Corrected:
    """umimill's default: what refine makes of the families.

    Args:
        buckets: number of them.
    """

    name = "umimill"
    version = own_version()

    def __init__(self, buckets: int = 1) -> None:
        self.buckets = buckets

    def missing(self) -> str:
        """It is always here."""
        return ""

    def label(self, task: Task) -> Integers:
        """Number the families that stayed; those that are no molecules are set aside.

        Shifted reads are of the molecule that they are a part of.
        """
        refined = run_refine(make_library(task), task.folder, Knobs(buckets=self.buckets))
        roots = np.zeros(task.reads, ROOT)
        found = np.zeros(task.reads, bool)
        aside: list[np.ndarray] = []
        wholes: list[tuple[np.ndarray, np.ndarray]] = []
        for bucket in range(self.buckets):
            _find_roots(refined, bucket, roots, found, aside, wholes)
        _find_placed(refined.outboxes, roots, found)
        for parts, own in wholes:
            _rename(roots, parts, own)
        labels = np.full(task.reads, DROPPED)
        names, numbers = np.unique(roots[found], return_inverse=True)
        numbers = numbers.astype(np.int64)
        numbers += ASIDE * np.isin(names, np.concatenate(aside))[numbers]
        labels[found] = numbers
        return labels

    def error_rate(self, task: Task) -> float:
        """Read the model of the library."""
        (path,) = task.folder.glob("results/model/*/*.model")
        return float(read_estimates(path)[SAMPLE]["error"])


def make_library(task: Task) -> Library:
    """Return the library of a task."""
    return Library(((SAMPLE, task.layout, None),), {"L001": (task.fastq,)}, name="case")


def _find_roots(
    refined: Refined,
    bucket: int,
    roots: np.ndarray,
    found: np.ndarray,
    aside: list[np.ndarray],
    wholes: list[tuple[np.ndarray, np.ndarray]],
) -> None:
    """Find the root of each read of a bucket.

    Args:
        refined: what became of the library.
        bucket: number of the bucket.
        roots: ROOT[reads], filled where there is one.
        found: bool[reads], set there.
        aside: families that stayed and are no molecules, added to.
        wholes: (shifted families, those that they are parts of), added to.
    """
    plan = read_plan(refined.plan)
    strides = draft_strides(plan.rows, plan.bases, plan.tile)
    with ExitStack() as stack:
        parts = [stack.enter_context(PartitionFile(path)) for path in plan.partitions]
        loader = RowLoader(parts, *plan.bucket_leaves(bucket))
        table = stack.enter_context(SettledTable(refined.tables[bucket], refined.fates[bucket]))
        for settled in table.pieces():
            families, fates = settled.families, settled.fates
            moved = fates["moved"] == 1
            own = make_roots(fates)
            own["key"] = np.where(moved, own["key"], families["key"])
            own["family"] = np.where(moved, own["family"], families["family"])
            shifted = ~moved & (fates["status"] == SHIFTED)
            wholes.append((own[shifted], make_roots(fates[shifted])))
            aside.append(own[~moved & ~shifted & (fates["status"] != 0)])
            for piece in loader.pieces_through(families[-1:].copy()):
                batch = make_batch([piece], piece.barcode_quality.shape[1])
                count = batch.hot.size
                given = np.full(count, -1)
                chosen = find_families(batch, np.arange(count), given, families, strides)
                records = batch.hot["record"].astype(np.int64)
                roots[records], found[records] = own[chosen], True


def make_roots(fates: np.ndarray) -> np.ndarray:
    """Return the roots of fates, ROOT[n]."""
    roots = np.zeros(fates.size, ROOT)
    roots["key"], roots["family"] = fates["root_key"], fates["root_family"]
    return roots


def _rename(roots: np.ndarray, parts: np.ndarray, wholes: np.ndarray) -> None:
    """Give the reads of parts the roots of their wholes, which are no parts themselves."""
    order = np.argsort(parts, order=("key", "family"))
    place = np.searchsorted(parts[order], roots)
    place = np.minimum(place, max(0, parts.size - 1))
    if parts.size:
        chosen = order[place]
        same = parts[chosen] == roots
        roots[same] = wholes[chosen[same]]


def _find_placed(outboxes: Sequence[Path], roots: np.ndarray, found: np.ndarray) -> None:
    """Fill the roots of all reads that went to another family than that of their barcode."""
    for path in outboxes:
        with PartitionFile(path) as outbox:
            for number, flush in enumerate(outbox.flushes):
                rows = int(flush["rows"])
                hot = outbox.read_hot(number, 0, rows)
                moved = outbox.read_moved(number, 0, rows)
                own = np.zeros(rows, ROOT)
                own["key"], own["family"] = hot["key"], moved["family"]
                roots[hot["record"]], found[hot["record"]] = own, True


def own_contestants() -> list[Contestant]:
    """Return what umimill can do, the best last."""
    return [ExactKeys(), Corrected()]
