"""Packed rows: sorting, the two forms of qualities, hashes and the index of leaves."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernel_wrappers as wrapped
import oracle
from kernel_cases import cases, dna, pack_key, read_back, staged, templates
from oracle import HAS_UNKNOWN, Template
from umimill.assemble import make_votes
from umimill.consensus import make_model
from umimill.kernels import rows as kernels
from umimill.kernels.consensus import Batch
from umimill.partition import Leaves, sorted_order

WIDTH = 9
FEW_LEVELS = (2, 12, 23, 37)
LONGEST = 5000
MODEL = make_model(1e-4)

rows_strategy = st.lists(templates(), max_size=12)
few_levels_strategy = st.lists(templates(levels=FEW_LEVELS), max_size=12)


# Sorting


@given(
    st.lists(
        st.one_of(st.integers(0, 3), st.integers(0, 2**64 - 1), st.sampled_from([0, 1 << 63, 256])),
        max_size=300,
    )
)
def test_radix_sort_is_a_stable_sort(values: list[int]) -> None:
    count = len(values)
    keys, order = np.array(values, np.uint64), np.arange(1000, 1000 + count)
    scratch = np.empty(count, np.uint64), np.empty(count, np.int64), np.empty(256, np.int64)
    kernels.radix_sort(keys, order, *scratch)
    expected = sorted(enumerate(values, 1000), key=lambda pair: pair[1])
    assert order.tolist() == [number for number, _ in expected]
    assert keys.tolist() == sorted(values)


def test_radix_sort_of_many() -> None:
    draw = random.Random(4)
    for bits in (8, 16, 24, 64):
        values = [draw.getrandbits(bits) for _ in range(cases(20_000))]
        keys, order = np.array(values, np.uint64), np.arange(len(values))
        scratch = np.empty_like(keys), np.empty_like(order), np.empty(256, np.int64)
        kernels.radix_sort(keys, order, *scratch)
        assert order.tolist() == sorted(range(len(values)), key=values.__getitem__)


barcodes_strategy = st.tuples(dna(0, 2, "AC"), dna(0, 3, "AT"))


@given(st.lists(templates(longest=2, barcode=barcodes_strategy, samples=3), max_size=40))
def test_rows_are_sorted_as_strings(rows: list[Template]) -> None:
    """By sample and barcode, the shorter of equal beginnings first, equal ones as they came."""
    hot, *_ = staged(rows, WIDTH)
    order = sorted_order(hot, len(rows))
    assert order.tolist() == sorted(range(len(rows)), key=lambda number: rows[number].order)


@given(rows_strategy, st.randoms(use_true_random=False), st.integers(0, 12), st.integers(0, 12))
def test_gathered_rows_are_the_rows(
    rows: list[Template], draw: random.Random, start: int, stop: int
) -> None:
    start, stop = sorted((min(start, len(rows)), min(stop, len(rows))))
    hot, barcode_quality, *_ = staged(rows, WIDTH)
    order = np.array(draw.sample(range(len(rows)), len(rows)), np.int64)
    hot_out, barcode_out = np.zeros_like(hot), np.full_like(barcode_quality, 255)
    kernels.gather_hot(hot, barcode_quality, order, start, stop, hot_out, barcode_out)
    chosen = order[start:stop]
    assert hot_out[: chosen.size].tobytes() == hot[chosen].tobytes()
    assert barcode_out[: chosen.size].tolist() == barcode_quality[chosen].tolist()
    assert (barcode_out[chosen.size :] == 255).all()


# Sizes and places


@given(templates(), st.booleans())
def test_cold_words_is_the_size(row: Template, few: bool) -> None:
    levels = sorted({value for values in row.quality for value in values})
    few &= len(levels) <= 4
    words = oracle.pack_cold(row, levels if few else None)
    lengths = [len(text) for text in row.payload]
    assert wrapped.cold_words(*lengths, row.flags, 2 if few else 8) == len(words)


@given(rows_strategy, st.sampled_from([2, 8]), st.integers(0, 1000))
def test_cold_starts_are_running_sums(rows: list[Template], bits: int, first: int) -> None:
    hot, *_ = staged(rows, WIDTH)
    starts = np.full(len(rows) + 1, -1, np.int64)
    expected = [first]
    for row in rows:
        lengths = [len(text) for text in row.payload]
        expected.append(expected[-1] + int(wrapped.cold_words(*lengths, row.flags, bits)))
    assert kernels.fill_cold_starts(hot, len(rows), bits, first, starts) == expected[-1]
    assert starts.tolist() == [*expected[:-1], -1]


@given(
    st.lists(
        templates(longest=70, barcode=st.tuples(dna(0, 2), dna(6, 7)), samples=3), max_size=12
    ),
    st.lists(st.integers(0, 3), min_size=3, max_size=3),
    st.sampled_from([2, 8]),
)
def test_index_of_leaves(rows: list[Template], widths: list[int], bits: int) -> None:
    leaves = Leaves(tuple(widths))
    sizes = [[0, 0] for _ in range(leaves.count)]
    for row in rows:
        leaf = sum(4**width for width in widths[: row.sample])
        leaf += oracle.leaf_of(row, widths[row.sample])
        lengths = [len(text) for text in row.payload]
        sizes[leaf][0] += 1
        sizes[leaf][1] += int(wrapped.cold_words(*lengths, row.flags, bits))
    hot, *_ = staged(rows, WIDTH)
    before = [np.full(leaves.count + 1, -1, np.int64) for _ in range(2)]
    kernels.count_leaves(hot, np.arange(len(rows)), bits, leaves.bases, leaves.shifts, *before)
    for column, found in enumerate(before):
        assert found[0] == 0
        assert np.diff(found).tolist() == [size[column] for size in sizes]


@pytest.mark.parametrize("width", range(5))
def test_leaves_of_keys(width: int) -> None:
    shift = Leaves((width,)).shifts[0]
    for barcode in ("A" * 12, "ACGTACGT", "T" * 32, "GATTACAGATTA"):
        expected = oracle.key_of(barcode[:width]) >> (64 - 2 * width)
        assert wrapped.leaf_of(pack_key(barcode), 5, shift) == 5 + expected
    # Leaves are in the order of keys.
    assert wrapped.leaf_of(pack_key("T" * 12), 0, shift) == 4**width - 1


@given(rows_strategy)
def test_sum_of_bases(rows: list[Template]) -> None:
    hot, *_ = staged(rows, WIDTH)
    bases = np.ones(2, np.int64)
    kernels.sum_bases(hot, np.arange(len(rows)), bases)
    assert (bases - 1).tolist() == [
        sum(len("".join(row.payload)) for row in rows if row.sample == sample)
        for sample in range(2)
    ]


# Writing, reading and hashing


def levels_of(rows: Sequence[Template]) -> list[int]:
    return sorted({value for row in rows for values in row.quality for value in values})


def encode(rows: Sequence[Template], bits: int, order: Sequence[int]) -> tuple[Any, Any, Any]:
    """Return (cold words, levels, hash sums) of rows written in an order."""
    hot, barcode_quality, starts, cold = staged(rows, WIDTH)
    met = levels_of(rows)
    levels = np.array([*met, *[255] * 4][:4] if bits == 2 else [0] * 4, np.uint8)
    out = np.full(cold.size, 0xDEADBEEFDEADBEEF, np.uint64)
    longest = max((len(text) for row in rows for text in row.payload), default=0)
    scratch = np.full(longest + 64, 77, np.uint8)
    sums = np.full(2, 2**64 - 1, np.uint64)
    words = kernels.encode_cold(
        hot,
        barcode_quality,
        starts,
        cold,
        np.array(order, np.int64),
        0,
        len(order),
        levels,
        bits,
        out,
        scratch,
        sums,
    )
    assert (out[words:] == 0xDEADBEEFDEADBEEF).all()
    return out[:words], levels, sums


def check_file_form(rows: Sequence[Template], bits: int, order: Sequence[int]) -> None:
    cold, levels, sums = encode(rows, bits, order)
    ordered = [rows[number] for number in order]
    met = levels_of(rows) if bits == 2 else None
    assert cold.tolist() == [word for row in ordered for word in oracle.pack_cold(row, met)]
    hot, barcode_quality, *_ = staged(ordered, WIDTH)
    starts = np.zeros(len(rows), np.int64)
    kernels.fill_cold_starts(hot, len(rows), bits, 0, starts)
    assert read_back(hot, barcode_quality, starts.tolist(), cold, met) == ordered
    expected = [2**64 - 1, 2**64 - 1]
    for row in rows:
        expected[row.sample] = (expected[row.sample] + oracle.row_hash(row, WIDTH, met)) % 2**64
    assert sums.tolist() == expected
    # Rows that were read are hashed to the same.
    one_run = np.zeros(len(rows), np.int64), np.array([bits]), levels.reshape(1, 4)
    batch = Batch(hot, barcode_quality, cold, starts, *one_run)
    votes = make_votes(max((len(text) for row in rows for text in row.payload), default=0))
    for number, row in enumerate(ordered):
        assert wrapped.add_row(batch, number, MODEL, votes) == oracle.row_hash(row, WIDTH, met)


@given(rows_strategy, st.randoms(use_true_random=False))
def test_rows_with_many_levels(rows: list[Template], draw: random.Random) -> None:
    check_file_form(rows, 8, draw.sample(range(len(rows)), len(rows)))


@given(few_levels_strategy, st.sampled_from([2, 8]), st.randoms(use_true_random=False))
def test_rows_with_four_levels(rows: list[Template], bits: int, draw: random.Random) -> None:
    check_file_form(rows, bits, draw.sample(range(len(rows)), len(rows)))


@given(
    st.lists(st.integers(0, 93), min_size=1, max_size=4, unique=True).flatmap(
        lambda levels: st.lists(templates(levels=levels), max_size=4)
    )
)
def test_any_four_levels_or_fewer(rows: list[Template]) -> None:
    check_file_form(rows, 2, range(len(rows)))


def long_row(draw: random.Random, lengths: tuple[int, int], levels: Sequence[int]) -> Template:
    texts = ["".join(draw.choices("ACGTACGTACGTN", k=length)) for length in lengths]
    unknown = HAS_UNKNOWN if "N" in "".join(texts) else 0
    values = [tuple(draw.choices(levels, k=length)) for length in lengths]
    return Template(
        0, "AC", "GATTA", (1, 2, 3, 4, 5, 6, 7), (texts[0], texts[1]), (values[0], values[1]),
        flags=unknown,
    )  # fmt: skip


@pytest.mark.parametrize("bits", [2, 8])
def test_every_length(bits: int) -> None:
    draw = random.Random(8)
    levels = FEW_LEVELS if bits == 2 else tuple(range(94))
    lengths = [
        (length, draw.choice([0, length, 130 - length]))
        for length in (range(130) if cases(100) > 1 else (0, 1, 8, 31, 32, 33, 63, 64, 65, 129))
    ]
    if cases(100) > 1:
        lengths += [(LONGEST, LONGEST), (LONGEST - 1, 0), (0, LONGEST), (4096, 4097)]
    check_file_form([long_row(draw, pair, levels) for pair in lengths], bits, range(len(lengths)))


@given(few_levels_strategy, st.integers(0, 12))
def test_rows_are_written_in_any_portions(rows: list[Template], cut: int) -> None:
    cut = min(cut, len(rows))
    order = list(range(len(rows)))
    whole, _, sums = encode(rows, 8, order)
    first, _, first_sums = encode(rows, 8, order[:cut])
    second, _, second_sums = encode(rows, 8, order[cut:])
    assert whole.tolist() == [*first.tolist(), *second.tolist()]
    with np.errstate(over="ignore"):
        assert (first_sums + second_sums + np.uint64(1)).tolist() == sums.tolist()


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_mix_is_the_oracle(state: int, word: int) -> None:
    assert wrapped.mix(np.uint64(state), np.uint64(word)) == oracle.mix(state, word)


@given(templates(longest=20, barcode=st.tuples(dna(0, 2), dna(1, 6))), st.data())
def test_every_field_counts_in_the_hash(row: Template, data: st.DataObject) -> None:
    other = replace(
        row,
        **data.draw(
            st.sampled_from(
                [
                    {"record": row.record ^ 1},
                    {"unit": row.unit ^ 1},
                    {"flags": row.flags ^ 4},
                    {"umi": row.umi + "A", "barcode_quality": (*row.barcode_quality, 0)},
                    {"umi": "ACGT"["CGTA".index(row.umi[0])] + row.umi[1:]},
                    {"barcode_quality": (row.barcode_quality[0] ^ 1, *row.barcode_quality[1:])},
                    {"payload": (row.payload[0] + "A", row.payload[1]),
                     "quality": ((*row.quality[0], 0), row.quality[1])},
                ]
            )
        ),
    )  # fmt: skip
    sums = [encode([one], 8, [0])[2].tolist() for one in (row, other)]
    assert sums[0] != sums[1]
