"""Odd and broken FASTQ files: what each is, as a table, through reader, probe and checkout.

Accepted files give every record; refused ones give one line with file, record and line, and leave
no file behind.
"""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from stage_fixture import (
    Library,
    Record,
    all_rows,
    fastq_text,
    files_below,
    ledger,
    new_meter,
    random_bases,
    read_records,
    run_checkout,
    run_probes,
)
from umimill.errors import FastqError, UmimillError
from umimill.probe import probe


class Taken(NamedTuple):
    """An accepted file: its records, the byte of Phred 0, its reads without a base."""

    records: int
    offset: int = 33
    empty: int = 0


class Refused(NamedTuple):
    """A refused file: record and line (from 1) and what is said."""

    record: int
    line: int
    message: str


CUT = "the file ends inside this record; fetch it again"
LINES = (
    "the third line of a record does not begin with + (sequences over several lines are not read); "
    "write each record as four lines"
)
FILES: dict[str, Taken | Refused] = {
    "01_gz_two_members.fastq.gz": Taken(3),
    "02_bgzf.fastq.gz": Taken(3),
    "03_bgzf_crlf.fastq.gz": Taken(3),
    "05_gz_zero_padded_DERIVED.fastq.gz": Taken(3),
    "06_crlf_illumina.fastq.gz": Taken(2),
    "07_noeol_zerolen_dupnames_R1.fq": Taken(9, empty=1),
    "07_noeol_zerolen_dupnames_R2.fq": Taken(9),
    "08_plus_repeats_header.fq": Taken(1000),
    # What follows the + says nothing new, so it may differ.
    "09_plus_header_differs.fastq": Taken(5, 64),
    "10_empty_0bytes.fastq": Taken(0),
    "11_empty_0bytes.fq.gz": Taken(0),
    "12_empty_valid_gzip.fq.gz": Taken(0),
    "13_some_zero_length.fastq": Taken(5, empty=1),
    "14_all_zero_length_I1.fastq.gz": Taken(9, empty=9),
    "15_dot_for_N_phred64.fastq.gz": Taken(2, 64),
    "16_solexa_dots.fastq.gz": Taken(1),
    "17_illumina15_phred64_B.fq": Taken(1, 64),
    "18_illumina64.fastq": Taken(20, 64),
    # Without a byte below 64 Solexa's scale cannot be told from Phred+64; above Q10 they agree.
    "19_solexa.fastq.gz": Taken(10, 64),
    "20_lowercase_iupac.fastq": Taken(4),
    "21_rna_U_bases.fastq.gz": Taken(2),
    "23_mates_unequal_R1.fastq": Taken(250),
    "23_mates_unequal_R2.fastq": Taken(75),
    "24_mates_longer_R1.fq": Taken(7),
    "24_mates_longer_R2.fq": Taken(2),
    "26_suffix_slash1_with_comment.fastq.gz": Taken(10_000),
    "26_suffix_slash2_with_comment.fastq.gz": Taken(10_000),
    "27_duplicate_names.fastq": Taken(9),
    "28_multiline.fq": Refused(1, 3, LINES),
    "29_tricky_at_plus_in_quality.fastq": Refused(4, 15, LINES),
    "30_trunc_in_quality.fastq": Refused(5, 20, "sequence has 25 bases, quality 24"),
    "31_trunc_at_plus.fastq": Refused(5, 19, LINES),
    "32_short_qual.fastq": Refused(3, 12, "sequence has 25 bases, quality 24"),
    "33_space_in_qual.fastq": Refused(
        4, 16, "byte 32 at column 19 is not a quality (bytes 33 to 126)"
    ),
    "34_last_record_cut_R1.fastq.gz": Refused(200, 799, CUT),
    "34_last_record_cut_R2.fastq.gz": Refused(200, 799, CUT),
    "35_empty_read_name.fastq.gz": Taken(2, 64),
}
CUT_GZIP = "04_truncated_DERIVED.fastq.gz"

# (mate 1, mate 2): the pairs taken, or (file, what is wrong with it).
PAIRS: dict[tuple[str, str], int | tuple[str, Refused]] = {
    ("07_noeol_zerolen_dupnames_R1.fq", "07_noeol_zerolen_dupnames_R2.fq"): 9,
    ("23_mates_unequal_R1.fastq", "23_mates_unequal_R2.fastq"): (
        "23_mates_unequal_R2.fastq",
        Refused(
            26,
            101,
            "mates are named differently: GFH7CG303FQDRK/1 in 23_mates_unequal_R1.fastq, "
            "GFH7CG303GPV4Q/2 here; the files are out of step",
        ),
    ),
    ("24_mates_longer_R1.fq", "24_mates_longer_R2.fq"): (
        "24_mates_longer_R1.fq",
        Refused(
            3,
            9,
            "its mate is missing: 24_mates_longer_R2.fq ends after 2 records; give both files of "
            "one run",
        ),
    ),
    ("26_suffix_slash1_with_comment.fastq.gz", "26_suffix_slash2_with_comment.fastq.gz"): 10_000,
    ("34_last_record_cut_R1.fastq.gz", "34_last_record_cut_R2.fastq.gz"): (
        "34_last_record_cut_R1.fastq.gz",
        Refused(200, 799, CUT),
    ),
}
# Their reads are named /1 and /2.
SLASHED = [names for names in PAIRS if names[0].startswith(("23", "26", "34"))]

DataFile = Callable[[str], Path]


def check_refusal(error: UmimillError, name: str, expected: Refused) -> None:
    assert isinstance(error, FastqError)
    message = error.message.replace(os.path.dirname(error.path) + "/", "")
    found = (os.path.basename(error.path), error.record, error.line, message)
    assert found == (name, *expected)
    assert "\n" not in str(error)


# -- real files ------------------------------------------------------------------------------------


def test_the_table_has_every_file(data_folder: Path) -> None:
    assert {path.name for path in (data_folder / "nasty").iterdir()} == {*FILES, CUT_GZIP}


@pytest.mark.parametrize("name", FILES)
def test_file(data_file: DataFile, tmp_path: Path, name: str) -> None:
    expected = FILES[name]
    path = data_file(f"nasty/{name}")
    answer = tmp_path / "probe" / "u1.json"
    layouts = [("S1", "^N", None)]
    meter = new_meter("probe")
    if isinstance(expected, Refused):
        for small in ({}, {"buffer_bytes": 64, "chunk_records": 1}):
            with pytest.raises(UmimillError) as caught:
                read_records([path], **small)
            check_refusal(caught.value, name, expected)
        with pytest.raises(UmimillError) as caught:
            probe([path], layouts, answer, meter)
        check_refusal(caught.value, name, expected)
        assert not files_below(tmp_path)
        return
    records = read_records([path])
    assert len(records) == expected.records
    assert sum(not bases for ((_, bases, _),) in records) == expected.empty
    if expected.empty == expected.records > 0:
        with pytest.raises(UmimillError) as caught:
            probe([path], layouts, answer, meter)
        assert str(caught.value) == (
            f"{path}: layout ^N of sample S1 takes 1 bases, but the longest of the first reads has "
            "0; correct the layout, or exchange read1 and read2"
        )
        assert not files_below(tmp_path)
        return
    probe([path], layouts, answer, meter)
    found = json.loads(answer.read_text())
    assert (found["templates"], found["quality_offset"]) == (expected.records, expected.offset)
    library = Library(tmp_path, layouts, {"u1": [path]})
    partitions, metrics = run_checkout(library)
    lines = ledger(metrics)
    assert sum(lines.values()) == metrics[0]["reads"] == expected.records
    assert lines.get(("S1", "too_short"), 0) == expected.empty
    rows = all_rows(partitions)
    assert rows.total() == lines.get(("S1", "assigned"), 0)
    # What is in the rows is what is in the file, with Phred from 0 and upper-case letters.
    table = str.maketrans("acgtuU", "ACGTTT", "")
    for row in rows:
        _, bases, qualities = records[row[5]][0]
        text = bases.decode().translate(table)
        assert text[0] == row[1]
        assert ["N" if base not in "ACGT" else base for base in text[1:]] == list(row[7][0][0])
        assert bytes(byte - expected.offset for byte in qualities) == row[6] + row[7][0][1]


def test_cut_gzip_file(data_file: DataFile, tmp_path: Path) -> None:
    path = data_file(f"nasty/{CUT_GZIP}")
    with pytest.raises(FastqError, match="the gzip file is cut short here; fetch it again"):
        probe([path], [("S1", "^N", None)], tmp_path / "u1.json", new_meter("probe"))
    assert not files_below(tmp_path)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("names", PAIRS)
def test_pair(data_file: DataFile, names: tuple[str, str], turned: bool) -> None:
    expected = PAIRS[names]
    order = names[::-1] if turned else names
    paths = [data_file(f"nasty/{name}") for name in order]
    if isinstance(expected, int) and not (turned and names in SLASHED):
        assert len(read_records(paths)) == expected
        return
    with pytest.raises(UmimillError) as caught:
        read_records(paths)
    if turned and names in SLASHED:
        assert isinstance(caught.value, FastqError)
        assert (caught.value.path, caught.value.record) == (str(paths[1]), 1)
        assert caught.value.message.startswith("the files are swapped: ")
        return
    assert not isinstance(expected, int)
    check_refusal(caught.value, *expected)


# -- what other tools get wrong --------------------------------------------------------------------

PAIR_COUNT = 200
LAYOUTS = [("S1", "^NNNNNNNN", None)]


def pairs() -> tuple[list[Record], list[Record]]:
    rng = np.random.default_rng(5)
    return tuple(
        [
            (b"A1:2:3:%d %d:N:0:ACGT" % (number, mate), random_bases(rng, 30), b"I" * 30)
            for number in range(PAIR_COUNT)
        ]
        for mate in (1, 2)
    )  # type: ignore[return-value]


def cut_gzip(mates: list[bytes]) -> list[bytes]:
    packed = [gzip.compress(text) for text in mates]
    return [packed[0][: len(packed[0]) // 2], packed[1]]


def one_base_less(text: bytes) -> bytes:
    lines = text.split(b"\n")
    lines[4 * 49 + 3] = lines[4 * 49 + 3][:-1]
    return b"\n".join(lines)


def renamed(text: bytes, first: int = 100) -> bytes:
    lines = text.split(b"\n")
    lines[4 * first] = b"@other"
    return b"\n".join(lines)


def short_reads(text: bytes) -> bytes:
    lines = text.split(b"\n")
    for number in range(7):
        lines[4 * number + 1], lines[4 * number + 3] = b"ACGTA", b"IIIII"
    return b"\n".join(lines)


def slashes(mates: list[bytes]) -> list[bytes]:
    return [
        text.replace(b" %d:N:0:ACGT" % (side + 1), b"/%d" % (side + 1))
        for side, text in enumerate(mates)
    ]


def drop(text: bytes, records: int) -> bytes:
    return b"\n".join(text.split(b"\n")[: 4 * (PAIR_COUNT - records)]) + b"\n"


BROKEN: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str, int, str]] = {
    # what is done to both texts, (file, record and what is said)
    "truncated gzip": (cut_gzip, "R1", 0, "the gzip file is cut short here; fetch it again"),
    "mate 2 is 10 records short": (
        lambda mates: [mates[0], drop(mates[1], 10)],
        "R1", 191, "its mate is missing: R2 ends after 190 records; give both files of one run",
    ),
    "mate 1 is 10 records short": (
        lambda mates: [drop(mates[0], 10), mates[1]],
        "R2", 191, "its mate is missing: R1 ends after 190 records; give both files of one run",
    ),
    "last record cut": (lambda mates: [mates[0][:-40], mates[1]], "R1", 200, CUT),
    "quality shorter than sequence": (
        lambda mates: [mates[0], one_base_less(mates[1])],
        "R2", 50, "sequence has 30 bases, quality 29",
    ),
    "files swapped": (
        lambda mates: slashes(mates)[::-1],
        "R2", 1, "the files are swapped: A1:2:3:0/2 in R1, A1:2:3:0/1 here; exchange read1 and "
        "read2 in the units sheet (a barcode on read 2 has its layout in layout_read2)",
    ),
    "mates with other names": (
        lambda mates: [mates[0], renamed(mates[1])],
        "R2", 101, "mates are named differently: A1:2:3:100 in R1, other here; the files are out "
        "of step",
    ),
}  # fmt: skip
SOUND: dict[str, tuple[Callable[[list[bytes]], list[bytes]], dict[str, int]]] = {
    # what is done to both texts, ledger
    "nothing": (lambda mates: mates, {"assigned": 200}),
    "read shorter than the UMI": (
        lambda mates: [short_reads(mates[0]), mates[1]],
        {"assigned": 193, "too_short": 7},
    ),
    "names with /1 and /2": (slashes, {"assigned": 200}),
    "lower-case bases": (
        lambda mates: [
            b"\n".join(
                line.lower() if number % 4 == 1 else line
                for number, line in enumerate(text.split(b"\n"))
            )
            for text in mates
        ],
        {"assigned": 200},
    ),
    "CRLF": (lambda mates: [text.replace(b"\n", b"\r\n") for text in mates], {"assigned": 200}),
    "blank lines at the end": (lambda mates: [mates[0] + b"\n\r\n", mates[1]], {"assigned": 200}),
    "empty gzip": (lambda _: [gzip.compress(b"")] * 2, {}),
    "zero bytes": (lambda _: [b"", b""], {}),
    "gzip named as plain text": (lambda mates: [gzip.compress(text) for text in mates],
                                 {"assigned": 200}),
}  # fmt: skip


def write_pair(folder: Path, texts: list[bytes]) -> list[Path]:
    folder.mkdir()
    for name, text in zip(("R1", "R2"), texts, strict=True):
        (folder / name).write_bytes(text)
    return [folder / "R1", folder / "R2"]


@pytest.mark.parametrize("case", BROKEN)
def test_broken_pair_is_refused_and_nothing_is_left(tmp_path: Path, case: str) -> None:
    change, name, record, message = BROKEN[case]
    texts = [fastq_text(mate) for mate in pairs()]
    reads = write_pair(tmp_path / "reads", texts)
    library = Library(tmp_path / "run", LAYOUTS, {"u1": reads})
    probes = run_probes(library)
    for path, text in zip(reads, change(texts), strict=True):
        path.write_bytes(text)
    before = files_below(tmp_path)
    for threads in (1, 2):
        with pytest.raises(FastqError) as caught:
            run_checkout(library, threads=threads, unmatched=True)
        with pytest.raises(FastqError) as probed:
            probe(reads, LAYOUTS, tmp_path / "probe.json", new_meter("probe"))
        assert str(probed.value) == str(caught.value)
        assert files_below(tmp_path) == before
    error = caught.value
    assert os.path.basename(error.path) == name
    assert error.message.replace(f"{reads[0].parent}/", "") == message
    if record:
        assert error.record == record
        assert 4 * record - 3 <= error.line <= 4 * record
    assert probes["u1"].exists()


@pytest.mark.parametrize("case", SOUND)
def test_sound_pair_gives_its_rows(tmp_path: Path, case: str) -> None:
    change, expected = SOUND[case]
    mates = pairs()
    reads = write_pair(tmp_path / "reads", change([fastq_text(mate) for mate in mates]))
    library = Library(tmp_path / "run", LAYOUTS, {"u1": reads})
    partitions, metrics = run_checkout(library, unmatched=True)
    assert ledger(metrics) == {("S1", line): count for line, count in expected.items()}
    rows = all_rows(partitions)
    assert rows.total() == expected.get("assigned", 0)
    for row in rows:
        texts = [mate[row[5]][1].decode() for mate in mates]
        assert (row[1], row[7][0][0], row[7][1][0]) == (texts[0][:8], texts[0][8:], texts[1])
