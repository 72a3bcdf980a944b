"""The layout grammar: spellings, faults, and what a leaf is."""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umimill.layout import (
    Layout,
    LayoutError,
    check_row,
    leaf_width,
    leaf_widths,
    parse_layout,
    sample_layouts,
)


@pytest.mark.parametrize(
    ("spelled", "symbols", "anchored", "start", "stop"),
    [
        ("^NNNNacgtNNNN", "NNNNacgtNNNN", True, 12, None),
        ("ACGTNNNN", "ACGTNNNN", False, 8, None),
        ("  ^NNN\n", "NNN", True, 3, None),
        ("^N{14}", "N" * 14, True, 14, None),
        ("NNNNtNNNNtN{4}", "NNNNtNNNNtNNNN", False, 14, None),
        ("^XX.{3}nnRyU", "XX...NNRyU", True, 10, None),
        ("^x{2}N", "XXN", True, 3, None),
        ("0:12", "N" * 12, True, 12, None),
        ("0:4,5:10", "NNNN.NNNNN", True, 10, None),
        ("cell:0:3,umi:3:5", "XXXNN", True, 5, None),
        ("2:4", "..NN", True, 4, None),
        ("8M1S+T", "NNNNNNNN.", True, 9, None),
        ("3C2M+T", "XXXNN", True, 5, None),
        ("3M4T", "NNN", True, 3, 7),
        ("3M4T+S", "NNN", True, 3, 7),
        ("3M4T2M", "NNN****NN", True, 3, 7),
        ("4T3M", "****NNN", True, 0, 4),
        ("3M", "NNN", True, 3, 3),
        ("3M+S", "NNN", True, 3, 3),
        ("+T", "", True, 0, None),
        ("5S+T", ".....", True, 5, None),
    ],
)
def test_spellings(
    spelled: str, symbols: str, anchored: bool, start: int, stop: int | None
) -> None:
    assert parse_layout(spelled) == Layout(symbols, anchored, start, stop)


def test_counts() -> None:
    layout = parse_layout("^XXXN{5}.acgRYN")
    assert (layout.cell_length, layout.umi_length, layout.scored) == (3, 6, 5)
    # A payload is no scored position, though its symbol is in no other class either.
    assert parse_layout("3M4T2M").scored == 0


@pytest.mark.parametrize(
    ("spelled", "shown"),
    [
        ("", "layout is empty; write a pattern such as ^NNNNNNNNacgt"),
        ("  ", "layout is empty; write a pattern such as ^NNNNNNNNacgt"),
        ("^NNJN", "layout ^NN[J]N: not a symbol;"),
        ("NN^N", "layout NN[^]N: not a symbol;"),
        ("^NN N", "layout ^NN[ ]N: not a symbol;"),
        ("^NN-", "layout ^NN[-]: not a symbol;"),
        ("^N}", "layout ^N[}]: not a symbol;"),
        ("^N4", "layout ^N[4]: not a symbol;"),
        ("^{3}", "layout ^[{3}]: repeats are written N{14}"),
        ("^N{}", "layout ^N[{}]: repeats are written N{14}"),
        ("^N{x}A", "layout ^N[{x}]A: repeats are written N{14}"),
        ("^N{0}", "layout ^N[{0}]: repeats are written N{14}"),
        ("^N{-1}", "layout ^N[{-1}]: repeats are written N{14}"),
        ("^N{1001}", "layout ^N[{1001}]: repeats are written N{14}"),
        ("^N{3", "layout ^N[{3]: repeats are written N{14}"),
        ("^A.{0,3}N", "layout ^A.[{0,3}]N: repeats are written N{14}"),
        ("^", "layout ^: no position in it"),
        ("NNNN", "layout NNNN: nothing to search for along the read; put ^ in front"),
        ("N.X", "layout N.X: nothing to search for along the read; put ^ in front"),
        ("^N{1000}N", "layout ^N{1000}N: longer than 1000 bases"),
        ("^N{33}", "layout ^N{33}: 33 UMI bases; at most 32 are possible"),
        ("^X{33}N", "layout ^X{33}N: 33 cell bases; at most 32 are possible"),
        ("4:4", "layout [4:4]: empty; slices are start:stop"),
        ("0:4,7:5", "layout 0:4,[7:5]: empty; slices are start:stop"),
        ("0:4,cell:3:7", "layout 0:4,[cell:3:7]: overlaps the slice before it"),
        ("4:8,0:2,9:12", "layout 4:8,[0:2],9:12: overlaps the slice before it"),
        ("0:2,900:1001", "layout 0:2,[900:1001]: beyond base 1000"),
        ("6B8M+T", "layout [6B]8M+T: a sample barcode needs its bases; write them,"),
        ("8M2Q+T", "layout 8M[2Q]+T: segments are M (UMI), C (cell), S (skip), T"),
        ("+M", "layout [+M]: + is for the last segment, +T or +S"),
        ("8M+T2S", "layout 8M[+T]2S: + is for the last segment, +T or +S"),
        ("8M0S+T", "layout 8M[0S]+T: lengths are 1 to 1000"),
        ("8M1001S", "layout 8M[1001S]: lengths are 1 to 1000"),
        ("5T8M+T", "layout 5T8M[+T]: one T segment a read"),
        ("5T8M5T", "layout 5T8M[5T]: one T segment a read"),
        ("33M+T", "layout 33M+T: 33 UMI bases; at most 32 are possible"),
        ("600S600S+T", "layout 600S600S+T: longer than 1000 bases"),
    ],
)
def test_faults_are_marked(spelled: str, shown: str) -> None:
    with pytest.raises(LayoutError) as caught:
        parse_layout(spelled)
    assert str(caught.value).startswith(shown)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sides", "shown"),
    [
        (("^ACGT", None), "layout ^ACGT: no UMI base (N, or M of a read structure) in it"),
        (("^ACGT", "^XX"), "layout ^ACGT and ^XX: no UMI base"),
        (("16C+T", None), "layout 16C+T: no UMI base"),
        (("^X{20}N{13}", None), "layout ^X{20}N{13}: cell and UMI have 33 bases; at most 32"),
        (("0:20", "13M+T"), "layout 0:20 and 13M+T: cell and UMI have 33 bases; at most 32"),
        (("^NNN", "^N!"), "layout ^N[!]: not a symbol;"),
    ],
)
def test_faults_of_a_row(sides: tuple[str, str | None], shown: str) -> None:
    with pytest.raises(LayoutError) as caught:
        check_row(*sides)
    assert str(caught.value).startswith(shown)


def test_a_row_counts_both_sides() -> None:
    row = check_row("^X{16}N{6}", "^XN{9}")
    assert (row.cell_length, row.umi_length) == (17, 15)
    # No second layout and an empty cell of the sheet are the same.
    assert check_row("^NN", "") == check_row("^NN", None)


symbols_strategy = st.lists(
    st.tuples(st.sampled_from("NX.ACGTUacgtuRYSWKMBDHVrykmbdhv"), st.integers(1, 6)),
    min_size=1,
    max_size=8,
)


@given(symbols_strategy, st.booleans(), st.randoms(use_true_random=False))
def test_repeats_are_the_symbols_written_out(
    runs: list[tuple[str, int]], anchored: bool, choice: random.Random
) -> None:
    symbols = "".join(symbol * count for symbol, count in runs)
    spelled = "".join(
        symbol + "{" + str(count) + "}" if choice.random() < 0.5 else symbol * count
        for symbol, count in runs
    )
    anchored |= all(symbol in "NX." for symbol in symbols)
    if symbols.count("N") > 32 or symbols.count("X") > 32:
        return
    expected = Layout(symbols, anchored, len(symbols), None)
    assert parse_layout("^" * anchored + spelled) == expected


@given(
    st.lists(st.tuples(st.sampled_from("CMS"), st.integers(1, 5)), min_size=1, max_size=6).filter(
        lambda runs: runs[-1][0] != "S"
    )
)
def test_structure_slices_and_pattern_are_one(runs: list[tuple[str, int]]) -> None:
    pattern = structure = ""
    slices = []
    place = 0
    for kind, length in runs:
        pattern += {"C": "X", "M": "N", "S": "."}[kind] + "{" + str(length) + "}"
        structure += f"{length}{kind}"
        if kind != "S":
            slices.append({"C": "cell:", "M": ""}[kind] + f"{place}:{place + length}")
        place += length
    layout = parse_layout("^" + pattern)
    assert parse_layout(structure + "+T") == layout
    assert parse_layout(",".join(slices)) == layout


def test_samples_are_numbered_in_byte_order() -> None:
    samples, rows = sample_layouts([("b", "^NN", None), ("B", "0:3", "2M+T"), ("b", "4M+T", "")])
    assert samples == ("B", "b")
    assert [row.sample for row in rows] == [1, 0, 1]
    assert [row.umi_length for row in rows] == [2, 5, 4]
    # The shortest barcode of a sample decides for all of them.
    assert leaf_widths(rows, 2) == (2, 1)


def neighbours(barcode: str) -> list[str]:
    return [
        barcode[:place] + letter + barcode[place + 1 :]
        for place in range(len(barcode))
        for letter in "ACGT"
        if letter != barcode[place]
    ]


def in_one_leaf(first: str, second: str, width: int) -> bool:
    """Whether two barcodes share a leaf of the table, or of the copy rotated left by `width`."""
    plain = first[:width] == second[:width]
    rotated = [(one[width:] + one[:width])[:width] for one in (first, second)]
    return plain or rotated[0] == rotated[1]


@pytest.mark.parametrize("length", range(1, 33))
def test_every_neighbour_is_in_a_leaf(length: int) -> None:
    width = leaf_width([length])
    assert width == [0, 0, 1, 1, 2, 2, 3, 3, 4][min(length, 8)]
    if length <= 4:
        barcodes = ["".join(letters) for letters in product("ACGT", repeat=length)]
    else:
        draw = random.Random(length)
        barcodes = ["".join(draw.choices("ACGT", k=length)) for _ in range(50)]
    for barcode in barcodes:
        for other in neighbours(barcode):
            assert in_one_leaf(barcode, other, width)
            # Each pair is weighed in one pass: at positions from the width on, or before it.
            assert (barcode[:width] == other[:width]) != (barcode[width:] == other[width:])


def test_a_fixed_width_would_lose_pairs_of_short_barcodes() -> None:
    lost = [
        length
        for length in range(4, 33)
        if not all(in_one_leaf("A" * length, other, 4) for other in neighbours("A" * length))
    ]
    assert lost == [4, 5, 6, 7]


def test_the_shortest_barcode_decides() -> None:
    assert leaf_width([12, 6, 32]) == 3
    assert leaf_width([1]) == 0
