"""Trees over a few cells: bins of equal width, one leaf for each cell, leaves of whole cells, NULL with the last."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpsql.schema import CELLS, Boolean, Categorical, Feature, Numeric, Schema
from dpsql.trees.forest import PASS, Forest, Ints
from dpsql.trees.grid import Cells, axes, digits, grid_cells
from dpsql.trees.grow.common_cells import CommonCells, random_orders
from dpsql.trees.serialize import check_forest
from tests.rows import one_cell, random_table, schemas, walk

SCHEMA = Schema(
    "y",
    ("no", "yes"),
    (
        Numeric("x", 0, 64),
        Categorical("c", ("a", "b", "c")),
        Boolean("b"),
        Numeric("few", -1, 1, cells=3, null=-1),
        Categorical("known", ("p", "q", "r"), null="p", unknown="q"),
    ),
)


def domain_of(schema: Schema, features: list[int], bins: int = 5) -> CommonCells:
    """Return the cells of some features: so many bins of a number, the values of a category."""
    grid = axes(schema)
    places = [next(n for n, axis in enumerate(grid) if axis.feature == feature) for feature in features]
    sizes = []
    for feature in features:
        one = schema.features[feature]
        sizes.append(min(bins, one.cells) if isinstance(one, Numeric) else len(one.values))
    return CommonCells(grid, tuple(places), tuple(sizes))


def one_bin(feature: Feature, size: int, value: Any) -> int:
    """Return the bin of one value: a number's cell by its share of all cells, a category by its place."""
    cell = one_cell(feature, value)
    return cell * size // feature.cells if isinstance(feature, Numeric) else min(cell, size - 1)


def random_cells(domain: CommonCells, count: int = 200, seed: int = 1) -> Cells:
    """Return rows of any of the 64 cells on each axis, those that no value has among them."""
    return np.random.default_rng(seed).integers(0, CELLS, (count, len(domain.axes)), np.uint8)


def small_forest(domain: CommonCells, *, trees: int = 4, depth: int = 2, seed: int = 1) -> tuple[Forest, Ints]:
    """Return random trees over the cells and the leaf of each cell."""
    return domain.forest(trees=trees, depth=depth, seed=seed, limit=2**20, classes=2)


@st.composite
def domains(draw: st.DrawFn) -> tuple[Schema, CommonCells]:
    """Draw a schema and some of the features that bins can be made of, up to 2,000 cells, in any order."""
    schema = draw(schemas(most=6))
    bins = draw(st.sampled_from([2, 3, 5, 64]))
    usable = [n for n, one in enumerate(schema.features) if digits(one) == 1 and domain_of(schema, [n]).sizes[0] > 1]
    chosen: list[int] = []
    for feature in draw(st.permutations(usable)):
        if domain_of(schema, [*chosen, feature], bins).cells <= 2000:
            chosen.append(feature)
    assume(chosen)
    return schema, domain_of(schema, chosen, bins)


@settings(max_examples=60)
@given(drawn=domains(), seed=st.integers(0, 2**32))
def test_the_leaf_of_each_row_is_its_cell(drawn: tuple[Schema, CommonCells], seed: int) -> None:
    """The tree of cells, walked row by row, ends in the number of the row's bins: odd values and NULL too."""
    schema, domain = drawn
    table = random_table(schema, 30, seed)
    found = domain.cell_numbers(grid_cells(schema, table.columns))
    tree = domain.tree()
    check_forest(tree)
    assert (tree.trees, tree.leaves) == (1, domain.cells)
    assert [walk(schema, tree, row) for row in table.rows] == found[:, None].tolist()
    for row, number in zip(table.rows, found.tolist(), strict=True):
        features = [schema.features[domain.axes[place].feature] for place in domain.places]
        bins = [one_bin(one, size, row[one.name]) for one, size in zip(features, domain.sizes, strict=True)]
        assert number == int(np.ravel_multi_index(bins, domain.sizes))


@settings(max_examples=60)
@given(drawn=domains(), depth=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_leaves_are_sets_of_whole_cells(drawn: tuple[Schema, CommonCells], depth: int, seed: int) -> None:
    """In every tree the leaf that a row reaches is that of its cell, wherever on the grid it is."""
    schema, domain = drawn
    forest, leaf = small_forest(domain, depth=depth, seed=seed)
    check_forest(forest)
    assert leaf.shape == (4, domain.cells)
    rows = random_cells(domain, seed=seed)
    assert np.array_equal(forest.route(rows), leaf[:, domain.cell_numbers(rows)].T)
    table = random_table(schema, 10, seed)
    numbers = domain.cell_numbers(grid_cells(schema, table.columns))
    assert [walk(schema, forest, row) for row in table.rows] == leaf[:, numbers].T.tolist()


@settings(max_examples=30)
@given(drawn=domains(), depth=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_every_leaf_is_a_box_of_cells(drawn: tuple[Schema, CommonCells], depth: int, seed: int) -> None:
    """Every leaf of every tree has cells, and they are all combinations of one set of bins for each feature."""
    _, domain = drawn
    forest, leaf = small_forest(domain, depth=depth, seed=seed)
    assert sorted(set(leaf.ravel().tolist())) == list(range(forest.leaves))
    assert np.array_equal(forest.leaf_tree[leaf], np.broadcast_to(np.arange(4)[:, None], leaf.shape))
    bins = np.stack(np.unravel_index(np.arange(domain.cells), domain.sizes), axis=1)
    for tree in leaf:
        for one in np.unique(tree).tolist()[:20]:
            inside = bins[tree == one]
            sides = [len(set(inside[:, place].tolist())) for place in range(bins.shape[1])]
            assert len(inside) == math.prod(sides)


@settings(max_examples=30)
@given(drawn=domains(), depth=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_a_feature_is_used_once_on_a_path(drawn: tuple[Schema, CommonCells], depth: int, seed: int) -> None:
    """A split has one branch for each bin, so that a feature splits a path once, and others never."""
    _, domain = drawn
    forest, _ = small_forest(domain, depth=depth, seed=seed)
    assert forest.depth == min(depth, len(domain.places))
    arity = dict(zip(domain.places, domain.sizes, strict=True))
    for level in forest.levels:
        split = level.axis != PASS
        assert level.arity[split].tolist() == [arity[axis] for axis in level.axis[split].tolist()]
    for leaf in range(min(forest.leaves, 50)):
        used = [axis for axis, _ in forest.path(leaf)]
        assert len(used) == len(set(used)) == forest.depth
        assert set(used) <= set(domain.places)


@pytest.mark.parametrize("value", [None, "z", "c "], ids=["NULL", "unknown", "with a space"])
def test_what_is_no_value_goes_with_the_last(value: str | None) -> None:
    """A category's NULL and unknown values are in the cell of its last value, and in its leaf in every tree."""
    domain = domain_of(SCHEMA, [0, 1, 2])
    tree, (forest, _) = domain.tree(), small_forest(domain, trees=20, depth=3)
    rows = [{"x": 20.0, "c": one, "b": True, "few": 0.0, "known": "p"} for one in (value, "c", "a")]
    odd, last, first = (walk(SCHEMA, tree, row) for row in rows)
    assert odd == last != first
    odd, last, first = (walk(SCHEMA, forest, row) for row in rows)
    assert odd == last != first


def test_what_stands_for_a_value_goes_with_it() -> None:
    """Where the schema says what NULL and unknown values count as, and for numbers, that is their bin."""
    domain = domain_of(SCHEMA, [3, 4])
    table = {"x": [0.0] * 4, "c": ["a"] * 4, "b": [True] * 4}
    more = {"few": [None, -1.0, 1.0, math.nan], "known": [None, "p", "no such value", "q"]}
    assert domain.cell_numbers(grid_cells(SCHEMA, table | more)).tolist() == [0, 0, 2 * 3 + 1, 1]


def test_a_missing_number_is_in_the_bin_of_its_cell() -> None:
    """NULL and NaN are where the schema puts them, infinities at the ends."""
    domain = domain_of(SCHEMA, [0])
    feature = SCHEMA.features[0]
    assert isinstance(feature, Numeric)
    values = [None, math.nan, -math.inf, math.inf, 0.0, 63.9]
    rest = {"c": ["a"] * 6, "b": [True] * 6, "few": [0.0] * 6, "known": ["p"] * 6}
    missing = feature.null_cell * 5 // 64
    assert domain.cell_numbers(grid_cells(SCHEMA, {"x": values} | rest)).tolist() == [missing, missing, 0, 4, 0, 4]


@pytest.mark.parametrize("grid", [2, 3, 17, 64])
@pytest.mark.parametrize("size", [2, 3, 5, 17, 64])
def test_bins_of_a_number_have_equal_width(grid: int, size: int) -> None:
    """Bins are ranges in order, each as many cells wide as the others, give or take one."""
    schema = Schema("y", ("no", "yes"), (Numeric("x", 0, 1, cells=grid),))
    domain = domain_of(schema, [0], bins=size)
    bins = domain.bins[0][:grid].astype(int)
    width = np.bincount(bins, minlength=domain.cells)
    assert domain.cells == min(size, grid)
    assert (np.diff(bins) >= 0).all()
    assert width.max() - width.min() <= 1
    assert width.min() >= 1


def test_bins_of_a_category_are_its_values() -> None:
    """Each value has a bin of its own, in the order of the schema; all other cells are with the last."""
    assert domain_of(SCHEMA, [1]).bins[0].tolist() == [0, 1] + [2] * (CELLS - 2)


@pytest.mark.parametrize("values", [2, 62, 63])
def test_the_widest_category_of_one_axis_fits(values: int) -> None:
    """Up to 63 values, and NULL beside, are cells."""
    schema = Schema("y", ("no", "yes"), (Categorical("c", tuple(map(str, range(values)))), Numeric("x", 0, 1)))
    domain = domain_of(schema, [0, 1], bins=2)
    rows = {"c": [*map(str, range(values)), None], "x": [0.9] * (values + 1)}
    found = domain.cell_numbers(grid_cells(schema, rows))
    assert found.tolist() == [2 * n + 1 for n in range(values)] + [2 * values - 1]
    assert np.array_equal(domain.tree().route(grid_cells(schema, rows))[:, 0], found)


def test_the_limit_bounds_the_leaves() -> None:
    """Levels are grown while all leaves × classes fit."""
    domain = domain_of(SCHEMA, [0, 1, 2])
    forest, leaf = domain.forest(trees=3, depth=3, seed=1, limit=3 * 15 * 2, classes=2)
    assert forest.leaves * 2 <= 90
    assert forest.depth < 3
    assert leaf.max() == forest.leaves - 1


def test_the_seed_alone_decides() -> None:
    """The same seed gives the same trees, another seed others."""
    domain = domain_of(SCHEMA, [0, 1, 2, 4])
    same, again, other = (small_forest(domain, seed=seed)[1] for seed in (5, 5, 6))
    assert np.array_equal(same, again)
    assert not np.array_equal(same, other)


def test_orders_are_permutations_by_seed() -> None:
    """Each order has every feature once; the seed alone decides, and more orders begin with the same ones."""
    found = random_orders(7, 5, seed=3)
    assert [sorted(one) for one in found] == [list(range(7))] * 5
    assert found == random_orders(7, 5, seed=3) == random_orders(7, 9, seed=3)[:5]
    assert found != random_orders(7, 5, seed=4)
    assert len({tuple(one) for one in found}) > 1
