"""plan: every leaf in one group, every group in one bucket, groups from the data alone."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_fixture import (
    Library,
    files_below,
    ledger,
    new_meter,
    partition_rows,
    random_reads,
    run_checkout,
    run_plan,
    slow_settings,
    write_fastq,
)
from umimill.errors import UmimillError
from umimill.partition import Leaves
from umimill.plan import GROUP_ROWS, group_width, make_bounds, make_groups, plan, read_plan

Integers = npt.NDArray[np.int64]


@st.composite
def leaf_tables(draw: st.DrawFn) -> tuple[Leaves, Integers, Integers]:
    leaves = Leaves(tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    most = draw(st.sampled_from([1, 3, 40, 900, 5000]))
    rows = rng.integers(0, most, leaves.count)
    rows[rng.random(leaves.count) < draw(st.sampled_from([0.0, 0.5, 1.0]))] = 0
    return leaves, rows, rows * rng.integers(60, 90, leaves.count)


@slow_settings(150)
@given(leaf_tables())
def test_groups_cover_all_leaves_once(table: tuple[Leaves, Integers, Integers]) -> None:
    leaves, rows, sizes = table
    groups = make_groups(rows, sizes, leaves)
    assert groups["leaf_start"][0] == 0
    assert groups["leaf_stop"][-1] == leaves.count
    assert (groups["leaf_start"][1:] == groups["leaf_stop"][:-1]).all()
    bases = leaves.bases
    for group in groups.tolist():
        sample, start, stop, group_rows, group_bytes = group
        assert bases[sample] <= start < stop <= bases[sample + 1]
        assert group_rows == rows[start:stop].sum()
        assert group_bytes == sizes[start:stop].sum()
    for sample in range(len(leaves.widths)):
        own = groups[groups["sample"] == sample]
        widths = set((own["leaf_stop"] - own["leaf_start"]).tolist())
        assert len(widths) == 1, "one width a sample"
        (width,) = widths
        assert width & (width - 1) == 0
        count = 4 ** leaves.widths[sample]
        total = int(own["rows"].sum())
        # Enough rows on average, and no wider than it takes.
        assert width == count or total * width >= GROUP_ROWS * count
        assert width == 1 or total * width // 2 < GROUP_ROWS * count


def test_group_widths() -> None:
    assert group_width(0, 256) == 256
    assert group_width(1999, 256) == 256
    assert group_width(2000, 256) == 256
    assert group_width(4000, 256) == 128
    assert group_width(256 * 2000, 256) == 1
    assert group_width(256 * 2000 - 1, 256) == 2
    assert group_width(10**9, 1) == 1


COSTS = st.lists(st.integers(0, 1000) | st.sampled_from([0, 10**6]), min_size=1, max_size=60)


@slow_settings(300)
@given(COSTS, st.integers(1, 70))
def test_bounds_are_near_equal(costs: list[int], buckets: int) -> None:
    cost = np.array(costs, np.int64)
    bounds = make_bounds(cost, buckets)
    assert bounds.size == buckets + 1
    assert (bounds[0], bounds[-1]) == (0, cost.size)
    assert (np.diff(bounds) >= 0).all(), "each group in one bucket"
    shares = [int(cost[start:stop].sum()) for start, stop in pairwise(bounds)]
    assert sum(shares) == cost.sum()
    # Each end is the one nearest to its share of the total, so no bucket is off by over a group.
    assert max(shares) <= cost.sum() / buckets + cost.max() + 1
    behind = np.concatenate([[0], np.cumsum(cost)])
    for bucket in range(1, buckets):
        target = int(cost.sum()) * bucket // buckets
        distance = abs(behind - target)
        assert distance[bounds[bucket]] == distance.min()


def test_bounds_of_one_bucket_and_of_nothing() -> None:
    assert make_bounds(np.array([5, 6]), 1).tolist() == [0, 2]
    assert make_bounds(np.array([0]), 3).tolist()[0::3] == [0, 1]


# -- the stage -------------------------------------------------------------------------------------

LAYOUTS = [("S1", "^ACGTNNNNNN", None), ("S2", "^TTGCNNNNNN", None), ("S3", "^GGAANNNNNN", None)]
TAGS = [b"ACGT", b"TTGC"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("plan")
    units = {
        unit: [write_fastq(folder / f"{unit}.fq", random_reads(rng, 6000, TAGS, umis=300))]
        for unit, rng in (("u1", np.random.default_rng(1)), ("u2", np.random.default_rng(2)))
    }
    return Library(folder, LAYOUTS, units)


@pytest.fixture(scope="module")
def partitions(library: Library) -> list[Path]:
    return run_checkout(library, parts=2, record_block=1000)[0]


def test_plan_holds_the_sums_of_the_parts(library: Library, partitions: list[Path]) -> None:
    found = read_plan(run_plan(library, partitions, 4))
    assert found.samples == ("S1", "S2", "S3")
    assert found.partitions == tuple(partitions)
    assert found.leaves == Leaves((3, 3, 3))
    rows = [row for path in partitions for flush in partition_rows(path) for row in flush]
    for sample in range(3):
        own = [row for row in rows if row[0] == sample]
        assert found.rows[sample] == len(own)
        assert found.bases[sample] == sum(len(row[7][0][0]) for row in own)
    assert found.rows[2] == found.hash_sums[2] == 0
    assert found.groups["rows"].sum() == len(rows)
    groups = [found.bucket_groups(bucket) for bucket in range(4)]
    assert np.concatenate(groups).tolist() == found.groups.tolist()
    assert sum(one.size > 0 for one in groups) > 1


def test_groups_do_not_depend_on_buckets_or_parts(library: Library, tmp_path: Path) -> None:
    found: list[Any] = []
    for parts in (1, 3):
        other = Library(tmp_path / str(parts), library.layouts, library.units)
        files, _ = run_checkout(other, parts=parts, record_block=700, staging_bytes=200_000)
        found += [read_plan(run_plan(other, files, buckets)) for buckets in (1, 2, 7, 64)]
    names = ["sample", "leaf_start", "leaf_stop", "rows"]
    for one in found[1:]:
        assert one.groups[names].tolist() == found[0].groups[names].tolist()
        assert one.rows.tolist() == found[0].rows.tolist()
        assert one.bases.tolist() == found[0].bases.tolist()
    assert found[0].groups.size > 3


def test_metrics(partitions: list[Path], tmp_path: Path) -> None:
    meter = new_meter("plan")
    plan(partitions, 2, tmp_path / "a.plan", meter)
    lines = ledger([meter.result("write")])
    assert sum(lines.values()) == meter.reads == read_plan(tmp_path / "a.plan").rows.sum()
    assert {line for _, line in lines} == {"planned"}


def test_parts_of_other_layouts_are_refused(
    library: Library, partitions: list[Path], tmp_path: Path
) -> None:
    for name, layouts in (("w", [*LAYOUTS[:2], ("S3", "^GGAANNN", None)]), ("s", LAYOUTS[:2])):
        other = Library(tmp_path / name, layouts, {"u1": library.units["u1"]})
        (odd,), _ = run_checkout(other)
        before = files_below(tmp_path)
        with pytest.raises(UmimillError) as caught:
            plan([*partitions, odd], 2, tmp_path / "a.plan", new_meter("plan"))
        assert str(caught.value) == (
            f"{odd}: made with other samples or layouts than {partitions[0]}; delete "
            "results/partition and run again"
        )
        assert files_below(tmp_path) == before


def test_cut_part_is_refused(partitions: list[Path], tmp_path: Path) -> None:
    cut = tmp_path / "cut.rows"
    cut.write_bytes(partitions[0].read_bytes()[:-1])
    with pytest.raises(UmimillError, match=r"cut\.rows: its end is missing or damaged"):
        plan([partitions[1], cut], 2, tmp_path / "a.plan", new_meter("plan"))
    assert files_below(tmp_path) == ["cut.rows"]
