"""tally: families are what a Counter counts, in order, whatever fits into memory."""

from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_fixture import (
    Library,
    all_rows,
    files_below,
    key_text,
    ledger,
    new_meter,
    random_reads,
    run_checkout,
    run_plan,
    slow_settings,
    write_fastq,
)
from umimill import tally as stage
from umimill.blockfile import BlockFile
from umimill.errors import UmimillError
from umimill.kernels import families as kernels
from umimill.partition import HOT
from umimill.tally import FAMILY, FamilyTable, merge, tally

# Sample, key, barcode length.
Key = tuple[int, int, int]
KEYS = st.tuples(st.integers(0, 2), st.integers(0, 5).map(lambda key: key << 60), st.integers(1, 3))
Families = npt.NDArray[np.void]


def table_of(counts: Counter[Key]) -> Families:
    table = np.zeros(len(counts), FAMILY)
    for place, (sample, key, length) in enumerate(sorted(counts)):
        table[place] = (key, counts[sample, key, length], sample, length, 0, 0)
    return table


def counts_of(table: Families) -> Counter[Key]:
    keys = [
        (int(row["sample"]), int(row["key"]), int(row["umi_length"]) + int(row["cell_length"]))
        for row in table
    ]
    assert keys == sorted(set(keys)), "in order, each key once"
    return Counter(dict(zip(keys, table["reads"].tolist(), strict=True)))


@slow_settings(100)
@given(st.lists(KEYS, max_size=40))
def test_rows_to_families(keys: list[Key]) -> None:
    hot = np.zeros(len(keys), HOT)
    for place, (sample, key, length) in enumerate(sorted(keys)):
        hot[place]["sample"], hot[place]["key"], hot[place]["umi_length"] = sample, key, length
    families = np.zeros(len(keys) + 1, FAMILY)
    assert counts_of(families[: kernels.count_families(hot, families)]) == Counter(keys)


@slow_settings(100)
@given(st.lists(KEYS, max_size=30), st.lists(KEYS, max_size=30))
def test_merge(first: list[Key], second: list[Key]) -> None:
    merged = merge(table_of(Counter(first)), table_of(Counter(second)))
    assert counts_of(merged) == Counter(first) + Counter(second)


@slow_settings(100)
@given(st.lists(KEYS, max_size=30), KEYS)
def test_rows_through(keys: list[Key], last: Key) -> None:
    table = table_of(Counter(keys))
    count = kernels.rows_through(table, table_of(Counter([last])))
    assert count == sum(key <= last for key in set(keys))


@slow_settings(100)
@given(
    tables=st.lists(st.lists(KEYS, max_size=25), max_size=12),
    budget=st.sampled_from([1, 24, 240, 10**6]),
    merge_rows=st.integers(1, 5),
)
def test_family_table(
    tmp_path_factory: pytest.TempPathFactory,
    tables: list[list[Key]],
    budget: int,
    merge_rows: int,
) -> None:
    """Whatever the budget, however small the pieces in which spilled tables are merged."""
    scratch = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "MERGE_ROWS", merge_rows)
        table = FamilyTable(budget, scratch)
        for keys in tables:
            own = table_of(Counter(keys))
            table.add(own)
            own["reads"] = 0  # the table keeps its own
        pieces = list(table.pieces())
    # A key is in one piece, and pieces are in order: that is what counts_of makes sure of.
    found = counts_of(np.concatenate(pieces))
    total = sum(map(Counter, tables), Counter())
    assert found == total
    held = [len(set(keys)) * FAMILY.itemsize for keys in tables]
    assert table.peak_bytes >= max(held, default=0)
    assert bool(table.spill_bytes) == (table.peak_bytes > budget)
    if budget == 1:
        assert table.spill_bytes == sum(held)


# -- the stage -------------------------------------------------------------------------------------

LAYOUTS = [("S1", "^ACGTNNNNNN", None), ("S2", "^TTGCXXNNNN", None), ("S2", "^GGAAXXNNNNN", None)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("tally")
    tags = [b"ACGT", b"TTGC", b"GGAA"]
    units = {
        unit: [write_fastq(folder / f"{unit}.fq", random_reads(rng, 5000, tags, umis=400))]
        for unit, rng in (("u1", np.random.default_rng(1)), ("u2", np.random.default_rng(2)))
    }
    return Library(folder, LAYOUTS, units)


@pytest.fixture(scope="module")
def partitions(library: Library) -> list[Path]:
    found, metrics = run_checkout(library, parts=2, record_block=900, staging_bytes=100_000)
    assert all(job["counters"]["flushes"] >= 2 for job in metrics)
    return found


@pytest.mark.parametrize("buckets", [1, 5])
@pytest.mark.parametrize("table_bytes", [None, 1, 5000])
def test_families_are_what_a_counter_counts(
    library: Library, partitions: list[Path], tmp_path: Path, buckets: int, table_bytes: int | None
) -> None:
    path = run_plan(library, partitions, buckets)
    expected: Counter[tuple[int, str, int]] = Counter()
    for row, times in all_rows(partitions).items():
        expected[row[0], row[1], row[2]] += times
    found: Counter[tuple[int, str, int]] = Counter()
    order = []
    for bucket in range(buckets):
        meter = new_meter("tally")
        output = tmp_path / f"{bucket}.families"
        (tmp_path / "scratch").mkdir(exist_ok=True)
        tally(path, bucket, output, meter, scratch=tmp_path / "scratch", table_bytes=table_bytes)
        with BlockFile(output) as file:
            families = file.read("families")
        order += list(counts_of(families))
        for row in families:
            width = int(row["cell_length"]) + int(row["umi_length"])
            barcode = key_text(int(row["key"]), width)
            found[int(row["sample"]), barcode, int(row["cell_length"])] += int(row["reads"])
        lines = ledger([meter.result("sort")])
        assert sum(lines.values()) == meter.reads == families["reads"].sum()
        assert meter.counters["families"] == families.size
        assert meter.umi_memory_bytes >= FAMILY.itemsize * min(1, families.size)
        assert (meter.umi_spill_bytes > 0) == (table_bytes is not None and families.size > 0)
        assert meter.result("sort")["umi_spilled"] == (meter.umi_spill_bytes > 0)
    assert found == expected
    assert order == sorted(order), "buckets in order, and no key in two"
    # Nothing is left of what was spilled.
    assert files_below(tmp_path) == [f"{bucket}.families" for bucket in range(buckets)]


def test_families_do_not_depend_on_memory(
    library: Library, partitions: list[Path], tmp_path: Path
) -> None:
    path = run_plan(library, partitions, 1)
    written = []
    for table_bytes in (None, 1, 3000, 20_000):
        tally(path, 0, tmp_path / "a", new_meter("tally"), table_bytes=table_bytes)
        with BlockFile(tmp_path / "a") as file:
            written.append(file.read("families")[list(FAMILY.names[:5])].tolist())
    assert all(one == written[0] for one in written)
    assert len(written[0]) > 1000


def test_damaged_rows_leave_nothing(
    library: Library, partitions: list[Path], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.rows"
    data = bytearray(partitions[0].read_bytes())
    data[100] ^= 1
    broken.write_bytes(data)
    path = run_plan(Library(tmp_path, LAYOUTS, library.units), [*partitions[1:], broken], 1)
    before = files_below(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(UmimillError, match=r"broken\.rows: the 64 kB at byte 0 are damaged"):
        tally(path, 0, tmp_path / "a", new_meter("tally"), scratch=scratch, table_bytes=1)
    assert files_below(tmp_path) == before


def test_no_rows(tmp_path: Path) -> None:
    library = Library(tmp_path, LAYOUTS, {"u1": [write_fastq(tmp_path / "none.fq", [])]})
    path = run_plan(library, run_checkout(library)[0], 3)
    for bucket in range(3):
        meter = new_meter("tally")
        tally(path, bucket, tmp_path / "a", meter)
        with BlockFile(tmp_path / "a") as file:
            assert file.length("families") == 0
            assert file.read("families").size == 0
        assert [entry["templates"] for entry in meter.ledger] == [0, 0]
