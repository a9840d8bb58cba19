"""Prepares a DuckDB connection so that dpsql can be called from SQL: `FROM dpsql_train('adult', epsilon := 1.0)`.

The macros are written by hand in `sql/duckdb/macros.sql`; what needs Python is registered here as functions of the
connection. Each call works on a cursor of its own, so that a charge is committed whatever the calling query does next.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from dpsql import sqlfiles
from dpsql.database import Database, connect
from dpsql.engines.duckdb import Connection, define
from dpsql.errors import DpsqlError, UnknownName
from dpsql.ledger import Ledger
from dpsql.model import Model
from dpsql.predict import public_table, scoring_query
from dpsql.schema import Numeric
from dpsql.shelf import install

_TRAINED = (
    "STRUCT(model VARCHAR, method VARCHAR, trees BIGINT, depth BIGINT, leaves BIGINT, epsilon VARCHAR, "
    'neighbours VARCHAR, spent VARCHAR, "left" VARCHAR)[]'
)
_STEPS = (
    'STRUCT(step VARCHAR, operation VARCHAR, epsilon VARCHAR, noise_scale DOUBLE, scans BIGINT, "values" BIGINT, '
    "expected_error VARCHAR)[]"
)
_TEXT = "VARCHAR"
_ROW = "MAP(VARCHAR, VARCHAR)"


def attach(connection: Connection, *, who: str | None = None) -> Database:
    """Prepare a connection for calls from SQL and return it as a Database.

    The connection stays yours and cannot be locked down: `Database.weaknesses()` says what it leaves open.
    """
    database = connect(connection, who=who)
    Ledger(database.engine).install()
    install(database.engine)
    calls = _Calls(connection, database.who)
    whole = ["BIGINT"] * 3
    define(connection, "dpsql_train_call", calls.train, [_TEXT] * 3 + whole + [_TEXT] * 2, _TRAINED, changes=True)
    define(connection, "dpsql_plan_call", calls.plan, [_TEXT] * 3 + whole, _STEPS)
    define(connection, "dpsql_predict_call", calls.predict, [_TEXT, _ROW], _TEXT)
    define(connection, "dpsql_score_call", calls.score, [_TEXT, _TEXT], _TEXT)
    for statement in sqlfiles.statements("duckdb/macros.sql"):
        connection.execute(statement)
    return database


class _Calls:
    """The Python side of the calls. It holds the connection weakly: the connection holds these functions."""

    def __init__(self, connection: Connection, who: str) -> None:
        self._connection = weakref.ref(connection)
        self._who = who
        self._models: dict[str, Model] = {}

    def train(
        self,
        table: str,
        epsilon: str,
        method: str,
        trees: int | None,
        depth: int | None,
        seed: int | None,
        name: str | None,
        request_id: str | None,
    ) -> list[dict[str, Any]]:
        """Train and describe the new model in one row."""
        given = _given(trees=trees, depth=depth, seed=seed)
        db = self._database()
        model = db.train(table, epsilon=epsilon, method=method, name=name, request_id=request_id, **given)
        budget = db.budget(table)
        forest = model.released.forest
        return [
            {
                "model": model.name,
                "method": model.method,
                "trees": forest.trees,
                "depth": forest.depth,
                "leaves": forest.leaves,
                "epsilon": model.certificate["epsilon"],
                "neighbours": model.certificate["neighbours"],
                "spent": budget.spent_text,
                "left": budget.left_text,
            }
        ]

    def plan(
        self, table: str, epsilon: str, method: str, trees: int | None, depth: int | None, seed: int | None
    ) -> list[dict[str, Any]]:
        """Describe the steps of a plan, one row each."""
        given = _given(trees=trees, depth=depth, seed=seed)
        plan = self._database().plan(table, epsilon=epsilon, method=method, **given)
        steps = plan.to_dict()["steps"]
        names = ("operation", "epsilon", "noise_scale", "scans", "values", "expected_error")
        return [{"step": step["name"], **{name: step[name] for name in names}} for step in steps]

    def predict(self, name: str, row: dict[str, str | None]) -> str:
        """Return the label of one row, given as texts by column name."""
        model = self._model(name)
        columns: dict[str, Any] = {}
        lowered = {key.lower(): value for key, value in row.items()}
        for feature in model.schema.features:
            if feature.name.lower() not in lowered:
                raise UnknownName("column in the row called", feature.name, row)
            text = lowered[feature.name.lower()]
            columns[feature.name] = [_number(text) if isinstance(feature, Numeric) else text]
        return model.classes[model.best(columns)]

    def score(self, name: str, table: str) -> str:
        """Return the SQL that scores a whole table."""
        model = self._model(name)
        assert model.database is not None
        info = public_table(model.database, table)
        return scoring_query(model, info, key=None, into="").sql(model.database.engine.dialect)

    def _model(self, name: str) -> Model:
        db = self._database()
        if name not in self._models:
            self._models = {name: db.model(name)}
        return self._models[name].within(db)

    def _database(self) -> Database:
        connection = self._connection()
        if connection is None:
            raise DpsqlError("the connection was closed.")
        return connect(connection, who=self._who)


def _given(**parameters: int | None) -> dict[str, int]:
    return {name: value for name, value in parameters.items() if value is not None}


def _number(text: str | None) -> float:
    return np.nan if text is None else float(text)
