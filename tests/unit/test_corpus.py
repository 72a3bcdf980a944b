"""The benchmark corpora are what they say, in small."""

import gzip
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from benchmark_run import BESIDE_PYTHON, load_benchmark, run_benchmark


@pytest.fixture(scope="module")
def corpus() -> ModuleType:
    return load_benchmark("corpus")


@pytest.mark.parametrize("kind", ["const", "q4", "q40", "shallow", "deep"])
def test_corpora_are_what_they_say(corpus: ModuleType, tmp_path: Path, kind: str) -> None:
    reads = 20_000
    corpus.write_corpus(tmp_path / "a.fastq.gz", kind, reads, 1)
    corpus.write_corpus(tmp_path / "b.fastq.gz", kind, reads, 1)
    assert (tmp_path / "a.fastq.gz").read_bytes() == (tmp_path / "b.fastq.gz").read_bytes()
    lines = gzip.decompress((tmp_path / "a.fastq.gz").read_bytes()).decode().split("\n")
    assert len(lines) == 4 * reads + 1
    bases, qualities = lines[1::4], lines[3::4]
    assert {len(line) for line in bases + qualities} == {129}
    assert len(set(lines[::4]) - {""}) == reads
    form = re.compile(r"AA(ACT|AGA|GCC|GGT)CAGTGGTATCAACGCAGAGT([ACGT]{4})T([ACGT]{4})T([ACGT]{4})")
    levels = {"const": 1, "q40": 40}.get(kind, 4)
    assert len(set("".join(qualities))) == levels
    matches = [form.match(line) for line in bases]
    if kind == "const":
        assert all(matches)
    keys = Counter(match.groups() for match in matches if match is not None)
    # At about 6e-3 errors a base nine reads in ten show the pattern and UMI as they were made.
    per_key = {"const": (4, 4), "q4": (3, 4), "q40": (3, 4), "shallow": (1, 1), "deep": (20, 90)}
    low, high = per_key[kind]
    typical = np.median(np.repeat(list(keys.values()), list(keys.values())))
    assert low <= typical
    assert sum(keys.values()) / len(keys) <= high
    adjacent = sum(a[:39] == b[:39] for a, b in pairwise(bases)) / reads
    assert (adjacent > 0.7) == (kind == "const")


def test_corpus_refuses_what_it_cannot_make(corpus: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="corpus kind is 'q5'"):
        corpus.write_corpus(tmp_path / "a.fastq.gz", "q5", 10, 1)
    assert not list(tmp_path.iterdir())


# -- the commands of the benchmarks, as their docstrings give them ---------------------------------


def test_command_of_the_corpora(tmp_path: Path) -> None:
    path = tmp_path / "a.fastq.gz"
    run_benchmark("corpus", "const", "10", str(path), folder=tmp_path)
    assert gzip.decompress(path.read_bytes()).count(b"\n") == 40


@pytest.mark.slow
def test_command_of_the_containers(tmp_path: Path) -> None:
    lines = run_benchmark("container", folder=tmp_path).splitlines()
    assert [line.split("\t")[0] for line in lines] == ["container", "blockfile", "arrow"]


@pytest.mark.slow
def test_command_of_the_side_by_side(corpus: ModuleType, tmp_path: Path) -> None:
    if not BESIDE_PYTHON.joinpath("migec").exists():
        pytest.skip("migec has no wheel for this machine")
    corpus.write_corpus(tmp_path / "a.fastq.gz", "q4", 2000, 1)
    table = tmp_path / "rows.tsv"
    run_benchmark("side_by_side", str(tmp_path / "a.fastq.gz"), str(table), folder=tmp_path)
    rows = [line.split("\t") for line in table.read_text().splitlines()[2:]]
    assert {row[1]: row[2] for row in rows[::-1]} == {"umimill": "probe", "migec": "checkout"}
    assert len(rows) == 6 + 5
