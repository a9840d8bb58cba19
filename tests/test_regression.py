"""A forest for a numeric target, from the schema to predictions: SQL, Python, JSON, evaluation, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsql
from dpsql import methods
from dpsql.api.database import Database
from dpsql.errors import DpsqlError, ParameterError, SchemaError, UsageError
from dpsql.models.usable_model import Model
from dpsql.schema import Schema, Target
from dpsql.trees.grid import axes
from dpsql.trees.voting import VotingForest
from tests.compile.predict.test_votes import FORMS, python_labels, sql_labels, stored_model, table_of
from tests.rows import any_forest, schemas
from tests.tables import (
    SCHEMA,
    SMALL,
    TARGET,
    TARGET_UNITS,
    Row,
    fill,
    frame_of,
    memory,
    on_disk,
    some_targets,
    stored,
    types_of,
)

ABLE = pytest.mark.parametrize("method", [name for name, one in methods.METHODS.items() if one.regression])
#: The default is not among them: for a number it stands for another method.
UNABLE = pytest.mark.parametrize(
    "method", [name for name, one in methods.METHODS.items() if not one.regression and name != methods.DEFAULT]
)
RULE: list[Row] = [(k, float(k % 64), "a", k % 64 / 6.4) for k in range(4000)]


def numeric(schema: Schema, target: Target) -> Schema:
    """Return a schema with a numeric target in place of its classes."""
    return Schema(schema.label, (), schema.features, target=target)


def small(method: str) -> dict[str, Any]:
    """Return parameters that keep a run of this method short."""
    return {name: value for name, value in SMALL.items() if name in methods.get(method).parameters}


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=5)
@given(
    schema=schemas(most=12),
    lower=st.floats(-1e9, 1e9),
    width=st.floats(1e-6, 1e9),
    seed=st.integers(0, 2**32),
    most=st.sampled_from([3, 2**20, 2**40]),
)
def test_sql_and_python_predict_the_same_number(
    form: str, schema: Schema, lower: float, width: float, seed: int, most: int
) -> None:
    """Every form of SQL gives the very double that Python gives, whatever the rows, votes and bounds."""
    schema = numeric(schema, Target(lower, lower + width))
    forest = any_forest(axes(schema), trees=4, depth=2, seed=seed)
    votes = np.random.default_rng(seed).integers(0, most, (forest.leaves, 2), endpoint=True)
    model = stored_model(schema, VotingForest(forest, votes))
    made = table_of(numeric_table(schema), 12, seed)
    assert sql_labels(model, form) == python_labels(model, made)


def numeric_table(schema: Schema) -> Schema:
    """Return a schema of classes with the same columns: what `table_of` makes rows of."""
    return Schema(schema.label, ("a", "b"), schema.features)


@ABLE
def test_a_method_learns_a_number(method: str) -> None:
    """With much epsilon and a plain rule the errors are far below those of the mean."""
    with memory(RULE, schema=TARGET) as database:
        given = {name: value for name, value in {"trees": 9, "depth": 5}.items() if name in small(method)}
        model = database.train("people", epsilon=100, method=method, **given)
        found = database.evaluate(model, frame_of(RULE[:64]))
        assert found.rmse < 0.5 * found.mean_rmse


@ABLE
@pytest.mark.parametrize("schema", [TARGET, TARGET_UNITS], ids=["row", "unit"])
@pytest.mark.parametrize(
    "rows",
    [[], [(1, 1.0, "a", 3.0)], [(1, None, None, None)] * 3, [(k, float(k), "b", float("nan")) for k in range(9)],
     [(k, 1e308, "?", (-1) ** k * float("inf")) for k in range(9)], some_targets()],
    ids=["empty", "one row", "all NULL", "NaN", "infinite", "all kinds"],
)  # fmt: skip
def test_whatever_the_rows_a_model_comes_out(method: str, rows: list[Row], schema: Schema) -> None:
    """Any table trains, charges what its plan says, and predicts finite numbers within the bounds."""
    with memory(rows, schema=schema, cap=1) as database:
        planned = database.plan("people", method=method, **small(method))
        model = database.train("people", method=method, **small(method))
        numbers = model.predict(frame_of(some_targets()))
        assert isinstance(numbers, pd.Series)
        assert numbers.dtype == float
        assert ((numbers >= 0) & (numbers <= 10)).all()
        assert database.budget("people").spent == planned.nano_epsilon == 10**9
        assert model.certificate["plan"] == planned.to_dict()
        assert "leaf_sums" in [step["operation"] for step in planned.to_dict()["steps"]]


@pytest.mark.parametrize("named", [{}, {"method": methods.DEFAULT}], ids=["not named", "named"])
def test_the_default_stands_for_a_method_of_numbers(named: dict[str, str]) -> None:
    """Plan, train and explain without a method, or with the default by its name, are those of rdt, and learn."""
    with memory(RULE, schema=TARGET) as database:
        planned = database.plan("people", epsilon=100, depth=5, **named)
        assert planned.to_dict() == database.plan("people", epsilon=100, depth=5, method="rdt").to_dict()
        model = database.train("people", epsilon=100, depth=5, **named)
        assert (model.method, model.certificate["plan"]) == ("rdt", planned.to_dict())
        assert database.book.entries(event="reserve")[-1].state == "released"
        found = database.evaluate(model, frame_of(RULE[:64]))
        assert found.rmse < 0.5 * found.mean_rmse
        by_name = database.explain("people", method="rdt")
        assert database.explain("people", **named).statement_sql == by_name.statement_sql


@UNABLE
def test_a_method_that_names_classes_refuses_a_number(method: str, tmp_path: Path) -> None:
    """Plan and train are refused with the methods that can, and leave no trace."""
    with on_disk(tmp_path / "data.duckdb", some_targets(), schema=TARGET) as database:
        before = stored(database)
        for act in (database.plan, database.train, database.explain):
            with pytest.raises(UsageError, match="Methods that predict numbers: .*rdt"):
                act("people", method=method)
        assert stored(database) == before


@pytest.fixture(scope="module")
def trained() -> Iterator[tuple[Database, Model]]:
    """Open a database with a trained model of a number, a public table and a second model of the same people."""
    with memory(RULE, schema=TARGET) as database:
        fill(database.engine, "fresh", RULE[:200], types_of(TARGET))
        yield database, database.train("people", epsilon=5, method="rdt", depth=3, name="numbers")


def test_a_model_comes_back_from_the_shelf_and_from_json(trained: tuple[Database, Model]) -> None:
    """Stored, exported and imported, the model predicts the same numbers."""
    database, model = trained
    frame = frame_of(RULE[:64])
    again = dpsql.Model.from_json(model.to_json())
    assert (database.model("numbers").labels(frame) == model.labels(frame)).all()
    assert (database.add(again, name="copy").labels(frame) == model.labels(frame)).all()
    assert again.schema == model.schema
    assert json.loads(model.to_json())["schema"]["target"] == {"lower": 0.0, "upper": 10.0, "steps": 100}


def test_a_table_is_scored_in_the_database(trained: tuple[Database, Model]) -> None:
    """A scored table holds doubles, the same as Python gives."""
    database, model = trained
    model.predict("fresh", into="scored")
    found = database.engine.frame(_select("scored"))
    assert found["prediction"].dtype == float
    assert found["prediction"].tolist() == model.labels(frame_of(RULE[:200])).tolist()


def _select(table: str) -> Any:
    from sqlglot import parse_one

    return parse_one(f"SELECT * FROM {table}", dialect="duckdb")


def test_a_file_is_scored(trained: tuple[Database, Model], tmp_path: Path) -> None:
    """A CSV file of new rows gives a number for each."""
    path = tmp_path / "fresh.csv"
    pd.DataFrame(RULE[:20], columns=["person", "x", "c", "y"]).to_csv(path, index=False)
    found = trained[1].predict(path, key="person")
    assert isinstance(found, pd.DataFrame)
    assert found["prediction"].tolist() == trained[1].labels(frame_of(RULE[:20])).tolist()


def test_a_tree_shows_the_numbers_of_its_leaves(trained: tuple[Database, Model]) -> None:
    """Each leaf of a drawn tree is a number within the bounds."""
    shown = [line.split("→ ")[1] for line in trained[1].show().splitlines() if "→" in line]
    assert shown
    assert all(0 <= float(text) <= 10 for text in shown)


def test_shares_of_classes_are_refused(trained: tuple[Database, Model]) -> None:
    """A number has no classes to share votes."""
    for data in (frame_of(RULE[:3]), "fresh"):
        with pytest.raises(UsageError, match="predicts a number"):
            trained[1].predict_proba(data)


def test_an_evaluation_measures_errors(trained: tuple[Database, Model]) -> None:
    """Table and DataFrame give the figures of plain numpy, on rows with a finite target alone."""
    database, model = trained
    rows = [*RULE[:100], (1, 2.0, "a", None), (2, 3.0, "b", float("nan")), (3, 3.0, "b", float("inf"))]
    fill(database.engine, "public", rows, types_of(TARGET))
    truth, guess = np.array([row[3] for row in RULE[:100]], float), model.labels(frame_of(RULE[:100]))
    for data in ("public", frame_of(rows)):
        found = database.evaluate("numbers", data)
        assert found.rows == 100
        assert found.rmse == pytest.approx(np.sqrt(np.mean((truth - guess) ** 2)))
        assert found.mae == pytest.approx(np.mean(np.abs(truth - guess)))
        assert found.mean_rmse == pytest.approx(np.std(truth))
        assert found.r2 == pytest.approx(1 - (found.rmse / found.mean_rmse) ** 2)
        assert f"RMSE {found.rmse:.4g}" in str(found)
    assert set(found.to_dict()) == {"model", "table", "rows", "rmse", "mae", "r2", "mean_predictor_rmse"}


def test_an_evaluation_of_nothing_is_refused(trained: tuple[Database, Model]) -> None:
    """Public rows of which none has a target measure nothing."""
    with pytest.raises(SchemaError, match='no row of the data has a finite number as "y"'):
        trained[0].evaluate("numbers", frame_of([(1, 1.0, "a", None)]))


def test_an_evaluation_needs_numbers(trained: tuple[Database, Model]) -> None:
    """A public table whose label is text is refused."""
    fill(trained[0].engine, "texts", [(1, 1.0, "a", "no")])
    with pytest.raises(SchemaError, match="must be integer or real"):
        trained[0].evaluate("numbers", "texts")


def test_counts_of_batches_and_parties_do_not_add_up_to_means(tmp_path: Path) -> None:
    """Updating, exporting a structure and merging are refused, and charge nothing."""
    schema = Schema("y", (), TARGET.features, batch="person", target=TARGET.target)
    with memory(RULE, schema=schema) as database:
        model = database.train("people", method="rdt", depth=2, batch="1")
        spent = database.budget("people").spent
        with pytest.raises(UsageError, match="cannot be updated"):
            model.update("2")
        with pytest.raises(UsageError, match="means of a numeric target"):
            database.export_structure("people", depth=2)
        with pytest.raises(UsageError, match="means of a numeric target"):
            dpsql.merge([model, database.train("people", method="rdt", depth=2, batch="3")])
        assert database.budget("people").spent == spent


def test_parties_with_other_columns_unite() -> None:
    """Two parties' trees vote together for one number; other bounds are another label."""
    features = TARGET.features
    models = []
    for one in features:
        with memory(RULE, schema=Schema("y", (), (one,), target=TARGET.target)) as database:
            models.append(database.train("people", epsilon=9, method="rdt", depth=3))
    united = dpsql.unite(models)
    votes = sum(model.scores(frame_of(RULE[:9])) for model in models)
    assert (united.scores(frame_of(RULE[:9])) == votes).all()
    assert united.certificate["epsilon"] == "18"
    with memory(RULE, schema=Schema("y", (), features[:1], target=Target(0, 11))) as database:
        other = database.train("people", method="rdt", depth=2)
    with pytest.raises(SchemaError, match="different labels"):
        dpsql.unite([models[1], other])


def test_a_regressor_works_like_scikit_learn() -> None:
    """Settings, fit, predict and R² of the front for numbers."""
    with memory(RULE, schema=TARGET) as database:
        regressor = dpsql.DPForestRegressor(2, depth=4)
        given = {name: value for name, value in regressor.get_params().items() if value is not None}
        assert given == {"epsilon": 2, "method": "rdt", "depth": 4}
        with pytest.raises(DpsqlError, match="not fitted"):
            regressor.predict(frame_of(RULE[:3]))
        frame = frame_of(RULE[:64])
        assert regressor.set_params(epsilon=50).fit(database, "people") is regressor
        assert regressor.score(frame, frame["y"]) > 0.5
        assert regressor.predict(frame).dtype == float
        assert repr(regressor) == "DPForestRegressor(epsilon=50, method='rdt', depth=4)"


def test_a_front_refuses_the_other_kind_of_label() -> None:
    """A classifier refuses a number and a regressor classes, before anything is charged."""
    for schema, front in ((TARGET, dpsql.DPForestClassifier()), (SCHEMA, dpsql.DPForestRegressor())):
        with memory(schema=schema) as database:
            with pytest.raises(UsageError, match="use DPForest"):
                front.fit(database, "people")
            assert database.budget("people").spent == 0


def test_a_number_is_predicted_from_sql() -> None:
    """`dpsql_train` and `dpsql_predict` work on a target; the label of a row is its number as text."""
    connection = duckdb.connect()
    database = dpsql.attach(connection)
    fill(database.engine, "people", RULE, types_of(TARGET))
    database.register("people", TARGET, cap=9)
    connection.execute("FROM dpsql_train('people', epsilon := 5, method := 'rdt', depth := 3, name := 'm')").fetchall()
    fill(database.engine, "others", RULE[:5], types_of(TARGET))
    found = connection.execute("SELECT dpsql_predict('m', o) FROM others AS o").fetchall()
    expected = database.model("m").labels(frame_of(RULE[:5]))
    assert [float(row[0]) for row in found] == expected.tolist()
    connection.close()


def test_the_explanation_adds_up() -> None:
    """`explain` shows the sum of one leaf and the statement that adds up all of them."""
    with memory(schema=TARGET) as database:
        shown = database.explain("people", method="rdt", depth=2)
        assert "SUM(LEAST(GREATEST(class, 0), 100))" in shown.statement_sql
        assert "SUM(" in shown.leaf_sql
        with pytest.raises(ParameterError):
            database.explain("people", method="rdt", depth=2, leaf=10**6)
