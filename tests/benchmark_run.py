"""Loads and runs the scripts of tests/benchmark."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
BESIDE_PYTHON = Path(sys.executable).parent


def load_benchmark(name: str) -> ModuleType:
    """Import a benchmark's script."""
    path = ROOT / "tests" / "benchmark" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run_benchmark(name: str, *arguments: str, folder: Path) -> str:
    """Run a benchmark by the command of its docstring, with other arguments."""
    script = f"tests/benchmark/{name}.py"
    (line,) = re.findall(r"^ {4}(PYTHONPATH=.*)$", (ROOT / script).read_text(), re.MULTILINE)
    assert line.split()[:3] == ["PYTHONPATH=workflow", "python", script]
    path = f"{BESIDE_PYTHON}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        [sys.executable, script, *arguments], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": "workflow", "TMPDIR": str(folder), "PATH": path},
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout
