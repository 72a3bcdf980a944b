"""Cells: which rows a molecule has, where cells end, keys voted on as they are read."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle_refine_stages as naive
from kernel_cases import cases
from link_fixture import in_order, table_of
from move_fixture import Case, expected_molecules, make_case
from oracle_link import Family
from stage_fixture import key_text, new_meter
from umimill import cells, plan
from umimill.assemble import Settings, Sources, assemble
from umimill.blockfile import BlockFile
from umimill.cells import (
    MOLECULE,
    CellReader,
    Filter,
    cell_limits,
    check_rows,
    find_molecules,
    number_rows,
)
from umimill.consensus import make_model
from umimill.drafts import draft_strides
from umimill.errors import UmimillError
from umimill.fates import FATE, Settled, SettledTable
from umimill.kernels import molecules as kernels
from umimill.loading import RowLoader
from umimill.partition import HOT, PartitionFile, sorted_order
from umimill.route import read_routes


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leaf may be where a bucket ends."""
    monkeypatch.setattr(plan, "GROUP_ROWS", 0)


# -- where cells end -------------------------------------------------------------------------------


def test_cells_end_where_the_twin_says() -> None:
    rng = random.Random(1)
    gone = 0
    for _ in range(cases(300)):
        limit = rng.choice([1, 5, 10, 30])
        made, keys, starts, moved = [], [], [], []
        for number in range(rng.randrange(1, 30)):
            umi = key_text(number << 50, 8)
            size = rng.choice([1, 1, 2, 3])
            away = [rng.random() < 0.3 for _ in range(size)]
            reads = [rng.choice([1, 2, 4, 9, 40]) for _ in range(size)]
            begins = rng.random() < 0.2
            for own, left in zip(reads, away, strict=True):
                made.append(Family(0, "", umi, own, "A" * 32, (70,) * 8))
                moved.append(left)
            starts += [begins, *[False] * (size - 1)]
            own = sum(one for one, left in zip(reads, away, strict=True) if not left)
            keys.append((own, begins))
            gone += own == 0
        table, _ = table_of(made)
        fates = np.zeros(table.size, FATE)
        fates["reads"], fates["moved"] = [one.reads for one in made], moved
        ends = np.zeros(table.size + 1, np.int64)
        count = kernels.cut_cells(
            table, np.array(starts, np.uint8), fates, np.array([limit], np.int64), ends
        )
        bounds = [0, *ends[:count].tolist()]
        found = [len(set(table["key"][start:stop].tolist())) for start, stop in pairwise(bounds)]
        assert found == naive.cut_cells(keys, limit)
        assert bounds[-1] == table.size
    assert gone > 100


def test_limits_go_by_the_mean_read() -> None:
    rows, bases = np.array([10, 10, 0, 10]), np.array([1000, 10_000_000, 0, 2**20 // 100 * 10])
    assert cell_limits(rows, bases).tolist() == [8192, 16, 8192, 100]


# -- molecules of a cell ---------------------------------------------------------------------------


def test_molecules_are_listed_by_key_and_number() -> None:
    rng = random.Random(2)
    for _ in range(cases(60)):
        made = []
        for number in range(rng.randrange(1, 8)):
            for _ in range(rng.choice([1, 2, 5])):
                draft = "".join(rng.choices("ACGT", k=32))
                made.append(Family(0, "", key_text(number << 50, 8), rng.randrange(1, 4), draft,
                                   (70,) * 8))  # fmt: skip
        families = in_order(made)
        table, _ = table_of(families)
        fates = np.zeros(table.size, FATE)
        fates["moved"] = [rng.random() < 0.4 for _ in families]
        expected = []
        for umi in sorted({one.umi for one in families}):
            stayed = [
                row for row, one in enumerate(families)
                if one.umi == umi and not fates["moved"][row]
            ]  # fmt: skip
            rng.shuffle(stayed)
            for number, row in enumerate(stayed):
                fates[row]["number"], fates[row]["reads"] = number, rng.randrange(1, 99)
                fates[row]["status"] = rng.randrange(3)
                fates[row]["several"], fates[row]["families"] = rng.randrange(2), row + 1
                expected.append((int(table["key"][row]), number, row))
        molecules = np.zeros(table.size, MOLECULE)
        count = kernels.list_molecules(table, fates, molecules)
        assert count == len(expected)
        for molecule, (key, number, row) in zip(molecules[:count], expected, strict=True):
            assert (int(molecule["key"]), int(molecule["number"])) == (key, number)
            for name in ("reads", "families", "status", "several"):
                assert molecule[name] == fates[row][name]
            assert molecule["umi_length"] == 8
        assert kernels.first_unordered(molecules[:count]) == -1
        if count > 1:
            place = rng.randrange(count - 1)
            molecules[[place, place + 1]] = molecules[[place + 1, place]]
            assert kernels.first_unordered(molecules[:count]) in (place, place + 1)


def rows_of_counts(counts: list[int]) -> tuple[Any, Any, Any]:
    """Return HOT of one key, the numbers of its rows, and MOLECULE with these reads."""
    hot, molecules = np.zeros(sum(counts), HOT), np.zeros(len(counts), MOLECULE)
    molecules["reads"], molecules["number"] = counts, np.arange(len(counts))
    return hot, np.repeat(np.arange(len(counts)), counts), molecules


@pytest.mark.parametrize("fault", [None, "few", "many", "beyond", "exchanged"])
def test_rows_that_do_not_fit_are_found(fault: str | None) -> None:
    hot, numbers, molecules = rows_of_counts([3, 1, 2])
    if fault == "few":
        molecules["reads"][1] += 1
    elif fault == "many":
        molecules["reads"][1] -= 1
    elif fault == "beyond":
        numbers[0] = 3
    elif fault == "exchanged":
        molecules["reads"][:] = [2, 2, 2]
    found = kernels.order_rows(hot, np.arange(6), numbers, molecules, np.zeros(6, np.int64))
    assert found == (6 if fault is None else -1)
    if fault:
        with pytest.raises(UmimillError, match="a cell has -1 rows but 6 were counted"):
            check_rows(found, 6)


def read_cells(case: Case, bucket: int, batch_bytes: int = 1 << 30) -> list[cells.Cell]:
    """Return the cells of a bucket."""
    routes = read_routes(case.folder / "routes")
    paths = [*case.plan.partitions, *routes.outboxes[bucket]]
    parts = [PartitionFile(path) for path in paths]
    with SettledTable(case.tables[bucket], case.outputs(bucket).fates) as table:
        reader = CellReader(
            case.plan,
            bucket,
            table,
            RowLoader(parts, *case.plan.bucket_leaves(bucket)),
            make_model(1e-4),
            Filter(1),
            batch_bytes,
            np.zeros((2, 2), np.uint64),
        )
        found = list(reader.cells(new_meter("assemble")))
    for part in parts:
        part.close()
    return found


@pytest.mark.parametrize("buckets", [1, 4])
@pytest.mark.parametrize("small", [False, True])
def test_rows_come_to_their_molecules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buckets: int, small: bool
) -> None:
    if small:
        monkeypatch.setattr(cells, "CELL_READS", 20)
        monkeypatch.setattr("umimill.fates.READ_FAMILIES", 3)
    case = make_case(tmp_path, 1, buckets=buckets)
    case.route(case.move())
    strides = draft_strides(case.plan.rows, case.plan.bases)
    found: dict[tuple[int, str, str, int], set[tuple[int, int]]] = {}
    sizes = []
    for bucket in range(buckets):
        for cell in read_cells(case, bucket):
            hot = cell.batch.hot
            order = sorted_order(hot, hot.size)
            numbers, _ = number_rows(cell.settled, cell.batch, order, cell.given, strides)
            molecules = find_molecules(cell.settled, Filter(1))
            ordered = np.empty(hot.size, np.int64)
            count = kernels.order_rows(hot, order, numbers, molecules, ordered)
            check_rows(count, int(molecules["reads"].sum()))
            assert len({int(one) for one in molecules["sample"]}) == 1
            sizes.append(count)
            for one in molecules:
                length = int(one["cell_length"])
                text = key_text(int(one["key"]), length + int(one["umi_length"]))
                own = ordered[int(one["first"]) : int(one["first"]) + int(one["reads"])]
                place = (int(one["sample"]), text[:length], text[length:], int(one["number"]))
                found[place] = set(
                    zip(hot["unit"][own].tolist(), hot["record"][own].tolist(), strict=True)
                )
                assert one["length_1"] == hot["length_1"][own].max()
                assert one["length_2"] == hot["length_2"][own].max()
    assert found == expected_molecules(case)
    assert sum(sizes) == len(case.rows)
    assert any(number > 0 for *_, number in found)
    assert not small or len(sizes) > 5


def run_assemble(case: Case, name: str, batch_bytes: int | None, threads: int) -> list[bytes]:
    """Return what assemble writes."""
    found = []
    for bucket in range(len(case.tables)):
        outputs = [case.folder / f"{name}.{bucket}.{kind}" for kind in ("1", "2", "molecules")]
        assemble(
            case.plan_path,
            Sources(case.tables[bucket], case.outputs(bucket).fates, case.folder / "routes"),
            bucket,
            Settings(Filter(2), 1e-4, 2),
            outputs[:2],
            outputs[2],
            new_meter("assemble", threads),
            batch_bytes=batch_bytes,
        )
        with BlockFile(outputs[2]) as file:
            found.append(file.read("molecules").tobytes())
        found += [path.read_bytes() for path in outputs[:2]]
    return found


@pytest.mark.parametrize("paired", [False, True])
def test_a_hot_key_is_streamed_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paired: bool
) -> None:
    # Each key that reaches 40 rows has a cell of its own.
    monkeypatch.setattr(cells, "CELL_READS", 40)
    monkeypatch.setattr("umimill.loading.READ_ROWS", 50)
    monkeypatch.setattr("umimill.loading.LEAST_READ_ROWS", 50)
    case = make_case(tmp_path, 8, rows=220, hot=120, paired=paired, corrected=0.4)
    case.route(case.move())
    singles = [cell.single for cell in read_cells(case, 0, 1) if cell.single]
    assert max(len(one.molecules) for one in singles) > 1
    assert max(int(one.molecules["reads"].max()) for one in singles) > 60
    resident = run_assemble(case, "resident", None, 1)
    assert run_assemble(case, "streamed", 1, 1) == resident
    assert run_assemble(case, "threads", 1, 3) == resident
    assert min(len(one) for one in resident[:2]) > 1000


def test_suspects_have_no_record_unless_wanted() -> None:
    one = Family(0, "", "ACGTACGT", 3, "A" * 32, (70,) * 8)
    table, _ = table_of(in_order([one] * 4))
    fates = np.zeros(4, FATE)
    fates["number"], fates["reads"], fates["status"] = range(4), [5, 1, 5, 1], [0, 0, 1, 2]
    settled = Settled(table, fates)
    assert find_molecules(settled, Filter(2))["kept"].tolist() == [1, 0, 0, 0]
    assert find_molecules(settled, Filter(1)).size == 4
    assert find_molecules(settled, Filter(2, suspects=True))["kept"].tolist() == [1, 0, 1, 0]
