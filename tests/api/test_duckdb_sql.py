"""dpsql called from SQL on a connection of one's own."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql import methods
from dpsql.api.database import Database
from dpsql.engines.duckdb.engine import Connection
from tests import tables


@pytest.fixture
def con() -> Iterator[Connection]:
    """Open a plain DuckDB connection."""
    connection = duckdb.connect()
    yield connection
    connection.close()


@pytest.fixture
def db(con: Connection) -> Database:
    """Attach dpsql to it, with "people" registered under a cap of 5 and "fresh" public."""
    attached = dpsql.attach(con, who="ann")
    tables.fill(attached.engine, "people", tables.some_rows())
    tables.fill(attached.engine, "fresh", tables.some_rows(12))
    attached.register("people", tables.SCHEMA, cap=5)
    return attached


@pytest.fixture
def model(con: Connection, db: Database) -> dpsql.Model:
    """Train a model "m" for epsilon 0.5 by SQL."""
    con.execute(
        "FROM dpsql_train('people', epsilon := 0.5, method := 'rosnam', trees := 3, depth := 2, name := 'm')"
    ).fetchall()
    return db.model("m")


def rows(con: Connection, query: str) -> list[dict[str, Any]]:
    """Return the rows of a query as dictionaries."""
    result = con.execute(query)
    names = [column[0] for column in result.description or []]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def test_train_takes_named_arguments_and_gives_a_row(con: Connection, db: Database) -> None:
    """`FROM dpsql_train(...)` is one row about the model, and the model is stored."""
    given = "epsilon := 0.25, method := 'rosnam', trees := 3, depth := 2, seed := 7, name := 'mine'"
    [row] = rows(con, f"FROM dpsql_train('people', {given})")
    assert (row["model"], row["trees"], row["epsilon"], row["spent"], row["left"]) == (
        "mine",
        3,
        "0.25",
        "0.25",
        "4.75",
    )
    assert db.model("mine").certificate["plan"]["parameters"]["seed"] == 7


def test_train_needs_the_table_alone(con: Connection, db: Database) -> None:
    """Without more it trains the default method for epsilon 1."""
    [row] = rows(con, "FROM dpsql_train('people')")
    assert (row["model"], row["method"], row["epsilon"]) == ("people_1", methods.DEFAULT, "1")
    assert row["trees"] >= 1


@pytest.mark.parametrize(
    "query",
    [
        "FROM dpsql_train('people', trees := 2)",
        "SELECT model FROM dpsql_train('people', trees := 2) WHERE leaves > 0 AND trees > 0 ORDER BY model, epsilon",
        "SELECT count(*) FROM dpsql_train('people', trees := 2)",
        "FROM range(3), dpsql_train('people', trees := 2)",
        "WITH t AS (FROM dpsql_train('people', trees := 2)) SELECT * FROM t AS a, t AS b",
        "CREATE TABLE kept AS FROM dpsql_train('people', trees := 2)",
    ],
)
def test_one_from_is_one_charge(con: Connection, db: Database, query: str) -> None:
    """However the row is used, training runs once for each time it is written."""
    con.execute(query).fetchall()
    assert db.budget("people").spent_text == "1"
    assert len(db.models()) == 1


@pytest.mark.parametrize("words", ["EXPLAIN", "PREPARE later AS", "DESCRIBE", "CREATE TEMP VIEW later AS"])
def test_looking_at_the_statement_does_not_train(con: Connection, db: Database, words: str) -> None:
    """EXPLAIN, PREPARE, DESCRIBE and a view plan the call and do not run it."""
    before = tables.stored(db)
    con.execute(f"{words} FROM dpsql_train('people')").fetchall()
    assert tables.stored(db) == before


def test_a_request_id_twice_is_one_charge_and_one_model(con: Connection, db: Database) -> None:
    """The second call returns the same row and stores nothing."""
    query = "FROM dpsql_train('people', trees := 2, request_id := 'x')"
    assert rows(con, query) == rows(con, query)
    assert db.budget("people").spent_text == "1"
    assert len(db.models()) == 1


def test_a_rolled_back_transaction_keeps_the_charge(con: Connection, db: Database) -> None:
    """The charge is committed on its own: ROLLBACK undoes the caller's work, not the budget."""
    con.execute("BEGIN")
    con.execute("CREATE TABLE mine (n INTEGER)")
    con.execute("FROM dpsql_train('people', trees := 2)").fetchall()
    con.execute("ROLLBACK")
    assert db.budget("people").spent_text == "1"
    assert "mine" not in db.engine.tables()
    assert db.verify() == []


ERRORS = [
    ("FROM dpsql_train('peopel')", 'there is no table "peopel". Did you mean "people"?'),
    ("FROM dpsql_train('fresh')", 'table "fresh" is not registered'),
    ("FROM dpsql_train('people', epsilon := 9)", 'needs epsilon 9, but table "people" has 5 of 5 left'),
    ("FROM dpsql_train('people', epsilon := 'nan'::DOUBLE)", "epsilon must be a number above 0"),
    ("FROM dpsql_train('people', epsilon := NULL)", "epsilon must be a number above 0"),
    ("FROM dpsql_train('people', method := 'rosnan')", 'Did you mean "rosnam"?'),
    ("FROM dpsql_train('people', method := NULL)", "method must be the name of a method"),
    ("FROM dpsql_train('people', trees := 1.5)", "trees must be a whole number"),
    ("FROM dpsql_train('people', trees := 'many')", "trees must be a whole number"),
    ("FROM dpsql_train('people', trees := -1)", "trees must be a whole number from 1"),
    ("FROM dpsql_train('people', request_id := '')", "request_id must be text, not empty"),
    ("FROM dpsql_train(NULL)", "table must be the name of a table"),
    ("FROM dpsql_plan('peopel')", 'there is no table "peopel"'),
    ("FROM dpsql_advise('peopel')", 'there is no table "peopel"'),
    ("FROM dpsql_advise('people', rows := 'many')", "rows must be a whole number"),
    ("FROM dpsql_advise('people', majority := 'x')", "majority must be a share"),
    ("FROM dpsql_advise('people', buy := 9)", 'needs epsilon 9, but table "people" has 5 of 5 left'),
    ("SELECT dpsql_predict('n', {x: 1, c: 'a'})", 'there is no model "n"'),
    ("SELECT dpsql_predict(NULL, {x: 1, c: 'a'})", "model must be the name of a model"),
    ("FROM dpsql_score('m', 'fresh')", 'there is no model "m"'),
]


@pytest.mark.parametrize(("query", "message"), ERRORS, ids=[query for query, _ in ERRORS])
def test_errors_come_in_our_words_and_leave_no_trace(con: Connection, db: Database, query: str, message: str) -> None:
    """The message says what is wrong; nothing is charged or stored."""
    before = tables.stored(db)
    with pytest.raises(duckdb.Error) as caught:
        con.execute(query).fetchall()
    assert message in str(caught.value)
    assert tables.stored(db) == before


def test_an_unexpected_error_loses_its_text(
    con: Connection, db: Database, model: dpsql.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB would quote a bug's own words, which can hold a value; it gets one sentence, without even the class."""

    def broken(*_: object) -> None:
        raise RuntimeError("SECRET CELL")

    monkeypatch.setattr(dpsql.Model, "label", broken)
    with pytest.raises(duckdb.Error, match="why is withheld too") as caught:
        con.execute("SELECT dpsql_predict('m', {x: 1, c: 'a'})").fetchall()
    assert "RuntimeError" not in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_plan_has_a_row_for_each_step_and_touches_nothing(con: Connection, db: Database) -> None:
    """`FROM dpsql_plan(...)` tells what `db.plan(...)` tells."""
    before = tables.stored(db)
    found = rows(con, "FROM dpsql_plan('people', epsilon := 0.5, trees := 3)")
    steps = db.plan("people", epsilon=0.5, trees=3).to_dict()["steps"]
    keys = ("operation", "epsilon", "noise_scale", "scans", "values")
    assert [[row[key] for key in keys] for row in found] == [[step[key] for key in keys] for step in steps]
    assert len(steps) == 2
    assert tables.stored(db) == before


def test_predict_and_score_agree_with_python(con: Connection, db: Database, model: dpsql.Model) -> None:
    """A label for a row, a label for a table and `model.predict` are the same, NULL, NaN and infinity included."""
    frame = tables.frame_of(tables.some_rows(12))
    wanted = list(model.predict(frame[["x", "c"]].astype({"x": float})))  # type: ignore[arg-type]
    by_row = [row["label"] for row in rows(con, "SELECT dpsql_predict('m', fresh) AS label FROM fresh")]
    by_table = [row["prediction"] for row in rows(con, "FROM dpsql_score('m', 'fresh')")]
    assert by_row == by_table == wanted


@pytest.mark.parametrize(
    ("cells", "same"),
    [
        ("x: NULL, c: NULL", {"x": float("nan"), "c": None}),
        ("x: 'nan'::DOUBLE, c: 'never seen'", {"x": float("nan"), "c": "?"}),
        ("x: '-inf'::DOUBLE, c: 'a'", {"x": -1e300, "c": "a"}),
        ("x: 'no number', c: 'a'", {"x": float("nan"), "c": "a"}),
        ("x: true, c: 'b'", {"x": 1.0, "c": "b"}),
        ("x: 12.50::DECIMAL(9, 2), c: 'b'", {"x": 12.5, "c": "b"}),
        ("x: 170141183460469231731687303715884105727, c: 'b'", {"x": 1.7e38, "c": "b"}),
        ("x: DATE '2020-01-01', c: [1, 2]", {"x": float("nan"), "c": "[1, 2]"}),
        ("X: 5, C: 'a', other: 'ignored'", {"x": 5.0, "c": "a"}),
    ],
)
def test_predict_takes_rows_of_any_type(
    con: Connection, db: Database, model: dpsql.Model, cells: str, same: dict[str, Any]
) -> None:
    """Whatever a cell holds, the row has a label: what is no number goes where NULL goes, as in a CSV file."""
    [row] = rows(con, f"SELECT dpsql_predict('m', {{{cells}}}) AS label")
    columns = {name: [value] for name, value in same.items()}
    assert row["label"] == model.label(columns)


def test_no_row_has_no_label(con: Connection, db: Database, model: dpsql.Model) -> None:
    """NULL in the place of a row gives NULL."""
    assert rows(con, "SELECT dpsql_predict('m', NULL) AS label") == [{"label": None}]


def test_a_row_without_a_feature_says_which(con: Connection, db: Database, model: dpsql.Model) -> None:
    """A missing column is named."""
    with pytest.raises(duckdb.Error, match='no column in the row called "c"'):
        con.execute("SELECT dpsql_predict('m', {x: 1})").fetchall()


def test_the_private_table_is_not_scored_for_free(con: Connection, db: Database, model: dpsql.Model) -> None:
    """`dpsql_score` refuses the registered table."""
    with pytest.raises(duckdb.Error, match="cannot be read for free"):
        con.execute("FROM dpsql_score('m', 'people')").fetchall()


def test_the_budget_is_exact(con: Connection, db: Database) -> None:
    """Cap, spent and left are decimals to the nano."""
    db.set_limits("people", least_epsilon="0.000000003")
    con.execute("FROM dpsql_train('people', epsilon := 0.000000003, method := 'rosnam', trees := 1)").fetchall()
    [row] = rows(con, "FROM dpsql_budget('PEOPLE')")
    assert (row["cap"], row["spent"], row["left"]) == (5, Decimal("0.000000003"), Decimal("4.999999997"))


def test_the_ledger_has_a_row_for_each_charge(con: Connection, db: Database, model: dpsql.Model) -> None:
    """`FROM dpsql_ledger()` tells who spent what and how it ended."""
    assert [row["event"] for row in rows(con, "FROM dpsql_ledger()")] == ["register", "reserve"]
    [row] = rows(con, "FROM dpsql_ledger() WHERE event = 'reserve'")
    assert (row["who"], row["table_name"], row["epsilon"], row["state"]) == (
        "ann",
        "people",
        Decimal("0.5"),
        "released",
    )


def test_the_models_are_those_of_python(con: Connection, db: Database, model: dpsql.Model) -> None:
    """`FROM dpsql_models()` lists what `db.models()` lists, without the tags."""
    listed = db.models().rename(columns={"table": "table_name"}).drop(columns="tags")
    assert rows(con, "FROM dpsql_models()") == listed.to_dict("records")


def test_a_connection_of_ones_own_is_not_locked_down(db: Database) -> None:
    """`weaknesses()` says what it leaves open."""
    assert any("enable_external_access is true" in weakness for weakness in db.weaknesses())


def test_attaching_again_changes_the_name(con: Connection, db: Database) -> None:
    """A second attach works, and charges carry its name."""
    dpsql.attach(con, who="eve")
    con.execute("FROM dpsql_train('people', trees := 1)").fetchall()
    assert rows(con, "FROM dpsql_ledger()")[-1]["who"] == "eve"


def test_a_second_connection_is_refused_in_words(con: Connection, db: Database) -> None:
    """DuckDB shares functions between connections, so that only one of them can be attached."""
    with con.cursor() as other, pytest.raises(dpsql.UsageError, match="already attached to another connection"):
        dpsql.attach(other)


SCRIPT = """
import duckdb, dpsql
con = duckdb.connect(PATH)
con.execute("SET enable_progress_bar = false")  # DuckDB's own, on a slow machine
con.execute("CREATE TABLE people AS SELECT range % 64 AS x, ['no', 'yes'][range % 2 + 1] AS y FROM range(5000)")
db = dpsql.attach(con)
features = {"x": {"type": "numeric", "lower": 0, "upper": 64}}
db.register("people", {"label": "y", "classes": ["no", "yes"], "features": features}, cap=3)
con.execute("FROM dpsql_train('people', trees := 2, name := 'm')").fetchall()
print(con.execute("SELECT dpsql_predict('m', {x: 1})").fetchall()[0][0])
try:
    con.execute("FROM dpsql_train('people', epsilon := 50)").fetchall()
except duckdb.Error:
    print("refused")
"""


def test_the_interpreter_ends_without_a_word(tmp_path: Path) -> None:
    """A script that attaches, trains, predicts and ends leaks nothing: stderr stays empty."""
    text = SCRIPT.replace("PATH", repr(str(tmp_path / "data.duckdb")))
    environment = os.environ | {"PYTHONPATH": str(Path(dpsql.__file__).parents[1])}
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, env=environment)
    assert ran.stderr == ""
    assert ran.stdout.split()[1:] == ["refused"]


def test_explain_gives_a_row_for_each_feature(con: Connection, db: Database, model: dpsql.Model) -> None:
    """`FROM dpsql_explain(...)` has the importance that Python says, the most important first, for free."""
    spent = db.budget("people").spent
    found = rows(con, "FROM dpsql_explain('m')")
    assert {row["feature"]: row["importance"] for row in found} == pytest.approx(model.explain().importance.to_dict())
    assert [row["importance"] for row in found] == sorted((row["importance"] for row in found), reverse=True)
    assert {row["note"] for row in found} <= {"", "read by no tree", "drowned in noise"}
    assert db.budget("people").spent == spent


def test_advise_gives_a_row_for_now_and_each_what_if(con: Connection, db: Database) -> None:
    """`FROM dpsql_advise(...)` has the figures that Python gives, rounded, and is free without `buy`."""
    before = tables.stored(db)
    found = rows(con, "FROM dpsql_advise('people', epsilon := 0.5, rows := 3000, majority := 0.5)")
    wanted = db.advise("people", epsilon=0.5, rows=3000, majority=0.5).to_dict()
    assert [row["case"] for row in found] == ["now", "twice rows", "twice epsilon"]
    for row, name in zip(found, ("now", "twice_rows", "twice_epsilon"), strict=True):
        assert {key: row[key] for key in ("rows", "trees", "depth", "verdict")} == {
            key: wanted[name][key] for key in ("rows", "trees", "depth", "verdict")
        }
        assert row["noise_per_leaf"] == pytest.approx(wanted[name]["noise_per_leaf"], rel=1e-3)
    assert [row["rows"] for row in rows(con, "FROM dpsql_advise('people')")] == [10**power for power in range(2, 7)]
    assert tables.stored(db) == before


def test_advise_can_buy_a_size(con: Connection, db: Database) -> None:
    """With `buy` one noisy size is charged; one request id is one charge."""
    first = rows(con, "FROM dpsql_advise('people', buy := 0.25, request_id := 'r')")
    assert rows(con, "FROM dpsql_advise('people', buy := 0.25, request_id := 'r')") == first
    assert rows(con, "FROM dpsql_advise('people')") == first
    assert db.budget("people").spent_text == "0.25"


def test_evaluate_gives_a_row_for_each_figure(con: Connection, db: Database, model: dpsql.Model) -> None:
    """`FROM dpsql_evaluate(...)` is free on public rows and gives what Python gives."""
    found = {row["figure"]: row["value"] for row in rows(con, "FROM dpsql_evaluate('m', 'fresh')")}
    wanted = db.evaluate(model, "fresh").to_dict()
    assert found["accuracy"] == pytest.approx(wanted["accuracy"])
    assert found["auc"] == pytest.approx(wanted["auc"])
    assert found["f1 of no"] == pytest.approx(wanted["class_f1"]["no"])


def test_compare_gives_a_row_for_each_model_and_figure(con: Connection, db: Database, model: dpsql.Model) -> None:
    """`FROM dpsql_compare([...], table)` is what Python gives; on private rows one charge for all under one id."""
    db.add(dataclasses.replace(model, name="copy"))
    found = rows(con, "FROM dpsql_compare(['m', 'copy'], 'fresh')")
    wanted = db.compare(["m", "copy"], "fresh").frame.set_index("model")
    for row in found:
        assert row["value"] == pytest.approx(wanted.loc[row["model"], row["figure"]])
    assert {row["model"] for row in found} == {"m", "copy"}
    query = "FROM dpsql_compare(['m', 'copy'], 'people', epsilon := 2, request_id := 'c')"
    charged = rows(con, query)
    assert db.budget("people").spent_text == "2.5"
    assert rows(con, query) == charged
    assert db.budget("people").spent_text == "2.5"
    with pytest.raises(duckdb.Error, match="two or more different models"):
        con.execute("FROM dpsql_compare(['m'], 'fresh')").fetchall()


def test_evaluate_on_private_rows_is_charged_once_per_request(
    con: Connection, db: Database, model: dpsql.Model
) -> None:
    """With epsilon a registered table is measured, with intervals; asked again, the same figures for nothing."""
    query = "FROM dpsql_evaluate('m', 'people', epsilon := 2, request_id := 'r')"
    found = rows(con, query)
    assert db.budget("people").spent_text == "2.5"
    [accuracy] = [row for row in found if row["figure"] == "accuracy"]
    assert [row["value"] for row in found if row["figure"] == "auc"] == [None]
    assert accuracy["value"] is None or accuracy["low"] <= accuracy["value"] <= accuracy["high"]
    assert rows(con, query) == found
    assert db.budget("people").spent_text == "2.5"


def test_evaluate_on_private_rows_without_epsilon_is_refused(con: Connection, db: Database, model: dpsql.Model) -> None:
    """The refusal names what is missing."""
    with pytest.raises(duckdb.Error, match="cannot be read for free"):
        con.execute("FROM dpsql_evaluate('m', 'people')").fetchall()
    assert db.budget("people").spent_text == "0.5"
