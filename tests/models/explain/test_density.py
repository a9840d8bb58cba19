"""How rows spread over a feature, found again from the counts of random branches."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.models.explain.density import axis_masses, feature_mass, rows_of_leaves
from dpsql.schema import Categorical, Numeric, Schema, Target
from dpsql.trees.grid import axes, grid_cells
from dpsql.trees.grow.random_trees import random_forest
from dpsql.trees.voting import VotingForest
from tests.models.explain.made import in_nats

SCHEMA = Schema("y", ("no", "yes"), (Numeric("x", 0, 64), Categorical("c", ("a", "b", "d")), Numeric("z", 0, 1)))


def counted_forest(noise: float) -> tuple[VotingForest, np.ndarray]:
    """Return random trees that counted skewed rows with Laplace noise, and how the rows spread over x."""
    generator = np.random.default_rng(4)
    columns = {
        "x": np.minimum(generator.exponential(8, 20_000), 63.5),
        "c": generator.choice(["a", "b", "d"], 20_000, p=[0.7, 0.2, 0.1]),
        "z": generator.random(20_000),
    }
    forest = random_forest(axes(SCHEMA), trees=30, depth=4, seed=2)
    grid = grid_cells(SCHEMA, columns)
    leaves, number = forest.route(grid), generator.integers(0, 2, 20_000)
    exact = np.zeros((forest.leaves, 2))
    np.add.at(exact, (leaves, number[:, None]), 1)
    weights = np.rint(exact + generator.laplace(0, noise, exact.shape)).astype(np.int64)
    return VotingForest(forest, weights), np.bincount(grid[:, 0], minlength=64) / 20_000


@pytest.mark.parametrize("noise", [1e-9, 5.0])
def test_skewed_rows_are_found_again(noise: float) -> None:
    """Shares of cells are within 0.05 of the true ones, on average over the cumulative shares; equal cells are not."""
    released, exact = counted_forest(noise)
    masses = axis_masses(released.forest, released.weights.sum(axis=1).astype(float))
    found = feature_mass(released.forest, masses, 0, 64)
    off = np.abs(np.cumsum(found / found.sum()) - np.cumsum(exact)).mean()
    alike = np.abs(np.arange(1, 65) / 64 - np.cumsum(exact)).mean()
    assert off < 0.05 < alike
    assert feature_mass(released.forest, masses, 1, 4)[:3] == pytest.approx([0.7, 0.2, 0.1], abs=0.05)


def test_leaves_that_are_no_counts_tell_nothing() -> None:
    """Votes, shares, scores in nats and single trees are no counts; counts and votes for a number are."""
    released, _ = counted_forest(5.0)
    assert rows_of_leaves(SCHEMA, released) is not None
    assert rows_of_leaves(SCHEMA, VotingForest(released.forest, np.abs(released.weights))) is None
    assert rows_of_leaves(SCHEMA, in_nats(released.forest, released.weights)) is None
    one = released.forest.tree(0)
    assert rows_of_leaves(SCHEMA, VotingForest(one, released.weights[: one.leaves])) is None
    number = Schema("y", (), SCHEMA.features, target=Target(0, 1))
    assert rows_of_leaves(number, VotingForest(released.forest, np.abs(released.weights))) is not None


def test_an_axis_that_no_tree_reads_is_not_known() -> None:
    """Its cells stay alike in the background: there is no mass to go by."""
    schema = Schema("y", ("no", "yes"), (Numeric("x", 0, 64), Numeric("idle", 0, 1)))
    forest = random_forest(axes(schema)[:1], trees=3, depth=2, seed=1)
    whole = type(forest)(axes(schema), forest.trees, forest.levels)
    masses = axis_masses(whole, np.ones(whole.leaves))
    assert masses[0].sum() == pytest.approx(1)
    assert not masses[1].any()
    assert feature_mass(whole, masses, 1, 64).tolist() == [1.0] * 64
