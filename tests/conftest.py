"""Fixtures that all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Kernels are compiled once for all tests, workers and runs; the folder is read when umimill.jit is
# imported, so it is set here.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "numba"))
JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

settings.register_profile("full", deadline=None)
settings.register_profile("few", deadline=None, max_examples=5, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "few" if JIT_OFF else "full"))

DATA_FIXTURES = {"data_folder", "data_file"}


def pytest_configure(config: pytest.Config) -> None:
    """Lets plain numpy wrap around as compiled code does, where the compiler is off."""
    if JIT_OFF:
        config.addinivalue_line("filterwarnings", "ignore:overflow encountered:RuntimeWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that read real data, so that `-m data` and `-m "not data"` work."""
    for item in items:
        if DATA_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("data")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real reads: skips where UMIMILL_TEST_DATA is unset, fails where it is wrong."""
    name = os.environ.get("UMIMILL_TEST_DATA", "")
    if not name:
        pytest.skip("UMIMILL_TEST_DATA is not set")
    folder = Path(name)
    if not folder.is_dir():
        pytest.fail(f"UMIMILL_TEST_DATA is {name}, which is no folder", pytrace=False)
    return folder


@pytest.fixture(scope="session")
def data_file(data_folder: Path) -> Callable[[str], Path]:
    """A function that gives the path of one file of the folder and fails where it is missing."""

    def find(name: str) -> Path:
        path = data_folder / name
        if not path.exists():
            pytest.fail(f"UMIMILL_TEST_DATA has no {name} ({path})", pytrace=False)
        return path

    return find
