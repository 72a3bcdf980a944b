"""Two-bit packing against strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernel_wrappers as wrapped
import oracle
from kernel_cases import dna, pack_key, text_of

BASE_LETTERS = "ACGTUacgtu"


def packed(text: str, words: int = 8) -> Any:
    out = np.full(words, 0xFFFFFFFFFFFFFFFF, np.uint64)
    wrapped.pack_text(text_of(b"N" * 3, text.encode(), b"TTTTTTTT"), 3, len(text), out, 1)
    return out


def unpacked(words: Any, first: int, length: int) -> list[int]:
    codes = np.full(length + 7, 9, np.uint8)
    wrapped.unpack_codes(words, first, length, codes)
    return codes[:length].tolist()


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("AAAAAAAA", 0),
        ("TTTTTTTT", 0xFFFF),
        ("CAAAAAAA", 0x4000),
        ("AAAAAAAG", 2),
        ("acgtUuAC", 0b00_01_10_11_11_11_00_01),
    ],
)
def test_pack_eight_puts_the_first_letter_highest(text: str, bits: int) -> None:
    word = np.uint64(int.from_bytes(text.encode(), "little"))
    assert wrapped.pack_eight(word) == bits


@given(st.lists(st.integers(0, 3), min_size=8, max_size=8))
def test_spread_and_gather_are_inverse(codes: list[int]) -> None:
    (word,) = oracle.pack(codes, 2)
    spread = wrapped.spread_eight(np.uint64(word >> 48))
    assert list(int(spread).to_bytes(8, "little")) == codes
    assert wrapped.gather_eight(spread) == word >> 48


def test_spread_reads_the_low_sixteen_bits_only() -> None:
    assert wrapped.spread_eight(np.uint64(0xABCDEF0000001234)) == wrapped.spread_eight(
        np.uint64(0x1234)
    )


@given(st.text(BASE_LETTERS, max_size=140))
def test_pack_text_is_the_oracle(text: str) -> None:
    words = packed(text)
    expected = oracle.pack_bases(text)
    assert words[1 : 1 + len(expected)].tolist() == expected
    # Nothing is written before or behind.
    assert words[0] == words[1 + len(expected)] == 0xFFFFFFFFFFFFFFFF


@given(st.text(BASE_LETTERS, max_size=140))
def test_unpacking_gives_back_what_was_packed(text: str) -> None:
    codes = unpacked(packed(text), 1, len(text))
    assert "".join("ACGT"[code] for code in codes) == text.upper().replace("U", "T")


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 63, 64, 65, 5000])
def test_lengths_at_the_edges_of_words(length: int) -> None:
    text = ("GATTACATCTAGCC" * 400)[:length]
    words = packed(text, 160)
    expected = oracle.pack_bases(text)
    assert words[1 : 1 + len(expected)].tolist() == expected
    assert unpacked(words, 1, length) == ["ACGT".index(letter) for letter in text]


@given(st.binary(max_size=60), st.integers(0, 3))
def test_count_unknown_is_the_oracle(text: bytes, start: int) -> None:
    expected = any(oracle.base(chr(byte)) == "N" for byte in text)
    buffer = text_of(b"N" * start, text, b"N")
    assert wrapped.count_unknown(buffer, start, len(text)) == expected


def test_every_byte_is_known_or_not() -> None:
    for byte in range(256):
        expected = int(chr(byte) not in BASE_LETTERS)
        assert wrapped.count_unknown(text_of(b"ACG", bytes([byte]), b"T"), 0, 5) == expected


@given(dna(0, 32), dna(0, 32))
def test_order_of_keys_is_order_of_strings(first: str, second: str) -> None:
    words = [pack_key(first), pack_key(second)]
    assert [int(word) for word in words] == [oracle.key_of(first), oracle.key_of(second)]
    assert (first < second) == ((int(words[0]), len(first)) < (int(words[1]), len(second)))


@given(dna(1, 32))
def test_the_kernel_packs_the_key(barcode: str) -> None:
    assert packed(barcode)[1] == pack_key(barcode)
