"""Sums of the ledger that must agree: two stages counted the same thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from umimill import summary
from umimill.summary import Library


@dataclass(frozen=True)
class Check:
    """Two counts of the same thing; `closed` says whether they agree for every sample."""

    title: str
    left: int
    right: int
    closed: bool


def checks(library: Library) -> list[Check]:
    """Every pair of counts that must agree; a pair is left out where one side was not written."""
    found = []
    units = library.provenance.get("units") or []
    if units and all(unit.get("templates") is not None for unit in units):
        came = sum(int(unit["templates"]) for unit in units)
        counted = summary.templates_in(library)
        title = "templates in the units = checkout lines"
        found.append(Check(title, came, counted, came == counted))
    given = summary.assigned_by_sample(library)
    placed = Counter(summary.by_sample(library, "settle", ("placed",)))
    families = summary.by_sample(library, "tally", ("families",))
    ends = summary.by_sample(library, "assemble")
    small = summary.below_filter(library)
    others = {name: row.other_reads for name, row in library.barcodes.items()}
    listed = {sample.name: sample.molecules for sample in library.samples}
    if library.provenance.get("suspects"):
        records = {name: row.suspects for name, row in library.barcodes.items()}
        listed = {name: number + records.get(name, 0) for name, number in listed.items()}
    written = summary.by_sample(library, "gather", ("records",))
    sized = {
        name: sum(n * count for n, count in rows) + others.get(name, 0)
        for name, rows in library.sizes.items()
    }
    stages = {row.stage for row in library.ledger}
    if "place" in stages:
        aside = summary.by_sample(library, "checkout", ("unplaced",))
        title = "reads set aside for place = reads placed and off the list"
        found.append(_compare(title, aside, summary.by_sample(library, "place"), {}))
    if "plan" in stages:
        planned = summary.by_sample(library, "plan", ("planned",))
        found.append(_compare("assigned = reads planned", given, planned, {}))
    if "tally" in stages:
        found.append(_compare("assigned = reads in families", given, families, {}))
    if "settle" in stages:
        settled = summary.by_sample(library, "settle", ("kept", "corrected"))
        title = "reads in families = reads kept and corrected"
        found.append(_compare(title, families or given, settled, {}))
    if "assemble" in stages:
        title = "reads in families or placed = consensus lines"
        found.append(_compare(title, placed + Counter(families or given), ends, {}))
    if "gather" in stages:
        found.append(_compare("molecules = records written", listed, written, small))
    if library.sizes:
        title = "reads in families or placed = reads of molecules, suspects and unresolved"
        found.append(_compare(title, placed + Counter(families or given), sized, small))
    return found + _partial_checks(library)


def _partial_checks(library: Library) -> list[Check]:
    if not summary.lines_of(library, "settle").keys() & {"placed", "unresolved"}:
        return []
    partial = summary.by_sample(library, "checkout", ("partial",))
    settled = summary.by_sample(library, "settle", ("placed", "unresolved"))
    title = "barcodes not fully read = reads placed and unresolved"
    return [_compare(title, partial, settled, {})]


def _compare(
    title: str, left: Mapping[str, int], right: Mapping[str, int], small: Mapping[str, int]
) -> Check:
    """Compare sample by sample, so that two opposite errors cannot hide each other.

    Where a sample has templates below the filter, the right side may be the smaller one.
    """
    closed = all(
        left.get(name, 0) == right.get(name, 0)
        or (small.get(name, 0) > 0 and right.get(name, 0) < left.get(name, 0))
        for name in {*left, *right}
    )
    return Check(title, sum(left.values()), sum(right.values()), closed)
