"""The vote against a naive one on strings and whole numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernel_wrappers as wrapped
import oracle
from consensus_fixture import (
    FLOORS,
    LEVELS,
    MODELS,
    SAMPLES,
    TABLES,
    WIDTH,
    call,
    called_of,
    piece_of,
    reads_of_molecules,
    votes_for,
)
from oracle import HAS_UNKNOWN, Called, Template
from umimill.cells import MOLECULE, make_votes, widen_votes
from umimill.kernels import consensus as kernels
from umimill.kernels.consensus import Batch
from umimill.loading import make_batch


def dense(rows: Sequence[Template], drawn: Sequence[int]) -> list[int]:
    """Number the molecules of each key without gaps; -1 stays."""
    numbers = []
    for row, number in zip(rows, drawn, strict=True):
        met = {n for one, n in zip(rows, drawn, strict=True) if one.order == row.order and n >= 0}
        numbers.append(sorted(met).index(number) if number >= 0 else -1)
    return numbers


def check(
    groups: Sequence[Sequence[Template]],
    called: Sequence[Called | None],
    floor: float,
    minimum: int,
) -> None:
    assert len(groups) == len(called)
    for group, found in zip(groups, called, strict=True):
        expected = oracle.vote(group, TABLES[floor]) if len(group) >= minimum else None
        assert found == expected


@given(
    reads_of_molecules(),
    st.sampled_from(FLOORS),
    st.integers(1, 3),
    st.integers(0, 14),
    st.sampled_from([(2, 2), (2, 8), (8, 2), (8, 8)]),
    st.lists(st.sampled_from([0, 0, 0, 1, 2, -1]), min_size=14, max_size=14),
    st.lists(st.sampled_from([-1, -1, 0, 3]), min_size=14, max_size=14),
)
def test_vote_is_the_oracle(
    rows: list[Template],
    floor: float,
    minimum: int,
    cut: int,
    bits: tuple[int, int],
    drawn: list[int],
    given: list[int],
) -> None:
    """Rows of several runs, whose qualities are stored in either form, some from outboxes."""
    numbers, given = dense(rows, drawn[: len(rows)]), given[: len(rows)]
    runs = [rows[:cut], rows[cut:]]
    table, called, sums = call(runs, bits, floor, minimum, numbers, given)
    groups = list(oracle.molecules(rows, numbers))
    check(groups, called, floor, minimum)
    for entry, group in zip(table, groups, strict=True):
        lengths = [max(len(row.payload[mate]) for row in group) for mate in range(2)]
        assert [int(entry["length_1"]), int(entry["length_2"])] == lengths
    # Molecules below the minimum are hashed too; rows that were moved away are not.
    hashes = [[0, 0], [0, 0]]
    forms = [bits[0]] * len(runs[0]) + [bits[1]] * len(runs[1])
    for row, form, number, family in zip(rows, forms, numbers, given, strict=True):
        if number >= 0:
            own = oracle.row_hash(row, WIDTH, LEVELS if form == 2 else None)
            hashes[family >= 0][row.sample] += own
    assert sums == [[one % 2**64 for one in pair] for pair in hashes]


@given(reads_of_molecules(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: list[Template], draw: random.Random) -> None:
    first = call([rows], [8], 1e-4)
    shuffled = draw.sample(rows, len(rows))
    second = call([shuffled[:3], shuffled[3:]], [8, 8], 1e-4)
    assert first[1:] == second[1:]
    names = [name for name in MOLECULE.names or () if name not in ("first", "padding")]
    assert first[0][names].tolist() == second[0][names].tolist()


@given(reads_of_molecules(), st.lists(st.integers(0, 14), max_size=3), st.sampled_from(FLOORS))
def test_a_streamed_molecule_is_called_alike(
    rows: list[Template], cuts: list[int], floor: float
) -> None:
    rows = [row for row in rows if row.order == rows[0].order]
    table, (expected,), sums = call([rows], [8], floor)
    # The second of its key: the first is called before it.
    several = np.zeros(2, MOLECULE)
    for name in MOLECULE.names or ():
        if name != "padding":
            several[name] = 77
    for name in ("length_1", "length_2", "umi_length", "cell_length"):
        several[1][name] = table[0][name]
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    votes = votes_for(rows[: edges[1]] or rows[:1])
    streamed = np.zeros(SAMPLES, np.uint64)
    for number, (start, stop) in enumerate(pairwise(edges)):
        longest = max((len(text) for row in rows[:stop] for text in row.payload), default=0)
        votes = widen_votes(votes, longest)
        # Every other row is of another molecule.
        held = [row for one in rows[start:stop] for row in (one, rows[0])]
        batch = make_batch([piece_of(held, 8)], WIDTH)
        own = np.arange(0, len(held), 2)
        kernels.add_rows(batch, own, int(number == 0), MODELS[floor], votes, streamed)
    size = int(table["length_1"][0]) + int(table["length_2"][0])
    letters, qualities = np.full(size + 5, 7, np.uint8), np.full(size + 5, 7, np.uint8)
    umi = np.zeros((2, 32), np.uint8)
    at = kernels.call_single(several, 1, MODELS[floor], votes, 5, letters, qualities, umi)
    assert at == size + 5
    assert called_of(several[1], letters, qualities, umi[1]) == expected
    assert set(letters[:5].tolist()) == set(qualities[:5].tolist()) == {7}
    assert not umi[0].any()
    assert [streamed.tolist(), [0] * SAMPLES] == sums


def read(text: str, quality: Sequence[int], mate: str = "") -> Template:
    flags = HAS_UNKNOWN if "N" in text + mate else 0
    values = tuple(quality), (37,) * len(mate)
    return Template(0, "", "ACGTAC", (37,) * 6, (text, mate), values, flags=flags)


def consensus(*rows: Template, floor: float = 1e-4) -> Called:
    (found,) = call([rows], [8], floor)[1]
    assert found is not None
    assert found == oracle.vote(rows, TABLES[floor])
    return found


@pytest.mark.parametrize(
    ("letters", "best"), [("AC", "A"), ("GC", "C"), ("TG", "G"), ("TA", "A"), ("TGCA", "A")]
)
def test_ties_go_to_the_first_base(letters: str, best: str) -> None:
    found = consensus(*(read(letter, [30]) for letter in letters))
    assert found.letters[0] == best
    assert found.quality[0] == [3 if len(letters) == 2 else 2]


def test_one_read_keeps_its_qualities_but_for_the_floor() -> None:
    """Q = -10 log10(10^(-q/10) + 1e-4), rounded."""
    found = consensus(read("ACGTACG", [2, 12, 23, 30, 37, 40, 41]))
    assert found.letters[0] == "ACGTACG"
    assert found.quality[0] == [2, 12, 23, 30, 35, 37, 37]
    assert consensus(read("A", [60]), read("A", [60])).quality[0] == [40]
    assert consensus(read("A", [30]), read("A", [30])).quality[0] == [40]
    assert consensus(read("A", [30]), read("A", [30]), floor=1e-6).quality[0] == [59]


def test_what_is_not_known_is_not_invented() -> None:
    found = consensus(read("NNAA", [40, 40, 40, 0]), read("NC", [40, 0]), read("N", [2]))
    # No base at all, one without information, a base, one without information.
    assert found.letters[0] == "NNAN"
    assert found.quality[0] == [2, 2, 37, 2]
    assert (found.called, found.depth_min, found.depth_max) == (1, 1, 1)
    assert (found.base_votes, found.disagreements) == (3, 2)
    nothing = consensus(read("NN", [40, 40]))
    assert (nothing.letters[0], nothing.called, nothing.depth_min) == ("NN", 0, 0)


def test_the_longest_read_makes_the_frame() -> None:
    """A short read takes nothing from the others, and their tails are called by fewer reads."""
    found = consensus(read("", []), read("ACG", [30] * 3, "GG"), read("ACGTA", [30] * 5, "G"))
    assert found.letters == ["ACGTA", "GG"]
    assert found.quality == [[40, 40, 40, 30, 30], [40, 35]]
    assert (found.depth_min, found.depth_max) == (1, 2)


def test_reads_outvote_one_good_read() -> None:
    rows = [read("C", [20])] * 3 + [read("T", [40])]
    found = consensus(*rows)
    assert found.letters[0] == "C"
    assert (found.disagreements, found.base_votes) == (1, 4)
    assert consensus(read("C", [20]), read("C", [20]), read("T", [60])).letters[0] == "T"


def test_the_umi_has_the_quality_of_all_its_reads() -> None:
    rows = [Template(0, "G", "ACG", (2, 30, 2, 40), ("A", ""), ((37,), ())) for _ in range(2)]
    found = consensus(*rows)
    assert found.umi_quality == [40, 3, 40]
    assert consensus(rows[0]).umi_quality == [30, 2, 37]


def test_many_reads_leave_their_count_exact() -> None:
    rows = [read("AC"[number % 2] + "G", [93, 93]) for number in range(1001)]
    found = consensus(*rows)
    assert (found.depth_max, found.disagreements, found.base_votes) == (1001, 500, 2002)
    assert found.quality[0] == [40, 40]


@pytest.mark.parametrize("levels", [(37,), (2, 37), (2, 12, 37)])
def test_fewer_than_four_levels(levels: tuple[int, ...]) -> None:
    row = read("ACGT", [levels[number % len(levels)] for number in range(4)])
    batch = make_batch([piece_of([row], 2, levels)], WIDTH)
    votes = votes_for([row])
    kernels.add_rows(batch, np.arange(1), 1, MODELS[1e-4], votes, np.zeros(1, np.uint64))
    columns = [
        [
            TABLES[1e-4].votes[value] + (1 << kernels.VOTE_BITS) if base == place else 0
            for base in range(4)
        ]
        for place, value in enumerate(row.quality[0])
    ]
    assert votes.planes[0].T.tolist() == columns


def test_no_rows() -> None:
    table, called, sums = call([], [], 1e-4)
    assert (table.size, called, sums) == (0, [], [[0] * SAMPLES] * 2)


def planes_of(reads: int) -> Called:
    """Call a column of so many reads of Q93 that agree, as add_rows would have summed them."""
    model = MODELS[1e-4]
    votes = make_votes(1)
    votes.planes[0, 2, 0] = np.array(reads * int(model.votes[93]), np.uint64).view(np.int64)
    table = np.zeros(1, MOLECULE)
    table["length_1"], table["reads"] = 1, reads
    letters, qualities, umi = (
        np.zeros(1, np.uint8),
        np.zeros(1, np.uint8),
        np.zeros((1, 32), np.uint8),
    )
    assert kernels.call_single(table, 0, model, votes, 0, letters, qualities, umi) == 1
    return called_of(table[0], letters, qualities, umi[0])


@pytest.mark.parametrize(
    "reads",
    [
        2**23 - 1,
        2**24 - 1,
    ],
)
def test_millions_of_reads_a_column(reads: int) -> None:
    found = planes_of(reads)
    assert (found.letters[0], found.depth_max, found.base_votes) == ("G", reads, reads)


def test_the_hash_of_a_row_is_returned() -> None:
    row = read("ACGTN", [1, 2, 3, 4, 5], "GATT")
    piece = piece_of([row], 8)
    batch: Batch = make_batch([piece], WIDTH)
    votes = votes_for([row])
    kernels.add_rows(batch, np.arange(1), 1, MODELS[1e-4], votes, np.zeros(1, np.uint64))
    planes = votes.planes.copy()
    # Adding it again doubles every sum.
    assert wrapped.add_row(batch, 0, MODELS[1e-4], votes) == oracle.row_hash(row, WIDTH)
    assert (votes.planes == 2 * planes).all()
