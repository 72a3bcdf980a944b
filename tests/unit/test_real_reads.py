"""Real reads against their truth: what a few lines of slicing find in them, and references.

Needs the folder of real reads. Every number is recomputed here from the files and compared with
the one that is known of them.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from pipeline import Library, Record, Run, run_pipeline

DataFile = Callable[[str], Path]

MASTER = "TGATCTTGACGTTGTAGATGAG"
SPACER = "ATGGGAAAGAGTGTCC"
MAGERI_SIZES = [12924, 4328, 1203, 936, 917, 773, 522]
# Places of SPIKE1 that hold two alleles, and one at which the second largest family has an error.
ALLELES = {30: "CT", 87: "CT", 88: "CT"}
FIRST_COPY_ERROR = 109


class Read(NamedTuple):
    """A read as it is in the file."""

    name: str
    bases: str
    qualities: str


def read_fastq(path: Path) -> list[Read]:
    """Decode a file with nothing but gzip."""
    lines = gzip.decompress(path.read_bytes()).decode("ascii").splitlines()
    assert len(lines) % 4 == 0
    return [
        Read(lines[first][1:], lines[first + 1], lines[first + 3])
        for first in range(0, len(lines), 4)
    ]


def mismatches(bases: str, expected: str) -> int:
    """Count the places at which two texts of one length differ."""
    return sum(one != other for one, other in zip(bases, expected, strict=True))


def reverse_complement(bases: str) -> str:
    """Return the other strand."""
    return bases[::-1].translate(str.maketrans("ACGTY", "TGCAR"))


def refused_names(run: Run) -> set[str]:
    """Return the names of the reads in the unmatched file."""
    ending = "_R1" if run.library.paired else ""
    path = run.outputs[f"unmatched/L1/L1.unmatched{ending}.fastq.gz"]
    return {read.name for read in read_fastq(path)}


def sizes_of(run: Run, sample: str) -> dict[str, int]:
    """Return the reads of each UMI."""
    return {row["umi"]: row["reads"] for row in run.molecules(sample)}


def check_ledger(run: Run, sample: str, molecules: int, **checkout: int) -> None:
    """Compare the whole ledger: every line that is not listed is zero."""
    library_lines = ("unmatched", "ambiguous")
    expected = {
        ("checkout", None if line in library_lines else sample, line): count
        for line, count in checkout.items()
    }
    assigned = checkout["assigned"]
    expected |= {
        ("plan", sample, "planned"): assigned,
        ("tally", sample, "families"): assigned,
        ("assemble", sample, "voted"): assigned,
        ("gather", sample, "records"): molecules,
    }
    assert run.ledger() == {line: count for line, count in expected.items() if count}


# -- mageri: pairs, seven deep families of one amplicon ------------------------------------------


@pytest.fixture
def mageri(data_file: DataFile) -> tuple[Path, Path]:
    folder = "mageri/src__test__resources__sample__"
    return data_file(f"{folder}R1.fastq.gz"), data_file(f"{folder}R2.fastq.gz")


@pytest.fixture
def spike(data_file: DataFile) -> str:
    lines = data_file("mageri/src__test__resources__pipeline__refs.fa").read_text().splitlines()
    assert lines[0] == ">SPIKE1"
    reference = "".join(lines[1:]).upper()
    assert len(reference) == 136
    assert {place: "CT" for place, base in enumerate(reference) if base == "Y"} == ALLELES
    assert reference.startswith(MASTER)
    return reference


def differences(bases: str, places: range, reference: str) -> set[int]:
    """Return where a stretch of the top strand differs from the reference, alleles aside."""
    assert len(bases) == len(places)
    return {
        place
        for base, place in zip(bases, places, strict=True)
        if base not in ALLELES.get(place, reference[place])
    }


def check_deep_families(run: Run, reference: str, expected: list[int]) -> None:
    """Compare both mates of the seven deep families with the reference."""
    rows = run.molecules("SPIKE1")
    deep = [place for place, row in enumerate(rows) if row["reads"] >= 500]
    assert sorted((rows[place]["reads"] for place in deep), reverse=True) == expected
    mates: list[list[Record]] = [run.records("SPIKE1", mate) for mate in (1, 2)]
    for place in deep:
        first, second = mates[0][place], mates[1][place]
        assert first.name == second.name == rows[place]["molecule_id"]
        assert differences(first.bases, range(22, 86), reference) == set()
        found = differences(reverse_complement(second.bases), range(36, 136), reference)
        assert found == ({FIRST_COPY_ERROR} if rows[place]["reads"] == expected[1] else set())
        # As sure as the floor lets anyone be, and no surer.
        assert set(first.qualities + second.qualities) == {40}


def test_mageri_by_position(mageri: tuple[Path, Path], spike: str, tmp_path: Path) -> None:
    reads = [read_fastq(path) for path in mageri]
    sizes = Counter(read.bases[:14] for read in reads[0])
    assert len(reads[0]) == len(reads[1]) == 21_953
    assert [count for _, count in sizes.most_common(7)] == MAGERI_SIZES
    assert sizes.most_common(8)[7][1] < 500
    assert len(sizes) == 263
    # The base that the second family has at the one wrong place: that of nearly all its reads.
    second = sizes.most_common(2)[1][0]
    column = Counter(
        mate.bases[135 - FIRST_COPY_ERROR]
        for read, mate in zip(*reads, strict=True)
        if read.bases[:14] == second
    )
    wrong, count = column.most_common(1)[0]
    assert wrong != reverse_complement(spike[FIRST_COPY_ERROR])
    assert count > 0.9 * 4328

    run = run_pipeline(Library((("SPIKE1", "^N{14}.{22}", None),), {"u": mageri}), tmp_path)
    check_ledger(run, "SPIKE1", 263, assigned=21_953)
    assert sizes_of(run, "SPIKE1") == sizes
    check_deep_families(run, spike, MAGERI_SIZES)


def test_mageri_searched_along_the_read(
    mageri: tuple[Path, Path], spike: str, tmp_path: Path
) -> None:
    sizes: Counter[str] = Counter()
    moved: dict[int, str] = {}
    for read in read_fastq(mageri[0]):
        places = range(len(read.bases) - 14 - len(MASTER) + 1)
        found = [
            mismatches(read.bases[place + 14 : place + 14 + len(MASTER)], MASTER)
            for place in places
        ]
        place = found.index(min(found))
        assert min(found) <= 3
        umi = read.bases[place : place + 14]
        sizes[umi] += 1
        if place:
            moved[place] = umi
    # Three reads hold the pattern further on; two belong to the second family by it.
    second = sizes.most_common(2)[1][0]
    assert moved.keys() == {1, 20, 25}
    assert {place for place, umi in moved.items() if umi == second} == {1, 20}
    expected = [12924, 4330, *MAGERI_SIZES[2:]]
    assert [count for _, count in sizes.most_common(7)] == expected

    layout = "NNNNNNNNNNNNNNtgatcttGACGTTGtagatgag"
    run = run_pipeline(Library((("SPIKE1", layout, None),), {"u": mageri}), tmp_path)
    check_ledger(run, "SPIKE1", len(sizes), assigned=21_953)
    assert sizes_of(run, "SPIKE1") == sizes
    check_deep_families(run, spike, expected)


# -- umierrorcorrect: single reads, an N in a UMI, a spacer --------------------------------------


@pytest.fixture
def simsen(data_file: DataFile) -> Path:
    return data_file("umierrorcorrect/test_data__test_R1.fastq.gz")


def test_umierrorcorrect_by_position(simsen: Path, tmp_path: Path) -> None:
    reads = read_fastq(simsen)
    sizes = Counter(read.bases[:12] for read in reads)
    assert len(reads) == 1938
    assert len(sizes) == 562
    assert sum(count >= 2 for count in sizes.values()) == 364
    assert sum(count >= 5 for count in sizes.values()) == 158
    close = sum(mismatches(read.bases[12:28], SPACER) <= 1 for read in reads)
    assert f"{close / len(reads):.1%}" == "93.6%"
    # One UMI holds an N, in its first four bases: it waits outside all leaves.
    unknown = {umi: count for umi, count in sizes.items() if "N" in umi}
    assert unknown == {"TTNATTGTCTCT": 1}
    known = {umi: count for umi, count in sizes.items() if umi not in unknown}
    assert len(known) == 561

    run = run_pipeline(Library((("P", "^N{12}", None),), {"u": (simsen,)}), tmp_path)
    check_ledger(run, "P", 561, assigned=1937, unresolved=1)
    assert sizes_of(run, "P") == known
    lengths = {row["umi"]: row["length_1"] for row in run.molecules("P")}
    longest: Counter[str] = Counter()
    for read in reads:
        longest[read.bases[:12]] = max(longest[read.bases[:12]], len(read.bases) - 12)
    assert lengths == {umi: longest[umi] for umi in known}


def test_umierrorcorrect_with_its_spacer(simsen: Path, tmp_path: Path) -> None:
    reads = read_fastq(simsen)
    found = {read.name: mismatches(read.bases[12:28], SPACER) for read in reads}
    assert len(found) == len(reads)
    layout = f"^N{{12}}{SPACER}"
    run = run_pipeline(Library((("P", layout, None),), {"u": (simsen,)}), tmp_path)
    refused = refused_names(run)
    # Nothing at one or two mismatches of sixteen is refused, and nothing above is taken.
    assert refused == {name for name, count in found.items() if count > 2}
    kept = [read for read in reads if read.name not in refused]
    assert Counter(min(found[read.name], 3) for read in reads) == {0: 1778, 1: 36, 2: 12, 3: 112}
    sizes = Counter(read.bases[:12] for read in kept)
    check_ledger(run, "P", 540, unmatched=112, assigned=1826)
    assert sizes_of(run, "P") == sizes
    # Those refused are wrong at bases that the machine was sure of.
    for read in reads:
        if read.name in refused:
            sure = [
                ord(quality) - 33 >= 20
                for base, quality, expected in zip(
                    read.bases[12:28], read.qualities[12:28], SPACER, strict=True
                )
                if base != expected
            ]
            assert sum(sure) >= 2, read


# -- umitools: a UMI split by constant bases -----------------------------------------------------


def test_umitools_slim(data_file: DataFile, tmp_path: Path) -> None:
    path = data_file("umitools/tests__slim.fastq.gz")
    reads = read_fastq(path)
    tagged = [read for read in reads if read.bases[3:7] == "GGTT"]
    sizes = Counter(read.bases[:3] + read.bases[7:9] for read in tagged)
    assert (len(reads), len(tagged), len(sizes)) == (10_000, 9931, 1017)
    assert not any("N" in umi for umi in sizes)

    run = run_pipeline(Library((("S", "^NNNGGTTNN", None),), {"u": (path,)}), tmp_path)
    check_ledger(run, "S", 1017, unmatched=69, assigned=9931)
    assert refused_names(run) == {read.name for read in reads} - {read.name for read in tagged}
    assert sizes_of(run, "S") == sizes
