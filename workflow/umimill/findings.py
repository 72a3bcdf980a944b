"""What the numbers of a run say, in plain sentences.

Knows how numbers are written and what the first screen says; computes no sums of its own. What a
person might change is in `advice`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from umimill import barcode_sums, job_sums, ledger_checks, summary
from umimill.barcode_sums import Barcodes
from umimill.summary import Job, Library

NAMES_IN_A_SENTENCE = 5
PAUSE_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """A question of the first screen and its sentences."""

    question: str
    sentences: tuple[str, ...]


def count(number: float) -> str:
    """Whole number with thousands separators."""
    return f"{round(number):,}"


def percent(part: float, whole: float) -> str:
    """Share in percent that says 0% and 100% only where that is exact."""
    if whole <= 0:
        return "0%"
    share = 100.0 * part / whole
    if part == 0 or part == whole:
        return f"{share:.0f}%"
    if share < 0.1:
        return "<0.1%"
    return ">99.9%" if 99.9 < share < 100.0 else f"{share:.1f}%"


def size(number: float) -> str:
    """Bytes in decimal units, as `mem_mb` is."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= 0.9995 * scale:
            value = number / scale
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:,.0f} {unit}"
    return f"{number:.0f} B"


def duration(seconds: float) -> str:
    """Seconds as people say them: "3.2 s", "31 s", "2 min 10 s", "3 h 2 min", "2 d"."""
    if seconds < 9.95:
        return f"{seconds:.2f} s" if seconds < 0.0995 else f"{seconds:.1f} s"
    whole = round(seconds)
    for big, scale, small, step in (("d", 86400, "h", 3600), ("h", 3600, "min", 60)):
        if whole >= scale:
            rest = whole % scale // step
            return f"{whole // scale} {big}" + (f" {rest} {small}" if rest else "")
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")


def plural(number: int, noun: str) -> str:
    """Number and noun: "1 sample", "2 samples", "1,204 samples"."""
    return f"{count(number)} {noun}" + ("" if number == 1 else "s")


def names(items: Sequence[str]) -> str:
    """Names in a sentence, the tail as a number where there are many."""
    if len(items) == 1:
        return items[0]
    if len(items) > NAMES_IN_A_SENTENCE:
        shown = items[: NAMES_IN_A_SENTENCE - 1]
        return f"{', '.join(shown)} and {count(len(items) - len(shown))} more"
    return f"{', '.join(items[:-1])} and {items[-1]}"


def answers(libraries: Sequence[Library]) -> list[Answer]:
    """The first screen: did it work, how many molecules, can I trust them, what did it cost."""
    return [
        Answer("Did it work?", tuple(worked(libraries))),
        Answer("How many molecules?", tuple(yielded(libraries))),
        Answer("Can I trust them?", tuple(trusted(libraries))),
        Answer("What did it cost?", tuple(cost(libraries))),
    ]


def worked(libraries: Sequence[Library]) -> list[str]:
    """Assigned templates, and whether every template is accounted for."""
    came = sum(summary.templates_in(library) for library in libraries)
    given = sum(summary.assigned(library) for library in libraries)
    if not came:
        return ["The inputs hold no reads."]
    samples = [sample for library in libraries for sample in library.samples]
    filled = sum(sample.reads > 0 for sample in samples)
    of = "" if filled == len(samples) else f"{count(filled)} of "
    sentences = [
        f"{count(given)} of {count(came)} templates ({percent(given, came)}) "
        f"were assigned to {of}{plural(len(samples), 'sample')}."
    ]
    opened = [lib.name for lib in libraries if not all(c.closed for c in ledger_checks.checks(lib))]
    if opened:
        sentences.append(f"The ledger does not close in {names(opened)}.")
    else:
        sentences.append("Every template is accounted for.")
    limit = max((library.limit_reads for library in libraries), default=0)
    if limit:
        sentences.append(
            f"Only the first {count(limit)} templates of each unit were read (`limit_reads`). A "
            "limit is not a sample: molecules have fewer reads than in the whole, and the first "
            "reads are of the edge of a flow cell."
        )
    return sentences


def yielded(libraries: Sequence[Library]) -> list[str]:
    """Molecules and reads per molecule."""
    found = sum(summary.molecules(library) for library in libraries)
    if not found:
        return ["No consensus molecule was written."]
    reads = sum(sample.reads for library in libraries for sample in library.samples)
    reads -= barcode_total(libraries).other_reads
    noun = plural(found, "consensus molecule")
    each = "" if found == 1 else " each on average"
    return [f"{noun}, {reads / found:.1f} reads{each}."]


def trusted(libraries: Sequence[Library]) -> list[str]:
    """Quality, single-read molecules, chance matches, and how barcodes were corrected."""
    if not sum(summary.molecules(library) for library in libraries):
        return ["There is nothing to judge."]
    sentences = [*_quality(libraries), *_chance(libraries)]
    single = summary.single_read_share(libraries)
    share = percent(single, 1.0)
    sentences.append(
        f"{share} of the molecules rest on a single read: their consensus is that read."
        if single
        else "No molecule rests on a single read."
    )
    if any(library.corrects for library in libraries):
        sentences.append(corrected(libraries))
    else:
        sentences.append(
            "Barcodes are taken as they were read: a sequencing error in a barcode makes "
            "a molecule of its own, so the number of molecules is an upper bound."
        )
    return sentences


def barcode_total(libraries: Sequence[Library]) -> Barcodes:
    """What became of the barcodes of all samples."""
    return barcode_sums.total(row for library in libraries for row in library.barcodes.values())


def corrected(libraries: Sequence[Library]) -> str:
    """How many families were taken for errors of another barcode, and their reads."""
    whole = barcode_total(libraries)
    if not whole.corrected:
        return "No barcode was taken for an error of another."
    reads = sum(sample.reads for library in libraries for sample in library.samples)
    moved = percent(whole.corrected_reads, reads)
    return (
        f"{percent(whole.corrected, whole.families)} of the families were taken for errors of "
        f"another barcode; their reads, {moved} of all, count there."
    )


def others(libraries: Sequence[Library]) -> str:
    """Families that are no molecules, and whether they were written; empty where there are none."""
    whole = barcode_total(libraries)
    if not whole.others:
        return ""
    parts = [
        (whole.chimera_suspects, "chimera suspect", "chimera suspects"),
        (whole.shifted, "shifted", "shifted"),
        (whole.unresolved, "unresolved", "unresolved"),
        (whole.dropped, "dropped", "dropped"),
    ]
    shown = [f"{count(n)} {one if n == 1 else more}" for n, one, more in parts if n]
    written = any(library.provenance.get("suspects") for library in libraries)
    end = "" if written or not whole.suspects else " and are not written (`outputs: suspects` does)"
    return f"Besides {names(shown)}: these are not counted as molecules{end}."


def _quality(libraries: Sequence[Library]) -> list[str]:
    mean = summary.mean_quality(libraries)
    floors = [float(lib.provenance["floor"]) for lib in libraries if lib.provenance.get("floor")]
    if mean is None:
        return []
    if not floors or min(floors) <= 0:
        return [f"The mean consensus quality is Q{mean:.1f}."]
    top = f"Q{-10 * math.log10(min(floors)):.0f}"
    return [
        f"The mean consensus quality is Q{mean:.1f}; "
        f"no base claims more than {top} (the error floor, {min(floors):g})."
    ]


def _chance(libraries: Sequence[Library]) -> list[str]:
    shares = [share for lib in libraries for _, share in summary.chance_shares(lib).values()]
    if not shares:
        return []
    top = max(shares)
    most = "less than 0.1%" if 0 < top < 0.001 else f"at most {percent(top, 1.0)}"
    return [f"Chance matches: {most} of a sample's reads."]


def cost(libraries: Sequence[Library]) -> list[str]:
    """CPU and wall time, the largest job, spill."""
    jobs = job_sums.all_jobs(libraries)
    if not jobs:
        return ["No job wrote its measurements."]
    busy, span = job_sums.wall_spans(jobs)
    cpu = duration(sum(job.cpu_seconds for job in jobs))
    came = sum(summary.templates_in(library) for library in libraries)
    rate = f" ({plural(round(came / busy), 'template')} per second)" if came and busy > 0 else ""
    sentences = [f"The run took {cpu} of CPU time, {duration(busy)} of wall time{rate}."]
    if span - busy > max(PAUSE_SECONDS, 0.1 * span):
        sentences.append(
            f"From first start to last end {duration(span)} went by: "
            "the run was resumed, or its jobs waited in a queue."
        )
    largest = max(jobs, key=lambda job: job.peak_rss_bytes)
    if largest.peak_rss_bytes:
        of = f" of its {size(largest.allowed_bytes)}" if largest.allowed_bytes else ""
        sentences.append(
            f"The largest job ({largest.title}) used {size(largest.peak_rss_bytes)}{of}."
        )
    return [*sentences, spill_sentence(jobs)]


def spill_sentence(jobs: Sequence[Job]) -> str:
    """Whether any job wrote UMI tables to disk."""
    spilled = [job for job in jobs if job.umi_spill_bytes]
    if not spilled:
        return "No job spilled."
    total = sum(job.umi_spill_bytes for job in spilled)
    return f"{count(len(spilled))} of {plural(len(jobs), 'job')} spilled {size(total)}."


def size_sentence(libraries: Sequence[Library]) -> str:
    """Median reads per molecule, and the same seen from the reads; without a full stop."""
    by_molecule = summary.median_size(libraries)
    by_read = summary.median_size_of_reads(libraries)
    half = "More than half of the molecules have 1 read"
    if by_molecule != 1:
        half = f"Half of the molecules have {plural(by_molecule, 'read')} or more"
    return f"{half}; half of the reads are in molecules of {plural(by_read, 'read')} or more"
