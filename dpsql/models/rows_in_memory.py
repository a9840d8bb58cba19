"""Reads rows in memory as a DataFrame: arrays, lists of rows and lists of dicts. What cannot be read is never quoted.

An array has no names: its columns are the features in the schema's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpsql.errors import DataError

#: What stands for rows in memory: a DataFrame, an array, a list of rows, or a list of dicts.
Rows: TypeAlias = pd.DataFrame | NDArray[Any] | Sequence[Sequence[Any]] | Sequence[Mapping[str, Any]]

#: The next step where something is not rows.
_HINT = 'a DataFrame, an array with two dimensions, or a list of dicts such as [{"age": 37, "job": "clerk"}]'


def rows_frame(data: object, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return rows as a DataFrame; `names` are those of an array's columns, x0, x1, … unless given.

    >>> rows_frame([{"age": 37}, {"age": 50}], ["age"])["age"].tolist()
    [37, 50]
    >>> rows_frame(np.array([[1, 2]]), ["a", "b"]).columns.tolist()
    ['a', 'b']
    >>> rows_frame(pd.Series({"age": 37}), ["age"])
    Traceback (most recent call last):
        ...
    dpsql.errors.DataError: a Series is one row or one column, not rows.
    Try:   frame.loc[[KEY]] for one row of a frame, series.to_frame() for a column
    """
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, pd.Series):
        hint = "frame.loc[[KEY]] for one row of a frame, series.to_frame() for a column"
        raise DataError("a Series is one row or one column, not rows.", hint=hint)
    check_dense(data)  # first: some sparse matrices are dicts
    if isinstance(data, Mapping):
        raise DataError("a dict is one row, not rows.", hint="put it into a list: [row]")
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _listed_rows(data, names)
    array = _array(data)
    if array.ndim != 2:
        raise DataError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: a row is a line of its own.",
            hint=_HINT,
        )
    return with_names(pd.DataFrame(array), names)


def is_dicts(data: object) -> bool:
    """Whether something is a list of dicts, one for each row."""
    return isinstance(data, list | tuple) and len(data) > 0 and all(isinstance(row, Mapping) for row in data)


def check_dense(data: object) -> None:
    """Raise DataError for a sparse matrix, whose class is known by its package."""
    if type(data).__module__.startswith("scipy.sparse"):
        raise DataError(
            "Sparse data was passed for X, but dense data is required: sparse input is not supported.",
            hint="X.toarray()",
        )


def _listed_rows(data: Sequence[Any], names: Sequence[str] | None) -> pd.DataFrame:
    """Return a list of dicts, or of rows of equal length, as a DataFrame."""
    if is_dicts(data):
        return pd.DataFrame(list(data))
    lengths = {len(row) if isinstance(row, Sequence | np.ndarray) and not isinstance(row, str) else -1 for row in data}
    if len(lengths) > 1 or -1 in lengths:
        raise DataError(
            "Expected 2D array, got a list of something else instead. Reshape your data: each row needs as many values "
            "as there are features.",
            hint=_HINT,
        )
    return with_names(pd.DataFrame([list(row) for row in data]), names)


def _array(data: object) -> NDArray[Any]:
    """Return what says of itself that it is an array."""
    if not hasattr(data, "__array__"):
        raise DataError(f"{type(data).__name__} is not rows that can be read.", hint=_HINT)
    array = np.asarray(data)
    if array.dtype.kind == "c":
        raise DataError("Complex data not supported: a feature is a number, a text or a date.")
    return array


def with_names(frame: pd.DataFrame, names: Sequence[str] | None) -> pd.DataFrame:
    """Return rows without names under the given ones, which must be as many, or under plain ones."""
    if names is None:
        return frame.set_axis([f"x{number}" for number in range(frame.shape[1])], axis="columns")
    if frame.shape[1] != len(names):
        raise DataError(
            f"X has {frame.shape[1]} features, but {len(names)} features are expected as input.",
            hint="the features in this order: " + ", ".join(names[:20]) + (", …" if len(names) > 20 else ""),
        )
    return frame.set_axis(list(names), axis="columns")
