import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from link_fixture import Tables, buckets_of, write_model, write_tables
from umimill import pieces, plan
from umimill.asks import ASK
from umimill.blockfile import BlockFile, BlockWriter
from umimill.errors import UmimillError
from umimill.link import EDGE
from umimill.metrics import Meter
from umimill.settle import Rule, Sources, make_rule, settle
from umimill.tally import FAMILY

LENGTH = 8
NONE = -(1 << 31)

Identity = tuple[int, int, int]


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leaf may be where a bucket ends."""
    monkeypatch.setattr(plan, "GROUP_ROWS", 0)


def random_table(rng: np.random.Generator, samples: int, families: int) -> Any:
    table = np.zeros(families, FAMILY)
    table["key"] = rng.integers(0, 4**LENGTH, families, np.uint64) << np.uint64(64 - 2 * LENGTH)
    table["sample"] = rng.integers(0, samples, families)
    table["reads"] = rng.integers(1, 6, families)
    table["umi_length"] = LENGTH
    table = table[np.lexsort((table["key"], table["sample"]))]
    same = (table["key"][1:] == table["key"][:-1]) & (table["sample"][1:] == table["sample"][:-1])
    for row in np.flatnonzero(same) + 1:
        table["family"][row] = table["family"][row - 1] + 1
    return table


def identity(row: Any, key: str = "key", family: str = "family") -> Identity:
    return int(row["sample"]), int(row[key]), int(row[family])


def random_edges(rng: np.random.Generator, table: Any) -> Any:
    """Give half of the families a parent that ranks above them, of any key of the sample."""
    edges = np.zeros(table.size, EDGE)
    edges["score"] = NONE
    rank = rng.permutation(table.size)
    for row in range(table.size):
        above = np.flatnonzero((table["sample"] == table["sample"][row]) & (rank < rank[row]))
        if above.size and rng.random() < 0.6:
            # The next above: long chains.
            parent = above[np.argmax(rank[above])] if rng.random() < 0.5 else rng.choice(above)
            edges[row]["parent_key"] = table["key"][parent]
            edges[row]["parent_family"] = table["family"][parent]
            edges[row]["parent_reads"] = table["reads"][parent]
            edges[row]["score"] = rng.integers(-2000, 6000)
    return edges


def expected_roots(table: Any, edges: Any, threshold: int) -> dict[Identity, Identity]:
    parents = {
        identity(row): (int(row["sample"]), int(edge["parent_key"]), int(edge["parent_family"]))
        for row, edge in zip(table, edges, strict=True)
        if edge["score"] >= threshold
    }
    roots = {}
    for child, parent in parents.items():
        while parent in parents:
            parent = parents[parent]
        roots[child] = parent
    return roots


def write_links(tables: Tables, edges: Any, folder: Path) -> Sources:
    paths, queries, start = [], [], 0
    for number, path in enumerate(tables.paths):
        with BlockFile(path) as file:
            count = file.length("families")
        paths.append(folder / f"{number}.edges")
        with BlockWriter(paths[-1]) as writer:
            writer.add("edges", edges[start : start + count])
            writer.finish({})
        start += count
        queries.append(folder / f"{number}.queries")
        with BlockWriter(queries[-1]) as writer:
            writer.add("asks", np.empty(0, ASK))
            writer.finish({})
    return Sources(tables.paths, paths, queries)


def run_settle(
    folder: Path, table: Any, edges: Any, buckets: int, rule: Rule, room: int | None
) -> tuple[Tables, dict[str, Any], Meter]:
    quality = np.zeros((table.size, 32), np.uint8)
    tables = write_tables(folder, table, quality, [2, 2, 2], buckets)
    sources = write_links(tables, edges, folder)
    write_model(tables.plan_path, table, quality, folder / "model")
    meter = Meter("settle", "L1", 8000)
    output = folder / "settled"
    settle(
        tables.plan_path,
        sources,
        folder / "model",
        rule,
        output,
        meter,
        table_bytes=room,
    )
    names = ("corrections", "arrivals", "correction_bounds", "arrival_bounds")
    with BlockFile(output) as file:
        return tables, {name: file.read(name) for name in names}, meter


def crossings(tables: Tables, table: Any, edges: Any, threshold: int) -> int:
    """Count children whose parent lies in another bucket and is itself a child."""
    accepted = edges["score"] >= threshold
    child = buckets_of(tables.plan, table["sample"], table["key"])
    parent = buckets_of(tables.plan, table["sample"], edges["parent_key"])
    children = {identity(row) for row in table[accepted]}
    found = 0
    for row in np.flatnonzero(accepted & (child != parent)):
        found += (
            int(table["sample"][row]),
            int(edges["parent_key"][row]),
            int(edges["parent_family"][row]),
        ) in children
    return found


@pytest.mark.parametrize(("room", "least"), [(None, 256), (1, 256), (1, 1), (1, 30), (3000, 1)])
@pytest.mark.parametrize("buckets", [1, 2, 5, 16])
def test_every_child_gets_the_root_of_its_chain(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    buckets: int,
    room: int | None,
    least: int,
) -> None:
    monkeypatch.setattr(pieces, "LEAST_ROWS", least)
    rng = np.random.default_rng(buckets)
    for trial in range(3):
        table = random_table(rng, 3, 400)
        edges = random_edges(rng, table)
        threshold = 1000
        tables, found, meter = run_settle(
            tmp_path / str(trial), table, edges, buckets, Rule("posterior", threshold), room
        )
        assert buckets == 1 or crossings(tables, table, edges, threshold) > 2
        roots = expected_roots(table, edges, threshold)
        assert len(roots) > 50
        corrections = found["corrections"]
        assert {
            identity(row): identity(row, "root_key", "root_family") for row in corrections
        } == roots
        held = {identity(row): int(row["reads"]) for row in table}
        assert all(int(row["reads"]) == held[identity(row)] for row in corrections)
        reads, families = Counter[Identity](), Counter[Identity]()
        for child, root in roots.items():
            reads[root] += held[child]
            families[root] += 1
        arrivals = found["arrivals"]
        assert {identity(row): int(row["reads"]) for row in arrivals} == reads
        assert {identity(row): int(row["families"]) for row in arrivals} == families
        for name in ("corrections", "arrivals"):
            order = [identity(row) for row in found[name]]
            assert order == sorted(order)
            bounds = found[name[:-1] + "_bounds"]
            place = np.searchsorted(bounds[1:], np.arange(len(order)), side="right")
            own = buckets_of(tables.plan, found[name]["sample"], found[name]["key"])
            assert place.tolist() == own.tolist()
        assert meter.counters["pieces"] > (150 if least == 1 else 0)
        assert (meter.umi_spill_bytes > 0) == (room is not None)
        assert meter.umi_read_back_bytes >= meter.umi_spill_bytes
        assert meter.umi_memory_bytes > 0
        total = Counter[str]()
        for entry in meter.ledger:
            total[entry["line"]] += entry["templates"]
        assert total["corrected"] == sum(held[child] for child in roots)


def test_memory_does_not_grow_with_the_library(tmp_path: Path) -> None:
    """One bucket, far beyond the budget: 32 B a correction would not be held."""
    peaks = []
    for families in (300, 8000, 24_000):
        rng = np.random.default_rng(1)
        table = random_table(rng, 1, families)
        edges = np.zeros(table.size, EDGE)
        edges["score"] = NONE
        # Half of them have a parent, the first of all or any that is none itself.
        children = rng.choice(table.size, table.size // 2, replace=False)
        others = np.setdiff1d(np.arange(table.size), children)
        parents = np.where(rng.random(children.size) < 0.3, others[0], rng.choice(others))
        edges["parent_key"][children] = table["key"][parents]
        edges["parent_family"][children] = table["family"][parents]
        edges["score"][children] = 5000
        folder = tmp_path / str(families)
        quality = np.zeros((table.size, 32), np.uint8)
        tables = write_tables(folder, table, quality, [2], 1)
        sources = write_links(tables, edges, folder)
        write_model(tables.plan_path, table[:1000], quality, folder / "model")
        output = folder / "settled"
        meter = Meter("settle", "L1", 8000)
        rule = Rule("posterior", 1000)
        tracemalloc.start()
        settle(
            tables.plan_path, sources, folder / "model", rule, output, meter, table_bytes=100_000
        )
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        with BlockFile(output) as file:
            assert file.length("corrections") == table.size // 2
            assert file.read("arrivals")["families"].sum() == table.size // 2
        assert (meter.umi_spill_bytes > 0) == (families > 300)
        assert meter.umi_memory_bytes < 150_000
    # 8,000 corrections more.
    assert peaks[2] - peaks[1] < 8000 * 32 // 4


def test_no_method_no_corrections(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = random_table(rng, 3, 100)
    _, found, _ = run_settle(tmp_path, table, random_edges(rng, table), 2, Rule("unique"), None)
    assert found["corrections"].size == found["arrivals"].size == 0


def test_the_threshold_is_the_log_odds_of_the_posterior() -> None:
    assert make_rule("posterior", 0.95).least_score == int(np.ceil(1024 * np.log(19)))
    assert make_rule("posterior", 0.5001) == Rule("posterior", 1)


def test_tables_and_edges_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = random_table(rng, 3, 100)
    edges = random_edges(rng, table)
    quality = np.zeros((100, 32), np.uint8)
    tables = write_tables(tmp_path, table, quality, [2, 2, 2], 1)
    model = tmp_path / "model"
    write_model(tables.plan_path, table, quality, model)
    sources = write_links(tables, edges, tmp_path)
    with BlockWriter(sources.edges[0]) as writer:
        writer.add("edges", edges[:-1])
        writer.finish({})
    meter = Meter("settle", "L", 1000)
    with pytest.raises(UmimillError, match="100 families but 99 edges"):
        settle(tables.plan_path, sources, model, Rule("posterior", 1000), tmp_path / "out", meter)
