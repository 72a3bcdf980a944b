"""Prints the tables: python -m accuracy --help."""

from __future__ import annotations

import argparse
import os
import sys
from fnmatch import fnmatchcase
from pathlib import Path

from accuracy.cases import Case, all_cases
from accuracy.contestants import own_contestants
from accuracy.kept import Kept
from accuracy.page import make_page
from accuracy.peers import peer_contestants
from accuracy.real import real_table
from accuracy.table import write_tables


def main() -> None:
    """Reads the command line and prints the tables of the cases it names."""
    parser = argparse.ArgumentParser(prog="python -m accuracy", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="seeds 1 .. SEEDS (default: 10)")
    parser.add_argument("--cases", nargs="+", default=["*"], help="names, * for any letters")
    parser.add_argument("--scale", type=float, default=1.0, help="times the molecules (default: 1)")
    parser.add_argument("--tools", nargs="+", default=["*"], help="as --cases, of the tools")
    parser.add_argument("--all-methods", action="store_true", help="all five of umi_tools")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="TSV of scores; got once")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the documentation's page")
    parser.add_argument("--list", action="store_true", help="name cases and tools, run nothing")
    options = parser.parse_args()
    own = own_contestants()
    every = [*own, *peer_contestants(all_methods=options.all_methods)]
    tools = [one for one in every if one in own or matches(one.name, options.tools)]
    cases = [case for case in all_cases().values() if matches(case.name, options.cases)]
    if not cases or options.seeds < 1:
        parser.error("give at least one seed, and cases out of: " + ", ".join(all_cases()))
    cases = [case.scaled(options.scale) for case in cases]
    if options.list:
        print_list(cases, [one.name for one in tools])
        return
    seeds = range(1, options.seeds + 1)
    results = write_tables(cases, seeds, tools, own[-1].name, write, Kept(options.keep))
    if options.page:
        data = os.environ.get("UMIMILL_TEST_DATA")
        real = real_table(Path(data), tools) if data else ""
        options.page.write_text(make_page(results, own[-1].name, real))


def matches(name: str, patterns: list[str]) -> bool:
    """Tell whether one of the patterns fits."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def print_list(cases: list[Case], tools: list[str]) -> None:
    """Prints what there is."""
    for case in cases:
        write(f"{case.name}\t{case.about}\n")
    write("tools: " + ", ".join(tools) + "\n")


def write(text: str) -> None:
    """Prints at once: a table takes a while."""
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os._exit(1)
