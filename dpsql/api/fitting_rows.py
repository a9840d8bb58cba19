"""Makes a table of `X` and `y`: a DataFrame whose columns have the types that a database knows.

Types come from the dtypes of the caller's columns, which are public as the types of any registered table are. Values
come into it nowhere: the categories of a pandas column of dtype "category", which are usually taken from the rows, are
dropped, and a cell that is no number in a column of numbers counts as missing. No message quotes a cell.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpsql.api.estimator_base import DataConversionWarning
from dpsql.api.feature_names import string_names
from dpsql.errors import DataError
from dpsql.models.rows_in_memory import rows_frame, with_names
from dpsql.schema import Schema, category_text

#: What the label is called where neither a schema nor `y` names it.
LABEL = "label"


@dataclass(frozen=True, eq=False)
class FittingRows:
    """Rows to fit: `frame` has the features and the label, `names` are the columns of X if X has names.

    `label_kind` is the kind of NumPy's dtype of `y`, by which predicted classes get the type of those given.
    """

    frame: pd.DataFrame
    features: tuple[str, ...]
    names: tuple[str, ...] | None
    label: str
    label_kind: str


def fitting_rows(X: Any, y: Any, schema: Schema | None, *, who: str) -> FittingRows:  # noqa: N803 - scikit-learn's name
    """Return X and y as one table; raise DataError where they are no table. `who` is the estimator's name."""
    if y is None:
        raise DataError(
            f"{who} requires y to be passed, but the target y is None.",
            hint='fit(X, y), or fit(db, "table") on a registered table',
        )
    named = string_names(X)
    columns = None if schema is None else [feature.name for feature in schema.features]
    frame = rows_frame(X, columns)
    if named is None:
        frame = with_names(frame, columns)
    check_shape(frame)
    label = _label(y, who)
    if len(label) != len(frame):
        raise DataError("X and y have inconsistent numbers of samples.", hint="a label for each row")
    features = tuple(map(str, frame.columns))
    name = _label_name(y, schema, features)
    table = typed_frame(frame.reset_index(drop=True), schema).assign(**{name: plain_column(label)})
    return FittingRows(table, features, named, name, label.dtype.kind)


def check_shape(frame: pd.DataFrame) -> None:
    """Raise DataError for a frame without rows or without columns."""
    for count, what in zip(frame.shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise DataError(f"X has 0 {what}(s) (shape={frame.shape}) while a minimum of 1 is required.")


def typed_frame(frame: pd.DataFrame, schema: Schema | None) -> pd.DataFrame:
    """Return a frame with columns of numbers, booleans, dates and texts alone; declared numbers are numbers.

    >>> mixed = pd.DataFrame({"a": pd.Series(["u", "v"], dtype="category"), "b": [1, "two"]})
    >>> typed_frame(mixed, None).dtypes.astype(str).tolist()
    ['object', 'object']
    """
    numbers = {feature.name.lower() for feature in schema.numeric if feature.kind == "numeric"} if schema else set()
    if schema is not None and schema.target is not None:
        numbers.add(schema.label.lower())
    columns = {}
    for name, column in frame.items():
        plain = plain_column(column)
        if str(name).lower() in numbers and plain.dtype == object:
            plain = pd.to_numeric(plain, errors="coerce").astype(float)
        columns[str(name)] = plain
    return pd.DataFrame(columns)


def plain_column(column: pd.Series) -> pd.Series:
    """Return a column as numbers, booleans or dates, as its dtype says, and anything else as texts."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = pd.Series(np.asarray(column), index=column.index)
    kind = getattr(column.dtype, "kind", "O")
    if kind == "c":
        raise DataError("Complex data not supported: a feature is a number, a text or a date.")
    if kind == "f":
        with np.errstate(all="ignore"):  # what no double can hold becomes infinite, without a warning that tells of it
            return column.astype(float)
    if kind in "iubM" and not (kind == "u" and column.dtype == np.uint64):
        return column
    return pd.Series([_cell_text(value) for value in column.astype(object)], index=column.index, dtype=object)


def _cell_text(value: object) -> str | None:
    """Return a cell as a text that a database can store; no cell makes this fail, for a failure would tell of it.

    What is no single value, or has no text of its own, counts as missing; half a surrogate pair is written out.

    >>> [_cell_text(value) for value in ("a", 3.0, ["a"], 10**5000, "\\ud800")]
    ['a', '3', None, None, '\\\\ud800']
    """
    if not pd.api.types.is_scalar(value):
        return None
    try:
        text = category_text(value)
    except (ValueError, ArithmeticError):  # a number of too many digits, a signalling NaN
        return None
    return None if text is None else text.encode("utf-8", "backslashreplace").decode()


def _label(y: Any, who: str) -> pd.Series:
    """Return the labels as a column of their own dtype."""
    if isinstance(y, pd.DataFrame) or getattr(y, "ndim", 1) == 2:
        values = y.to_numpy() if isinstance(y, pd.DataFrame) else np.asarray(y)
        if values.shape[1] != 1:
            raise DataError(f"y should be a 1d array, got an array of shape (…, {values.shape[1]}) instead.")
        _warn_of_column(who)
        y = values[:, 0]
    if hasattr(y, "__array__") and not isinstance(y, pd.Series):
        y = np.asarray(y)
    if getattr(y, "ndim", 1) != 1 or isinstance(y, str) or not hasattr(y, "__len__"):
        raise DataError("y should be a 1d array: a label for each row.")
    return y.reset_index(drop=True) if isinstance(y, pd.Series) else pd.Series(y)


def _warn_of_column(who: str) -> None:
    """Say that a column was taken for a list, in scikit-learn's own words and with its own warning."""
    sentence = "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,)"
    warnings.warn(f"{sentence}, for example using ravel() ({who}).", DataConversionWarning, stacklevel=5)


def _label_name(y: Any, schema: Schema | None, features: tuple[str, ...]) -> str:
    """Return the label's column: the schema's, that of y, or a name that no feature has."""
    if schema is not None and schema.label.lower() not in map(str.lower, features):
        return schema.label
    if schema is not None:
        raise DataError(
            f'X has a column "{schema.label}", which is the label.', hint=f'X.drop(columns="{schema.label}")'
        )
    known = {name.lower() for name in features}
    given = getattr(y, "name", None)
    name = given if isinstance(given, str) and given and given.lower() not in known else LABEL
    while name.lower() in known:
        name = f"{name}_"
    return name
