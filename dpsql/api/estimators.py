"""Scikit-learn style fronts: `DPForestClassifier(epsilon=1).fit(db, "adult").predict(frame)`, and a regressor."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpsql import methods
from dpsql.api.database import Database
from dpsql.errors import DpsqlError, UsageError
from dpsql.kernel.datasets.dataset import find_dataset
from dpsql.models.usable_model import Model


class _Forest:
    """What both fronts share: settings in the manner of scikit-learn, and `fit` on a registered table."""

    _target: bool

    def __init__(self, epsilon: object, *, method: str, **parameters: Any) -> None:
        self.epsilon = epsilon
        self.method = method
        self.parameters = parameters

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}(epsilon={self.epsilon!r}, method={self.method!r}{settings})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings, as scikit-learn asks for them."""
        return {"epsilon": self.epsilon, "method": self.method, **self.parameters}

    def set_params(self, **settings: Any) -> Self:
        """Change settings and return the estimator."""
        self.epsilon = settings.pop("epsilon", self.epsilon)
        self.method = settings.pop("method", self.method)
        self.parameters |= settings
        return self

    def fit(self, db: Database, table: str, *, name: str | None = None) -> Self:
        """Train on a registered table under a charged budget and return the estimator.

        A table whose label is of the other kind, classes or a number, is refused before anything is charged.
        """
        schema = find_dataset(db.engine, db.book, table).schema
        if (schema.target is not None) != self._target:
            kind, other = ("a class", "Classifier") if self._target else ("a number", "Regressor")
            raise UsageError(f'the label "{schema.label}" of "{table}" is {kind}.', hint=f"use DPForest{other}")
        self.model_: Model = db.train(table, epsilon=self.epsilon, method=self.method, name=name, **self.parameters)
        self.feature_names_in_ = np.array([f.name for f in self.model_.schema.features], dtype=object)
        return self

    def _check_fitted(self) -> Model:
        if not hasattr(self, "model_"):
            raise DpsqlError(f"this {type(self).__name__} is not fitted yet.", hint='fit(db, "table") first')
        return self.model_


class DPForestClassifier(_Forest):
    """A private forest with `fit`, `predict`, `predict_proba` and `score`, in the manner of scikit-learn.

    `fit` takes a Database and the name of a registered table instead of arrays: rows stay where they are. Each `fit`
    is a charged run. Extra keyword arguments are the method's parameters, such as `trees`.
    """

    _target = False

    def __init__(self, epsilon: object = 1, *, method: str = methods.DEFAULT, **parameters: Any) -> None:
        super().__init__(epsilon, method=method, **parameters)

    @property
    def classes_(self) -> NDArray[np.object_]:
        """The classes, in the schema's order."""
        return np.array(self._check_fitted().classes, dtype=object)

    def predict(self, frame: pd.DataFrame) -> NDArray[np.object_]:
        """Return the label of each row."""
        return self._check_fitted().labels(frame)

    def predict_proba(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Return each class's probability, a column per class in the order of `classes_`."""
        return self._check_fitted().predict_proba(frame).to_numpy()

    def score(self, frame: pd.DataFrame, labels: Any) -> float:
        """Return the accuracy on public rows whose labels you have."""
        return float(np.mean(self.predict(frame) == np.array([str(label) for label in labels], dtype=object)))


class DPForestRegressor(_Forest):
    """A private forest for a numeric target with `fit`, `predict` and `score`, in the manner of scikit-learn.

    The table's schema declares `target` bounds. Everything else is as with DPForestClassifier.
    """

    _target = True

    def __init__(self, epsilon: object = 1, *, method: str = methods.REGRESSION, **parameters: Any) -> None:
        super().__init__(epsilon, method=method, **parameters)

    def predict(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Return the number of each row."""
        return self._check_fitted().labels(frame)

    def score(self, frame: pd.DataFrame, targets: Any) -> float:
        """Return R² on public rows whose targets you have: 1 is perfect, 0 as good as their mean."""
        truth = np.asarray(targets, float)
        return float(1 - np.mean((self.predict(frame) - truth) ** 2) / np.var(truth))
