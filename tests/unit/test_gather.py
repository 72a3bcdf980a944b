"""gather: files in key order, the same bytes however buckets cut them, and books that fit."""

import gzip
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from bucket_fixture import run_buckets, run_index
from stage_fixture import (
    Library,
    all_rows,
    files_below,
    ledger,
    new_meter,
    random_reads,
    run_checkout,
    run_plan,
    write_fastq,
)
from umimill import tables
from umimill.bgzf import EOF_BLOCK, compress_records
from umimill.blockfile import BlockWriter
from umimill.errors import UmimillError
from umimill.files import read_json, write_json
from umimill.gather import append_pieces, gather, write_molecules
from umimill.plan import read_plan

# S2 has two layouts with a cell; no read has the tag of S3.
LAYOUTS = [
    ("S1", "^ACGTNNNNNN", None),
    ("S2", "^TTGCXXNNNN", None),
    ("S3", "^GGAANNNNNN", None),
]
MINIMUM = 2


def gathered(library: Library, index: Path, folder: Path) -> list[dict[str, Any]]:
    """Gather all samples; return the metrics."""
    meter = new_meter("gather", samples=["S1", "S2", "S3"])
    fastq = {
        sample: [folder / sample / f"{sample}.{mate}.fastq.gz" for mate in range(library.mates)]
        for sample in ("S1", "S2", "S3")
    }
    gather(index, list(fastq), fastq, folder, meter)
    return [meter.result("write")]


def chain(library: Library, partitions: list[Path], buckets: int, home: Path) -> Path:
    """Run the stages between checkout and gather; return the index."""
    library = Library(home, library.layouts, library.units)
    plan = run_plan(library, partitions, buckets)
    made, metrics = run_buckets(library, plan, minimum_reads=MINIMUM)
    jobs = read_json(partitions[0].parents[2] / "jobs.json")
    # Only the probe of the first folder has run.
    (home / "probe").symlink_to(partitions[0].parents[2] / "probe")
    return run_index(library, made, jobs + metrics, minimum_reads=MINIMUM)


def make_library(folder: Path, mates: int, templates: int) -> tuple[Library, list[Path]]:
    """Make two units whose reads of one UMI are of so many templates."""
    rng = np.random.default_rng(1)
    units: dict[str, list[Path]] = {"u1": [], "u2": []}
    reads = random_reads(
        rng, 8000, [b"ACGT", b"TTGC"], umis=600, shortest=30, length=44, templates=templates
    )
    for number, unit in enumerate(units):
        own = reads[4000 * number : 4000 * (number + 1)]
        units[unit].append(write_fastq(folder / f"{unit}_1.fq", own))
        if mates == 2:
            other = bytes.maketrans(b"ACGT", b"CATG")
            second = [(name, bases.translate(other), qualities) for name, bases, qualities in own]
            units[unit].append(write_fastq(folder / f"{unit}_2.fq", second))
    library = Library(folder, LAYOUTS, units)
    partitions, metrics = run_checkout(library)
    write_json(folder / "jobs.json", metrics)
    return library, partitions


@pytest.fixture(
    scope="module", params=[(1, 1), (2, 1), (1, 2)], ids=["single", "paired", "two_a_key"]
)
def outputs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The library, its molecules by sample, and what each number of buckets gave."""
    folder = tmp_path_factory.mktemp("gather")
    library, partitions = make_library(folder, *request.param)
    found = {}
    for buckets in (1, 2, 7):
        index = chain(library, partitions, buckets, folder / f"{buckets}")
        found[buckets] = (index, gathered(library, index, folder / f"{buckets}" / "samples"))
    molecules = molecules_of(partitions)
    several = sum(len(sizes) > 1 for one in molecules for sizes in one.values())
    assert (several > 200) == (request.param[1] > 1)
    return library, molecules, found


def molecules_of(partitions: Sequence[Path]) -> list[dict[tuple[str, str], list[int]]]:
    """Count the reads of each template of each (cell, UMI) of each sample, the most first."""
    found: list[dict[tuple[str, str], Counter[str]]] = [{}, {}, {}]
    for row, times in all_rows(partitions).items():
        key = row[1][: row[2]], row[1][row[2] :]
        # Templates are random: eight bases tell them apart.
        found[row[0]].setdefault(key, Counter())[row[7][0][0][:8]] += times
    return [
        {key: sorted(sizes.values(), reverse=True) for key, sizes in sorted(one.items())}
        for one in found
    ]


def names_of(sample: str, molecules: Mapping[tuple[str, str], list[int]]) -> list[tuple[str, int]]:
    """Return the name and the reads of each molecule."""
    return [
        (".".join([part for part in (sample, *key) if part] + several * [str(number)]), reads)
        for key, sizes in molecules.items()
        for several in [int(len(sizes) > 1)]
        for number, reads in enumerate(sizes, 1)
    ]


def test_bytes_do_not_depend_on_buckets(outputs: Any) -> None:
    _, _, found = outputs
    folders = [index.parent / "samples" for index, _ in found.values()]
    names = files_below(folders[0])
    assert len(names) == 3 * (4 + outputs[0].mates)
    for folder in folders[1:]:
        assert files_below(folder) == names
        for name in names:
            assert (folder / name).read_bytes() == (folders[0] / name).read_bytes(), name
    # The cuts between buckets were somewhere else each time, also inside samples.
    pieces = [
        [len(entry["molecules"]) for entry in read_json(index)["samples"]]
        for index, _ in found.values()
    ]
    assert pieces[0] == [1, 1, 0]
    assert max(pieces[2]) > 1


def test_fastq_is_in_key_order(outputs: Any) -> None:
    library, counts, found = outputs
    folder = found[7][0].parent / "samples"
    for number, sample in enumerate(("S1", "S2", "S3")):
        kept = [name for name, reads in names_of(sample, counts[number]) if reads >= MINIMUM]
        names = [f"@{name}" for name in kept]
        for mate in range(library.mates):
            data = (folder / sample / f"{sample}.{mate}.fastq.gz").read_bytes()
            assert data.endswith(EOF_BLOCK)
            assert data.count(EOF_BLOCK) == 1
            lines = gzip.decompress(data).decode().split("\n")
            assert [line.split(" ")[0] for line in lines[:-1:4]] == names
        assert bool(kept) == (sample != "S3")


def test_molecules_table(outputs: Any) -> None:
    library, counts, found = outputs
    folder = found[1][0].parent / "samples"
    for number, sample in enumerate(("S1", "S2", "S3")):
        table = pq.read_table(folder / sample / f"{sample}.molecules.parquet")
        assert table.schema.equals(tables.MOLECULES)
        assert table.schema.metadata == {b"umimill.table": b"molecules", b"umimill.schema": b"1"}
        molecules = counts[number]
        named = names_of(sample, molecules)
        found_keys = zip(*(table[name].to_pylist() for name in ("cell", "umi", "n")), strict=True)
        assert [(cell or "", umi, n) for cell, umi, n in found_keys] == [
            (*key, place + 1) for key, sizes in molecules.items() for place in range(len(sizes))
        ]
        reads = table["reads"].to_pylist()
        assert reads == [reads for _, reads in named]
        assert table["families"].to_pylist() == [1] * len(reads)
        assert set(table["sample"].to_pylist()) <= {sample}
        assert set(table["status"].to_pylist()) <= {"molecule"}
        assert (table["cell"].null_count == 0) == (sample != "S1")
        assert table["length_2"].null_count == (len(reads) if library.mates == 1 else 0)
        assert table["molecule_id"].to_pylist() == [name for name, _ in named]
        flags = ["" if count >= MINIMUM else "below_min_reads" for count in reads]
        assert table["flags"].to_pylist() == flags
        # What is not called has no quality.
        for name in ("mean_quality_1", "posterior_error"):
            known = [value is not None for value in table[name].to_pylist()]
            assert known == [count >= MINIMUM for count in reads]


def test_sizes_and_ledger(outputs: Any) -> None:
    _, counts, found = outputs
    index, metrics = found[2]
    for number, sample in enumerate(("S1", "S2", "S3")):
        home = index.parent / "samples" / sample
        head, *lines = (home / f"{sample}.sizes.tsv").read_text().splitlines()
        # MultiQC finds the table by this text.
        assert head == "family_size\tcount\tfraction\tfraction_gt_or_eq_family_size"
        rows = [tuple(map(float, line.split("\t"))) for line in lines]
        sizes = Counter(size for held in counts[number].values() for size in held)
        assert [(size, count) for size, count, _, _ in rows] == sorted(sizes.items())
        if rows:
            assert sum(fraction for _, _, fraction, _ in rows) == pytest.approx(1, abs=1e-5)
            assert rows[0][3] == 1
            assert rows[-1][3] == rows[-1][2]
        head, *lines = (home / f"{sample}.ledger.tsv").read_text().splitlines()
        assert head == "stage\tlibrary\tsample\tline\ttemplates"
        cells = [line.split("\t") for line in lines]
        assert {tuple(cell[1:3]) for cell in cells} == {("L1", sample)}
        templates = {(cell[0], cell[3]): int(cell[4]) for cell in cells}
        reads = sum(size * count for size, count in sizes.items())
        assert templates["checkout", "assigned"] == templates["tally", "families"] == reads
        assert templates["assemble", "below_filter"] == sizes[1]
        assert templates["assemble", "voted"] == reads - sizes[1]
        records = sum(count for size, count in sizes.items() if size >= MINIMUM)
        assert ledger(metrics).get((sample, "records"), 0) == records
    assert metrics[0]["written_bytes"] > 10_000


# -- fragments that are wrong ----------------------------------------------------------------------


def changed_index(index: Path, folder: Path, change: Any) -> Path:
    found = read_json(index)
    change(found)
    write_json(folder / "index.json", found)
    return folder / "index.json"


def test_fragments_out_of_order_are_noticed(outputs: Any, tmp_path: Path) -> None:
    entries = read_json(outputs[2][7][0])["samples"][:2]
    assert max(len(entry["molecules"]) for entry in entries) > 1
    for entry in entries:
        own = entry["molecules"]
        # Twice the same, and turned round where the sample has several fragments.
        for pieces in [own * 2] + [own[::-1]] * (len(own) > 1):
            with pytest.raises(UmimillError) as caught:
                write_molecules(entry | {"molecules": pieces}, tmp_path / "a", paired=False)
            assert str(caught.value) == (
                f"sample {entry['sample']}: molecules are out of order; delete results/assemble "
                "and run again"
            )
            assert not files_below(tmp_path)


def test_records_that_do_not_fit_are_noticed(outputs: Any, tmp_path: Path) -> None:
    library, _, found = outputs

    def one_more(index: dict[str, Any]) -> None:
        index["samples"][0]["records"] += 1

    with pytest.raises(UmimillError, match=r"^sample S1: ([\d,]+) records but ([\d,]+) molecules"):
        gathered(library, changed_index(found[1][0], tmp_path, one_more), tmp_path / "samples")


@pytest.mark.parametrize("kind", ["mate1", "molecules"])
def test_damaged_fragment_leaves_nothing(outputs: Any, tmp_path: Path, kind: str) -> None:
    index = outputs[2][1][0]
    entry = read_json(index)["samples"][0]
    ((path, start, stop),) = entry["mates"][0] if kind == "mate1" else entry["molecules"]
    broken = tmp_path / "in" / "broken"
    broken.parent.mkdir()
    data = bytearray(Path(path).read_bytes())
    data[5000] ^= 32
    broken.write_bytes(data)
    pieces = [(str(broken), start, stop)]
    (tmp_path / "out").mkdir()
    with pytest.raises(UmimillError, match="broken: the 64 kB at byte 0 are damaged; delete it"):  # noqa: PT012
        if kind == "mate1":
            append_pieces(pieces, tmp_path / "out" / "a.fastq.gz")
        else:
            write_molecules(entry | {"molecules": pieces}, tmp_path / "out" / "a", paired=False)
    assert not files_below(tmp_path / "out")


def test_pieces_larger_than_what_is_copied_at_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    data = rng.integers(0, 256, 9 << 20, np.uint8).tobytes()
    with BlockWriter(tmp_path / "a") as writer:
        start = writer.append_bytes(data)
        writer.finish({})
    bounds = [start, start + 17, start + 17, start + 5_000_000, start + len(data)]
    pieces = [(str(tmp_path / "a"), first, last) for first, last in pairwise(bounds)]
    size = append_pieces(pieces, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == data + EOF_BLOCK
    assert size == len(data) + len(EOF_BLOCK)
    assert append_pieces([], tmp_path / "out") == len(EOF_BLOCK)


def test_block_files_hold_whole_bgzf(tmp_path: Path) -> None:
    """What a bucket wrote is appended as it is: blocks of several fragments make one file."""
    texts = [b"@a\nAC\n+\nII\n" * count for count in (3, 0, 20_000)]
    pieces = []
    for number, text in enumerate(texts):
        view = np.frombuffer(text, np.uint8)
        with BlockWriter(tmp_path / str(number)) as writer:
            ends = np.arange(1, len(text) // 11 + 1) * 11
            start = writer.append_bytes(b"".join(compress_records(view, ends)))
            pieces.append((str(tmp_path / str(number)), start, writer.offset))
            writer.finish({})
    append_pieces(pieces, tmp_path / "out.fastq.gz")
    assert gzip.decompress((tmp_path / "out.fastq.gz").read_bytes()) == b"".join(texts)


def test_plan_of_many_buckets_cuts_inside_a_sample(outputs: Any) -> None:
    """Else the tests above show nothing about cuts."""
    plan = read_plan(outputs[2][7][0].parent / "plan" / "of-7.plan")
    cut = plan.groups[plan.bounds[1:-1][plan.bounds[1:-1] < plan.groups.size]]
    assert (cut["leaf_start"] != plan.leaves.bases[cut["sample"]]).any()
