"""link: the best parent of each family is that of the oracle, whatever buckets and memory."""

import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import link_fixture as fixture
import oracle_link
from link_fixture import family
from oracle_link import Family
from stage_fixture import files_below
from umimill import family_blocks, plan
from umimill import link as stage
from umimill.blockfile import BlockFile
from umimill.errors import UmimillError
from umimill.family_blocks import KEY_BYTES
from umimill.layout import leaf_width
from umimill.link import EDGE, LINK_BYTES, Outputs, link
from umimill.metrics import Meter
from umimill.tally import FAMILY

WIDTHS = (4, 3, 4)
# Nothing fits; some fifty families; all.
BUDGETS = (1, 6000, None)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leaf may be where a bucket ends; tables are read in pieces of a few families."""
    monkeypatch.setattr(plan, "GROUP_ROWS", 0)
    monkeypatch.setattr(family_blocks, "PIECE_ROWS", 23)
    monkeypatch.setattr(family_blocks, "PAGE_ROWS", 8)
    monkeypatch.setattr(family_blocks, "OPEN_FILES", 2)


class Case:
    """Families in order, their table and model, and what the oracle says of them."""

    def __init__(self, families: Sequence[Family], widths: Sequence[int], folder: Path) -> None:
        self.families = families
        self.widths = widths
        self.table, self.quality = fixture.table_of(families)
        plan_path = self.write(folder / "one", 1).plan_path
        self.model_path = folder / "model"
        model = fixture.write_model(plan_path, self.table, self.quality, self.model_path)

        def score(child: int, parent: int, position: int) -> tuple[int, int, int, int]:
            found = fixture.score(self.table, self.quality, child, parent, position, model)
            return tuple(map(int, found))

        self.linked = oracle_link.link(families, score)
        self.expected = fixture.expected_edges(self.linked, families)

    def write(self, folder: Path, buckets: int) -> fixture.Tables:
        """Write the tables of so many buckets."""
        return fixture.write_tables(folder, self.table, self.quality, self.widths, buckets)

    def run(
        self, folder: Path, buckets: int, block_bytes: int | None
    ) -> tuple[list[tuple[int, ...]], dict[str, int]]:
        """Link the families in buckets; return edges and counters."""
        tables = self.write(folder, buckets)
        edges, counters = fixture.run_link(tables, self.model_path, block_bytes=block_bytes)
        return edges.tolist(), counters

    def link(self, tables: fixture.Tables, bucket: int, block_bytes: int | None = None) -> Meter:
        """Link one bucket."""
        meter = Meter("link", "L", 8000)
        output = fixture.edges_path(tables, bucket)
        link(
            tables.plan_path,
            tables.paths,
            bucket,
            self.model_path,
            Outputs(output, output.with_suffix(".queries")),
            meter,
            block_bytes=block_bytes,
        )
        return meter

    def check(self, folder: Path, buckets: int, block_bytes: int | None) -> dict[str, int]:
        """Link the families in buckets, compare with the oracle, return the counters."""
        edges, counters = self.run(folder, buckets, block_bytes)
        assert edges == self.expected
        assert counters["scored"] == self.linked.scored, "each pair once"
        assert counters["families"] == len(edges)
        assert counters["linked"] == sum(edge.parent is not None for edge in self.linked.edges)
        assert counters["keys"] == len(oracle_link.keys_of(self.families))
        # A pair inside a block is met once, one of two blocks from both.
        met = 2 * counters["pairs"] + counters["sibling_pairs"]
        assert met == len(oracle_link.neighbour_keys(self.families))
        return counters


def mixed_families(seed: int) -> list[Family]:
    """Three samples: one length; three lengths, one with cells; cells longer than a leaf."""
    rng = np.random.default_rng(seed)
    made = [
        *fixture.random_families(rng, 0, (0, 12), 60, 4),
        *fixture.random_families(rng, 1, (0, 6), 40, 3),
        *fixture.random_families(rng, 1, (2, 5), 40, 3),
        *fixture.random_families(rng, 1, (0, 9), 30, 3),
        *fixture.random_families(rng, 2, (6, 5), 30, 4),
        *fixture.random_families(rng, 2, (2, 10), 20, 4),
    ]
    return fixture.in_order(made)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(mixed_families(1), WIDTHS, tmp_path_factory.mktemp("mixed"))


def test_the_case_holds_what_it_should(mixed: Case) -> None:
    """Early errors, chains, families of one key, ties, parents on both sides of a leaf's end."""
    linked = mixed.linked
    held = [edge for edge in linked.edges if edge.parent is not None]
    early = sum(edge.position < 4 for edge in held)
    assert 0.2 < early / len(held) < 0.6
    assert sum(linked.edges[edge.parent].parent is not None for edge in held) > 50  # chains
    assert max(len(rows) for rows in oracle_link.keys_of(mixed.families).values()) > 3
    assert linked.ties > 10
    assert linked.two_sided > 20


@pytest.mark.parametrize("buckets", [1, 2, 5, 16])
@pytest.mark.parametrize("block_bytes", BUDGETS)
def test_best_parents_are_the_oracle_s(
    mixed: Case, tmp_path: Path, buckets: int, block_bytes: int | None
) -> None:
    counters = mixed.check(tmp_path, buckets, block_bytes)
    if buckets > 1 or block_bytes is not None:
        assert counters["sibling_pairs"] > 50
    else:
        assert counters["sibling_pairs"] == 0
        assert counters["blocks"] == 3
    # Of blocks of one key, no pair is inside.
    assert (counters["pairs"] > 0) == (block_bytes != 1)


def test_files_are_the_same_bytes_whatever_the_memory(mixed: Case, tmp_path: Path) -> None:
    tables = mixed.write(tmp_path, 3)
    paths = [fixture.edges_path(tables, bucket) for bucket in range(3)]
    written = []
    for block_bytes in (None, 700, 20_000):
        fixture.run_link(tables, mixed.model_path, block_bytes=block_bytes)
        written.append([path.read_bytes() for path in paths])
    assert all(one == written[0] for one in written)
    with BlockFile(paths[1]) as file:
        assert file.header == {"bucket": 1}
        assert file.read("edges").dtype == EDGE
    assert EDGE.itemsize == 32


@pytest.mark.parametrize("buckets", [2, 16])
def test_without_siblings_parents_are_missed(
    mixed: Case, tmp_path: Path, buckets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison above does fail when a pass is left out."""
    monkeypatch.setattr(stage._Linker, "_link_beside", lambda *arguments: None)
    edges, counters = mixed.run(tmp_path, buckets, None)
    assert edges != mixed.expected
    wrong = [new for new, old in zip(edges, mixed.expected, strict=True) if new != old]
    assert len(wrong) > 20
    assert counters["scored"] < mixed.linked.scored


def test_parents_come_from_other_tables(mixed: Case, tmp_path: Path) -> None:
    tables = mixed.write(tmp_path, 4)
    nothing = fixture.write_tables(tmp_path / "none", mixed.table[:0], mixed.quality[:0], WIDTHS, 4)
    for bucket in range(4):
        mixed.link(tables, bucket)
        path = fixture.edges_path(tables, bucket)
        with BlockFile(path) as file:
            whole = file.read("edges").tolist()
        paths = [*nothing.paths]
        paths[bucket] = tables.paths[bucket]
        mixed.link(replace(tables, paths=paths), bucket)
        with BlockFile(path) as file:
            assert file.read("edges").tolist() != whole


@pytest.mark.parametrize(
    ("low", "high", "best"),
    [
        (family("AAAAAAAA", 50), family("GAAAAAAA", 9), "AAAAAAAA"),
        (family("AAAAAAAA", 9), family("GAAAAAAA", 50), "GAAAAAAA"),
        # Of equals that of the better barcode, then that of the smaller key.
        (family("AAAAAAAA", 50), family("GAAAAAAA", 50, 71), "GAAAAAAA"),
        (family("AAAAAAAA", 50, 71), family("GAAAAAAA", 50), "AAAAAAAA"),
        (family("AAAAAAAA", 50), family("GAAAAAAA", 50), "AAAAAAAA"),
        # A parent must rank above its child.
        (family("AAAAAAAA", 1), family("GAAAAAAA", 1), "AAAAAAAA"),
        (family("AAAAAAAA", 1, 69), family("GAAAAAAA", 1, 71), "GAAAAAAA"),
        (family("AAAAAAAA", 1, 69), family("GAAAAAAA", 1, 70), None),
    ],
)
@pytest.mark.parametrize("buckets", [1, 3])
def test_a_parent_on_each_side_of_a_boundary(
    tmp_path: Path, low: Family, high: Family, best: str | None, buckets: int
) -> None:
    case = Case([low, family("CAAAAAAA", 1), high], (4,), tmp_path)
    tables = case.write(tmp_path, buckets)
    edges, _ = fixture.run_link(tables, case.model_path)
    assert edges.tolist() == case.expected
    parent = case.linked.edges[1].parent
    assert (None if parent is None else case.families[parent].umi) == best
    if buckets == 3:
        with BlockFile(tables.paths[1]) as file:
            assert file.length("families") == 1


@pytest.mark.parametrize("length", range(1, 33))
def test_every_length_finds_every_pair(tmp_path: Path, length: int) -> None:
    rng = np.random.default_rng(length)
    width = leaf_width([length])
    assert width == min(4, length // 2)
    umi = "".join(rng.choice(list("ACGT"), length))
    made = fixture.in_order(fixture.all_errors(umi))
    case = Case(made, (width,), tmp_path)
    assert set(case.linked.positions) == set(range(length))
    for buckets, block_bytes in ((1, None), (1, 1), (7, 900)):
        case.check(tmp_path, buckets, block_bytes)


@pytest.mark.parametrize("block_bytes", [None, 1])
def test_a_key_of_many_families(tmp_path: Path, block_bytes: int | None) -> None:
    """Of a key 64 families are tried, by rank: that is not the order of their numbers."""
    rng = np.random.default_rng(4)
    made = []
    for umi, count in (("GGGGGGGG", 400), ("GGGGGGGA", 150), ("AGGGGGGG", 70), ("TGGGGGGG", 10)):
        for _ in range(count):
            reads = int(rng.choice([1, 2, 2, 3, 90]))
            draft = fixture.random_draft(rng)
            made.append(family(umi, reads, int(rng.integers(60, 75)), draft))
    families = fixture.in_order(made)
    # The last family of an overfull key has the rest of the reads.
    last = max(n for n, one in enumerate(families) if one.umi == "GGGGGGGG")
    families[last] = replace(families[last], reads=10**6)
    case = Case(families, (4,), tmp_path)
    assert any(edge.parent == last for edge in case.linked.edges)
    hub = [one for one in case.families if one.umi == "GGGGGGGG" and one.reads == 90]
    assert len(hub) > oracle_link.TRIED, "the limit is among families of equal reads"
    case.check(tmp_path, 3, block_bytes)


@pytest.mark.parametrize("block_bytes", [None, 20_000])
def test_every_key_there_is(tmp_path: Path, block_bytes: int | None) -> None:
    rng = np.random.default_rng(5)
    umis = ["".join("ACGT"[digit] for digit in digits) for digits in np.ndindex(4, 4, 4, 4)]
    case = Case([family(umi, int(rng.geometric(0.4))) for umi in umis], (2,), tmp_path)
    assert len(oracle_link.neighbour_keys(case.families)) == 256 * 12
    case.check(tmp_path, 3, block_bytes)


def test_cells_are_not_corrected(tmp_path: Path) -> None:
    draft = fixture.DRAFT
    made = [
        Family(0, "ACGT", "AAAA", 50, draft, (70,) * 8),
        Family(0, "ACGA", "AAAA", 1, draft, (70,) * 8),
        Family(0, "ACGT", "AAAC", 1, draft, (70,) * 8),
        # Another cell length, the same bases but one.
        Family(0, "ACG", "TAACA", 1, draft, (70,) * 8),
    ]
    case = Case(fixture.in_order(made), (4,), tmp_path)
    for buckets in (1, 4):
        edges, counters = case.run(tmp_path, buckets, None)
        assert edges == case.expected
        linked = [edge[1] != oracle_link.NO_SCORE for edge in edges]
        assert linked == [one.barcode == "ACGTAAAC" for one in case.families]
        assert counters["linked"] == 1


def test_memory_is_bounded(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    families = fixture.in_order(fixture.random_families(rng, 0, (0, 12), 200, 4))
    case = Case(families, (4,), tmp_path)
    tables = case.write(tmp_path, 1)
    for block_bytes in (3000, 30_000, 10**7):
        meter = case.link(tables, 0, block_bytes)
        assert 0 < meter.umi_memory_bytes <= block_bytes
        assert meter.reads == case.table["reads"].sum()
        assert meter.written_bytes > EDGE.itemsize * case.table.size
    assert meter.umi_memory_bytes < 150 * case.table.size


def test_one_block_is_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is larger than the one before, so that none fits where that was."""
    monkeypatch.undo()
    rng = np.random.default_rng(6)
    sizes = (50_000, 60_000, 70_000, 80_000)
    keys = [
        base * 4**11 + np.sort(rng.choice(4**11, size, replace=False))
        for base, size in enumerate(sizes)
    ]
    table, quality = table_of_keys(
        np.concatenate(keys), np.full(sum(sizes), 2), np.zeros(sum(sizes), np.int64), 12
    )
    tables = fixture.write_tables(tmp_path, table, quality, (4,), 1)
    few = slice(None, None, table.size // 1000)
    model_path = tmp_path / "model"
    fixture.write_model(tables.plan_path, table[few], quality[few], model_path)
    outputs = Outputs(tmp_path / "edges", tmp_path / "queries")
    link(tables.plan_path, tables.paths, 0, model_path, outputs, Meter("link", "L", 1000))
    row_bytes = FAMILY.itemsize + 12 + KEY_BYTES + LINK_BYTES
    peaks = []
    for rows in (sizes[-1] // 3, sizes[-1]):
        meter = Meter("link", "L", 1000)
        paths, block_bytes = tables.paths, rows * row_bytes
        tracemalloc.start()
        try:
            link(tables.plan_path, paths, 0, model_path, outputs, meter, block_bytes=block_bytes)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert meter.counters["blocks"] == len(sizes)
    # Those of the first run are a quarter of these.
    assert peaks[1] - peaks[0] < 0.9 * sizes[-1] * row_bytes


def test_no_families(tmp_path: Path, mixed: Case) -> None:
    tables = fixture.write_tables(tmp_path, mixed.table[:0], mixed.quality[:0], WIDTHS, 3)
    edges, counters = fixture.run_link(tables, mixed.model_path)
    assert edges.size == 0
    assert not any(counters.values())


def test_families_of_another_bucket_are_refused(tmp_path: Path, mixed: Case) -> None:
    tables = mixed.write(tmp_path, 2)
    before = files_below(tmp_path)
    with pytest.raises(UmimillError, match=r"1\.families: has families of other buckets; delete"):
        mixed.link(replace(tables, paths=tables.paths[::-1]), 0)
    assert files_below(tmp_path) == before


@pytest.mark.parametrize("bucket", [0, 1])
def test_a_damaged_table_leaves_nothing(tmp_path: Path, mixed: Case, bucket: int) -> None:
    tables = mixed.write(tmp_path, 3)
    data = bytearray(tables.paths[0].read_bytes())
    data[100] ^= 1
    tables.paths[0].write_bytes(data)
    before = files_below(tmp_path)
    with pytest.raises(UmimillError, match=r"0\.families: the 64 kB at byte 0 are damaged"):
        mixed.link(tables, bucket)
    assert files_below(tmp_path) == before


def table_of_keys(keys: np.ndarray, reads: np.ndarray, numbers: np.ndarray, length: int) -> Any:
    """Return families, and their qualities, of keys in order."""
    rng = np.random.default_rng(9)
    table = np.zeros(keys.size, FAMILY)
    table["key"] = keys.astype(np.uint64) << np.uint64(64 - 2 * length)
    table["reads"], table["family"] = reads, numbers
    table["umi_length"] = length
    table["draft"] = rng.integers(1 << 63, size=keys.size)
    table["mask"] = (1 << 32) - 1
    return table, rng.integers(60, 75, (keys.size, length)).astype(np.uint8)


def nearly_all_keys() -> Any:
    """A million of the 1,048,576 UMIs of ten bases."""
    rng = np.random.default_rng(7)
    keys = np.sort(rng.permutation(4**10)[: 10**6])
    return table_of_keys(keys, rng.geometric(0.5, keys.size), np.zeros_like(keys), 10)


def star() -> Any:
    """A hundred thousand families of the 36 neighbours of a key that is overfull."""
    rng = np.random.default_rng(7)
    centres = [0, *(change << (2 * place) for place in range(12) for change in (1, 2, 3))]
    counts = [4096, *[2778] * 36]
    means = [0.01, *[0.5] * 36]
    reads = [-np.sort(-rng.geometric(mean, n)) for mean, n in zip(means, counts, strict=True)]
    order = np.argsort(centres)
    keys = np.repeat(np.array(centres)[order], np.array(counts)[order])
    numbers = [np.arange(counts[one]) for one in order]
    return table_of_keys(
        keys, np.concatenate([reads[one] for one in order]), np.concatenate(numbers), 12
    )


@pytest.mark.benchmark
@pytest.mark.parametrize("make", [nearly_all_keys, star])
def test_crowded_keys_take_seconds(
    tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time and memory do not blow up where everything is a neighbour of everything."""
    monkeypatch.undo()
    table, quality = make()
    tables = fixture.write_tables(tmp_path, table, quality, (4,), 1)
    few = slice(None, None, table.size // 1000)
    model_path = tmp_path / "model"
    fixture.write_model(tables.plan_path, table[few], quality[few], model_path)
    outputs = Outputs(tmp_path / "edges", tmp_path / "queries")
    for block_bytes in (1 << 30, 1 << 24):
        meter = Meter("link", "L", 8000)
        start = time.process_time()
        link(tables.plan_path, tables.paths, 0, model_path, outputs, meter, block_bytes=block_bytes)
        assert time.process_time() - start < 30
        assert meter.umi_memory_bytes <= min(block_bytes, 120 * table.size)
        assert meter.counters["linked"] > 0.9 * table.size
