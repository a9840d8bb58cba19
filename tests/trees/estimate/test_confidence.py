"""From noisy counts to votes: signal averaging, pruning by equation 10, the most confident node, the decisive tree."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.trees.estimate.confidence import confidence_votes, most_confident
from dpsql.trees.forest import Forest
from dpsql.trees.grow.unequal_depth import unequal_forest
from dpsql.trees.voting import VotingForest
from tests.trees.grow.test_random_trees import category

#: One tree of depth 2, two branches at each node.
TREE = unequal_forest((category(0, 2), category(1, 2)), trees=1, seed=1, depth=2)


def stump(trees: int = 1) -> Forest:
    """Return trees with one split in two."""
    return unequal_forest((category(0, 2),), trees=trees, seed=0, depth=1)


def test_without_noise_a_pure_leaf_speaks_for_itself() -> None:
    """A leaf of one class alone is more confident than its root."""
    shares = most_confident(stump(), np.array([[90, 0], [0, 10]]), 1.0)
    assert shares.tolist() == [[1, 0], [0, 1]]


def test_a_less_confident_leaf_speaks_for_its_root() -> None:
    """The root is 80 % sure, its second leaf 60 %."""
    shares = most_confident(stump(), np.array([[100, 0], [60, 40]]), 1.0)
    assert shares[1].tolist() == [0.8, 0.2]


@pytest.mark.parametrize(("rows", "speaks"), [(27, False), (28, False), (29, True)])
def test_a_leaf_is_pruned_below_a_ratio_of_one(rows: int, speaks: bool) -> None:
    """Equation 10 for a leaf: rows against |C|·√2·scale, 28.3 for two classes and scale 10."""
    shares = most_confident(stump(), np.array([[500, 400], [0, rows]]), 10.0)
    assert (shares[1, 1] == 1) == speaks


@pytest.mark.parametrize(("rows", "speaks"), [(19, False), (20, True)])
def test_the_noise_of_a_sum_grows_with_the_root_of_its_leaves(rows: int, speaks: bool) -> None:
    """Equation 10 for a node of two leaves: 40 rows in both are needed at scale 10, though no leaf has 28.3."""
    shares = most_confident(TREE, np.array([[0, rows], [0, rows], [500, 400], [500, 400]]), 10.0)
    assert (shares[:2, 1] == 1).tolist() == [speaks] * 2


def test_the_root_speaks_where_nothing_is_reliable() -> None:
    """Under overwhelming noise all leaves have the root's shares."""
    shares = most_confident(stump(), np.array([[9, 1], [0, 10]]), 1000.0)
    assert shares.tolist() == [[0.45, 0.55]] * 2


def test_negative_counts_are_nothing() -> None:
    """A confidence is never above 1, and without any positive count all classes are equal."""
    assert most_confident(stump(), np.array([[-3, 40], [-5, 50]]), 1.0).tolist() == [[0, 1]] * 2
    assert most_confident(stump(), np.array([[-3, -4], [-5, -1]]), 1.0).tolist() == [[0.5, 0.5]] * 2


def test_huge_noise_does_not_overflow() -> None:
    """Counts near the end of 64 bits are added as floats."""
    shares = most_confident(stump(), np.full((2, 2), 2**62), 1.0)
    assert shares.tolist() == [[0.5, 0.5]] * 2


def test_the_most_confident_tree_decides() -> None:
    """One tree that is sure outvotes nine that lean the other way; a narrow lead does not."""
    forest = stump(10)
    for lead, winner in ((0.3, 1), (0.01, 0)):
        shares = np.tile([0.6, 0.4], (forest.leaves, 1))
        shares[:2] = [0.4 - lead, 0.6 + lead]
        released = VotingForest(forest, confidence_votes(shares, forest.trees))
        assert released.predict(np.zeros((1, 1), np.uint8)).tolist() == [winner]


@pytest.mark.parametrize(("trees", "classes"), [(1, 2), (100, 1024), (10_000, 2)])
def test_votes_stay_within_what_a_model_may_hold(trees: int, classes: int) -> None:
    """Every weight is positive, so that a stored model has the same cells whatever the counts."""
    shares = np.zeros((2 * trees, classes))
    shares[:, 0] = 1
    weights = confidence_votes(shares, trees)
    assert weights.min() == 1
    VotingForest(stump(trees), weights)
