"""The kernels' tests once more as plain Python: wrong indexes raise there instead of reading on."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

from umimill import kernels

ROOT = Path(__file__).parents[2]
# Kernels that are tried in the file of those which call them, or through their stage.
ELSEWHERE = {
    *("answers", "asks", "clusters", "cut", "known", "merges", "move", "near_cells"),
    *("pairs", "partial", "placing", "queries", "search", "settle"),
    *("shifts", "starts", "status", "survey", "tags", "tally", "windows"),
}


@pytest.mark.skipif(config.DISABLE_JIT, reason="the compiler is off already")
def test_kernels_without_the_compiler() -> None:
    files = sorted(str(path) for path in Path(__file__).parent.glob("test_kernels_*.py"))
    tested = {Path(name).stem.removeprefix("test_kernels_") for name in files}
    modules = {module.name for module in pkgutil.iter_modules(kernels.__path__)}
    assert tested <= modules
    assert modules - tested <= ELSEWHERE
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "NUMBA_", "HYPOTHESIS_"))
    }
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        cwd=ROOT,
        env={**environment, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-5000:]
    assert " passed" in result.stdout
