"""Monotone forests: the guarantee holds exactly, for random forests, random weights and random rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.schema import Boolean, Categorical, Numeric, Schema, Target
from dpsql.trees import monotone
from dpsql.trees.estimate.means import predicted_numbers
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.one_feature import one_feature_trees
from dpsql.trees.grow.random_trees import random_forest
from dpsql.trees.join import join_trees
from dpsql.trees.monotone import leaf_masks, make_monotone
from dpsql.trees.voting import VotingForest

SCHEMA = Schema(
    "y", ("no", "yes"),
    (Numeric("x", 0, 1), Numeric("z", 0, 1), Boolean("b"), Categorical("c", tuple("abcdefg")), Numeric("w", 0, 1)),
)  # fmt: skip
AXES = axes(SCHEMA)


def forest_of(seed: int, depth: int) -> Forest:
    """Return random trees of several branches beside one-feature trees."""
    grown = random_forest(AXES, trees=4, depth=depth, seed=seed, branches=3)
    return join_trees(one_feature_trees(AXES, 16), grown)


def released(seed: int, depth: int, nat: int = 0) -> VotingForest:
    """Return a forest with random weights, some of them below 0."""
    forest = forest_of(seed, depth)
    weights = np.random.default_rng(seed).integers(-500, 1000, (forest.leaves, 2))
    return VotingForest(forest, weights.astype(np.int64), nat=nat)


def pairs(seed: int, place: int, count: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Return random rows, and the same rows with a larger (or the same) cell on one axis."""
    generator = np.random.default_rng(seed + 1)
    rows = np.stack([generator.integers(0, axis.cells, count) for axis in AXES], axis=1).astype(np.uint8)
    larger = rows.copy()
    larger[:, place] = generator.integers(rows[:, place], AXES[place].cells)
    return rows, larger


@given(
    seed=st.integers(0, 1000),
    depth=st.integers(1, 5),
    signs=st.dictionaries(st.sampled_from([0, 1, 4]), st.sampled_from([1, -1]), min_size=1),
    nat=st.sampled_from([0, 100]),
)
def test_no_score_goes_the_wrong_way(seed: int, depth: int, signs: dict[int, int], nat: int) -> None:
    """Scores, shares, labels and predicted numbers of two rows that differ in one constrained number agree with it."""
    model = make_monotone(released(seed, depth, nat), signs)
    for place, sign in signs.items():
        rows, larger = pairs(seed, place)
        if sign < 0:
            rows, larger = larger, rows
        low, high = model.scores(rows), model.scores(larger)
        assert (high[:, 1] >= low[:, 1]).all()
        assert (high[:, 0] <= low[:, 0]).all()
        assert (model.predict(larger) >= model.predict(rows)).all()
        assert (model.shares(high)[:, 1] >= model.shares(low)[:, 1]).all()
        votes = [np.maximum(scores, 1) for scores in (low, high)]
        assert np.greater_equal(*(predicted_numbers(Target(-3, 8), vote) for vote in votes[::-1])).all()


def test_random_weights_go_the_wrong_way_without_it() -> None:
    """The same test fails on the forest as it was: it can tell."""
    rows, larger = pairs(1, 0)
    model = released(1, 3)
    assert (model.scores(larger)[:, 1] < model.scores(rows)[:, 1]).any()


def test_what_is_monotone_stays_as_it_is() -> None:
    """A monotone forest is not changed, nor is any tree that does not read the number."""
    model = released(5, 3)
    once = make_monotone(model, {0: 1})
    assert np.array_equal(make_monotone(once, {0: 1}).weights, once.weights)
    assert np.array_equal(make_monotone(model, {}).weights, model.weights)
    other_tree = slice(*model.forest.first_leaf[1:3])
    assert np.array_equal(once.weights[other_tree], model.weights[other_tree])
    assert not np.array_equal(once.weights, model.weights)
    assert (once.weights.min(), once.weights.max()) >= (model.weights.min(), 0)


def test_cells_of_leaves_are_those_that_reach_them() -> None:
    """Every row reaches the leaf whose cells hold it on every axis, and no other."""
    tree = forest_of(3, 4).tree(6)
    masks, (rows, _) = leaf_masks(tree), pairs(3, 0)
    inside = (masks[None] >> rows[:, None].astype(np.uint64)) & np.uint64(1)
    assert np.array_equal(inside.all(axis=2).argmax(axis=1), tree.route(rows)[:, 0])
    assert (inside.all(axis=2).sum(axis=1) == 1).all()


def test_a_tree_that_is_too_large_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its leaves get the same weights, so that the guarantee holds all the same."""
    monkeypatch.setattr(monotone, "LARGEST_TREE", 20)
    model = make_monotone(released(7, 4), {0: 1})
    rows, larger = pairs(7, 0)
    assert (model.scores(larger)[:, 1] >= model.scores(rows)[:, 1]).all()
