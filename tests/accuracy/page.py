"""The page of the documentation: all cases in one table, then each by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from accuracy.intervals import compare
from accuracy.scores import DIRECTION, Scores
from accuracy.table import CEILING, Result, to_markdown, verdict

SHOWN = {"ari": ("ARI", 4), "f1": ("F1", 3), "miscount": ("miscount", 1)}
HEAD = """# How accurately barcodes are corrected

Simulated libraries, with the same reads for all tools. `bash scripts/test.sh --accuracy --page
docs/accuracy.md` makes this page; the parameters of each library are in `tests/accuracy/cases.py`,
what each score means is in `tests/accuracy/scores.py`. True molecules are those with at least one
read. umi_tools corrects reads at one position of an alignment: it is shown without one (all reads
at one place), and "aligned", where it is told the true clone of each read, which no aligner could
do better.

- **ARI**: adjusted Rand index of the reads, 1 is perfect. **ceiling**: what the truth allows, since
  molecules of one clone and one barcode cannot be told apart by anyone.
- **F1**: of recall (barcodes with errors that went home; those whose molecule was also read right)
  and precision (merges that were right).
- **miscount**: molecules found less true ones, without the sign.

- **error rate**: what the tool takes the error of a barcode base for, over the one simulated; 1
  is right.

Bold is the best of the tools. A peer's name stands where it is better than umimill beyond the 95%
interval of the difference, seed by seed.
"""


def make_page(results: Sequence[Result], own: str, real: str = "") -> str:
    """Return the page.

    Args:
        results: of all cases.
        own: name of the contestant that is compared with the others.
        real: table of real libraries.
    """
    heads = [f"{title}: {who}" for title, _ in SHOWN.values() for who in ("umimill", "best peer")]
    lines = [
        HEAD,
        "| case | seeds | ceiling | " + " | ".join(heads) + " | better than umimill |",
        "|---|---:|---:|" + "---:|" * len(heads) + "---|",
    ]
    lines += [_row(result, own) for result in results]
    lines += ["", "## Error rate of barcodes: estimated over simulated", "", *_errors(results, own)]
    if real:
        lines += ["", "## Real libraries: molecules found", "", real.rstrip()]
    return "\n".join(lines) + "\n\n" + "\n".join(_section(one, own) for one in results)


def _errors(results: Sequence[Result], own: str) -> list[str]:
    """Return the table of error rates: of all cases that have one, and all tools that say one."""
    known = [one for one in results if not math.isnan(_mean(one.scores[own], "error"))]
    tools = [
        name
        for name in dict.fromkeys(name for one in known for name in one.scores)
        if any(not math.isnan(_mean(one.scores.get(name, []), "error")) for one in known)
    ]
    rows = [
        [one.case.name, *(_cell(_mean(one.scores.get(name, []), "error"), 2) for name in tools)]
        for one in known
    ]
    head = "| case | " + " | ".join(tools) + " |"
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return [head, "|---|" + "---:|" * len(tools), *lines] if known else ["No tool says one."]


def _section(result: Result, own: str) -> str:
    return to_markdown(result).replace("### ", "## ", 1) + "\n" + verdict(result, own) + "\n"


def _row(result: Result, own: str) -> str:
    seeds = len(result.scores[CEILING])
    cells = [result.case.name, str(seeds), f"{_mean(result.scores[CEILING], 'ari'):.4f}"]
    better = []
    peers = [name for name in result.scores if name not in (CEILING, own)]
    peers = [name for name in peers if not name.startswith(own)]
    for score, (title, digits) in SHOWN.items():
        mine = _mean(result.scores[own], score)
        sign = DIRECTION[score]
        found = {name: _mean(result.scores[name], score) for name in peers}
        found = {name: value for name, value in found.items() if not math.isnan(value)}
        best = max(found.values(), key=lambda value: sign * value) if found else math.nan
        wins = math.isnan(best) or sign * mine >= sign * best
        cells += [_cell(mine, digits, bold=wins), _cell(best, digits, bold=not wins)]
        better += [
            f"{name} ({title})"
            for name in found
            if compare(result.scores[own], result.scores[name], score) < 0
        ]
    return "| " + " | ".join([*cells, "; ".join(better)]) + " |"


def _mean(scores: Sequence[Scores], name: str) -> float:
    values = [getattr(one, name) for one in scores]
    known = [value for value in values if not math.isnan(value)]
    return fmean(known) if known else math.nan


def _cell(value: float, digits: int, *, bold: bool = False) -> str:
    if math.isnan(value):
        return "-"
    return f"**{value:.{digits}f}**" if bold else f"{value:.{digits}f}"
