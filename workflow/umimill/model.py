"""model: add up what the buckets of a library counted and make the tables that score edges.

Sums are whole numbers and draws are the smallest hashes, so the model does not depend on how the
families were split into buckets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umimill import census, payloads
from umimill.blockfile import BlockFile, BlockWriter
from umimill.census import Estimates, Sums
from umimill.kernels.score import EdgeModel
from umimill.kernels.status import MINORS
from umimill.likelihood import (
    HALF_PHREDS,
    ln_fine,
    ln_unit,
    log_tables,
    near_table,
    same_table,
    softplus_table,
    ways_table,
)
from umimill.metrics import Meter
from umimill.pair_census import LARGER, SMALLER
from umimill.plan import read_plan
from umimill.statuses import estimate_chimeras, status_tables

MOST_DRAWS = 2048
BARCODE = 32
DIGITS = 6
_ADDED = (
    "minors",
    "minor_sizes",
    "composition",
    "barcode_phred",
    "barcode_wrong",
    "pairs",
    "pair_sizes",
)

Array = npt.NDArray[Any]


def model(plan_path: Path, tables: Sequence[Path], output: Path, meter: Meter) -> None:
    """Make the model of a library.

    Args:
        plan_path: plan of the library.
        tables: families of all buckets; their sums are read.
        output: model file to write.
        meter: metrics of the job.
    """
    plan = read_plan(plan_path)
    with meter.clock("decode"):
        totals = add_sums(tables, len(plan.samples), meter)
    meter.reads = int((totals["sizes"][:, 1] * totals["sizes"][:, 2]).sum())
    arrays: dict[str, list[Array]] = {}
    reports = {}
    with meter.clock("model"):
        for number, (sample, width) in enumerate(
            zip(plan.samples, plan.leaves.widths, strict=True)
        ):
            draft_errors = payloads.draft_error_table(totals["barcode_phred"][number])
            sums = sample_sums(totals, number, width, draft_errors)
            estimates = census.estimate(sums)
            draws = sample_draws(totals, number)
            chimeras = estimate_chimeras(totals["minors"][number], draws, estimates)
            tables_of_sample = {
                **sample_tables(estimates, draft_errors, draws),
                **status_tables(chimeras, estimates),
                "unseen": unseen_reads(
                    estimates.molecules * float(estimates.sizes[1]),
                    estimates.reads,
                    int(plan.partial_rows[number]),
                ),
            }
            for name, array in tables_of_sample.items():
                arrays.setdefault(name, []).append(array)
            reports[sample] = {
                **report_fields(estimates),
                "chimera_rate": _rounded(chimeras.rate),
                "shift_rate": _rounded(chimeras.shifts),
            }
            meter.counters["families"] = meter.counters.get("families", 0) + estimates.families
    with BlockWriter(output) as writer:
        for name, table in common_tables().items():
            writer.add(name, table)
        for name, rows in arrays.items():
            writer.add(name, np.stack(rows))
        writer.finish({"samples": reports, "tables": [str(path) for path in tables]})
        meter.written_bytes = writer.offset


def read_model(path: Path) -> EdgeModel:
    """Read a model as the kernels take it."""
    with BlockFile(path) as file:
        return EdgeModel(*(file.read(name) for name in EdgeModel._fields))


def common_tables() -> dict[str, Array]:
    """Return the tables that all samples share, by the name of the field of EdgeModel.

    They are stored with the rest: made once a library, and no job spends time on them.
    """
    log, factorial = log_tables()
    return {
        "log": log,
        "factorial": factorial,
        "softplus": softplus_table(),
        "same": same_table(),
        "ways": ways_table(),
        "near": near_table(),
    }


def read_tables(path: Path) -> list[Path]:
    """Return the tables of families of all buckets, which link reads through this list."""
    with BlockFile(path) as file:
        return [Path(one) for one in file.header["tables"]]


def read_estimates(path: Path) -> dict[str, dict[str, Any]]:
    """Read what the model says of each sample, for the report; see `report_fields`."""
    with BlockFile(path) as file:
        return dict(file.header["samples"])


def add_sums(tables: Sequence[Path], samples: int, meter: Meter) -> dict[str, Array]:
    """Add up the sums of all tables; draws are the smallest hashes of each sample.

    Returns:
        The arrays of tally by name.
    """
    totals: dict[str, Array] = {
        "composition": np.zeros((samples, BARCODE, 4), np.int64),
        "barcode_phred": np.zeros((samples, 94), np.int64),
        "barcode_wrong": np.zeros((samples, 2), np.int64),
        "pairs": np.zeros((samples, BARCODE, 2), np.int64),
        "pair_sizes": np.zeros((samples, LARGER, SMALLER), np.int64),
        "minors": np.zeros((samples, MINORS), np.int64),
        "minor_sizes": np.zeros((samples, 64), np.int64),
        "cells": np.zeros((samples, 3), np.int64),
        "sizes": np.zeros((0, 3), np.int64),
    }
    draws: Array | None = None
    for path in tables:
        with BlockFile(path) as file:
            for name in _ADDED:
                totals[name] += file.read(name)
            cells = file.read("cells")
            totals["cells"][:, :2] += cells[:, :2]
            totals["cells"][:, 2] = np.maximum(totals["cells"][:, 2], cells[:, 2])
            totals["sizes"] = _add_sizes(totals["sizes"], file.read("sizes"))
            more = file.read("draws")
            draws = _least_draws(more if draws is None else np.concatenate([draws, more]))
        meter.read_bytes += path.stat().st_size
    assert draws is not None
    totals["draws"] = draws
    return totals


def _add_sizes(first: Array, second: Array) -> Array:
    rows = np.concatenate([first, second])
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    if not rows.size:
        return rows
    new = np.ones(rows.shape[0], bool)
    new[1:] = (rows[1:, :2] != rows[:-1, :2]).any(1)
    starts = np.flatnonzero(new)
    return np.column_stack([rows[starts, :2], np.add.reduceat(rows[:, 2], starts)])


def _least_draws(draws: Array) -> Array:
    """Return the draws of the smallest hashes of each sample, sorted."""
    keys = ("draft_quality", "reads", "mask", "draft", "hash", "sample")
    draws = draws[np.lexsort(tuple(draws[key] for key in keys))]
    starts = np.searchsorted(draws["sample"], draws["sample"], side="left")
    return draws[np.arange(draws.size) - starts < MOST_DRAWS]


def sample_draws(totals: Mapping[str, Array], sample: int) -> Array:
    """Return DRAW[*] of a sample, in the order of their hashes."""
    draws = totals["draws"]
    own: Array = draws[draws["sample"] == sample]
    return own


def sample_sums(totals: Mapping[str, Array], sample: int, width: int, errors: Array) -> Sums:
    """Return the sums of a sample, its draws paired with the 16 behind them.

    Args:
        totals: arrays of `add_sums`.
        sample: number of the sample.
        width: w of its leaves.
        errors: i64[2, 256], 2^20 times the error of a draft's base.
    """
    sizes = totals["sizes"][totals["sizes"][:, 0] == sample]
    return Sums(
        width=width,
        sizes=sizes[:, 1],
        counts=sizes[:, 2],
        composition=totals["composition"][sample],
        phreds=totals["barcode_phred"][sample],
        wrong=totals["barcode_wrong"][sample],
        pairs=totals["pairs"][sample],
        pair_sizes=totals["pair_sizes"][sample],
        minor_sizes=totals["minor_sizes"][sample],
        cells=totals["cells"][sample],
        drafts=payloads.pair_draws(sample_draws(totals, sample), errors),
    )


def sample_tables(estimates: Estimates, draft_errors: Array, draws: Array) -> dict[str, Array]:
    """Return the tables of a sample, by the name of the field of EdgeModel.

    Args:
        estimates: of the sample.
        draft_errors: i64[2, 256], 2^20 times the error of a draft's base.
        draws: DRAW[*] of the sample, in the order of their hashes.
    """
    errors = estimates.errors
    growth = np.zeros(estimates.growth.size, np.int64)
    growth[1:] = ln_fine(estimates.growth[1:])
    return {
        "misread": ln_fine(errors / 3),
        "right": ln_fine(1.0 - errors),
        "misses": np.array(round(estimates.error / 3 * (1 << 30)), np.int64),
        "growth": growth,
        "reads": ln_fine(max(estimates.reads, 1)),
        "families": ln_fine(max(estimates.molecules, 1.0)),
        "cell_families": ln_fine(
            max(estimates.molecules, 1.0) / max(1, estimates.families) * estimates.crowd
        ),
        "sizes": ln_fine(estimates.sizes),
        "composition": ln_fine(estimates.composition),
        "draft_errors": draft_errors.reshape(2, HALF_PHREDS),
        "unrelated": ln_unit(np.maximum(estimates.unrelated, 1e-30)),
        "clonal": ln_unit(estimates.equal_payloads),
        **payloads.drawn_tables(draws, draft_errors),
    }


def unseen_reads(lone: float, reads: int, partial: int) -> npt.NDArray[np.int64]:
    """Return i64[2], fine ln(reads of molecules that nobody else has read).

    A read with an unknown base may be the only one of its molecule, or all others have one too. A
    base is missing or too many in all reads of a molecule, where its barcode was made so; any
    molecule may be one of these.

    Args:
        lone: expected molecules of one read.
        reads: reads whose barcode was fully read.
        partial: the others.
    """
    unknown = lone + reads * (partial / max(1, reads + partial))
    return ln_fine(np.maximum(np.array([unknown, float(reads)]), 1.0))


def report_fields(estimates: Estimates) -> dict[str, Any]:
    """Return what the report says of a sample: whole numbers, and floats of six digits."""
    fields: dict[str, Any] = {
        "families": estimates.families,
        "molecules": _rounded(estimates.molecules),
        "barcode_length": estimates.length,
        "effective_length": _rounded(int(ln_fine(estimates.space)) / (2 * int(log_tables()[0][2]))),
        "space": _rounded(estimates.space),
        "occupancy": _rounded(estimates.occupancy),
        "families_of_a_cell": _rounded(estimates.crowd),
        "neighbour_density": _rounded(estimates.density),
        "clonality": _rounded(estimates.clonality),
        "equal_payloads": _rounded(estimates.equal_payloads),
        "neighbour_pairs_excess": _rounded(estimates.excess),
        "neighbour_pairs_chance": _rounded(estimates.chance),
        "errors_alone": _rounded(estimates.alone),
        "error_census": _rounded(estimates.error_census),
        "error_quality": _rounded(estimates.error_quality),
        "error": _rounded(estimates.error),
        "error_basis": estimates.basis,
    }
    return fields


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
