"""The base classes of the scikit-learn style fronts: scikit-learn's own where it is installed, else plain ones.

scikit-learn is optional. With it the fronts have its tags, its clones and its display in notebooks, and the error for a
front that is not fitted is a `NotFittedError` too. Without it they work the same way, outside its model selection.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from dpsql.errors import UsageError

#: Whether scikit-learn is installed.
HAS_SKLEARN = importlib.util.find_spec("sklearn") is not None

if HAS_SKLEARN and not TYPE_CHECKING:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import DataConversionWarning, NotFittedError
else:

    class BaseEstimator:
        """Stands for scikit-learn's base class of estimators where it is not installed."""

        def __sklearn_clone__(self) -> Any:
            """Return a new front with the same settings."""
            return type(self)(**self.get_params(deep=False))

        def __sklearn_tags__(self) -> Any:
            """Return nothing: only scikit-learn asks for tags."""

        def __getstate__(self) -> dict[str, Any]:
            """Return what a pickle holds."""
            return dict(vars(self))

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the settings."""
            return {}

    class ClassifierMixin:
        """Stands for scikit-learn's mark of a classifier."""

    class RegressorMixin:
        """Stands for scikit-learn's mark of a regressor."""

    class DataConversionWarning(UserWarning):
        """Stands for scikit-learn's warning that rows were taken in another shape than they came in."""

    class NotFittedError(ValueError, AttributeError):
        """Stands for scikit-learn's error of an estimator that is not fitted."""


class NotFitted(UsageError, NotFittedError):
    """A front was asked to predict before `fit`."""
