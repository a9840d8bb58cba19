"""The noise of each release has the scale that its plan states: the right scale passes, one 30 % off is rejected."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpsql.kernel.operations import Size
from dpsql.kernel.plan import Sequential, Step
from dpsql.mechanisms.laplace import discrete_laplace
from dpsql.schema import Schema
from tests.kernel.helpers import (
    EPSILON,
    exact_histograms,
    exact_leaf_counts,
    has_scale,
    held,
    histogram_step,
    leaf_step,
    session,
)
from tests.tables import SCHEMA, UNITS, small_forest, some_rows

FOREST = small_forest(trees=24, depth=5)
CLASSES = len(SCHEMA.classes)
TREES = pytest.mark.parametrize("shared", [False, True], ids=["disjoint", "shared"])
LEVELS = pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])


@TREES
@LEVELS
def test_leaf_counts_carry_noise_of_the_stated_scale(schema: Schema, shared: bool) -> None:
    """Released minus exact counts is noise of scale c·T/epsilon (shared) or c/epsilon (disjoint), nothing else."""
    step = leaf_step("leaf_counts", FOREST, CLASSES, shared=shared, nano=EPSILON // 4)
    scale = Fraction(4 * (24 if shared else 1) * schema.unit.max_rows)
    database = held(some_rows(), schema=schema)
    opened = session(database, step)
    noise = opened.leaf_counts("leaves", FOREST) - exact_leaf_counts(database, opened, FOREST, shared=shared)
    assert noise.size > 1500
    assert has_scale(noise, scale)
    assert not has_scale(noise, scale * Fraction(13, 10))
    assert not has_scale(noise, scale * Fraction(10, 13))


@TREES
@LEVELS
def test_histograms_carry_noise_of_the_stated_scale(schema: Schema, shared: bool) -> None:
    """Released minus exact cells is noise of scale c·T·axes/epsilon (shared) or c·axes/epsilon (disjoint)."""
    forest = small_forest(trees=4, depth=2)
    step = histogram_step(forest, [0, 1], CLASSES, shared=shared)
    scale = Fraction(2 * (4 if shared else 1) * schema.unit.max_rows)
    database = held(some_rows(), schema=schema)
    opened = session(database, step)
    noise = opened.histograms("bins", forest, [0, 1])
    noise -= exact_histograms(database, opened, forest, [0, 1], shared=shared)
    inside = np.concatenate([noise[:, 0, : forest.axes[0].cells].ravel(), noise[:, 1].ravel()])
    assert inside.size > 1500
    assert has_scale(inside, scale)
    assert not has_scale(inside, scale * Fraction(13, 10))
    assert not has_scale(inside, scale * Fraction(10, 13))


@LEVELS
def test_size_carries_noise_of_the_stated_scale(schema: Schema) -> None:
    """Released minus exact sizes is noise of scale c/epsilon (at most three tries of 120 sizes each)."""
    scale = Fraction(20 * schema.unit.max_rows)
    exact = 41 if schema is UNITS else 42
    database = held(some_rows(38), schema=schema)
    passed = []
    for _ in range(3):
        opened = session(database, Sequential(tuple(Step(f"n{k}", Size(), EPSILON // 20) for k in range(120))))
        sizes = np.array([opened.size(f"n{k}") for k in range(120)])
        passed.append(has_scale(sizes - exact, scale, tolerance=0.19))
        if passed[-1]:
            break
    assert passed[-1]


def test_the_test_of_sizes_has_power() -> None:
    """Of 400 sets of 120 sizes nearly all pass at the right scale, few at one half too large or a third too small."""

    def rate(scale: Fraction) -> float:
        noise = discrete_laplace(scale, 400 * 120).reshape(400, 120)
        return float(np.mean([has_scale(row, 20, tolerance=0.19) for row in noise]))

    assert rate(Fraction(20)) > 0.9
    assert rate(Fraction(20) * Fraction(13, 10)) < 0.35
    assert rate(Fraction(60)) == rate(Fraction(20, 3)) == 0


def test_every_cell_has_noise_of_its_own() -> None:
    """Two releases of one table differ in most cells, and neighbouring cells are not correlated."""
    steps = [leaf_step("leaf_counts", FOREST, CLASSES, shared=True) for _ in range(2)]
    database = held(some_rows())
    first, second = (session(database, step).leaf_counts("leaves", FOREST).ravel() for step in steps)
    noise = first - second
    correlation = np.corrcoef(noise[:-1], noise[1:])[0, 1]
    assert np.count_nonzero(noise) > 0.8 * noise.size
    assert abs(correlation) < 0.12
