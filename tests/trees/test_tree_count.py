"""Trees are counted in one way: all of them, and how many read one feature alone."""

from __future__ import annotations

import numpy as np

from dpsql.schema import Boolean, Categorical, Numeric, Schema
from dpsql.trees.grid import axes
from dpsql.trees.grow.one_feature import one_feature_trees
from dpsql.trees.grow.random_trees import random_forest
from dpsql.trees.join import join_trees
from dpsql.trees.tree_count import forest_count_text, trees_of_one_feature

#: The last feature is written in two digits, so that its own tree is two levels deep.
SCHEMA = Schema(
    "y", ("a", "b"), (Numeric("x", 0, 1), Boolean("z"), Categorical("zip", tuple(map(str, np.arange(100)))))
)


def test_a_tree_of_two_digits_of_a_category_reads_one_feature() -> None:
    """All one-feature trees count as such, also that of a wide category."""
    forest = one_feature_trees(axes(SCHEMA), 8)
    assert (forest.depth, trees_of_one_feature(forest)) == (2, 3)
    assert forest_count_text(forest) == "3 trees of one feature"


def test_both_kinds_are_told() -> None:
    """A forest of both kinds says how many there are of each."""
    deep = random_forest(axes(SCHEMA), trees=4, depth=6, seed=1)
    joined = join_trees(one_feature_trees(axes(SCHEMA), 8), deep)
    assert trees_of_one_feature(deep) == 0
    assert forest_count_text(joined) == "7 trees (3 of one feature, 4 deep)"
    assert forest_count_text(deep) == "4 trees"
