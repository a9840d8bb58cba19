"""The public grid: cells of every kind of feature, exact edges, wide categories in digits."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpsql.errors import SchemaError
from dpsql.schema import Boolean, Categorical, Numeric, Schema
from dpsql.trees import grid
from tests.rows import BOUNDS, SPECIAL, one_cell, random_table, schemas

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def numeric(lower: float, upper: float, cells: int) -> Numeric:
    """Return a numeric feature, or give the example up where the range is refused as too narrow or too wide."""
    assume(lower < upper)
    try:
        return Numeric("x", lower, upper, cells=cells)
    except SchemaError:
        assume(False)
        raise


@st.composite
def features(draw: st.DrawFn) -> Numeric:
    """Draw a numeric feature: named bounds, any bounds, or bounds a few floats apart."""
    cells = draw(st.sampled_from([2, 3, 10, 63, 64]))
    kind = draw(st.sampled_from(["named", "any", "narrow"]))
    if kind == "named":
        return Numeric("x", *draw(st.sampled_from(BOUNDS)), cells=cells)
    lower = draw(FINITE)
    steps = draw(st.integers(64, 5000))
    upper = draw(FINITE) if kind == "any" else lower + steps * math.ulp(lower)
    return numeric(lower, upper, cells)


@settings(max_examples=150)
@given(feature=features())
def test_edges_are_exact(feature: Numeric) -> None:
    """At each edge and its neighbouring floats, `x < edge` says the same as `cell(x) < k`."""
    for k, edge in enumerate(feature.edges, start=1):
        for number in (math.nextafter(edge, -math.inf), edge, math.nextafter(edge, math.inf)):
            assert (number < edge) == (feature.cell(number) < k)


@settings(max_examples=150)
@given(feature=features(), number=FINITE | st.sampled_from([math.inf, -math.inf, -0.0]))
def test_edges_agree_with_cells_anywhere(feature: Numeric, number: float) -> None:
    """The cell of any number is the number of edges at or below it."""
    assert feature.cell(number) == sum(edge <= number for edge in feature.edges)


@settings(max_examples=100)
@given(feature=features())
def test_edges_rise(feature: Numeric) -> None:
    """Edges are strictly rising and lie between the bounds."""
    assert all(a < b for a, b in zip(feature.edges, feature.edges[1:], strict=False))
    assert feature.lower <= feature.edges[0]
    assert feature.edges[-1] <= feature.upper


@settings(max_examples=100)
@given(feature=features(), numbers=st.lists(st.floats() | st.sampled_from([x for x in SPECIAL if x is not None])))
def test_whole_columns_give_the_cells_of_single_numbers(feature: Numeric, numbers: list[float]) -> None:
    """`feature_cells` on a column equals `Numeric.cell` on each of its numbers."""
    near = [math.nextafter(edge, -math.inf) for edge in feature.edges]
    column = [*numbers, *feature.edges, *near]
    found = grid.feature_cells(feature, np.array(column, np.float64))
    assert found.tolist() == [feature.cell(number) for number in column]


@pytest.mark.parametrize("null", [None, -5.0, 0.0, 7.0, 10.0, 99.0])
def test_null_and_nan_share_a_cell(null: float | None) -> None:
    """NULL and NaN fall into the declared value's cell (clamped), or into the first."""
    feature = Numeric("x", 0, 10, cells=10, null=null)
    expected = 0 if null is None else max(0, min(9, int(null)))
    assert grid.feature_cells(feature, [None, math.nan, pd.NA]).tolist() == [expected] * 3
    assert feature.cell(math.nan) == feature.null_cell == expected


@pytest.mark.parametrize(
    "column",
    [
        np.array([1, 2, 3]),
        np.array([1, 2, 3], np.uint8),
        np.array([1, 2, 3], np.float32),
        [1, 2, 3],
        (1.0, 2.0, 3.0),
        pd.Series([1, 2, 3]),
        pd.Series([1, 2, 3], dtype="Int64"),
        pd.Series([1, 2, 3], dtype=object),
        pd.Series([1.0, 2.0, 3.0], dtype="Float64"),
    ],
    ids=lambda column: f"{type(column).__name__}-{getattr(column, 'dtype', 'list')}",
)
def test_a_numbers_column_may_come_in_any_form(column: object) -> None:
    """Arrays, lists and Series of all number types give the same cells."""
    assert grid.feature_cells(Numeric("x", 0, 10, cells=10), column).tolist() == [1, 2, 3]


def test_a_category_has_a_cell_for_each_value_and_one_for_the_rest() -> None:
    """Values keep their order; NULL, NaN and unknown values share the last cell."""
    feature = Categorical("c", ("b", "a"))
    assert grid.feature_cells(feature, ["b", "a", "z", None, math.nan, pd.NA]).tolist() == [0, 1, 2, 2, 2, 2]


def test_declared_places_for_null_and_unknown() -> None:
    """A declared `null` and `unknown` take the cells of those values."""
    feature = Categorical("c", ("a", "b"), null="b", unknown="a")
    assert grid.feature_cells(feature, ["z", None, math.nan, pd.NA]).tolist() == [0, 1, 1, 1]


def test_a_missing_value_is_not_the_text_nan() -> None:
    """NaN is missing also where "nan" is a declared value, as it is for a single value."""
    feature = Categorical("c", ("nan", "b"), null="b")
    column = ["nan", math.nan, np.float32("nan"), None]
    assert grid.feature_cells(feature, column).tolist() == [0, 1, 1, 1]
    assert [feature.cell(value) for value in column] == [0, 1, 1, 1]


def test_a_boolean_is_a_category_of_two_values() -> None:
    """False is cell 0, true is cell 1, whatever form they come in."""
    column = [False, True, np.False_, np.True_, "false", "true", None, "maybe"]
    assert grid.feature_cells(Boolean("b"), column).tolist() == [0, 1, 0, 1, 0, 1, 2, 2]


@pytest.mark.parametrize("column", [[3, 3.0, "3"], [np.int64(3), np.float64(3), "3"]])
def test_numbers_as_categories_are_compared_as_text(column: list[object]) -> None:
    """A whole number, the same as a float (a column with NULLs in pandas), and its text are one value."""
    assert grid.feature_cells(Categorical("c", ("1", "3")), column).tolist() == [1, 1, 1]


@pytest.mark.parametrize(("values", "digits"), [(1, 1), (63, 1), (64, 2), (65, 2), (4095, 2), (4096, 3)], ids=str)
def test_wide_categories_are_written_in_digits(values: int, digits: int) -> None:
    """A category of v values has v + 1 cells and as many base-64 digits as those need."""
    assert grid.digits(Categorical("c", tuple(map(str, range(values))))) == digits


@pytest.mark.parametrize("values", [64, 200, 4096])
def test_digits_give_the_cell_back(values: int) -> None:
    """The cells on a wide category's axes, read as digits, are the cell; each is below its axis's width."""
    feature = Categorical("c", tuple(map(str, range(values))))
    schema = Schema("y", ("0", "1"), (feature,))
    column = [*feature.values, None]
    found = grid.grid_cells(schema, {"c": column}).astype(int)
    axes = grid.axes(schema)
    assert (found @ [64**axis.digit for axis in axes]).tolist() == list(range(values + 1))
    assert all((found[:, k] < axis.cells).all() for k, axis in enumerate(axes))


@settings(max_examples=40)
@given(schema=schemas(), seed=st.integers(0, 2**32 - 1))
def test_cells_of_mixed_columns_equal_single_cells(schema: Schema, seed: int) -> None:
    """`cells` on whole columns gives, axis by axis, the digits of each value's cell, all below the axis's width."""
    made = random_table(schema, 20, seed)
    found = grid.grid_cells(schema, made.columns)
    for place, axis in enumerate(grid.axes(schema)):
        feature = schema.features[axis.feature]
        expected = [one_cell(feature, value) // 64**axis.digit % 64 for value in made.columns[feature.name]]
        assert found[:, place].tolist() == expected
        assert max(expected) < axis.cells


def test_ten_axes_share_a_word() -> None:
    """Axes are packed by ten, six bits each, from the lowest bit up."""
    assert [grid.word(axis) for axis in (0, 9, 10, 25)] == [0, 0, 1, 2]
    assert [grid.shift(axis) for axis in (0, 1, 9, 10)] == [0, 6, 54, 0]
    assert [grid.words(count) for count in (1, 10, 11, 20, 21)] == [1, 1, 2, 2, 3]


def test_no_rows_give_no_cells() -> None:
    """Empty columns give an empty array of the right width."""
    schema = Schema("y", ("0", "1"), (Numeric("x", 0, 1), Categorical("c", ("a",))))
    assert grid.grid_cells(schema, {"x": [], "c": []}).shape == (0, 2)
