"""Real reads against their truth: what a few lines of slicing find in them, and references.

Needs the folder of real reads. Every number is recomputed here from the files and compared with
the one that is known of them.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from pipeline import Library, Run, run_pipeline

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
    sizes: Counter[str] = Counter()
    for row in run.molecules(sample):
        sizes[row["umi"]] += row["reads"]
    return dict(sizes)


def run_unique(rows: Sequence[tuple[str, str, None]], reads: Sequence[Path], folder: Path) -> Run:
    """Run a library of which nothing is corrected or judged: each family is a molecule."""
    return run_pipeline(Library(rows, {"u": reads}, method="unique"), folder)


def check_ledger(
    run: Run, sample: str, molecules: int, corrected: int = 0, **checkout: int
) -> None:
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
        # None of those that were not fully read has a molecule here.
        ("tally", sample, "partial"): checkout.get("partial", 0),
        ("settle", sample, "unresolved"): checkout.get("partial", 0),
        ("settle", sample, "kept"): assigned - corrected,
        ("settle", sample, "corrected"): corrected,
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


def deep_rows(run: Run) -> list[dict[str, Any]]:
    """Return the rows of the deep families, the largest first."""
    rows = [row for row in run.molecules("SPIKE1") if row["reads"] >= 500]
    return sorted(rows, key=lambda row: -row["reads"])


def check_deep_families(run: Run, reference: str) -> None:
    """Compare both mates of the seven deep families with the reference, strangers with them."""
    deep = deep_rows(run)
    assert len({row["umi"] for row in deep}) == len(deep) == 7
    mates = [{one.name: one for one in run.records("SPIKE1", mate)} for mate in (1, 2)]
    for place, row in enumerate(deep):
        first, second = (own[row["molecule_id"]] for own in mates)
        assert differences(first.bases, range(22, 86), reference) == set()
        found = differences(reverse_complement(second.bases), range(36, 136), reference)
        assert found == ({FIRST_COPY_ERROR} if place == 1 else set())
        # As sure as the floor lets anyone be, and no surer.
        assert set(first.qualities + second.qualities) == {40}
    # What has a UMI of theirs and is another molecule has another sequence.
    names = {row["umi"]: row["molecule_id"] for row in deep}
    others = [
        row
        for row in run.molecules("SPIKE1")
        if row["umi"] in names and row["n"] > 1 and row["status"] == "molecule"
    ]
    # Seven, of which correction takes some for chimeras or errors.
    assert len(others) >= 3
    for row in others:
        pairs = [(own[row["molecule_id"]], own[names[row["umi"]]]) for own in mates]
        differing = sum(
            one != other
            for first, second in pairs
            for one, other in zip(first.bases, second.bases, strict=False)
        )
        assert differing >= 8, row


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

    run = run_unique((("SPIKE1", "^N{14}.{22}", None),), mageri, tmp_path)
    check_ledger(run, "SPIKE1", 270, assigned=21_953)
    assert sizes_of(run, "SPIKE1") == sizes
    # Strangers with a UMI of theirs are 77 + 20 + 2 reads.
    assert [row["reads"] for row in deep_rows(run)] == [12847, 4308, 1203, 936, 915, 773, 522]
    check_deep_families(run, spike)


def test_mageri_corrected(mageri: tuple[Path, Path], spike: str, tmp_path: Path) -> None:
    """The deep families stay apart, also two one base apart; they gain what is an error of them."""
    sizes = Counter(read.bases[:14] for read in read_fastq(mageri[0]))
    deep = dict(sizes.most_common(7))
    names = {count: umi for umi, count in deep.items()}
    assert mismatches(names[936], names[773]) == 1
    run = run_pipeline(Library((("SPIKE1", "^N{14}.{22}", None),), {"u": mageri}), tmp_path)
    rows = pq.read_table(run.outputs["samples/SPIKE1/SPIKE1.families.parquet"]).to_pylist()
    moved = [row for row in rows if row["status"] == "corrected"]
    assert sum(row["reads"] for row in moved) == run.line("corrected", "SPIKE1", "settle") == 173
    gained: Counter[str] = Counter()
    beside: Counter[str] = Counter()
    for row in moved:
        gained[row["molecule_umi"]] += row["reads"]
        assert row["distance"] == 1 or (row["distance"] == 2 and row["posterior"] > 0.98)
        # A chain of two errors at most, and none of a family that is large itself.
        apart = mismatches(row["umi"], row["molecule_umi"])
        assert apart <= 2
        beside[row["molecule_umi"]] += row["reads"] * (apart == 1)
        assert row["reads"] <= 16
    assert gained == {
        names[12924]: 92, names[4328]: 38, names[936]: 12, names[917]: 11, names[773]: 9,
        names[522]: 6, names[1203]: 4, "GGGACATCTAGCGT": 1,
    }  # fmt: skip
    # All six but the largest gain all that is one base away from them.
    for umi in list(deep)[1:]:
        near = [count for one, count in sizes.items() if mismatches(one, umi) == 1]
        assert beside[umi] == sum(count for count in near if count < 500)
    exact = [12847, 4308, 1203, 936, 915, 773, 522]
    assert [row["umi"] for row in deep_rows(run)] == list(deep)
    assert [row["reads"] for row in deep_rows(run)] == [
        own + gained[umi] for own, umi in zip(exact, deep, strict=True)
    ]
    check_deep_families(run, spike)


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
    run = run_unique((("SPIKE1", layout, None),), mageri, tmp_path)
    check_ledger(run, "SPIKE1", len(sizes) + 7, assigned=21_953)
    assert sizes_of(run, "SPIKE1") == sizes
    assert [row["reads"] for row in deep_rows(run)] == [12847, 4310, 1203, 936, 915, 773, 522]
    check_deep_families(run, spike)


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

    run = run_unique((("P", "^N{12}", None),), (simsen,), tmp_path)
    # Five UMIs have reads that are not alike.
    check_ledger(run, "P", 566, assigned=1937, partial=1)
    assert sizes_of(run, "P") == known
    lengths: Counter[str] = Counter()
    for row in run.molecules("P"):
        lengths[row["umi"]] = max(lengths[row["umi"]], row["length_1"])
    longest: Counter[str] = Counter()
    for read in reads:
        longest[read.bases[:12]] = max(longest[read.bases[:12]], len(read.bases) - 12)
    assert lengths == {umi: longest[umi] for umi in known}


def test_umierrorcorrect_with_its_spacer(simsen: Path, tmp_path: Path) -> None:
    reads = read_fastq(simsen)
    found = {read.name: mismatches(read.bases[12:28], SPACER) for read in reads}
    assert len(found) == len(reads)
    layout = f"^N{{12}}{SPACER}"
    run = run_unique((("P", layout, None),), (simsen,), tmp_path)
    refused = refused_names(run)
    # Nothing at one or two mismatches of sixteen is refused, and nothing above is taken.
    assert refused == {name for name, count in found.items() if count > 2}
    kept = [read for read in reads if read.name not in refused]
    assert Counter(min(found[read.name], 3) for read in reads) == {0: 1778, 1: 36, 2: 12, 3: 112}
    sizes = Counter(read.bases[:12] for read in kept)
    assert len(sizes) == 540
    check_ledger(run, "P", 550, unmatched=112, assigned=1826)
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

    # iCLIP reads of the whole genome: many molecules share each of 1,024 UMIs. Reads are of one
    # where their first 25 bases differ at three or fewer places.
    payloads: dict[str, Counter[str]] = {umi: Counter() for umi in sizes}
    for read in tagged:
        payloads[read.bases[:3] + read.bases[7:9]][read.bases[9:34]] += 1
    molecules = 0
    for own in payloads.values():
        met: list[str] = []
        for payload, _ in own.most_common():
            if all(mismatches(payload[: len(one)], one[: len(payload)]) > 3 for one in met):
                met.append(payload)
        molecules += len(met)
    assert molecules == 7004

    rows = (("S", "^NNNGGTTNN", None),)
    # Neighbours of one payload are hardly more than chance gives: 3 single reads are rather errors
    # of one beside them than molecules, none of them surely.
    for method, corrected in (("unique", 0), ("posterior", 3)):
        library = Library(rows, {"u": (path,)}, method=method)
        run = run_pipeline(library, tmp_path / method)
        check_ledger(run, "S", 7004 - corrected, corrected, unmatched=69, assigned=9931)
        assert refused_names(run) == {read.name for read in reads} - {read.name for read in tagged}
        if method == "unique":
            assert sizes_of(run, "S") == sizes
