"""Record boundaries, names and validity against a reader that splits lines."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from kernel_cases import text_of
from umimill.fastq import base_codes, known_bases
from umimill.kernels import fastq as kernels

CODES = {
    oracle.OK: kernels.SCAN_OK,
    oracle.NO_AT: kernels.SCAN_NO_AT,
    oracle.NO_PLUS: kernels.SCAN_NO_PLUS,
    oracle.QUALITY_LENGTH: kernels.SCAN_QUALITY_LENGTH,
    oracle.CUT: kernels.SCAN_CUT,
    oracle.BLANK: kernels.SCAN_BLANK,
}
Found = tuple[list[tuple[bytes, bytes, bytes]], int, int]


def fields(text: bytes, records: Any, count: int) -> list[tuple[bytes, bytes, bytes]]:
    found = []
    for name, name_stop, bases, bases_stop, qualities in records[:count].tolist():
        length = bases_stop - bases
        found.append((text[name:name_stop], text[bases:bases_stop], text[qualities:][:length]))
    return found


def scan(text: bytes, cuts: list[int], capacity: int = 3) -> Found:
    """Scan as a reader does whose text arrives up to each of `cuts` and then whole."""
    buffer = text_of(b"#", text, b"@!")
    found: list[tuple[bytes, bytes, bytes]] = []
    start = 1
    for stop in [*sorted(1 + cut for cut in cuts), 1 + len(text)]:
        last = int(stop == 1 + len(text))
        while True:
            records = np.full((capacity, 5), -1, np.int32)
            count, start, code, line = kernels.scan_records(buffer, start, stop, last, records)
            found += fields(buffer.tobytes(), records, count)
            if code and count == 0:
                return found, code, line
            if count == 0:
                break
    return found, kernels.SCAN_OK, 0


def check(text: bytes, cuts: list[int]) -> None:
    expected, code, line = oracle.scan(text)
    found, found_code, found_line = scan(text, cuts)
    assert found == expected
    assert found_code == CODES[code]
    if code == oracle.CUT:
        # The line that is cut, or the one that is missing.
        assert found_line - line in (0, 1)
    elif code:
        assert found_line == line


def test_a_record() -> None:
    text = b"@r1 x\nACGT\n+r1\nIIII\n@r2\n\n+\n\n"
    assert scan(text, []) == ([(b"r1 x", b"ACGT", b"IIII"), (b"r2", b"", b"")], 0, 0)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n\r\n\n",
        b"@a\r\nAC\r\n+\r\nII\r\n",
        b"@a\nAC\n+\nII",
        b"@a\nAC\n+\nII\r",
        b"@a\nAC\n+\nII\n\n\n",
        b"@a\nAC\n+\nII\n\n@b\nA\n+\nI\n",
        b"@a\nAC\n+\n@I\n@b\nA\n+\n+\n",
        b"@a\nAC\n+\nI\n",
        b"@a\nAC\n+\nI\n@\n",
        b"@a\nAC\n+\nIII\n",
        b"@a\nAC\n+\nIII",
        b"@a\nAC\n+\nI",
        b"@a\nAC\n-\nII\n",
        b"@a\nAC\nGT\n+\nIIII\n",
        b"a\nAC\n+\nII\n",
        b"@a\n\n+\n",
        b"@\n\n+\n\n",
        b"@\r\n\r\n+\r\n\r\n",
        b"@a",
        b"@a\n",
        b"@a\nAC",
        b"@a\nAC\n",
        b"@a\nAC\n+",
        b"@a\nAC\n+\n",
        b"\rjunk",
        b">fasta\nACGT\n",
    ],
)
def test_hostile_texts(text: bytes) -> None:
    check(text, [])
    for cut in range(len(text)):
        check(text, [cut])


records_strategy = st.lists(
    st.tuples(
        st.text("ab/1 \t@+", max_size=4),
        st.text("ACGTN", max_size=5),
        st.sampled_from([0, 0, 0, 0, 0, 0, 0, 0, -1, 1]),
        st.sampled_from(["+", "+", "+", "+", "+x", "@", ""]),
    ),
    max_size=5,
)


def write(records: list[tuple[str, str, int, str]], newline: str) -> bytes:
    lines = []
    for name, bases, change, plus in records:
        qualities = ("@I+#J" * 2)[: max(0, len(bases) + change)]
        lines += ["@" + name, bases, plus, qualities]
    return "".join(line + newline for line in lines).encode()


def misread_return(text: bytes) -> bool:
    """Tell whether a quality line is one short and ends with a carriage return (see below)."""
    lines = text.split(b"\n")
    return any(
        quality.endswith(b"\r") and len(quality) == len(bases.removesuffix(b"\r"))
        for bases, quality in zip(lines, lines[2:], strict=False)
    )


@given(
    records_strategy,
    st.sampled_from(["\n", "\r\n"]),
    st.integers(0, 3),
    st.lists(st.integers(0, 60), max_size=4),
    st.sampled_from(["", "\n", "\r\n\n", "\n@"]),
)
def test_scan_is_the_oracle_however_the_text_arrives(
    records: list[tuple[str, str, int, str]], newline: str, short: int, cuts: list[int], end: str
) -> None:
    text = write(records, newline)
    text = text[: len(text) - short] + end.encode()
    if not misread_return(text):
        check(text, [min(cut, len(text)) for cut in cuts])


def test_a_return_is_no_quality() -> None:
    check(b"@a\r\nACG\r\n+\r\nII\r\n", [])


@given(st.binary(max_size=12).map(lambda text: text.replace(b"\n", b" ")))
def test_name_length_is_the_oracle(header: bytes) -> None:
    buffer = text_of(b"@", header, b"\n/1 ")
    length = kernels.name_length(buffer, 1, 1 + len(header))
    assert header[:length] == oracle.read_name(header)


@pytest.mark.parametrize(
    ("header", "name"),
    [(b"r1/1", b"r1"), (b"r1/2 x", b"r1"), (b"r1/3", b"r1/3"), (b"/1", b""), (b"a\tb", b"a")],
)
def test_names(header: bytes, name: bytes) -> None:
    assert kernels.name_length(text_of(header), 0, len(header)) == len(name)
    assert oracle.read_name(header) == name


names_strategy = st.lists(st.sampled_from([b"a/1", b"a/2", b"a 1:N", b"ab", b"a"]), max_size=5)


@given(names_strategy, names_strategy)
def test_first_other_name_is_the_oracle(first: list[bytes], second: list[bytes]) -> None:
    count = min(len(first), len(second))
    expected = [
        number
        for number in range(count)
        if oracle.read_name(first[number]) != oracle.read_name(second[number])
        or [oracle.mate_number(names[number]) for names in (first, second)] == [2, 1]
    ]
    tables = []
    for names in (first, second):
        buffer = text_of(*names)
        stops = np.cumsum([0, *(len(name) for name in names)])
        table = np.zeros((len(names), 5), np.int32)
        table[:, 0], table[:, 1] = stops[:-1], stops[1:]
        tables += [buffer, table]
    assert kernels.first_other_name(*tables, count) == (expected[0] if expected else -1)


def laid_out(reads: list[tuple[bytes, bytes]]) -> tuple[Any, Any]:
    """Return a buffer and the table of records with these bases and quality bytes."""
    table = np.zeros((len(reads), 5), np.int32)
    data = b""
    for number, (bases, qualities) in enumerate(reads):
        data += b"|"
        table[number, kernels.BASES_START] = len(data)
        table[number, kernels.BASES_STOP] = len(data) + len(bases)
        table[number, kernels.QUALITIES_START] = len(data) + len(bases) + 1
        data += bases + b"|" + qualities
    return text_of(data), table


reads_strategy = st.lists(
    st.tuples(st.text("ACGTNacgtn.RUy", max_size=6), st.text("!#5@I~", min_size=6, max_size=6)).map(
        lambda pair: (pair[0].encode(), pair[1][: len(pair[0])].encode())
    ),
    max_size=4,
)


@given(
    reads_strategy,
    st.integers(0, 30),
    st.sampled_from(list(b"!#5@Ix-\x00\x7f\xff\r* ~Z")),
    st.booleans(),
    st.sampled_from([33, 59, 64]),
)
def test_first_bad_record_is_the_oracle(
    reads: list[tuple[bytes, bytes]], at: int, byte: int, in_bases: bool, least: int
) -> None:
    for number, (bases, qualities) in enumerate(reads):
        if at < len(bases):
            pair = [bytearray(bases), bytearray(qualities)]
            pair[0 if in_bases else 1][at] = byte
            reads[number] = bytes(pair[0]), bytes(pair[1])
            break
        at -= len(bases)
    bad = [
        (number, line, column)
        for number, (bases, qualities) in enumerate(reads)
        for column in range(len(bases))
        for line, wrong in (
            (1, chr(bases[column]).upper() not in "ACGTUNRYSWKMBDHV."),
            (3, not least <= qualities[column] <= 126),
        )
        if wrong
    ]
    buffer, table = laid_out(reads)
    found = kernels.first_bad_record(buffer, table, len(reads), known_bases(), least, 126)
    assert found == (bad[0] if bad else (-1, 0, 0))


@pytest.mark.parametrize("least", [33, 64])
def test_every_byte_is_legal_or_not(least: int) -> None:
    for byte in range(256):
        legal = chr(byte).upper() in "ACGTUNRYSWKMBDHV."
        buffer, table = laid_out([(b"ACGT", b"IIII"), (bytes([65, byte, 65]), b"IhI")])
        found = kernels.first_bad_record(buffer, table, 2, known_bases(), least, 126)
        assert found == ((-1, 0, 0) if legal else (1, 1, 1))
        buffer, table = laid_out([(b"ACGT", b"IIII"), (b"ANG", bytes([73, 104, byte]))])
        found = kernels.first_bad_record(buffer, table, 2, known_bases(), least, 126)
        assert found == ((-1, 0, 0) if least <= byte <= 126 else (1, 3, 2))


@given(reads_strategy, st.integers(0, 4))
def test_counts_are_the_oracle(reads: list[tuple[bytes, bytes]], count: int) -> None:
    count = min(count, len(reads))
    buffer, table = laid_out(reads)
    qualities = np.ones(256, np.int64)
    kernels.count_qualities(buffer, table, count, qualities)
    expected = Counter(byte for _, values in reads[:count] for byte in values)
    assert (qualities - 1).tolist() == [expected[byte] for byte in range(256)]
    bases = np.ones(5, np.int64)
    kernels.count_bases(buffer, table, count, base_codes(), bases)
    letters = Counter(oracle.base(chr(byte)) for values, _ in reads[:count] for byte in values)
    assert (bases - 1).tolist() == [letters[letter] for letter in "ACGTN"]


@given(records_strategy.map(lambda records: [(n, b) for n, b, _, _ in records]))
def test_copied_records_are_plain_fastq(records: list[tuple[str, str]]) -> None:
    text = write([(name, bases, 0, "+again") for name, bases in records], "\r\n")
    buffer = text_of(text)
    table = np.zeros((len(records) + 1, 5), np.int32)
    count, _, code, _ = kernels.scan_records(buffer, 0, len(text), 1, table)
    assert (count, code) == (len(records), kernels.SCAN_OK)
    expected = [write([(name, bases, 0, "+")], "\n") for name, bases in records]
    out, ends = np.zeros(len(text), np.uint8), np.zeros(count, np.int64)
    kernels.copy_records(buffer, table[:count], 0, out, ends)
    assert ends.tolist() == np.cumsum([len(one) for one in expected], dtype=int).tolist()
    assert out.tobytes().rstrip(b"\0") == b"".join(expected)
