"""`train(monotone=…)`: the stored model keeps its word and says so; what cannot be had is refused before a charge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sqlglot import exp

import dpsql
from dpsql.api.database import Database
from dpsql.errors import DpsqlError
from dpsql.models.monotone_request import monotone_note

TWO = dpsql.Schema("y", ("no", "yes"), (dpsql.Numeric("age", 0, 64), dpsql.Categorical("c", ("a", "b"))))


@pytest.fixture
def database() -> Iterator[Database]:
    """Make a private table whose label is yes for the young and the old."""
    generator = np.random.default_rng(4)
    age = generator.uniform(0, 64, 3000)
    yes = (np.abs(age - 32) > 16) ^ (generator.random(3000) < 0.1)
    rows = pd.DataFrame({"age": age, "c": generator.choice(["a", "b"], 3000), "y": np.where(yes, "yes", "no")})
    with dpsql.connect(":memory:") as opened:
        opened.engine.create("t", exp.select("*").from_("given"), {"given": rows})
        opened.register("t", TWO, cap=8)
        yield opened


@pytest.mark.parametrize(("method", "asked"), [("auto", {"age": "up"}), ("rdt", "age=down"), ("fs", "age=up")])
def test_the_stored_model_is_monotone(database: Database, method: str, asked: Any) -> None:
    """Its probabilities never go the wrong way, as its certificate says, also when it is loaded or imported."""
    small = {"trees": 5, "depth": 4} if method == "rdt" else {}
    model = database.train("t", method=method, epsilon=2, monotone=asked, **small)
    sign = 1 if "up" in str(asked) else -1
    ages = pd.DataFrame({"age": np.arange(64.0), "c": "a"})
    for each in (model, database.model(model.name), type(model).from_json(model.to_json())):
        assert (sign * np.diff(each.predict_proba(ages)["yes"]) >= 0).all()
        assert each.certificate["monotone"] == {"age": "up" if sign > 0 else "down"}
    says = "falls" if sign > 0 else "rises"
    assert monotone_note(TWO, model.certificate) == f"the probability of yes never {says} as age grows, all else equal"
    free = database.train("t", method=method, epsilon=2, **small)
    assert (sign * np.diff(free.predict_proba(ages)["yes"]) < 0).any()
    assert "monotone" not in free.certificate


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("c=up", "categories have no order"),
        ("agee=up", "age"),
        ("age=sideways", "FEATURE=up"),
        ("age", "FEATURE=up"),
        ({}, "FEATURE=up"),
        (3, "FEATURE=up"),
    ],
)
def test_what_cannot_be_had_costs_nothing(database: Database, asked: object, says: str) -> None:
    """A category, an unknown feature and other words are refused before anything is charged."""
    with pytest.raises(DpsqlError) as refused:
        database.train("t", monotone=asked)
    assert says in str(refused.value) + str(refused.value.hint)
    assert database.budget("t").spent_text == "0"


def test_trees_of_too_many_leaves_are_refused(database: Database) -> None:
    """Where a tree may have more leaves than can be compared, nothing is charged."""
    with pytest.raises(DpsqlError, match="leaves a tree"):
        database.train("t", method="snr", monotone="age=up")
    assert database.budget("t").spent_text == "0"


def test_three_classes_are_refused(database: Database) -> None:
    """With more than two classes nobody could say which is to gain."""
    three = dpsql.Schema("y", ("no", "yes", "maybe"), TWO.features)
    database.register("t", three, cap=8, replace=True)
    with pytest.raises(DpsqlError, match="more than one may gain"):
        database.train("t", monotone="age=up")
    assert database.budget("t").spent_text == "0"
