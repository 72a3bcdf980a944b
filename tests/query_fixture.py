"""Families with unsure bases, and what they ask for and score by means other than the kernels."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle_refine_stages as naive
from link_fixture import in_order, table_of, write_model, write_tables
from oracle_link import Family
from umimill.jit import kernel
from umimill.kernels import answers as answers_kernels
from umimill.kernels import queries as kernels
from umimill.kernels.asks import score_unasked
from umimill.kernels.score import EdgeModel, score_independent, score_payload
from umimill.queries import QUERY

FINE = 1 << 20
# Half-Phreds: unsure, less so, at the edge, sure.
LEVELS = (4, 22, 30, 34, 74)
NO_QUARTERS = np.zeros(1, np.uint64)


@kernel
def independent_of(families: Any, quality: Any, row: int, model: Any, places: Any) -> Any:
    return score_unasked(families, quality, row, families[row]["sample"], model, places)


@kernel
def molecules_of(families: Any, row: int, model: Any) -> Any:
    return score_independent(families[row], families[row]["sample"], model)


@kernel
def payload_of(families: Any, child: int, parent: int, model: Any) -> Any:
    few: Any = families[child]
    return score_payload(few, few["key"], families[parent], few["sample"], model)


@kernel
def changes_score(queries: Any, row: int, families: Any, parent: int, model: Any) -> Any:
    return answers_kernels.score_changes(queries[row], families[parent], model)


@dataclass(frozen=True)
class World:
    """Families, their table and model, and what is known of them."""

    families: list[Family]
    table: Any
    quality: Any
    model: EdgeModel

    def asked(self, row: int) -> dict[str, float]:
        """Return what a family without a certain parent asks for, within the bound."""
        family = self.families[row]
        if family.reads > naive.MOST_READS:
            return {}
        # Whole numbers, as the kernel has them: barcodes at the bound are many.
        misread, right = (
            table[family.sample].tolist() for table in (self.model.misread, self.model.right)
        )
        least = self.independent(row) + int(self.model.clonal[family.sample])
        least -= kernels.LN_LARGE_PARENT
        found = naive.asked(family, misread, right, kernels.UNSURE_MISREAD)
        return {
            barcode: errors / FINE
            for barcode, errors in found.items()
            if (int(errors) + 512) >> 10 >= least
        }

    def independent(self, row: int) -> int:
        """Return the score of a family without a parent."""
        places = np.zeros(kernels.MOST_UNSURE, np.int64)
        found = int(independent_of(self.table, self.quality, row, self.model, places))
        assert found / 1024 == pytest.approx(self.unasked(row), abs=0.01)
        return found

    def unasked(self, row: int) -> float:
        """Return what `independent` is for its naive twin."""
        family, model = self.families[row], self.model
        sample = family.sample
        return naive.ln_unasked(
            int(molecules_of(self.table, row, model)) / 1024,
            family.reads,
            self.missed(row),
            math.exp(int(model.reads[sample]) / FINE),
            math.exp(int(model.families[sample] + model.sizes[sample, 1]) / FINE),
        )

    def missed(self, row: int) -> float:
        """Return the chance that a read of a family is misread in a way that is not asked for."""
        family = self.families[row]
        misread, right = (
            (table[family.sample] / FINE).tolist()
            for table in (self.model.misread, self.model.right)
        )
        return naive.missed_both(family, misread, right, kernels.UNSURE_MISREAD / FINE)

    def held(self) -> dict[tuple[int, str, str], list[int]]:
        """Return the families of each key."""
        found: dict[tuple[int, str, str], list[int]] = {}
        for row, one in enumerate(self.families):
            found.setdefault((one.sample, one.cell, one.umi), []).append(row)
        return found

    def score(self, child: int, parent: int, errors: float) -> tuple[int, int, int, int]:
        """Return the score of a pair and its parts."""
        few, many = self.families[child], self.families[parent]
        query = np.zeros(1, QUERY)
        query["reads"], query["sample"] = few.reads, few.sample
        query["changes"] = round(errors * FINE)
        error = int(changes_score(query, 0, self.table, parent, self.model))
        growth = (self.model.growth[few.sample] / FINE).tolist()
        assert error / 1024 == pytest.approx(
            naive.ln_changes(few.reads, many.reads, growth, errors), abs=0.01
        )
        independent = self.independent(child)
        payload = int(payload_of(self.table, child, parent, self.model))
        return error - independent + payload, error, independent, payload


def changed(rng: random.Random, umi: str, places: Sequence[int]) -> str:
    return "".join(
        rng.choice([base for base in "ACGT" if base != letter]) if at in places else letter
        for at, letter in enumerate(umi)
    )


def random_families(rng: random.Random, molecules: int) -> list[Family]:
    """Make molecules, some on one barcode, and reads of theirs misread at unsure bases."""
    made: list[Family] = []
    drafts = ["".join(rng.choices("ACGT", k=32)) for _ in range(4)]

    def add(sample: int, cell: str, umi: str, reads: int, quality: Sequence[int]) -> None:
        draft = list(rng.choice(drafts))
        for at in range(32 - rng.choice([0, 0, 10, 24]), 32):
            draft[at] = "N"
        made.append(Family(sample, cell, umi, reads, "".join(draft), tuple(quality)))

    for _ in range(molecules):
        sample = rng.randrange(2)
        cell, length = rng.choice([("", 6), ("", 8), ("AC", 6), ("AG", 6)])
        # An A behind or not: keys of several lengths that are one word.
        umi = "".join(rng.choices("ACGT", k=length - 1)) + rng.choice("AC")
        if rng.random() < 0.2 and made:
            umi = (made[-1].umi + "A" * length)[:length]
        size = len(cell) + length
        for _ in range(rng.choice([1, 1, 2, 3])):
            add(sample, cell, umi, rng.choice([1, 2, 2, 9, 60]), [rng.choice([70, 74])] * size)
        for _ in range(rng.randrange(4)):
            quality = [rng.choice(LEVELS) for _ in range(size)]
            unsure = [at for at in range(length) if quality[len(cell) + at] < 34]
            places = rng.sample(unsure, min(len(unsure), rng.choice([2, 2, 3, 5])))
            add(sample, cell, changed(rng, umi, places), rng.choice([1, 1, 2, 3, 4]), quality)
    return in_order(made)


def world_of(folder: Path, families: list[Family], buckets: int) -> tuple[World, Any]:
    table, quality = table_of(families)
    tables = write_tables(folder, table, quality, [2, 2], buckets)
    model = write_model(tables.plan_path, table, quality, folder / "model")
    return World(families, table, quality, model), tables
