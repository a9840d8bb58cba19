"""Reads a column of dates or timestamps as numbers of units since 1970, the same as every database does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.errors import SchemaError
from dpsql.schema import Dated

#: Nanoseconds of one microsecond.
_THOUSAND = 1_000
#: Microseconds of one second.
_MILLION = 1_000_000


def moment_numbers(feature: Dated, column: Any, *, forgive: bool = False) -> NDArray[np.float64]:
    """Return each value's number of units, NaN where it is missing; numbers are taken as they are.

    With `forgive` a text that is no date is missing too, as in a CSV file; otherwise it is refused.
    Columns of NumPy's and pandas' own times are read at once, other values one by one.

    >>> moment_numbers(Dated("joined", "2020-01-01", "2021-01-01"), ["2020-01-02", None]).tolist()
    [18263.0, nan]
    """
    dtype = getattr(column, "dtype", None)
    if getattr(dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    values = np.asarray(column)
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    if values.dtype.kind != "M":
        return np.array([_number(feature, value, forgive=forgive) for value in values.tolist()], np.float64)
    numbers = _microseconds(values).astype(np.float64) / _MILLION / feature.seconds_per_unit
    numbers[np.isnat(values)] = np.nan
    return numbers


def _number(feature: Dated, value: Any, *, forgive: bool) -> float:
    try:
        return feature.number(value)
    except SchemaError:
        if forgive:
            return np.nan
        raise


def _microseconds(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return NumPy's times as whole microseconds since 1970; nanoseconds are rounded, half of one away from zero."""
    if values.dtype != np.dtype("datetime64[ns]"):
        return values.astype("datetime64[us]").astype(np.int64)
    nanoseconds = values.astype(np.int64)
    rest = np.fmod(nanoseconds, _THOUSAND)  # it has the sign of the number
    rounded: NDArray[np.int64] = (nanoseconds - rest) // _THOUSAND + np.sign(rest) * (2 * np.abs(rest) >= _THOUSAND)
    return rounded
