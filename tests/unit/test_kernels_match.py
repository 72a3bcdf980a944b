"""The matcher against a full scan of all rows and offsets."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernel_wrappers as wrapped
import oracle
import oracle_match
from kernel_cases import (
    LETTERS,
    cases,
    compiled,
    dna,
    instance,
    kernel_read,
    random_layouts,
    random_read,
    random_sequence,
)
from match_fixture import EMPTY, Library, high, read_strategy, spread_tags
from oracle_match import AMBIGUOUS, ASSIGNED, UNMATCHED, Read, Row
from umimill.layout import SampleLayout, check_row

# Words of a read


@given(dna(0, 100, "ACGT"), st.integers(0, 99))
def test_shifted_word_is_the_rest_of_the_read(bases: str, at: int) -> None:
    at = min(at, len(bases))
    words = [*oracle.pack_bases(bases), 0, 0]
    expected = oracle.key_of(bases[at : at + 32])
    assert wrapped.shifted_word(np.array(words, np.uint64), at) == expected


@given(dna(40, 100), dna(32, 32), st.lists(st.booleans(), min_size=32, max_size=32), st.data())
def test_window_mismatches_are_counted(
    bases: str, window: str, used: list[bool], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(bases) - 32))
    read = np.array([*oracle.pack_bases(bases), 0, 0], np.uint64)
    mask = oracle.pack([0b01 if one else 0b00 for one in used], 2)
    kept = [letter if one else "A" for letter, one in zip(window, used, strict=True)]
    exact = np.uint64(oracle.key_of("".join(kept)))
    found = int(wrapped.window_mismatches(read, at, exact, np.uint64(mask[0])))
    expected = [
        0b01 if one and bases[at + place] != window[place] else 0b00
        for place, one in enumerate(used)
    ]
    assert found == oracle.pack(expected, 2)[0]


@given(
    st.lists(st.tuples(st.sampled_from("ACGTNacgR."), st.integers(0, 93)), max_size=100),
    st.integers(0, 93),
)
def test_low_quality_words_mark_what_is_uncertain(read: list[tuple[str, int]], least: int) -> None:
    bases, qualities = "".join(one for one, _ in read), [one for _, one in read]
    words = np.full(6, 7, np.uint64)
    scratch = np.full(len(bases) + 64, 3, np.uint8)
    wrapped.low_quality_words(kernel_read((bases, qualities)), LETTERS, least, scratch, words)
    expected = oracle.pack(
        [3 * (quality < least or oracle.base(letter) == "N") for letter, quality in read], 2
    )
    assert words[: len(expected) + 2].tolist() == [*expected, 0, 0]


def test_logarithms_of_large_counts() -> None:
    log2 = compiled([SampleLayout(0, check_row("^ANN", None).sides)]).log2
    for count in [1, 2, 3, 100, 2047, 2048, 4096, 1 << 20]:
        assert wrapped.log2_of(log2, count) == oracle_match.bits_of(count)
    for count in random.Random(1).sample(range(2048, 1 << 20), 50):
        assert -2 <= wrapped.log2_of(log2, count) - oracle_match.bits_of(count) <= 1


def test_weights_are_powers_of_two() -> None:
    weights = compiled([SampleLayout(0, check_row("^ANN", None).sides)]).weights
    for difference in [0, -1, -1023, -1024, -1025, -5000, -40959, -40960, -(10**9)]:
        exact = 2.0 ** (40 + difference / 1024)
        assert abs(int(wrapped.weight_of(weights, difference)) - exact) <= 1


# Search along the read


def check_search(library: Library, read: Read, hints: Sequence[int]) -> int:
    verdict, row, offset = oracle_match.search(library.rows, read)
    for hint in hints:
        found = library.match(read, hint=hint)
        assert found.verdict == verdict
        if verdict == ASSIGNED:
            assert (found.row, found.offset_1, found.offset_2) == (row, offset, 0)
    return verdict


def random_libraries(seed: int, rounds: int) -> Iterator[tuple[random.Random, Library]]:
    for round_number in range(rounds):
        rng = random.Random(f"{seed} {round_number}")
        layouts, samples = random_layouts(rng, anchored=False)
        library = Library(layouts, samples)
        if not library.patterns.posterior:
            yield rng, library


@pytest.mark.parametrize("seed", range(4))
def test_search_is_the_full_scan(seed: int) -> None:
    verdicts: Counter[int] = Counter()
    for rng, library in random_libraries(seed, cases(30)):
        for _ in range(cases(40)):
            read = random_read(rng, library.rows)
            hints = [0, rng.randint(0, 60), oracle_match.search(library.rows, read)[2]]
            verdicts[check_search(library, read, hints)] += 1
    if sum(verdicts.values()) > 500:
        # Each verdict is met often enough to be tested.
        assert min(verdicts[one] for one in (ASSIGNED, UNMATCHED, AMBIGUOUS)) > 50


@pytest.mark.parametrize("seed", range(4))
def test_many_tags_are_searched_as_if_all_were_scored(seed: int) -> None:
    verdicts: Counter[int] = Counter()
    for round_number in range(cases(12)):
        rng = random.Random(f"tags {seed} {round_number}")
        length = rng.randint(3, 8)
        tags = spread_tags(
            rng.randint(2, 30), length, rng.choice([1, 1, 2]) if length > 3 else 1, rng
        )
        before, behind = random_sequence(rng, rng.choice([0, 2])), random_sequence(rng, 12)
        lower = rng.random() < 0.3
        layouts = [
            f"{before.lower()}{tag.lower() if lower else tag}{behind.lower()}NNN" for tag in tags
        ]
        samples = [rng.randrange(len(tags)) for _ in tags] if rng.random() < 0.3 else None
        library = Library(layouts, samples)
        assert library.patterns.tags.shape == (len(tags), 1)
        for _ in range(cases(60)):
            bases = list(random_sequence(rng, 6) + rng.choice(layouts).upper().replace("N", "A"))
            qualities = [rng.choice([0, 2, 11, 25, 37, 37, 37]) for _ in bases]
            for place in range(len(bases)):
                if rng.random() < rng.choice([0.02, 0.2]):
                    bases[place] = rng.choice("ACGTN")
            start = rng.randint(0, 6)
            read = "".join(bases)[start:], qualities[start:]
            verdicts[check_search(library, read, [0, 6 - start, 40])] += 1
    if sum(verdicts.values()) > 500:
        assert min(verdicts[one] for one in (ASSIGNED, UNMATCHED, AMBIGUOUS)) > 20


layouts_strategy = st.lists(
    st.text("ACGTacgtRNX.", min_size=1, max_size=9).map(lambda text: text + "AN"),
    min_size=1,
    max_size=3,
)


@given(layouts_strategy, st.lists(st.integers(0, 1), min_size=3, max_size=3), read_strategy)
def test_short_hostile_reads(layouts: list[str], samples: list[int], read: Read) -> None:
    library = Library(layouts, [*samples[: len(layouts) - 1], 0][: len(layouts)])
    check_search(library, read, [0, 3, 50])


def test_a_layout_in_the_middle_of_a_read() -> None:
    library = Library(["cagtggtatcaacgcagagtNNNNtNNNNtNNNN"])
    bases = "GG" + "CAGTGGTATCAACGCAGAGT" + "ACGTTACGTTACGT" + "GATTACA" * 5
    found = library.match(high(bases))
    assert (found.verdict, found.offset_1) == (ASSIGNED, 2)
    assert found.score == sum(
        oracle_match.points(symbol, letter, 37)
        for symbol, letter in zip(library.rows[0].sides[0].symbols, bases[2:], strict=False)
        if symbol not in "N."
    )


@pytest.mark.parametrize(
    ("offsets", "rows", "scored", "verdict"),
    [
        # log2(offsets rows / 0.01) bits: 7.64, 8.64 and 13.0 against 2 bits a perfect base.
        (2, 1, 4, ASSIGNED),
        (2, 1, 3, UNMATCHED),
        (4, 1, 5, ASSIGNED),
        (4, 1, 4, UNMATCHED),
        (40, 2, 7, ASSIGNED),
        (40, 2, 6, UNMATCHED),
    ],
)
def test_the_bar(offsets: int, rows: int, scored: int, verdict: int) -> None:
    tags = ["ACGTGCA"[:scored], "TTTTTTT"[:scored]][:rows]
    library = Library([tag + "N" for tag in tags])
    bases = tags[0] + "G" + "G" * (offsets - 1)
    assert library.match(high(bases, 93)).verdict == verdict


def test_a_second_sample_within_five_bits() -> None:
    library = Library(["ACGTACGTACNNN", "ACGTACGTATNNN"])
    bases = "ACGTACGTACGGG"
    for quality in range(2, 41):
        qualities = [40] * len(bases)
        qualities[9] = quality
        apart = oracle_match.points("C", "C", quality) - oracle_match.points("T", "C", quality)
        expected = ASSIGNED if apart >= 5 * 1024 else AMBIGUOUS
        assert library.match((bases, qualities)).verdict == expected
    # Rows of one sample do not compete.
    same = Library(["ACGTACGTACNNN", "ACGTACGTATNNN"], [0, 0])
    assert same.match((bases, [40] * 9 + [2] * 4)).verdict == ASSIGNED
    # An N there is a mismatch for both.
    unknown = library.match(high(bases[:9] + "N" + bases[10:], 20))
    assert unknown.verdict == AMBIGUOUS


@pytest.mark.skipif(cases(2) < 2, reason="too slow without the compiler")
def test_random_reads_are_foreign() -> None:
    rng = random.Random(7)
    tags = [random_sequence(rng, 6) for _ in range(4)]
    library = Library([tag.lower() + "cagtggtatcaacgcagagtNNNNtNNNNt" for tag in tags])
    verdicts = Counter(
        library.match(high(random_sequence(rng, 129), 30)).verdict for _ in range(5000)
    )
    assert verdicts == {UNMATCHED: 5000}


# Both mates


def check_both(library: Library, reads: tuple[Read, Read]) -> int:
    verdict, row, *offsets = oracle_match.search_both(library.rows, reads)
    found = library.match(*reads)
    assert found.verdict == verdict
    if verdict == ASSIGNED:
        assert [found.row, found.offset_1, found.offset_2] == [row, *offsets]
    return verdict


@pytest.mark.parametrize("seed", range(2))
def test_search_of_both_mates_is_the_full_scan(seed: int) -> None:
    verdicts: Counter[int] = Counter()
    for round_number in range(cases(25)):
        rng = random.Random(f"both {seed} {round_number}")
        first, samples = random_layouts(rng, anchored=False)
        second, _ = random_layouts(rng, anchored=rng.random() < 0.3)
        pairs = [(one, rng.choice([*second, ""])) for one in first]
        library = Library(pairs, samples)
        if library.patterns.posterior or not library.patterns.two_sided:
            continue
        for _ in range(cases(40)):
            reads = random_read(rng, library.rows), random_read(rng, library.rows, 1)
            verdicts[check_both(library, reads)] += 1
    if sum(verdicts.values()) > 300:
        assert min(verdicts[one] for one in (ASSIGNED, UNMATCHED, AMBIGUOUS)) > 10


def test_the_slave_decides_between_equal_masters() -> None:
    library = Library([("ACGTACGTNNNN", "TTGCATTGCA"), ("ACGTACGTNNNN", "CCATGCCATG")])
    read = high("GACGTACGTAAAATTT")
    assert library.match(read, high("ATTGCATTGCAG")).row == 0
    assert library.match(read, high("CCATGCCATGAG")).row == 1
    assert library.match(read, EMPTY).verdict == UNMATCHED


# Layouts at several places


def near_places(rng: random.Random, count: int) -> tuple[Library, Read, list[int]]:
    """A read that holds `count` layouts, more and less well, and where they begin."""
    primer = random_sequence(rng, rng.randint(8, 28), rng.choice(["ACGT", "acgt", "ACGTacgt"]))
    tags = spread_tags(3, 4, rng.choice([1, 3]), rng)
    layouts = [
        rng.choice(["", "^"] if tag == tags[2] else [""]) + primer + tag + "NNNN" for tag in tags
    ]
    library = Library(layouts, rng.choice([[0, 1, 2], [0, 1, 0]]))
    bases, qualities, places = random_sequence(rng, rng.randint(0, 9)), [], []
    rate = rng.choice([0, 0.05, 0.1, 0.2, 0.5])
    for _ in range(count):
        places.append(len(bases))
        symbols = rng.choice(library.rows[: rng.choice([2, 3])]).sides[0].symbols
        for letter in instance(rng, symbols) + random_sequence(rng, rng.randint(0, 9)):
            wrong = rng.random() < rate
            bases += rng.choice("ACGTN") if wrong else letter
    low = rng.choice([[2], [2, 9, 10, 11, 12], [12, 23]])
    wrong_low = rng.choice([0.3, 0.9])
    qualities = [rng.choice(low) if rng.random() < wrong_low else 37 for _ in bases]
    return library, (bases, qualities), places


@pytest.mark.parametrize("count", [1, 2, 3])
def test_layouts_at_several_places(count: int) -> None:
    """Mismatches of low quality cost little, and a second place may be within the margin."""
    verdicts: Counter[int] = Counter()
    for round_number in range(cases(400)):
        library, read, places = near_places(random.Random(f"{count} {round_number}"), count)
        verdicts[check_search(library, read, [*places, 1, 400])] += 1
    if sum(verdicts.values()) == 400:
        assert min(verdicts[one] for one in (ASSIGNED, UNMATCHED, AMBIGUOUS)) > 20


def pair_layouts(rng: random.Random, own_primers: bool) -> list[tuple[str, str]]:
    """Three rows, searched on read 1 as a rule, whose tags differ on both mates."""
    sides = []
    for side in range(2):
        primer = random_sequence(rng, rng.randint(4, 20), rng.choice(["ACGT", "ACGTacgt"]))
        rows = []
        for tag in spread_tags(3, 4, rng.choice([1, 3]), rng):
            if own_primers:
                primer = random_sequence(rng, rng.randint(2, 12), "ACGTacgtR")
            anchor = "^" * (rng.random() < 0.1 + 0.3 * side)
            rows.append(anchor + primer + tag + "NN" * rng.randint(1 - side, 2))
        sides.append(rows)
    # At times a row has nothing on read 2.
    return [(one, rng.choice([other, other, other, ""])) for one, other in zip(*sides, strict=True)]


def read_of_several(rng: random.Random, rows: Sequence[Row], side: int) -> Read:
    """A read that holds up to three layouts of a side, more and less well."""
    bases, rate = random_sequence(rng, rng.randint(0, 6)), rng.choice([0, 0.05, 0.2])
    for _ in range(rng.randint(0, 3)):
        held = instance(rng, rng.choice(rows).sides[side].symbols)
        for letter in held + random_sequence(rng, rng.randint(0, 6)):
            bases += rng.choice("ACGTN") if rng.random() < rate else letter
    low, share = rng.choice([[2], [2, 10, 11], [19, 20, 21]]), rng.choice([0, 0.3, 0.9])
    return bases, [rng.choice(low) if rng.random() < share else 37 for _ in bases]


@pytest.mark.parametrize("own_primers", [False, True])
def test_layouts_at_several_places_of_both_mates(own_primers: bool) -> None:
    """Each mate holds up to three layouts, of rows that need not be the same."""
    verdicts: Counter[int] = Counter()
    for round_number in range(cases(900)):
        rng = random.Random(f"{own_primers} {round_number}")
        library = Library(pair_layouts(rng, own_primers), rng.choice([[0, 1, 2], [0, 1, 0]]))
        if library.patterns.posterior or not library.patterns.two_sided:
            continue
        reads = [read_of_several(rng, library.rows, side) for side in range(2)]
        verdicts[check_both(library, (reads[0], reads[1]))] += 1
    if sum(verdicts.values()) > 400:
        assert min(verdicts[one] for one in (ASSIGNED, UNMATCHED, AMBIGUOUS)) > 10
