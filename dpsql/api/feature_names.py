"""Compares the names of columns that are fitted with those that are to be predicted, in scikit-learn's own words."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from dpsql.errors import DataError
from dpsql.models.rows_in_memory import is_dicts, rows_frame


def string_names(X: Any) -> tuple[str, ...] | None:  # noqa: N803 - scikit-learn's name
    """Return the names of columns (the keys of dicts) if all are text, None if none is or there are no names."""
    if is_dicts(X):
        X = rows_frame(X)  # noqa: N806 - scikit-learn's name
    if not isinstance(X, pd.DataFrame):
        return None
    text = [isinstance(name, str) for name in X.columns]
    if any(text) and not all(text):
        raise DataError(
            "Feature names are only supported if all input features have string names.",
            hint="X.rename(columns=str)",
        )
    if X.columns.has_duplicates:
        raise DataError("X has two columns of one name.", hint="name each column differently")
    return tuple(X.columns) if text and all(text) else None


def check_names(given: Sequence[str] | None, fitted: NDArray[Any] | None, who: str) -> None:
    """Compare the names of rows to predict with those of the rows that were fitted, in scikit-learn's words."""
    if given is None and fitted is not None:
        warnings.warn(f"X does not have valid feature names, but {who} was fitted with feature names", stacklevel=4)
    elif given is not None and fitted is None:
        warnings.warn(f"X has feature names, but {who} was fitted without feature names", stacklevel=4)
    elif given is not None and fitted is not None and list(given) != list(fitted):
        raise DataError(_differing_names(set(given), set(fitted)))


def _differing_names(given: set[str], fitted: set[str]) -> str:
    """Return what differs between two sets of column names."""
    parts = ["The feature names should match those that were passed during fit."]
    for title, names in (("unseen at fit time", given - fitted), ("seen at fit time, yet now missing", fitted - given)):
        if names:
            listed = [f"- {name}" for name in sorted(names)[:5]] + (["- ..."] if len(names) > 5 else [])
            parts.append("\n".join([f"Feature names {title}:", *listed]))
    if given == fitted:
        parts.append("Feature names must be in the same order as they were in fit.")
    return "\n".join(parts) + "\n"
