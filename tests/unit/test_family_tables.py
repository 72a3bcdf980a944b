"""families.parquet: each column is what the arrays say, and null where there is no parent."""

from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from stage_fixture import key_text
from umimill import family_tables
from umimill.blockfile import BlockWriter
from umimill.edge_numbers import differing_bases, posteriors
from umimill.family_tables import FAMILIES, write_families
from umimill.fates import FATE
from umimill.link import EDGE
from umimill.tables import six_digits
from umimill.tally import FAMILY

STATUSES = ("molecule", "chimera_suspect", "unresolved")


def exact_posterior(score: int) -> float:
    """Return the posterior to six significant digits, by exact arithmetic."""
    with localcontext() as context:
        context.prec = 60
        value = 1 / (1 + (Decimal(-score) / 1024).exp())
        return float(f"{value:.5e}")


def test_posteriors_are_exact_to_six_digits() -> None:
    rng = np.random.default_rng(1)
    scores = np.concatenate(
        [
            np.arange(-3000, 3000, 7),
            rng.integers(-40_000, 40_000, 3000),
            [0, 1, -1, 1023, 1024, 1025, -1024, 3015, -36 * 1024, 65_535, 65_536],
        ]
    ).astype(np.int64)
    found = six_digits(posteriors(scores)).tolist()
    expected = [exact_posterior(score) for score in scores.tolist()]
    # Below 10^-16 the table holds 0.
    pairs = [(a, 0.0 if b < 1e-16 else b) for a, b in zip(found, expected, strict=True)]
    assert max(abs(a - b) for a, b in pairs) < 1e-12
    for a, b in pairs:
        assert a == pytest.approx(b, rel=1e-12)


def test_posteriors_of_scores_out_of_reach() -> None:
    scores = np.array([1 << 30, -(1 << 30), -(1 << 31), 64 * 1024, 10**6], np.int64)
    assert six_digits(posteriors(scores)).tolist() == [1.0, 0.0, 0.0, 1.0, 1.0]


def random_arrays(rng: np.random.Generator, count: int, cell: int) -> tuple[Any, Any, Any]:
    families, fates, edges = np.zeros(count, FAMILY), np.zeros(count, FATE), np.zeros(count, EDGE)
    length = 9
    shift = np.uint64(64 - 2 * (cell + length))
    for array, name in ((families, "key"), (fates, "root_key"), (edges, "parent_key")):
        array[name] = rng.integers(0, 4 ** (cell + length), count).astype(np.uint64) << shift
    families["cell_length"], families["umi_length"] = cell, length
    families["reads"], families["family"] = rng.integers(1, 2**31, count), np.arange(count) % 4096
    families["flags"] = rng.integers(0, 2, count)
    fates["reads"], fates["families"] = rng.integers(1, 2**40, count), rng.integers(1, 999, count)
    fates["moved"] = rng.integers(0, 2, count)
    fates["root_family"] = rng.integers(0, 4096, count)
    fates["status"] = np.where(fates["moved"], 0, rng.integers(0, 3, count))
    edges["score"] = rng.integers(-9000, 9000, count)
    edges["parent_reads"] = np.where(rng.random(count) < 0.3, 0, rng.integers(1, 2**32, count))
    edges["parent_family"] = rng.integers(0, 4096, count)
    for name in ("ln_error", "ln_independent", "payload"):
        edges[name] = rng.integers(-90_000, 90_000, count)
    orphan = edges["parent_reads"] == 0
    edges["score"][orphan] = -(1 << 31)
    return families, fates, edges


@pytest.mark.parametrize("cell", [0, 4])
def test_columns_agree_with_the_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: int
) -> None:
    monkeypatch.setattr(family_tables, "READ_FAMILIES", 13)
    rng = np.random.default_rng(2)
    families, fates, edges = random_arrays(rng, 60, cell)
    held = []
    for start, stop in ((0, 25), (25, 60)):
        for name, arrays in (
            ("families", {"families": families}),
            ("fates", {"fates": fates, "edges": edges}),
        ):
            with BlockWriter(tmp_path / f"{start}.{name}") as writer:
                for kind, array in arrays.items():
                    writer.add(kind, array[start:stop])
                writer.finish({})
        paths = [str(tmp_path / f"{start}.{name}") for name in ("families", "fates")]
        # Of the second file, the first rows are another sample's.
        first = 0 if start == 0 else 5
        held.append((*paths, first, stop - start))
    write_families({"families": held, "partials": [], "sample": "S1"}, tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.schema.equals(FAMILIES)
    rows = found.to_pylist()
    wanted = [*range(25), *range(30, 60)]
    assert len(rows) == len(wanted)
    for row, number in zip(rows, wanted, strict=True):
        family, fate, edge = families[number], fates[number], edges[number]
        moved, orphan = fate["moved"] == 1, edge["parent_reads"] == 0

        def umi(key: Any) -> str:
            return key_text(int(key), cell + 9)[cell:]

        parent = None if orphan else umi(edge["parent_key"])
        both = (key_text(int(one), cell + 9) for one in (family["key"], edge["parent_key"]))
        expected = {
            "sample": "S1",
            "cell": key_text(int(family["key"]), cell) if cell else None,
            "umi": umi(family["key"]),
            "family": int(family["family"]) + 1,
            "reads": int(family["reads"]),
            "status": "corrected" if moved else STATUSES[fate["status"]],
            "molecule_umi": umi(fate["root_key"]),
            "molecule_family": int(fate["root_family"]) + 1,
            "molecule_reads": None if moved else int(fate["reads"]),
            "molecule_families": None if moved else int(fate["families"]),
            "parent_umi": parent,
            "parent_family": None if orphan else int(edge["parent_family"]) + 1,
            "parent_reads": None if orphan else int(edge["parent_reads"]),
            "distance": None if orphan else sum(a != b for a, b in zip(*both, strict=True)),
            "posterior": None if orphan else exact_posterior(int(edge["score"])),
            "ln_error": None if orphan else int(edge["ln_error"]) / 1024,
            "ln_independent": None if orphan else int(edge["ln_independent"]) / 1024,
            "ln_payload": None if orphan else int(edge["payload"]) / 1024,
            "flags": "overfull" if family["flags"] & 1 else "",
        }
        row["posterior"] = row["posterior"] and pytest.approx(row["posterior"], rel=1e-12)
        assert row == expected
    assert sum(row["parent_umi"] is None for row in rows) > 5
    assert {row["status"] for row in rows} == {*STATUSES, "corrected"}


def test_a_sample_without_families_has_an_empty_table(tmp_path: Path) -> None:
    write_families({"families": [], "partials": [], "sample": "S1"}, tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.num_rows == 0
    assert found.schema.equals(FAMILIES)


def test_differing_bases() -> None:
    keys = np.array([0, 0, 1 << 63, 2**64 - 1, 0x5 << 60], np.uint64)
    others = np.array([0, 3, 0, 0, 0xA << 60], np.uint64)
    assert differing_bases(keys, others).tolist() == [0, 1, 1, 32, 2]
