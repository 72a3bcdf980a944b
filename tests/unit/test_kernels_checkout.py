"""Checkout of templates: orientation, cutting, verdicts and staged rows against the oracle."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernel_wrappers as wrapped
import oracle_match
from kernel_cases import (
    LETTERS,
    cases,
    compiled,
    foreign_of,
    kernel_read,
    oracle_rows,
    random_layouts,
    random_read,
    read_back,
    row_scratch,
    scratch_for,
    text_of,
)
from oracle import HAS_UNKNOWN, Template
from oracle_match import ASSIGNED, TOO_SHORT, UNRESOLVED, Read
from umimill.kernels import checkout as kernels
from umimill.kernels import cut as cut_kernels
from umimill.kernels import pairs as pair_kernels
from umimill.kernels import posterior, search
from umimill.kernels.match import VERDICTS, Mates, Patterns
from umimill.kernels.search import Scratch
from umimill.layout import SampleLayout, check_row
from umimill.matching import complements, staged_rows, table_of
from umimill.partition_writer import Staging

EMPTY: Read = ("", [])
EVEN = (0.25, 0.25, 0.25, 0.25)
SHARE = 0.02
Pair = tuple[Read, Read]


@dataclass
class Outcome:
    verdicts: list[int]
    rows: list[Template]
    ledger: Any
    counters: list[int]
    seen: set[int]
    partial: list[Template] = field(default_factory=list)


def laid_out(reads: Sequence[Read]) -> tuple[Any, Any]:
    """Return text and records of reads."""
    records = np.zeros((len(reads), 5), np.int32)
    data = b""
    for number, (bases, qualities) in enumerate(reads):
        data += b"@r\n"
        records[number, 2:4] = len(data), len(data) + len(bases)
        records[number, 4] = len(data) + len(bases) + 3
        data += bases.encode() + b"\n+\n" + bytes(33 + one for one in qualities) + b"\n"
    return text_of(data), records


def layouts_of(layouts: Sequence[tuple[str, str]], samples: Sequence[int]) -> list[SampleLayout]:
    return [
        SampleLayout(sample, check_row(*pair).sides)
        for sample, pair in zip(samples, layouts, strict=True)
    ]


def checkout(
    layouts: Sequence[SampleLayout],
    pairs: Sequence[Pair],
    paired: bool,
    minimum: int = 0,
    row_limit: int = 1000,
    partial: bool = False,
) -> Outcome:
    """Run the kernel until all templates are through, emptying the rows where they are full."""
    patterns = compiled(layouts)
    width = max(row.cell_length + row.umi_length for row in layouts)
    longest = max([len(one) for pair in pairs for one, _ in pair], default=0)
    stagings = Staging(1, width, 64), Staging(1, width + 1, 64)
    for staging in stagings:
        staging.hot = staging.hot[:row_limit].copy()
        staging.reserve(2 * (longest // 8 + longest // 32 + longest // 64 + 4))
        staging.hot["n_mask"] = 7
        staging.barcode_quality[:] = 99
        staging.cold[:] = 0xDEADBEEFDEADBEEF
    rules = cut_kernels.Rules(LETTERS, complements(), minimum, 3, int(partial), 0)
    first, second = (laid_out([pair[mate] for pair in pairs]) for mate in range(2))
    mates = Mates(*first, *(second if paired else first), int(paired))
    result = Outcome([], [], np.zeros((patterns.samples, VERDICTS), np.int64), [], set())
    counters = np.zeros(cut_kernels.COUNTERS, np.int64)
    matches, levels = np.full((len(pairs), 5), 99, np.int32), np.zeros((2, 6), np.int64)
    scratch = scratch_for(longest)
    match_templates(mates, len(pairs), patterns, rules, scratch, matches)
    start = 0
    while start < len(pairs):
        stop, full = kernels.stage_templates(
            mates,
            start,
            len(pairs),
            1000,
            matches,
            table_of(patterns),
            rules,
            scratch.text,
            *map(staged_rows, stagings),
            levels,
            result.ledger,
            counters,
        )
        assert stagings[full].fill[0] or stop == len(pairs)
        for staging, rows in zip(stagings, (result.rows, result.partial), strict=True):
            count, words = staging.fill.tolist()
            rows += read_back(
                staging.hot[:count],
                staging.barcode_quality[:count],
                staging.starts[:count].tolist(),
                staging.cold[:words],
            )
            result.seen |= set(np.flatnonzero(staging.seen).tolist())
            staging.clear()
        levels[:] = 0
        start = stop
    result.verdicts, result.counters = matches[:, 0].tolist(), counters.tolist()
    return result


def match_templates(
    mates: Mates, count: int, patterns: Patterns, rules: Any, scratch: Scratch, matches: Any
) -> None:
    """Match as umimill.matching does."""
    scores, sums, places = row_scratch(patterns)
    letters, others = rules.letters, rules.complements
    if patterns.posterior:
        foreign = foreign_of(SHARE, EVEN)
        posterior.weigh_templates(
            mates, 0, count, patterns, foreign, letters, scores, sums, matches
        )
    elif patterns.two_sided:
        pair_kernels.search_pairs(
            mates, 0, count, patterns, letters, others, scratch, places, matches
        )
    else:
        search.search_templates(mates, 0, count, patterns, letters, others, scratch, matches)


def expect(
    layouts: Sequence[SampleLayout],
    pairs: Sequence[Pair],
    paired: bool,
    minimum: int = 0,
    partial: bool = False,
) -> tuple[Outcome, set[int]]:
    """Return what the oracle makes of templates, and those whose verdict rounding may change."""
    rows = oracle_rows(layouts)
    anchored = all(side.anchored for row in rows for side in row.sides)
    two_sided = any(row.sides[1].symbols for row in rows)
    composition = dict.fromkeys("ACGTN", 0.25)
    result = Outcome(
        [], [], np.zeros((1 + max(row.sample for row in rows), VERDICTS), np.int64), [], set()
    )
    counters: Counter[int] = Counter()
    doubtful = set()

    def search(reads: Pair) -> Sequence[int]:
        return (
            oracle_match.search_both(rows, reads)
            if two_sided
            else (*oracle_match.search(rows, reads[0]), 0)
        )

    for number, pair in enumerate(pairs):
        reads = pair if paired else (pair[0], EMPTY)
        flags = 0
        if anchored:
            found = oracle_match.posterior(rows, reads, SHARE / (1 - SHARE), composition)
            if found.doubt <= 0 or len(found.verdicts) > 1:
                doubtful.add(number)
            place: Sequence[int] = (max(found.verdicts), found.row, 0, 0)
        else:
            place, reads, flags = oracle_match.both_ways(search, reads, paired)
        verdict, row, *offsets = place
        sample = 0
        if verdict == ASSIGNED:
            sample = rows[row].sample
            verdict, cut, shift = oracle_match.cut(
                rows[row], (offsets[0], offsets[1]), reads, minimum, partial=partial
            )
            counters[cut_kernels.SHIFTED_BARCODE] += shift != 0
            not_read = verdict in (oracle_match.UNRESOLVED, oracle_match.PARTIAL)
            counters[cut_kernels.UNKNOWN_IN_BARCODE] += not_read and shift == 0
            if cut:
                counters[cut_kernels.FLIPPED] += flags > 0
                counters[cut_kernels.UNKNOWN_IN_PAYLOAD] += bool(cut.flags & HAS_UNKNOWN)
                counters[cut_kernels.PAYLOAD_BASES] += len("".join(cut.payload))
                result.seen |= {value for values in cut.quality for value in values}
                cut = replace(cut, record=1000 + number, unit=3, flags=cut.flags | flags)
                (result.rows if verdict == ASSIGNED else result.partial).append(cut)
        result.verdicts.append(verdict)
        result.ledger[sample, verdict] += 1
    result.counters = [counters[place] for place in range(cut_kernels.COUNTERS)]
    return result, doubtful


def check(
    layouts: Sequence[SampleLayout],
    pairs: Sequence[Pair],
    paired: bool,
    minimum: int = 0,
    row_limit: int = 1000,
    partial: bool = False,
) -> Outcome:
    _, doubtful = expect(layouts, pairs, paired, minimum, partial)
    pairs = [pair for number, pair in enumerate(pairs) if number not in doubtful]
    expected, _ = expect(layouts, pairs, paired, minimum, partial)
    found = checkout(layouts, pairs, paired, minimum, row_limit, partial)
    assert found.partial == expected.partial
    assert found.verdicts == expected.verdicts
    assert found.rows == expected.rows
    assert found.ledger.tolist() == expected.ledger.tolist()
    assert found.counters == expected.counters
    if row_limit == 1000:
        # A fifth value ends the search for levels.
        assert found.seen <= expected.seen
        assert len(found.seen) >= min(5, len(expected.seen))
    return found


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
