"""One temperature makes probabilities mean what they say, unless noise is larger than what it would gain."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.methods.auto.calibrate import TEMPERATURES, temperature
from dpsql.trees.score_grid import POINTS


def counted(true_temperature: float, rows: int) -> np.ndarray:
    """Return counts of events that happen with the odds that a model says, divided by a temperature."""
    generator = np.random.default_rng(7)
    odds = np.log(np.array(POINTS)) - np.log1p(-np.array(POINTS))
    place = generator.integers(0, len(POINTS), rows)
    happens = generator.random(rows) < 1 / (1 + np.exp(-odds[place] / true_temperature))
    found = np.zeros((2, len(POINTS)))
    np.add.at(found, (happens.astype(int), place), 1)
    return found


@pytest.mark.parametrize("true", [0.6, 1.0, 1.5, 2.5])
def test_the_true_temperature_is_found_where_noise_is_small(true: float) -> None:
    """With many rows and little noise the temperature that made the counts is the one that is taken."""
    found = temperature(counted(true, 200_000), 1.0)
    assert TEMPERATURES.index(found) == pytest.approx(TEMPERATURES.index(true), abs=1)


def test_nothing_moves_where_noise_is_larger_than_the_gain() -> None:
    """A gain that noise may have made up leaves the model as it is."""
    assert temperature(counted(1.5, 2000), 1000.0) == 1.0
    assert temperature(counted(1.5, 2000), 0.1) > 1.0


def test_pure_noise_hardly_ever_moves_it() -> None:
    """Counts of no rows at all, under noise alone, leave the temperature at 1 nearly always."""
    generator = np.random.default_rng(3)
    moved = [temperature(generator.laplace(0, 50 / np.sqrt(2), (2, len(POINTS))), 50.0) != 1.0 for _ in range(400)]
    assert np.mean(moved) < 0.15
