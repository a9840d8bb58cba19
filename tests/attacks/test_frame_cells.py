"""No cell of a DataFrame makes a fit fail: a failure that follows from one row would tell of it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpsql

SCHEMA = {
    "label": "y",
    "classes": ["no", "yes"],
    "features": {
        "x": {"type": "numeric", "lower": 0, "upper": 64},
        "c": {"type": "categorical", "values": ["u", "v"]},
        "h": {"type": "hashed", "cells": 63},
    },
}


class Stubborn:
    """A value without text and without equality."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("secret")

    def __str__(self) -> str:
        raise RuntimeError("secret")


CELLS: dict[str, Any] = {
    "half a surrogate pair": "\ud800",
    "NUL": "a\x00b",
    "bytes": b"a",
    "a list": ["u"],
    "an array": np.array([1, 2]),
    "a series": pd.Series([1, 2]),
    "a dict": {"u": 1},
    "no text": Stubborn(),
    "too many digits": 10**5000,
    "a number beyond doubles": "1e400",
    "a signalling NaN": Decimal("sNaN"),
    "NA": pd.NA,
    "NaT": pd.NaT,
    "None": None,
    "a day": pd.Timestamp("2020-01-01"),
}


def rows_with(column: str, cell: object) -> pd.DataFrame:
    """Return two hundred rows of objects, one of which has a cell."""
    columns: dict[str, list[Any]] = {
        "x": [row % 64 for row in range(200)],
        "c": ["uv"[row % 2] for row in range(200)],
        "h": [f"w{row % 9}" for row in range(200)],
        "y": [("no", "yes")[row % 2] for row in range(200)],
    }
    columns[column][7] = cell
    frame = {}
    for name, values in columns.items():
        objects = np.empty(len(values), dtype=object)
        for row, value in enumerate(values):
            objects[row] = value
        frame[name] = pd.Series(objects, dtype=object)
    return pd.DataFrame(frame)


@pytest.mark.parametrize("column", ["x", "c", "h", "y"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_fit_takes_every_cell(column: str, cell: str) -> None:
    """The same charge, and a model, whatever one row holds."""
    rows = rows_with(column, CELLS[cell])
    forest = dpsql.DPForestClassifier(epsilon=1, schema=SCHEMA, method="rdt", trees=2, depth=2)
    forest.fit(rows.drop(columns="y"), rows["y"])
    assert forest.budget_.spent_text == "1"


@pytest.mark.parametrize("column", ["x", "c", "h", "y"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_registered_frame_takes_every_cell(column: str, cell: str) -> None:
    """`from_frame` makes the table, and a run on it is a run."""
    with dpsql.from_frame(rows_with(column, CELLS[cell]), SCHEMA, cap=1) as database:
        database.train("rows", epsilon=1, method="rdt", trees=2, depth=2)
        assert database.budget("rows").spent_text == "1"


def test_a_number_beyond_doubles_is_no_warning() -> None:
    """What a double cannot hold becomes infinite, and so is clamped."""
    rows = rows_with("x", 1)
    rows["x"] = np.array([*range(199), "1e4000"], dtype=np.longdouble)
    forest = dpsql.DPForestClassifier(epsilon=1, schema=SCHEMA, method="rdt", trees=2, depth=2)
    forest.fit(rows.drop(columns="y"), rows["y"])
    assert forest.budget_.spent_text == "1"
