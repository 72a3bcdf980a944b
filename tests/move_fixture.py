"""Rows of families of which some were corrected, with the files that move and assemble read."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import oracle
import oracle_drafts
import oracle_refine_stages as naive
from link_fixture import buckets_of
from oracle import Template
from oracle_refine_stages import Identity
from row_fixture import HAS_UNKNOWN, write_rows
from stage_fixture import Row, key_text, new_meter
from umimill import move as move_module
from umimill.blockfile import BlockFile, BlockWriter
from umimill.link import EDGE
from umimill.model import model
from umimill.partition import Leaves
from umimill.places import PLACE
from umimill.plan import Plan, plan, read_plan
from umimill.queries import ANSWER
from umimill.route import route
from umimill.settle import ARRIVAL, CORRECTION
from umimill.tally import tally

# Sample, cell, UMI; of equal words and several lengths too.
BARCODES = [
    (0, "", "ACGTAC"), (0, "", "ACGTAA"), (0, "", "ACGTA"), (0, "", "TTGCAC"), (0, "", "TTGCA"),
    (1, "AC", "GTAC"), (1, "AC", "GTAA"), (1, "GG", "GTAC"), (1, "", "ACGTAC"), (1, "", "GGGGGG"),
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Rows and what became of their families.

    Attributes:
        folder: where its files are.
        flushes: rows by file and flush, as they were written.
        levels: quality levels of each.
        plan_path: plan of the library.
        plan: the same.
        family_of: family of each row, by (unit, record).
        reads: reads of each family.
        roots: where corrected families went.
        tables: tally's tables.
        settled: what settle would have written.
    """

    folder: Path
    flushes: list[list[Row]]
    plan_path: Path
    plan: Plan
    family_of: dict[tuple[int, int], Identity]
    reads: dict[Identity, int]
    roots: dict[Identity, Identity]
    tables: list[Path]
    settled: Path

    @property
    def rows(self) -> list[Row]:
        """All rows."""
        return [row for flush in self.flushes for row in flush]

    def sources(self, bucket: int) -> move_module.Sources:
        """Return what move reads of a bucket."""
        return move_module.Sources(
            self.tables[bucket], self.folder / f"{bucket}.edges", self.settled,
            self.folder / "model",
        )  # fmt: skip

    def outputs(self, bucket: int, name: str = "moved") -> move_module.Outputs:
        """Return what move writes of a bucket."""
        return move_module.Outputs(
            self.folder / f"{bucket}.{name}.outbox", self.folder / f"{bucket}.{name}.fates"
        )

    def move(self, *, name: str = "moved", staging_bytes: int | None = None) -> list[Path]:
        """Move all buckets; return the outboxes."""
        found = []
        for bucket in range(len(self.tables)):
            outputs = self.outputs(bucket, name)
            move_module.move(
                self.plan_path,
                self.sources(bucket),
                bucket,
                outputs,
                new_meter("move"),
                judge=False,
                staging_bytes=staging_bytes,
            )
            found.append(outputs.outbox)
        return found

    def route(self, outboxes: Sequence[Path], name: str = "routes") -> Path:
        """Route the outboxes."""
        route(self.plan_path, self.settled, outboxes, self.folder / name, new_meter("route"))
        return self.folder / name


def template_of(row: Row) -> Template:
    """Return a row as the oracles take it."""
    sample, barcode, cell, flags, unit, record, qualities, mates = row
    return Template(
        sample,
        barcode[:cell],
        barcode[cell:],
        tuple(qualities),
        (mates[0][0], mates[1][0]),
        (tuple(mates[0][1]), tuple(mates[1][1])),
        record,
        unit,
        flags,
    )


def random_rows(
    rng: random.Random, count: int, levels: Sequence[int], *, paired: bool, first: int, hot: int
) -> list[Row]:
    """Make rows of a few molecules a barcode; `hot` of them of one barcode."""
    made: list[Row] = []
    molecules = {
        key: [
            ["".join(rng.choices("ACGT", k=150)) for _ in range(2)] for _ in range(1 + number % 3)
        ]
        for number, key in enumerate(BARCODES)
    }
    for number in range(count):
        key = BARCODES[5] if number < hot else rng.choice(BARCODES)
        sample, cell, umi = key
        mates = []
        text = rng.choice(molecules[key])
        for side in range(2):
            length = rng.choice([40, 70, 71, 130]) if side == 0 or paired else 0
            bases = "".join("N" if rng.random() < 0.01 else base for base in text[side][:length])
            mates.append((bases, bytes(rng.choices(levels, k=length))))
        flags = rng.randrange(HAS_UNKNOWN)
        flags |= HAS_UNKNOWN * any("N" in bases for bases, _ in mates)
        barcode = cell + umi
        scores = [rng.randrange(2, 41) for _ in barcode] + [0] * (20 - len(barcode))
        made.append(
            (sample, barcode, len(cell), flags, rng.randrange(1 << 16), first + number,
             bytes(scores), tuple(mates))
        )  # fmt: skip
    return made


def assigned(
    rows: Sequence[Row], tables: Sequence[Any], made: Plan
) -> dict[tuple[int, int], Identity]:
    """Return the family of each row by its draft, as tally's table has them."""
    drafts: dict[tuple[int, str, str], list[str]] = {}
    for table in tables:
        for one in table:
            cell = int(one["cell_length"])
            text = key_text(int(one["key"]), cell + int(one["umi_length"]))
            key = (int(one["sample"]), text[:cell], text[cell:])
            draft = oracle_drafts.unpack_draft(int(one["draft"]), int(one["mask"]))
            drafts.setdefault(key, []).append(draft)
    strides = [
        oracle_drafts.stride_of(int(count), int(bases))
        for count, bases in zip(made.rows, made.bases, strict=True)
    ]
    found = {}
    for row in rows:
        one = template_of(row)
        key = (one.sample, one.cell, one.umi)
        text = oracle_drafts.take_draft(one, strides[one.sample], 10).text
        found[one.unit, one.record] = (*key, oracle_drafts.assign(text, drafts[key]) or 0)
    return found


def fill(rows: Any, number: int, place: Identity) -> None:
    """Say which family a row of CORRECTION or ARRIVAL is of."""
    sample, cell, umi, family = place
    row = rows[number]
    row["key"], row["sample"], row["family"] = oracle.key_of(cell + umi), sample, family
    row["umi_length"], row["cell_length"] = len(umi), len(cell)


def write_settled(
    path: Path,
    made: Plan,
    reads: dict[Identity, int],
    roots: dict[Identity, Identity],
) -> None:
    """Write what settle writes."""
    corrections = np.zeros(len(roots), CORRECTION)
    arrivals = np.zeros(len(set(roots.values())), ARRIVAL)
    for number, (child, root) in enumerate(roots.items()):
        fill(corrections, number, child)
        corrections[number]["root_key"] = oracle.key_of(root[1] + root[2])
        corrections[number]["root_family"] = root[3]
        corrections[number]["reads"] = reads[child]
    for number, root in enumerate(sorted(set(roots.values()))):
        fill(arrivals, number, root)
        own = [child for child in roots if roots[child] == root]
        arrivals[number]["reads"] = sum(reads[child] for child in own)
        arrivals[number]["families"] = len(own)
    with BlockWriter(path) as writer:
        for name, rows in (("correction", corrections), ("arrival", arrivals)):
            length = rows["umi_length"].astype(int) + rows["cell_length"]
            rows = rows[
                np.lexsort(
                    (rows["family"], rows["cell_length"], length, rows["key"], rows["sample"])
                )
            ]
            place = buckets_of(made, rows["sample"], rows["key"])
            bounds = np.searchsorted(place, np.arange(made.bounds.size))
            writer.add(f"{name}s", rows)
            writer.add(f"{name}_bounds", bounds.astype(np.int64))
        for name, kind in (("answer", ANSWER), ("place", PLACE), ("placing", ARRIVAL)):
            writer.add(f"{name}s", np.zeros(0, kind))
            writer.add(f"{name}_bounds", np.zeros(made.bounds.size, np.int64))
        writer.finish({})


def make_case(
    folder: Path,
    seed: int,
    *,
    buckets: int = 1,
    levels: Sequence[int] = (2, 11, 25, 37),
    paired: bool = False,
    corrected: float = 0.5,
    rows: int = 150,
    hot: int = 0,
) -> Case:
    """Make rows, tally their families and correct some of them."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    leaves = Leaves((2, 2))
    flushes, paths = [], []
    for number in range(2):
        own = [
            random_rows(
                rng, rows, levels, paired=paired, first=1000 * (2 * number + flush), hot=hot
            )
            for flush in range(2)
        ]
        flushes += own
        paths.append(write_rows(folder / f"{number}.rows", own, leaves))
    plan_path = folder / "plan"
    plan(paths, buckets, plan_path, new_meter("plan"))
    made = read_plan(plan_path)
    tables, arrays = [], []
    for bucket in range(buckets):
        tables.append(folder / f"{bucket}.families")
        tally(plan_path, bucket, tables[-1], new_meter("tally"))
        with BlockFile(tables[-1]) as file:
            arrays.append(file.read("families"))
        with BlockWriter(folder / f"{bucket}.edges") as writer:
            writer.add("edges", np.zeros(arrays[-1].size, EDGE))
            writer.finish({})
    model(plan_path, tables, folder / "model", new_meter("model"))
    family_of = assigned([row for flush in flushes for row in flush], arrays, made)
    reads: dict[Identity, int] = {}
    for one in family_of.values():
        reads[one] = reads.get(one, 0) + 1
    stay = {one for one in sorted(reads) if rng.random() >= corrected}
    roots = {}
    for child in sorted(set(reads) - stay):
        # In truth one or a few bases away; here any key of these lengths.
        shape = (child[0], len(child[1]), len(child[2]))
        able = [one for one in sorted(stay) if (one[0], len(one[1]), len(one[2])) == shape]
        able = [one for one in able if one[:3] != child[:3]]
        if able:
            roots[child] = rng.choice(able)
    write_settled(folder / "settled", made, reads, roots)
    return Case(
        folder, flushes, plan_path, made, family_of, reads, roots, tables, folder / "settled"
    )


def expected_molecules(case: Case) -> dict[tuple[int, str, str, int], set[tuple[int, int]]]:
    """Return the rows of each molecule, (unit, record), by key and number."""
    fates = naive.fates_of(case.reads, case.roots, {})
    found: dict[tuple[int, str, str, int], set[tuple[int, int]]] = {}
    for row, family in case.family_of.items():
        root = case.roots.get(family, family)
        found.setdefault((*root[:3], fates[root].number), set()).add(row)
    return found
