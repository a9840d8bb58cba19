"""Drawing a tree: every leaf that rows can reach is there, splits read as words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.schema import Boolean, Categorical, Numeric, Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow import random_forest
from dpsql.trees.show import draw
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
        ends = [line.split("→ ")[1] for line in draw(schema, released, tree).split("\n") if "→" in line]
        assert ends == [f"leaf_{k}." for k in range(forest.leaves) if forest.leaf_tree[k] == tree]


def test_splits_read_as_words() -> None:
    """A number is drawn by its bounds, a category by its values."""
    lines = draw(SCHEMA, voting(small_forest(depth=3), 3), 0)
    assert "c in {" in lines
    assert " ≤ x" in lines or "x < " in lines


def test_deeper_levels_are_left_out_on_request() -> None:
    """With `depth` the drawing says how many levels are not shown."""
    drawn = draw(SCHEMA, voting(small_forest(depth=3), 3), 0, depth=1)
    assert "2 more levels" in drawn
    assert "→" not in drawn


def test_a_tree_without_splits_is_its_label() -> None:
    """A tree of one leaf is one line."""
    released = VotingForest.majority(Forest(axes(SCHEMA), 1, ()), np.array([2]), 3)
    assert draw(SCHEMA, released, 0) == "→ maybe"


def test_a_leaf_of_several_votes_shows_them() -> None:
    """Weights for more than one class are drawn with their classes."""
    released = VotingForest(Forest(axes(SCHEMA), 1, ()), np.array([[3, 0, 5]]))
    assert draw(SCHEMA, released, 0) == "→ no 3, yes 0, maybe 5"


@pytest.mark.parametrize("count", [5, 8])
def test_long_lists_of_values_are_cut(count: int) -> None:
    """More than four values are counted, not listed."""
    schema = Schema("y", ("no", "yes"), (Categorical("c", tuple("abcdefgh")),))
    forest = random_forest(axes(schema), trees=1, depth=1, seed=count, branches=2)
    assert "more}" not in draw(schema, voting(forest, 2), 0) or " more" in draw(schema, voting(forest, 2), 0)
    assert max(line.count(",") for line in draw(schema, voting(forest, 2), 0).split("\n")) <= 4
