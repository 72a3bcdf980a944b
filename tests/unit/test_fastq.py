"""The reader: the same records whatever the buffers, and nothing silently short."""

import bz2
import gzip
import lzma
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from stage_fixture import Record, fastq_text, random_bases, read_records, write_fastq

from umimill import fastq
from umimill.errors import FastqError, UmimillError

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


def refusal(paths: Sequence[Path], **options: int) -> FastqError:
    with pytest.raises(FastqError) as caught:
        read_records(paths, **options)
    assert "\n" not in str(caught.value)
    return caught.value


def place(error: FastqError) -> tuple[str, int, int]:
    return os.path.basename(error.path), error.record, error.line


# -- the same whatever the buffers -----------------------------------------------------------------


@hypothesis_settings(max_examples=150, deadline=None)
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


@hypothesis_settings(max_examples=100, deadline=None)
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


@hypothesis_settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=60),
    extra_bytes=st.integers(0, 300),
    chunk_records=st.integers(1, 9),
)
def test_reading_ahead_gives_the_same(
    folder: Path, lengths: list[int], extra_bytes: int, chunk_records: int
) -> None:
    """A chunk is not touched while the next is read, where every record fits a buffer."""
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


def test_an_error_ahead_comes_after_the_records_before_it(folder: Path) -> None:
    good = [(b"r%d" % number, b"ACGT", b"IIII") for number in range(20)]
    path = folder / "late.fq"
    path.write_bytes(fastq_text(good) + b"@bad\nACGT\n+\nIII\n")
    seen = 0
    with pytest.raises(FastqError, match=r"record 21 \(line 84\): sequence has 4 bases, quality 3"):
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


# -- one broken record -----------------------------------------------------------------------------

GOOD = b"@a\nACGT\n+\nIIII\n"
BROKEN = {
    # text behind one good record: (line of the file, message)
    b"\n" + GOOD: (5, "a blank line between records; remove it"),
    b">b\nAC\n": (5, "the first line of a record does not begin with @"),
    b"b\nAC\n+\nII\n": (5, "the first line of a record does not begin with @"),
    b"@b\nAC\nGT\n+\nIIII\n": (7, "the third line of a record does not begin with + (sequences "
                               "over several lines are not read); write each record as four lines"),
    b"@b\nAC\n\nII\n": (7, "the third line of a record does not begin with + (sequences over "
                        "several lines are not read); write each record as four lines"),
    b"@b\nAC\n+\nI\n": (8, "sequence has 2 bases, quality 1"),
    b"@b\nAC\n+\n\n": (8, "sequence has 2 bases, quality 0"),
    b"@b\nAC\n+\nIII\n": (8, "sequence has 2 bases, quality 3"),
    b"@b\nAC\n+\nI\n" + GOOD: (8, "sequence has 2 bases, quality 1"),
    b"@b\nAC\n+\nIII\n" + GOOD: (8, "sequence has 2 bases, quality 3"),
    b"@b\nACGTAC\n+\nIII\nIII\n": (8, "sequence has 6 bases, quality 3"),
    b"@b\nAC": (6, "the file ends inside this record; fetch it again"),
    b"@b\nAC\n": (7, "the file ends inside this record; fetch it again"),
    b"@b\nAC\n+\n": (8, "the file ends inside this record; fetch it again"),
    b"@b\nAC\n+\nI": (8, "the file ends inside this record; fetch it again"),
    b"@b\nA*\n+\nII\n": (6, "'*' at column 2 is not a base"),
    b"@b\nA-C\n+\nIII\n": (6, "'-' at column 2 is not a base"),
    b"@b\n A\n+\nII\n": (6, "byte 32 at column 1 is not a base"),
    b"@b\nAC\n+\nI \n": (8, "byte 32 at column 2 is not a quality (bytes 33 to 126)"),
    b"@b\nAC\n+\n\x7fI\n": (8, "byte 127 at column 1 is not a quality (bytes 33 to 126)"),
    b"@b\nAC\n+\nI\xff\n": (8, "byte 255 at column 2 is not a quality (bytes 33 to 126)"),
    b"@b\nAC\n+\nI\t\n": (8, "byte 9 at column 2 is not a quality (bytes 33 to 126)"),
}  # fmt: skip


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("text", BROKEN)
def test_broken_record(tmp_path: Path, text: bytes, compressed: bool) -> None:
    path = tmp_path / "broken.fq"
    path.write_bytes(gzip.compress(GOOD + text) if compressed else GOOD + text)
    line, message = BROKEN[text]
    for options in ({}, {"buffer_bytes": 64, "chunk_records": 1}):
        error = refusal([path], **options)
        assert (place(error), error.message) == (("broken.fq", 2, line), message)
    assert str(error) == f"{path}, record 2 (line {line}): {message}"


def test_line_numbers_have_separators(tmp_path: Path) -> None:
    path = tmp_path / "long.fq"
    path.write_bytes(GOOD * 120_455 + b"@b\nAC\n+\nI\n")
    text = str(refusal([path]))
    assert text.endswith("long.fq, record 120,456 (line 481,824): sequence has 2 bases, quality 1")


def test_phred_64_has_a_higher_least_byte(tmp_path: Path) -> None:
    path = write_fastq(tmp_path / "a.fq", [(b"a", b"ACG", b"h@?")])
    assert refusal([path], quality_offset=64).message == (
        "'?' at column 3 is not a quality (bytes 64 to 126)"
    )


# -- mates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [(5, 3), (3, 5), (1, 0), (0, 1), (40, 39)])
@pytest.mark.parametrize("ending", ["fq", "fq.gz"])
def test_unequal_mates(tmp_path: Path, counts: tuple[int, int], ending: str) -> None:
    paths = [
        write_fastq(tmp_path / f"R{side + 1}.{ending}", [
            (b"r%d/%d" % (number, side + 1), b"ACGT" * (1 + 3 * side), b"IIII" * (1 + 3 * side))
            for number in range(count)
        ])
        for side, count in enumerate(counts)
    ]  # fmt: skip
    longer, less = counts.index(max(counts)), min(counts)
    for options in ({}, {"buffer_bytes": 64, "chunk_records": 2}, {"chunk_records": less or 1}):
        error = refusal(paths, **options)
        assert place(error) == (paths[longer].name, less + 1, 4 * less + 1)
        assert error.message == (
            f"its mate is missing: {paths[1 - longer]} ends after {less} records; give both files "
            "of one run"
        )


SAME_NAMES = [
    (b"a", b"a"),
    (b"a/1", b"a/2"),
    (b"a/1 length=10", b"a/2 length=12"),
    (b"M1:5:FC:1:11:2:3 1:N:0:ACGT", b"M1:5:FC:1:11:2:3 2:N:0:ACGT"),
    (b"a\tRX:Z:AC", b"a second"),
    (b"HWI:1:2#ACGT/1", b"HWI:1:2#ACGT/2"),
    (b"", b""),
]
OTHER_NAMES = [
    (b"a", b"b"),
    (b"a", b"aa"),
    (b"a/1", b"b/2"),
    (b"a/3", b"a/4"),
    (b"a x", b"b x"),
    (b"SRR1.5.1", b"SRR1.5.2"),
    (b"SRR1.7 7 length=10", b"SRR1.8 8 length=10"),
    (b"A", b"a"),
]


@pytest.mark.parametrize("names", SAME_NAMES)
def test_mates_of_one_name(tmp_path: Path, names: tuple[bytes, bytes]) -> None:
    found = [(name, b"AC", b"II") for name in names]
    paths = [write_fastq(tmp_path / f"R{side}.fq", [found[side]]) for side in range(2)]
    assert read_records(paths) == [tuple(found)]


@pytest.mark.parametrize("names", OTHER_NAMES)
def test_mates_of_other_names(tmp_path: Path, names: tuple[bytes, bytes]) -> None:
    """Also two files of SRA out of step, or with .1 and .2 behind the names."""
    paths = [
        write_fastq(tmp_path / f"R{side}.fq", [(b"s", b"A", b"I")] * 6 + [(names[side], b"C", b"I")])
        for side in range(2)
    ]
    for chunk_records in (1, 4, 100):
        error = refusal(paths, chunk_records=chunk_records)
        assert place(error) == ("R1.fq", 7, 25)
        shown = [name.split()[0].decode() for name in names]
        assert error.message == (
            f"mates are named differently: {shown[0]} in {paths[0]}, {shown[1]} here; the files "
            "are out of step"
        )


# -- other formats ---------------------------------------------------------------------------------

TEXT = fastq_text(PAIR[0])


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (bz2.compress(TEXT), "bzip2"),
        (lzma.compress(TEXT), "xz"),
        (b"\x28\xb5\x2f\xfd" + TEXT, "zstd"),
        (b"BAM\x01" + TEXT, "BAM"),
        (b"CRAM" + TEXT, "CRAM"),
    ],
)
def test_other_formats_are_named(tmp_path: Path, data: bytes, name: str) -> None:
    path = tmp_path / "reads.fq.gz"
    path.write_bytes(data)
    with pytest.raises(UmimillError) as caught:
        read_records([path])
    assert str(caught.value) == f"{path}: this is {name}; give FASTQ as plain text or gzip"


@pytest.mark.parametrize(
    "data",
    [
        b">a\nACGT\n",
        b"PK\x03\x04" + TEXT,
        b"\xef\xbb\xbf" + TEXT,
        TEXT.decode().encode("utf-16"),
        gzip.compress(b"BAM\x01" + bytes(90)),
        gzip.compress(bz2.compress(TEXT)),
        gzip.compress(gzip.compress(TEXT)),
        b"<html>\n<body>Not found</body>\n",
        bytes(3000),
    ],
)
def test_what_is_no_fastq_is_refused_at_its_first_record(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "reads.fq"
    path.write_bytes(data)
    error = refusal([path])
    assert (place(error), error.message) == (
        ("reads.fq", 1, 1),
        "the first line of a record does not begin with @",
    )


def test_an_endless_record_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastq, "MAXIMUM_RECORD_BYTES", 1 << 12)
    path = tmp_path / "one-line.fq"
    path.write_bytes(b"@" + b"A" * 9000)
    assert "is this FASTQ?" in refusal([path], buffer_bytes=64).message
