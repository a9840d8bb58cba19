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
from dpsql.errors import ParameterError, SchemaError, UnknownName, UsageError
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
}
UNKNOWN = {"no known label": rows(10, 4, [None, "??"]), "no label at all": rows(5, 4, [None]), "no rows": []}


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


@pytest.mark.parametrize("table", UNKNOWN.values(), ids=UNKNOWN)
def test_rows_without_a_known_class_are_an_error_with_both_lists(
    database: Database, model: Model, table: list[Row]
) -> None:
    """The rows are public: the error says which labels they have, which classes the model has, and how to map them."""
    fill(database.engine, "test", table)
    for data in ("test", frame_of(table)):
        with pytest.raises(SchemaError) as caught:
            database.evaluate(model, data)
        here = "labels here: ??;" if any(row[3] for row in table) else "no row has a label;"
        assert here in str(caught.value)
        assert "the model's classes: no, yes, maybe" in str(caught.value)
        assert ("CASE y WHEN '??' THEN 'no' … END" if "??" in here else "is known") in str(caught.value.hint)


def test_many_labels_are_cut_short(database: Database, model: Model) -> None:
    """An error shows ten labels at most."""
    fill(database.engine, "test", [(k, 1.0, "a", f"label {k:02}") for k in range(30)])
    with pytest.raises(SchemaError) as caught:
        database.evaluate(model, "test")
    assert "label 09, …;" in str(caught.value)
    assert "label 10" not in str(caught.value)


def test_curves_of_a_table_are_those_of_scikit_learn(database: Database) -> None:
    """Recall, precision and the share of false alarms at each threshold equal the library's, in SQL and in memory."""
    oracle = pytest.importorskip("sklearn.metrics")
    model = database.add(model_of(MODELS["log-scores"](2), replace(SCHEMA, classes=("no", "yes")), "with a curve"))
    table = rows(200, 11, ["no", "yes"])
    fill(database.engine, "test", table)
    frame = frame_of(table)
    truth, shares = (frame["y"] == "yes").to_numpy(int), model.predict_proba(frame)["yes"].to_numpy()
    for points in (database.evaluate(model, "test").curve, database.evaluate(model, frame).curve):
        assert points["threshold"].is_monotonic_increasing
        for point in points.to_dict("records"):
            named = (shares >= point["threshold"]).astype(int)
            assert point["named"] == pytest.approx(named.mean())
            assert point["recall"] == pytest.approx(oracle.recall_score(truth, named))
            assert point["precision"] == pytest.approx(oracle.precision_score(truth, named))
            assert point["lift"] == pytest.approx(point["precision"] / truth.mean())
            assert point["false_positive_rate"] == pytest.approx(named[truth == 0].mean())
    found = database.evaluate(model, "test")
    assert found.class_precision["yes"] == pytest.approx(oracle.precision_score(truth, (shares > 0.5).astype(int)))
    assert found.class_recall["no"] == pytest.approx(
        oracle.recall_score(truth, (shares > 0.5).astype(int), pos_label=0)
    )


def test_more_classes_have_a_curve_each(database: Database, model: Model) -> None:
    """Each class against the rest; no threshold for a cost, but a word on what to do instead."""
    fill(database.engine, "test", CASES["all classes"])
    found = database.evaluate(model, "test")
    assert list(found.curve["class"].unique()) == list(SCHEMA.classes)
    with pytest.raises(UsageError, match="for two classes") as caught:
        found.cheapest({"yes": 5})
    assert "class_weight" in str(caught.value.hint)


@pytest.mark.parametrize("costs", [{"yes": 5}, {"no": 3.5, "yes": 0.5}, {"yes": 0}, {"no": 0}, {}])
def test_the_cheapest_threshold_is_found_by_trying_all(database: Database, costs: dict[str, float]) -> None:
    """No threshold costs less, and predicting with it costs as much as was said."""
    schema = replace(SCHEMA, classes=("no", "yes"))
    known = "for a cost" in database.models()["name"].tolist()
    model = database.model("for a cost") if known else database.add(model_of(MODELS["votes"](2), schema, "for a cost"))
    table = rows(200, 12, ["no", "yes"])
    fill(database.engine, "test", table)
    if not costs:
        with pytest.raises(ParameterError, match="one or more classes"):
            database.evaluate(model, "test").cheapest(costs)
        return
    found, frame = database.evaluate(model, "test").cheapest(costs), frame_of(table)
    weights = {"no": 1.0, "yes": 1.0} | costs

    def cost(labels: list[str]) -> float:
        return sum(weights[true] for true, named in zip(frame["y"], labels, strict=True) if true != named) / len(frame)

    thresholds = [step / 50 for step in range(51)]
    tried = [cost(model.predict(frame, threshold={"yes": least}).tolist()) for least in thresholds]
    assert found.cost.value <= min(tried) + 1e-12
    assert found.usual.value == pytest.approx(cost(model.predict(frame).tolist()))
    assert found.always.value == pytest.approx(cost(["yes"] * len(frame)))
    assert found.never.value == pytest.approx(cost(["no"] * len(frame)))
    if found.threshold <= 1:
        labels = model.predict("test", threshold={"yes": found.threshold})["prediction"].tolist()
        assert found.cost.value == pytest.approx(
            cost(model.predict(frame, threshold={"yes": found.threshold}).tolist())
        )
        assert sorted(labels) == sorted(model.predict(frame, threshold={"yes": found.threshold}).tolist())


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
    if not any(row[3] in schema.classes for row in table):
        table = [*table, (-1, 5.0, "a", "no")]
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
