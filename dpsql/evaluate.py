"""Measures a model on a public table, for free. A private registered table is refused: its rows are not public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sqlglot import exp

from dpsql.errors import SchemaError, UnknownName
from dpsql.kernel.dataset import LABEL_FAMILIES
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


def evaluate(model: Model, data: pd.DataFrame | str) -> Evaluation:
    """Compare a model's labels with the true ones, on a DataFrame or a public table of its database."""
    if isinstance(data, pd.DataFrame):
        if model.schema.label not in data.columns:
            raise UnknownName("column in the data called", model.schema.label, (str(name) for name in data.columns))
        pairs = pd.DataFrame({"truth": _texts(data[model.schema.label]), PREDICTION: model.labels(data)})
        return _summary(model, "the data", pairs.groupby(["truth", PREDICTION], dropna=True).size())
    return _evaluate_table(model, data)


def _evaluate_table(model: Model, name: str) -> Evaluation:
    assert model.database is not None
    info = public_table(model.database, name)
    label = info.column(model.schema.label)
    if label is None:
        raise UnknownName(f'column in table "{info.name}" called', model.schema.label, (c.name for c in info.columns))
    if label.family not in LABEL_FAMILIES:
        raise SchemaError(f'the label "{label.name}" is {label.type}; it must be text, integer or boolean.')
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


def _texts(labels: pd.Series) -> list[str | None]:
    values = labels.astype(object)
    return [category_text(value) for value in values.mask(values.isna(), None)]
