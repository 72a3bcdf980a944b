"""Compiled layouts: scores against their formulas, and the tables of positions."""

from __future__ import annotations

import math
import random
from decimal import Decimal, localcontext

import numpy as np
import pytest

from umimill.kernels import match as kernels
from umimill.kernels import pairs, search
from umimill.layout import LayoutError, SampleLayout, check_row, sample_layouts
from umimill.patterns import compile_patterns, error_probability, log2_scaled

HALF_UNIT = 0.5 + 1e-6


def rows_of(*layouts: str | tuple[str, str]) -> list[SampleLayout]:
    sides = [one if isinstance(one, tuple) else (one, "") for one in layouts]
    return [SampleLayout(number, check_row(*pair).sides) for number, pair in enumerate(sides)]


SCORES = compile_patterns(rows_of("^ACGTN"), 1).scores


def test_scores_are_their_formulas() -> None:
    for quality in range(94):
        error = min(0.75, 10 ** (-quality / 10))
        for options in range(1, 5):
            likelihood = (1 - error) / options + (options - 1) * error / (3 * options)
            bits = math.log2(4 * likelihood)
            assert abs(int(SCORES[options, quality]) - 1024 * bits) <= HALF_UNIT
        bits = math.log2(4 * error / 3)
        full, half = SCORES[kernels.MISMATCH : kernels.MISMATCH + 2, quality].tolist()
        assert abs(full - 1024 * bits) <= HALF_UNIT
        assert abs(half - full / 2) <= 0.5
    assert not SCORES[0].any()


@pytest.mark.parametrize(
    ("kind", "quality", "bits"),
    [
        # As MIGEC 2.5.1 prints them; its Q2 match is the formula's.
        (1, 2, 0.56),
        (1, 10, 1.848),
        (1, 20, 1.9855),
        (1, 30, 1.9986),
        (1, 40, 1.9999),
        (2, 30, 0.999),
        (3, 30, 0.415),
        (kernels.MISMATCH, 2, -0.249),
        (kernels.MISMATCH, 10, -2.907),
        (kernels.MISMATCH, 20, -6.229),
        (kernels.MISMATCH, 30, -9.55),
        (kernels.MISMATCH, 37, -11.88),
        (kernels.MISMATCH, 40, -12.87),
        (kernels.MISMATCH + 1, 30, -4.775),
        (kernels.MISMATCH + 1, 40, -6.436),
    ],
)
def test_scores_are_those_of_migec(kind: int, quality: int, bits: float) -> None:
    digits = len(str(bits).split(".")[1])
    assert abs(SCORES[kind, quality] / 1024 - bits) <= 0.5 * 10**-digits + 0.5 / 1024


def test_better_qualities_say_more() -> None:
    matches, mismatches = SCORES[1:5].astype(int), SCORES[5:7].astype(int)
    assert (np.diff(matches) >= 0).all()
    assert (np.diff(mismatches) <= 0).all()
    assert (matches >= 0).all()
    assert (mismatches <= 0).all()
    # Four allowed bases say nothing.
    assert not matches[3].any()


def test_a_random_base_is_an_error_of_three_quarters() -> None:
    assert error_probability(0) == error_probability(1) == Decimal("0.75")
    assert float(error_probability(2)) == pytest.approx(10**-0.2, rel=1e-15)
    assert float(error_probability(93)) == pytest.approx(10**-9.3, rel=1e-15)


def test_bounds_of_the_search_hold() -> None:
    """A mismatch costs against a match at least what the search takes for granted."""
    match = 2048
    for kind in (kernels.MISMATCH, kernels.MISMATCH + 1):
        cost = match - SCORES[kind].astype(int)
        assert cost.min() >= kernels.MISMATCH_COST
        assert cost[search.CERTAIN_QUALITY :].min() >= search.CERTAIN_MISMATCH_COST
        assert cost[pairs.CLEAR_QUALITY :].min() >= pairs.CLEAR_MISMATCH_COST
    # The bound for certain bases cannot be better.
    lower = match - int(SCORES[kernels.MISMATCH + 1, search.CERTAIN_QUALITY])
    assert lower == search.CERTAIN_MISMATCH_COST
    # No base scores more than it does at Q93, and no row more than its perfect score.
    for options in range(1, 5):
        assert SCORES[options].max() == SCORES[options, 93]
        assert SCORES[options, 93] <= match - log2_scaled(options)


def test_logarithms_and_weights_are_their_formulas() -> None:
    patterns = compile_patterns(rows_of("^ACGTN"), 1)
    counts = np.arange(1, patterns.log2.size)
    assert np.abs(patterns.log2[1:] - 1024 * np.log2(counts)).max() <= HALF_UNIT
    exact = [2.0 ** (40 - step / 1024) for step in range(1024)]
    assert max(abs(int(one) - two) for one, two in zip(patterns.weights, exact, strict=True)) < 0.51
    # The bar of one anchored pattern, in bits.
    assert patterns.error_bits / 1024 == pytest.approx(6.6439, abs=0.0005)


def test_logarithms_of_ratios() -> None:
    draw = random.Random(4)
    for _ in range(500):
        value = Decimal(draw.randint(1, 10**6)) / draw.randint(1, 10**6)
        assert abs(log2_scaled(value) - 1024 * math.log2(value)) <= HALF_UNIT
    for power in (1, 5, 60):
        assert log2_scaled(1 << power) == 1024 * power == -log2_scaled(Decimal(1) / (1 << power))
    # The last below the next whole number, and the first above.
    assert [log2_scaled(Decimal(one) / 2048) for one in (4094, 4095, 4097)] == [1023, 1024, 1024]


def test_tables_do_not_depend_on_digits() -> None:
    first = compile_patterns(rows_of("^ACGTN", "^acgtN"), 2)
    with localcontext() as context:
        context.prec = 60
        again = compile_patterns(rows_of("^ACGTN", "^acgtN"), 2)
    for name, value in first._asdict().items():
        assert np.array_equal(value, getattr(again, name)), name


def positions(layouts: list[SampleLayout], row: int, side: int) -> dict[int, tuple[int, ...]]:
    """Return the scored positions of a row: the common ones and its own."""
    patterns = compile_patterns(layouts, len(layouts))
    table = patterns.positions.tolist()
    common = [slice(0, patterns.common_1), slice(patterns.common_1, patterns.common_2)][side]
    entry = patterns.rows[row].tolist()
    own = slice(entry[kernels.OWN_START + side], entry[kernels.OWN_STOP + side])
    found = [*table[common], *table[own]]
    assert len({place for place, *_ in found}) == len(found)
    return {place: tuple(rest) for place, *rest in found}


def test_positions_of_a_row_are_the_common_ones_and_its_own() -> None:
    layouts = rows_of(("^ACNrNg", "^NTT"), ("^AGNrNgA", "^NTA"), ("ACNRNg", "^NTT"))
    a, c, g, t = 1, 2, 4, 8
    upper, lower = 0, 1
    assert positions(layouts, 0, 0) == {
        0: (a, 1, upper), 1: (c, 1, upper), 3: (a | g, 2, lower), 5: (g, 1, lower)
    }  # fmt: skip
    assert positions(layouts, 1, 0) == {
        0: (a, 1, upper),
        1: (g, 1, upper),
        3: (a | g, 2, lower),
        5: (g, 1, lower),
        6: (a, 1, upper),
    }
    assert positions(layouts, 2, 0)[3] == (a | g, 2, upper)
    assert positions(layouts, 1, 1) == {1: (t, 1, upper), 2: (a, 1, upper)}
    patterns = compile_patterns(layouts, 3)
    # What all rows share is scored once.
    assert patterns.positions[: patterns.common_1, 0].tolist() == [0, 5]
    assert patterns.positions[patterns.common_1 : patterns.common_2, 0].tolist() == [1]


def test_what_a_row_says() -> None:
    patterns = compile_patterns(rows_of(("^XANRN", "4T2M"), ("ACGTNN", "")), 2)
    first, second = patterns.rows.tolist()
    assert first[kernels.LENGTH : kernels.LENGTH + 2] == [5, 6]
    assert first[kernels.REACH : kernels.REACH + 2] == [4, 0]
    assert first[kernels.ANCHORED : kernels.ANCHORED + 2] == [1, 1]
    assert first[kernels.PERFECT : kernels.PERFECT + 2] == [2048 + 1024, 0]
    assert first[kernels.PAYLOAD_START : kernels.PAYLOAD_START + 2] == [5, 0]
    assert first[kernels.PAYLOAD_STOP : kernels.PAYLOAD_STOP + 2] == [-1, 4]
    assert (first[kernels.CELL_LENGTH], first[kernels.UMI_LENGTH]) == (1, 4)
    start = first[kernels.CAPTURE_START]
    # Cell before UMI, read 1 before read 2.
    assert patterns.capture[start : start + 5].tolist() == [[0, 0], [0, 2], [0, 4], [1, 4], [1, 5]]
    assert second[kernels.LENGTH : kernels.LENGTH + 2] == [6, 0]
    assert second[kernels.ANCHORED : kernels.ANCHORED + 2] == [0, 1]
    assert (patterns.posterior, patterns.two_sided) == (0, 1)
    assert compile_patterns(rows_of("^ANN", "^CNN"), 2).posterior == 1
    assert compile_patterns(rows_of("ANN", "^CNN"), 2).posterior == 0
    assert compile_patterns(rows_of("ANN", "^CNN"), 2).two_sided == 0


def test_rows_of_a_sample_share_its_prior() -> None:
    _, rows = sample_layouts([("a", "^ANN", ""), ("b", "^CNN", ""), ("a", "^GNN", "")])
    assert compile_patterns(rows, 2).rows[:, kernels.SHARE].tolist() == [1024, 0, 1024]


def test_the_window_holds_most_exact_common_positions() -> None:
    patterns = compile_patterns(rows_of("AC" + "N" * 30 + "r" + "G" * 9 + "TcR"), 1)
    bases, mask = (int(word) for word in patterns.windows[0, 0])
    assert patterns.window_starts[0, 0] == 33
    spelled = "".join(
        "ACGT"[bases >> (62 - 2 * place) & 3] if mask >> (62 - 2 * place) & 1 else "."
        for place in range(32)
    )
    assert spelled.rstrip(".") == "G" * 9 + "TC"
    assert compile_patterns(rows_of("RNN", "YNN"), 2).window_starts[0, 0] == -1
    full = compile_patterns(rows_of("ACGT" * 10 + "N"), 1).windows[0, 0]
    assert full.tolist() == [0x1B1B1B1B1B1B1B1B, 0x5555555555555555]


def test_rows_with_little_in_common_have_windows_of_their_own() -> None:
    primer = "CAGTGGTATC"
    patterns = compile_patterns(rows_of((primer + "AN", "TTGCN"), (primer + "NGN", "ACCAN")), 2)
    assert patterns.window_rows.tolist() == [2, 1]
    assert patterns.window_starts.tolist() == [[0, -1], [0, 0]]
    assert [bin(int(mask)).count("1") for mask in patterns.windows[:, :, 1].ravel()] == [
        10,
        0,
        4,
        4,
    ]
    # A search of read 1 alone uses what all rows have in common, however little.
    single = compile_patterns(rows_of("ACNTTG", "ACNGGC"), 2)
    assert single.window_rows.tolist() == [2, 2]
    assert int(single.windows[0, 0, 1]).bit_count() == 2


def test_layouts_of_a_library_are_all_read() -> None:
    with pytest.raises(LayoutError, match=r"\[!\]"):
        sample_layouts([("a", "^ANN", ""), ("b", "^!", "")])
