"""Lifts of leaves: their own shares where rows outweigh noise, those of the nodes above them elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.schema import Boolean, Categorical, Numeric, Schema
from dpsql.trees.estimate.shrink import path_lifts
from dpsql.trees.forest import Forest, sums_by_level
from dpsql.trees.grid import axes
from dpsql.trees.join import join_trees
from tests.rows import any_forest

SCHEMA = Schema("y", ("a", "b", "c"), (Numeric("x", 0, 1), Categorical("z", ("p", "q")), Boolean("b")))
GRID = axes(SCHEMA)
PRIOR = np.array([0.5, 0.3, 0.2])


def forest_of(trees: int = 2, depth: int = 3, seed: int = 4) -> Forest:
    """Return an irregular forest with early leaves."""
    return any_forest(GRID, trees=trees, depth=depth, seed=seed)


def counts_of(forest: Forest, rows: int, seed: int = 1) -> np.ndarray:
    """Return counts of the leaves, each class in each."""
    return np.random.default_rng(seed).integers(rows, 9 * rows, (forest.leaves, 3))


def test_without_noise_leaves_speak_for_themselves() -> None:
    """With many rows and no noise the lifts are the logs of the leaves' own shares over the prior."""
    forest = forest_of()
    counts = counts_of(forest, 10**6)
    shares = np.exp(path_lifts(forest, counts, PRIOR, 0.0)) * PRIOR
    assert shares == pytest.approx(counts / counts.sum(axis=1, keepdims=True), abs=1e-5)


def test_under_huge_noise_leaves_say_nothing() -> None:
    """With noise far beyond the rows every leaf has the shares of all rows."""
    forest = forest_of()
    assert np.abs(path_lifts(forest, counts_of(forest, 10), PRIOR, 1e9)).max() < 1e-4


def test_more_noise_says_less() -> None:
    """The mean size of the lifts falls as the noise grows."""
    forest = forest_of()
    counts = counts_of(forest, 50)
    told = [np.abs(path_lifts(forest, counts, PRIOR, noise)).mean() for noise in (0.0, 20.0, 200.0, 2000.0)]
    assert told == sorted(told, reverse=True)
    assert told[0] > 1.5 * told[-1]


def test_an_empty_leaf_speaks_for_the_node_above() -> None:
    """A leaf without rows has the shares of its parent."""
    forest = any_forest(GRID, trees=1, depth=1, seed=1, most=4)
    assert forest.leaves > 1
    counts = np.zeros((forest.leaves, 3), np.int64)
    counts[0] = 800_000, 100_000, 100_000
    shares = np.exp(path_lifts(forest, counts, PRIOR, 0.0)) * PRIOR
    assert shares[1] == pytest.approx([0.8, 0.1, 0.1], abs=1e-3)


def test_levels_that_pass_rows_on_change_nothing() -> None:
    """Beside a deeper forest, whose depth a shallow tree is padded to, its lifts are the same."""
    shallow, deep = forest_of(2, 1, seed=8), forest_of(3, 5, seed=9)
    counts = counts_of(shallow, 20)
    joined = path_lifts(join_trees(shallow, deep), np.concatenate([counts, counts_of(deep, 20)]), PRIOR, 15.0)
    assert joined[: shallow.leaves] == pytest.approx(path_lifts(shallow, counts, PRIOR, 15.0))
    assert joined[shallow.leaves :] == pytest.approx(path_lifts(deep, counts_of(deep, 20), PRIOR, 15.0))


def test_negative_counts_are_taken_as_none() -> None:
    """Noise below zero gives finite lifts, and no class less than nothing."""
    forest = forest_of()
    found = path_lifts(forest, -counts_of(forest, 100), PRIOR, 30.0)
    assert np.isfinite(found).all()
    assert np.abs(found).max() < 1e-9


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_sums_by_level_are_those_of_the_leaves_below(depth: int) -> None:
    """`by_level` adds up, for every node of every level, the leaves that can be reached from it."""
    forest = forest_of(3, depth)
    values = np.random.default_rng(2).random((forest.leaves, 2))
    found = sums_by_level(forest, values)
    assert len(found) == forest.depth + 1
    node = np.arange(forest.leaves)
    for number in range(forest.depth, -1, -1):
        expected = np.zeros_like(found[number])
        np.add.at(expected, node, values)
        assert found[number] == pytest.approx(expected)
        if number:
            node = np.searchsorted(forest.levels[number - 1].child, node, side="right") - 1
