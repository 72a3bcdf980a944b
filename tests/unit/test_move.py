"""move and route: rows of corrected families, and no others, come out under their root's key."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle
import oracle_refine_stages as naive
from link_fixture import buckets_of
from move_fixture import Case, make_case, template_of, write_settled
from row_fixture import BARCODE_WIDTH, met_levels, row_hash
from stage_fixture import Row, new_meter, partition_rows
from umimill import plan
from umimill.blockfile import BlockFile, BlockWriter
from umimill.errors import UmimillError
from umimill.move import move
from umimill.partial import PARTIAL
from umimill.partition import PartitionFile
from umimill.queries import ANSWER
from umimill.route import read_routes

PHREDS = tuple(range(2, 41))


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leaf may be where a bucket ends."""
    monkeypatch.setattr(plan, "GROUP_ROWS", 0)


def moved_row(row: Row, case: Case) -> tuple[Row, int, int] | None:
    """Return how a row leaves, its first key and the number of its new family."""
    sample, barcode, cell, flags, unit, record, _, mates = row
    root = case.roots.get(case.family_of[unit, record])
    if root is None:
        return None
    new, qualities = naive.moved_barcode(template_of(row), root)
    padded = bytes([*qualities, *[0] * (BARCODE_WIDTH - len(qualities))])
    moved = (sample, new, cell, flags, unit, record, padded, mates)
    return moved, oracle.key_of(barcode), root[3]


def outbox_rows(paths: list[Path]) -> Counter[Any]:
    """Return the rows of outboxes as `moved_row` has them."""
    found: Counter[Any] = Counter()
    for path in paths:
        flushes = partition_rows(path)
        with PartitionFile(path) as part:
            assert part.is_outbox
            for number, rows in enumerate(flushes):
                moved = part.read_moved(number, 0, len(rows))
                for row, one in zip(rows, moved.tolist(), strict=True):
                    found[row, one[0], one[1]] += 1
    return found


def sums_of(rows: list[tuple[Row, list[int]]]) -> list[int]:
    """Return the sums of hashes by sample."""
    sums = [0, 0]
    for row, levels in rows:
        sums[row[0]] = (sums[row[0]] + row_hash(row, levels)) % 2**64
    return sums


@pytest.mark.parametrize("levels", [(2, 11, 25, 37), (30,), PHREDS])
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(("buckets", "staging"), [(1, None), (1, 1), (5, 1)])
def test_rows_of_corrected_families_leave(
    tmp_path: Path, levels: tuple[int, ...], paired: bool, buckets: int, staging: int | None
) -> None:
    case = make_case(tmp_path, 1, buckets=buckets, levels=levels, paired=paired)
    expected = Counter(left for row in case.rows if (left := moved_row(row, case)))
    outboxes = case.move(staging_bytes=staging)
    found = outbox_rows(outboxes)
    assert found == expected
    assert sum(found.values()) > 100
    zeros = sum(row[6][:4].count(0) for row, _, _ in found)
    assert zeros > 50
    assert any("N" in bases for row, _, _ in found for bases, _ in row[7])
    # Hashes as the rows lie in the partition files, and as they lie here.
    read = [
        (row, met_levels(flush))
        for flush in case.flushes
        for row in flush
        if case.family_of[row[4], row[5]] in case.roots
    ]
    written = [
        (row, met_levels(flush)) for path in outboxes for flush in partition_rows(path)
        for row in flush
    ]  # fmt: skip
    routes = read_routes(case.route(outboxes))
    assert routes.read_hash_sums.tolist() == sums_of(read)
    assert routes.written_hash_sums.tolist() == sums_of(written)
    assert len(routes.outboxes) == buckets
    if staging is not None:
        assert any(len(partition_rows(path)) > 1 for path in outboxes) == (buckets == 1)


def test_staging_moves_nothing(tmp_path: Path) -> None:
    case = make_case(tmp_path, 2, rows=400, paired=True, levels=PHREDS)
    paths = [case.move(name=str(size), staging_bytes=size) for size in (1, 100_000, 10_000_000)]
    assert len({len(partition_rows(one[0])) for one in paths}) > 1
    rows = [outbox_rows(one) for one in paths]
    assert rows[0] == rows[1] == rows[2]
    fates = [case.outputs(0, str(size)).fates.read_bytes() for size in (1, 100_000, 10_000_000)]
    assert fates[0] == fates[1] == fates[2]


def test_without_corrections_nothing_is_read(tmp_path: Path) -> None:
    case = make_case(tmp_path, 3, corrected=0.0)
    meter = new_meter("move")
    move(case.plan_path, case.sources(0), 0, case.outputs(0), meter, judge=False)
    assert meter.read_bytes == meter.counters["moved_rows"] == 0
    assert outbox_rows([case.outputs(0).outbox]) == Counter()
    assert read_routes(case.route([case.outputs(0).outbox])).outboxes == ((),)


def test_counts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    case = make_case(tmp_path, 4, buckets=3)
    child = max(case.roots, key=lambda one: case.reads[one])
    reads = {**case.reads, child: case.reads[child] + 1}
    outboxes = case.move()
    write_settled(case.settled, case.plan, reads, case.roots)
    with pytest.raises(UmimillError, match=r"[\d,]+ rows were moved but [\d,]+ reads corrected"):
        case.move()
    with pytest.raises(UmimillError, match=r"corrected reads are due, but [\d,]+ were moved"):
        case.route(outboxes)


def test_rows_without_a_family_are_refused(tmp_path: Path) -> None:
    case = make_case(tmp_path, 5, corrected=0.15)
    busy = {one[:3] for one in (*case.roots, *case.roots.values())}
    sample, cell, umi = next(key for key in sorted({one[:3] for one in case.reads} - busy))
    with BlockFile(case.tables[0]) as file:
        families, quality = file.read("families"), file.read("quality")
    gone = (families["sample"] == sample) & (families["umi_length"] == len(umi))
    gone &= families["key"] == oracle.key_of(cell + umi)
    with BlockWriter(case.tables[0]) as writer:
        writer.add("families", families[~gone])
        writer.add("quality", quality[~gone])
        writer.add("partials", np.zeros(0, PARTIAL))
        writer.finish({})
    with pytest.raises(UmimillError, match="a row belongs to no family"):
        case.move()


def test_routes_name_the_outboxes_with_rows_for_a_bucket(tmp_path: Path) -> None:
    case = make_case(tmp_path, 6, buckets=5)
    outboxes = case.move()
    routes = read_routes(case.route(outboxes))
    for bucket, found in enumerate(routes.outboxes):
        wanted = []
        for path in outboxes:
            rows = [row for flush in partition_rows(path) for row in flush]
            keys = np.array([oracle.key_of(row[1]) for row in rows], np.uint64)
            samples = np.array([row[0] for row in rows], np.uint16)
            if (buckets_of(case.plan, samples, keys) == bucket).any():
                wanted.append(path)
        assert list(found) == wanted
    assert sum(len(found) for found in routes.outboxes) > 5


def test_fates_hold_the_better_of_edges_and_answers(tmp_path: Path) -> None:
    case = make_case(tmp_path, 7)
    with BlockFile(case.settled) as file:
        kinds = ("correction", "arrival", "place", "placing")
        names = [f"{kind}{ending}" for kind in kinds for ending in ("s", "_bounds")]
        arrays = {name: file.read(name) for name in names}
    answers = np.zeros(1, ANSWER)
    answers["row"], answers["score"], answers["parent_key"] = 3, 77, 1 << 40
    with BlockWriter(case.settled) as writer:
        for name, array in arrays.items():
            writer.add(name, array)
        writer.add("answers", answers)
        writer.add("answer_bounds", np.array([0, 1], np.int64))
        writer.finish({})
    case.move()
    with BlockFile(case.outputs(0).fates) as file:
        edges, fates = file.read("edges"), file.read("fates")
    assert edges["score"].tolist() == [0, 0, 0, 77, *[0] * (edges.size - 4)]
    assert edges["parent_key"][3] == 1 << 40
    with BlockFile(case.tables[0]) as file:
        assert fates.size == file.length("families")
    assert int(fates["reads"][fates["moved"] == 0].sum()) == len(case.rows)
    assert int(fates["moved"].sum()) == len(case.roots)
