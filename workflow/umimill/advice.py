"""What a person may want to look at or change after a run, and when it is worth saying.

Knows the threshold and the wording of every piece of advice. Text in backquotes is a name a person
can type: a config key, a value, a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from umimill import job_sums, ledger_checks, summary
from umimill.barcode_sums import SATURATED_SHARE, Barcodes
from umimill.findings import count, duration, names, percent, plural, size
from umimill.summary import Job, Library

SAME_ADVICE = 3
LOST_SHARE = {
    "unmatched": 0.10,
    "ambiguous": 0.01,
    "too_short": 0.05,
    "low_umi_quality": 0.20,
    "empty_payload": 0.05,
    "unresolved": 0.05,
    "off_list": 0.15,
}
LOST_ADVICE = {
    "unmatched": "match no sample: compare `layout` in samples.tsv with the reads; "
    "`outputs: unmatched` writes them to a file",
    "ambiguous": "match two samples equally well: sample barcodes lie close together, "
    "or their bases are of low quality",
    "too_short": "end before their barcode does: check that `layout` fits the read length",
    "low_umi_quality": "have a UMI base below `min_umi_quality`: lower it to keep them",
    "empty_payload": "hold nothing behind the barcode: these are mostly primer dimers",
    "unresolved": "have a barcode that was not fully read, and no molecule that they fit: look for "
    "cycles with many N, and at the synthesis of the UMIs",
    "off_list": "have a cell barcode that is not on the list: compare `cell_list` and `layout` in "
    "samples.tsv with the chemistry",
}
CHANCE_SHARE = 0.01
SMALL_SHARE = 0.20
SINGLE_SHARE = 0.50
# Where half of the reads are in molecules of this many, single reads are not for want of depth.
DEEP_READS = 5
# Reads of one barcode agree rarely, and it has so many more families than chance gives: they start
# at different places.
AGREEMENT = 0.50
CROWDED_FAMILIES = 1.5
CROWDED_SHARE = 0.30
ERROR_RATIO = 2.0
CHIMERA_RATE = 0.02
UNRESOLVED_SHARE = 0.02
START_SHARE = 0.50
IDLE_SHARE = 0.50
IDLE_BUDGET_BYTES = 1_000_000_000
SKEW = 4.0
SKEW_SECONDS = 60.0


@dataclass(frozen=True)
class Advice:
    """One finding that asks for a look or a change.

    `level` is error (wrong), warning (doubtful) or note (could be better); findings of one `kind`
    differ only in their `subject`, a library or sample.
    """

    level: str
    text: str
    kind: str = ""
    subject: str = ""


def verdict(libraries: Sequence[Library], advice: Sequence[Advice]) -> Advice:
    """The one line above all others, with the worst level of the advice."""
    levels = [item.level for item in advice]
    if "error" in levels:
        return Advice("error", "The counts do not add up: do not use these results.")
    if not sum(summary.templates_in(library) for library in libraries):
        return Advice("warning", "The run finished, but its inputs hold no reads.")
    if "warning" in levels:
        things = plural(levels.count("warning"), "thing")
        return Advice("warning", f"The run worked; {things} to look at.")
    return Advice("good", "The run worked.")


def advise(libraries: Sequence[Library]) -> list[Advice]:
    """All advice, errors first; empty where nothing asks for a change."""
    found: list[Advice] = []
    for library in libraries:
        of = f" of library {library.name}" if len(libraries) > 1 else ""
        found += [*_advise_ledger(library), *_advise_losses(library, of)]
        found += [*_advise_samples(library), *_advise_chance(library)]
        found += [] if library.limit_reads else _advise_depth(library, of)
        found += _advise_barcodes(library)
        found += [*_advise_spill(library, of), *_advise_skew(library, of)]
    found += _advise_memory(job_sums.all_jobs(libraries)) + _advise_start(libraries)
    order = {"error": 0, "warning": 1, "note": 2}
    return sorted(_folded(found), key=lambda advice: order[advice.level])


def _folded(found: Sequence[Advice]) -> list[Advice]:
    """The advice, with the tail of a long series of one kind as a list of its subjects."""
    kept: list[Advice] = []
    for kind in dict.fromkeys(advice.kind for advice in found):
        same = [advice for advice in found if advice.kind == kind]
        if len(same) <= SAME_ADVICE or not kind:
            kept += same
            continue
        rest = names([advice.subject for advice in same[SAME_ADVICE - 1 :]])
        more = Advice(same[-1].level, f"The same holds for {rest}.", kind)
        kept += [*same[: SAME_ADVICE - 1], more]
    return kept


def _advise_ledger(library: Library) -> list[Advice]:
    return [
        Advice(
            "error",
            f"The ledger of library {library.name} does not close: {check.title}, "
            f"but {count(check.left)} and {count(check.right)} were counted. "
            "Do not use these results; rerun the library and report this.",
            "ledger",
            library.name,
        )
        for check in ledger_checks.checks(library)
        if not check.closed
    ]


def _advise_losses(library: Library, of: str) -> list[Advice]:
    lines = summary.left_out(library)
    came = summary.templates_in(library)
    return [
        Advice(
            "warning",
            f"{percent(lines[line], came)} of the templates{of} {LOST_ADVICE[line]}.",
            line,
            library.name,
        )
        for line, bar in LOST_SHARE.items()
        if lines.get(line, 0) > bar * came
    ]


def _advise_samples(library: Library) -> list[Advice]:
    if not library.samples:
        return []
    if not summary.templates_in(library):
        text = f"Library {library.name} has no reads: its input files are empty."
        return [Advice("warning", text, "empty", library.name)]
    empty = [sample.name for sample in library.samples if not sample.reads]
    if not empty:
        return []
    subject = f"Sample {empty[0]} has" if len(empty) == 1 else f"Samples {names(empty)} have"
    its = "its barcode" if len(empty) == 1 else "their barcodes"
    text = f"{subject} no reads: right for a blank control, else check {its} in samples.tsv."
    return [Advice("note", text, "blank", library.name)]


def _advise_chance(library: Library) -> list[Advice]:
    return [
        Advice(
            "warning",
            f"Sample {name} expects {count(number)} chance matches ({percent(share, 1.0)} of its "
            "reads): give its layout more constant bases, or anchor it with `^`.",
            "chance",
            name,
        )
        for name, (number, share) in summary.chance_shares(library).items()
        if share > CHANCE_SHARE
    ]


def _advise_depth(library: Library, of: str) -> list[Advice]:
    found = []
    small, reads = sum(summary.below_filter(library).values()), summary.assigned(library)
    if reads and small > SMALL_SHARE * reads:
        text = f"{percent(small, reads)} of the assigned templates{of} are in molecules below "
        found.append(
            Advice("note", text + "`min_reads`: lower it to keep them.", "small", library.name)
        )
    single = summary.single_read_share([library])
    if single > SINGLE_SHARE and not any(map(disagrees, library.barcodes.values())):
        text = f"{percent(single, 1.0)} of the molecules{of} rest on a single read"
        text += _single_advice(library)
        found.append(Advice("note", text, "single", library.name))
    return found


def _single_advice(library: Library) -> str:
    """What to do about molecules of one read: they may be real, or what errors left behind."""
    middle = summary.median_size_of_reads([library])
    if middle < DEEP_READS:
        return ": sequence deeper, or set `min_reads: 2` to leave them out."
    text = f", though half of the reads are in molecules of {plural(middle, 'read')} or more: "
    if not library.corrects:
        return text + "most look like errors, which `refine_method: posterior` finds."
    text += "many may be errors that cannot be traced. Set `min_reads: 2` to leave them out."
    return text


def disagrees(row: Barcodes) -> bool:
    """Whether the payloads of one barcode disagree though few molecules can share it."""
    if row.agreement is None or row.agreement >= AGREEMENT or not row.barcodes or not row.space:
        return False
    filled = row.families / row.space
    # Molecules of a barcode that has one, if these were all molecules.
    expected = filled / -math.expm1(-filled)
    return row.families / row.barcodes > CROWDED_FAMILIES * expected


def _advise_barcodes(library: Library) -> list[Advice]:
    reads = {sample.name: sample.reads for sample in library.samples}
    found = []
    for name, row in library.barcodes.items():
        found += [*_advise_space(name, row), *_advise_errors(name, row)]
        if disagrees(row):
            found.append(_advise_placement(name, row))
            continue
        if (row.chimera_rate or 0.0) > CHIMERA_RATE:
            text = f"{percent(row.chimera_rate or 0.0, 1.0)} of the reads of sample {name} are "
            text += "chimeras: use fewer cycles of PCR, or look at the column `status` of "
            text += "molecules.parquet for what was set apart."
            found.append(Advice("warning", text, "chimeras", name))
        if row.unresolved_reads > UNRESOLVED_SHARE * reads.get(name, 0):
            share = percent(row.unresolved_reads, reads.get(name, 0))
            text = f"{share} of the reads of sample {name} are unresolved, with too many unsure "
            text += "bases in their barcode: look at the quality of these cycles."
            found.append(Advice("warning", text, "unsure", name))
    return found


def _advise_placement(name: str, row: Barcodes) -> Advice:
    text = f"Only {percent(row.agreement or 0.0, 1.0)} of the pairs of reads with one barcode have "
    text += (
        f"payloads that agree in sample {name}, though molecules are too few to share barcodes: "
    )
    text += "where reads start at different places set `placement: tile`, else the number of "
    text += "molecules is wrong; where they start at one, see whether `layout` takes the UMI."
    return Advice("warning", text, "placement", name)


def _advise_space(name: str, row: Barcodes) -> list[Advice]:
    if row.occupancy > SATURATED_SHARE:
        text = f"Sample {name} is saturated: it has {row.occupancy:.2g} molecules for each barcode "
        text += "there could be, so many share one and cannot be told apart: use longer UMIs."
        return [Advice("warning", text, "saturated", name)]
    if row.occupancy > CROWDED_SHARE:
        text = f"The molecules of sample {name} take {percent(row.occupancy, 1.0)} of the barcodes "
        text += "there could be, so neighbours by chance look like errors: use longer UMIs."
        return [Advice("warning", text, "crowded", name)]
    return []


def _advise_errors(name: str, row: Barcodes) -> list[Advice]:
    """Where the two estimates differ by more than chance (basis "both"), and by much."""
    error, quality = row.error or 0.0, row.error_quality or 0.0
    if row.error_basis != "both" or not min(error, quality):
        return []
    start = f"Barcodes of sample {name} have {error:.1e} errors a base, "
    if error > ERROR_RATIO * quality:
        text = f"{error / quality:.1f} times what their qualities say: they arose before the "
        text += "sequencer, in PCR or in the oligo; correction takes that into account."
    elif quality > ERROR_RATIO * error:
        text = f"{percent(error / quality, 1.0)} of what their qualities say: do not trust these "
        text += "qualities too far; correction takes that into account."
    else:
        return []
    return [Advice("note", start + text, "errors", name)]


def _advise_spill(library: Library, of: str) -> list[Advice]:
    spilled = [job for job in library.jobs if job.umi_spill_bytes]
    if not spilled:
        return []
    total = size(sum(job.umi_spill_bytes for job in spilled))
    wanted = job_sums.buckets_without_spill(library, spilled)
    start = f"{plural(len(spilled), 'job')}{of} spilled {total}: raise "
    if wanted > library.buckets:
        start += f"`buckets` from {library.buckets} to {wanted} or "
    text = f"{start}`mem_mb` of {_rules(spilled)}. The results are the same, only slower."
    return [Advice("note", text, "spill", library.name)]


def _advise_skew(library: Library, of: str) -> list[Advice]:
    walls: dict[str, float] = {}
    for job in library.jobs:
        if job.bucket is not None:
            walls[job.bucket] = walls.get(job.bucket, 0.0) + job.wall_seconds
    middle = sorted(walls.values())[len(walls) // 2] if walls else 0.0
    slow = max(walls, key=lambda bucket: walls[bucket], default="")
    if len(walls) < 4 or walls[slow] < max(SKEW_SECONDS, SKEW * middle):
        return []
    ratio = walls[slow] / middle if middle > 0 else 0.0
    text = f"Bucket {slow}{of} took {duration(walls[slow])}, {ratio:.1f} times the median: "
    text += "few barcodes hold most reads, so more buckets will not help."
    return [Advice("note", text, "skew", library.name)]


def _advise_memory(jobs: Sequence[Job]) -> list[Advice]:
    planned = [job for job in jobs if job.allowed_bytes and job.peak_rss_bytes]
    if not planned:
        return []
    worst = max(planned, key=lambda job: job.peak_rss_bytes / job.allowed_bytes)
    over = [job for job in planned if job.peak_rss_bytes > job.allowed_bytes]
    share = worst.peak_rss_bytes / worst.allowed_bytes
    if over:
        used = f"{size(worst.peak_rss_bytes)} of {size(worst.allowed_bytes)}"
        text = f"{plural(len(over), 'job')} used more memory than planned ({worst.title}: {used}):"
        return [Advice("warning", f"{text} raise `mem_mb` of {_rules(over)}.")]
    if share < IDLE_SHARE and max(job.allowed_bytes for job in planned) >= IDLE_BUDGET_BYTES:
        text = f"No job used more than {percent(share, 1.0)} of its memory: `mem_mb` can be lowered"
        return [Advice("note", text + ", so that more jobs run at once.")]
    return []


def _rules(jobs: Sequence[Job]) -> str:
    return names(sorted({job.rule or job.stage for job in jobs}, key=job_sums.stage_order))


def _advise_start(libraries: Sequence[Library]) -> list[Advice]:
    jobs = job_sums.all_jobs(libraries)
    busy = sum(sum(job_sums.busy_seconds(job).values()) for job in jobs)
    idle = sum(_clock(job.clocks, "start") + _clock(job.clocks, "compile") for job in jobs)
    spilled = any(job.umi_spill_bytes for job in jobs)
    single = all(library.buckets == 1 for library in libraries)
    if busy <= 0 or idle <= START_SHARE * busy or spilled or single:
        return []
    share = percent(idle, busy)
    text = f"{share} of the busy time went into starting up: fewer `buckets` would be faster."
    return [Advice("note", text)]


def _clock(clocks: Mapping[str, float], name: str) -> float:
    return float(clocks.get(name, 0.0))
