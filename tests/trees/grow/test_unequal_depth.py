"""Trees of unequal depth: distinct roots, no axis twice, no branch below the threshold, within the limit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.schema import Schema
from dpsql.trees.forest import PASS, Forest
from dpsql.trees.grid import Axis, axes, grid_cells
from dpsql.trees.grow.unequal_depth import domain_sizes, unequal_forest
from dpsql.trees.serialize import check_forest
from tests.rows import random_table, schemas
from tests.trees.grow.test_random_trees import category, number, same

SEEDS = st.integers(0, 2**32 - 1)
MIXED = (number(0), category(1, 2), category(2, 3), category(3, 7), number(4), category(5, 63))


def splits(forest: Forest, leaf: int) -> list[int]:
    """Return the axes that are read on the way to a leaf."""
    return [axis for axis, _ in forest.path(leaf)]


def expected_rows(forest: Forest, leaf: int, rows: float) -> float:
    """Return the rows of a leaf if each split divides them evenly."""
    sizes = domain_sizes(forest.axes, 5, 64)
    return float(rows / np.prod([sizes[axis] for axis in splits(forest, leaf)]))


def test_roots_are_distinct() -> None:
    """As many trees as axes have as many different roots; further trees start over."""
    forest = unequal_forest(MIXED, trees=9, seed=3, depth=1)
    roots = forest.levels[0].axis.tolist()
    assert sorted(roots[:6]) == list(range(6))
    assert roots[6:] == roots[:3]


@settings(max_examples=20)
@given(seed=SEEDS)
def test_no_axis_comes_twice_on_a_path(seed: int) -> None:
    """A path reads each axis once at most."""
    forest = unequal_forest(MIXED[:3], trees=3, seed=seed)
    for leaf in range(0, forest.leaves, 3):
        assert sorted(splits(forest, leaf)) == [0, 1, 2]


@settings(max_examples=20)
@given(seed=SEEDS, rows=st.floats(1, 20_000))
def test_a_path_ends_where_no_split_would_reach_the_threshold(seed: int, rows: float) -> None:
    """Leaves are expected to hold the threshold, and each unused axis would bring them below."""
    forest = unequal_forest(MIXED, trees=4, seed=seed, rows=rows, threshold=30)
    sizes = domain_sizes(MIXED, 5, 64)
    for leaf in range(0, forest.leaves, 1 + forest.leaves // 50):
        used, left = splits(forest, leaf), expected_rows(forest, leaf, rows)
        assert len(used) == 1 or left >= 30 * (1 - 1e-9)
        assert all(left / sizes[axis] < 30 * (1 + 1e-9) for axis in range(6) if axis not in used)


def test_paths_differ_in_length() -> None:
    """A wide feature ends a path sooner than narrow ones."""
    forest = unequal_forest(MIXED, trees=6, seed=1, rows=5000, threshold=30)
    assert len({len(splits(forest, leaf)) for leaf in range(forest.leaves)}) > 1


def test_a_root_is_split_however_few_the_rows() -> None:
    """With no rows to expect each tree is a stump."""
    assert unequal_forest(MIXED, trees=6, seed=1, rows=0, threshold=30).depth == 1


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_a_given_depth_is_the_depth_of_every_path(depth: int) -> None:
    """Without an expected number of rows every path has `depth` splits."""
    forest = unequal_forest(MIXED[:4], trees=4, seed=5, depth=depth)
    assert {len(splits(forest, leaf)) for leaf in range(forest.leaves)} == {depth}


@pytest.mark.parametrize("limit", [12, 100, 1000, 10_000])
def test_the_grid_stays_within_the_limit(limit: int) -> None:
    """Levels stop before leaves × classes passes the limit."""
    assert unequal_forest(MIXED, trees=4, seed=2, classes=3, limit=limit).leaves * 3 <= limit


def test_a_number_has_bins_of_equal_width() -> None:
    """Five bins of 64 cells differ by one cell at most; fewer cells than bins are a branch each."""
    level = unequal_forest((number(0),), trees=1, seed=0).levels[0]
    widths = np.bincount(level.slots(np.zeros(64, np.int64), np.arange(64)))
    assert (len(widths), widths.min(), widths.max()) == (5, 12, 13)
    assert domain_sizes((number(0, 3),), 5, 64).tolist() == [3]


def test_a_wide_category_is_split_by_groups() -> None:
    """With fewer branches than values the groups are of equal size, and differ from node to node."""
    forest = unequal_forest((category(0, 20),), trees=50, seed=4, branches=4)
    slots = forest.levels[0].slots(np.arange(50)[:, None], np.arange(20)[None, :])
    assert all(np.bincount(row).tolist() == [5, 5, 5, 5] for row in slots)
    assert len({tuple(row) for row in slots.tolist()}) > 40


def test_an_axis_of_one_cell_is_never_split() -> None:
    """A category of a single value and no other cell says nothing; alone it leaves roots without a split."""
    lone = Axis(0, 0, 1, 1, ordered=False)
    assert unequal_forest((lone,), trees=3, seed=0).depth == 0
    level = unequal_forest((lone, category(1, 2)), trees=3, seed=0).levels[0]
    assert set(level.axis.tolist()) == {1}


def test_a_single_value_is_split_from_all_others() -> None:
    """A category of one value and a cell for everything else has two branches."""
    level = unequal_forest((category(0, 1),), trees=1, seed=0).levels[0]
    assert level.slots(np.zeros(2, np.int64), np.arange(2)).tolist() == [0, 1]


@settings(max_examples=20)
@given(schema=schemas(), seed=SEEDS)
def test_every_row_of_any_schema_reaches_a_leaf(schema: Schema, seed: int) -> None:
    """The structure passes the check of stored models, and rows of every kind reach one leaf in each tree."""
    grid = axes(schema)
    forest = unequal_forest(grid, trees=3, seed=seed, rows=500, threshold=10)
    check_forest(forest)
    found = forest.route(grid_cells(schema, random_table(schema, 20, seed).columns))
    assert (forest.leaf_tree[found] == np.arange(3)).all()


def test_the_seed_is_the_structure() -> None:
    """The same seed gives the same trees, another one others."""
    first, again, other = (unequal_forest(MIXED, trees=3, seed=seed, rows=3000, threshold=30) for seed in (1, 1, 2))
    assert same(first, again)
    assert not same(first, other)


def test_a_finished_path_stays_finished() -> None:
    """What is below a leaf that ended early passes everything on."""
    forest = unequal_forest(MIXED, trees=6, seed=1, rows=5000, threshold=30)
    for upper, lower in zip(forest.levels, forest.levels[1:], strict=False):
        assert (lower.axis[upper.child[upper.axis == PASS]] == PASS).all()
