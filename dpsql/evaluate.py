"""Measures a model on a public table, for free. A private registered table is refused: its rows are not public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.errors import SchemaError, UnknownName
from dpsql.kernel.dataset import LABEL_FAMILIES, TARGET_FAMILIES
from dpsql.predict import PREDICTION, public_table, scoring_query
from dpsql.schema import category_text

if TYPE_CHECKING:
    from dpsql.model import Model


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How a model did: rows with a known label, accuracy, the share of the largest class, the confusion table.

    `confusion` has a row for each true class and a column for each predicted one.
    """

    model: str
    table: str
    rows: int
    accuracy: float
    majority: float
    confusion: pd.DataFrame

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "model": self.model,
            "table": self.table,
            "rows": self.rows,
            "accuracy": self.accuracy,
            "majority_class_share": self.majority,
            "confusion": {str(true): row.to_dict() for true, row in self.confusion.iterrows()},
        }

    def __str__(self) -> str:
        return (
            f"{self.model} on {self.table}: accuracy {self.accuracy:.1%} on {self.rows} rows "
            f"(always the largest class: {self.majority:.1%})"
        )


@dataclass(frozen=True)
class NumericEvaluation:
    """How a model of a numeric target did: rows with a finite target, its errors, and that of the mean predictor.

    `mean_rmse` is the root mean squared error of always predicting the mean of these rows' own targets; `r2` is
    1 − (rmse / mean_rmse)², 0 where the targets do not differ. Errors are in the units of the target.
    """

    model: str
    table: str
    rows: int
    rmse: float
    mae: float
    r2: float
    mean_rmse: float

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "model": self.model,
            "table": self.table,
            "rows": self.rows,
            "rmse": self.rmse,
            "mae": self.mae,
            "r2": self.r2,
            "mean_predictor_rmse": self.mean_rmse,
        }

    def __str__(self) -> str:
        return (
            f"{self.model} on {self.table}: RMSE {self.rmse:.4g}, MAE {self.mae:.4g}, R² {self.r2:.3f} "
            f"on {self.rows} rows (always the mean: RMSE {self.mean_rmse:.4g})"
        )


def evaluate(model: Model, data: pd.DataFrame | str) -> Evaluation | NumericEvaluation:
    """Compare a model's labels with the true ones, on a DataFrame or a public table of its database."""
    if isinstance(data, pd.DataFrame):
        if model.schema.label not in data.columns:
            raise UnknownName("column in the data called", model.schema.label, (str(name) for name in data.columns))
        if model.schema.target is not None:
            return _errors(model, "the data", data[model.schema.label], model.labels(data))
        pairs = pd.DataFrame({"truth": _texts(data[model.schema.label]), PREDICTION: model.labels(data)})
        return _summary(model, "the data", pairs.groupby(["truth", PREDICTION], dropna=True).size())
    return _evaluate_table(model, data)


def _evaluate_table(model: Model, name: str) -> Evaluation | NumericEvaluation:
    assert model.database is not None
    info = public_table(model.database, name)
    label = info.column(model.schema.label)
    if label is None:
        raise UnknownName(f'column in table "{info.name}" called', model.schema.label, (c.name for c in info.columns))
    families = LABEL_FAMILIES if model.schema.target is None else TARGET_FAMILIES
    if label.family not in families:
        raise SchemaError(f'the label "{label.name}" is {label.type}; it must be {" or ".join(families)}.')
    if model.schema.target is not None:
        pairs = model.database.engine.frame(scoring_query(model, info, key=label.name))
        return _errors(model, info.name, pairs[label.name], pairs[PREDICTION].to_numpy(float))
    scored = scoring_query(model, info, key=label.name).subquery("scored")
    truth = exp.cast(exp.column(exp.to_identifier(label.name, quoted=True)), exp.DataType.Type.TEXT)
    query = exp.select(truth.as_("truth"), exp.column(PREDICTION), exp.Count(this=exp.Star()).as_("rows"))
    query = query.from_(scored).group_by(truth.copy(), PREDICTION)
    counts = model.database.engine.frame(query)
    return _summary(model, info.name, counts.groupby(["truth", PREDICTION], dropna=True)["rows"].sum())


def _summary(model: Model, name: str, counts: pd.Series) -> Evaluation:
    classes = list(model.classes)
    confusion = counts.unstack(fill_value=0).reindex(index=classes, columns=classes, fill_value=0).fillna(0).astype(int)
    rows = int(confusion.to_numpy().sum())
    right = int(np.trace(confusion.to_numpy()))
    largest = int(confusion.sum(axis=1).max())
    return Evaluation(model.name, name, rows, right / max(rows, 1), largest / max(rows, 1), confusion)


def _errors(model: Model, name: str, targets: pd.Series, predicted: NDArray[np.float64]) -> NumericEvaluation:
    """Return the errors on the rows whose target is a finite number."""
    truth = pd.to_numeric(targets, errors="coerce").to_numpy(float, na_value=np.nan)
    known = np.isfinite(truth)
    truth, wrong = truth[known], (predicted - truth)[known]
    if len(truth) == 0:
        return NumericEvaluation(model.name, name, 0, 0.0, 0.0, 0.0, 0.0)
    squares, spread = float(np.mean(wrong**2)), float(np.var(truth))
    r2 = 1 - squares / spread if spread > 0 else 0.0
    mae = float(np.mean(np.abs(wrong)))
    return NumericEvaluation(model.name, name, len(truth), squares**0.5, mae, r2, spread**0.5)


def _texts(labels: pd.Series) -> list[str | None]:
    values = labels.astype(object)
    return [category_text(value) for value in values.mask(values.isna(), None)]
