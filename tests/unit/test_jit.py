"""The compile wrapper: its cache folder, its primitives, and one signature a kernel."""

from __future__ import annotations

import errno
import fcntl
import importlib
import json
import logging
import os
import pkgutil
import random
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from umimill import jit, kernels
from umimill.jit import count_bits, find_byte, kernel, load_word, store_word

ROOT = Path(__file__).parents[2]
jit_off = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="the compiler is off")


@kernel
def load(buffer: Any, start: int) -> Any:
    return load_word(buffer, start)


@kernel
def store(buffer: Any, start: int, word: Any) -> None:
    store_word(buffer, start, word)


@kernel
def find(buffer: Any, start: int, stop: int, byte: int) -> int:
    return find_byte(buffer, start, stop, byte)


@kernel
def count(word: Any) -> int:
    return count_bits(word)


def test_words_are_little_endian_at_any_place() -> None:
    draw = random.Random(2)
    data = draw.randbytes(40)
    buffer = np.frombuffer(data, np.uint8).copy()
    for start in range(32):
        word = int.from_bytes(data[start : start + 8], "little")
        assert load(buffer, start) == word
        blank = np.zeros(40, np.uint8)
        store(blank, start, np.uint64(word))
        assert blank.tobytes() == bytes(start) + data[start : start + 8] + bytes(32 - start)


def test_find_byte_stays_inside() -> None:
    text = b"abcabc\xff\x00a"
    buffer = np.frombuffer(text, np.uint8).copy()
    for start in range(len(text) + 1):
        for stop in range(start, len(text) + 1):
            for byte in b"abc\xff\x00x":
                assert find(buffer, start, stop, byte) == text.find(byte, start, stop)


def test_bits_are_counted() -> None:
    for word in (0, 1, 2**63, 2**64 - 1, 0x5555555555555555, 0x8000000000000001):
        assert count(np.uint64(word)) == word.bit_count()


# The folder of compiled code


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder named for the cache; numba's own setting is put back afterwards."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "as before")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "a" / "cache"))
    return tmp_path / "a" / "cache" / jit.kernel_digest()


def test_the_folder_is_named_by_the_digest_and_private(folder: Path) -> None:
    assert jit._prepare_cache()
    assert str(folder) == numba.config.CACHE_DIR
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    # And again, as the next job does.
    assert jit._prepare_cache()


def test_without_a_name_it_is_in_the_working_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.chdir(tmp_path)
    assert jit._prepare_cache()
    expected = tmp_path / ".snakemake" / "umimill" / folder.name
    assert str(expected) == numba.config.CACHE_DIR
    assert stat.S_IMODE(expected.stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_made_is_done_without(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.parent.parent.write_text("a file is in the way")
    with caplog.at_level(logging.INFO, "umimill.jit"):
        assert not jit._prepare_cache()
    assert numba.config.CACHE_DIR == "as before"
    (record,) = caplog.records
    assert str(folder) in record.getMessage()


def test_another_user_s_folder_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(parents=True)
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    assert not jit._prepare_cache()
    assert numba.config.CACHE_DIR == "as before"


def test_a_folder_open_to_all_is_not_used(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert not jit._prepare_cache() or stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_digest_changes_with_every_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = Path(jit.__file__).parent
    shutil.copy(package / "jit.py", tmp_path)
    shutil.copytree(package / "kernels", tmp_path / "kernels")
    before = jit.kernel_digest()
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "jit.py"))
    assert jit.kernel_digest() == before
    met = {before}
    for source in (tmp_path / "jit.py", *sorted((tmp_path / "kernels").glob("*.py"))):
        source.write_text(source.read_text() + "\n")
        met.add(jit.kernel_digest())
    assert len(met) == 2 + len(list((tmp_path / "kernels").glob("*.py")))


def run(code: str, environment: Mapping[str, str], *arguments: str) -> str:
    """Run Python in a process of its own and return what it prints."""
    paths = os.pathsep.join(str(ROOT / name) for name in ("workflow", "tests"))
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


CALL = """
import numpy as np
from umimill.kernels.fastq import name_length
print(name_length(np.frombuffer(b"r1/1 x", np.uint8).copy(), 0, 6),
      sum(name_length.stats.cache_hits.values()))
"""


@jit_off
def test_the_next_process_finds_the_code(tmp_path: Path) -> None:
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert [run(CALL, cache) for _ in range(2)] == ["2 0", "2 1"]


@jit_off
def test_kernels_run_without_a_cache(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert run(CALL, {"NUMBA_CACHE_DIR": str(tmp_path / "file" / "cache")}) == "2 0"


WAITING = CALL.replace("print", "print('started', flush=True)\nprint")


@jit_off
def test_a_job_waits_for_another_that_compiles(tmp_path: Path) -> None:
    """It starts with no code in the cache and ends with that of the other."""
    full, empty = tmp_path / "full", tmp_path / "empty"
    run(CALL, {"NUMBA_CACHE_DIR": str(full)})
    digest = jit.kernel_digest()
    (empty / digest).mkdir(mode=0o700, parents=True)
    held = jit.wait_for_lock(empty / digest / "umimill.kernels.fastq.name_length.lock")
    assert held is not None
    paths = os.pathsep.join(str(ROOT / name) for name in ("workflow", "tests"))
    with subprocess.Popen(
        [sys.executable, "-c", WAITING],
        env={**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(empty)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        shutil.copytree(full / digest, empty / digest, dirs_exist_ok=True)
        held.close()
        assert process.stdout.read() == "2 1\n"


def test_locks_that_cannot_be_had_are_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert jit.wait_for_lock(tmp_path / "none" / "lock") is None
    held = jit.wait_for_lock(tmp_path / "lock")
    assert held is not None
    assert jit.wait_for_lock(tmp_path / "lock", 0.1) is None
    held.close()
    again = jit.wait_for_lock(tmp_path / "lock", 0.1)
    assert again is not None
    again.close()

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert jit.wait_for_lock(tmp_path / "lock") is None


# Signatures


def kernel_signatures() -> dict[str, list[str]]:
    """Return what each kernel was compiled for in this process, those that Python calls."""
    found = {}
    for module in pkgutil.iter_modules(kernels.__path__):
        members = vars(importlib.import_module(f"umimill.kernels.{module.name}"))
        for name, member in members.items():
            if (
                isinstance(member, numba.core.dispatcher.Dispatcher)
                and member.py_func.__module__.endswith(module.name)
                and not member.targetoptions.get("no_cpython_wrapper")
            ):
                found[f"{module.name}.{name}"] = [str(one) for one in member.signatures]
    return found


LAYOUTS = {
    "searched": ([("a", "ACGTACGTACNNNN", ""), ("b", "TTGCATTGCANNNN", "")], 1),
    "both mates": ([("a", "ACGTACGTACNNNN", "^NN"), ("b", "TTGCATTGCANNNN", "2M+T")], 2),
    "anchored": ([("a", "^ACGTACXXNNNN", "^NN"), ("b", "^TTGCATNNNN", "4M+T")], 2),
}


def write_library(folder: Path, name: str) -> list[Path]:
    """Write reads of a small library, some with N, some foreign, some with errors in the UMI."""
    rows, mates = LAYOUTS[name]
    draw = random.Random(name)
    lines: list[list[str]] = [[] for _ in range(mates)]
    templates: dict[tuple[str, int], str] = {}
    for number in range(600):
        tag = draw.choice(["ACGTACGTAC", "TTGCATTGCA"])[: 6 if name == "anchored" else 10]
        # The second sample has one key, which is a cell of its own.
        umi = draw.choice(["AAAA", "ACGT", "TTGA"]) if tag.startswith("A") else "CCCC"
        # Each key has two molecules; one read in four says so little that its UMI is in doubt.
        molecule = f"{tag}{umi}{draw.random() < 0.2}"
        doubt = tag.startswith("A") and draw.random() < 0.25
        if doubt:
            umi = draw.choice("ACGT") + umi[1:3] + draw.choice("ACGT")
        if number % 20 == 3:
            umi = "N" + umi[1:]
        for mate in range(mates):
            front = draw.choice(["", "GG"]) if mates == 1 else ""
            head = front + tag + umi if mate == 0 else "AC"
            template = templates.setdefault(
                (molecule, mate), "".join(draw.choices("ACGT" * 20 + "N", k=60))
            )
            bases = head + template[: draw.randint(20, 60)]
            if number % 50 == 0:
                bases = "G" * len(bases)
            values = draw.choices("#,7F" if number < 300 else "#,7FIJK", k=len(bases))
            if doubt:
                values[: len(head)] = draw.choices("#,", k=len(head))
            lines[mate] += [f"@{number}", bases, "+", "".join(values)]
    paths = [folder / f"{name}_R{mate + 1}.fastq" for mate in range(mates)]
    for path, text in zip(paths, lines, strict=True):
        path.write_text("\n".join(text) + "\n")
    assert len(rows) == 2
    return paths


def run_stages(folder: Path, name: str) -> None:
    """Run all stages, with and without memory for what they hold."""
    from pipeline import Knobs, Library, run_pipeline

    rows, _ = LAYOUTS[name]
    library = Library(rows, {"u": tuple(write_library(folder, name))})
    ample = Knobs(buckets=2, parts=2, record_block=128)
    scarce = replace(
        ample, staging_bytes=1, tally_bytes=1, table_bytes=1, block_bytes=1, batch_bytes=2000
    )
    runs = [
        run_pipeline(library, folder / str(number), knobs)
        for number, knobs in enumerate((ample, scarce))
    ]
    for counter, stage in (
        ("answers", "settle"),
        ("moved_rows", "move"),
        ("asks", "link"),
        ("queries", "settle"),
    ):
        assert runs[0].total(stage, counter) > 0, counter
    assert runs[1].total("link", "sibling_pairs") > 0
    assert runs[1].total("tally", "streamed") > 0


def run_listed(folder: Path) -> None:
    """Run all stages of a library with a list of cells."""
    from cell_fixture import CELL, UMI, make_cells
    from pipeline import Knobs, Library, run_pipeline

    cells = make_cells(folder / "reads", reads=1500)
    layout = "^" + "X" * CELL + "N" * UMI
    library = Library((("S1", layout, None),), cells.units, cell_list=cells.cell_list)
    for number, size in enumerate((None, 1)):
        run_pipeline(
            library, folder / str(number), Knobs(parts=2, staging_bytes=size, tally_bytes=size)
        )


STAGES = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import test_jit
for name in test_jit.LAYOUTS:
    folder = Path(sys.argv[1]) / name
    folder.mkdir()
    test_jit.run_stages(folder, name)
test_jit.run_listed(Path(sys.argv[1]))
print(json.dumps(test_jit.kernel_signatures()))
"""


REFINE = {"forest", "methods"}


@jit_off
def test_each_kernel_is_compiled_once(tmp_path: Path) -> None:
    """An argument of another type would cost every job seconds."""
    found = json.loads(run(STAGES, {}, str(tmp_path), str(Path(__file__).parent)))
    several = {name: len(signatures) for name, signatures in found.items() if len(signatures) > 1}
    # Rows of a partition up to a family or to another row; queries are sorted as rows are.
    assert several == {"families.rows_through": 2, "rows.sort_rows": 2}
    unused = {name for name, signatures in found.items() if not signatures}
    # Kernels of a stage that is not there yet.
    unused = {name for name in unused if name.split(".")[0] not in REFINE}
    # These are used by other kernels alone.
    alone = {"fastq.mate_number", "fastq.name_length", "rows.radix_sort", "score.sum_near"}
    assert unused <= alone
