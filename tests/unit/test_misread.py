"""Reads misread at several bases: each goes to its molecule, or to none."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accuracy.cases import Case, all_cases, parameters
from accuracy.contestants import Corrected, Task
from accuracy.generate import generate, write_reads
from accuracy.scores import Scores, score
from umimill.jit import kernel
from umimill.kernels import queries as kernels
from umimill.kernels.asks import ln_missed
from umimill.kernels.score import EdgeModel
from umimill.likelihood import ln_fine, log_tables
from umimill.queries import ANSWER, best_answers


def corrected(case: Case, folder: Path) -> Scores:
    reads = generate(case, 1)
    write_reads(reads, folder / "reads.fastq.gz")
    place = reads.truth.clone[reads.truth.molecule]
    count = reads.bases.shape[0]
    task = Task(folder / "reads.fastq.gz", case.layout, count, 1, folder, place)
    return score(reads.truth, Corrected().label(task))


def test_two_misread_bases_are_found_whatever_their_quality(tmp_path: Path) -> None:
    flat: dict[str, Any] = {"quality_levels": (30,), "quality_weights": (), "mean_error": 1e-3}
    case = Case(
        "twice",
        "one barcode of 150 has two errors, and qualities do not tell",
        parameters(molecules=1500, clones=20_000, barcode_error=1e-2, **flat),
        flat_quality=32,
    )
    found = corrected(case, tmp_path)
    assert found.recall > 0.99
    assert found.precision > 0.999
    assert found.miscount < 10


def test_runs_of_unsure_bases_go_to_their_molecule_alone(tmp_path: Path) -> None:
    full = all_cases()["clones-200"]
    found = corrected(full.scaled(0.2), tmp_path)
    assert found.recall > 0.94
    assert found.precision > 0.985
    assert found.mixed < 0.002


def test_a_second_parent_speaks_against_the_first() -> None:
    answers = np.zeros(8, ANSWER)
    answers["row"] = [1, 2, 2, 3, 3, 4, 4, 4]
    answers["score"] = [70, 900, 200, 900, -5, 300, 300, 100]
    answers["parent_key"] = np.arange(8)[::-1]
    best = best_answers(answers)
    assert best["row"].tolist() == [1, 2, 3, 4]
    assert best["score"].tolist() == [70, 699, 900, -1]


@kernel
def missed(quality: Any, start: int, stop: int, model: Any, places: Any) -> int:
    return ln_missed(quality, 0, start, stop, 0, model, places)


@pytest.mark.parametrize("unsure", [0, 1, 3, 8, 10])
def test_the_chance_of_what_is_not_asked_for(unsure: int) -> None:
    log, factorial = log_tables()
    errors = np.minimum(10 ** (-np.arange(256) / 20), 0.75)
    empty = np.zeros((1, 1), np.int64)
    tables = {name: empty for name in EdgeModel._fields}
    tables |= {"log": log, "factorial": factorial}
    tables |= {"misread": ln_fine(errors / 3)[None], "right": ln_fine(1 - errors)[None]}
    phreds = [2] * 2 + [7] * unsure + [30] * (12 - unsure)
    quality = np.array([[2 * phred for phred in phreds]], np.uint8)
    tried = min(unsure, kernels.MOST_UNSURE)
    right = [1 - errors[half] for half in quality[0, 2:]]
    exact = (1 - math.prod(right[:tried])) * (1 - math.prod(right[tried:]))
    places = np.zeros(kernels.MOST_UNSURE, np.int64)
    found = missed(quality, 2, 14, EdgeModel(**tables), places) / (1 << 20)
    if unsure:
        assert found == pytest.approx(math.log(exact), abs=0.01)
    else:
        assert found < -18
