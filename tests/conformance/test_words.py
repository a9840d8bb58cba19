"""A BOOLEAN column, a column of codes and a column of words are the same to everything that reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sqlglot import exp

from dpsql import merge
from dpsql.api.database import Database, connect
from dpsql.errors import SchemaError
from dpsql.kernel.datasets.dataset import find_dataset, source
from dpsql.kernel.datasets.row_conditions import row_test
from dpsql.schema import Schema
from dpsql.trees.grid import feature_cells
from tests.conformance.tables import put
from tests.rows import Table
from tests.servers import OPEN_EMPTY

#: What words, booleans and codes are declared as.
DECLARED: dict[str, Any] = {
    "label": "churn",
    "classes": {"false": "no", "true": "yes"},
    "features": {
        "married": {"type": "categorical", "values": {"false": "no", "true": "yes"}, "null": "no"},
        "sex": {"type": "categorical", "values": {1: "male", 2: "female"}},
        "age": {"type": "numeric", "lower": 0, "upper": 64},
    },
}
#: Noise of this epsilon is 0 but for one run in e^500.
ASKED: dict[str, Any] = {"method": "rdt", "epsilon": 2000, "trees": 2, "depth": 3, "seed": 3}
ROWS = 120


def columns() -> dict[str, list[Any]]:
    """Return rows as booleans and codes, some of them NULL or unknown."""
    chance = np.random.default_rng(7)
    married = [None if number % 11 == 0 else bool(chance.random() < 0.4) for number in range(ROWS)]
    sex = [None if number % 13 == 0 else int(chance.integers(1, 4)) for number in range(ROWS)]
    churn = [None if number % 17 == 0 else bool(is_married) for number, is_married in enumerate(married)]
    return {"churn": churn, "married": married, "sex": sex, "age": [float(chance.integers(0, 64)) for _ in range(ROWS)]}


def in_words(given: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the same rows in words."""
    words: dict[Any, Any] = {None: None, True: "yes", False: "no"}
    sexes = {None: None, 1: "male", 2: "female", 3: "other"}
    return {
        "churn": [words[value] for value in given["churn"]],
        "married": [words[value] for value in given["married"]],
        "sex": [sexes[value] for value in given["sex"]],
        "age": given["age"],
    }


BOOLEANS = Table({"churn": "BOOLEAN", "married": "BOOLEAN", "sex": "BIGINT", "age": "DOUBLE"}, columns())
WORDS = Table({"churn": "VARCHAR", "married": "VARCHAR", "sex": "VARCHAR", "age": "DOUBLE"}, in_words(columns()))


@pytest.fixture(params=sorted(OPEN_EMPTY))
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open a database of each engine, with the rows as booleans and as words, private and public."""
    with Database(OPEN_EMPTY[request.param](), who="ann") as opened:
        for name, table in {"booleans": BOOLEANS, "words": WORDS}.items():
            put(opened.engine, name, table)
            put(opened.engine, f"new_{name}", table)
            opened.register(name, DECLARED, cap=10_000)
        yield opened


def test_counts_labels_and_figures_are_the_same(database: Database) -> None:
    """Training, prediction in SQL and evaluation see no difference, and neither does the other table's model."""
    models = [database.train(name, **ASKED, name=f"from_{name}") for name in ("booleans", "words")]
    assert models[0].released.digest() == models[1].released.digest()
    assert models[0].released.weights.sum() == 2 * sum(value is not None for value in BOOLEANS.columns["churn"])
    for model in models:
        scored = [model.predict(f"new_{name}")["prediction"].tolist() for name in ("booleans", "words")]
        frames = [model.labels(pd.DataFrame(table.columns).astype(object)).tolist() for table in (BOOLEANS, WORDS)]
        assert sorted(scored[0]) == sorted(scored[1]) == sorted(frames[0]) == sorted(frames[1])
        figures = [database.evaluate(model, f"new_{name}").to_dict() | {"table": ""} for name in ("booleans", "words")]
        assert figures[0] == figures[1]
        assert figures[0]["rows"] == sum(value is not None for value in BOOLEANS.columns["churn"])


def test_a_model_of_words_alone_is_refused_on_booleans() -> None:
    """Without the mapping the same words predict nonsense on a BOOLEAN column: the error offers the mapping."""
    declared = {**DECLARED, "classes": ["no", "yes"]}
    declared["features"] = {**DECLARED["features"], "married": {"type": "categorical", "values": ["no", "yes"]}}
    with connect(":memory:") as database:
        put(database.engine, "words", WORDS)
        put(database.engine, "new_booleans", BOOLEANS)
        database.register("words", declared, cap=10_000)
        model = database.train("words", **ASKED)
        with pytest.raises(SchemaError, match='values: {"false": no, "true": yes}'):
            model.predict("new_booleans")
        with pytest.raises(SchemaError, match="was trained on words"):
            model.labels(pd.DataFrame(BOOLEANS.columns))


def test_an_evaluation_on_booleans_of_a_model_of_words_is_refused() -> None:
    """Labels that can never be a class of the model are refused, not counted as none of them."""
    declared: dict[str, Any] = {**DECLARED, "classes": ["no", "yes"], "features": {"age": DECLARED["features"]["age"]}}
    with connect(":memory:") as database:
        put(database.engine, "words", WORDS)
        put(database.engine, "new_booleans", BOOLEANS)
        database.register("words", declared, cap=10_000)
        with pytest.raises(SchemaError, match=r'the label "churn" can never hold the classes "no", "yes"'):
            database.evaluate(database.train("words", **ASKED), "new_booleans")


def test_a_csv_file_and_a_table_of_booleans_get_the_same_labels(tmp_path: Path) -> None:
    """The usual way to load a CSV turns yes and no into BOOLEAN: the file and the table are scored alike (fault B2)."""
    path = tmp_path / "new.csv"
    pd.DataFrame(WORDS.columns).to_csv(path, index=False)
    with connect(":memory:") as database:
        put(database.engine, "booleans", BOOLEANS)
        put(database.engine, "new_booleans", BOOLEANS)
        database.register("booleans", DECLARED, cap=10_000)
        model = database.train("booleans", **ASKED)
        assert model.predict(str(path))["prediction"].tolist() == model.predict("new_booleans")["prediction"].tolist()


def test_a_private_evaluation_knows_the_mapping_of_its_table() -> None:
    """A model of words is measured on a registered table of booleans as on one of words."""
    plain = Schema.from_dict(
        {
            **DECLARED,
            "classes": ["no", "yes"],
            "features": {"married": {"type": "categorical", "values": ["no", "yes"]}},
        }
    )
    mapped = Schema.from_dict({**DECLARED, "features": {"married": DECLARED["features"]["married"]}})
    with connect(":memory:") as database:
        put(database.engine, "booleans", BOOLEANS)
        put(database.engine, "words", WORDS)
        database.register("words", plain, cap=10_000)
        database.register("booleans", mapped, cap=10_000)
        model = database.train("words", **{**ASKED, "depth": 1})
        figures = [database.evaluate(model, name, epsilon=2000).to_dict() for name in ("words", "booleans")]
        assert figures[0]["confusion"] == figures[1]["confusion"]
        assert figures[0]["accuracy"] > 0.9


def test_conditions_may_use_the_words() -> None:
    """A declared condition on a BOOLEAN column may say yes as well as TRUE, and on codes the word or the code."""
    tests = {"a": "married = 'yes'", "b": "married = TRUE", "c": "sex IN ('male', '2')", "d": "sex != 'male'"}
    with connect(":memory:") as database:
        put(database.engine, "booleans", BOOLEANS)
        put(database.engine, "words", WORDS)
        database.register("booleans", {**DECLARED, "conditions": tests}, cap=100)
        dataset = find_dataset(database.engine, database.book, "booleans")
        rows, passed = source(database.engine, dataset), {}
        for condition in tests:
            test = row_test(database.engine, dataset, rows, condition, labels=False)
            query = exp.select(exp.Count(this=exp.Star()).as_("passed")).from_(rows.table.copy()).where(test)
            passed[condition] = int(database.engine.frame(query)["passed"][0])
        married, sexes = BOOLEANS.columns["married"], BOOLEANS.columns["sex"]
        assert passed["a"] == passed["b"] == married.count(True)
        assert passed["c"] == sexes.count(1) + sexes.count(2)
        assert passed["d"] == sexes.count(2) + sexes.count(3)
        with pytest.raises(SchemaError, match="cannot be used"):
            database.register("words", {**DECLARED, "conditions": {"b": "married = TRUE"}}, cap=100)


def test_two_parties_of_booleans_and_words_add_up() -> None:
    """One party stores booleans, the other words: they share trees, and the merged model knows both."""
    with connect(":memory:") as database:
        put(database.engine, "booleans", BOOLEANS)
        fewer = {name: values[:-20] for name, values in WORDS.columns.items()}
        put(database.engine, "words", Table(WORDS.types, fewer))
        database.register("booleans", DECLARED, cap=10_000)
        plain = {**DECLARED, "classes": ["no", "yes"]}
        plain["features"] = {
            **DECLARED["features"],
            "married": {"type": "categorical", "values": ["no", "yes"], "null": "no"},
            "sex": {"type": "categorical", "values": ["male", "female"]},
        }
        database.register("words", plain, cap=10_000)
        shared = database.export_structure("words", trees=2, depth=3, seed=3)
        parts = [database.contribute(name, shared, epsilon=2000) for name in ("words", "booleans")]
        merged = merge(parts)
        fewer_than_all = parts[1].released.weights - parts[0].released.weights
        assert (fewer_than_all >= 0).all()
        assert 0 < fewer_than_all.sum() <= 2 * 20
        assert (
            merged.labels(pd.DataFrame(BOOLEANS.columns)).tolist()
            == merged.labels(pd.DataFrame(WORDS.columns)).tolist()
        )


def test_python_gives_words_and_synonyms_the_same_cells() -> None:
    """The cells of a frame of booleans, of their texts and of words are the same; NULL and others have theirs."""
    feature = Schema.from_dict(DECLARED).features[1]
    assert feature_cells(feature, [1, 2, 1.0, "1", "male", "female", None, "other"]).tolist() == [
        0,
        1,
        0,
        0,
        0,
        1,
        2,
        2,
    ]
