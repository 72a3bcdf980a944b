"""The model and the score together: edges that are accepted are right, posteriors are honest."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import score_fixture
import score_judge
from score_fixture import World
from score_judge import Outcome


@cache
def outcome_of(world: World) -> Outcome:
    with TemporaryDirectory() as folder:
        return score_judge.run(score_fixture.simulate(world), Path(folder))


@pytest.mark.parametrize(
    ("depth", "clones", "precision", "recall"),
    [
        (1.5, 200, 0.99, 0.80),
        (5.0, 200, 0.99, 0.97),
        (13.0, 200, 0.99, 0.99),
        (2.3, 20_000, 0.999, 0.92),
        # 0.895 is what one who knows the world finds.
        (7.0, 1, 0.99, 0.89),
    ],
)
def test_edges_are_right(depth: float, clones: int, precision: float, recall: float) -> None:
    world = World(depth=depth, clones=clones)
    found = outcome_of(world)
    oracle = score_judge.run_oracle(score_fixture.simulate(world), world)
    said = (
        f"precision {found.precision:.4f}, recall {found.recall:.4f}; one who knows the world: "
        f"{oracle.precision:.4f}, {oracle.recall:.4f}\n"
        + "\n".join(str(row) for row in found.calibration())
    )
    assert found.precision >= precision, said
    assert found.recall >= recall, said
    assert found.f1 >= oracle.f1 - 0.03, said
    assert found.precision >= oracle.precision - 0.005, said


@pytest.mark.parametrize(("depth", "clones"), [(2.3, 1), (7.0, 1), (13.0, 1), (1.5, 20), (5.0, 20)])
def test_posteriors_are_what_they_say(depth: float, clones: int) -> None:
    """The shares of errors and of molecules are within a factor of 2 of the posterior's."""
    seen = 0
    found = [outcome_of(World(depth=depth, clones=clones, seed=seed)) for seed in (1, 2, 3)]
    posterior = np.concatenate([one.posterior for one in found])
    true = np.concatenate([one.true for one in found])
    table = Outcome({}, 0.0, 0.0, posterior, true).calibration()
    for _, count, mean, share in table:
        # Few edges say little: three standard deviations are allowed for. Qualities know nothing of
        # errors of PCR in one read, and one with another error too is none of a neighbour.
        slack = 5e-3 + 3 * math.sqrt(max(mean * (1 - mean), 1e-3) / max(count, 1))
        for expected, there in ((mean, share), (1 - mean, 1 - share)):
            assert there <= 2 * expected + slack, table
            assert there >= expected / 2 - slack, table
        seen += count >= 50
    assert seen >= 3, table
