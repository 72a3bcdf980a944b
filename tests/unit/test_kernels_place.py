"""Rows on no list: what a survey counts, and the cell of each, against naive twins."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle_place
from kernel_cases import cases, dna, pack_key
from oracle_place import Read
from umimill.cell_list import make_cell_list
from umimill.kernels import place as kernels
from umimill.kernels.near_cells import Near, most_near
from umimill.kernels.place import PlaceModel
from umimill.kernels.survey import OWN_KEYS, Survey, survey_rows
from umimill.likelihood import log_tables, phred_errors, posterior_threshold, softplus_table
from umimill.partition import HOT, sorted_order
from umimill.place import CROWDED, MOST_ERROR, OWN

LENGTH = 5


def near() -> Near:
    return Near(*(np.zeros(most_near(LENGTH), np.int64) for _ in range(4)))


def rows_of(reads: Sequence[Read]) -> tuple[Any, Any, Any]:
    """Return HOT[n], its order, and the barcode qualities."""
    hot = np.zeros(len(reads), HOT)
    quality = np.zeros((len(reads), LENGTH + 3), np.uint8)
    for number, read in enumerate(reads):
        hot[number]["key"] = pack_key(read.cell.replace("N", "A") + read.umi)
        hot[number]["n_mask"] = sum(1 << i for i, base in enumerate(read.cell) if base == "N")
        hot[number]["cell_length"], hot[number]["umi_length"] = LENGTH, len(read.umi)
        quality[number, :LENGTH] = read.quality
    return hot, sorted_order(hot, len(reads)), quality


def listed_of(listed: dict[str, int]) -> tuple[Any, Any]:
    cells = np.array([pack_key(cell) for cell in sorted(listed)], np.uint64)
    return make_cell_list(cells, LENGTH), np.array([listed[cell] for cell in sorted(listed)], "u4")


def random_reads(draw: random.Random, listed: dict[str, int], count: int) -> list[Read]:
    """Misread cells, cells of their own, and cells with an unknown base; none on the list."""
    reads = []
    while len(reads) < count:
        cell = (
            draw.choice(sorted(listed))
            if draw.random() < 0.8
            else "".join(draw.choices("ACGT", k=LENGTH))
        )
        letters = list(cell)
        for _ in range(draw.choice((1, 1, 2))):
            letters[draw.randrange(LENGTH)] = draw.choice("ACGT")
        if draw.random() < 0.2:
            letters[draw.randrange(LENGTH)] = "N"
        cell = "".join(letters)
        if cell not in listed:
            quality = tuple(draw.choices((2, 12, 23, 37), k=LENGTH))
            reads.append(Read(cell, "".join(draw.choices("AC", k=3)), quality))
    return reads


@given(
    st.dictionaries(dna(LENGTH, LENGTH), st.integers(0, 50), min_size=1, max_size=30),
    st.randoms(use_true_random=False),
    st.integers(0, 60),
)
@settings(max_examples=60)
def test_survey(listed: dict[str, int], draw: random.Random, count: int) -> None:
    reads = random_reads(draw, listed, count)
    hot, order, _ = rows_of(reads)
    found = Survey(
        np.zeros(2, np.uint64),
        np.zeros(2, np.int64),
        np.zeros(3, np.int64),
        np.zeros((32, 4), np.int64),
    )
    crowded = []
    step = draw.randint(1, 20)
    pieces = [order[start : start + step].copy() for start in range(0, count, step)]
    for piece in (*pieces, np.empty(0, np.int64)):
        some = np.zeros(piece.size // OWN_KEYS + 2, CROWDED)
        entries = survey_rows(hot, piece, *listed_of(listed), near(), found, some)
        crowded += some[:entries].tolist()
    expected = oracle_place.survey(reads, listed, OWN_KEYS)
    assert found.sums.tolist() == [expected.near, expected.far, expected.unknown]
    assert found.composition[:LENGTH].tolist() == [
        [bases[base] for base in "ACGT"] for bases in expected.composition
    ]
    assert crowded == [(int(pack_key(cell)), *two) for cell, two in expected.crowded.items()]


def test_rows_are_placed_as_by_probabilities() -> None:
    draw = random.Random(5)
    errors = np.minimum(phred_errors(), MOST_ERROR)
    placed = 0
    for _ in range(cases(150)):
        listed = {
            "".join(draw.choices("ACGT", k=LENGTH)): draw.choice((0, 0, 1, 5, 300, 40_000))
            for _ in range(draw.randint(1, 25))
        }
        shares = [dict(zip("ACGT", (0.1, 0.2, 0.3, 0.4), strict=True)) for _ in range(LENGTH)]
        two = draw.random() < 0.5
        model = oracle_place.Model(errors.tolist(), 0.02, draw.choice((2, 900)), shares, 39, two)
        reads = random_reads(draw, listed, 40)
        hot, order, quality = rows_of(reads)
        own = {
            read.cell: draw.choice((2, 500))
            for read in reads
            if "N" not in read.cell and draw.random() < 0.1
        }
        target = np.zeros(len(reads), np.int64)
        counters = np.zeros(3, np.int64)
        kernels.place_rows(
            hot,
            order,
            quality,
            *listed_of(listed),
            kernel_model(model),
            own_table(own),
            near(),
            target,
            counters,
        )
        names = sorted(listed)
        for read, chosen in zip(reads, target.tolist(), strict=True):
            best, odds = oracle_place.odds(read, listed, own, model)
            # Whole numbers of 1/1024 nat are not quite the same at the threshold.
            if abs(log(max(odds, 1e-9) / model.least_odds)) > 0.05:
                assert chosen == (names.index(best) if best and odds > model.least_odds else -1)
        assert counters.sum() == (target >= 0).sum()
        placed += int(counters.min() > 0)
    assert placed > 0


def own_table(own: dict[str, int]) -> Any:
    rows = sorted((int(pack_key(cell)), round(1024 * log(reads))) for cell, reads in own.items())
    return np.array(rows, OWN)


def kernel_model(model: oracle_place.Model) -> PlaceModel:
    """Return the same model as whole numbers."""

    def unit(value: float) -> int:
        return round(1024 * log(value))

    composition = np.zeros((32, 4), np.int64)
    for place, shares in enumerate(model.composition):
        composition[place] = [unit(shares[base]) for base in "ACGT"]
    return PlaceModel(
        log=log_tables()[0],
        softplus=softplus_table(),
        misread=np.array([unit(error / 3 / (1 - error)) for error in model.errors]),
        right=np.array([unit(1 - error) for error in model.errors]),
        unseen=np.array([unit(model.unseen)]),
        other=np.array([unit(model.other)]),
        composition=composition,
        threshold=np.array([posterior_threshold(0.975)]),
        two=np.array([int(model.two)]),
    )
