"""Drawing a tree: every leaf that rows can reach is there, splits read as words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.schema import Boolean, Categorical, Numeric, Schema
from dpsql.trees.drawing import draw_tree
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.one_feature import one_feature_trees
from dpsql.trees.grow.random_trees import random_forest
from dpsql.trees.voting import VotingForest
from tests.rows import any_forest
from tests.tables import SCHEMA, small_forest, voting

MIXED = Schema(
    "y", ("no", "yes"), (Numeric("age", 0, 64), Categorical("c", tuple("abcdefgh")), Boolean("smokes"),
                         Categorical("zip", tuple(f"z{k}" for k in range(100)))),
)  # fmt: skip


def numbered(forest: Forest) -> tuple[Schema, VotingForest]:
    """Return a forest whose leaves each name a class of their own, so that a drawing shows which leaves it has."""
    schema = Schema("y", tuple(f"leaf_{k}." for k in range(max(2, forest.leaves))), MIXED.features)
    return schema, VotingForest.majority(forest, np.arange(forest.leaves), len(schema.classes))


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), depth=st.integers(0, 4), grown=st.booleans())
def test_every_leaf_of_a_tree_is_drawn_once(seed: int, depth: int, grown: bool) -> None:
    """All leaves of the tree, and none of another, stand at the end of a line."""
    found = axes(MIXED)
    forest = (
        random_forest(found, trees=2, depth=depth, seed=seed, branches=5)
        if grown
        else any_forest(found, trees=2, depth=depth, seed=seed)
    )
    schema, released = numbered(forest)
    for tree in (0, 1):
        ends = [line.split("→ ")[1] for line in draw_tree(schema, released, tree).split("\n") if "→" in line]
        assert ends == [f"leaf_{k}." for k in range(forest.leaves) if forest.leaf_tree[k] == tree]


def test_splits_read_as_words() -> None:
    """A number is drawn by its bounds, a category by its values."""
    lines = draw_tree(SCHEMA, voting(small_forest(depth=3), 3), 0)
    assert "c in {" in lines
    assert " ≤ x" in lines or "x < " in lines


def test_deeper_levels_are_left_out_on_request() -> None:
    """With `depth` the drawing says how many levels are not shown."""
    drawn = draw_tree(SCHEMA, voting(small_forest(depth=3), 3), 0, depth=1)
    assert "2 more levels" in drawn
    assert "→" not in drawn


def test_a_tree_without_splits_is_its_label() -> None:
    """A tree of one leaf is one line."""
    released = VotingForest.majority(Forest(axes(SCHEMA), 1, ()), np.array([2]), 3)
    assert draw_tree(SCHEMA, released, 0) == "→ maybe"


def test_a_leaf_of_several_votes_shows_them() -> None:
    """Weights for more than one class are drawn with their classes."""
    released = VotingForest(Forest(axes(SCHEMA), 1, ()), np.array([[3, 0, 5]]))
    assert draw_tree(SCHEMA, released, 0) == "→ no 3, yes 0, maybe 5"


@pytest.mark.parametrize("count", [5, 8])
def test_long_lists_of_values_are_cut(count: int) -> None:
    """More than four values are counted, not listed."""
    schema = Schema("y", ("no", "yes"), (Categorical("c", tuple("abcdefgh")),))
    forest = random_forest(axes(schema), trees=1, depth=1, seed=count, branches=2)
    assert "more}" not in draw_tree(schema, voting(forest, 2), 0) or " more" in draw_tree(schema, voting(forest, 2), 0)
    assert max(line.count(",") for line in draw_tree(schema, voting(forest, 2), 0).split("\n")) <= 4


def stump(feature: int, weights: list[list[int]], *, nat: int = 0) -> VotingForest:
    """Return a tree of one feature with a branch for each cell; the given leaves repeat."""
    forest = one_feature_trees(axes(MIXED), 64).tree(feature)
    return VotingForest(forest, np.resize(np.array(weights), (forest.leaves, 2)), nat=nat)


def test_neighbouring_branches_that_say_the_same_are_drawn_as_one() -> None:
    """Of a number with 64 branches, runs of cells with one answer are one line each; no two runs are joined."""
    weights = [[3, 1]] * 16 + [[1, 3]] * 32 + [[3, 1]] * 16
    drawn = draw_tree(MIXED, stump(0, weights), 0)
    assert drawn.split("\n") == [
        "├─ age < 16 → no 3, yes 1",
        "├─ 16 ≤ age < 48 → no 1, yes 3",
        "├─ 48 ≤ age → no 3, yes 1",
    ]


def test_values_that_say_the_same_are_drawn_as_one() -> None:
    """A category has no order: values with one answer are one line, wherever they stand."""
    drawn = draw_tree(MIXED, stump(1, [[3, 1], [1, 3]]), 0)
    assert drawn.split("\n") == ["├─ c in {a, c, e, g, 1 more} → no 3, yes 1", "├─ c in {b, d, f, h} → no 1, yes 3"]


def test_many_branches_are_counted_where_a_depth_is_given() -> None:
    """A split of 64 different answers is cut after 24 lines with `depth`, and drawn in full without."""
    released = stump(0, [[k, 100 - k] for k in range(64)])
    assert len(draw_tree(MIXED, released, 0).split("\n")) == 64
    cut = draw_tree(MIXED, released, 0, depth=1).split("\n")
    assert (len(cut), cut[-1]) == (25, "├─ … 40 more branches")


def test_a_leaf_of_logarithms_shows_shares() -> None:
    """Scores that are logarithms read as the probabilities that they mean: ln 3 apart is three to one."""
    released = VotingForest(Forest(axes(MIXED), 1, ()), np.array([[round(1000 * np.log(3)), 0]]), nat=1000)
    assert draw_tree(MIXED, released, 0) == "→ no 75.0%, yes 25.0%"
