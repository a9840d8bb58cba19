"""Forests as scikit-learn estimators: `DPForestClassifier(epsilon=1).fit(db, "adult")`, or `.fit(X, y)`.

`fit(db, "table")` trains on a registered table, in its database and on its budget. `fit(X, y)` trains on rows in
memory: they are registered in a database in memory, and the charge is entered in a ledger that the estimator carries
and shares with its clones (`dpsql/api/fit_ledger.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dpsql import methods
from dpsql.api.database import Database
from dpsql.api.estimator_base import BaseEstimator, ClassifierMixin, NotFitted, RegressorMixin
from dpsql.api.feature_names import check_names, string_names
from dpsql.api.fit_ledger import FitLedger
from dpsql.api.fit_rows import Bounds, FitRequest, fit_rows
from dpsql.api.fitting_rows import fitting_rows
from dpsql.errors import DataError, UnknownName, UsageError
from dpsql.kernel.datasets.dataset import find_dataset
from dpsql.ledger import Budget
from dpsql.ledger.amount import Amount, parse_epsilon
from dpsql.models.rows_in_memory import Rows, rows_frame
from dpsql.models.usable_model import Model
from dpsql.runs.train import ARGUMENTS
from dpsql.schema import Schema
from dpsql.schema.schema_file import SchemaSource, load_schema

#: Arguments of a training run that a front says itself, or that its in-memory table has no use for.
_NOT_SETTINGS = {"table", "name", "request_id", "evaluate", "batch"}


class _Forest(BaseEstimator):
    """What both fronts share: settings in the manner of scikit-learn, and `fit`."""

    #: Whether the label is a number.
    _target: bool
    #: The settings that stand in the signature; all others are arguments of `train` and parameters of the method.
    _own: tuple[str, ...]
    epsilon: Amount
    method: str
    schema: SchemaSource | None
    bounds: Bounds | None
    buy: Amount | None
    cap: Amount | None

    def _take(self, parameters: dict[str, Any]) -> None:
        """Keep the parameters of the method as they were given; values are checked by `fit`."""
        for name in parameters:
            _check_setting(type(self), name, self._own)
        self._parameters = parameters

    def __repr__(self) -> str:
        default = type(self)()
        changed = [name for name in self._own[2:] if getattr(self, name) is not getattr(default, name)]
        settings = {name: getattr(self, name) for name in ("epsilon", "method", *changed)} | self._parameters
        shown = (f"{name}={_setting_text(value)}" for name, value in settings.items())
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted front with the same settings, whose fits are charged in the same ledger."""
        twin: Self = super().__sklearn_clone__()
        twin._fits = self._ledger()
        return twin

    def __getstate__(self) -> Any:
        """Return what a pickle holds. One that is not fitted may be fitted elsewhere, out of sight of its ledger."""
        if "model_" not in vars(self):
            self._ledger().has_copies = True
        return super().__getstate__()

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: noise makes each fit different, and missing values, texts and dates are fine."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the method, such as `trees`, and further arguments of `train`."""
        return dict(self._parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in self._own} | self._parameters

    def set_params(self, **params: Any) -> Self:
        """Change settings and return the estimator. None takes a parameter of the method back to its default."""
        for name in params:
            _check_setting(type(self), name, self._own)
        for name, value in params.items():
            if name in self._own:
                setattr(self, name, value)
            else:
                self._parameters = self._parameters | {name: value}
        return self

    @property
    def budget_(self) -> Budget:
        """What is spent and left: of the table's budget after `fit(db, "table")`, else of all fits and those of clones.

        A fit cannot know whether another one saw the same rows. The sum counts as if all had: no row has lost more.
        """
        if "_of_table" in vars(self):
            return self._of_table[0]
        if self._ledger().has_copies:
            warnings.warn(
                "copies of this estimator were pickled before they were fitted: what they spent in other processes is "
                "not in this budget. dpsql.search_cost says what a search costs.",
                stacklevel=2,
            )
        return self._ledger().budget(None if self.cap is None else parse_epsilon(self.cap, "cap"))

    @property
    def ledger_(self) -> pd.DataFrame:
        """The entries behind `budget_`, one row each: those of the table, or of all fits, with the fit's number."""
        return self._of_table[1].copy() if "_of_table" in vars(self) else self._ledger().entries()

    @overload
    def fit(self, X: Database, y: str, *, name: str | None = None) -> Self: ...  # noqa: N803 - scikit-learn's name

    @overload
    def fit(
        self,
        X: Rows | ArrayLike,  # noqa: N803 - scikit-learn's name
        y: ArrayLike | pd.Series | None = None,
        *,
        schema: SchemaSource | None = None,
        name: str | None = None,
    ) -> Self: ...

    def fit(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: Any = None,
        *,
        schema: SchemaSource | None = None,
        name: str | None = None,
    ) -> Self:
        """Train under a charged budget and return the estimator: on a registered table, or on rows in memory.

        `fit(db, "table")` takes a Database and the name of a registered table, whose budget is charged. `fit(X, y)`
        takes a DataFrame or an array and its labels; what is public of them is said by `schema`, here or as a setting,
        or by `bounds` and `classes`, or bought. A label of the other kind, classes or a number, is refused before
        anything is charged.
        """
        if isinstance(X, Database):
            if not isinstance(y, str):
                raise UsageError("a database needs the name of a registered table.", hint='fit(db, "table")')
            return self._fit_table(X, y, name=name)
        described = self.schema if schema is None else schema
        loaded = None if described is None else load_schema(described)
        request = FitRequest(
            epsilon=self.epsilon,
            method=self.method,
            schema=loaded,
            bounds=self.bounds,
            classes=getattr(self, "classes", None),
            target=getattr(self, "target", None),
            buy=self.buy,
            cap=self.cap,
            name=name,
            parameters=self._given(),
        )
        rows = fitting_rows(X, y, loaded, who=type(self).__name__)
        self._check_label(rows.label_kind, loaded)
        if self._target:  # a column of whole numbers would be taken for codes of classes
            rows = replace(rows, frame=rows.frame.astype({rows.label: float}))
        self.model_ = fit_rows(rows, request, self._ledger())
        self._keep(rows.names, len(rows.features), rows.label_kind)
        self._features = rows.features
        vars(self).pop("_of_table", None)
        return self

    def _fit_table(self, db: Database, table: str, *, name: str | None) -> Self:
        schema = find_dataset(db.engine, db.book, table).schema
        if (schema.target is not None) != self._target:
            raise _other_kind(f'the label "{schema.label}" of "{table}"', self._target)
        self.model_ = db.train(table, epsilon=self.epsilon, method=self.method, name=name, **self._given())
        features = [feature.name for feature in self.model_.schema.features]
        self._keep(tuple(features), len(features), "O")
        vars(self).pop("_features", None)
        self._of_table = (db.budget(table), db.ledger(table))
        return self

    def _check_label(self, kind: str, schema: Schema | None) -> None:
        """Refuse a schema of the other front, and labels whose type says that they are of the other kind."""
        if schema is not None and (schema.target is not None) != self._target:
            raise _other_kind("the label of the schema", self._target)
        if not self._target and kind == "f":
            raise DataError(
                "Unknown label type: continuous. The labels are floating-point numbers, and a class is a whole number, "
                "a text or a boolean.",
                hint='y.astype("Int64"), y.astype(str), or DPForestRegressor',
            )
        if self._target and kind not in "iuf":
            raise DataError("Unknown label type: y must hold numbers.", hint="y.astype(float), or DPForestClassifier")

    def _given(self) -> dict[str, Any]:
        """Return the parameters that have a value."""
        return {name: value for name, value in self._parameters.items() if value is not None}

    def _keep(self, names: Sequence[str] | None, count: int, label_kind: str) -> None:
        """Keep what scikit-learn asks of a fitted estimator."""
        self.n_features_in_ = count
        vars(self).pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _ledger(self) -> FitLedger:
        """Return the ledger of all fits, which begins with the first look at it."""
        if "_fits" not in vars(self):
            self._fits = FitLedger()
        return self._fits

    def _check_fitted(self) -> Model:
        if not hasattr(self, "model_"):
            raise NotFitted(
                f"this {type(self).__name__} is not fitted yet.", hint='fit(X, y) or fit(db, "table") first'
            )
        return self.model_

    def _frame(self, X: Any) -> pd.DataFrame:  # noqa: N803 - scikit-learn's name
        """Return rows to predict as a DataFrame with the columns of the model."""
        model = self._check_fitted()
        if isinstance(X, str):
            raise DataError("predict takes rows, not a table's name.", hint='estimator.model_.predict("table")')
        if "_features" not in vars(self):
            return rows_frame(X, [feature.name for feature in model.schema.features])
        frame = rows_frame(X)
        names, fitted = string_names(X), getattr(self, "feature_names_in_", None)
        if frame.shape[1] != self.n_features_in_ and (names is None or fitted is None):
            raise DataError(
                f"X has {frame.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )
        check_names(names, fitted, type(self).__name__)
        return frame.set_axis(list(self._features), axis="columns")


class DPForestClassifier(ClassifierMixin, _Forest):
    """A private forest with `fit`, `predict`, `predict_proba` and `score`, as a scikit-learn estimator.

    `fit(db, "table")` takes a Database and the name of a registered table: rows stay where they are, and each fit is a
    charged run. `fit(X, y)` takes rows in memory.

    Settings: `epsilon` is what one fit costs in all. `schema` says what is public of X and y, as for
    `Database.register`. Without a schema, `bounds` are those of all columns of numbers, (lower, upper), or of each by
    its name, and `classes` are the labels; what they leave open is bought for the part `buy` of epsilon. `cap` is what
    all fits of the estimator and its clones may cost together. All further keywords are parameters of the method, such
    as `trees`. `schema`, `bounds`, `classes`, `buy` and `cap` are for rows in memory alone.

    Attributes of a fitted one: `model_`, `classes_` (sorted), `n_features_in_`, `feature_names_in_` where X has names,
    `budget_` and `ledger_`.

    >>> X = np.arange(400.0).reshape(-1, 1)
    >>> forest = DPForestClassifier(epsilon=10, bounds=(0, 400), classes=[0, 1]).fit(X, (X[:, 0] > 200).astype(int))
    >>> forest.predict([[3.0], [390.0]])
    array([0, 1])
    >>> forest.budget_.spent_text
    '10'
    """

    _target = False
    _own = ("epsilon", "method", "schema", "bounds", "classes", "buy", "cap")

    def __init__(
        self,
        epsilon: Amount = 1,
        *,
        method: str = methods.DEFAULT,
        schema: SchemaSource | None = None,
        bounds: Bounds | None = None,
        classes: Sequence[object] | None = None,
        buy: Amount | None = None,
        cap: Amount | None = None,
        **parameters: Any,
    ) -> None:
        self.epsilon = epsilon
        self.method = method
        self.schema = schema
        self.bounds = bounds
        self.classes = classes
        self.buy = buy
        self.cap = cap
        self._take(parameters)

    def _keep(self, names: Sequence[str] | None, count: int, label_kind: str) -> None:
        super()._keep(names, count, label_kind)
        values = _class_values(self.model_.classes, label_kind)
        self._order = np.argsort(values)
        self.classes_ = values[self._order]

    def predict(self, X: Rows | ArrayLike) -> NDArray[Any]:  # noqa: N803 - scikit-learn's name
        """Return the label of each row, of the type that the labels in `fit(X, y)` had; after `fit(db, …)` texts."""
        labels = self._check_fitted().labels(self._frame(X))
        numbers = {str(self.model_.classes[place]): number for number, place in enumerate(self._order)}
        return self.classes_[np.array([numbers[label] for label in labels], dtype=np.int64)]

    def predict_proba(self, X: Rows | ArrayLike) -> NDArray[np.float64]:  # noqa: N803 - scikit-learn's name
        """Return each class's probability, a column per class in the order of `classes_`."""
        return self._check_fitted().shares(self._frame(X)).to_numpy()[:, self._order]

    def score(
        self,
        X: Rows | ArrayLike,  # noqa: N803 - scikit-learn's name
        y: ArrayLike | pd.Series,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the accuracy on public rows whose labels you have. It is exact: on private rows it is not private."""
        truth = np.array([str(label) for label in np.asarray(y, dtype=object)], dtype=object)
        right = np.array([str(label) for label in self.predict(X)], dtype=object) == truth
        return float(np.average(right, weights=_weights(sample_weight)))


class DPForestRegressor(RegressorMixin, _Forest):
    """A private forest for a numeric target with `fit`, `predict` and `score`, as a scikit-learn estimator.

    The bounds of the target are public: they stand in the schema, or are given as `target=(lower, upper)`, or are
    bought. Everything else is as with DPForestClassifier.
    """

    _target = True
    _own = ("epsilon", "method", "schema", "bounds", "target", "buy", "cap")

    def __init__(
        self,
        epsilon: Amount = 1,
        *,
        method: str = methods.REGRESSION,
        schema: SchemaSource | None = None,
        bounds: Bounds | None = None,
        target: tuple[float, float] | None = None,
        buy: Amount | None = None,
        cap: Amount | None = None,
        **parameters: Any,
    ) -> None:
        self.epsilon = epsilon
        self.method = method
        self.schema = schema
        self.bounds = bounds
        self.target = target
        self.buy = buy
        self.cap = cap
        self._take(parameters)

    def predict(self, X: Rows | ArrayLike) -> NDArray[np.float64]:  # noqa: N803 - scikit-learn's name
        """Return the number of each row."""
        return self._check_fitted().labels(self._frame(X))

    def score(
        self,
        X: Rows | ArrayLike,  # noqa: N803 - scikit-learn's name
        y: ArrayLike | pd.Series,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return R² on public rows whose targets you have: 1 is perfect, 0 as good as their mean. It is exact."""
        truth = np.asarray(y, float)
        weights = _weights(sample_weight)
        mean = np.average(truth, weights=weights)
        error = np.average((self.predict(X) - truth) ** 2, weights=weights)
        return float(1 - error / np.average((truth - mean) ** 2, weights=weights))


def _weights(sample_weight: ArrayLike | None) -> NDArray[np.float64] | None:
    return None if sample_weight is None else np.asarray(sample_weight, float)


def _class_values(classes: Sequence[str], kind: str) -> NDArray[Any]:
    """Return the texts of classes as values of the type that labels had: whole numbers, booleans, or texts.

    >>> _class_values(("10", "9"), "i"), _class_values(("true", "false"), "b"), _class_values(("a", "b"), "O")
    (array([10,  9]), array([ True, False]), array(['a', 'b'], dtype=object))
    """
    if kind in "iu" and all(text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() for text in classes):
        return np.array([int(text) for text in classes])
    if kind == "b" and set(classes) <= {"true", "false"}:
        return np.array([text == "true" for text in classes])
    return np.array(classes, dtype=object)


def _check_setting(front: type[_Forest], name: str, own: Sequence[str]) -> None:
    """Raise UnknownName for a setting that neither the front nor any method has."""
    known = {*own, *(set(ARGUMENTS) - _NOT_SETTINGS), *methods.PARAMETERS}
    if name not in known:
        raise UnknownName(f"setting of {front.__name__} called", name, known)


def _other_kind(label: str, is_number_wanted: bool) -> UsageError:
    kind, other = ("a class", "Classifier") if is_number_wanted else ("a number", "Regressor")
    return UsageError(f"{label} is {kind}.", hint=f"use DPForest{other}")


def _setting_text(value: object) -> str:
    """Return a setting as it is shown; a long one, such as a schema, is cut."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
