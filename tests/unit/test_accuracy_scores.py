"""The scores of the accuracy judge against slow twins that count by hand, on small partitions."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accuracy.generate import Truth
from accuracy.intervals import compare, is_dominated, mean_interval, t_quantile, worse_on
from accuracy.scores import (
    ASIDE,
    DIRECTION,
    DROPPED,
    Scores,
    adjusted_rand,
    best_labels,
    kept_share,
    mixed_share,
    score,
)

Case = tuple[Truth, np.ndarray]
Family = tuple[int, int]


@st.composite
def partitions(draw: st.DrawFn, *, chimeras: bool = True) -> Case:
    """Draw a truth in which barcodes, errors and labels often meet, and labels."""
    molecules = draw(st.integers(1, 5))
    small = st.integers(0, 3)
    barcode = draw(st.lists(small, min_size=molecules, max_size=molecules))
    clone = draw(st.lists(st.integers(0, 1), min_size=molecules, max_size=molecules))
    more = draw(st.lists(st.integers(0, molecules - 1), max_size=20))
    molecule = [*range(molecules), *more]
    reads = len(molecule)
    wrong = draw(st.lists(st.integers(0, 5), min_size=reads, max_size=reads))
    observed = [
        barcode[owner] if value > 3 else value
        for owner, value in zip(molecule, wrong, strict=True)
    ]  # fmt: skip
    chimera = draw(
        st.lists(st.booleans() if chimeras else st.just(False), min_size=reads, max_size=reads)
    )
    labels = draw(st.lists(st.integers(DROPPED, 3), min_size=reads, max_size=reads))
    truth = Truth(
        np.array(molecule),
        np.array(observed, np.uint64),
        np.array(chimera),
        np.array(barcode, np.uint64),
        np.array(clone),
    )
    return truth, np.array(labels)


# -- slow twins ----------------------------------------------------------------------------------


def slow_ari(truth: list[int], labels: list[int]) -> float:
    """Count pairs of reads one by one."""
    both = one = two = 0
    pairs = list(combinations(range(len(truth)), 2))
    for first, second in pairs:
        same = truth[first] == truth[second]
        together = labels[first] == labels[second] != DROPPED
        both, one, two = both + (same and together), one + same, two + together
    if not pairs:
        return 1.0
    expected, most = one * two / len(pairs), (one + two) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)


class Slow:
    """The words of accuracy.scores, by dictionaries."""

    def __init__(self, truth: Truth, labels: np.ndarray) -> None:
        self.barcode, self.clone = truth.barcode.tolist(), truth.clone.tolist()
        columns = (truth.molecule, truth.observed, labels, truth.chimera)
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        self.rows = [row[:3] for row in rows if not row[3]]
        self.reads = Counter((owner, seen) for owner, seen, _ in self.rows)
        self.label = {family: self._label(family) for family in self.reads}
        self.home: dict[int, Family] = {}
        for owner in {family[0] for family in self.reads}:
            mine = [family for family in self.reads if family[0] == owner]
            right = [family for family in mine if self.right(family)]
            self.home[owner] = min(right or mine, key=lambda one: (-self.reads[one], one))

    def right(self, family: Family) -> bool:
        return family[1] == self.barcode[family[0]]

    def _label(self, family: Family) -> int:
        votes = Counter(label for *own, label in self.rows if tuple(own) == family)
        return min(votes, key=lambda label: (-votes[label], label == DROPPED, label))

    def at_home(self, family: Family) -> bool:
        return self.label[family] == self.label[self.home[family[0]]] != DROPPED

    def recall(self) -> float:
        reachable = [
            family
            for family in self.reads
            if not self.right(family) and self.right(self.home[family[0]])
        ]
        return ratio(sum(map(self.at_home, reachable)), len(reachable))

    def precision(self) -> float:
        good = merges = 0
        for family, label in self.label.items():
            if label == DROPPED:
                continue
            inside = [other for other in self.label if self.label[other] == label]
            root = min(inside, key=lambda one: (-self.reads[one], not self.right(one), one))
            if root[1] == family[1]:
                continue
            merges += 1
            if self.home[family[0]] == family:
                good += root[0] == family[0]
            else:
                good += self.at_home(family)
        return ratio(good, merges)

    def mixed(self) -> float:
        count = 0
        for _, _, label in self.rows:
            owners = {owner for owner, _, other in self.rows if other == label}
            count += label != DROPPED and len(owners) > 1
        return ratio(count, len(self.rows))

    def kept(self) -> float:
        inside = Counter((label, owner) for owner, _, label in self.rows if label != DROPPED)
        kept = 0
        for owner in self.home:
            own = {label: count for (label, other), count in inside.items() if other == owner}
            best = [label for label, count in own.items() if count == max(own.values())]
            kept += any(self.owner(inside, label) == owner for label in best)
        return ratio(kept, len(self.home))

    def split(self) -> float:
        places: dict[int, list[object]] = {}
        for number, (owner, _, label) in enumerate(self.rows):
            places.setdefault(owner, []).append(("dropped", number) if label == DROPPED else label)
        counts = [len(found) for found in places.values() if len(set(found)) > 1]
        return ratio(sum(counts), len(self.rows))

    def owner(self, inside: Counter[tuple[int, int]], label: int) -> int:
        rivals = [key for key in inside if key[0] == label]
        return min(rivals, key=lambda key: (-inside[key], key))[1]

    def separated(self) -> float:
        apart = pairs = 0
        for one, two in combinations(self.home, 2):
            if self.barcode[one] == self.barcode[two] and self.clone[one] != self.clone[two]:
                pairs += 1
                apart += self.label[self.home[one]] != self.label[self.home[two]]
        return ratio(apart, pairs)


def ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def equal(one: float, two: float) -> bool:
    return one == pytest.approx(two, abs=1e-12, nan_ok=True)


# -- scores --------------------------------------------------------------------------------------


@given(partitions())
def test_scores_are_those_of_slow_twins(case: Case) -> None:
    truth, labels = case
    slow, found = Slow(truth, labels), score(truth, labels)
    owners, own_labels = [row[0] for row in slow.rows], [row[2] for row in slow.rows]
    assert equal(found.ari, slow_ari(owners, own_labels))
    assert equal(found.mixed, slow.mixed())
    assert equal(found.split, slow.split())
    assert equal(found.recall, slow.recall())
    assert equal(found.precision, slow.precision())
    assert equal(found.kept, slow.kept())
    assert equal(found.separated, slow.separated())
    clusters = set(labels.tolist()) - {DROPPED}
    assert found.surplus == len(clusters) - truth.barcode.size
    assert found.miscount == abs(found.surplus)
    assert found.dropped == (labels == DROPPED).mean()


@given(partitions(), st.permutations(range(4)))
def test_names_of_clusters_do_not_matter(case: Case, names: list[int]) -> None:
    truth, labels = case
    renamed = np.where(labels < 0, labels, np.array(names)[labels])
    first, second = score(truth, labels), score(truth, renamed)
    for name in ("ari", "mixed", "split", "kept", "surplus", "dropped"):
        assert equal(getattr(first, name), getattr(second, name))


def test_truth_itself_is_perfect() -> None:
    truth = make_truth([(0, 5, 5), (0, 5, 5), (0, 6, 5), (1, 9, 9)])
    found = score(truth, truth.molecule)
    assert (found.ari, found.mixed, found.recall, found.precision) == (1, 0, 1, 1)
    assert (found.f1, found.kept, found.surplus, found.dropped) == (1, 1, 0, 0)


def make_truth(rows: list[tuple[int, int, int]], clones: list[int] | None = None) -> Truth:
    """Make a truth of rows (molecule, observed barcode, its own barcode)."""
    count = max(row[0] for row in rows) + 1
    barcode = np.zeros(count, np.uint64)
    for owner, _, own in rows:
        barcode[owner] = own
    return Truth(
        np.array([row[0] for row in rows]),
        np.array([row[1] for row in rows], np.uint64),
        np.zeros(len(rows), bool),
        barcode,
        np.array(clones if clones is not None else range(count)),
    )


def test_a_wrong_merge_loses_a_molecule_and_precision() -> None:
    truth = make_truth([(0, 5, 5), (0, 5, 5), (0, 6, 5), (1, 7, 7)])
    found = score(truth, np.array([0, 0, 0, 0]))
    assert (found.recall, found.precision, found.kept, found.surplus) == (1, 0.5, 0.5, -1)


def test_nothing_merged_has_no_precision_and_no_f1() -> None:
    truth = make_truth([(0, 5, 5), (0, 6, 5)])
    found = score(truth, np.array([0, 1]))
    assert math.isnan(found.precision)
    assert (found.recall, found.f1) == (0, 0)


def test_a_cluster_of_chimeras_is_a_molecule_too_many() -> None:
    plain = make_truth([(0, 5, 5), (0, 5, 5), (0, 5, 5)])
    truth = Truth(
        plain.molecule, plain.observed, np.array([False, False, True]), plain.barcode, plain.clone
    )
    apart, dropped = score(truth, np.array([0, 0, 1])), score(truth, np.array([0, 0, DROPPED]))
    assert (apart.ari, apart.surplus) == (1, 1)
    assert (dropped.ari, dropped.surplus) == (1, 0)


def test_what_is_set_aside_is_a_cluster_but_was_not_found() -> None:
    case = make_truth([(0, 5, 5), (0, 5, 5), (0, 6, 5), (1, 7, 7)])
    claimed, aside = (score(case, np.array([0, 0, label, 1])) for label in (2, ASIDE + 2))
    assert (claimed.surplus, aside.surplus) == (1, 0)
    assert claimed.ari == aside.ari < 1
    assert aside.dropped == 0


def test_rand_index_of_many_reads_does_not_overflow() -> None:
    truth = np.arange(2_000_000) // 1_000_000
    assert adjusted_rand(truth, truth) == 1
    assert adjusted_rand(truth, np.zeros_like(truth)) == 0
    half = np.arange(2_000_000) // 500_000
    assert adjusted_rand(truth, half) == pytest.approx(1 / 2, abs=1e-5)


def test_no_reads_at_all() -> None:
    none = np.zeros(0, np.int64)
    truth = Truth(none, none.astype(np.uint64), none.astype(bool), none.astype(np.uint64), none)
    found = score(truth, none)
    assert found.ari == 1
    assert math.isnan(found.kept)
    assert math.isnan(mixed_share(none, none))
    assert math.isnan(kept_share(none, none))


# -- the ceiling ---------------------------------------------------------------------------------


def slow_best(truth: Truth) -> list[tuple[int, int]]:
    """Name the cluster of each read by (barcode, clone)."""
    barcode, clone = truth.barcode.tolist(), truth.clone.tolist()
    rows = list(
        zip(truth.molecule.tolist(), truth.observed.tolist(), truth.chimera.tolist(), strict=True)
    )
    seen = {
        owner for owner, observed, chimera in rows if observed == barcode[owner] and not chimera
    }
    known = {(barcode[owner], clone[owner]) for owner in seen}
    found = []
    for owner, observed, _ in rows:
        if owner in seen and (observed, clone[owner]) not in known:
            observed = barcode[owner]
        found.append((observed, clone[owner]))
    return found


@given(partitions())
def test_ceiling_is_what_its_rule_says(case: Case) -> None:
    truth, _ = case
    expected, found = slow_best(truth), best_labels(truth).tolist()
    assert len(set(zip(expected, found, strict=True))) == len(set(expected)) == len(set(found))


def test_ceiling_joins_what_is_alike_and_leaves_orphans_apart() -> None:
    rows = [(0, 5, 5), (1, 5, 5), (2, 5, 5), (3, 8, 9), (3, 7, 9), (0, 6, 5), (4, 5, 4), (4, 4, 4)]
    # 0 and 1 are one clone, 2 another; 3 was never read right; 4 was read as 0's barcode.
    truth = make_truth(rows, clones=[0, 0, 1, 0, 0])
    labels = best_labels(truth)
    assert labels[0] == labels[1] == labels[5] == labels[6]
    assert len(set(labels.tolist())) == 5
    assert score(truth, labels).recall == 0.5


# -- means and comparisons -----------------------------------------------------------------------


def test_interval_is_students() -> None:
    assert mean_interval([1.0, 2.0, 3.0]) == pytest.approx((2.0, 4.3027 / 3**0.5), abs=1e-4)
    assert mean_interval([1.0, math.nan, 3.0]) == pytest.approx((2.0, 12.7062), abs=1e-3)
    mean, half = mean_interval([4.0])
    assert mean == 4
    assert math.isnan(half)
    assert all(map(math.isnan, mean_interval([])))


def test_quantiles_fall_to_the_normal_one() -> None:
    values = [t_quantile(freedom) for freedom in range(1, 200)]
    assert values == sorted(values, reverse=True)
    assert t_quantile(40) == pytest.approx(2.0211, abs=1e-4)
    assert t_quantile(120) == pytest.approx(1.9799, abs=1e-4)


def scored(**values: float) -> Scores:
    """Make scores, 0.5 but for those given."""
    return Scores(**{**dict.fromkeys(Scores.__annotations__, 0.5), **values})


def test_comparison_is_seed_by_seed_and_knows_direction() -> None:
    # Reads differ more between seeds than tools do on the same reads.
    own = [scored(ari=value, miscount=10) for value in (0.5, 0.7, 0.9)]
    other = [scored(ari=value, miscount=5) for value in (0.49, 0.69, 0.889)]
    assert compare(own, other, "ari") == 1
    assert compare(other, own, "ari") == -1
    assert compare(own, other, "miscount") == -1
    assert compare(own, other, "kept") == 0
    assert compare(own[:1], other[:1], "ari") == 0
    assert worse_on(own, other) == ["miscount"]
    assert worse_on(other, own) == ["ari"]
    assert not is_dominated(own, other)


def test_dominated_is_worse_somewhere_and_better_nowhere() -> None:
    own = [scored(ari=0.8), scored(ari=0.8)]
    better = [scored(ari=0.9), scored(ari=0.9)]
    assert is_dominated(own, better)
    assert not is_dominated(better, own)
    assert not is_dominated(own, own)
    assert not is_dominated(own, [scored(ari=0.9, kept=0.4), scored(ari=0.9, kept=0.4)])
    assert set(DIRECTION) < set(Scores.__annotations__)
