"""scripts/run.sh, scripts/test.sh and .ci/run.

Set-up is tried with a stand-in for Python that makes an environment in no time, and once for real
(mark slow).
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts_fixture import (
    FAKE_CLI,
    FAKE_PYTHON,
    FAKE_TOOL,
    TOOLS,
    Place,
    copy_scripts,
    write_executable,
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    clone, folder, log = tmp_path / "clone", tmp_path / "bin", tmp_path / "log"
    copy_scripts(clone)
    folder.mkdir()
    for tool in TOOLS.split():
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    write_executable(folder / "python3.13", FAKE_PYTHON)
    write_executable(folder / "tool", FAKE_TOOL)
    module = tmp_path / "modules" / "snakemake"
    module.mkdir(parents=True)
    (module / "__init__.py").write_text("")
    (module / "cli.py").write_text(FAKE_CLI)
    environment = {
        "PATH": str(folder),
        "FAKE_LOG": str(log),
        "FAKE_TOOL": str(folder / "tool"),
        "FAKE_MODULES": str(module.parent),
        "REAL_PYTHON": sys.executable,
        "PYTHONPATH": "/nowhere",
    }
    return Place(clone, folder, log, environment)


def is_one_line(text: str, *parts: str) -> bool:
    return text.count("\n") == 1 and text.endswith("\n") and all(part in text for part in parts)


def test_set_up_is_done_once(place: Place, tmp_path: Path) -> None:
    first = place.run("scripts/run.sh", "--version")
    assert first.returncode == 0, first.stderr
    assert is_one_line(first.stderr, "run.sh: making", "once")
    lock = place.clone / "envs" / "run.lock"
    pip = place.log.read_text().splitlines()[0]
    assert "--require-hashes --only-binary :all:" in pip
    assert pip.endswith(f"-r {lock}")

    elsewhere = tmp_path / "other wörk"
    (elsewhere / "config").mkdir(parents=True)
    (elsewhere / "config" / "config.yaml").write_text("")
    start = time.perf_counter()
    second = place.run("scripts/run.sh", "--version", cwd=elsewhere)
    assert time.perf_counter() - start < 5
    assert (second.returncode, second.stderr) == (0, "")
    assert place.set_ups() == 1
    assert [call[0] for call in place.calls("snakemake")] == [str(place.clone), str(elsewhere)]
    assert "path=/nowhere" not in place.log.read_text()


def test_set_up_is_done_again_when_the_lock_or_the_place_changes(
    place: Place, tmp_path: Path
) -> None:
    assert place.run("scripts/run.sh", "-n").returncode == 0
    with (place.clone / "envs" / "run.lock").open("a") as lock:
        lock.write("# changed\n")
    assert place.run("scripts/run.sh", "-n").returncode == 0
    assert place.set_ups() == 2
    place.clone.rename(tmp_path / "moved")
    moved = Place(tmp_path / "moved", place.bin, place.log, place.environment)
    assert moved.run("scripts/run.sh", "-n").returncode == 0
    assert place.set_ups() == 3


def test_killed_set_up_is_done_again(place: Place) -> None:
    killed = place.run("scripts/run.sh", "-n", FAKE_PIP_KILL="yes")
    assert killed.returncode == -signal.SIGKILL
    assert (place.clone / ".venv" / "bin" / "python").exists()
    assert place.run("scripts/run.sh", "-n").returncode == 0
    assert place.set_ups() == 2
    assert len(place.calls("snakemake")) == 1


def test_simultaneous_runs_share_one_set_up(place: Place) -> None:
    runs = [place.start("scripts/run.sh", "-n", FAKE_PIP_SECONDS="1") for _ in range(3)]
    for run in runs:
        _, errors = run.communicate(timeout=60)
        assert run.returncode == 0, errors
    assert place.set_ups() == 1
    assert len(place.calls("snakemake")) == 3


def test_environment_in_use_is_not_replaced(place: Place) -> None:
    assert place.run("scripts/run.sh", "-n").returncode == 0
    running = place.start("scripts/run.sh", "-n", FAKE_TOOL_SECONDS="2")
    while len(place.calls("snakemake")) < 2:
        time.sleep(0.05)
    with (place.clone / "envs" / "run.lock").open("a") as lock:
        lock.write("# changed\n")
    second = place.run("scripts/run.sh", "-n")
    running.communicate(timeout=60)
    assert (running.returncode, second.returncode) == (0, 0)
    assert "run.sh: waiting for another command" in second.stderr
    events = [line.split()[0].split("|")[0] for line in place.log.read_text().splitlines()]
    assert " ".join(events[4:]) == "snakemake snakemake snakemake pip snakemake snakemake snakemake"


def test_finished_environment_needs_no_writing(place: Place) -> None:
    assert place.run("scripts/run.sh", "-n").returncode == 0
    (place.clone / ".venv.lock").unlink()
    (place.clone / ".venv.lock").mkdir()  # cannot be opened, as in a clone of another user
    run = place.run("scripts/run.sh", "-n")
    assert (run.returncode, run.stderr) == (0, "")


def test_failed_set_up_says_why(place: Place) -> None:
    run = place.run("scripts/run.sh", "-n", FAKE_PIP_ERROR="no such host")
    assert run.returncode == 1
    _making, reason, last = run.stderr.splitlines()
    assert reason == "ERROR: no such host"
    assert last.startswith("run.sh: could not make ")
    log = Path(last.split("the whole log is ")[1])
    assert "ERROR: no such host" in log.read_text()
    assert place.calls("snakemake") == []
    assert place.run("scripts/run.sh", "-n").returncode == 0
    assert not log.exists()


CORES_GIVEN = """-c4;-c 4;-c;--cores=4;--cores 4;--core 4;-j2;-j 2;--jobs 2;--jobs=2;-nc4;-npj 4
--profile x;--profile=x;--workflow-profile x;-e slurm;-eslurm;--executor slurm;--executor=slurm
target -c 4;--config key=1 --cores 4""".replace("\n", ";").split(";")
CORES_NOT_GIVEN = """-n;--unlock;--lint;target;-np;--config cores=3;--jobname x;-s Snakefile;-qk
--export-cwl x;--conda-prefix x;-- -c4;-C cores=2;--default-resources mem_mb=1
--set-resources a:mem_mb=1""".replace("\n", ";").split(";")


@pytest.mark.parametrize(
    ("arguments", "added"),
    [*((case, False) for case in CORES_GIVEN), *((case, True) for case in CORES_NOT_GIVEN)],
)
def test_cores_are_added_only_where_not_given(place: Place, arguments: str, *, added: bool) -> None:
    run = place.run("scripts/run.sh", *arguments.split())
    assert run.returncode == 0, run.stderr
    (call,) = place.calls("snakemake")
    split = len(call) - len(arguments.split())
    assert call[split:] == arguments.split()
    assert (call[split - 2 : split] == ["--cores", "all"]) is added
    assert ("--snakefile" in call[:split]) is ("-s" not in arguments.split())


@pytest.mark.parametrize("name", ["profiles/default", "default"])
def test_default_profile_stands_for_cores(place: Place, name: str) -> None:
    (place.clone / name).mkdir(parents=True)
    place.run("scripts/run.sh", "-n")
    place.run("scripts/run.sh", "-n", SNAKEMAKE_PROFILE="x")
    assert all("--cores" not in call for call in place.calls("snakemake"))


@pytest.mark.parametrize(
    ("arguments", "here"),
    [
        ("-n", False),
        ("--config parts=2", False),
        ("-d run", True),
        ("--directory=run", True),
        ("--configfile own.yaml", True),
        ("-s Snakefile", True),
        ("--snakefile=Snakefile", True),
    ],
)
def test_folder_without_config_runs_the_clone(
    place: Place, tmp_path: Path, arguments: str, *, here: bool
) -> None:
    elsewhere = tmp_path / "empty"
    elsewhere.mkdir()
    run = place.run("scripts/run.sh", *arguments.split(), cwd=elsewhere)
    assert run.returncode == 0, run.stderr
    (call,) = place.calls("snakemake")
    assert ("|".join(["--directory", str(place.clone)]) in "|".join(call)) is not here
    assert ("no config/config.yaml in" in run.stderr) is not here


def test_without_arguments_says_where_the_report_is(place: Place, tmp_path: Path) -> None:
    report = place.clone / "results" / "report" / "index.html"
    assert place.run("scripts/run.sh").stdout == ""
    report.parent.mkdir(parents=True)
    report.write_text("")
    for cwd in (place.clone, tmp_path):
        run = place.run("scripts/run.sh", cwd=cwd)
        assert (run.returncode, run.stdout) == (0, f"The report is {report}\n")
    failed = place.run("scripts/run.sh", FAKE_STATUS="1")
    assert (failed.returncode, failed.stdout) == (1, "")
    options = ["--snakefile", str(place.clone / "Snakefile"), "--cores", "all"]
    assert place.calls("snakemake")[0][1:] == options


@pytest.mark.parametrize("arguments", [(), ("-n",)], ids=["bare", "arguments"])
def test_snakemake_takes_the_place_of_the_script(place: Place, arguments: tuple[str, ...]) -> None:
    # So signals reach it, and its exit status is the script's.
    process = place.start("scripts/run.sh", *arguments)
    process.communicate(timeout=60)
    assert f"snakemake is process {process.pid}\n" in place.log.read_text()


@pytest.mark.parametrize("name", ["my clone", "a$b", "it's", "(copy)"])
def test_clone_path_that_cannot_be_quoted_is_refused(place: Place, name: str) -> None:
    odd = place.clone.rename(place.clone.parent / name)
    for script in ("scripts/run.sh", "scripts/test.sh"):
        run = Place(odd, place.bin, place.log, place.environment).run(script, cwd=place.bin)
        assert run.returncode == 1
        assert is_one_line(run.stderr, f"'{odd}'", "move the clone")


@pytest.mark.parametrize("script", ["scripts/run.sh", "scripts/test.sh"])
@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "riscv64")])
def test_other_machines_are_refused(place: Place, script: str, system: str, machine: str) -> None:
    (place.bin / "uname").unlink()
    write_executable(
        place.bin / "uname", f"#!/bin/bash\n[[ $1 == -s ]] && echo {system} || echo {machine}\n"
    )
    run = place.run(script)
    assert run.returncode == 1
    named = machine if system == "Linux" else "Linux only"
    assert is_one_line(run.stderr, f"{Path(script).name}: umimill runs on", named)
    assert not (place.clone / ".venv").exists()


@pytest.mark.parametrize(
    ("fake", "advice"),
    [
        ({"FAKE_VERSION": "3.10"}, "no Python 3.11, 3.12 or 3.13 here; run: sudo apt-get install"),
        ({"FAKE_VERSION": "3.12", "FAKE_NO_VENV": "1"}, "apt-get install python3.12-venv"),
    ],
)
def test_missing_python_says_what_to_install(
    place: Place, fake: dict[str, str], advice: str
) -> None:
    run = place.run("scripts/run.sh", "-n", **fake)
    assert run.returncode == 1
    assert is_one_line(run.stderr, "run.sh: ", advice)


def test_any_suitable_python_is_taken(place: Place) -> None:
    write_executable(place.bin / "python3", FAKE_PYTHON.replace("FAKE_VERSION:-3.13", "X:-3.11"))
    run = place.run("scripts/run.sh", "-n", FAKE_VERSION="3.14")
    assert run.returncode == 0
    assert is_one_line(run.stderr, "with python3, once")


CHECKS = ["ruff check", "ruff format", "mypy", "snakefmt --check", "snakemake --lint", "pytest"]


def test_test_script_runs_every_check(place: Place, tmp_path: Path) -> None:
    run = place.run("scripts/test.sh", "-k", "a b", cwd=tmp_path, UMIMILL_TEST_DATA="data")
    assert run.returncode == 0, run.stderr
    shown = [line[3:] for line in run.stdout.splitlines() if line.startswith("== ")]
    assert [any(line.startswith(check) for line in shown) for check in CHECKS] == [True] * 6
    ((cwd, *arguments),) = place.calls("pytest")
    assert cwd == str(place.clone)
    assert arguments == ["-n", "2", "--dist", "loadfile", "-k", "a b"]
    assert f"data={tmp_path / 'data'}," in place.log.read_text()
    place.run("scripts/test.sh", "--all", "-x")
    assert place.calls("pytest")[1][1:] == ["-n", "0", "-m", "", "-x"]
    assert place.set_ups() == 1


def test_test_script_prints_the_accuracy_tables(place: Place, tmp_path: Path) -> None:
    program = "umi/umi_tools"
    run = place.run("scripts/test.sh", "--accuracy", "--seeds", "2", cwd=tmp_path,
                    UMIMILL_UMI_TOOLS=program)  # fmt: skip
    assert run.returncode == 0, run.stderr
    paths, own = "tests:workflow", str(tmp_path / program)
    assert place.calls("accuracy") == [[str(place.clone), paths, own, "--seeds 2"]]
    assert place.calls("pytest") == place.calls("ruff") == []


@pytest.mark.parametrize("check", ["ruff check", "ruff format", "snakemake --lint", "pytest -n"])
def test_test_script_fails_with_any_check(place: Place, check: str) -> None:
    run = place.run("scripts/test.sh", FAKE_TOOL_ERROR=check)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith(f"failed: {check}")
    assert len(place.calls("pytest")) == 1


def test_continuous_integration_sets_the_data_folder(place: Place, tmp_path: Path) -> None:
    write_executable(place.bin / "cc", FAKE_TOOL)
    run = place.run(".ci/run", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    log = place.log.read_text()
    assert f"data={tmp_path / 'shared' / 'data'}," in log
    assert f"peer={place.clone}/.venv-umi-tools/bin/umi_tools" in log
    assert len(place.calls("pytest")) == 1


def test_peer_is_compiled_once_and_found(place: Place) -> None:
    run = place.run("scripts/umi_tools.sh")
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("umi_tools.sh: no C compiler here; run: ")
    write_executable(place.bin / "cc", FAKE_TOOL)
    failed = place.run("scripts/umi_tools.sh", FAKE_PIP_ERROR="no Python.h")
    assert failed.returncode == 1
    assert "ERROR: no Python.h" in failed.stderr
    for _ in range(2):
        assert place.run("scripts/umi_tools.sh").returncode == 0
    pip = [line for line in place.log.read_text().splitlines() if line.startswith("pip ")]
    assert ["--no-binary" in line for line in pip] == [False, True, True]
    assert all("--require-hashes" in line and "--no-deps" in line for line in pip)
    assert place.run("scripts/test.sh").returncode == 0
    assert f"peer={place.clone}/.venv-umi-tools/bin/umi_tools" in place.log.read_text()


@pytest.mark.slow
def test_real_set_up(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    copy_scripts(clone)
    command = ["bash", str(clone / "scripts" / "run.sh"), "--version"]
    run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run
    first = run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (first.returncode, first.stdout) == (0, "9.27.1\n"), first.stderr
    start = time.perf_counter()
    second = run(command, cwd=clone, capture_output=True, text=True, check=False)
    assert time.perf_counter() - start < 5
    assert (second.returncode, second.stdout, second.stderr) == (0, "9.27.1\n", "")
    python = str(clone / ".venv" / "bin" / "python")
    names = "numpy, numba, isal, pyarrow, pandas, matplotlib, jinja2, jsonschema, pygments"
    run([python, "-c", f"import {names}"], check=True)
    # All that is missing is the one package that envs/overrides.txt leaves out.
    pip = run([python, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert pip.stdout.splitlines() == [
        "snakemake 9.27.1 requires connection-pool, which is not installed."
    ]
