"""How good a model is likely to be: from its own released counts, and what it would cost to know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlglot import exp

from dpsql.api import census
from dpsql.api.database import Database, connect
from dpsql.kernel.datasets.dataset import look_at_dataset
from dpsql.models.usable_model import Model
from dpsql.runs.likely_quality import EvaluationOffer, _reach, offer_evaluation, own_accuracy
from dpsql.trees.score_grid import LOWER, POINTS
from tests.tables import SCHEMA, TARGET, memory, model_of, small_forest, voting

TWO = replace(SCHEMA, classes=("no", "yes"))


def counted(counts: np.ndarray[Any, Any], classes: int = 2, **facts: Any) -> Model:
    """Return a model whose last step released these counts, with noise of standard deviation 10 on each."""
    schema = replace(SCHEMA, classes=SCHEMA.classes[:classes])
    model = model_of(voting(small_forest(schema), classes), schema)
    told = {"calibration": {"counts": counts.tolist(), "deviation": 10.0}, **facts}
    return replace(model, certificate={**model.certificate, "facts": told})


def test_two_classes_are_right_on_both_sides() -> None:
    """A first class below 1/2 and a second one above are right: 900 + 700 of 2000."""
    counts = np.zeros((2, len(POINTS)))
    counts[0, 3], counts[0, 20], counts[1, len(LOWER)], counts[1, 2] = 900, 150, 700, 250
    accuracy = own_accuracy(counted(counts))
    assert accuracy is not None
    assert accuracy.value == pytest.approx(0.8)
    assert 0.7 < accuracy.low < 0.8 < accuracy.high < 0.9


def test_of_more_classes_the_second_row_is_right() -> None:
    """There the counts are of rows that the model names wrong, and of those that it names right."""
    counts = np.zeros((2, len(POINTS)))
    counts[0, 15], counts[1, 20] = 500, 1500
    accuracy = own_accuracy(counted(counts, 3))
    assert accuracy is not None
    assert accuracy.value == pytest.approx(0.75)


def test_counts_that_say_little_say_nothing() -> None:
    """Too few rows for the noise, other labels since, or no such counts at all: nothing is said."""
    few, many = (np.full((2, len(POINTS)), rows) for rows in (3.0, 100.0))
    assert own_accuracy(counted(few)) is None
    assert own_accuracy(counted(many)) is not None
    assert own_accuracy(counted(many, objective="balanced")) is None
    assert own_accuracy(model_of(voting(small_forest(), 3), SCHEMA)) is None


@pytest.mark.parametrize("classes", [2, 3, 12])
def test_the_reach_is_that_of_a_charged_evaluation(classes: int) -> None:
    """What is foretold of the accuracy's interval is what an evaluation then has, within a fifth."""
    names = tuple(f"class {number}" for number in range(classes))
    schema = replace(SCHEMA, classes=names)
    chance = np.random.default_rng(classes)
    rows = [(k, float(chance.uniform(0, 64)), "a", names[chance.integers(classes)]) for k in range(4000)]
    with memory(rows, schema=schema, cap=100) as db:
        model = db.add(model_of(replace(voting(small_forest(schema, depth=3), classes, seed=2), nat=0), schema, "m"))
        evaluation = db.evaluate(model, "people", epsilon=2)
    low, high = evaluation.intervals["accuracy"]
    assert (high - low) / 2 == pytest.approx(_reach(4000, evaluation.accuracy, classes, 2.0), rel=0.2)


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    """Open a database with the demo's census in a table with a hold-out and one without."""
    with connect(":memory:", who="ann") as opened:
        for name, more in (("kept", {"cap": 3, "holdout": "20%"}), ("whole", {"cap": 9})):
            opened.engine.create(name, exp.select("*").from_("batch"), {"batch": census.rows(4000, 3)})
            opened.register(name, census.SCHEMA, **more)
        yield opened


def offer(db: Database, model: Model, table: str) -> EvaluationOffer | None:
    """Return what is offered to ann."""
    return offer_evaluation(db.book, model, look_at_dataset(db.engine, db.book, table), who="ann")


def test_an_offer_names_who_pays_and_what_it_tells(db: Database) -> None:
    """With a hold-out that one pays; the interval of the evaluation is about as wide as was said."""
    model = db.train("kept", epsilon=1, name="kept")
    offered = offer(db, model, "kept")
    assert offered is not None
    assert (offered.table, offered.left, offered.is_hold_out) == ("kept:holdout", "3", True)
    evaluation = db.evaluate(model, "kept", epsilon=offered.epsilon)
    low, high = evaluation.intervals["accuracy"]
    assert offered.reach is not None
    assert (high - low) / 2 == pytest.approx(offered.reach, rel=0.35)


def test_without_a_hold_out_the_table_itself_is_offered(db: Database) -> None:
    """The rows are those that the model learned from, and the offer says so; a spent budget offers nothing."""
    model = db.train("whole", epsilon=8, name="whole")
    offered = offer(db, model, "whole")
    assert offered is not None
    assert (offered.table, offered.left, offered.is_hold_out) == ("whole", "1", False)
    own = own_accuracy(model)
    assert own is not None
    assert own.low <= own.value <= own.high
    json.dumps(model.certificate["facts"]["calibration"])
    db.set_cap("whole", 8)
    assert offer(db, model, "whole") is None


def test_models_of_numbers_are_offered_nothing() -> None:
    """They are not measured on private rows."""
    with memory(schema=SCHEMA) as db:
        assert offer(db, model_of(voting(small_forest(TARGET), 2), TARGET), "people") is None


def test_own_counts_hold_the_accuracy_on_the_training_rows(db: Database) -> None:
    """The interval holds the share of the model's own rows that it labels right, in most of 12 runs."""
    frame = census.rows(4000, 3)
    with connect(":memory:", who="ann") as other:
        other.engine.create("people", exp.select("*").from_("batch"), {"batch": frame})
        other.register("people", census.SCHEMA, cap=100)
        held = 0
        for _ in range(12):
            model = other.train("people", epsilon=8)
            own = own_accuracy(model)
            held += own is not None and own.low <= other.evaluate(model, frame).accuracy <= own.high
    assert held >= 9
