"""Outcomes of families, against a count of one family after another."""

from __future__ import annotations

from collections import Counter

import numpy as np

from umimill.fates import FATE
from umimill.outcomes import CORRECTED, OUTCOMES, OutcomeCounts
from umimill.tally import FAMILY


def test_families_are_counted_by_their_size_and_what_they_became() -> None:
    rng = np.random.default_rng(2)
    families, fates = np.zeros(3000, FAMILY), np.zeros(3000, FATE)
    families["sample"] = np.sort(rng.integers(0, 3, 3000))
    families["reads"] = 1 << rng.integers(0, 32, 3000, np.uint64)
    families["reads"][::2] -= families["reads"][::2] > 1
    fates["moved"] = rng.random(3000) < 0.4
    fates["status"] = rng.integers(0, 3, 3000)
    fates["reads"] = families["reads"] + rng.integers(0, 5, 3000, np.uint64)
    counts: Counter[tuple[int, int, int]] = Counter()
    reads: Counter[tuple[int, int, int]] = Counter()
    for family, fate in zip(families, fates, strict=True):
        outcome = CORRECTED if fate["moved"] else int(fate["status"])
        place = (int(family["sample"]), int(family["reads"]).bit_length() - 1, outcome)
        counts[place] += 1
        reads[place] += int((family if fate["moved"] else fate)["reads"])
    found = OutcomeCounts(3)
    for start in range(0, 3000, 700):
        found.add(families[start : start + 700], fates[start : start + 700])
    expected = [[*place, counts[place], reads[place]] for place in sorted(counts)]
    assert found.rows().tolist() == expected
    assert OutcomeCounts(2).rows().shape == (0, 5)
    assert OUTCOMES[CORRECTED] == "corrected"
