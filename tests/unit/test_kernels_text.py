"""Consensus records against f-strings."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernel_wrappers as wrapped
import oracle
from kernel_cases import dna, pack_key
from oracle import Called
from umimill.cells import MOLECULE
from umimill.kernels import text as kernels

SAMPLES = ("S1", "a.b-c_d", "Q", "a" * 60)
NAMES = kernels.Names(
    np.frombuffer("".join(SAMPLES).encode(), np.uint8).copy(),
    np.cumsum([0, *(len(name) for name in SAMPLES)]).astype(np.int64),
)


def written(put: Any, *values: Any) -> str:
    text = np.full(80, ord("?"), np.uint8)
    stop = put(text, 3, *values)
    assert text[:3].tobytes() + text[stop:].tobytes() == b"?" * (83 - stop)
    return text[3:stop].tobytes().decode()


@given(st.one_of(st.integers(0, 120), st.integers(0, 2**62)))
def test_numbers(value: int) -> None:
    assert written(wrapped.put_number, value) == str(value)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_ratios(numerator: int, denominator: int) -> None:
    numerator = min(numerator, denominator)
    found = written(wrapped.put_millionths, numerator, denominator)
    assert found == oracle.millionths(numerator, denominator)
    exact = Fraction(numerator, denominator) if denominator else Fraction(0)
    assert abs(Fraction(found) - exact) <= Fraction(1, 2_000_000)
    assert len(found) == 8


@pytest.mark.parametrize(
    ("numerator", "denominator", "shown"),
    [
        (0, 0, "0.000000"),
        (0, 7, "0.000000"),
        (7, 7, "1.000000"),
        (1, 3, "0.333333"),
        (2, 3, "0.666667"),
        (1, 2_000_000, "0.000001"),
        (1, 2_000_001, "0.000000"),
        (1_999_999, 2_000_000, "1.000000"),
        (2**41, 2**42, "0.500000"),
    ],
)
def test_ratios_are_rounded_half_up(numerator: int, denominator: int, shown: str) -> None:
    assert written(wrapped.put_millionths, numerator, denominator) == shown


@given(dna(0, 32), st.integers(0, 32), st.integers(0, 32))
def test_parts_of_a_key(barcode: str, start: int, stop: int) -> None:
    start, stop = sorted((min(start, len(barcode)), min(stop, len(barcode))))
    assert written(wrapped.put_key, pack_key(barcode), start, stop) == barcode[start:stop]


phreds = st.integers(0, 93)
Drawn = tuple[int, str, str, int | None, bool, Called]


@st.composite
def molecules(draw: st.DrawFn) -> Drawn:
    """Draw (sample, cell, UMI, number or None, whether it has a record, what was called)."""
    cell, umi = draw(dna(0, 8)), draw(dna(1, 24))
    letters = [draw(dna(0, 20, "ACGTN")) for _ in range(2)]
    base_votes = draw(st.integers(0, 2**40))
    return (
        draw(st.integers(0, len(SAMPLES) - 1)),
        cell,
        umi,
        draw(st.none() | st.integers(0, 9) | st.integers(0, 65535)),
        draw(st.booleans()),
        Called(
            letters,
            [draw(st.lists(phreds, min_size=len(one), max_size=len(one))) for one in letters],
            draw(st.lists(phreds, min_size=len(umi), max_size=len(umi))),
            depth_min=draw(st.integers(0, 2**32 - 1)),
            depth_max=draw(st.integers(0, 2**32 - 1)),
            base_votes=base_votes,
            disagreements=draw(st.integers(0, base_votes)),
        ),
    )


def render(drawn: Sequence[Drawn], mate: int) -> tuple[bytes, list[int], int, int]:
    table = np.zeros(len(drawn), MOLECULE)
    umi_qualities = np.full((len(drawn), 32), ord("?"), np.uint8)
    letters, qualities = "##", "##"
    for place, (sample, cell, umi, number, kept, called) in enumerate(drawn):
        entry = table[place]
        entry["sample"], entry["kept"], entry["key"] = sample, kept, pack_key(cell + umi)
        # Without others of its key, a number does not show.
        entry["several"], entry["number"] = number is not None, 7 if number is None else number
        entry["cell_length"], entry["umi_length"] = len(cell), len(umi)
        entry["offset"] = len(letters)
        entry["length_1"], entry["length_2"] = (len(one) for one in called.letters)
        for name in ("depth_min", "depth_max", "base_votes", "disagreements"):
            entry[name] = getattr(called, name)
        quality = oracle.characters(called.umi_quality).encode()
        umi_qualities[place, : len(umi)] = np.frombuffer(quality, np.uint8)
        letters += "".join(called.letters)
        qualities += "".join(oracle.characters(one) for one in called.quality)
    text, ends = np.zeros(2000 * len(drawn) + 1, np.uint8), np.full(len(drawn), -1, np.int64)
    arrays = (np.frombuffer(one.encode(), np.uint8).copy() for one in (letters, qualities))
    size, records = kernels.render(table, mate, NAMES, *arrays, umi_qualities, text, ends)
    return text[:size].tobytes(), ends.tolist(), size, records


@given(st.lists(molecules(), max_size=5), st.integers(0, 1))
def test_records_are_f_strings(drawn: list[Drawn], mate: int) -> None:
    expected = [
        oracle.record(SAMPLES[sample], cell, umi, called, mate, number) if kept else ""
        for sample, cell, umi, number, kept, called in drawn
    ]
    text, ends, size, records = render(drawn, mate)
    assert text == "".join(expected).encode()
    assert ends == np.cumsum([len(one) for one in expected], dtype=int).tolist()
    assert (size, records) == (len(text), sum(map(bool, expected)))


def test_a_record_to_the_letter() -> None:
    called = Called(["ACGTN", "GG"], [[40, 35, 2, 30, 2], [40, 40]], [40, 35, 30], 2, 3, 0, 13, 1)
    (text, *_), (mate, *_) = (
        render([(0, "", "GAT", None, True, called)], side) for side in range(2)
    )
    assert text == (
        b"@S1.GAT RX:Z:GAT\tQX:Z:ID?\tBC:Z:S1\tMI:Z:S1.GAT\tcD:i:3\tcM:i:2\tcE:f:0.076923\n"
        b"ACGTN\n+\nID#?#\n"
    )
    assert mate.endswith(b"\nGG\n+\nII\n")
    with_cell, *_ = render([(0, "TTT", "GAT", None, True, called)], 0)
    assert with_cell.startswith(
        b"@S1.TTT.GAT RX:Z:GAT\tQX:Z:ID?\tCB:Z:TTT\tBC:Z:S1\tMI:Z:S1.TTT.GAT\tcD:i:3"
    )
    second, *_ = render([(0, "", "GAT", 11, True, called)], 0)
    assert second == text.replace(b"S1.GAT", b"S1.GAT.12")
