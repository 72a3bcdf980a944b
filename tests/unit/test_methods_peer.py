"""The published grouping rules against the program that they are from, UMI by UMI.

UMI-tools 1.1.6 decides ties between UMIs of equal reads by their order in its input (directional)
or by their letters (adjacency), so where its input is sorted all five rules give equal groups.
"""

from __future__ import annotations

import csv
import hashlib
import random
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pysam
import pytest

from accuracy.peers import UmiTools
from kernel_cases import keys_of
from umimill.methods import METHODS, group_barcodes

Place = tuple[str, int, bool]  # contig, start of the read on its strand, whether it is reversed
Tables = dict[Place, Counter[str]]
Partition = list[list[str]]

REAL = "umitools/tests__chr19_tag.bam"
SOME_WITHOUT_UMI = "umitools/tests__chr19_tag_missing.bam"
# What the program says of the first of these: groups, and a digest of all of them, by place.
RECORDED = {
    "unique": (879, "cb35bac6045b2123"),
    "percentile": (849, "8544956a022d36b0"),
    "cluster": (719, "f8dd68f7e6d54cea"),
    "adjacency": (726, "816431ddabd9e2d1"),
    "directional": (728, "c063ba9ac814f432"),
}


@pytest.fixture(scope="module")
def umi_tools() -> str:
    """The program; the test is skipped where it was not compiled."""
    peer = UmiTools()
    if peer.program is None:
        pytest.skip(peer.missing())
    return peer.program


def reads_of(path: Path) -> Iterator[tuple[str, Place, str]]:
    """Yield the name, place and UMI of each read that has one."""
    with pysam.AlignmentFile(str(path), check_sq=False) as file:
        for read in file:
            if read.has_tag("RX"):
                start = read.reference_end if read.is_reverse else read.reference_start
                place = (str(read.reference_name), int(start or 0), read.is_reverse)
                yield str(read.query_name), place, str(read.get_tag("RX"))


def count(path: Path) -> Tables:
    """Return the reads of each UMI, by place."""
    tables: Tables = defaultdict(Counter)
    for _, place, umi in reads_of(path):
        tables[place][umi] += 1
    return tables


def group(method: str, table: Counter[str]) -> Partition:
    """Return our own groups, sorted."""
    umis = sorted(table)
    counts = np.array([table[umi] for umi in umis], np.uint32)
    groups: dict[int, list[str]] = defaultdict(list)
    roots = group_barcodes(method, keys_of(umis), len(umis[0]), counts).tolist()
    for umi, root in zip(umis, roots, strict=True):
        if root >= 0:
            groups[root].append(umi)
    return sorted(groups.values())


def run_program(program: str, path: Path, method: str) -> dict[Place, Partition]:
    """Return the groups that the program makes, by place."""
    table = path.with_suffix(f".{method}.tsv")
    command = [program, "group", f"--stdin={path}", f"--group-out={table}", f"--method={method}"]
    command += ["--extract-umi-method=tag", "--umi-tag=RX", f"--log={table}.log"]
    subprocess.run(command, check=True, cwd=path.parent)
    numbers = {}
    with table.open() as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            # A read can be at two places; its start on the reverse strand is its end here too.
            numbers[row["read_id"], row["contig"], int(row["position"])] = row["unique_id"]
    groups: dict[Place, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, place, umi in reads_of(path):
        number = numbers.get((name, *place[:2]))
        if number is not None:
            groups[place][number].add(umi)
    return {place: sorted(map(sorted, found.values())) for place, found in groups.items()}


def digest(groups: Mapping[Place, Partition]) -> str:
    """Return a digest of the groups of all places."""
    return hashlib.sha256(repr(sorted(groups.items())).encode()).hexdigest()[:16]


def compare(program: str, path: Path, tables: Tables, method: str) -> None:
    """Compare all places of an indexed file."""
    found = run_program(program, path, method)
    assert found.keys() == tables.keys()
    different = {
        place: (dict(table), found[place], group(method, table))
        for place, table in tables.items()
        if found[place] != group(method, table)
    }
    assert not different


def random_table(draw: random.Random, reads: Sequence[int], rows: int) -> Counter[str]:
    """UMIs of a small space, each with one of `reads`, as often as that is in there."""
    length = draw.choice([4, 5, 6])
    letters = draw.choice(["AC", "ACG", "ACGT"])
    umis: set[str] = set()
    while len(umis) < min(rows, len(letters) ** length):
        umis.add("".join(draw.choices(letters, k=length)))
    return Counter(dict(zip(sorted(umis), draw.sample(reads, len(umis)), strict=True)))


def write_bam(path: Path, tables: Sequence[Counter[str]]) -> Tables:
    """Write a table a place, sorted by UMI, with an index; return the tables by place."""
    header = {"HD": {"VN": "1.6", "SO": "coordinate"}, "SQ": [{"SN": "chr1", "LN": 10_000_000}]}
    placed: Tables = {}
    with pysam.AlignmentFile(str(path), "wb", header=header) as file:
        for number, table in enumerate(tables):
            start = 1000 + 1000 * number
            placed["chr1", start, False] = table
            for copy, umi in enumerate(sorted(table.elements())):
                read = pysam.AlignedSegment(file.header)
                read.query_name = f"{number}.{copy}"
                read.query_sequence = "ACGTACGTAC"
                read.query_qualities = pysam.qualitystring_to_array("IIIIIIIIII")
                read.flag, read.reference_id, read.reference_start = 0, 0, start
                read.mapping_quality, read.cigarstring = 60, "10M"
                read.set_tag("RX", umi)
                file.write(read)
    pysam.index(str(path))
    return placed


@pytest.fixture(scope="module")
def random_file(umi_tools: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tables]:
    """Random tables, a third of them without ties."""
    draw = random.Random(8)
    untied = range(1, 60)
    tied = [1] * 40 + [2] * 20 + [3] * 10 + [4, 5, 7, 9, 100, 200]
    tables = [random_table(draw, untied, draw.choice([5, 30])) for _ in range(20)]
    tables += [random_table(draw, tied, draw.choice([5, 20, 60])) for _ in range(60)]
    path = tmp_path_factory.mktemp("peer") / "random.bam"
    return path, write_bam(path, tables)


@pytest.mark.parametrize("method", METHODS)
def test_random_tables(umi_tools: str, random_file: tuple[Path, Tables], method: str) -> None:
    path, tables = random_file
    compare(umi_tools, path, tables, method)


@pytest.mark.parametrize("method", METHODS)
def test_real_umis_as_recorded(data_file: Callable[[str], Path], method: str) -> None:
    """Needs no program: 540 places, 56 of them with UMIs of equal reads."""
    tables = count(data_file(REAL))
    groups = {place: group(method, table) for place, table in tables.items()}
    assert (sum(map(len, groups.values())), digest(groups)) == RECORDED[method]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", [REAL, pytest.param(SOME_WITHOUT_UMI, marks=pytest.mark.slow)])
def test_real_umis(
    umi_tools: str, data_file: Callable[[str], Path], tmp_path: Path, name: str, method: str
) -> None:
    path = tmp_path / "reads.bam"
    shutil.copyfile(data_file(name), path)
    pysam.index(str(path))
    compare(umi_tools, path, count(path), method)
