"""Trees for very little epsilon: grown without data, binary, read by shrunken shares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpsql.methods.auto.epsilon_shares import PUBLIC, Advice
from dpsql.methods.auto.objectives import ACCURACY, BALANCED
from dpsql.methods.auto.public_trees import VOTES_PER_LEAF, public_trees, shared_votes, shrunken_totals
from dpsql.schema import Boolean, Categorical, Numeric, Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.serialize import check_forest
from tests.kernel.helpers import exact_leaf_counts, held, leaf_step, session
from tests.tables import SCHEMA, some_rows

ADVICE = Advice(PUBLIC, 50.0, 3, 3, zoom=False, pick=False, calibration=False, marginals=0.0)
GRID = axes(
    Schema("y", ("a", "b"), (Numeric("x", 0, 1), Categorical("c", tuple("pqrst")), Boolean("b"), Numeric("z", 0, 1, 2)))
)


def test_trees_are_full_binary_and_sound() -> None:
    """Each tree has all its leaves, and every split parts cells that a row may have."""
    forest = public_trees(GRID, replace(ADVICE, trees=10), 4)
    check_forest(forest)
    assert forest.trees == 10
    assert forest.depth == 3
    assert {int(arity) for level in forest.levels for arity in level.arity} <= {1, 2}


def test_numbers_are_split_near_their_middle() -> None:
    """Roots that split x leave 30 to 70 of 100 of its cells on either side."""
    forest = public_trees(GRID[:1], replace(ADVICE, trees=10, depth=1), 1)
    left = [64 - int(mask).bit_count() for mask in forest.levels[0].planes[0]]
    assert 18 <= min(left) <= max(left) <= 46
    assert len(set(left)) > 1


def test_all_axes_have_the_same_chance() -> None:
    """No feature is preferred: of 400 roots each of four axes is split by 60 or more."""
    forest = public_trees(GRID, replace(ADVICE, trees=400, depth=1), 1)
    assert np.bincount(forest.levels[0].axis, minlength=4).min() > 60


def test_the_seed_alone_decides() -> None:
    """Trees are public: the same seed gives the same, another one others."""
    planes = [public_trees(GRID, ADVICE, seed).levels[0].planes.tolist() for seed in (3, 3, 4)]
    assert planes[0] == planes[1] != planes[2]


def test_leaves_vote_with_their_shares() -> None:
    """Nearly without noise a leaf of rows votes with their class shares, and facts have the classes' rows."""
    forest = public_trees(axes(SCHEMA), ADVICE, 1)
    database = held(some_rows(60))
    opened = session(database, replace(leaf_step("leaf_counts", forest, 3, shared=True, nano=10**14), name="counts"))
    exact = exact_leaf_counts(database, opened, forest, shared=True)
    trained = shared_votes(opened, forest, ACCURACY)
    found = trained.forest
    rows = exact.sum(axis=1)
    full = rows >= 8
    assert full.any()
    shares = exact[full] / rows[full][:, None]
    assert np.abs(found.weights[full] / VOTES_PER_LEAF - shares).max() < 0.2
    assert (found.weights[full].argmax(axis=1) == shares.argmax(axis=1)).mean() > 0.8
    assert np.abs(found.weights.sum(axis=1) - VOTES_PER_LEAF).max() <= 3
    assert (found.nat, trained.facts["classes"]) == (0, dict(zip(SCHEMA.classes, exact.sum(axis=0) // 3, strict=True)))


def test_balanced_votes_are_divided_by_the_shares_of_classes() -> None:
    """Nearly without noise, each class's votes are those of the usual forest over the class's share of the rows."""
    forest, database = public_trees(axes(SCHEMA), ADVICE, 1), held(some_rows(60))
    step = replace(leaf_step("leaf_counts", forest, 3, shared=True, nano=10**14), name="counts")
    usual, balanced = (shared_votes(session(database, step), forest, name).forest for name in (ACCURACY, BALANCED))
    times = balanced.weights.sum(axis=0) / usual.weights.sum(axis=0)
    rows = np.array(list(shared_votes(session(database, step), forest, ACCURACY).facts["classes"].values()))
    assert times.max() == pytest.approx(1, abs=0.01)
    assert times * rows == pytest.approx([rows.min()] * 3, rel=0.15)


def two_leaves() -> Forest:
    """Return one tree with two leaves."""
    return public_trees(axes(SCHEMA)[:1], replace(ADVICE, trees=1, depth=1), 1)


@pytest.mark.parametrize("counts", [[[0, 0], [0, 0]], [[-9, -3], [-2, -8]], [[50, 0], [40, 3]]])
def test_totals_are_shares_whatever_the_counts(counts: list[list[int]]) -> None:
    """Shares are not negative and add up to 1."""
    for deviation in (0.0, 5.0, 1e6):
        found = shrunken_totals(two_leaves(), np.array(counts, np.float64), deviation)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1)


def test_totals_are_shrunk_by_noise() -> None:
    """Without noise they are the classes' shares, under much noise equal, and between in between."""
    counts = np.array([[60.0, 10.0], [20.0, 10.0]])
    shares = [shrunken_totals(two_leaves(), counts, deviation)[0] for deviation in (0.0, 10.0, 1e6)]
    assert shares[0] == pytest.approx(0.8)
    assert shares[2] == pytest.approx(0.5)
    assert shares[2] < shares[1] < shares[0]
