"""The vote against a naive one on strings and whole numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernel_wrappers as wrapped
import oracle
from kernel_cases import dna, staged
from oracle import HAS_UNKNOWN, Called, Template
from umimill.cells import MOLECULE, make_votes, widen_votes
from umimill.consensus import make_model, make_tables
from umimill.kernels import consensus as kernels
from umimill.kernels import molecules as molecule_kernels
from umimill.kernels.consensus import Batch
from umimill.loading import Piece, make_batch
from umimill.partition import sorted_order

WIDTH = 6
SAMPLES = 2
FLOORS = (1e-4, 1e-6, 1e-9, 0.1)
MODELS = {floor: make_model(floor) for floor in FLOORS}
TABLES = {
    floor: oracle.Tables(
        *(column.tolist() for column in (made.votes, made.losers, made.thresholds)), made.floor
    )
    for floor, made in ((floor, make_tables(floor)) for floor in FLOORS)
}
LEVELS = (0, 2, 12, 37)
BARCODES = (("", "AC"), ("", "ACA"), ("G", "TT"), ("", "TTTTTT"))


def piece_of(rows: Sequence[Template], bits: int, levels: Sequence[int] = LEVELS) -> Piece:
    """Return rows as they are read from one run of a file."""
    hot, barcode_quality, *_ = staged(rows, WIDTH)
    words = [word for row in rows for word in oracle.pack_cold(row, levels if bits == 2 else None)]
    # Fewer levels than four are filled up as partition.py does.
    table = np.array([*levels, 255, 255, 255][:4], np.uint8)
    return Piece(hot, barcode_quality, np.array(words, np.uint64), bits, table)


def votes_for(rows: Sequence[Template]) -> Any:
    votes = make_votes(max((len(text) for row in rows for text in row.payload), default=0))
    votes.planes[:], votes.barcode[:] = 99, 99
    votes.codes[:], votes.qualities[:] = 9, 9
    return votes


def called_of(entry: Any, letters: Any, qualities: Any, umi_quality: Any) -> Called:
    start = int(entry["offset"])
    middle = start + int(entry["length_1"])
    stop = middle + int(entry["length_2"])
    spans = slice(start, middle), slice(middle, stop)
    quality = [(qualities[span].astype(int) - 33).tolist() for span in spans]
    assert [int(entry["quality_sum_1"]), int(entry["quality_sum_2"])] == [
        sum(
            value
            for value, letter in zip(values, letters[span].tolist(), strict=True)
            if letter != ord("N")
        )
        for values, span in zip(quality, spans, strict=True)
    ]
    umi_length = int(entry["umi_length"])
    return Called(
        [letters[span].tobytes().decode() for span in spans],
        quality,
        (umi_quality[:umi_length].astype(int) - 33).tolist(),
        *(
            int(entry[name])
            for name in (
                "depth_min",
                "depth_max",
                "error_sum",
                "base_votes",
                "disagreements",
                "called",
            )
        ),
    )


def molecules_of(rows: Sequence[Template], numbers: Sequence[int], minimum: int) -> Any:
    """Return the molecules of rows as assemble lists them, with rubbish where nothing is known."""
    held = sorted({(row.order, n) for row, n in zip(rows, numbers, strict=True) if n >= 0})
    table = np.zeros(len(held), MOLECULE)
    for name in ("error_sum", "base_votes", "disagreements", "quality_sum_1", "called"):
        table[name] = 99
    groups = oracle.molecules(rows, numbers)
    for entry, (_, number), group in zip(table, held, groups, strict=True):
        entry["sample"], entry["key"] = group[0].sample, oracle.key_of(group[0].barcode)
        entry["cell_length"], entry["umi_length"] = len(group[0].cell), len(group[0].umi)
        entry["number"], entry["reads"] = number, len(group)
        entry["kept"] = len(group) >= minimum
    return table


def call(
    runs: Sequence[Sequence[Template]],
    bits: Sequence[int],
    floor: float,
    minimum: int = 1,
    numbers: Sequence[int] | None = None,
    given: Sequence[int] | None = None,
) -> tuple[Any, list[Called | None], list[list[int]]]:
    """Return (molecules, what was called of each, hash sums) of rows in several runs.

    Args:
        runs: rows.
        bits: bits of a quality of each run.
        floor: error floor.
        minimum: molecules of fewer reads are not called.
        numbers: molecule of its key of each row; -1 where it was moved away; 0 unless told.
        given: family of rows that were moved here, else -1.
    """
    rows = [row for run in runs for row in run]
    numbers = numbers or [0] * len(rows)
    batch = make_batch([piece_of(*pair) for pair in zip(runs, bits, strict=True)], WIDTH)
    order = sorted_order(batch.hot, len(rows))
    table = molecules_of(rows, numbers, minimum)
    ordered = np.full(len(rows), -9)
    found = molecule_kernels.order_rows(
        batch.hot, order, np.array(numbers, np.int64), table, ordered
    )
    assert found == sum(number >= 0 for number in numbers)
    kept = table["kept"] == 1
    size = int((table["length_1"].astype(int) + table["length_2"])[kept].sum())
    letters, qualities = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    umi, sums = np.zeros((table.size, 32), np.uint8), np.zeros((2, SAMPLES), np.uint64)
    kernels.call_molecules(
        batch,
        ordered,
        np.array(given or [-1] * len(rows), np.int64),
        table,
        MODELS[floor],
        votes_for(rows),
        letters,
        qualities,
        umi,
        sums,
    )
    called = [
        called_of(entry, letters, qualities, values) if entry["reads"] >= minimum else None
        for entry, values in zip(table, umi, strict=True)
    ]
    return table, called, sums.tolist()


def dense(rows: Sequence[Template], drawn: Sequence[int]) -> list[int]:
    """Number the molecules of each key without gaps; -1 stays."""
    numbers = []
    for row, number in zip(rows, drawn, strict=True):
        met = {n for one, n in zip(rows, drawn, strict=True) if one.order == row.order and n >= 0}
        numbers.append(sorted(met).index(number) if number >= 0 else -1)
    return numbers


@st.composite
def reads_of_molecules(draw: st.DrawFn, most: int = 14) -> list[Template]:
    """Draw rows of few barcodes whose payloads are alike, with few qualities, so that votes tie."""
    truth = draw(dna(0, 40)), draw(st.one_of(st.just(""), dna(0, 20)))
    rows = []
    for number in range(draw(st.integers(1, most))):
        cell, umi = draw(st.sampled_from(BARCODES))
        payload, quality = [], []
        for text in truth:
            held = list(text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text)
            for place in draw(st.lists(st.integers(0, 39), max_size=6)):
                if place < len(held):
                    held[place] = draw(st.sampled_from("ACGTN"))
            payload.append("".join(held))
            levels = LEVELS if draw(st.booleans()) else (37,)
            size = len(held)
            quality.append(
                tuple(draw(st.lists(st.sampled_from(levels), min_size=size, max_size=size)))
            )
        barcode = tuple(
            draw(st.lists(st.integers(0, 93), min_size=len(cell + umi), max_size=len(cell + umi)))
        )
        flags = HAS_UNKNOWN if "N" in "".join(payload) else 0
        rows.append(
            Template(
                draw(st.integers(0, SAMPLES - 1)),
                cell,
                umi,
                barcode,
                (payload[0], payload[1]),
                (quality[0], quality[1]),
                number,
                flags=flags,
            )
        )
    return rows


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
