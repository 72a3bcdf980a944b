"""Files that appear whole or not at all, and their names."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_fixture import files_below, slow_settings
from umimill.files import read_json, temporary_path, whole_file, write_json
from umimill.names import fastq_files, sample_runs, table_files, unmatched_files

HOST = socket.gethostname()


def test_whole_file_takes_its_name_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.txt"
    with whole_file(path) as temporary:
        temporary.write_text("new")
        assert temporary.parent == path.parent
        assert temporary.name.startswith(".a.txt.")
        assert not path.exists()
    assert files_below(tmp_path) == ["folder/a.txt"]
    assert path.read_text() == "new"


@pytest.mark.parametrize("there", [False, True])
def test_error_leaves_what_was_there(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "a.txt"
    if there:
        path.write_text("old")
    with pytest.raises(KeyError), whole_file(path) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise KeyError
    assert files_below(tmp_path) == ["a.txt"] * there
    assert not there or path.read_text() == "old"


def test_what_killed_jobs_left_is_removed(tmp_path: Path) -> None:
    """Of this file, this host and processes that are gone; nothing else."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    gone = f".a.txt.{HOST}.{done.pid}.tmp"
    kept = [
        f".a.txt.{HOST}.{os.getppid()}.tmp",
        f".a.txt.otherhost.{done.pid}.tmp",
        f".b.txt.{HOST}.{done.pid}.tmp",
        f".a.txt.{HOST}.notes.tmp",
        "a.txt.tmp",
    ]
    for name in (gone, *kept):
        (tmp_path / name).touch()
    temporary = temporary_path(tmp_path / "a.txt")
    assert files_below(tmp_path) == sorted(kept)
    assert temporary.name == f".a.txt.{HOST}.{os.getpid()}.tmp"


def test_json(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.json"
    write_json(path, {"b": [1, 2.5, None], "a": "x"})
    assert read_json(path) == {"a": "x", "b": [1, 2.5, None]}
    assert path.read_text().endswith("}\n")
    assert list(json.loads(path.read_text())) == ["a", "b"]
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert files_below(tmp_path) == ["new/a.json"]
    assert read_json(path)["a"] == "x"


def test_names_of_outputs() -> None:
    assert fastq_files("S1", paired=False) == ["results/samples/S1/S1.consensus.fastq.gz"]
    assert fastq_files("S1", paired=True) == [
        "results/samples/S1/S1.consensus_R1.fastq.gz",
        "results/samples/S1/S1.consensus_R2.fastq.gz",
    ]
    assert table_files("S1") == [
        "results/samples/S1/S1.molecules.parquet",
        "results/samples/S1/S1.families.parquet",
        "results/samples/S1/S1.sizes.tsv",
        "results/samples/S1/S1.ledger.tsv",
    ]
    assert table_files("S1", cells=True)[4:] == [
        "results/samples/S1/S1.cells.parquet",
        "results/samples/S1/S1.cell_calls.tsv",
        "results/samples/S1/S1.cell_ranks.tsv",
        "results/samples/S1/S1.cell_profile.tsv",
    ]
    assert unmatched_files("L1", paired=False) == ["results/unmatched/L1/L1.unmatched.fastq.gz"]
    assert unmatched_files("L1", paired=True)[1].endswith("/L1.unmatched_R2.fastq.gz")


@slow_settings(100)
@given(st.integers(1, 1000))
def test_runs_of_samples(count: int) -> None:
    samples = [f"S{number}" for number in range(count)]
    runs = sample_runs(samples)
    assert [sample for run in runs for sample in run] == samples
    assert 1 <= len(runs) <= 16
    sizes = [len(run) for run in runs]
    assert max(sizes) - min(sizes) <= 1
    assert len(runs) == 16 or max(sizes) < 16
