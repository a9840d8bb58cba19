"""A scikit-learn style front: `DPForestClassifier(epsilon=1).fit(db, "adult").predict(frame)`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpsql import methods
from dpsql.database import Database
from dpsql.errors import DpsqlError
from dpsql.model import Model


class DPForestClassifier:
    """A private forest with `fit`, `predict`, `predict_proba` and `score`, in the manner of scikit-learn.

    `fit` takes a Database and the name of a registered table instead of arrays: rows stay where they are. Each `fit`
    is a charged run. Extra keyword arguments are the method's parameters, such as `trees`.
    """

    def __init__(self, epsilon: object = 1, *, method: str = methods.DEFAULT, **parameters: Any) -> None:
        self.epsilon = epsilon
        self.method = method
        self.parameters = parameters

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.parameters.items())
        return f"DPForestClassifier(epsilon={self.epsilon!r}, method={self.method!r}{given})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings, as scikit-learn asks for them."""
        return {"epsilon": self.epsilon, "method": self.method, **self.parameters}

    def set_params(self, **settings: Any) -> DPForestClassifier:
        """Change settings and return the classifier."""
        self.epsilon = settings.pop("epsilon", self.epsilon)
        self.method = settings.pop("method", self.method)
        self.parameters |= settings
        return self

    def fit(self, db: Database, table: str, *, name: str | None = None) -> DPForestClassifier:
        """Train on a registered table under a charged budget and return the classifier."""
        self.model_: Model = db.train(table, epsilon=self.epsilon, method=self.method, name=name, **self.parameters)
        self.classes_ = np.array(self.model_.classes, dtype=object)
        self.feature_names_in_ = np.array([f.name for f in self.model_.schema.features], dtype=object)
        return self

    def predict(self, frame: pd.DataFrame) -> NDArray[np.object_]:
        """Return the label of each row."""
        return self._fitted().labels(frame)

    def predict_proba(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Return each class's share of the votes, a column per class in the order of `classes_`."""
        return self._fitted().predict_proba(frame).to_numpy()

    def score(self, frame: pd.DataFrame, labels: Any) -> float:
        """Return the accuracy on public rows whose labels you have."""
        return float(np.mean(self.predict(frame) == np.array([str(label) for label in labels], dtype=object)))

    def _fitted(self) -> Model:
        if not hasattr(self, "model_"):
            raise DpsqlError("this classifier is not fitted yet.", hint='fit(db, "table") first')
        return self.model_
