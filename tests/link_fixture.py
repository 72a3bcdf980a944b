"""Tables of families in small, and the buckets of a library, written without the stages before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import oracle
import oracle_link
from oracle_link import Family
from umimill.blockfile import BlockFile, BlockWriter
from umimill.jit import kernel
from umimill.kernels.score import EdgeModel, score_edge
from umimill.link import Outputs, link
from umimill.metrics import Meter
from umimill.model import model, read_model
from umimill.partial import PARTIAL
from umimill.partition import Leaves
from umimill.plan import Plan, make_bounds, make_groups, read_plan
from umimill.tally import FAMILY
from umimill.tally_sums import DRAW

WIDTH = 32


DRAFT = "ACGTTGCAACGTTGCAACGTTGCAACGTTGCA"


def family(umi: str, reads: int, quality: int = 70, draft: str = DRAFT) -> Family:
    """A family of sample 0, without a cell."""
    return Family(0, "", umi, reads, draft, (quality,) * len(umi))


def all_errors(umi: str) -> list[Family]:
    """A UMI of many reads, and all UMIs one base away."""
    return [
        family(umi, 20),
        *(
            family(umi[:place] + base + umi[place + 1 :], 1 + place % 3)
            for place in range(len(umi))
            for base in "ACGT"
            if base != umi[place]
        ),
    ]


@kernel
def score(families: Any, quality: Any, child: int, parent: int, position: int, model: Any) -> Any:
    return score_edge(families, quality, child, families, quality, parent, position, model)


def in_order(families: Iterable[Family]) -> list[Family]:
    """Sort families as a table is, and number those of a key: (reads desc, draft asc)."""
    held = sorted(families, key=lambda one: (one.place, -one.reads, one.draft))
    found: list[Family] = []
    for one in held:
        number = found[-1].family + 1 if found and found[-1].place == one.place else 0
        found.append(replace(one, family=number))
    return found


def table_of(families: Sequence[Family]) -> tuple[Any, Any]:
    """Return families as tally writes them: FAMILY[n] and u8[n, WIDTH]."""
    table = np.zeros(len(families), FAMILY)
    quality = np.zeros((len(families), WIDTH), np.uint8)
    for row, one in enumerate(families):
        mask = int("".join("0" if letter == "N" else "1" for letter in one.draft), 2)
        table[row] = (
            oracle.key_of(one.barcode),
            oracle.key_of(one.draft),
            mask,
            one.reads,
            one.sample,
            one.family,
            len(one.umi),
            len(one.cell),
            60,
            0,
        )
        quality[row, : len(one.quality)] = one.quality
    return table, quality


@dataclass(frozen=True)
class Tables:
    """The families of a library, and the files of its buckets."""

    plan_path: Path
    plan: Plan
    paths: list[Path]


def write_tables(
    folder: Path, table: Any, quality: Any, widths: Sequence[int], buckets: int, group: int = 1
) -> Tables:
    """Write a plan, with groups of `group` leaves, and the tables of its buckets."""
    folder.mkdir(parents=True, exist_ok=True)
    leaves = Leaves(tuple(widths))
    shifts = 2 * np.array(widths, np.int64)[table["sample"]]
    prefixes = [
        int(key) >> (64 - int(shift)) for key, shift in zip(table["key"], shifts, strict=True)
    ]
    leaf = leaves.bases[table["sample"]] + np.array(prefixes, np.int64)
    rows = np.bincount(leaf, minlength=leaves.count)
    groups = make_groups(rows, rows, leaves)
    plan_path = folder / "plan"
    with BlockWriter(plan_path) as writer:
        writer.add("groups", groups)
        writer.add("bounds", make_bounds(groups["rows"], buckets))
        for name in ("rows", "bases", "hash_sums", "partial_rows", "partial_hash_sums"):
            kind = np.uint64 if name.endswith("hash_sums") else np.int64
            writer.add(name, np.zeros(len(widths), kind))
        writer.add("tile", np.zeros(len(widths), np.uint8))
        samples = [f"S{number}" for number in range(len(widths))]
        writer.finish(
            {"partitions": [], "partials": [], "samples": samples, "widths": list(widths)}
        )
    plan = read_plan(plan_path)
    paths = []
    for bucket in range(buckets):
        own = plan.bucket_groups(bucket)
        first, last = (own[0]["leaf_start"], own[-1]["leaf_stop"]) if own.size else (0, 0)
        held = (leaf >= first) & (leaf < last)
        paths.append(folder / f"{bucket}.families")
        with BlockWriter(paths[-1]) as writer:
            writer.add("families", table[held])
            writer.add("quality", quality[held])
            writer.add("partials", np.zeros(0, PARTIAL))
            writer.finish({"bucket": bucket})
    return Tables(plan_path, plan, paths)


def buckets_of(plan: Plan, samples: Any, keys: Any) -> npt.NDArray[np.int64]:
    """Return the bucket of each key, i64[n].

    Args:
        plan: plan of the library.
        samples: u16[n].
        keys: u64[n].
    """
    leaves = plan.leaves_of(samples, keys)
    group = np.searchsorted(plan.groups["leaf_stop"], leaves, side="right")
    return np.searchsorted(plan.bounds[1:], group, side="right").astype(np.int64)


def edges_path(tables: Tables, bucket: int) -> Path:
    """Return where `run_link` writes the edges of a bucket."""
    return tables.plan_path.parent / f"{bucket}.edges"


def write_model(plan_path: Path, table: Any, quality: Any, output: Path) -> EdgeModel:
    """Write the model of families, of which no draws were taken and no pairs counted; read it."""
    samples = len(read_plan(plan_path).samples)
    counts = Counter(zip(table["sample"].tolist(), table["reads"].tolist(), strict=True))
    sizes = [(*key, count) for key, count in sorted(counts.items())]
    composition = np.zeros((samples, 32, 4), np.int64)
    phreds = np.zeros((samples, 94), np.int64)
    for row, family in enumerate(table):
        for position in range(int(family["umi_length"]) + int(family["cell_length"])):
            base = int(family["key"]) >> (62 - 2 * position) & 3
            composition[family["sample"], position, base] += 1
            phreds[family["sample"], quality[row, position] // 2] += int(family["reads"])
    sums = output.with_suffix(".sums")
    with BlockWriter(sums) as writer:
        writer.add("sizes", np.array(sizes, np.int64).reshape(-1, 3))
        writer.add("composition", composition)
        writer.add("barcode_phred", phreds)
        writer.add("barcode_wrong", np.zeros((samples, 2), np.int64))
        writer.add("draws", np.zeros(0, DRAW))
        writer.add("pairs", np.zeros((samples, 32, 2), np.int64))
        writer.add("pair_sizes", np.zeros((samples, 32, 64), np.int64))
        writer.add("minors", np.zeros((samples, 6), np.int64))
        writer.add("minor_sizes", np.zeros((samples, 64), np.int64))
        writer.add("cells", np.zeros((samples, 3), np.int64))
        writer.finish({"bucket": 0})
    model(plan_path, [sums], output, Meter("model", "L", 8000))
    return read_model(output)


def run_link(
    tables: Tables, model_path: Path, *, block_bytes: int | None = None
) -> tuple[Any, dict[str, int]]:
    """Link all buckets; return all edges, and the sums of the counters."""
    edges, counters = [], dict[str, int]()
    for bucket in range(len(tables.paths)):
        meter = Meter("link", "L", 8000)
        output = edges_path(tables, bucket)
        link(
            tables.plan_path,
            tables.paths,
            bucket,
            model_path,
            Outputs(output, output.with_suffix(".queries")),
            meter,
            block_bytes=block_bytes,
        )
        with BlockFile(output) as file:
            edges.append(file.read("edges"))
        for name, count in meter.counters.items():
            counters[name] = counters.get(name, 0) + count
    return np.concatenate(edges), counters


def expected_edges(linked: oracle_link.Linked, families: Sequence[Family]) -> list[tuple[int, ...]]:
    """Return the edges of the oracle as rows of the table."""
    rows = []
    for edge in linked.edges:
        if edge.parent is None:
            rows.append((0, edge.score, 0, 0, 0, 0, 0, 0, 0))
            continue
        parent = families[edge.parent]
        key = oracle.key_of(parent.barcode)
        rows.append((key, edge.score, *edge.parts, parent.reads, parent.family, edge.position, 0))
    return rows


# -- random families -------------------------------------------------------------------------------


def changed(rng: np.random.Generator, text: str, position: int) -> str:
    """Put another base at a position."""
    others = [base for base in "ACGT" if base != text[position]]
    return text[:position] + str(rng.choice(others)) + text[position + 1 :]


def random_draft(rng: np.random.Generator) -> str:
    return "".join(rng.choice(list("ACGT"), 32))


def worn_draft(rng: np.random.Generator, draft: str) -> str:
    """A draft of the same molecule: some bases unknown, one or two others."""
    for _ in range(rng.integers(3)):
        draft = changed(rng, draft, int(rng.integers(32))) if "N" not in draft else draft
    unknown = int(rng.choice([0, 0, 3, 18, 24]))
    return draft[: 32 - unknown] + "N" * unknown


def random_families(
    rng: np.random.Generator,
    sample: int,
    lengths: tuple[int, int],
    molecules: int,
    width: int,
    *,
    cells: int = 3,
) -> list[Family]:
    """Make molecules and children of theirs, of children too; (cell, UMI) lengths.

    A third of the errors is in the first `width` bases, as far as these are of the UMI.
    """
    cell_length, umi_length = lengths
    pool = ["".join(rng.choice(list("ACGT"), cell_length))]
    # Cells one base apart, of which some have the same UMIs.
    while len(pool) < cells:
        place = cell_length - 1 - len(pool) % 2
        pool.append(changed(rng, pool[-1], place) if cell_length else "")
    drafts = [random_draft(rng) for _ in range(4)]
    made: list[Family] = []

    def add(cell: str, umi: str, reads: int, draft: str) -> None:
        # Few values, so that there are ties.
        quality = tuple(rng.choice([70, 74], cell_length + umi_length).tolist())
        made.append(Family(sample, cell, umi, reads, draft, quality))

    for _ in range(molecules):
        cell = str(rng.choice(pool))
        umi = "".join(rng.choice(list("ACGT"), umi_length))
        draft, reads = str(rng.choice(drafts)), int(rng.choice([1, 2, 2, 5, 5, 30, 200]))
        add(cell, umi, reads, draft)
        if cell_length and rng.random() < 0.3:
            add(str(rng.choice(pool)), umi, 1, draft)
        for _ in range(rng.choice([0, 0, 0, 2])):
            add(cell, umi, int(rng.integers(1, 4)), random_draft(rng))
        for _ in range(rng.integers(5)):
            early = width - cell_length
            if early > 0 and rng.random() < 1 / 3:
                position = int(rng.integers(early))
            else:
                position = int(rng.integers(umi_length))
            umi, reads = changed(rng, umi, position), max(1, reads // int(rng.choice([1, 3])))
            add(cell, umi, reads, worn_draft(rng, draft))
    return made
