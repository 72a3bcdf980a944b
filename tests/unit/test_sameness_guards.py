"""The comparison of bytes sees what it is there for; other CPUs; run details in outputs.

Two mutants of the package stay here as tests: a writer that depends on the order in which threads
finish, and sums of floats in the order in which reads come.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import math
import os
import platform
import re
import socket
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import sameness_fixture
from pipeline import Knobs, Library, run_pipeline
from sameness_fixture import CLEAN, Base, Watch, different
from umimill import assemble, gather
from umimill.consensus import VOTE_UNITS
from umimill.errors import UmimillError
from umimill.kernels import consensus as kernels

TESTS = Path(__file__).parents[1]

# Fixtures.
bases = sameness_fixture.bases
folder = sameness_fixture.folder
large = sameness_fixture.large
scaled = sameness_fixture.scaled

# -- mutants: the comparison above sees what it is there for -------------------------------------

Results = Iterator[Any]


def newest_first(worker: Any, cells: Iterator[Any], threads: int) -> Results:
    """Append results as they are done, and let the newest of a sample be done first."""
    if threads == 1:
        yield from map(worker.run, cells)
        return
    with ThreadPoolExecutor(threads) as pool:
        pending: list[Any] = []
        for cell in cells:
            pending.append(pool.submit(worker.run, cell))
            if len(pending) > threads:
                samples = [one.result().sample for one in pending]
                yield pending.pop(samples.count(samples[0]) - 1).result()
        for one in pending:
            yield one.result()


def newest_records_first(worker: Any, cells: Iterator[Any], threads: int) -> Results:
    """The same within a sample, of the FASTQ blocks alone: nothing is out of order in a table."""
    results = list(map(worker.run, cells))
    for _, group in itertools.groupby(results, key=lambda result: result.sample):
        members = list(group)
        blocks = [member.blocks for member in members]
        for member, own in zip(members, blocks[:: -1 if threads > 1 else 1], strict=True):
            yield replace(member, blocks=own)


def test_order_dependent_writer_is_refused(
    bases: Callable[[str], Base], scaled: Watch, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = bases("single")
    monkeypatch.setattr(assemble, "_run_ordered", newest_first)
    assert run_pipeline(base.library, folder / "1", CLEAN).hashes() == base.hashes
    with pytest.raises(UmimillError, match="molecules are out of order"):
        run_pipeline(base.library, folder / "2", replace(CLEAN, threads=2))
    # With the check gone, too, its outputs give it away.
    monkeypatch.setattr(gather, "first_unordered", lambda rows: -1)
    mutant = run_pipeline(base.library, folder / "3", replace(CLEAN, threads=2))
    differing = different(mutant.hashes(), base.hashes)
    assert {name.rpartition(".")[2] for name in differing} == {"gz", "parquet"}


def test_order_dependent_records_are_seen(
    bases: Callable[[str], Base], scaled: Watch, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = bases("single")
    monkeypatch.setattr(assemble, "_run_ordered", newest_records_first)
    assert run_pipeline(base.library, folder / "1", CLEAN).hashes() == base.hashes
    mutant = run_pipeline(base.library, folder / "2", replace(CLEAN, threads=2))
    differing = different(mutant.hashes(), base.hashes)
    assert differing == {
        f"samples/{sample}/{sample}.consensus.fastq.gz" for sample in ("A", "b.1", "hot")
    }


def float_votes(kind: type[np.floating[Any]]) -> Callable[..., None]:
    """Return a `call_molecules` that sums log-likelihoods as floats, read after read."""
    whole = kernels.call_molecules

    def call(
        batch: Any, order: Any, given: Any, molecules: Any, model: Any, votes: Any, letters: Any,
        qualities: Any, umi_qualities: Any, hash_sums: Any,
    ) -> None:  # fmt: skip
        whole(
            batch, order, given, molecules, model, votes, letters, qualities, umi_qualities,
            hash_sums,
        )  # fmt: skip
        unused = np.zeros_like(hash_sums[0])
        for molecule in molecules:
            if molecule["kept"] == 0:
                continue
            first, length = int(molecule["first"]), int(molecule["length_1"])
            sums = np.zeros((4, length), kind)
            for row in order[first : first + int(molecule["reads"])].tolist():
                one = batch._replace(
                    hot=batch.hot[row : row + 1],
                    barcode_quality=batch.barcode_quality[row : row + 1],
                    starts=batch.starts[row : row + 1],
                    runs=batch.runs[row : row + 1],
                )
                kernels.add_rows(one, np.arange(1), 1, model, votes, unused)
                said = (votes.planes[0, :, :length] & kernels.VOTE_MASK) / VOTE_UNITS
                error = 3 / (np.exp(said.max(axis=0)) + 3)
                likely = np.where(said > 0, np.log1p(-error), np.log(error / 3))
                # A base that says nothing, says it of all four.
                sums += np.where(said.any(axis=0), likely, 0).astype(kind)
            best = sums.max(axis=0)
            others = np.sort(np.exp(sums - best), axis=0)[:3].sum(axis=0)
            error = others / (1 + others)
            at = int(molecule["offset"])
            known = best < 0
            letters[at : at + length][known] = np.frombuffer(b"ACGT", np.uint8)[
                sums.argmax(axis=0)[known]
            ]
            molecule["error_sum"] = int((error[known].astype(float) * (1 << 40)).sum())

    return call


def test_float_sums_in_arrival_order_are_seen(
    bases: Callable[[str], Base], scaled: Watch, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = bases("single")
    # Rows of one key come part after part. Sums of 64 bits differ as well, but seldom so much that
    # six digits show it.
    monkeypatch.setattr(kernels, "call_molecules", float_votes(np.float32))
    first = run_pipeline(base.library, folder / "1", CLEAN)
    again = run_pipeline(base.library, folder / "2", CLEAN)
    mutant = run_pipeline(base.library, folder / "3", replace(CLEAN, parts=5))
    assert first.hashes() == again.hashes()
    differing = different(mutant.hashes(), first.hashes())
    assert any(name.endswith(".parquet") for name in differing)


# -- another CPU ---------------------------------------------------------------------------------


def float_digests() -> dict[str, str]:
    """Return digests of what the C library and numpy give for exp, log and pow."""
    numbers = [0.001 + 0.0137 * place for place in range(100_000)]
    array = np.array(numbers)
    own = [[math.exp(-one / 10), math.log(one), one**1.37] for one in numbers]
    return {
        "libm": hashlib.sha256(np.array(own).tobytes()).hexdigest(),
        "numpy": hashlib.sha256(np.exp(-array).tobytes() + np.log(array).tobytes()).hexdigest(),
    }


def run_child() -> None:
    """Run what the file sys.argv[1] says and print digests; the entry of the child process."""
    from numba import config

    asked = json.loads(Path(sys.argv[1]).read_text())
    units = {unit: [Path(path) for path in paths] for unit, paths in asked["units"].items()}
    run = run_pipeline(Library(asked["layouts"], units), Path(asked["folder"]), Knobs(buckets=2))
    cpu = [config.CPU_NAME, config.CPU_FEATURES]
    print(json.dumps({"hashes": run.hashes(), "floats": float_digests(), "cpu": cpu}))


def test_same_bytes_on_another_cpu(large: Base, tmp_path: Path) -> None:
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    asked = tmp_path / "asked.json"
    units = {unit: [str(path) for path in paths] for unit, paths in large.library.units.items()}
    layouts = list(large.library.layouts)
    asked.write_text(
        json.dumps({"layouts": layouts, "units": units, "folder": str(tmp_path / "run")})
    )
    features = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (TESTS.parent / "workflow", TESTS))),
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F",
        "NPY_DISABLE_CPU_FEATURES": " ".join(features),
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tmp_path / "kernels"),
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), str(asked)],
        env=environment, check=True, capture_output=True, text=True, timeout=540,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert told["cpu"] == ["generic", ""]
    if platform.machine() == "x86_64":
        flags = Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split()
        own = float_digests()
        assert "fma" not in flags or told["floats"]["libm"] != own["libm"]
        assert "avx512f" not in flags or told["floats"]["numpy"] != own["numpy"]
    assert different(told["hashes"], large.hashes) == set()


# -- run details ---------------------------------------------------------------------------------


def strings_of(path: Path) -> str:
    """Return all that a reader of a data output can see as text, without bases and qualities."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        lines = gzip.decompress(data).decode("ascii").splitlines()
        assert all(set(line) <= set("ACGTN") for line in lines[1::4])
        return "\n".join(lines[0::4] + lines[2::4])
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        table = file.read()
        texts = [json.dumps(row) for row in table.to_pylist()]
        meta = {**(file.metadata.metadata or {}), **(table.schema.metadata or {})}
        texts += [f"{key!r} {value!r}" for key, value in meta.items()]
        return "\n".join([*texts, str(file.metadata.created_by), str(file.schema_arrow)])
    return data.decode("utf-8")


def run_details(text: str, words: Sequence[str]) -> list[str]:
    """Return what a text tells of the run: words, dates, times, @PG."""
    patterns = [rf"(?<!\w){re.escape(word)}(?!\w)" for word in words]
    patterns += [r"@PG", r"\b20\d\d-\d\d-\d\d", r"\b\d\d:\d\d:\d\d\b", r"(?i)\bthreads?\b"]
    patterns += [r"\d+-of-\d+", r"(?i)\bbuckets?\b", r"(?i)\bcores?\b", r"/tmp\b", r"/home\b"]
    return [pattern for pattern in patterns if re.search(pattern, text)]


def test_outputs_tell_nothing_of_the_run(large: Base, folder: Path) -> None:
    run = run_pipeline(large.library, folder, Knobs(buckets=3, threads=2))
    inputs = [path.name for paths in large.library.units.values() for path in paths]
    words = [socket.gethostname(), str(folder), folder.name, str(Path.cwd()), *inputs]
    for name, path in run.outputs.items():
        assert run_details(strings_of(path), words) == [], name
        assert not any(word.encode() in path.read_bytes() for word in words[1:]), name
    planted = [f"@r\tPG:Z:{words[0]}", f"x {folder}/a", inputs[0], "2026-01-31", "09:15:00", "@PG"]
    assert all(run_details(text, words) for text in [*planted, "4 threads", "3-of-4"])


def test_gzip_headers_are_fixed(large: Base) -> None:
    names = [name for name in large.run.outputs if name.endswith(".gz")]
    assert len(names) == 5
    for name in names:
        data = large.run.outputs[name].read_bytes()
        members = 0
        while data:
            # Extra field alone, time 0, no hint of the compressor, unknown system.
            assert data[:16] == bytes.fromhex("1f8b0804 00000000 00ff0600 42430200"), name
            size = int.from_bytes(data[16:18], "little") + 1
            assert zlib.decompressobj(31).decompress(data[:size]) or size == 28
            data, members = data[size:], members + 1
        assert members > 0
        assert size == 28


if __name__ == "__main__":
    run_child()
