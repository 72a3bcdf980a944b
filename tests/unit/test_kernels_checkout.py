"""Checkout of templates: orientation, cutting, verdicts and staged rows against the oracle."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernel_wrappers as wrapped
import oracle_match
from checkout_fixture import EMPTY, check, checkout, layouts_of
from kernel_cases import cases, kernel_read, oracle_rows, random_layouts, random_read
from oracle import HAS_UNKNOWN, Template
from oracle_match import ASSIGNED, TOO_SHORT, UNRESOLVED, Read
from umimill.kernels import cut as cut_kernels
from umimill.matching import complements


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_templates_are_checked_out_as_by_the_oracle(
    paired: bool, anchored: bool, second: bool
) -> None:
    verdicts: Counter[int] = Counter()
    flips = partial = 0
    for round_number in range(cases(12)):
        rng = random.Random(f"checkout {paired} {anchored} {second} {round_number}")
        first, samples = random_layouts(rng, anchored)
        other = random_layouts(rng, anchored or rng.random() < 0.5)[0]
        layouts = layouts_of(
            [(one, rng.choice([*other, ""]) if second and paired else "") for one in first], samples
        )
        rows = oracle_rows(layouts)
        pairs = []
        for _ in range(cases(40)):
            pair = random_read(rng, rows), random_read(rng, rows, 1) if paired else EMPTY
            if rng.random() < 0.3:
                pair = with_indel(rng, pair[0]), pair[1]
            if paired and rng.random() < 0.2:
                pair = pair[1], pair[0]
            elif not paired and rng.random() < 0.2:
                pair = oracle_match.reverse_complement(pair[0]), EMPTY
            pairs.append(pair)
        found = check(layouts, pairs, paired, rng.choice([0, 0, 3, 12]), partial=rng.random() < 0.7)
        partial += len(found.partial)
        verdicts.update(found.verdicts)
        flips += found.counters[cut_kernels.FLIPPED]
    if sum(verdicts.values()) > 300:
        assert verdicts[ASSIGNED] > 20
        assert verdicts[oracle_match.PARTIAL] == partial
        # Only a layout that is searched may be on the other strand or mate.
        assert (flips > 5) == (not anchored)


def with_indel(rng: random.Random, read: Read) -> Read:
    """Take a base out of a read, or put one in."""
    bases, qualities = read
    if len(bases) < 2:
        return read
    place = rng.randrange(len(bases))
    if rng.random() < 0.5:
        return bases[:place] + bases[place + 1 :], [*qualities[:place], *qualities[place + 1 :]]
    return bases[:place] + "G" + bases[place:], [*qualities[:place], 30, *qualities[place:]]


HIGH = 37


def high(bases: str, quality: int = HIGH) -> Read:
    return bases, [quality] * len(bases)


ONE = layouts_of([("^ACGTACGTNNNN.", "")], [0])


@pytest.mark.parametrize(
    ("read", "minimum", "verdict"),
    [
        (high("ACGTACGTAAAAGC"), 0, ASSIGNED),
        (high("ACGTACGTAAAAG"), 0, oracle_match.EMPTY_PAYLOAD),
        (high("ACGTACGTAAAA"), 0, TOO_SHORT),
        (high("ACGTACGT"), 0, TOO_SHORT),
        (high("ACGTACG"), 0, oracle_match.UNMATCHED),
        (high("TTTTTTTTTTTTTTT"), 0, oracle_match.UNMATCHED),
        (high("ACGTACGTANAAGC"), 0, oracle_match.UNRESOLVED),
        (("ACGTACGTAAAAGC", [HIGH] * 8 + [20, 19, 20, 20, 2, 2]), 20, oracle_match.LOW_UMI_QUALITY),
        (("ACGTACGTAAAAGC", [HIGH] * 8 + [20, 20, 20, 20, 2, 2]), 20, ASSIGNED),
        # The first line that applies, in the order of the ledger.
        (("ACGTACGTANAAG", [HIGH] * 9 + [2] + [HIGH] * 3), 20, oracle_match.LOW_UMI_QUALITY),
        (high("ACGTACGTANAAG"), 20, oracle_match.EMPTY_PAYLOAD),
        (("ACGTACGTANAA", [HIGH] * 9 + [2] + [HIGH] * 2), 20, TOO_SHORT),
    ],
)
def test_verdicts(read: Read, minimum: int, verdict: int) -> None:
    assert check(ONE, [(read, EMPTY)], False, minimum).verdicts == [verdict]


def test_a_cell_base_has_no_minimum() -> None:
    layouts = layouts_of([("^ACGTACGTXXNN", "")], [0])
    read = "ACGTACGTAAAAGC", [HIGH] * 8 + [2, 2, 20, 20, 2, 2]
    assert check(layouts, [(read, EMPTY)], False, 20).verdicts == [ASSIGNED]


def test_a_row_in_full() -> None:
    layouts = layouts_of([("^TTTT", "NN"), ("ACGTACGTACNXNt", "^XN")][1:], [0])
    first = "GACGTACGTACATCTGANTC", list(range(20, 40))
    second = "GTNAC", [1, 2, 3, 4, 5]
    found = checkout(layouts, [(first, second)], True)
    assert found.rows == [
        Template(
            0,
            "TG",
            "ACT",
            (32, 1, 31, 33, 2),
            ("GANTC", "NAC"),
            ((35, 36, 37, 38, 39), (3, 4, 5)),
            1000,
            3,
            HAS_UNKNOWN,
        )
    ]
    swapped = checkout(layouts, [(second, first)], True)
    assert swapped.rows == [replace(found.rows[0], flags=HAS_UNKNOWN | oracle_match.SWAPPED)]
    assert swapped.counters[cut_kernels.FLIPPED] == 1
    assert swapped.ledger.tolist() == [[1, 0, 0, 0, 0, 0, 0, 0]]


def test_the_payload_of_a_structure_ends() -> None:
    layouts = layouts_of([("4M2S5T3M+S", "")], [0])
    pairs = [(high("AAAACCGATTAGGGTTTT"), EMPTY), (high("AAAACCGATTAGG"), EMPTY)]
    found = check(layouts, pairs, False)
    assert found.verdicts == [ASSIGNED, TOO_SHORT]
    assert (found.rows[0].umi, found.rows[0].payload) == ("AAAAGGG", ("GATTA", ""))


def test_a_read_of_no_payload_has_its_mate() -> None:
    layouts = layouts_of([("4M", "")], [0])
    found = check(layouts, [(high("AAAACC"), high("GATTACA"))], True)
    assert found.rows[0].payload == ("", "GATTACA")
    assert check(layouts, [(high("AAAACC"), EMPTY)], True).verdicts == [oracle_match.EMPTY_PAYLOAD]


def test_an_ambiguous_read_is_not_turned_round() -> None:
    layouts = layouts_of([("ACGTACGTAACNN", ""), ("ACGTACGTAAGNN", "")], [0, 1])
    # Read 1 is ambiguous for its N, read 2 is not.
    pair = high("TACGTACGTAANGGGATT", 20), high("TACGTACGTAACGGGATT")
    found = check(layouts, [pair, (pair[1], pair[0]), (high("T" * 18), pair[0])], True)
    assert found.verdicts == [oracle_match.AMBIGUOUS, ASSIGNED, oracle_match.AMBIGUOUS]
    assert found.ledger[0, oracle_match.AMBIGUOUS] == 2


@pytest.mark.parametrize("row_limit", [1, 2, 7])
def test_full_rows_lose_nothing(row_limit: int) -> None:
    rng = random.Random(row_limit)
    layouts = layouts_of([("ACGTACGTACNNNN", ""), ("TTGCATTGCANNNN", "")], [0, 1])
    rows = oracle_rows(layouts)
    pairs = [(random_read(rng, rows), EMPTY) for _ in range(60)]
    check(layouts, pairs, False, row_limit=row_limit)


@given(
    st.lists(st.sampled_from([2, 12, 23, 37, 40, 41]), min_size=1, max_size=5),
    st.lists(st.integers(0, 4), max_size=60),
)
def test_quality_levels_are_noted(levels: list[int], choice: list[int]) -> None:
    """All where there are at most four, more than four where there are more."""
    values = [levels[one % len(levels)] for one in choice]
    pairs = [
        (("ACGTACGTAAAAG" + "A" * len(part), [40] * 13 + part), EMPTY)
        for part in (values[start : start + 7] for start in range(0, len(values), 7))
    ]
    found = checkout(ONE, pairs, False)
    if len(set(values)) <= 4:
        assert found.seen == set(values)
    else:
        assert len(found.seen) == 5


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 64, 5000])
@pytest.mark.parametrize("unknown", [False, True])
def test_long_reads(length: int, unknown: bool) -> None:
    rng = random.Random(length)
    bases = "".join(rng.choices("ACGTacgtU" + "NRn." * unknown, k=length))
    mate = "".join(rng.choices("ACGT", k=length // 2))
    qualities = [rng.randint(0, 93) for _ in range(length)]
    read = "ACGTACGTACGTG" + bases, [HIGH] * 13 + qualities
    pair = read, (mate, [rng.randint(0, 93) for _ in mate])
    assert len(check(ONE, [pair, pair], True).rows) == 2 * bool(length)


@given(st.lists(st.tuples(st.sampled_from("ACGTUNacgtunRy.-"), st.integers(0, 93)), max_size=50))
def test_a_read_is_turned_round(letters: list[tuple[str, int]]) -> None:
    read = "".join(one for one, _ in letters), [one for _, one in letters]
    text = np.zeros(2 * len(letters) + 128, np.uint8)
    starts = wrapped.reverse_read(kernel_read(read), complements(), text)
    bases, qualities = oracle_match.reverse_complement(read)
    found = text.tobytes()
    assert found[starts[0] :][: len(letters)] == bases.encode()
    assert found[starts[1] :][: len(letters)] == bytes(33 + one for one in qualities)
    assert starts[2] == len(letters)


@pytest.mark.parametrize(
    ("pattern", "front", "behind"),
    [
        ("^CAGTGGTATCAACGCAGAGTNNNNNNNNtgact", "CAGTGGTATCAACGCAGAGT", "TGACT"),
        # What is searched is found by its longer part: before the UMI, or behind it.
        ("CAGTGGTATCAACGCAGAGTACATGGNNNNNNNNtgact", "CAGTGGTATCAACGCAGAGTACATGG", "TGACT"),
        ("cagtgNNNNNNNNTGACTGGTACACAGTGGTATCAACGC", "CAGTG", "TGACTGGTACACAGTGGTATCAACGC"),
        # Of a UMI in pieces the last one counts; what lies behind the anchor moves with it.
        ("^CAGTGGTATCAACGCAGAGTNNtNNNNNNtgactNN", "CAGTGGTATCAACGCAGAGT", "TGACT"),
    ],
)
def test_a_base_less_or_more_in_the_barcode(pattern: str, front: str, behind: str) -> None:
    """A deletion and an insertion at every position of the UMI."""
    layouts = layouts_of([(pattern, "")], [0])
    umi, payload = "GATTACAG", "GGCCTTAAGGCCTTAACCAT"
    if "NNtNN" in pattern:
        umi = "GATTACAGG"
    lead = "" if pattern.startswith("^") else "AC"
    pairs, umis = [], []
    for place in range(len(umi)):
        umis.append(umi[:place] + umi[place + 1 :])
        umis.append(umi[:place] + "C" + umi[place:])
    umis.append(umi[:3] + "N" + umi[4:])
    pairs = [(high(lead + front + one + behind + payload), EMPTY) for one in [umi, *umis]]
    found = check(layouts, pairs, False, row_limit=3, partial=True)
    assert found.verdicts == [ASSIGNED, *[oracle_match.PARTIAL] * len(umis)]
    assert found.counters[cut_kernels.SHIFTED_BARCODE] == len(umis) - 1
    for row, one in zip(found.partial, umis, strict=True):
        if "NNtNN" not in pattern:
            assert row.umi == one
        assert row.payload[0] == payload[2 * ("tNN" in pattern[-4:]) :]
        size = len(one) - len(umi)
        expected = {-1: oracle_match.SHIFT_MINUS, 0: 0, 1: oracle_match.SHIFT_PLUS}[size]
        assert row.flags == expected
    # Where they are not kept they are not assigned.
    unresolved = check(layouts, pairs, False).verdicts
    assert unresolved == [ASSIGNED, *[oracle_match.UNRESOLVED] * len(umis)]


def test_a_shift_beside_a_cell_an_unknown_base_or_errors_is_no_shift_of_the_umi() -> None:
    front = "CAGTGGTATCAACGCAGAGT"
    layouts = layouts_of([("^" + front + "XXNNNNNNNtgact", "")], [0])
    read = high(front + "AAAAGCTTTGACTCCCC")
    assert check(layouts, [(read, EMPTY)], False, partial=True).verdicts == [UNRESOLVED]
    layouts = layouts_of([("^" + front + "NNNNNNNNNtgact", "")], [0])
    pairs = [
        (read, EMPTY),
        (high(front + "ANAAGCTTTGACTCCCC"), EMPTY),
        # Errors of low quality, and an anchor that is not there.
        ((front + "AAAAGCTTTGACTCCCC", [HIGH] * 28 + [2] * 9), EMPTY),
        (high(front + "AAAAGCTTGCCCCCCCC"), EMPTY),
    ]
    verdicts = check(layouts, pairs, False, partial=True).verdicts
    assert verdicts == [oracle_match.PARTIAL, UNRESOLVED, ASSIGNED, ASSIGNED]


def test_unknown_bases_of_a_cell_or_more_than_two_are_not_kept() -> None:
    layouts = layouts_of([("^ACGTACGTXXNNNN.", "")], [0])
    umis = {"AAANAA": oracle_match.PARTIAL, "AAANNA": oracle_match.PARTIAL, "AAAAAN": 7,
            "AAANNN": UNRESOLVED, "ANAAAA": UNRESOLVED, "NAANAA": UNRESOLVED}  # fmt: skip
    pairs = [(high("ACGTACGT" + umi + "GCCC"), EMPTY) for umi in umis]
    found = check(layouts, pairs, False, partial=True)
    assert found.verdicts == list(umis.values())
    assert found.counters[cut_kernels.UNKNOWN_IN_BARCODE] == len(umis)
