"""Every command of README.md and config/README.md is run, in the order in which they stand there.

`bash scripts/run.sh` is replaced by what it starts, the Snakemake of this environment: making
another environment takes a minute and is tried in test_scripts.py.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import workflow_run as runs

DOCUMENTS = ("README.md", "config/README.md")
NOT_RUN = {"bash scripts/test.sh": "runs this test"}
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELLS = ("sh", "shell", "console", "zsh", "terminal")


def fences(document: str) -> list[tuple[str, str]]:
    """Give (language, text) of every fenced block of a document."""
    return FENCE.findall((runs.CLONE / document).read_text(encoding="utf-8"))


def commands(document: str) -> list[str]:
    """Give the commands of a document, without comments, continued lines joined."""
    found = []
    for language, text in fences(document):
        if language == "bash":
            lines = text.replace("\\\n", " ").splitlines()
            found += [" ".join(shlex.split(line, comments=True)) for line in lines]
    return [command for command in found if command]


ALL = [(document, command) for document in DOCUMENTS for command in commands(document)]


def translate(command: str) -> list[str]:
    """Give what to run for a command.

    Raises:
        AssertionError: where it is none that this test knows.
    """
    words = shlex.split(command)
    if words[:2] == ["bash", "scripts/run.sh"]:
        arguments = words[2:]
        if not any(word.startswith(("-c", "--cores", "-j", "--jobs")) for word in arguments):
            arguments = ["--cores", "2", *arguments]
    else:
        assert words[0] == "snakemake", f"{command}: run it here, or say in NOT_RUN why not"
        arguments = words[1:]
    snakefile = str(runs.CLONE / "Snakefile")
    return [sys.executable, "-m", "snakemake", "--snakefile", snakefile, *arguments]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that a run in the clone would read but the code."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("config", "resources"):
        shutil.copytree(runs.CLONE / name, folder / name)
    return folder


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_are_fenced_as_bash(document: str) -> None:
    assert commands(document)
    for language, text in fences(document):
        assert language not in SHELLS
        if language != "bash":
            assert not re.match(r"\s*(\$|bash|snakemake|python|pip|git|sudo|cd)\s", text), text


@pytest.mark.parametrize(("document", "command"), ALL)
def test_command_works(clone: Path, document: str, command: str) -> None:
    assert document in DOCUMENTS
    if command in NOT_RUN:
        return
    result = runs.run_command(translate(command), clone)
    assert result.code == 0, result.output
    if command == "bash scripts/run.sh":
        assert (clone / "results" / "report" / "index.html").exists()
        assert len(list((clone / "results" / "samples").glob("S*/*.consensus.fastq.gz"))) == 4


def test_list_of_commands_not_run_is_current() -> None:
    assert set(NOT_RUN) <= {command for _, command in ALL}


def test_figure_of_the_flow_shows_every_stage() -> None:
    path = runs.CLONE / "resources" / "flow.svg"
    readme = (runs.CLONE / "README.md").read_text()
    assert f"]({path.relative_to(runs.CLONE)})" in readme
    assert path.stat().st_size < 10_000
    root = ElementTree.parse(path).getroot()
    bold = [text.text for text in root.iter() if text.get("class") == "b"]
    assert list(dict.fromkeys(bold)) == list(runs.STAGES)
    rules = "\n".join(rule.read_text() for rule in (runs.CLONE / "workflow/rules").glob("*.smk"))
    named = re.findall(r"^rule (\w+):|^ +f\"(gather)_\{library.name\}_", rules, re.MULTILINE)
    on_request = {"cells", "place", "lineage"}
    (sentence,) = re.findall(r"^Three stages are there on request\.[^#]+", readme, re.MULTILINE)
    assert on_request <= set(re.findall(r"\w+", sentence))
    others = {"clean_intermediates", *on_request}
    assert {first or second for first, second in named} - others == set(runs.STAGES)
