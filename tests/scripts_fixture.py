"""A clone with the scripts alone, and stand-ins for Python and the tools that they call."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

CLONE = Path(__file__).parents[1]

# Answers what environment.sh asks of a Python and of pip. Its pip makes tools that write down how
# they were called, and can be told to be slow, to fail or to have its caller killed.
FAKE_PYTHON = r"""#!/bin/bash
case "$1 $2" in
    "-c "*version*) echo "${FAKE_VERSION:-3.13}" ;;
    "-c "*ensurepip*) exit "${FAKE_NO_VENV:-0}" ;;
    "-m accuracy") echo "accuracy|$PWD|$PYTHONPATH|$UMIMILL_UMI_TOOLS|${*:3}" >>"$FAKE_LOG" ;;
    "-P -c") PYTHONPATH=$FAKE_MODULES exec "$REAL_PYTHON" "$@" ;;
    "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    "-m pip")
        echo "pip $*" >>"$FAKE_LOG"
        sleep "${FAKE_PIP_SECONDS:-0}"
        [[ -z ${FAKE_PIP_KILL:-} ]] || { kill -9 "$PPID"; exit 1; }
        [[ -z ${FAKE_PIP_ERROR:-} ]] || { echo "ERROR: $FAKE_PIP_ERROR"; exit 1; }
        tools='snakemake ruff mypy snakefmt pytest'
        [[ $* != *--no-binary* ]] || tools=umi_tools
        for tool in $tools; do
            cp "$FAKE_TOOL" "${0%/*}/$tool"
        done
        ;;
esac
"""
# Stands for the module snakemake.cli where run.sh starts Snakemake inside Python.
FAKE_CLI = """
import os, sys

def main():
    with open(os.environ["FAKE_LOG"], "a") as log:
        print("snakemake", os.getcwd(), *sys.argv[1:], sep="|", file=log)
        print("snakemake is process", os.getpid(), file=log)
    sys.exit(int(os.environ.get("FAKE_STATUS", "0")))
"""
FAKE_TOOL = r"""#!/bin/bash
name=${0##*/}
printf '%s|%s' "$name" "$PWD" >>"$FAKE_LOG"
printf '|%s' "$@" >>"$FAKE_LOG"
echo >>"$FAKE_LOG"
echo "$name is process $$" >>"$FAKE_LOG"
sleep "${FAKE_TOOL_SECONDS:-0}"
echo "$name ends, data=${UMIMILL_TEST_DATA:-}, path=${PYTHONPATH:-}" \
    "peer=${UMIMILL_UMI_TOOLS:-}" >>"$FAKE_LOG"
[[ "$name $1" != "${FAKE_TOOL_ERROR:-}" ]]
"""
TOOLS = (
    "bash cat cp cut dirname flock grep mkdir mv readlink realpath rm sha256sum sleep tail uname"
)


@dataclass(frozen=True)
class Place:
    """A clone with the scripts and locks alone, and a PATH with the stand-in for Python."""

    clone: Path
    bin: Path
    log: Path
    environment: dict[str, str]

    def start(self, *command: str, cwd: Path | None = None, **fake: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", str(self.clone / command[0]), *command[1:]],
            cwd=cwd or self.clone,
            env=self.environment | fake,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, *command: str, cwd: Path | None = None, **fake: str
    ) -> subprocess.CompletedProcess[str]:
        process = self.start(*command, cwd=cwd, **fake)
        output, errors = process.communicate(timeout=60)
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def calls(self, tool: str) -> list[list[str]]:
        """How a tool was called: [[working directory, argument, ...], ...]."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.split("|")[1:] for line in lines if line.startswith(f"{tool}|")]

    def set_ups(self) -> int:
        return self.log.read_text().count("pip -m pip") if self.log.exists() else 0


def write_executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def copy_scripts(clone: Path) -> None:
    for folder in ("scripts", "envs", ".ci"):
        shutil.copytree(CLONE / folder, clone / folder)
    (clone / "config").mkdir()
    (clone / "config" / "config.yaml").write_text("")
