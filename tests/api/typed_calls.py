"""What a type checker tells callers of `predict` and `fit`; mypy reads this file, nothing runs it."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpsql import Database, DPForestClassifier, DPForestRegressor, Model


def predictions_of_a_model(model: Model, frame: pd.DataFrame, array: NDArray[np.float64]) -> None:
    """Rows in memory give a Series, a table a DataFrame, and `into` nothing."""
    assert_type(model.predict(frame), pd.Series)
    assert_type(model.predict(array), pd.Series)
    assert_type(model.predict([{"age": 37}], threshold={"yes": 0.3}), pd.Series)
    assert_type(model.predict("new_rows", key="id"), pd.DataFrame)
    model.predict("new_rows", into="scored")


def fits(db: Database, frame: pd.DataFrame, array: NDArray[np.float64]) -> None:
    """A front is fitted to a table or to rows, and returns itself; its predictions are arrays."""
    assert_type(DPForestClassifier(epsilon="0.5").fit(db, "people"), DPForestClassifier)
    assert_type(DPForestRegressor(0.5, target=(0, 1)).fit(array, [1.0, 2.0]), DPForestRegressor)
    forest = DPForestClassifier(1, schema={"label": "ill"}).fit(frame, frame["ill"], schema="people.yml")
    assert_type(forest.predict(frame), NDArray[Any])
    assert_type(forest.predict_proba(array), NDArray[np.float64])
