"""The model of a library: what it says of simulated samples, and what it must not depend on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import score_fixture
import score_judge
from score_fixture import World
from score_judge import library_of
from umimill import census
from umimill.blockfile import BlockFile
from umimill.metrics import Meter
from umimill.model import add_sums, common_tables, model, read_estimates, read_model, read_tables

SHALLOW = World(molecules=2_500, depth=1.5)


def make_model(folder: Path, parts: list[dict[str, Any]], samples: list[str], width: int) -> bytes:
    plan = score_fixture.write_plan(folder / "plan", samples, [width] * len(samples))
    tables = [
        score_fixture.write_sums(folder / f"{number}.families", part)
        for number, part in enumerate(parts)
    ]
    model(plan, tables, folder / "model", Meter("model", "l", 8000))
    return (folder / "model").read_bytes()


def said(folder: Path) -> tuple[Any, ...]:
    """Return all that a model says, the list of the families' tables aside."""
    path = folder / "model"
    with BlockFile(path) as file:
        rest = {name: value for name, value in file.header.items() if name != "tables"}
        return path.read_bytes()[: file._data_bytes], file._arrays, rest


# What it must not depend on


def test_buckets_do_not_matter(tmp_path: Path) -> None:
    library = library_of(SHALLOW)
    rows = np.arange(library.families.size)
    # More draws than are kept, in all and in one bucket.
    assert rows.size > score_fixture.MOST_DRAWS
    make_model(tmp_path, [score_fixture.sums(library)], ["s"], library.width)
    whole = said(tmp_path)
    draw = random.Random(1)
    for cuts in ([200], [0, rows.size // 2], sorted(draw.sample(range(rows.size), 6))):
        parts = [score_fixture.sums(library, part) for part in np.split(rows, cuts)]
        for ordered in (parts, parts[::-1]):
            make_model(tmp_path, ordered, ["s"], library.width)
            assert said(tmp_path) == whole
            paths = [tmp_path / f"{number}.families" for number in range(len(parts))]
            assert read_tables(tmp_path / "model") == paths


def test_draws_are_the_least_hashes_of_each_sample(tmp_path: Path) -> None:
    library = library_of(SHALLOW)
    rows = np.arange(library.families.size)
    parts = [
        score_fixture.sums(library, part, sample, 2)
        for part in np.split(rows, [500, 1800])
        for sample in (0, 1)
    ]
    tables = [
        score_fixture.write_sums(tmp_path / str(number), part) for number, part in enumerate(parts)
    ]
    draws = add_sums(tables, 2, Meter("model", "l", 8000))["draws"]
    wanted = score_fixture.sums(library)["draws"]["hash"]
    for sample in (0, 1):
        assert draws["hash"][draws["sample"] == sample].tolist() == wanted.tolist()


def test_other_samples_do_not_matter(tmp_path: Path) -> None:
    library, other = library_of(SHALLOW), library_of(World(molecules=300, depth=9, seed=4))
    make_model(tmp_path, [score_fixture.sums(library)], ["s"], library.width)
    alone, said = read_model(tmp_path / "model"), read_estimates(tmp_path / "model")["s"]
    parts = [
        score_fixture.sums(other, sample=0, samples=3),
        score_fixture.sums(library, None, 2, 3),
    ]
    make_model(tmp_path, parts, ["a", "empty", "s"], library.width)
    among = read_model(tmp_path / "model")
    assert read_estimates(tmp_path / "model")["s"] == said
    for name in alone._fields:
        one, several = getattr(alone, name), getattr(among, name)
        if name in common_tables():
            assert np.array_equal(one, several)
        else:
            assert several.shape == (3, *one.shape[1:])
            assert np.array_equal(one[0], several[2])


CPU = """
import sys
from pathlib import Path
import numpy as np
sys.path[:0] = sys.argv[2:]
from umimill.model import model
from umimill.metrics import Meter
folder = Path(sys.argv[1])
model(folder / "plan", [folder / "0.families"], folder / "again", Meter("model", "l", 8000))
"""


def test_the_cpu_does_not_matter(tmp_path: Path) -> None:
    library = library_of(SHALLOW)
    whole = make_model(tmp_path, [score_fixture.sums(library)], ["s"], library.width)
    dispatched = np._core._multiarray_umath.__cpu_dispatch__  # type: ignore[attr-defined]
    there = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    environment = {
        **os.environ,
        "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in dispatched if there[name]),
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F",
    }
    workflow = str(Path(census.__file__).parents[1])
    subprocess.run(
        [sys.executable, "-c", CPU, str(tmp_path), workflow], env=environment, check=True
    )
    assert (tmp_path / "again").read_bytes() == whole


# Samples with next to nothing


def tiny(reads: list[int]) -> dict[str, Any]:
    """Sums of families of one key each, all of one payload."""
    library = library_of(World(molecules=max(1, len(reads)), depth=1.5, clones=1, seed=9))
    library.families["reads"][: len(reads)] = reads
    return score_fixture.sums(library, np.arange(len(reads)))


@pytest.mark.parametrize("reads", [[], [1], [5], [1, 1], [100_000, 1, 1]])
def test_samples_with_next_to_nothing_are_valid(tmp_path: Path, reads: list[int]) -> None:
    make_model(tmp_path, [tiny(reads)], ["s"], 4)
    said = read_estimates(tmp_path / "model")["s"]
    assert said["families"] == len(reads)
    assert said["error_census"] is None
    edge_model = read_model(tmp_path / "model")
    for array in edge_model:
        assert array.dtype in (np.int64, np.uint64)
        assert array.flags.c_contiguous
    library = library_of(World(molecules=50, depth=4, seed=3))
    first, second, position = score_fixture.neighbours(library)
    children, terms = np.zeros(first.size, np.int64), np.zeros((first.size, 4), np.int64)
    score_judge.score_edges(
        library.families, library.quality, first, second, position, edge_model, children, terms
    )
    assert first.size > 0
    assert (np.abs(terms) < 1 << 30).all()


def test_no_floats_in_the_file_but_those_of_the_report(tmp_path: Path) -> None:
    make_model(tmp_path, [tiny([3, 1])], ["s"], 4)
    with BlockFile(tmp_path / "model") as file:
        for name in ("misread", "sizes", "unrelated", "families"):
            assert file.read(name).dtype == np.int64
        for value in file.header["samples"]["s"].values():
            assert not isinstance(value, float) or value == float(f"{value:.6g}")
