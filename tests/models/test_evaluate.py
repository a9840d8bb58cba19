"""Evaluating: figures equal a plain computation; rows without a known label do not count."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pandas as pd
import pytest

from dpsql.api.database import Database
from dpsql.errors import UnknownName
from dpsql.models.usable_model import Model
from tests.tables import SCHEMA, TYPES, Row, fill, frame_of, memory, model_of, plain, run, small_forest, voting


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """Open a database with a registered, empty, private table."""
    with memory() as opened:
        yield opened


@pytest.fixture(scope="module")
def model(database: Database) -> Model:
    """Return a model on the shelf."""
    return database.add(model_of(voting(small_forest(depth=3), 3, seed=5), SCHEMA, "model"))


def rows(count: int, seed: int, labels: list[str | None]) -> list[Row]:
    """Return random rows with random labels."""
    chance = Random(seed)
    numbers = [None, float("nan"), 5.0, 20.0, 40.0, 63.0, 1e9]
    return [
        (k, chance.choice(numbers), chance.choice(["a", "b", "?", None]), chance.choice(labels)) for k in range(count)
    ]


def by_hand(model: Model, table: list[Row]) -> tuple[int, float, float, dict[str, dict[str, int]]]:
    """Return rows, accuracy, the largest class's share and the confusion, one row at a time."""
    confusion = {true: dict.fromkeys(SCHEMA.classes, 0) for true in SCHEMA.classes}
    for row in table:
        if row[3] in SCHEMA.classes:
            confusion[str(row[3])][model.labels(frame_of([row]))[0]] += 1
    count = sum(sum(inner.values()) for inner in confusion.values())
    right = sum(confusion[name][name] for name in SCHEMA.classes)
    largest = max(sum(inner.values()) for inner in confusion.values())
    return count, right / max(count, 1), largest / max(count, 1), confusion


CASES: dict[str, list[Row]] = {
    "all classes": rows(60, 1, ["no", "yes", "maybe"]),
    "one class": rows(20, 2, ["maybe"]),
    "NULL and unknown labels": rows(60, 3, ["no", "yes", None, "No", "", "never heard of"]),
    "no known label": rows(10, 4, [None, "??"]),
    "no rows": [],
}


@pytest.mark.parametrize("table", CASES.values(), ids=CASES)
def test_a_table_is_measured_as_by_hand(database: Database, model: Model, table: list[Row]) -> None:
    """Rows, accuracy, largest class and confusion of a table are those of a plain computation."""
    fill(database.engine, "test", table)
    found = database.evaluate("model", "test").to_dict()
    expected = by_hand(model, table)
    assert (found["rows"], found["accuracy"], found["majority_class_share"], found["confusion"]) == expected


@pytest.mark.parametrize("table", CASES.values(), ids=CASES)
def test_a_frame_is_measured_as_by_hand(database: Database, model: Model, table: list[Row]) -> None:
    """The same figures come from a DataFrame."""
    found = database.evaluate(model, frame_of(table)).to_dict()
    expected = by_hand(model, table)
    assert (found["rows"], found["accuracy"], found["majority_class_share"], found["confusion"]) == expected


def test_missing_labels_of_all_kinds_do_not_count(database: Database, model: Model) -> None:
    """NaN, NA and None labels are left out, in object and in extension columns."""
    frame = pd.DataFrame({"x": [1.0] * 4, "c": ["a"] * 4, "y": ["no", None, float("nan"), pd.NA]})
    assert database.evaluate(model, frame).rows == 1
    assert database.evaluate(model, frame.astype({"y": "string"})).rows == 1


def test_the_figures_are_plain_values(database: Database, model: Model) -> None:
    """The dictionary survives JSON."""
    found = database.evaluate(model, frame_of(CASES["all classes"]))
    assert plain(json.dumps(found.to_dict())) == found.to_dict()
    assert f"on {found.rows} rows" in str(found)


def test_a_missing_label_offers_near_names(database: Database, model: Model) -> None:
    """A table or DataFrame without the label is refused with its columns."""
    run(database.engine, "CREATE OR REPLACE TABLE unlabelled (x DOUBLE, c VARCHAR, yy VARCHAR)")
    for data in ("unlabelled", pd.DataFrame({"x": [1.0], "c": ["a"], "yy": ["no"]})):
        with pytest.raises(UnknownName) as caught:
            database.evaluate(model, data)
        assert "yy" in caught.value.known


def test_an_unknown_model_offers_near_names(database: Database, model: Model) -> None:
    """A misspelled model is refused with the one that was meant."""
    with pytest.raises(UnknownName) as caught:
        database.evaluate("modle", "test")
    assert caught.value.nearest == [model.name]


@pytest.mark.parametrize("kind", ["INTEGER", "BOOLEAN"])
def test_labels_that_are_no_text_are_compared_as_text(database: Database, kind: str) -> None:
    """Whole numbers and booleans in the label column match the classes that spell them."""
    from dpsql.schema import Numeric, Schema

    schema = Schema("y", ("0", "1") if kind == "INTEGER" else ("false", "true"), (Numeric("x", 0, 8),))
    model = database.add(model_of(voting(small_forest(schema), 2), schema, f"model of {kind}"))
    columns = f"CAST(i AS DOUBLE) AS x, CAST(i % 2 AS {kind}) AS y"
    run(database.engine, f"CREATE OR REPLACE TABLE plain AS SELECT {columns} FROM range(8) r(i)")
    assert database.evaluate(model, "plain").rows == 8
    values = [0.0, 1.0, float("nan")] if kind == "INTEGER" else [False, True, None]
    assert database.evaluate(model, pd.DataFrame({"x": [1.0] * 3, "y": values})).rows == 2


MODELS = {
    "votes": lambda classes: voting(small_forest(), classes, seed=5, most=9),
    "log-scores": lambda classes: replace(voting(small_forest(), classes, seed=5, most=900), nat=300),
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("table", CASES.values(), ids=CASES)
def test_a_table_and_a_frame_give_the_same_figures(
    database: Database, table: list[Row], kind: str, classes: int
) -> None:
    """Every figure comes out of SQL as out of memory, for votes and log-scores, two classes and more."""
    schema = replace(SCHEMA, classes=SCHEMA.classes[:classes])
    name = f"{kind} {classes}"
    known = name in database.models()["name"].tolist()
    model = database.model(name) if known else database.add(model_of(MODELS[kind](classes), schema, name))
    fill(database.engine, "test", table)
    here, there = database.evaluate(model, frame_of(table)).to_dict(), database.evaluate(model, "test").to_dict()
    assert here.pop("table") != there.pop("table")
    assert flat(there) == pytest.approx(flat(here), abs=1e-9)
    json.dumps(there, allow_nan=False)


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Return nested figures as one dictionary; None, where a figure has no value, is a text."""
    if isinstance(value, dict):
        return {key: one for inner in value for key, one in flat(value[inner], f"{name}.{inner}").items()}
    if isinstance(value, list):
        return flat(dict(enumerate(value)), name)
    return {name: -1.0 if value is None else value} if not isinstance(value, str) else {}


def test_figures_are_those_of_scikit_learn(database: Database) -> None:
    """AUC, F1, log loss and Brier score of a table, computed in the database, equal the library's."""
    oracle = pytest.importorskip("sklearn.metrics")
    schema = replace(SCHEMA, classes=("no", "yes"))
    model = database.add(model_of(MODELS["log-scores"](2), schema, "against the library"))
    table = rows(300, 8, ["no", "yes"])
    fill(database.engine, "test", table)
    found = database.evaluate(model, "test")
    frame = frame_of(table)
    truth, shares = (frame["y"] == "yes").to_numpy(int), model.predict_proba(frame)["yes"].to_numpy()
    labels = (model.labels(frame) == "yes").astype(int)
    assert found.auc == pytest.approx(oracle.roc_auc_score(truth, shares))
    assert found.log_loss == pytest.approx(oracle.log_loss(truth, shares))
    assert found.brier == pytest.approx(oracle.brier_score_loss(truth, shares))
    assert found.f1 == pytest.approx(oracle.f1_score(truth, labels, average="macro"))
    assert found.class_f1["yes"] == pytest.approx(oracle.f1_score(truth, labels))
    assert found.balanced_accuracy == pytest.approx(oracle.balanced_accuracy_score(truth, labels))


def test_columns_may_be_named_like_probabilities(database: Database) -> None:
    """A label that is called like a column of the statement changes no figure."""
    for label in ("p_no", "p_0", "truth", "rows", "what"):
        schema = replace(SCHEMA, label=label)
        model = database.add(model_of(voting(small_forest(), 3), schema, f"model of {label}"))
        columns = {(label if name == "y" else name): kind for name, kind in TYPES.items()}
        fill(database.engine, "test", CASES["all classes"], columns)
        frame = frame_of(CASES["all classes"]).rename(columns={"y": label})
        here, there = database.evaluate(model, frame).to_dict(), database.evaluate(model, "test").to_dict()
        assert flat(here) == pytest.approx(flat(there), abs=1e-9)
