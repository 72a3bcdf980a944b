"""Families added up by cell, against a naive sum."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_cases import pack_key
from umimill.cell_tables import CELL, new_profile
from umimill.fates import FATE
from umimill.kernels.cell_tables import BELOW, CALLED, sum_cells
from umimill.tally import FAMILY

CELL_BASES, UMI_BASES = 3, 2


def random_families(draw: random.Random, count: int) -> tuple[Any, Any, list[dict[str, Any]]]:
    """Return FAMILY[n] and FATE[n] in order, and the same as plain values."""
    rows = []
    for _ in range(count):
        mask = draw.getrandbits(32)
        draft = "".join(
            draw.choice("ACGT") if mask >> (31 - place) & 1 else "N" for place in range(32)
        )
        rows.append(
            {
                "cell": "".join(draw.choices("AC", k=CELL_BASES)),
                "umi": "".join(draw.choices("ACGT", k=UMI_BASES)),
                "draft": draft,
                "mask": mask,
                "moved": int(draw.random() < 0.2),
                "status": draw.choice((0, 0, 0, 1)),
                "reads": draw.choice((1, 2, 3, 900)),
            }
        )
    rows.sort(key=lambda row: row["cell"] + row["umi"])
    families, fates = np.zeros(count, FAMILY), np.zeros(count, FATE)
    for family, fate, row in zip(families, fates, rows, strict=True):
        family["key"] = pack_key(row["cell"] + row["umi"])
        family["draft"] = pack_key(row["draft"].replace("N", "A"))
        family["mask"], family["cell_length"], family["umi_length"] = row["mask"], 3, 2
        for name in ("moved", "status", "reads"):
            fate[name] = row[name]
    return families, fates, rows


@given(st.randoms(use_true_random=False), st.integers(0, 40), st.integers(0, 6))
@settings(max_examples=60)
def test_cells(draw: random.Random, count: int, least: int) -> None:
    families, fates, rows = random_families(draw, count)
    one, profile = new_profile(1), new_profile(2)
    opened = np.zeros(1, CELL)
    found: list[tuple[int, ...]] = []
    cuts = sorted(draw.randint(0, count) for _ in range(3))
    bounds = zip([0, *cuts], [*cuts, count], strict=True)
    pieces = [slice(*pair) for pair in bounds if pair[1] > pair[0]]
    for piece in (*pieces, slice(0, 0)):
        some = families[piece].copy()
        cells = np.zeros(some.size + 2, CELL)
        cells[0] = opened[0]
        ended = sum_cells(some, fates[piece].copy(), least, cells, one, profile)
        opened = cells[ended : ended + 1].copy()
        found += cells[:ended][["cell", "reads", "molecules", "families"]].tolist()
    names = sorted({row["cell"] for row in rows})
    of = {name: [row for row in rows if row["cell"] == name] for name in names}
    kept = {name: [row for row in of[name] if not row["moved"]] for name in names}
    molecules = {name: [row for row in kept[name] if row["status"] == 0] for name in names}
    assert found == [
        (
            int(pack_key(name)),
            sum(row["reads"] for row in kept[name]),
            len(molecules[name]),
            len(of[name]),
        )
        for name in names
    ]
    for group in (BELOW, CALLED):
        inside = [
            row
            for name in names
            if (len(molecules[name]) >= least) == (group == CALLED)
            for row in molecules[name]
        ]
        for place in range(32):
            held = Counter(row["draft"][place] for row in inside)
            assert profile.draft[group, place].tolist() == [held[base] for base in "ACGT"]
        for place in range(UMI_BASES):
            held = Counter(row["umi"][place] for row in inside)
            assert profile.umi[group, place].tolist() == [held[base] for base in "ACGT"]
        sizes = Counter(row["reads"].bit_length() - 1 for row in inside)
        assert profile.sizes[group].tolist() == [sizes[size] for size in range(32)]
    assert not any(array.any() for array in one)
