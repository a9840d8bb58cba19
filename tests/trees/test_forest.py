"""The structure of a forest: routes, paths, parts; every row reaches one leaf of each tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.schema import CELLS, Boolean, Categorical, Numeric, Schema
from dpsql.trees.forest import Forest, Level, bits
from dpsql.trees.grid import Axis, axes, grid_cells
from dpsql.trees.grow.one_feature import one_feature_trees
from dpsql.trees.grow.random_trees import random_forest
from dpsql.trees.join import join_trees
from tests.rows import any_forest, random_table

SCHEMA = Schema(
    "label",
    ("no", "yes"),
    (
        Numeric("x", -1, 1),
        Numeric("big", -1e300, 1e300, null=0),
        Boolean("b"),
        Categorical("c", ("a", "b", "c"), unknown="a"),
        Categorical("wide", tuple(map(str, range(200)))),
    ),
)
AXES = axes(SCHEMA)
FORESTS = {
    "any": any_forest(AXES, trees=7, depth=5, seed=1, wide=300),
    "grown": random_forest(AXES, trees=7, depth=5, seed=1),
    "binary": random_forest(AXES, trees=3, depth=9, seed=1, branches=2),
    "stumps": random_forest(AXES, trees=5, depth=0, seed=1),
}


@pytest.fixture(params=sorted(FORESTS))
def forest(request: pytest.FixtureRequest) -> Forest:
    """Return forests of several shapes."""
    return FORESTS[request.param]


def test_every_row_reaches_one_leaf_of_each_tree(forest: Forest) -> None:
    """Ten thousand rows with NULL, NaN, infinities and unknown values each end in a leaf of the right tree."""
    rows = np.concatenate([grid_cells(SCHEMA, random_table(SCHEMA, 1000, seed).columns) for seed in range(10)])
    leaves = forest.route(rows)
    assert leaves.shape == (10_000, forest.trees)
    assert (forest.leaf_tree[leaves] == np.arange(forest.trees)).all()


def test_paths_of_a_tree_part_the_cells(forest: Forest) -> None:
    """Random points of the cell space satisfy the path of the leaf they are routed to, and of no other leaf."""
    points = np.random.default_rng(1).integers(0, CELLS, (200, len(AXES))).astype(np.uint8)
    reached = forest.route(points)
    for leaf in range(forest.leaves):
        inside = np.ones(len(points), bool)
        for axis, taken in forest.path(leaf):
            inside &= taken[points[:, axis]]
        assert (inside == (reached[:, forest.leaf_tree[leaf]] == leaf)).all()


def test_leaves_are_numbered_tree_by_tree(forest: Forest) -> None:
    """`leaf_tree` rises from the first tree to the last, and `first_leaf` marks where each begins."""
    starts = forest.first_leaf
    assert (len(starts), starts[0], starts[-1]) == (forest.trees + 1, 0, forest.leaves)
    for tree in range(forest.trees):
        assert (forest.leaf_tree[starts[tree] : starts[tree + 1]] == tree).all()
        assert starts[tree] < starts[tree + 1]


@settings(max_examples=30)
@given(bounds=st.tuples(st.integers(0, 6), st.integers(1, 7)).filter(lambda pair: pair[0] < pair[1]))
def test_a_part_routes_as_the_whole(bounds: tuple[int, int]) -> None:
    """Trees `first` to `last − 1` on their own give the same leaves, counted from their first."""
    first, last = bounds
    rows = grid_cells(SCHEMA, random_table(SCHEMA, 50, 1).columns)
    whole = FORESTS["any"]
    part = whole.part(first, last)
    assert part.trees == last - first
    assert (part.route(rows) == whole.route(rows)[:, first:last] - whole.first_leaf[first]).all()


def test_one_tree_is_a_part_of_one() -> None:
    """`tree(k)` has that tree's leaves."""
    whole = FORESTS["any"]
    sizes = [whole.tree(number).leaves for number in range(whole.trees)]
    assert sizes == np.diff(whole.first_leaf).tolist()


def test_a_path_has_a_test_for_each_split_on_the_way() -> None:
    """Early leaves have shorter paths: nodes that only pass on are no tests."""
    axis = Axis(0, 0, CELLS, CELLS, ordered=True)
    right = np.uint64(2**64 - 1) << np.uint64(10)
    root = Level(np.array([0], np.int16), np.array([2], np.uint8), np.array([[right]], np.uint64))
    below = Level(
        np.array([-1, 0], np.int16), np.array([1, 2], np.uint8), np.array([[0, right << np.uint64(9)]], np.uint64)
    )
    forest = Forest((axis,), 1, (root, below))
    assert [[(axis, np.flatnonzero(taken)[[0, -1]].tolist()) for axis, taken in forest.path(k)] for k in range(3)] == [
        [(0, [0, 9])],
        [(0, [10, 63]), (0, [0, 18])],
        [(0, [10, 63]), (0, [19, 63])],
    ]


def test_a_forest_without_levels_has_one_leaf_per_tree() -> None:
    """Depth 0: each tree is a single leaf with an empty path."""
    forest = FORESTS["stumps"]
    assert (forest.depth, forest.leaves, forest.path(3)) == (0, 5, [])


@given(st.lists(st.lists(st.booleans(), min_size=64, max_size=64), min_size=1, max_size=5))
def test_bits_packs_flags(flags: list[list[bool]]) -> None:
    """Flag k of a row is bit k of its word."""
    assert bits(np.array(flags)).tolist() == [sum(flag << k for k, flag in enumerate(row)) for row in flags]


def test_leading_trees_that_end_early_are_found() -> None:
    """One-feature trees before deeper ones end at level 1, where their nodes have the numbers of their leaves."""
    grid = (Axis(0, 0, 64, 64, ordered=True), Axis(1, 0, 5, 4, ordered=False))
    stumps, deep = one_feature_trees(grid, 4), random_forest(grid, trees=3, depth=4, seed=1)
    forest = join_trees(stumps, deep)
    assert forest.trees_ending_early == (2, 1)
    assert (join_trees(deep, stumps).trees_ending_early, stumps.trees_ending_early, deep.trees_ending_early) == (
        (0, 0),
        (0, 0),
        (0, 0),
    )
    bare = random_forest(grid, trees=1, depth=0, seed=3)
    assert join_trees(bare, forest).trees_ending_early == (3, 1)
    cells = np.random.default_rng(2).integers(0, 5, (50, 2)).astype(np.uint8)
    short = Forest(grid, forest.trees, forest.levels[:1]).route(cells)[:, :2]
    assert short.tolist() == forest.route(cells)[:, :2].tolist()
