"""The reader: the same records whatever the buffers, and nothing silently short."""

import gzip
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stage_fixture import (
    Record,
    fastq_text,
    place,
    random_bases,
    read_records,
    refusal,
    slow_settings,
    write_fastq,
)
from umimill import fastq
from umimill.errors import FastqError

# What a name may hold: no line break, and no blank in front, where it would end the name.
NAMES = st.text(
    st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12
) | st.sampled_from(["a/1 comment", "b\tc", "@", "+", "A1:2:3 1:N:0:ACGT+TTGC", "x/2"])
BASES = "ACGTNacgtnURYSWKMBDHV."


@st.composite
def records(draw: st.DrawFn, longest: int = 150) -> Record:
    length = draw(st.integers(0, 8) | st.integers(0, longest))
    bases = draw(st.text(BASES, min_size=length, max_size=length))
    # Lines of qualities that look like the first or third line of a record are drawn often.
    qualities = draw(
        st.text(
            st.sampled_from("@+!I~") | st.characters(min_codepoint=33, max_codepoint=126),
            min_size=length,
            max_size=length,
        )
    )
    return draw(NAMES).encode(), bases.encode(), qualities.encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fastq")


# -- the same whatever the buffers -----------------------------------------------------------------


@slow_settings(150)
@given(
    found=st.lists(records(), max_size=12),
    newline=st.sampled_from([b"\n", b"\r\n"]),
    final=st.booleans(),
    blanks=st.integers(0, 2),
    plus=st.booleans(),
    buffer_bytes=st.integers(64, 600),
    chunk_records=st.integers(1, 7),
    compressed=st.booleans(),
)
@example([(b"a", b"ACGT", b"@+@+"), (b"b", b"", b""), (b"c", b"AC", b"+@")], b"\r\n", False, 0,
         False, 64, 1, True)  # fmt: skip
def test_what_is_written_is_read(
    folder: Path,
    found: list[Record],
    newline: bytes,
    final: bool,
    blanks: int,
    plus: bool,
    buffer_bytes: int,
    chunk_records: int,
    compressed: bool,
) -> None:
    text = b"".join(
        newline.join((b"@" + name, bases, b"+" + (name if plus else b""), qualities, b""))
        for name, bases, qualities in found
    )
    # The last line of a last read without bases is all that its newline is.
    if found and found[-1][1] and not final:
        text = text.removesuffix(newline)
    elif found:
        text += newline * blanks
    path = folder / "reads"
    path.write_bytes(gzip.compress(text, 1) if compressed else text)
    options = {"buffer_bytes": buffer_bytes, "chunk_records": chunk_records}
    assert read_records([path], **options) == [(record,) for record in found]


@slow_settings(100)
@given(
    pairs=st.lists(st.tuples(records(90), records(90)), max_size=12),
    marks=st.sampled_from([("", ""), ("/1", "/2"), (" 1:N:0:A", " 2:N:0:A"), ("/1 x", "/2\ty")]),
    buffer_bytes=st.integers(64, 400),
    chunk_records=st.integers(1, 5),
)
def test_mates_stay_in_step(
    folder: Path,
    pairs: list[tuple[Record, Record]],
    marks: tuple[str, str],
    buffer_bytes: int,
    chunk_records: int,
) -> None:
    written = [
        tuple(
            (b"n%d%s" % (number, mark.encode()), mate[1], mate[2])
            for mark, mate in zip(marks, pair, strict=True)
        )
        for number, pair in enumerate(pairs)
    ]
    paths = [folder / "mate1.fq", folder / "mate2.fq.gz"]
    for side, path in enumerate(paths):
        write_fastq(path, [pair[side] for pair in written])
    options = {"buffer_bytes": buffer_bytes, "chunk_records": chunk_records}
    assert read_records(paths, **options) == written


@slow_settings(40)
@given(
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=60),
    extra_bytes=st.integers(0, 300),
    chunk_records=st.integers(1, 9),
)
def test_a_chunk_outlives_the_reading_of_the_next(
    folder: Path, lengths: list[int], extra_bytes: int, chunk_records: int
) -> None:
    """As it must when reading ahead, where every record fits a buffer."""
    rng = np.random.default_rng(1)
    mates = [
        [
            (b"r%d" % number, random_bases(rng, length), random_bases(rng, length, b"@+I5"))
            for number, length in enumerate(order)
        ]
        for order in (lengths, lengths[::-1])
    ]
    paths = [write_fastq(folder / f"ahead{side}.fq", mate) for side, mate in enumerate(mates)]
    options = {"buffer_bytes": 140 + extra_bytes, "chunk_records": chunk_records}
    expected = list(zip(*mates, strict=True))
    assert read_records(paths, ahead=True, **options) == expected


def test_reading_ahead(folder: Path) -> None:
    found = [
        (b"r%d" % number, b"ACGT" * (number % 9), b"I5@+" * (number % 9)) for number in range(200)
    ]
    path = write_fastq(folder / "thread.fq.gz", found)
    names = []
    for chunk in fastq.read_ahead(fastq.read_templates((path,), buffer_bytes=200, chunk_records=7)):
        time.sleep(0.001)
        (mate,) = chunk.mates
        names += [mate.buffer[start:stop].tobytes() for start, stop in mate.records[:, :2].tolist()]
    assert names == [name for name, _, _ in found]
    assert list(fastq.read_ahead(iter(()))) == []


def test_an_error_ahead_comes_after_the_records_before_it(folder: Path) -> None:
    good = [(b"r%d" % number, b"ACGT", b"IIII") for number in range(20)]
    path = folder / "late.fq"
    path.write_bytes(fastq_text(good) + b"@bad\nACGT\n+\nIII\n")
    seen = 0
    message = r"record 21 \(line 84\): sequence has 4 bases, quality 3"
    with pytest.raises(FastqError, match=message):  # noqa: PT012
        for chunk in fastq.read_ahead(fastq.read_templates((path,), chunk_records=3)):
            seen += chunk.count
    assert seen == 20


def test_first_templates_of_a_chunk(folder: Path) -> None:
    path = write_fastq(folder / "first.fq", [(b"%d" % number, b"A", b"I") for number in range(9)])
    (chunk,) = fastq.read_templates((path,))
    part = chunk.first(4)
    assert (part.count, part.mates[0].count, part.mates[0].records.shape) == (4, 4, (4, 5))


def test_letters() -> None:
    codes, known = fastq.base_codes(), fastq.known_bases()
    assert [codes[ord(letter)] for letter in "ACGTUacgtu"] == [0, 1, 2, 3, 3] * 2
    assert {chr(byte) for byte in np.flatnonzero(known)} == set("ACGTUNRYSWKMBDHV.acgtunryswkmbdhv")
    assert set(np.flatnonzero(codes < 4)) <= set(np.flatnonzero(known))
    assert set(codes.tolist()) == {0, 1, 2, 3, 4}


# -- cut files -------------------------------------------------------------------------------------

PAIR = [
    [(b"p%d/%d" % (number, mate), b"ACGTACGTNA"[:length], b"I@+#IIII5I"[:length])
     for number, length in enumerate(lengths)]
    for mate, lengths in ((1, (10, 4, 0, 7)), (2, (3, 10, 6, 5)))
]  # fmt: skip


@pytest.mark.parametrize("cut", [0, 1])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_plain_pair_cut_at_every_byte(tmp_path: Path, cut: int, newline: bytes) -> None:
    paths = [tmp_path / f"mate{side + 1}.fq" for side in range(2)]
    for path, mate in zip(paths, PAIR, strict=True):
        path.write_bytes(fastq_text(mate, newline))
    whole = list(zip(*PAIR, strict=True))
    assert read_records(paths) == whole
    text = paths[cut].read_bytes()
    ends = [len(fastq_text(PAIR[cut][:count], newline)) for count in range(5)]
    # A record is whole without its last newline too, or without half of it.
    between = {
        end - missing: count
        for count, end in enumerate(ends[1:], 1)
        for missing in {0, 1, len(newline)}
    } | {0: 0}
    for stop in range(len(text)):
        paths[cut].write_bytes(text[:stop])
        count = between.get(stop, sum(end <= stop for end in ends[1:]))
        if count == 4:
            assert read_records(paths) == whole
            continue
        error = refusal(paths)
        if stop in between:
            assert place(error) == (paths[1 - cut].name, count + 1, 4 * count + 1)
            assert f"{paths[cut]} ends after {count} records" in error.message
            continue
        assert place(error)[:2] == (paths[cut].name, count + 1)
        assert 4 * count < error.line <= 4 * count + 4
        # Seen alone the file is as broken.
        assert str(refusal(paths[cut : cut + 1])) == str(error)


@pytest.mark.parametrize("cut", [0, 1])
def test_gzip_pair_cut_at_every_byte(tmp_path: Path, cut: int) -> None:
    paths = [write_fastq(tmp_path / f"mate{side + 1}.fq.gz", PAIR[side]) for side in range(2)]
    packed = paths[cut].read_bytes()
    for stop in range(len(packed)):
        paths[cut].write_bytes(packed[:stop])
        error = refusal(paths)
        if stop == 0:
            assert place(error) == (paths[1 - cut].name, 1, 1)
        elif stop == 1:
            assert "does not begin with @" in error.message
        else:
            assert os.path.basename(error.path) == paths[cut].name
            assert error.message == "the gzip file is cut short here; fetch it again"
            assert refusal(paths[cut : cut + 1], buffer_bytes=64).message == error.message


def test_gzip_of_several_members_cut_at_every_byte(tmp_path: Path) -> None:
    """Only a cut between members cannot be seen."""
    members = [gzip.compress(fastq_text(PAIR[0][start : start + 2])) for start in (0, 2)]
    path = tmp_path / "members.fq.gz"
    packed = b"".join(members)
    accepted = {}
    for stop in range(len(packed) + 1):
        path.write_bytes(packed[:stop])
        try:
            accepted[stop] = len(read_records([path]))
        except FastqError:
            continue
    assert accepted == {0: 0, len(members[0]): 2, len(packed): 4}


def test_damaged_gzip(tmp_path: Path) -> None:
    """Wrong sums, and any byte of the compressed data changed."""
    text = fastq_text(PAIR[0] * 4)
    packed = gzip.compress(text)
    path = tmp_path / "damaged.fq.gz"
    for place_ in range(10, len(packed)):
        path.write_bytes(packed[:place_] + bytes([packed[place_] ^ 0xFF]) + packed[place_ + 1 :])
        assert path.name in str(refusal([path]))
    path.write_bytes(packed[:-8] + bytes(4) + packed[-4:])
    assert "damaged here or before" in refusal([path]).message
    path.write_bytes(packed + b"more")
    assert "gzip" in refusal([path]).message
    path.write_bytes(packed + bytes(300))
    assert len(read_records([path])) == 16, "padding with zeros is no damage"
