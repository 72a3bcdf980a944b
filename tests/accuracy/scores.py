"""A partition of reads into molecules, against the truth. All counts are exact integers.

What is scored is a label a read: equal labels >= 0 are one cluster, DROPPED is none; a cluster from
ASIDE on is one too, but none that was found. Reads whose
payload is partly another clone's (chimeras) belong to two molecules and have no right cluster; they
count in `found` alone, since a cluster of nothing but chimeras is a molecule that never was.

Words used below, for the other reads:

family      reads of one molecule with one observed barcode. It is in the cluster that has most of
            its reads (of equal ones the smallest label), dropped where that is none.
right       a family whose observed barcode is its molecule's, else it is wrong.
reachable   a wrong family whose molecule also has a right one.
home        of a molecule: the cluster of its right family; of a molecule without one, of its
            largest wrong family (of equal ones that of the smallest barcode).
root        of a cluster: its largest family; of equal ones a right one first, then that of the
            smallest (molecule, barcode).
merge       a family in a cluster whose root has another observed barcode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from accuracy.generate import Truth

DROPPED = -1
# Clusters from here on are set aside: the tool says that they are no molecules.
ASIDE = 1 << 40
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Scores:
    """How good one partition is; nan where there is nothing to be right or wrong about.

    Attributes:
        ari: adjusted Rand index of the reads, each dropped read a cluster of its own.
        mixed: share of the reads that are in a cluster with reads of more than one molecule.
        split: share of the reads whose molecule is in more than one cluster, each dropped read
            being one.
        recall: share of the reachable families that are in their molecule's home, that one not
            being dropped.
        precision: share of the merges that are right: of a home family into a root of its own
            molecule, of any other family into its molecule's home.
        f1: harmonic mean of recall and precision, 0 where nothing was merged.
        kept: share of the molecules that have most reads (of equal ones the smallest molecule) in
            a cluster that has most of their reads.
        separated: share of the pairs of molecules with one barcode and different clones that have
            different homes.
        surplus: clusters found, without those set aside, less molecules that are there.
        miscount: the same without its sign.
        dropped: share of reads in no cluster, chimeras included.
        error: error of a barcode base as the tool has it, over the one that was simulated.
    """

    ari: float
    mixed: float
    split: float
    recall: float
    precision: float
    f1: float
    kept: float
    separated: float
    surplus: float
    miscount: float
    dropped: float
    error: float = math.nan


# 1: more is better, -1: less is better. What is not here is told, not judged.
DIRECTION = {
    "ari": 1,
    "mixed": -1,
    "split": -1,
    "recall": 1,
    "precision": 1,
    "f1": 1,
    "kept": 1,
    "separated": 1,
    "miscount": -1,
}


def score(truth: Truth, labels: Integers, error: float = math.nan) -> Scores:
    """Score a partition.

    Args:
        truth: of n reads.
        labels: int64[n], the cluster of each read, or DROPPED.
        error: estimated error of a barcode base over the true one; nan where there is none.
    """
    assert labels.shape == truth.molecule.shape, "one label a read"
    counted = ~truth.chimera
    molecule, label = truth.molecule[counted], labels[counted]
    families = _families(truth, molecule, truth.observed[counted], label)
    recall, precision = _merges(families)
    found = np.unique(labels[(labels >= 0) & (labels < ASIDE)])
    surplus = found.size - truth.barcode.size
    return Scores(
        ari=adjusted_rand(molecule, label),
        mixed=mixed_share(molecule, label),
        split=split_share(molecule, label),
        recall=recall,
        precision=precision,
        f1=_harmonic(recall, precision),
        kept=kept_share(molecule, label),
        separated=_separated(truth, families),
        surplus=float(surplus),
        miscount=float(abs(surplus)),
        dropped=_ratio(int((labels < 0).sum()), labels.size),
        error=error,
    )


def adjusted_rand(truth: Integers, labels: Integers) -> float:
    """Return the adjusted Rand index of two partitions; reads with label < 0 are singletons."""
    clustered = labels >= 0
    _, _, both = _pairs(truth[clustered], labels[clustered])
    together = _choose_2(both)
    rows = _choose_2(np.unique(truth, return_counts=True)[1])
    columns = _choose_2(np.unique(labels[clustered], return_counts=True)[1])
    total = truth.size * (truth.size - 1) // 2
    # Multiplied out by 2 * total, so that nothing is rounded before the end.
    above = 2 * (together * total - rows * columns)
    below = (rows + columns) * total - 2 * rows * columns
    return float(Fraction(above, below)) if below else 1.0


def mixed_share(truth: Integers, labels: Integers) -> float:
    """Return the share of all reads that are in a cluster with two molecules or more."""
    clustered = labels >= 0
    _, cluster, reads = _pairs(truth[clustered], labels[clustered])
    owners = np.bincount(cluster)
    return _ratio(int(reads[owners[cluster] > 1].sum()), truth.size)


def split_share(truth: Integers, labels: Integers) -> float:
    """Return the share of all reads whose molecule is in two clusters or more."""
    alone = np.where(labels < 0, labels.max(initial=-1) + 1 + np.arange(labels.size), labels)
    owner, _, reads = _pairs(truth, alone)
    owner = _number(owner)
    clusters = np.bincount(owner)
    return _ratio(int(reads[clusters[owner] > 1].sum()), truth.size)


def kept_share(truth: Integers, labels: Integers) -> float:
    """Return the share of molecules that own a cluster which has most of their reads."""
    clustered = labels >= 0
    owner, cluster, reads = _pairs(truth[clustered], labels[clustered])
    most = np.zeros(int(truth.max(initial=-1)) + 1, np.int64)
    np.maximum.at(most, owner, reads)
    strongest = _first_of_each(np.lexsort((owner, -reads, cluster)), cluster)
    own = strongest[reads[strongest] == most[owner[strongest]]]
    return _ratio(np.unique(owner[own]).size, np.unique(truth).size)


def best_labels(truth: Truth) -> Integers:
    """Return the partition that none can beat on evidence: the ceiling that the truth allows.

    A read is known by its clone and by its barcode: its molecule's, where a right read of the
    molecule was seen; as observed, where its molecule was never read right, or where a molecule of
    the same clone that was has exactly that barcode. So molecules of one clone and one barcode are
    one, and wrong barcodes of an unseen parent stay apart.
    """
    seen = truth.parent_seen[truth.molecule]
    clone = truth.clone[truth.molecule]
    present = truth.parent_seen
    known = set(zip(truth.barcode[present].tolist(), truth.clone[present].tolist(), strict=True))
    barcode = np.where(seen, truth.barcode[truth.molecule], truth.observed)
    for read in np.flatnonzero(truth.wrong).tolist():
        if (int(truth.observed[read]), int(clone[read])) in known:
            barcode[read] = truth.observed[read]
    return _number(barcode, clone)


@dataclass(frozen=True)
class _Families:
    """Families in order of (molecule, barcode): f of them, and the home of each molecule.

    Attributes:
        molecule, barcode, reads, label: of each family.
        right: bool[f].
        home: int64[molecules], the family whose cluster is home, -1 of a molecule without one.
    """

    molecule: Integers
    barcode: np.ndarray
    reads: Integers
    label: Integers
    right: Flags
    home: Integers


def _families(truth: Truth, molecule: Integers, observed: np.ndarray, label: Integers) -> _Families:
    family = _number(molecule, observed)
    count = int(family.max()) + 1 if family.size else 0
    first = np.zeros(count, np.int64)
    first[family[::-1]] = np.arange(family.size)[::-1]
    owner, barcode = molecule[first], observed[first]
    of_family, of_label, reads = _pairs(family, label, number=False)
    # Dropped is the last choice among equals.
    choice = np.lexsort((of_label, of_label < 0, -reads, of_family))
    best = _first_of_each(choice, of_family)
    right = barcode == truth.barcode[owner]
    sizes = np.bincount(family, minlength=count)
    home = np.full(truth.barcode.size, -1)
    order = np.lexsort((np.arange(count), -sizes, ~right, owner))
    homes = _first_of_each(order, owner)
    home[owner[homes]] = homes
    return _Families(owner, barcode, sizes, of_label[best], right, home)


def _merges(families: _Families) -> tuple[float, float]:
    home = families.home[families.molecule]
    is_home = home == np.arange(home.size)
    at_home = (families.label == families.label[home]) & (families.label >= 0)
    reachable = ~families.right & families.right[home]
    recall = _ratio(int((reachable & at_home).sum()), int(reachable.sum()))

    order = np.lexsort(
        (np.arange(home.size), ~families.right, -families.reads, families.label)
    )  # fmt: skip
    roots = _first_of_each(order, families.label)
    root = roots[np.searchsorted(families.label[roots], families.label)]
    merged = (families.label >= 0) & (families.barcode[root] != families.barcode)
    good = np.where(is_home, families.molecule[root] == families.molecule, at_home)
    return recall, _ratio(int((merged & good).sum()), int(merged.sum()))


def _separated(truth: Truth, families: _Families) -> float:
    there = np.flatnonzero(families.home >= 0)
    barcode, clone = truth.barcode[there], truth.clone[there]
    label = families.label[families.home[there]]
    same_barcode = _number(barcode)
    same_both = _number(barcode, clone)
    pairs = _pairs_within(same_barcode) - _pairs_within(same_both)
    joined = _pairs_within(_number(same_barcode, label)) - _pairs_within(_number(same_both, label))
    return 1 - joined / pairs if pairs else math.nan


def _harmonic(recall: float, precision: float) -> float:
    if math.isnan(recall):
        return math.nan
    if math.isnan(precision) or recall + precision == 0:
        return 0.0
    return 2 * recall * precision / (recall + precision)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def _choose_2(counts: Integers) -> int:
    return int((counts * (counts - 1) // 2).sum())


def _pairs_within(group: Integers) -> int:
    return _choose_2(np.bincount(group)) if group.size else 0


def _number(*columns: np.ndarray) -> Integers:
    """Number the distinct rows of some columns in their order, the first column deciding first."""
    number = np.zeros(columns[0].size, np.int64)
    for column in columns:
        values = np.unique(column, return_inverse=True)[1]
        width = int(values.max()) + 1 if values.size else 1
        number = np.unique(number * width + values, return_inverse=True)[1]
    return number


def _pairs(
    first: Integers, second: Integers, *, number: bool = True
) -> tuple[Integers, Integers, Integers]:
    """Return the distinct pairs of two columns and how often each is there, int64 all three.

    With `number` the second column is numbered anew, from 0, in its order.
    """
    if number:
        second = _number(second)
    pair = _number(first, second)
    counts = np.bincount(pair)
    at = np.zeros(counts.size, np.int64)
    at[pair] = np.arange(pair.size)
    return first[at], second[at], counts


def _first_of_each(order: Integers, group: Integers) -> Integers:
    """Return, of indices in an order that keeps groups together, the first of each group."""
    inside = group[order]
    return order[np.concatenate(([True], inside[1:] != inside[:-1]))[: order.size]]
