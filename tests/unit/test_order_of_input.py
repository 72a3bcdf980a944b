"""What comes out is decided by the reads, not by the order in which they were sequenced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kernel_cases import cases
from pipeline import Knobs, Library, Run, run_pipeline
from sameness_fixture import HEADS, UMI, Reads, roughen, simulated, templates
from umimill.kernels import settle as kernels
from umimill.settle import CORRECTION

SAMPLES = ("hot", "b.1", "A")


@pytest.fixture(scope="module")
def reads() -> list[Reads]:
    """Fewer reads than probe looks at, with errors, chimeras, shifts, N and many lengths."""
    simulation = simulated(seed=7, molecules=700, mean_reads=6.0, chimera_share=0.02)
    return [
        roughen(read, number, levels=False)
        for number, read in enumerate(templates(simulation, b"r"))
    ]


def run_in_order(reads: list[Reads], order: np.ndarray, folder: Path) -> Run:
    folder.mkdir()
    path = folder / "reads.fastq"
    path.write_bytes(b"".join(b"@%s\n%s\n+\n%s\n" % reads[number][0] for number in order))
    layouts = [(sample, head + UMI, None) for sample, head in zip(SAMPLES, HEADS, strict=True)]
    return run_pipeline(Library(tuple(layouts), {"L1": (path,)}), folder, Knobs(buckets=3))


def fates(run: Run) -> pd.DataFrame:
    """Return what became of each read, by name."""
    table = pd.read_parquet(run.outputs["lineage/L1/L1.lineage.parquet"])
    return table.drop(columns="record").sort_values("read", ignore_index=True)


def test_any_order_gives_the_same_bytes(reads: list[Reads], tmp_path: Path) -> None:
    first = run_in_order(reads, np.arange(len(reads)), tmp_path / "as they are")
    assert first.total("settle", "corrected_families") > 100
    assert all(len(first.molecules(sample)) > 100 for sample in SAMPLES)
    expected = first.hashes()
    # The reads that no sample has, and what became of each, are written as they come.
    names = [name for name in expected if "unmatched" not in name and "lineage" not in name]
    assert len(names) > 10
    for seed in (1, 2):
        order = np.random.default_rng(seed).permutation(len(reads))
        run = run_in_order(reads, order, tmp_path / f"order {seed}")
        found = run.hashes()
        assert {name: found[name] for name in names} == {name: expected[name] for name in names}
        pd.testing.assert_frame_equal(fates(run), fates(first))


def test_roots_of_roots_are_themselves() -> None:
    """Settling what is settled changes nothing."""
    chains = 0
    for seed in range(cases(50)):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(2, 60))
        edges = np.zeros(size - 1, CORRECTION)
        # Families 0 .. size - 1, each but the first with a parent above it.
        rank = rng.permutation(size)
        children = np.flatnonzero(rank > 0)
        edges["key"] = children
        edges["root_key"] = [rng.choice(np.flatnonzero(rank < rank[child])) for child in children]
        edges = edges[rng.random(edges.size) < 0.7]
        chains += int(np.isin(edges["root_key"], edges["key"]).sum())
        kernels.follow(edges, edges.copy(), np.zeros(1, CORRECTION))
        again = edges.copy()
        kernels.follow(again, edges, np.zeros(1, CORRECTION))
        assert again.tobytes() == edges.tobytes()
        assert not np.isin(edges["root_key"], edges["key"]).any()
    assert chains > cases(50)
