"""The locks hold hashed, equal pins and nothing of the machine that made them."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
import yaml

CLONE = Path(__file__).parents[2]
LOCKS = ("stage", "run", "test")
# Those of a peer that is compiled on the spot.
PEER = ("umi_tools", "umi_tools_source")
CONDA_NAMES = {"isal": "python-isal", "matplotlib": "matplotlib-base"}


def read_lock(name: str) -> dict[str, list[str]]:
    """The entries of a lock: {requirement: [sha256, ...]}."""
    text = (CLONE / "envs" / f"{name}.lock").read_text()
    entries: dict[str, list[str]] = {}
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            requirement, *hashes = line.split("--hash=")
            entries[requirement.strip()] = [value.strip() for value in hashes]
    return entries


def read_pins(name: str) -> dict[str, str]:
    """The pins of a lock: {package: version}."""
    pins: dict[str, str] = {}
    for requirement in read_lock(name):
        package, version = requirement.split(";")[0].strip().split("==")
        assert package not in pins, f"{name}.lock pins {package} twice"
        pins[package] = version
    return pins


def read_direct(name: str) -> list[str]:
    """What an .in file asks for, by normalised package name, without what it includes."""
    lines = (CLONE / "envs" / f"{name}.in").read_text().splitlines()
    wanted = [re.split("[;=<]", line)[0].strip() for line in lines]
    return [re.sub(r"[-_.]+", "-", line).lower() for line in wanted if line and line[0] not in "#-"]


@pytest.mark.parametrize("name", LOCKS + PEER)
def test_every_entry_is_a_hashed_pin(name: str) -> None:
    entries = read_lock(name)
    assert len(entries) > (20 if name in LOCKS else 1)
    for requirement, hashes in entries.items():
        assert re.fullmatch(r"[a-z0-9][a-z0-9-]*==[a-z0-9.]+( ; [^@/\\]+)?", requirement)
        assert hashes, f"{requirement} has no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes)


@pytest.mark.parametrize("name", LOCKS + PEER)
def test_no_option_path_or_host(name: str) -> None:
    # The first comment is the command, whose options and paths belong to the repository.
    head, command, *body = (CLONE / "envs" / f"{name}.lock").read_text().splitlines()
    assert head.startswith("#")
    assert command.startswith("#    uv pip compile --universal")
    assert "--generate-hashes" in command
    assert not re.search(r"(^|[ =])([/~.]|-i |-f |--index|--extra-index|--find-links)|:/", command)
    for line in body:
        text = line if not line.lstrip().startswith("#") else re.sub(r"-[cr] envs/\S+", "", line)
        text = re.sub(r" --hash=sha256:[0-9a-f]{64}", "", text)
        assert not re.search(r"(^|\s)-|/|@|~", text), line


def test_locks_agree() -> None:
    stage, run, test = (read_pins(name) for name in LOCKS)
    assert stage.items() <= run.items() <= test.items()
    # The peer runs on the same libraries as umimill.
    peer = read_pins("umi_tools")
    assert {name: pin for name, pin in peer.items() if name in test} == {
        name: test[name] for name in peer if name in test
    }


def test_locks_hold_what_is_asked_for() -> None:
    assert read_pins("run")["snakemake"] == "9.27.1"
    assert read_pins("test")["migec"] == "2.5.1"
    assert read_pins("umi_tools_source")["umi-tools"] == "1.1.6"
    for name in LOCKS + PEER:
        assert set(read_direct(name)) <= set(read_pins(name))


def test_conda_environment_is_in_step() -> None:
    environment = yaml.safe_load((CLONE / "envs" / "stage.yaml").read_text())
    python = tomllib.loads((CLONE / "pyproject.toml").read_text())["project"]["requires-python"]
    pins = read_pins("stage")
    expected = [f"{CONDA_NAMES.get(name, name)} ={pins[name]}" for name in read_direct("stage")]
    assert environment["dependencies"] == [f"python {python}", *expected]
    assert environment["channels"] == ["conda-forge", "nodefaults"]


def test_left_out_package_is_not_imported() -> None:
    # envs/overrides.txt leaves out what Snakemake declares and does not use; a new release might.
    assert "connection-pool" not in read_pins("test")
    spec = importlib.util.find_spec("snakemake")
    assert spec is not None
    assert spec.origin is not None
    sources = list(Path(spec.origin).parent.rglob("*.py"))
    assert len(sources) > 50
    for source in sources:
        assert b"connection_pool" not in source.read_bytes(), source


def test_every_direct_dependency_has_its_reason() -> None:
    text = (CLONE / "CONTRIBUTING.md").read_text()
    rows = [line.split("|")[1].replace("_", "-") for line in text.splitlines() if line[:2] == "| "]
    packages = {name.strip().lower() for row in rows for name in row.split(",")}
    for name in LOCKS + PEER:
        assert set(read_direct(name)) <= packages
