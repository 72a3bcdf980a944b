"""What correction did, for the report page: its figures and sentences, and the curve of ranks."""

from __future__ import annotations

from collections.abc import Sequence

from umimill import barcode_sums, plots_refine, summary
from umimill.findings import count, percent, plural
from umimill.report_figures import Figure, drawn
from umimill.summary import Library

# Errors left that are worth a word: fewer are in the noise of counting.
LEAST_ERRORS = 0.5


def figures(libraries: Sequence[Library]) -> tuple[Figure, ...]:
    """Figures of all libraries together, those that have something to show."""
    made = (make(libraries) for make in (posteriors, sizes, errors))
    return tuple(figure for figure in made if figure is not None)


def posteriors(libraries: Sequence[Library]) -> Figure | None:
    """How sure it was of each family that it is an error of another, or that it is none."""
    rows = [row for library in libraries for row in library.posteriors]
    bins = barcode_sums.posterior_bins(rows)
    whole = sum(corrected + apart for _, corrected, apart in bins)
    if not whole:
        return None
    unsure = sum(c + a for least, c, a in bins if 0.1 <= least < 0.9)
    title = f"{percent(whole - unsure, whole)} of the decisions on barcodes were sure"
    drawn_bins = [(f"{least:g}", corrected, apart) for least, corrected, apart in bins]
    return drawn(
        title,
        "Families that have a possible parent, by the posterior that they are an error of it; "
        "sure: below 0.1 or from 0.9 on. A run with many in the middle is one whose count of "
        "molecules depends on `min_posterior`.",
        lambda width, name: plots_refine.posterior_bars(
            drawn_bins, width=width, name=name, label=f"{title}."
        ),
        "posteriors",
        [
            ("corrected", plots_refine.CORRECTED_COLOR),
            ("left apart", plots_refine.APART_COLOR),
        ],
    )


def sizes(libraries: Sequence[Library]) -> Figure | None:
    """Reads of families before, and of molecules after correction."""
    rows = [row for library in libraries for row in library.family_sizes]
    bins = barcode_sums.size_bins(rows)
    families, molecules = (sum(column) for column in zip(*bins, strict=True)) if bins else (0, 0)
    if not families or families == molecules:
        return None
    title = f"{count(families)} families became {plural(molecules, 'molecule')}"
    titled = [(summary.bin_title(k), *row) for k, row in enumerate(bins)]
    return drawn(
        title,
        "Families by their reads before correction, and molecules by theirs after it, in powers of "
        "two. Errors are families of few reads beside deep ones: correction takes from the left.",
        lambda width, name: plots_refine.size_steps(
            titled, width=width, name=name, label=f"{title}."
        ),
        "before",
        [
            ("families before", plots_refine.BEFORE_COLOR),
            ("molecules after", plots_refine.AFTER_COLOR),
        ],
    )


def errors(libraries: Sequence[Library]) -> Figure | None:
    """The error of a barcode base by depth."""
    rows = [row for library in libraries for row in library.umi_errors]
    bins = barcode_sums.depth_errors(rows)
    if len(bins) < 2:
        return None
    titled = [(summary.bin_title(k), merged, model) for k, merged, model in bins]
    _, merged, model = bins[-1]
    title = (
        f"The deepest molecules show {1000 * merged:.2g} single errors in 1,000 barcode bases; "
        f"correction reckoned with {1000 * model:.2g}"
    )
    return drawn(
        title,
        "Dots: reads of corrected families one base from their parent, over the bases of these and "
        "the parents' reads, by the parents' reads. Reads with several wrong bases are not among "
        "them, so dots may lie below the line. In molecules of one or two reads errors have no "
        "parent, or are taken for one another; where dots go on rising, PCR made errors.",
        lambda width, name: plots_refine.error_dots(
            titled, width=width, name=name, label=f"{title}."
        ),
        "depths",
        [
            ("by what was corrected", plots_refine.MERGED_COLOR),
            ("reckoned with", plots_refine.MODEL_COLOR),
        ],
    )


def ranks(libraries: Sequence[Library]) -> Figure | None:
    """Reads of molecules by rank: whether a few of them hold many of the reads."""
    rows = [row for library in libraries for row in library.ranks]
    curves = barcode_sums.rank_curves(rows)
    if not curves:
        return None
    tops = {name: barcode_sums.top_point(curve) for name, curve in curves.items()}
    # The first of equals, so that the order of the sheet decides.
    chosen = max(tops, key=lambda name: tops[name].share)
    top, whole = tops[chosen], plural(curves[chosen][-1].rank, "molecule")
    largest = "largest" if top.rank == 1 else f"{count(top.rank)} largest"
    verb = "holds" if top.rank == 1 else "hold"
    title = f"The {largest} of {whole} {verb} {percent(top.share, 1.0)} of the reads"
    title += f" of sample {chosen}" if len(curves) > 1 else ""
    others = [curve for name, curve in curves.items() if name != chosen]
    legend = [(chosen, plots_refine.CHOSEN_COLOR)]
    legend += [("the other samples", plots_refine.OTHERS_COLOR)] if others else []
    return drawn(
        title,
        "Reads of a sample's molecules, the largest first, both axes in logarithms. A steep start "
        "is a few molecules that were amplified far more than the others"
        + ("; shown in colour is the sample whose largest hold most." if others else "."),
        lambda width, name: plots_refine.rank_lines(
            curves[chosen], others, width=width, name=name, label=f"{title}."
        ),
        "ranks",
        legend if others else (),
    )


def expected(libraries: Sequence[Library]) -> str:
    """How many decisions are expected to be wrong; empty where nothing was corrected."""
    rows = [row for library in libraries for row in library.corrections]
    corrected = sum(row.corrected for row in rows)
    if not corrected:
        return ""
    left = sum(row.errors_left for row in rows)
    wrong = sum(row.wrong_merges for row in rows)
    if max(left, wrong) < LEAST_ERRORS:
        return "By their posteriors, none of the decisions on barcodes is expected to be wrong."
    molecules = plural(sum(row.molecules for row in rows), "molecule")
    return (
        f"By their posteriors, correction is expected to have left {plural(round(left), 'error')} "
        f"among the {molecules}, and to have lost {plural(round(wrong), 'molecule')} among the "
        f"{count(corrected)} corrected families."
    )
