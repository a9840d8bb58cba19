"""scikit-learn's own checks of estimators, run on both fronts; what fails is listed with its reason.

They fit rows without a schema, so the fronts buy their domains, and at a large epsilon, so that noise does not decide
whether a check passes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

import dpsql

#: Checks that fail with both fronts: name -> the reason. The how-to page on scikit-learn has the same list.
EXPECTED = {
    "check_do_not_raise_errors_in_init_or_set_params": "an unknown setting is refused at once, with the nearest names",
    "check_fit2d_1sample": "how many rows there are is private: no error says that there is one",
}
#: Those of one front alone.
OF_CLASSIFIERS = {"check_classifiers_classes": "classes that nobody declares are bought among common words alone"}
OF_REGRESSORS = {"check_supervised_y_no_nan": "whether a target is missing or infinite is private: it is clamped"}
#: Checks that compare two fits, or ask for accuracy on 200 rows: chance decides whether they pass.
CHANCE = {
    "check_fit_idempotent": "each fit draws fresh noise and fresh trees",
    "check_supervised_y_2d": "each fit draws fresh noise and fresh trees",
    "check_classifier_data_not_an_array": "each fit draws fresh noise and fresh trees",
    "check_regressor_data_not_an_array": "each fit draws fresh noise and fresh trees",
    "check_regressors_int": "each fit draws fresh noise and fresh trees",
    "check_regressors_train": "random trees explain half of the variance of 200 rows or less",
    "check_classifiers_train": "the accuracy on 300 rows hangs on the trees that were drawn",
}


def fronts() -> list[tuple[Any, dict[str, str]]]:
    """Return both fronts with the checks that they fail."""
    settings: dict[str, Any] = {"epsilon": 1000, "buy": 400, "allow_large": True}
    regressor = dpsql.DPForestRegressor(**settings)
    return [(dpsql.DPForestClassifier(**settings), EXPECTED | OF_CLASSIFIERS), (regressor, EXPECTED | OF_REGRESSORS)]


def checks() -> Iterator[Any]:
    """Yield each front with each of its checks."""
    for front, failing in fronts():
        for number, (estimator, check) in enumerate(estimator_checks_generator(front, mark=None)):
            name = getattr(check, "func", check).__name__
            yield pytest.param(estimator, check, failing, id=f"{type(front).__name__}-{name}-{number}")


@pytest.mark.parametrize(("front", "check", "failing"), list(checks()))
def test_a_front_passes_a_check(front: Any, check: Callable[[Any], None], failing: dict[str, str]) -> None:
    """Each check of scikit-learn passes, or fails for the reason that is listed for it."""
    name = getattr(check, "func", check).__name__  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks fit rows that make some methods warn
        if name in failing:
            with pytest.raises((dpsql.DpsqlError, AssertionError, TypeError)):
                check(front)
        else:
            with suppress(*[AssertionError] * (name in CHANCE)):
                check(front)


def test_the_page_lists_every_exception() -> None:
    """The how-to page names each check that fails or that chance decides."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "scikit-learn.md").read_text(encoding="utf-8")
    assert [name for name in EXPECTED | OF_CLASSIFIERS | OF_REGRESSORS | CHANCE if f"`{name}`" not in page] == []
