"""Rules of UMI-tools over a library: as on one table, whatever buckets and families."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle_refine
from link_fixture import write_model, write_tables
from umimill import plan
from umimill.blockfile import BlockFile, BlockWriter
from umimill.grouping import group_members, sample_members
from umimill.kernels.settle import DROPPED
from umimill.link import EDGE
from umimill.methods import METHODS
from umimill.metrics import Meter
from umimill.queries import ASK
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


def run_settle(tables: Any, folder: Path, table: Any, quality: Any, method: str) -> tuple[Any, Any]:
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
    settle(tables.plan_path, sources, model, Rule(method), output, Meter("settle", "L", 8000))
    with BlockFile(output) as file:
        return file.read("corrections"), file.read("arrivals")
