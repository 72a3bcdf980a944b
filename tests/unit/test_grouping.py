"""Rules of UMI-tools over a library: as on one table, whatever buckets and families."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle_refine
from link_fixture import write_model, write_tables
from umimill import plan
from umimill.asks import ASK
from umimill.blockfile import BlockFile, BlockWriter
from umimill.errors import UmimillError
from umimill.grouping import MEMBER, MEMBER_BYTES, group_members, sample_members
from umimill.kernels.settle import DROPPED
from umimill.link import EDGE
from umimill.methods import METHODS
from umimill.metrics import Meter
from umimill.neighbours import BATCH_PAIRS
from umimill.settle import Rule, Sources, settle
from umimill.tally import FAMILY

LENGTH = 5


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leaf may be where a bucket ends."""
    monkeypatch.setattr(plan, "GROUP_ROWS", 0)


def crowded_table(rng: np.random.Generator, samples: int, cell: int) -> Any:
    """A table of short barcodes of which many are neighbours, some with several families."""
    rows = []
    for sample in range(samples):
        keys = rng.choice(4 ** (LENGTH + cell), 150 if not cell else 600, replace=False)
        for key in np.sort(keys).tolist():
            for family in range(rng.integers(1, 3)):
                rows.append((key << (64 - 2 * (LENGTH + cell)), sample, family))
    table = np.zeros(len(rows), FAMILY)
    table["key"], table["sample"], table["family"] = zip(*rows, strict=True)
    # Medians above 100, so that single reads are less than 1% of them.
    many = 40 * rng.geometric(0.2, table.size) ** 2
    table["reads"] = np.where(rng.random(table.size) < 0.2, rng.integers(1, 3, table.size), many)
    table["umi_length"], table["cell_length"] = LENGTH, cell
    return table


def letters(key: int) -> str:
    """Return the bases of a packed barcode, those behind its end too."""
    return "".join("ACGT"[(key >> (62 - 2 * position)) & 3] for position in range(32))


def expected_leaders(table: Any, method: str) -> dict[tuple[int, int], int | None]:
    """Group the barcodes of each sample and cell by the oracle; {(sample, key): leader or None}."""
    cell = int(table["cell_length"][0])
    groups: dict[tuple[int, str], dict[str, int]] = {}
    keys: dict[tuple[int, str, str], int] = {}
    for row in table:
        text, sample = letters(int(row["key"])), int(row["sample"])
        umi = text[cell : cell + LENGTH]
        held = groups.setdefault((sample, text[:cell]), {})
        held[umi] = held.get(umi, 0) + int(row["reads"])
        keys[sample, text[:cell], umi] = int(row["key"])
    leaders: dict[tuple[int, int], int | None] = {
        (sample, key): None for (sample, _, _), key in keys.items()
    }
    for (sample, name), counts in groups.items():
        order = sorted(counts, key=lambda umi: (-counts[umi], umi))
        for group in oracle_refine.umi_groups(method, counts, order):
            for umi in group:
                leaders[sample, keys[sample, name, umi]] = keys[sample, name, group[0]]
    return leaders


@pytest.mark.parametrize("cell", [0, 2])
@pytest.mark.parametrize("method", METHODS)
def test_groups_are_those_of_the_rule(tmp_path: Path, method: str, cell: int) -> None:
    table = crowded_table(np.random.default_rng(cell), 3, cell)
    leaders = expected_leaders(table, method)
    quality = np.zeros((table.size, 16), np.uint8)
    for buckets in (1, 7):
        tables = write_tables(tmp_path / str(buckets), table, quality, [2, 2, 2], buckets)
        seen = 0
        for members in sample_members(tables.paths):
            found = group_members(members, method)
            for member, leader in zip(members, found.tolist(), strict=True):
                expected = leaders[int(member["sample"]), int(member["key"])]
                assert (leader < 0) == (expected is None)
                if expected is not None:
                    assert int(members["key"][leader]) == expected
                    assert members["family"][leader] == 0
                seen += 1
        assert seen == table.size
    together = sum(leader not in (None, key) for (_, key), leader in leaders.items())
    assert (together > 20) == (method not in ("unique", "percentile"))


def test_settle_moves_all_families_of_a_group(tmp_path: Path) -> None:
    table = crowded_table(np.random.default_rng(1), 2, 0)
    leaders = expected_leaders(table, "percentile")
    assert None in leaders.values()
    for method in ("directional", "percentile"):
        leaders = expected_leaders(table, method)
        folder = tmp_path / method
        quality = np.zeros((table.size, 16), np.uint8)
        tables = write_tables(folder, table, quality, [2, 2], 3)
        corrections, arrivals = run_settle(tables, folder, table, quality, method)
        roots = {
            (int(row["sample"]), int(row["key"]), int(row["family"])): row for row in corrections
        }
        for row in table:
            place = int(row["sample"]), int(row["key"]), int(row["family"])
            leader = leaders[place[:2]]
            if leader == place[1] and place[2] == 0:
                assert place not in roots
            elif leader is None:
                assert roots[place]["root_family"] == DROPPED
            else:
                assert int(roots[place]["root_key"]) == leader
                assert roots[place]["root_family"] == 0
        kept = corrections["root_family"] != DROPPED
        assert arrivals["reads"].sum() == corrections["reads"][kept].sum()


class SmallMeter(Meter):
    """The metrics of a job that has so many bytes beside its baseline."""

    bytes_left = 10**9

    @property
    def budget_bytes(self) -> int:
        return self.bytes_left


def run_settle(
    tables: Any, folder: Path, table: Any, quality: Any, method: str, budget: int = 10**9
) -> tuple[Any, Any]:
    """Settle families, whose edges say nothing; return corrections and arrivals."""
    links = []
    for path in tables.paths:
        with BlockFile(path) as file:
            edges = np.zeros(file.length("families"), EDGE)
        links.append((path.with_suffix(".edges"), path.with_suffix(".queries")))
        for output, name, array in zip(
            links[-1], ("edges", "asks"), (edges, np.empty(0, ASK)), strict=True
        ):
            with BlockWriter(output) as writer:
                writer.add(name, array)
                writer.finish({})
    model = folder / "model"
    write_model(tables.plan_path, table, quality, model)
    sources = Sources(tables.paths, *zip(*links, strict=True))
    output = folder / "settled"
    meter = SmallMeter("settle", "L", 8000)
    meter.bytes_left = budget
    settle(tables.plan_path, sources, model, Rule(method), output, meter)
    with BlockFile(output) as file:
        return file.read("corrections"), file.read("arrivals")


def all_barcodes(length: int) -> Any:
    """All barcodes of a length, one family each: all are connected."""
    members = np.zeros(4**length, MEMBER)
    members["key"] = np.arange(4**length, dtype=np.uint64) << np.uint64(64 - 2 * length)
    members["reads"] = np.random.default_rng(1).integers(1, 100, members.size)
    members["umi_length"] = length
    return members


@pytest.mark.parametrize("method", METHODS)
def test_memory_of_a_sample(method: str) -> None:
    """What a sample is refused for is what it takes, not much less and no more."""
    members = all_barcodes(8)
    group_members(members[:9], method)  # compiles
    tracemalloc.start()
    try:
        leaders = group_members(members, method)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert leaders.size == members.size
    # Besides a batch of pairs, and the last of the pass before.
    assert peak + members.nbytes < MEMBER_BYTES * members.size + 33 * BATCH_PAIRS
    assert peak + members.nbytes > MEMBER_BYTES * members.size / 2


def test_a_sample_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    table = crowded_table(np.random.default_rng(1), 3, 0)
    quality = np.zeros((table.size, 16), np.uint8)
    most = int(np.bincount(table["sample"]).max())
    for buckets in (1, 7):
        tables = write_tables(tmp_path / str(buckets), table, quality, [2, 2, 2], buckets)
        fits = list(sample_members(tables.paths, most * MEMBER_BYTES))
        assert sum(members.size for members in fits) == table.size
        with pytest.raises(UmimillError, match=r"settle: a sample has .* families .* mem_mb"):
            list(sample_members(tables.paths, most * MEMBER_BYTES - 1))


def test_settle_says_how_much_memory_a_rule_needs(tmp_path: Path) -> None:
    """`posterior` and `unique` hold no sample: they need no more memory for more families."""
    table = crowded_table(np.random.default_rng(1), 2, 0)
    quality = np.zeros((table.size, 16), np.uint8)
    tables = write_tables(tmp_path, table, quality, [2, 2], 3)
    budgets = (MEMBER_BYTES * 100, 10 * MEMBER_BYTES * table.size)
    for method, budget in (("cluster", 1), ("unique", 0), ("posterior", 0)):
        run_settle(tables, tmp_path, table, quality, method, budgets[budget])
    with pytest.raises(UmimillError, match=r"rules of UMI-tools .* the job has 0 MB"):
        run_settle(tables, tmp_path, table, quality, "cluster", budgets[0])
    assert not list(tmp_path.glob("settled*.tmp"))
