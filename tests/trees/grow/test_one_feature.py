"""One-feature trees: every row reaches the leaf of its bin in the tree of each feature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.schema import CELLS, Boolean, Categorical, Feature, Numeric, Schema
from dpsql.trees.grid import Axis, axes, feature_cells, grid_cells
from dpsql.trees.grow.one_feature import axes_by_feature, axis_digit, cell_bins, one_feature_trees
from dpsql.trees.serialize import check_forest
from tests.rows import random_table, schemas


def category(name: str, count: int) -> Categorical:
    """Return a category of as many values."""
    return Categorical(name, tuple(f"v{number}" for number in range(count)))


def own_bin(feature: Feature, cell: int, bins: int) -> int:
    """Return the bin of a cell by its definition: equal widths for a number, the cell itself for a category."""
    return cell * min(bins, feature.cells) // feature.cells if isinstance(feature, Numeric) else cell


@settings(max_examples=40)
@given(schema=schemas(most=14), bins=st.integers(2, 64), seed=st.integers(0, 2**32))
def test_every_row_reaches_the_leaf_of_its_cell(schema: Schema, bins: int, seed: int) -> None:
    """For any schema the leaf of a feature's tree, counted from its first, is the bin of the row's cell."""
    columns = random_table(schema, 20, seed).columns
    forest = one_feature_trees(axes(schema), bins)
    leaves = forest.route(grid_cells(schema, columns)) - forest.first_leaf[:-1]
    for place, feature in enumerate(schema.features):
        expected = [own_bin(feature, int(cell), bins) for cell in feature_cells(feature, columns[feature.name])]
        assert leaves[:, place].tolist() == expected
    assert forest.trees == len(schema.features)


@pytest.mark.parametrize(("values", "digits", "leaves"), [(62, 1, 63), (63, 1, 64), (64, 2, 128), (300, 2, 320),
                                                          (4095, 2, 4096), (4096, 3, 8192)])  # fmt: skip
def test_wide_categories_take_a_level_for_each_digit(values: int, digits: int, leaves: int) -> None:
    """Every value of a category of one, two and three digits has a leaf of its own, in order; others have theirs."""
    schema = Schema("y", ("a", "b"), (Numeric("x", 0, 1), category("c", values), Boolean("b")))
    forest = one_feature_trees(axes(schema), 8)
    given = [f"v{number}" for number in range(values)] + [None]
    columns = {"x": np.linspace(0, 0.999, values + 1), "c": given, "b": [True] * (values + 1)}
    reached = forest.route(grid_cells(schema, columns)) - forest.first_leaf[:-1]
    assert reached[:, 1].tolist() == list(range(values + 1))
    assert (forest.depth, int(np.diff(forest.first_leaf)[1])) == (digits, leaves)
    assert np.diff(forest.first_leaf)[[0, 2]].tolist() == [8, 3]
    assert (np.diff(reached[:, 0]) >= 0).all()
    check_forest(forest)


@pytest.mark.parametrize("bins", [1, 2, 3, 7, 33, 63, 64, 100])
@pytest.mark.parametrize("count", [2, 3, 17, 64])
def test_bins_of_a_number_are_in_order_and_all_there(bins: int, count: int) -> None:
    """Bins rise from 0 without a gap, as many as fit, and differ in width by one cell at most."""
    found = cell_bins(Axis(0, 0, count, count, ordered=True), bins)
    sizes = np.bincount(found)
    assert len(found) == count
    assert (np.diff(found) >= 0).all()
    assert (len(sizes), sizes.max() - sizes.min() <= 1) == (min(bins, count), True)


def test_a_category_has_a_bin_for_each_cell() -> None:
    """The number of bins is for numbers alone."""
    assert cell_bins(Axis(0, 0, 9, 8, ordered=False), 4).tolist() == list(range(9))


def test_digits_write_a_cell_in_base_64() -> None:
    """The digits of a feature's axes, put together, are the cell."""
    grid = axes(Schema("y", ("a", "b"), (Boolean("b"), category("c", 4096))))
    places = axes_by_feature(grid)
    values = np.array([0, 1, 63, 64, 65, 4095, 4096])
    assert places == [[0], [1, 2, 3]]
    again = sum(axis_digit(values, grid[place]) * CELLS**power for power, place in enumerate(places[1]))
    assert np.asarray(again).tolist() == values.tolist()
