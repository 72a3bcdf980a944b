"""Anchored layouts against a posterior in floats."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given

import oracle_match
from kernel_cases import cases, foreign_of, random_layouts, random_read, random_sequence
from match_fixture import EMPTY, EVEN, Library, high, read_strategy, spread_tags
from oracle_match import AMBIGUOUS, ASSIGNED, UNMATCHED, Read


def check_posterior(
    library: Library, reads: tuple[Read, Read], share: float, composition: dict[str, float]
) -> int | None:
    expected = oracle_match.posterior(library.rows, reads, share / (1 - share), composition)
    if expected.doubt <= 0:
        return None
    found = library.match(*reads)
    assert found.verdict in expected.verdicts
    if found.verdict == ASSIGNED:
        scores = [
            sum(side.score(*read, 0) for side, read in zip(row.sides, reads, strict=True))
            for row in library.rows
            if row.sample == library.rows[expected.row].sample
            and all(side.offsets(len(read[0])) for side, read in zip(row.sides, reads, strict=True))
        ]
        assert library.rows[found.row].sample == library.rows[expected.row].sample
        own = library.rows[found.row].sides
        assert max(scores) == sum(
            side.score(*read, 0) for side, read in zip(own, reads, strict=True)
        )
        assert (found.offset_1, found.offset_2) == (0, 0)
    return found.verdict


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_posterior_is_that_of_floats(seed: int, paired: bool) -> None:
    verdicts: Counter[int | None] = Counter()
    for round_number in range(cases(30)):
        rng = random.Random(f"posterior {seed} {paired} {round_number}")
        layouts, samples = random_layouts(rng, anchored=True)
        second = random_layouts(rng, anchored=True)[0]
        pairs = [(one, rng.choice([*second, ""]) if paired else "") for one in layouts]
        share = rng.choice([0.001, 0.02, 0.5, 0.9])
        frequencies = rng.choice([EVEN, (0.1, 0.4, 0.4, 0.1), (0.05, 0.15, 0.2, 0.6)])
        library = Library(pairs, samples, foreign_of(share, frequencies))
        composition = dict(zip("ACGTN", (*frequencies, 0.25), strict=True))
        for _ in range(cases(40)):
            mate = random_read(rng, library.rows, 1) if paired else EMPTY
            reads = random_read(rng, library.rows), mate
            verdicts[check_posterior(library, reads, share, composition)] += 1
    if sum(verdicts.values()) > 500:
        assert min(verdicts[one] for one in (ASSIGNED, UNMATCHED, AMBIGUOUS)) > 50
        assert verdicts[None] < sum(verdicts.values()) / 20


@pytest.mark.parametrize("seed", range(4))
def test_many_tags_weigh_as_if_all_were_scored(seed: int) -> None:
    verdicts: Counter[int] = Counter()
    looked_at: Counter[bool] = Counter()
    for round_number in range(cases(12)):
        rng = random.Random(f"anchored tags {seed} {round_number}")
        length = rng.randint(3, 8)
        tags = spread_tags(rng.randint(2, 40), length, 1 + (length > 5), rng)
        behind = random_sequence(rng, rng.choice([0, 12]))
        lower = rng.random() < 0.3
        levels = rng.choice([[37] * 30 + [2, 11, 25], [0, 2, 11, 25, 37, 37]])
        layouts = [f"^N{tag.lower() if lower else tag}{behind.lower()}NNN" for tag in tags]
        samples = [rng.randrange(len(tags)) for _ in tags] if rng.random() < 0.3 else None
        few, every = Library(layouts, samples), Library(layouts, samples)
        every.patterns = every.patterns._replace(tags=np.empty((len(tags), 0), np.uint64))
        assert few.patterns.tags.shape == (len(tags), 1)
        for _ in range(cases(100)):
            bases = list(rng.choice(layouts)[1:].upper().replace("N", "A"))
            qualities = [rng.choice(levels) for _ in bases]
            for place in range(len(bases)):
                if rng.random() < rng.choice([0.02, 0.3]):
                    bases[place] = rng.choice("ACGTN")
            stop = rng.choice([len(bases), len(bases), rng.randint(1, len(bases))])
            read = "".join(bases)[:stop], qualities[:stop]
            found = few.match(read)
            assert found == every.match(read)
            verdicts[found.verdict] += 1
            looked_at[few.rows_weighed(read) < len(tags)] += 1
    if sum(verdicts.values()) > 500:
        assert min(verdicts[one] for one in (ASSIGNED, UNMATCHED, AMBIGUOUS)) > 50
        assert min(looked_at.values()) > 200


def test_many_short_tags_are_not_refused() -> None:
    """A bar of bits would refuse all: 12.0 bits of a perfect read against 12.2."""
    tags = spread_tags(48, 6, 2, random.Random(3))
    library = Library([f"^{tag}NNNN" for tag in tags])
    assert (oracle_match.bits_of(48) + oracle_match.bits_of(100)) / 1024 > 12.0
    for number, tag in enumerate(tags):
        for quality in (20, 25, 30, 40):
            found = library.match(high(tag + "ACGTGATTACA", quality))
            assert (found.verdict, found.row) == (ASSIGNED, number)


@pytest.mark.parametrize("share", [0.001, 0.5, 0.9])
@pytest.mark.parametrize("count", [1, 48, 384])
def test_an_exact_tag_is_never_refused_for_the_number_of_rows(count: int, share: float) -> None:
    tags = spread_tags(count, 6, 1, random.Random(5))
    library = Library([f"^{tag}NNNN" for tag in tags], foreign=foreign_of(share, EVEN))
    for number, tag in enumerate(tags[:20]):
        qualities = [20] * 6 + [2] * 8
        found = library.match((tag + "ACGTGATT", qualities))
        near = any(
            sum(a != b for a, b in zip(tag, one, strict=True)) == 1 for one in tags if one != tag
        )
        if near and count > 48:
            # Another tag one base off may stand against it, a foreign read may not.
            assert found.verdict in (ASSIGNED, AMBIGUOUS)
        else:
            assert (found.verdict, found.row) == (ASSIGNED, number)


@pytest.mark.parametrize(("quality", "verdict"), [(20, ASSIGNED), (19, UNMATCHED)])
def test_an_exact_tag_needs_q20(quality: int, verdict: int) -> None:
    """Nine foreign reads of ten and 48 tags of six bases: 8.8 bits against 11.9."""
    tags = spread_tags(48, 6, 2, random.Random(3))
    library = Library([f"^{tag}NNNN" for tag in tags], foreign=foreign_of(0.9, EVEN))
    for place in range(6):
        qualities = [37] * 16
        qualities[place] = quality
        assert library.match((tags[7] + "ACGTACGTAC", qualities)).verdict == verdict


def test_what_stands_against_a_sample_adds_up() -> None:
    """Another tag at 1 : 147 and a foreign read at 1 : 147: each is allowed, both are not."""
    read = "ACGTGATTACA", [37, 37, 37, 17] + [37] * 7
    near, far = ["^ACGTNN", "^ACGANN"], ["^ACGTNN", "^TGCANN"]
    often, seldom = foreign_of(0.46, EVEN), foreign_of(0.001, EVEN)
    assert Library(near, foreign=seldom).match(read).verdict == ASSIGNED
    assert Library(far, foreign=often).match(read).verdict == ASSIGNED
    assert Library(near, foreign=often).match(read).verdict in (AMBIGUOUS, UNMATCHED)


def test_one_mismatch_in_96_tags_of_eight_bases() -> None:
    rng = random.Random(11)
    tags = spread_tags(96, 8, 3, rng)
    library = Library([f"^{tag}NNNN" for tag in tags], foreign=foreign_of(0.001, EVEN))
    composition = dict.fromkeys("ACGTN", 0.25)
    assigned = 0
    for number, tag in enumerate(tags[: cases(96)]):
        for place in range(8):
            letter = rng.choice([one for one in "ACGT" if one != tag[place]])
            bases = tag[:place] + letter + tag[place + 1 :] + "ACGTGATTACA"
            qualities = [37] * len(bases)
            qualities[place] = 20
            reads = (bases, qualities), EMPTY
            verdict = check_posterior(library, reads, 0.001, composition)
            found = library.match(*reads)
            assigned += found.verdict == ASSIGNED and found.row == number
            assert verdict is not None or found.verdict != AMBIGUOUS
    assert assigned == 8 * cases(96)


def test_two_samples_with_one_tag_are_ambiguous() -> None:
    library = Library(["^ACGTACGTNNNN", "^ACGTACGTNNNN"])
    assert library.match(high("ACGTACGTAAAACC")).verdict == AMBIGUOUS
    # Two rows of one sample with one tag are not.
    assert Library(["^ACGTACGTNNNN"] * 2, [0, 0]).match(high("ACGTACGTAAAACC")).row == 0


def test_a_layout_without_scored_bases_takes_all() -> None:
    library = Library(["^NNNNNNNN"], foreign=foreign_of(0.9, EVEN))
    for bases in ("ACGTACGTAC", "NNNNNNNN", ""):
        assert library.match(high(bases, 2)).verdict == ASSIGNED
    both = Library(["^NNNN", "^NNNN"])
    assert both.match(high("ACGT")).verdict == AMBIGUOUS


@given(read_strategy, read_strategy)
@example(("", []), ("", []))
def test_hostile_reads_against_anchored_pairs(first: Read, second: Read) -> None:
    library = ANCHORED_PAIRS
    check_posterior(library, (first, second), 0.02, dict.fromkeys("ACGTN", 0.25))


ANCHORED_PAIRS = Library(
    [("^ACGNNN", "^NNA"), ("^ACTNNN", "^NNRg"), ("^TTNNNNA", "")],
    [0, 1, 1],
    foreign_of(0.02, EVEN),
)
