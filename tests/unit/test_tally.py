"""tally: the families of every key are the naive twin's, in order, whatever fits into memory."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle_drafts as naive
from oracle import Template, key_of
from stage_fixture import (
    Library,
    Record,
    Row,
    all_rows,
    files_below,
    ledger,
    library_of,
    new_meter,
    run_checkout,
    run_plan,
    slow_settings,
    write_fastq,
)
from umimill.blockfile import BlockFile
from umimill.errors import UmimillError
from umimill.plan import Plan, read_plan
from umimill.tally import BATCH_ROWS, FAMILY, batch_rows, tally
from umimill.tally_sums import DRAW, SMALL, Draws, FamilySums

# Sample, barcode, length, cell.
Key = tuple[int, str, int]
Arrays = dict[str, npt.NDArray[Any]]

# -- sums ------------------------------------------------------------------------------------------


def table_of(rng: np.random.Generator, count: int, samples: int) -> npt.NDArray[Any]:
    """Make families of small keys, of many reads now and then."""
    table = np.zeros(count, FAMILY)
    table["sample"] = np.sort(rng.integers(samples, size=count))
    table["key"] = rng.integers(1 << 20, size=count).astype(np.uint64) << np.uint64(44)
    table["umi_length"] = 10
    table["family"] = rng.integers(5, size=count)
    table["reads"] = rng.choice([1, 2, 3, SMALL - 1, SMALL, 70_000], size=count)
    for name in ("draft", "mask", "draft_quality"):
        table[name] = rng.integers(81, size=count)
    return table


@slow_settings(40)
@given(
    seed=st.integers(0, 99),
    count=st.integers(0, 200),
    most=st.integers(1, 30),
    pieces=st.integers(1, 6),
)
def test_draws_are_the_smallest_hashes(seed: int, count: int, most: int, pieces: int) -> None:
    table = table_of(np.random.default_rng(seed), count, 3)
    draws = Draws(3, most)
    for piece in np.array_split(table, pieces):
        draws.add(piece)
    found = draws.result()
    assert found.dtype == DRAW
    expected: list[tuple[int, ...]] = []
    for sample in range(3):
        own = []
        for row in table[table["sample"] == sample]:
            inner = naive.splitmix64(int(row["family"]) | int(row["umi_length"]) << 16)
            fields = [int(row[name]) for name in ("draft", "mask", "reads", "draft_quality")]
            own.append((sample, naive.splitmix64(int(row["key"]) ^ inner), *fields))
        # Equal hashes stay in the order of the table.
        expected += sorted(own, key=lambda row: row[1])[:most]
    names = ["sample", "hash", "draft", "mask", "reads", "draft_quality"]
    assert found[names].tolist() == expected


def test_sizes_small_and_large() -> None:
    table = table_of(np.random.default_rng(3), 500, 2)
    sums = FamilySums(2)
    for piece in np.array_split(table, 3):
        sums.add(piece)
    counted = Counter(zip(table["sample"].tolist(), table["reads"].tolist(), strict=True))
    assert sums.sizes().tolist() == [[*place, n] for place, n in sorted(counted.items())]
    assert len(counted) == 12
    assert sums.reads.sum() == table["reads"].sum()


# -- the stage -------------------------------------------------------------------------------------

LAYOUTS = [("S1", "^ACGTNNNNNN", None), ("S2", "^TTGCXXNNNN", None), ("S2", "^GGAAXXNNNNN", None)]
TAGS = ("ACGT", "TTGC", "GGAA")


def mutated(rng: random.Random, text: str, rate: float) -> str:
    return "".join(rng.choice("ACGT") if rng.random() < rate else base for base in text)


def random_templates(
    rng: random.Random,
    count: int,
    *,
    tags: Sequence[str] = TAGS,
    umis: int = 60,
    length: int = 60,
    levels: str = "#+5?I",
) -> list[Record]:
    """Make reads of keys that share molecules, related molecules, chimeras, and reads cut short."""
    pool = []
    for _ in range(umis):
        base = "".join(rng.choices("ACGT", k=length))
        molecules = [base, *(mutated(rng, base, rng.random()) for _ in range(rng.randrange(4)))]
        pool.append(("".join(rng.choices("ACGT", k=6)), molecules))
    records = []
    for number in range(count):
        umi, molecules = pool[int(umis * rng.random() ** 2)]
        first, second = rng.choices(
            molecules, [4.0**-place for place in range(len(molecules))], k=2
        )
        cut = rng.randrange(length) if rng.random() < 0.1 else length
        payload = mutated(rng, first[:cut] + second[cut:], 0.02)
        payload = payload[: rng.randrange(length)] if rng.random() < 0.1 else payload
        if rng.random() < 0.1:
            payload = payload.replace("G", "N", 2)
        bases = rng.choice(tags) + umi + payload
        qualities = "".join(rng.choices(levels, [1, 1, 3, 5, 10][: len(levels)], k=len(bases)))
        qualities = "I" * 12 + qualities[12:] if len(bases) > 12 else "I" * len(bases)
        records.append((b"%d" % number, bases.encode(), qualities.encode()))
    return records


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("tally")
    rng = random.Random(1)
    units = {
        "u1": [write_fastq(folder / "u1.fq", random_templates(rng, 2000))],
        # Four levels: their qualities take two bits.
        "u2": [write_fastq(folder / "u2.fq", random_templates(rng, 2000, levels="#5?I"))],
    }
    return Library(folder, LAYOUTS, units)


@pytest.fixture(scope="module")
def partitions(library: Library) -> list[Path]:
    found, metrics = run_checkout(library, parts=2, record_block=300, staging_bytes=100_000)
    assert all(job["counters"]["flushes"] >= 2 for job in metrics)
    return found


def template_of(row: Row) -> Template:
    sample, barcode, cell, flags, unit, record, quality, mates = row
    return Template(
        sample,
        barcode[:cell],
        barcode[cell:],
        tuple(quality[: len(barcode)]),
        (mates[0][0], mates[1][0]),
        (tuple(mates[0][1]), tuple(mates[1][1])),
        record,
        unit,
        flags,
    )


def expected_table(plan: Plan, partitions: Sequence[Path]) -> tuple[list[Any], list[list[int]]]:
    """Return the rows of the whole table and their qualities, as the naive twin makes them."""
    strides = [
        naive.stride_of(*pair) for pair in zip(plan.rows.tolist(), plan.bases.tolist(), strict=True)
    ]
    keys: dict[Any, list[Template]] = defaultdict(list)
    for row in all_rows(partitions).elements():
        template = template_of(row)
        # Rows of one key need an order for the twin, which must not matter.
        keys[template.order].append(template)
    table: list[Any] = []
    qualities = []
    for (sample, barcode, cell), rows in sorted(keys.items()):
        drafts = [naive.take_draft(row, strides[sample], 10) for row in rows]
        for number, family in enumerate(naive.find_families(drafts)):
            reads = len(family.rows)
            sums = [
                sum(q) for q in zip(*(rows[r].barcode_quality for r in family.rows), strict=True)
            ]
            qualities.append([(4 * total + reads) // (2 * reads) for total in sums])
            packed = naive.word(family.draft), naive.mask(family.draft)
            lengths = len(barcode) - cell, cell
            values = (key_of(barcode), *packed, reads, sample, number, *lengths, family.trust, 0)
            table.append(values)
    return table, qualities


def read_table(path: Path) -> Arrays:
    with BlockFile(path) as file:
        names = ("families", "quality", "sizes", "composition", "draws")
        return {name: file.read(name) for name in (*names, "barcode_phred", "barcode_wrong")}


@pytest.fixture(scope="module")
def expected(library: Library, partitions: list[Path]) -> tuple[list[Any], list[list[int]]]:
    return expected_table(read_plan(run_plan(library, partitions, 1)), partitions)


@pytest.mark.parametrize("buckets", [1, 5])
@pytest.mark.parametrize("batch_bytes", [None, 1, 5000])
def test_families_are_the_oracle(
    library: Library,
    partitions: list[Path],
    expected: tuple[list[Any], list[list[int]]],
    tmp_path: Path,
    buckets: int,
    batch_bytes: int | None,
) -> None:
    path = run_plan(library, partitions, buckets)
    table: list[Any] = []
    qualities: list[list[int]] = []
    for bucket in range(buckets):
        meter = new_meter("tally")
        output = tmp_path / f"{bucket}.families"
        (tmp_path / "scratch").mkdir(exist_ok=True)
        tally(path, bucket, output, meter, scratch=tmp_path / "scratch", batch_bytes=batch_bytes)
        found = read_table(output)
        families = found["families"]
        table += families.tolist()
        qualities += found["quality"].tolist()
        assert sum(ledger([meter.result("sort")]).values()) == meter.reads
        assert meter.reads == families["reads"].sum()
        assert meter.counters["families"] == families.size
        assert (meter.counters["streamed"] > 0) == (batch_bytes is not None and meter.reads > 0)
        assert meter.umi_spill_bytes == 0
        check_sums(found)
    assert table == expected[0]
    width = len(qualities[0])
    assert qualities == [row + [0] * (width - len(row)) for row in expected[1]]
    # Reads whose drafts were told apart.
    assert max(row[5] for row in table) >= 3
    # Nothing is left of what was written on the side.
    assert files_below(tmp_path) == [f"{bucket}.families" for bucket in range(buckets)]


def check_sums(found: Arrays) -> None:
    """Compare the sums of a bucket with its table."""
    families = found["families"]
    lengths = families["umi_length"].astype(int) + families["cell_length"]
    sizes = Counter(zip(families["sample"].tolist(), families["reads"].tolist(), strict=True))
    assert found["sizes"].tolist() == [[*place, n] for place, n in sorted(sizes.items())]
    composition = np.zeros_like(found["composition"])
    for row, length in zip(families, lengths, strict=True):
        for place in range(length):
            composition[row["sample"], place, (int(row["key"]) >> (62 - 2 * place)) & 3] += 1
    assert (found["composition"] == composition).all()
    bases = (families["reads"] * lengths).sum()
    assert found["barcode_phred"].sum() == bases
    # All barcodes are of one quality here.
    assert found["barcode_phred"][:, 40].sum() == bases
    umis = families["umi_length"].astype(float)
    alone, wrong = (found["barcode_wrong"].sum(0) / (1 << 20)).tolist()
    assert wrong == pytest.approx((families["reads"] * umis * 1e-4).sum(), rel=1e-2)
    each = umis * 1e-4 * (1 - 1e-4) ** (umis - 1)
    assert alone == pytest.approx((families["reads"] * each).sum(), rel=1e-2)
    assert found["draws"].size == families.size
    assert sorted(found["draws"]["draft"].tolist()) == sorted(families["draft"].tolist())


def test_table_does_not_depend_on_memory(
    library: Library, partitions: list[Path], tmp_path: Path
) -> None:
    path = run_plan(library, partitions, 1)
    written = set()
    for batch_bytes in (None, 1, 300, 3000, 20_000, 200_000):
        tally(path, 0, tmp_path / "a", new_meter("tally"), batch_bytes=batch_bytes)
        written.add((tmp_path / "a").read_bytes())
    assert len(written) == 1


def test_table_does_not_depend_on_order(tmp_path: Path) -> None:
    """Nor on flushes, parts or units."""
    records = random_templates(random.Random(5), 1500)
    tables = set()
    for number, options in enumerate(({}, {"parts": 3, "staging_bytes": 1, "record_block": 100})):
        random.Random(number).shuffle(records)
        library = library_of(tmp_path / str(number), LAYOUTS, records)
        partitions, _ = run_checkout(library, **options)
        tally(run_plan(library, partitions, 1), 0, tmp_path / "a", new_meter("tally"))
        tables.add((tmp_path / "a").read_bytes())
    assert len(tables) == 1


def test_overfull_key(tmp_path: Path) -> None:
    """5,000 payloads on one key: as many families as there may be, in bounded memory."""
    rng = random.Random(7)
    bases = ["ACGT" + "GGGGGG" + "".join(rng.choices("ACGT", k=32)) for _ in range(5000)]
    records = [(b"%d" % n, one.encode(), b"I" * len(one)) for n, one in enumerate(bases)]
    library = library_of(tmp_path, [("S1", "^ACGTNNNNNN", None)], records)
    path = run_plan(library, run_checkout(library)[0], 1)
    written = set()
    for batch_bytes in (None, 10_000):
        meter = new_meter("tally")
        tally(path, 0, tmp_path / "a", meter, batch_bytes=batch_bytes)
        assert meter.counters["streamed"] == (batch_bytes is not None)
        assert meter.umi_memory_bytes < 20_000_000
        written.add((tmp_path / "a").read_bytes())
    assert len(written) == 1
    families = read_table(tmp_path / "a")["families"]
    assert 4000 < families.size <= 4096
    assert families["reads"].sum() == 5000
    assert set(families["flags"].tolist()) == {1}
    assert families["family"].tolist() == list(range(families.size))


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
        tally(path, 0, tmp_path / "a", new_meter("tally"), scratch=scratch, batch_bytes=1)
    assert files_below(tmp_path) == before


def test_no_rows(tmp_path: Path) -> None:
    library = Library(tmp_path, LAYOUTS, {"u1": [write_fastq(tmp_path / "none.fq", [])]})
    path = run_plan(library, run_checkout(library)[0], 3)
    for bucket in range(3):
        meter = new_meter("tally")
        tally(path, bucket, tmp_path / "a", meter)
        found = read_table(tmp_path / "a")
        assert found["families"].size == found["draws"].size == found["sizes"].size == 0
        assert found["quality"].shape == (0, 7)
        assert [entry["templates"] for entry in meter.ledger] == [0, 0, 0, 0]


def test_rows_at_a_time() -> None:
    groups = np.array([(3, 300), (7, 700)], [("rows", np.int64), ("bytes", np.int64)])
    assert batch_rows(groups, 4, 10**9) == BATCH_ROWS
    assert batch_rows(groups, 100, 10**9) == 51_200
    # Rows of 100 bytes, there twice, and 200 bytes for each.
    assert batch_rows(groups, 100, 10**7) == 25_000
    assert batch_rows(groups, 4, 4321) == 10
    assert batch_rows(groups, 4, 1) == 1
    assert batch_rows(groups[:0], 0, 1) == 1
