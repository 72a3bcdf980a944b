"""Broken records, mates that do not fit, other formats: one line each, with the place."""

import bz2
import gzip
from pathlib import Path

import pytest

from stage_fixture import fastq_text, place, read_records, refusal, write_fastq
from umimill import fastq
from umimill.errors import UmimillError

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
    b"@b\r\nACGTA\r\n+\r\nIIII\r\n": (8, "sequence has 5 bases, quality 4"),
    b"@b\r\nACG\r\n+\r\nII\r\n" + GOOD: (8, "sequence has 3 bases, quality 2"),
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
    (b"a/1", b"a/1"),
    (b"a/2", b"a/2"),
    (b"a", b"a/1"),
    (b"a/2", b"a"),
    (b"a/1", b"a /2"),
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
        write_fastq(tmp_path / f"R{side}.fq", [(b"s", b"A", b"I")] * 6 + [(name, b"C", b"I")])
        for side, name in enumerate(names)
    ]
    for chunk_records in (1, 4, 100):
        error = refusal(paths, chunk_records=chunk_records)
        assert place(error) == ("R1.fq", 7, 25)
        shown = [name.split()[0].decode() for name in names]
        assert error.message == (
            f"mates are named differently: {shown[0]} in {paths[0]}, {shown[1]} here; the files "
            "are out of step"
        )


@pytest.mark.parametrize(
    "names",
    [
        (b"a/2", b"a/1"),
        (b"a/2 length=10", b"a/1 length=12"),
        (b"a/2\tRX:Z:AC", b"a/1\tRX:Z:AC"),
        (b"/2", b"/1"),
    ],
)
def test_swapped_files(tmp_path: Path, names: tuple[bytes, bytes]) -> None:
    paths = [
        write_fastq(tmp_path / f"R{side}.fq", [(b"s", b"A", b"I")] * 6 + [(name, b"C", b"I")])
        for side, name in enumerate(names)
    ]
    for chunk_records in (1, 4, 100):
        error = refusal(paths, chunk_records=chunk_records)
        assert place(error) == ("R1.fq", 7, 25)
        shown = [name.split()[0].decode() for name in names]
        assert error.message == (
            f"the files are swapped: {shown[0]} in {paths[0]}, {shown[1]} here; exchange read1 "
            "and read2 in the units sheet (a barcode on read 2 has its layout in layout_read2)"
        )


# -- other formats ---------------------------------------------------------------------------------

TEXT = fastq_text([(b"a", b"ACGT", b"IIII"), (b"b", b"AC", b"+@")])


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"BAM\x01" + TEXT, "BAM"),
        (b"CRAM" + TEXT, "CRAM"),
    ],
)
def test_other_formats_are_named(tmp_path: Path, data: bytes, name: str) -> None:
    path = tmp_path / "reads.fq.gz"
    path.write_bytes(data)
    with pytest.raises(UmimillError) as caught:
        read_records([path])
    assert str(caught.value) == (
        f"{path}: this is {name}; give FASTQ as plain text, gzip, bzip2, xz or zstd"
    )


@pytest.mark.parametrize(
    "data",
    [
        b">a\nACGT\n",
        b"PK\x03\x04" + TEXT,
        b"\xef\xbb\xbf" + TEXT,
        TEXT.decode().encode("utf-16"),
        gzip.compress(b"BAM\x01" + bytes(90), mtime=0),
        gzip.compress(bz2.compress(TEXT), mtime=0),
        gzip.compress(gzip.compress(TEXT, mtime=0), mtime=0),
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
