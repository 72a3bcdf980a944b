"""probe: quality encoding, composition, foreign reads, and layouts that do not fit."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stage_fixture import Record, files_below, new_meter, random_bases, write_fastq
from umimill.errors import FastqError, UmimillError
from umimill.probe import PROBE_TEMPLATES, probe, quality_offset

LAYOUTS = [("S1", "^ACGTNNNN", None)]


def probed(folder: Path, reads: list[Path], layouts: Any = LAYOUTS) -> dict[str, Any]:
    meter = new_meter("probe")
    output = folder / "answers" / "u1.json"
    probe(reads, layouts, output, meter)
    found = json.loads(output.read_text())
    assert meter.reads == found["templates"]
    assert found.pop("reads") == [str(path) for path in reads]
    return found


# -- quality encoding ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "greatest", "offset"),
    [
        (33, 74, 33),  # Illumina 1.8+
        (35, 70, 33),  # four levels
        (33, 126, 33),  # long reads
        (40, 106, 33),
        (58, 104, 33),
        (64, 76, 33),  # high Phred+33 and nothing above what instruments give
        (74, 74, 33),
        (64, 104, 64),  # Illumina 1.3
        (66, 102, 64),  # Illumina 1.5, B and up
        (64, 77, 64),
        (90, 90, 64),
        (64, 106, 64),
        (64, 107, 33),  # above what Phred+64 instruments give
        (75, 126, 33),
    ],
)
def test_offset(least: int, greatest: int, offset: int) -> None:
    histogram = [0] * 256
    histogram[least] = histogram[greatest] = 1
    assert quality_offset(histogram, "a.fq") == offset


def test_offset_without_bases() -> None:
    assert quality_offset([0] * 256, "a.fq") == 33


@pytest.mark.parametrize("least", range(59, 64))
def test_solexa_is_refused(tmp_path: Path, least: int) -> None:
    qualities = bytes([104, least, 90, 100, 80, 70, 80, 90])
    path = write_fastq(tmp_path / "old.fq", [(b"a", b"ACGTACGT", qualities)])
    with pytest.raises(UmimillError) as caught:
        probed(tmp_path, [path])
    assert str(caught.value) == (
        f"{path}: quality bytes {least} to 104 are Solexa's scale, which is not read; convert the "
        "file to Phred+33"
    )
    assert files_below(tmp_path) == ["old.fq"]


def test_phred_64_levels(tmp_path: Path) -> None:
    path = write_fastq(tmp_path / "a.fq", [(b"a", b"ACGTACGT", b"hhhhBBgh")])
    found = probed(tmp_path, [path])
    assert (found["quality_offset"], found["quality_levels"]) == (64, [2, 39, 40])


# -- what is measured ------------------------------------------------------------------------------


def make_reads(count: int, foreign: float, seed: int = 1, length: int = 40) -> list[Record]:
    rng = np.random.default_rng(seed)
    reads = []
    for number in range(count):
        tag = b"ACGT" if rng.random() >= foreign else b"CATG"
        bases = tag + random_bases(rng, 4) + random_bases(rng, length - 8, b"AACGGTNacgu")
        reads.append((b"r%d" % number, bases, random_bases(rng, length, b"IIIIF:")))
    return reads


def test_answer(tmp_path: Path) -> None:
    reads = make_reads(3000, 0.2)
    mates = [(name, bases[7:], qualities[7:]) for name, bases, qualities in make_reads(3000, 0, 2)]
    paths = [write_fastq(tmp_path / "1.fq", reads), write_fastq(tmp_path / "2.fq.gz", mates)]
    found = probed(tmp_path, paths)
    letters = Counter(
        (bases.upper().replace(b"U", b"T")).decode()[place]
        for _, bases, _ in reads + mates
        for place in range(len(bases))
    )
    counts = [letters[letter] for letter in "ACGTN"]
    assert found["bases"] == counts
    total = sum(counts[:4]) + 4
    scores = [1024 * math.log2(4 * (count + 1) / total) for count in counts[:4]]
    assert found["base_scores"] == [*map(round, scores), 0]
    assert found["templates"] == 3000
    assert found["longest"] == [40, 33]
    assert found["quality_levels"] == [25, 37, 40]
    share = sum(bases[:4] == b"CATG" for _, bases, _ in reads) / 3000
    assert found["foreign_share"] == pytest.approx(share, abs=1e-9)
    assert found["foreign_prior"] == round(1024 * math.log2(share / (1 - share)))
    assert found["assigned"] == {"S1": round(3000 * (1 - share))}


def test_foreign_share_has_bounds(tmp_path: Path) -> None:
    """No library is free of foreign reads, and in none are all of them foreign."""
    for foreign, share in ((0.0, 0.001), (1.0, 0.9)):
        path = write_fastq(tmp_path / "a.fq", make_reads(50, foreign))
        assert probed(tmp_path, [path])["foreign_share"] == share


def test_first_templates_alone_count(tmp_path: Path) -> None:
    reads = make_reads(PROBE_TEMPLATES + 500, 0.1)
    first = probed(tmp_path, [write_fastq(tmp_path / "a.fq", reads[:PROBE_TEMPLATES])])
    more = [*reads[:-1], (b"z", b"A" * 500, b"!" * 500)]
    path = write_fastq(tmp_path / "b.fq.gz", more)
    assert probed(tmp_path, [path]) == first
    assert first["templates"] == PROBE_TEMPLATES
    # What is wrong further on is checkout's to say.
    (tmp_path / "a.fq").write_bytes((tmp_path / "a.fq").read_bytes() + b"@cut")
    assert probed(tmp_path, [tmp_path / "a.fq"]) == first


def test_digest_tells_units_apart(tmp_path: Path) -> None:
    reads = make_reads(500, 0.1)
    digests = set()
    name, bases, qualities = reads[-1]
    changed = [
        (name, bases[:-1] + b"R", qualities),
        (name, bases, qualities[:-1] + b"#"),
        (b"other", bases, qualities),
    ]
    for last in [reads[-1], *changed]:
        path = write_fastq(tmp_path / "a.fq", [*reads[:-1], last])
        digests.add(probed(tmp_path, [path])["digest"])
    digests.add(probed(tmp_path, [path, path])["digest"])
    assert len(digests) == 5


@pytest.mark.parametrize("mates", [1, 2])
def test_no_reads(tmp_path: Path, mates: int) -> None:
    paths = [write_fastq(tmp_path / f"{mate}.fq.gz", []) for mate in range(mates)]
    layouts = [("S1", "^ACGTNNNN", "^NN" if mates == 2 else None), ("S2", "^TTTTNNNN", None)]
    found = probed(tmp_path, paths, layouts)
    assert found["templates"] == 0
    assert found["digest"] is None
    assert found["quality_offset"] == 33
    assert found["foreign_share"] == 0.001
    assert found["assigned"] == {"S1": 0, "S2": 0}


# -- layouts that do not fit -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "layout_read2", "side", "takes"),
    [
        ("^" + "N" * 20 + "A" * 21, None, 0, 41),
        ("N{20}" + "A" * 21, None, 0, 41),
        ("8M40S+T", None, 0, 48),
        ("cell:0:16,30:45", None, 0, 45),
        ("^NNNN", "20M19S+T", 1, 39),
        ("^NNNN", "A" * 31, 1, 31),
    ],
)
def test_layout_longer_than_the_reads(
    tmp_path: Path, layout: str, layout_read2: str | None, side: int, takes: int
) -> None:
    reads = make_reads(20, 0.0)
    mates = [(name, bases[:30], qualities[:30]) for name, bases, qualities in reads]
    paths = [write_fastq(tmp_path / "1.fq", reads), write_fastq(tmp_path / "2.fq", mates)]
    layouts = [("S1", "^NNNN", None), ("S2", layout, layout_read2)]
    before = files_below(tmp_path)
    with pytest.raises(UmimillError) as caught:
        probed(tmp_path, paths, layouts)
    spelled = (layout, layout_read2)[side]
    assert str(caught.value) == (
        f"{paths[side]}: layout {spelled} of sample S2 takes {takes} bases, but the longest of the "
        f"first reads has {(40, 30)[side]}; correct the layout, or exchange read1 and read2"
    )
    assert files_below(tmp_path) == before


def test_layout_as_long_as_the_longest_read(tmp_path: Path) -> None:
    reads = [*make_reads(20, 0.0, length=12), *make_reads(1, 0.0, length=40)]
    path = write_fastq(tmp_path / "a.fq", reads)
    found = probed(tmp_path, [path], [("S1", "^ACGTN{20}.{16}", None)])
    assert found["longest"] == [40, 0]


def test_broken_reads_leave_nothing(tmp_path: Path) -> None:
    path = write_fastq(tmp_path / "a.fq", [*make_reads(20, 0.0), (b"b", b"ACGT", b"III")])
    with pytest.raises(FastqError, match=r"a\.fq, record 21 \(line 84\): sequence has 4 bases"):
        probed(tmp_path, [path])
    assert files_below(tmp_path) == ["a.fq"]
