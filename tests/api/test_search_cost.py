"""What a search says it costs is what its ledger shows afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - makes HalvingGridSearchCV importable
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    RepeatedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpsql
from tests.api.test_estimators import SCHEMA, people


def forest(**settings: Any) -> dpsql.DPForestClassifier:
    """Return a small forest on the people of the tests of estimators."""
    return dpsql.DPForestClassifier(schema=SCHEMA, method="rdt", **{"epsilon": 0.5, "trees": 2} | settings)


def test_a_search_costs_what_was_said() -> None:
    """The sum that was foretold is what the ledger of the estimator holds after the search."""
    search = GridSearchCV(forest(), {"depth": [2, 3], "epsilon": [0.5, 1]}, cv=3)
    cost = dpsql.search_cost(search)
    assert (cost.fits, cost.charged_text, cost.lost_text) == (13, "10", "7")
    search.fit(*people(150))
    assert search.estimator.budget_.spent <= cost.charged
    assert search.estimator.budget_.spent == 9 * 10**9 + round(search.best_params_["epsilon"] * 10**9)
    assert "no epsilon covers that" in str(cost)
    assert "13 (4 candidates" in cost._repr_html_()


def test_a_pipeline_is_searched() -> None:
    """The forest is looked for among the steps, and its settings under the name of its step."""
    pipeline = make_pipeline(FunctionTransformer(), forest())
    search = RandomizedSearchCV(pipeline, {"dpforestclassifier__epsilon": [0.1, 0.2]}, n_iter=2, cv=2, refit=False)
    cost = dpsql.search_cost(search)
    assert (cost.fits, cost.charged_text, cost.lost_text) == (4, "0.8", "0.4")
    search.fit(*people(100))
    assert pipeline[-1].budget_.spent_text == "0.6"


def test_a_cap_is_compared_before_the_search() -> None:
    """Where the cap leaves too little, the cost says so before anything is fitted."""
    cost = dpsql.search_cost(GridSearchCV(forest(cap=2), {"depth": [2, 3]}, cv=3))
    assert not cost.does_fit
    assert "NOT enough" in str(cost)
    assert dpsql.search_cost(GridSearchCV(forest(cap=4), {"depth": [2, 3]}, cv=3)).does_fit


def test_a_search_says_its_cost_before_it_starts() -> None:
    """The cost is said while nothing is charged; the search that is returned has charged it."""
    search, heard = GridSearchCV(forest(), {"depth": [2, 3]}, cv=2), list[tuple[str, int]]()
    fitted = dpsql.fit_search(
        search, *people(100), say=lambda text: heard.append((text, search.estimator.budget_.spent))
    )
    assert fitted is search
    assert heard == [(str(dpsql.search_cost(search)), 0)]
    assert search.estimator.budget_.spent_text == "2.5"


def test_a_search_beyond_the_cap_is_refused_before_its_first_fit() -> None:
    """Nothing is said, fitted or charged; a single estimator is no search."""
    search = GridSearchCV(forest(cap=2), {"depth": [2, 3]}, cv=3)
    with pytest.raises(dpsql.BudgetExceeded) as caught:
        dpsql.fit_search(search, *people(100), say=pytest.fail)
    assert (caught.value.needed, caught.value.left, caught.value.cap) == ("3.5", "2", "2")
    assert search.estimator.budget_.spent == 0
    with pytest.raises(dpsql.UsageError, match="not a search"):
        dpsql.fit_search(forest(), *people(100))


def test_cross_validation_is_one_candidate() -> None:
    """An estimator by itself is what `cross_val_score` fits, once a fold; where tests overlap no fold is left out."""
    front = forest()
    assert dpsql.search_cost(front, cv=4).lost_text == "1.5"
    assert dpsql.search_cost(front, cv=RepeatedKFold(n_splits=2, n_repeats=2)).lost_text == "2"
    cross_val_score(front, *people(100), cv=4)
    assert front.budget_.spent_text == "2"


def test_searches_of_unknown_length_are_refused() -> None:
    """What fits an unknown number of times, or has no private forest in it, has no cost that could be said."""
    from sklearn.tree import DecisionTreeClassifier

    halving = HalvingGridSearchCV(forest(), {"depth": [2, 3]})
    with pytest.raises(dpsql.UsageError, match="search must be"):
        dpsql.search_cost(halving)
    with pytest.raises(dpsql.UsageError, match="needs one DPForest"):
        dpsql.search_cost(GridSearchCV(DecisionTreeClassifier(), {}))
    with pytest.raises(dpsql.UsageError, match="list of values"):
        dpsql.search_cost(RandomizedSearchCV(forest(), {"epsilon": range}))
