"""The public grid: every feature has one or more axes of at most 64 cells, and every row has a cell on each axis.

A numeric feature and a category of up to 63 values are one axis. A wider category is written in base 64, one
axis for each digit, so that any split is a 64-bit set of cells. Ten axes fit into one 60-bit word; that is how
the SQL carries them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.schema import CELLS, Dated, Feature, Numeric, Schema, category_text
from dpsql.trees.moment_columns import moment_numbers

#: Bits of one cell number: 64 cells.
BITS = 6
#: Axes in one packed 64-bit word: 60 bits, so that the word is never negative.
AXES_PER_WORD = 10
Cells = NDArray[np.uint8]
#: The position of one axis, or of many.
Positions = TypeVar("Positions", int, NDArray[Any])


@dataclass(frozen=True)
class Axis:
    """One axis: a digit of a feature's cell, its number of cells, and whether their order has a meaning.

    `values` is the number of cells that stand for declared values. The other cells hold NULL and unknown values; where
    they go is fixed for each split.
    """

    feature: int
    digit: int
    cells: int
    values: int
    ordered: bool


def axes(schema: Schema) -> tuple[Axis, ...]:
    """Return the axes of a schema, feature by feature, lowest digit first."""
    return tuple(axis for position, feature in enumerate(schema.features) for axis in _axes(position, feature))


def digits(feature: Feature) -> int:
    """Return the number of base-64 digits of a feature's cells.

    >>> from dpsql.schema import Categorical
    >>> digits(Numeric("x", 0, 1)), digits(Categorical("zip", tuple(map(str, range(100)))))
    (1, 2)
    """
    count = 1
    while CELLS**count < feature.cells:
        count += 1
    return count


def word(axis: Positions) -> Positions:
    """Return the number of the packed word that carries an axis, or each of many axes, given by position."""
    return axis // AXES_PER_WORD


def shift(axis: Positions) -> Positions:
    """Return the bit at which an axis starts in its word."""
    return axis % AXES_PER_WORD * BITS


def words(count: int) -> int:
    """Return the number of words that this many axes need."""
    return -(-count // AXES_PER_WORD)


def grid_cells(schema: Schema, columns: Mapping[str, Any]) -> Cells:
    """Return the cells of columns as an array of rows × axes; SQL gives the same cells for the same values."""
    of_features = [feature_cells(feature, columns[feature.name]) for feature in schema.features]
    spread = [of_features[axis.feature] >> (BITS * axis.digit) & (CELLS - 1) for axis in axes(schema)]
    return np.stack(spread, axis=1).astype(np.uint8)


def feature_cells(feature: Feature, column: Any) -> NDArray[np.int64]:
    """Return the cell of each value of one column (before it is written in digits).

    >>> from dpsql.schema import Categorical
    >>> feature_cells(Categorical("c", ("a", "b")), ["b", None, "z"]).tolist()
    [1, 2, 2]
    """
    if isinstance(feature, Numeric):
        return _numeric_cells(feature, column)
    values = np.asarray(column, dtype=object)
    distinct: dict[Any, int] = {}
    places = np.fromiter((distinct.setdefault(_key(v), len(distinct)) for v in values), np.int64, len(values))
    table = np.array([feature.cell(value) for _, value in distinct], np.int64)
    return table[places] if len(values) else np.zeros(0, np.int64)


def _numeric_cells(feature: Numeric, column: Any) -> NDArray[np.int64]:
    numbers = moment_numbers(feature, column) if isinstance(feature, Dated) else _numbers(column)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (numbers - feature.lower) * feature.scale
        numeric_cells = np.floor(np.minimum(np.maximum(scaled, 0.0), feature.cells - 1.0))
    missing = np.isnan(numbers)
    numeric_cells[missing] = feature.null_cell
    return numeric_cells.astype(np.int64)


def _numbers(column: Any) -> NDArray[np.float64]:
    if hasattr(column, "to_numpy") and getattr(column.dtype, "kind", "") in "iufb":
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan), np.float64)
    array = np.asarray(column)
    if array.dtype.kind in "iufb":
        return array.astype(np.float64)
    return np.array([np.nan if category_text(_plain(value)) is None else float(value) for value in array], np.float64)


def _key(value: Any) -> tuple[type, Any]:
    plain = _plain(value)
    return type(plain), plain


def _plain(value: Any) -> Any:
    """Return None for NaN and for pandas's NA, which cannot be compared, not even with itself."""
    return None if type(value).__name__ == "NAType" or value != value else value


def _axes(position: int, feature: Feature) -> list[Axis]:
    if isinstance(feature, Numeric):
        return [Axis(position, 0, feature.cells, feature.cells, ordered=True)]
    if digits(feature) == 1:
        other = feature.null is None or feature.unknown is None
        count = len(feature.values)
        return [Axis(position, 0, count + other, count, ordered=False)]
    spread = []
    for digit in range(digits(feature)):
        width = min(CELLS, -(-feature.cells // CELLS**digit))
        spread.append(Axis(position, digit, width, width, ordered=False))
    return spread
