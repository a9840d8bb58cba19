"""Comparing models: the same rows for all, free or for one epsilon in all, refused before anything is charged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dpsql.api.database import Database
from dpsql.errors import BudgetError, BudgetExceeded, ChargeTooSmall, ParameterError, UnknownName, UsageError
from dpsql.runs.compare import Comparison
from tests.runs.test_private_evaluation import TWO, scorer
from tests.tables import SCHEMA, SMALL, TARGET, fill, frame_of, memory, model_of, small_forest, some_rows, voting

ROWS = some_rows(400)


@pytest.fixture
def db() -> Iterator[Database]:
    """Open a database with the private table "people", a cap of 10, public rows "fresh" and the models "m" and "n"."""
    with memory(ROWS, schema=TWO, cap=10) as opened:
        opened.add(scorer(TWO))
        opened.add(model_of(voting(small_forest(TWO, depth=3), 2, seed=8), TWO, "n"))
        fill(opened.engine, "fresh", some_rows(60))
        yield opened


def test_a_comparison_is_the_evaluations_of_its_models(db: Database) -> None:
    """On public rows it is free, and its figures are those of each model evaluated by itself."""
    comparison = db.compare(["m", "n"], "fresh")
    for name, evaluation in zip(["m", "n"], comparison.evaluations, strict=True):
        assert evaluation.to_dict() == db.evaluate(name, "fresh").to_dict()
    assert comparison.frame["model"].tolist() == ["m", "n"]
    assert comparison.frame["auc"].tolist() == [one.auc for one in comparison.evaluations]
    assert db.budget("people").spent_text == "0"
    in_memory = db.compare([db.model("m"), db.model("n")], frame_of(some_rows(60)))
    assert in_memory.frame["accuracy"].tolist() == comparison.frame["accuracy"].tolist()
    assert json.loads(json.dumps(comparison.to_dict())) == comparison.to_dict()


def test_the_best_is_named_by_each_figure(db: Database) -> None:
    """More accuracy is better, less log loss is; on public rows one model leads, or several that are level."""
    comparison = db.compare(["m", "n"], "fresh")
    first, second = comparison.evaluations
    for name, sign in (("accuracy", 1), ("log_loss", -1)):
        better = sign * (getattr(first, name) - getattr(second, name))
        assert comparison.leaders(name) == (("m",) if better > 0 else ("n",) if better < 0 else ("m", "n"))


def test_intervals_that_meet_are_too_near_to_tell() -> None:
    """On private rows a model is behind only where its interval and that of the best have nothing in common."""
    with memory(ROWS, schema=TWO, cap=10) as db:
        first = db.evaluate(db.add(scorer(TWO)), frame_of(ROWS))

    def measured(model: str, accuracy: float, reach: float) -> object:
        return replace(
            first, model=model, accuracy=accuracy, intervals={"accuracy": (accuracy - reach, accuracy + reach)}
        )

    near = Comparison("t", (measured("a", 0.7, 0.06), measured("b", 0.8, 0.05), measured("c", 0.6, 0.01)), "1")  # type: ignore[arg-type]
    assert near.leaders("accuracy") == ("b", "a")


def test_epsilon_is_what_all_models_cost_together(db: Database) -> None:
    """Two models share epsilon evenly; asked again under the same id, the figures are the same, for nothing."""
    comparison = db.compare(["m", "n"], "people", epsilon=1, request_id="r")
    assert db.budget("people").spent_text == "1"
    assert [one.epsilon for one in comparison.evaluations] == ["0.5", "0.5"]  # type: ignore[union-attr]
    assert comparison.epsilon == "1"
    assert {"accuracy_low", "auc_high"} <= set(comparison.frame.columns)
    again = db.compare(["m", "n"], "people", epsilon=1, request_id="r")
    assert again.to_dict() == comparison.to_dict()
    assert db.budget("people").spent_text == "1"


def test_a_share_is_rounded_down(db: Database) -> None:
    """Three models never cost more than was said: 0.333333333 each."""
    db.add(scorer(TWO, "o"))
    plan, payer = db.plan_comparison(["m", "n", "o"], "people", epsilon=1)
    assert (plan.nano_epsilon, payer, [step.name for step in plan.steps]) == (999999999, "people", ["m", "n", "o"])
    assert db.budget("people").spent_text == "0"
    assert db.compare(["m", "n", "o"], "people", epsilon=1).epsilon == "0.999999999"
    assert db.budget("people").spent_text == "0.999999999"


@pytest.mark.parametrize(
    ("models", "epsilon", "kind"),
    [
        (["m"], 1, ParameterError),
        (["m", "m"], 1, ParameterError),
        ([], 1, ParameterError),
        ("m", 1, ParameterError),
        (["m", "nn"], 1, UnknownName),
        (["m", "n"], 11, BudgetExceeded),
        (["m", "n"], 0.001, ChargeTooSmall),
        (["m", "n"], None, BudgetError),
        (["m", "number"], 1, UsageError),
        (["m", "three"], 1, UsageError),
    ],
)
def test_what_one_model_is_refused_for_is_charged_for_none(
    db: Database, models: list[str], epsilon: object, kind: type[Exception]
) -> None:
    """Too few models, an unknown one, too little budget, one that does not fit: an error, and nothing is spent."""
    db.add(model_of(voting(small_forest(TARGET), 2), TARGET, "number"))
    db.add(scorer(SCHEMA, "three"))
    with pytest.raises(kind):
        db.compare(models, "people", epsilon=epsilon)
    assert db.budget("people").spent_text == "0"


def test_all_are_measured_on_the_hold_out_if_one_was_trained_on_the_table() -> None:
    """A model from elsewhere is not measured on the rows that another one learned from: the hold-out pays for both."""
    with memory(ROWS, schema=TWO, cap=None) as db:
        db.register("people", TWO, cap=10, holdout="40%", replace=True)
        trained = db.train("people", epsilon=1, method="rosnam", name="own", **SMALL)
        db.add(scorer(TWO))
        comparison = db.compare(["m", trained], "people", epsilon=2)
        assert comparison.table == "people:holdout"
        assert {one.table for one in comparison.evaluations} == {"people:holdout"}
        assert (db.budget("people").spent_text, db.budget("people:holdout").spent_text) == ("1", "2")
