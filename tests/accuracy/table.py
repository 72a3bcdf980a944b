"""Runs contestants over cases and seeds, and writes what they scored as Markdown."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from accuracy.cases import Case
from accuracy.contestants import Contestant, Task
from accuracy.generate import Reads, generate, write_reads
from accuracy.intervals import is_dominated, mean_interval, worse_on
from accuracy.kept import Entry, Kept, digest_reads
from accuracy.scores import Scores, best_labels, score

CEILING = "ceiling"
# Column and digits after the point.
COLUMNS = {
    "ari": 4,
    "mixed": 4,
    "split": 4,
    "recall": 3,
    "precision": 3,
    "f1": 3,
    "kept": 4,
    "separated": 3,
    "surplus": 1,
    "miscount": 1,
    "dropped": 4,
    "error": 2,
}


@dataclass(frozen=True)
class Result:
    """What all contestants scored on a case.

    Attributes:
        case: the case.
        reads, molecules: means over the seeds.
        scores: of each contestant, by seed; the first one is the ceiling.
        absent: contestants that could not run, and why.
    """

    case: Case
    reads: float
    molecules: float
    scores: dict[str, list[Scores]]
    absent: dict[str, str]


def run_case(
    case: Case, seeds: Sequence[int], contestants: Sequence[Contestant], kept: Kept | None = None
) -> Result:
    """Let all contestants partition the same reads, seed by seed.

    Args:
        case: what to simulate.
        seeds: with which seeds.
        contestants: who takes part; who is missing is left out and named.
        kept: scores that need not be got again.
    """
    kept = kept or Kept()
    absent = {one.name: one.missing() for one in contestants if one.missing()}
    present = [one for one in contestants if one.name not in absent]
    scores: dict[str, list[Scores]] = {CEILING: [], **{one.name: [] for one in present}}
    sizes = []
    for seed in seeds:
        reads = generate(case, seed)
        sizes.append((reads.bases.shape[0], reads.truth.barcode.size))
        scores[CEILING].append(score(reads.truth, best_labels(reads.truth)))
        digest = digest_reads(reads)
        entries = {
            one.name: Entry(digest, case.name, seed, one.name, one.version) for one in present
        }
        wanted = [one for one in present if kept.get(entries[one.name]) is None]
        with tempfile.TemporaryDirectory(prefix="umimill-accuracy-") as folder:
            for contestant, task in _tasks(reads, wanted, Path(folder)):
                labels = contestant.label(task)
                error = error_ratio(contestant.error_rate(task), case.parameters.barcode_error)
                kept.add(entries[contestant.name], score(reads.truth, labels, error))
        for name, entry in entries.items():
            found = kept.get(entry)
            assert found is not None
            scores[name].append(found)
    count, molecules = (sum(values) / len(sizes) for values in zip(*sizes, strict=True))
    return Result(case, count, molecules, scores, absent)


def error_ratio(estimated: float, injected: float) -> float:
    """Return an error as it was estimated over the one that was simulated, nan without one."""
    return estimated / injected if injected > 0 else math.nan


def _tasks(
    reads: Reads, contestants: Sequence[Contestant], folder: Path
) -> Iterator[tuple[Contestant, Task]]:
    fastq = folder / "reads.fastq.gz"
    if contestants:
        write_reads(reads, fastq)
    place = reads.truth.clone[reads.truth.molecule]
    for number, contestant in enumerate(contestants):
        own = folder / str(number)
        own.mkdir()
        task = Task(fastq, reads.case.layout, reads.bases.shape[0], reads.seed, own, place)
        yield contestant, task


def to_markdown(result: Result) -> str:
    """Return the table of one case, with mean ± 95% interval over the seeds."""
    case = result.case
    shown = [name for name in COLUMNS if _says_something(result, name)]
    seeds = len(result.scores[CEILING])
    lines = [
        f"### {case.name}: {case.about}",
        "",
        f"{result.reads:,.0f} reads of {result.molecules:,.0f} molecules, "
        f"{seeds} seed{'s' if seeds > 1 else ''}, `{case.layout}`",
        "",
        "| tool | " + " | ".join(shown) + " |",
        "|---|" + "---:|" * len(shown),
    ]
    for tool, scores in result.scores.items():
        cells = [_cell([getattr(one, name) for one in scores], COLUMNS[name]) for name in shown]
        lines.append(f"| {tool} | " + " | ".join(cells) + " |")
    lines += [
        f"| {tool} | {why} |" + " |" * (len(shown) - 1) for tool, why in result.absent.items()
    ]
    return "\n".join(lines) + "\n"


def verdict(result: Result, own: str) -> str:
    """Return a line on who beats a contestant on which score, and who dominates it."""
    mine = result.scores[own]
    said = []
    for tool, scores in result.scores.items():
        worse = [] if tool in (CEILING, own) else worse_on(mine, scores)
        if worse:
            ending = " (dominates)" if is_dominated(mine, scores) else ""
            said.append(f"{tool} on {', '.join(worse)}{ending}")
    return f"{own}: " + ("worse than " + "; ".join(said) if said else "worse than none")


def write_tables(
    cases: Sequence[Case],
    seeds: Sequence[int],
    contestants: Sequence[Contestant],
    own: str,
    write: Callable[[str], object],
    kept: Kept | None = None,
) -> list[Result]:
    """Run the cases and write each table as soon as it is there."""
    results = []
    for case in cases:
        result = run_case(case, seeds, contestants, kept)
        write(to_markdown(result) + "\n" + verdict(result, own) + "\n\n")
        results.append(result)
    return results


def _says_something(result: Result, name: str) -> bool:
    values = [getattr(one, name) for scores in result.scores.values() for one in scores]
    if name == "dropped":
        return any(values)
    return not all(map(math.isnan, values))


def _cell(values: Sequence[float], digits: int) -> str:
    mean, half = mean_interval(values)
    if math.isnan(mean):
        return "-"
    return f"{mean:.{digits}f}" + ("" if math.isnan(half) else f" ± {half:.{digits}f}")
