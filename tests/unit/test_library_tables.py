"""Tables of a library: what is summed up for them."""

import statistics
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_fixture import slow_settings
from umimill.layout import sample_layouts
from umimill.library_tables import barcode_summary, chance_matches, median_size, sample_summary
from umimill.outcomes import CORRECTED


def test_what_barcodes_became_is_summed_over_sizes() -> None:
    estimates = {
        "barcode_length": 12, "effective_length": 11.5, "space": 40.0, "clonality": 0.1,
        "error": 2e-3, "error_basis": "quality", "error_census": None, "error_quality": 2e-3,
        "chimera_rate": 0.0, "shift_rate": 0.1, "occupancy": 9.9,
    }  # fmt: skip
    held = [
        [0, 0, 3, 4],
        [0, 1, 2, 2],
        [0, 2, 1, 1],
        [0, CORRECTED, 5, 5],
        [2, 0, 7, 30],
        [2, CORRECTED, 1, 6],
        [3, 3, 1, 9],
        [0, 4, 3, 3],
    ]
    assert barcode_summary(held, estimates) == [
        23, 6, 11, 10, 2, 2, 1, 1, 1, 9, 3, 3,
        12, 11.5, 40.0, 0.25, 0.1, 2e-3, "quality", "", 2e-3, 0.0, 0.1,
    ]  # fmt: skip
    assert barcode_summary([], estimates)[:12] == [0] * 12


SIZES = st.dictionaries(st.integers(1, 50), st.integers(1, 9), max_size=12)


@slow_settings(100)
@given(SIZES, st.integers(1, 6))
def test_summary_of_a_sample(sizes: dict[int, int], minimum: int) -> None:
    elements = sorted(Counter(sizes).elements())
    kept = [size for size in elements if size >= minimum]
    entry = {"molecule_count": 77}
    found = sample_summary(sorted(sizes.items()), entry, (100, 3000, 100 << 10), minimum)
    assert found == (
        len(kept),
        77,
        pytest.approx(statistics.mean(kept)) if kept else 0.0,
        statistics.median(kept) if kept else 0.0,
        30.0,
        2.0**-10,
        sum(elements) - sum(kept),
    )
    assert median_size(sorted(sizes.items())) == (statistics.median(elements) if elements else 0.0)
    assert sample_summary([], entry, (0, 0, 0), minimum)[4:6] == (0.0, 0.0)


@pytest.mark.parametrize(
    ("layouts", "expected"),
    [
        ([("S1", "^NNNNNNNN", None)], [None]),
        ([("S1", "^ACGTNN", None), ("S2", "^RCGTNN", None)], [1000 / 256, 1000 / 128]),
        ([("S1", "^ACGTNN", None), ("S1", "^TTTTNN", None)], [1000 / 128]),
        ([("S1", "^ACGTNN", "^AC")], [1000 / 4096]),
        # Searched layouts: one in a hundred altogether.
        ([("S1", "ACGTNN", None), ("S2", "TTTTNN", None)], [5, 5]),
        (
            [("S1", "ACGTNN", None), ("S1", "CCCCNN", None), ("S2", "TTTTNN", None)],
            [20 / 3, 10 / 3],
        ),
    ],
)
def test_expected_chance_matches(layouts: Any, expected: list[float | None]) -> None:
    samples, rows = sample_layouts(layouts)
    found = chance_matches(rows, len(samples), 1000)
    assert found == [one if one is None else pytest.approx(one, rel=1e-3) for one in expected]
