"""Files that appear whole or not at all."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def temporary_path(path: Path) -> Path:
    """Return a name beside `path` to write under, and remove what killed jobs left there.

    The name holds host and process, so that a job that outlived its Snakemake and the job of the
    next run never write into one file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    host = socket.gethostname()
    for leftover in path.parent.glob(f".{path.name}.{host}.*.tmp"):
        process = leftover.name.removesuffix(".tmp").rsplit(".", 1)[1]
        if process.isdecimal() and not Path(f"/proc/{process}").exists():
            leftover.unlink(missing_ok=True)
    return path.with_name(f".{path.name}.{host}.{os.getpid()}.tmp")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary path to write; rename it to `path` at the end, remove it on an error."""
    temporary = temporary_path(path)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON with sorted keys, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text())
