"""A connection that the caller opened: its Python functions, its logs and its attached databases learn nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

import dpsql
from dpsql.api.database import connect
from dpsql.engines.duckdb.open_database import adopt
from dpsql.engines.files.table_files import LEDGER
from dpsql.errors import BudgetError, DatabaseError, NotRegistered, TableChanged
from dpsql.models.score import public_table
from dpsql.schema import Unit
from tests.attacks.budgets import SCHEMA, TINY, assert_no_free_look
from tests.engines.folder import csv

ROWS = "SELECT CAST(range AS DOUBLE) AS x, 'a' AS c, 'yes' AS y, 'p' || range AS who FROM range(20)"
LOGS = ["CALL enable_logging()", "CALL enable_logging('QueryLog')", "SET GLOBAL log_query_path = '{folder}/log.sql'"]


def caller() -> duckdb.DuckDBPyConnection:
    """Return a connection of the caller's with a table "people" and a public one."""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE people AS {ROWS}")
    connection.execute(f"CREATE TABLE newcomers AS {ROWS}")
    return connection


# Python functions.


@pytest.mark.parametrize(("name", "takes"), [("hash", "VARCHAR"), ("isnan", "VARCHAR"), ("lower", "BIGINT")])
def test_a_python_function_never_gets_private_cells(name: str, takes: str) -> None:
    """DuckDB calls it in place of its own function of that name; a run is refused before the charge."""
    given: list[object] = []

    def listen(cell):  # type: ignore[no-untyped-def]
        given.append(cell)
        return 1

    with caller() as connection:
        connection.create_function(name, listen, [takes], "UBIGINT")  # type: ignore[list-item, arg-type]
        db = connect(connection, who="ann")
        db.register("people", replace(SCHEMA, unit=Unit("who", 2)), cap=1)
        assert db.engine.redefined_functions() == [name]
        assert name in db.engine.user_functions()
        with pytest.raises(DatabaseError, match=f"redefines the built-in function {name}"):
            db.train("people", **(TINY | {"method": "spe", "trees": 2}))
        assert db.budget("people").spent == 0
    assert given == []


def test_a_view_that_calls_a_python_function_is_not_free() -> None:
    """The function could read any table."""
    with caller() as connection:
        db = connect(connection, who="ann")
        db.register("people", SCHEMA, cap=1)
        connection.create_function("trim", lambda n: "a", ["BIGINT"], "VARCHAR")  # type: ignore[list-item, arg-type]
        connection.execute("CREATE VIEW look AS SELECT x, trim(42) AS c, y FROM newcomers")
        with pytest.raises(BudgetError, match="cannot be read for free"):
            public_table(db, "look")


def test_an_untouched_connection_has_no_functions_of_users() -> None:
    """Of a file, in memory, and with another database attached, whose own functions are the same."""
    with caller() as connection:
        connection.execute("ATTACH ':memory:' AS other")
        connection.execute("LOAD json")
        connection.execute("LOAD icu")
        engine = adopt(connection)
        assert (engine.user_functions(), engine.redefined_functions()) == ([], [])


def test_an_attached_dpsql_stays_usable() -> None:
    """The functions of `dpsql.attach` are Python functions, too, and stand in for none of DuckDB's."""
    with caller() as connection:
        db = dpsql.attach(connection, who="ann")
        db.register("people", SCHEMA, cap=1)
        assert db.engine.redefined_functions() == []
        connection.execute("FROM dpsql_train('people', epsilon := 0.5, method := 'rdt', trees := 1, depth := 1)")
        assert db.budget("people").spent_text == "0.5"


@pytest.mark.parametrize("value", ["NULL", "'1'"])
def test_an_option_that_no_method_knows_charges_nothing(value: str) -> None:
    """A misspelt name is refused, also where its value turned out NULL."""
    with caller() as connection:
        db = dpsql.attach(connection, who="ann")
        db.register("people", SCHEMA, cap=1)
        with pytest.raises(duckdb.Error, match='called "epsilom"'):
            connection.execute(f"FROM dpsql_train('people', method := 'rdt', options := MAP {{'epsilom': {value}}})")
        assert db.budget("people").spent == 0


# Logs.


@pytest.mark.parametrize("statement", LOGS)
def test_no_run_is_charged_where_statements_are_logged(tmp_path: Path, statement: str) -> None:
    """Their texts hold the secret keys of a run. `weaknesses` says so, and what to do."""
    with caller() as connection:
        db = connect(connection, who="ann")
        db.register("people", SCHEMA, cap=1)
        assert not any("log" in weakness for weakness in db.weaknesses())
        connection.execute(statement.format(folder=tmp_path))
        assert any("log" in weakness for weakness in db.weaknesses())
        with pytest.raises(TableChanged, match="logs statements"):
            db.train("people", **TINY)
        assert db.budget("people").spent == 0
        connection.execute("CALL disable_logging()")
        connection.execute("SET GLOBAL log_query_path = ''")
        db.train("people", **TINY)
        assert db.budget("people").spent_text == "0.5"


# Attached databases.


def test_a_ledger_of_an_attached_database_is_not_this_ones(tmp_path: Path) -> None:
    """Its tables are listed beside one's own: they must not be taken for them."""
    path = tmp_path / "other.duckdb"
    with connect(path, create=True, who="ann") as other:
        with other.engine.transaction() as transaction:
            transaction.run(f"CREATE TABLE people AS {ROWS}")
        other.register("people", SCHEMA, cap=1)
        other.train("people", **TINY)
        other.advise("people", buy="0.1")
    with caller() as connection:
        connection.execute(f"ATTACH '{path}' AS other")
        db = connect(connection, who="ann")
        assert db.budgets() == []
        assert list(db.models()["name"]) == []
        with pytest.raises(NotRegistered):
            db.train("people", **TINY)
        db.register("people", SCHEMA, cap=1)
        model = db.train("people", **TINY)
        assert db.evaluate(model.name, "people", epsilon="0.1").epsilon == "0.1"
        assert db.advise("people", buy="0.1").to_dict()["bought"] is not None
        assert db.verify() == []


@pytest.mark.parametrize("macro", ["duckdb_tables() AS TABLE (SELECT * FROM system.main.duckdb_tables() WHERE false)",
                                   "current_database() AS 'other'"])  # fmt: skip
def test_a_macro_hides_no_ledger(tmp_path: Path, macro: str) -> None:
    """DuckDB's `information_schema` calls functions by their short names, which a macro of the file's can have."""
    csv(tmp_path / "people.csv", "x,c,y\n1,a,yes\n")
    with connect(tmp_path, who="ann") as db:
        db.register("people", SCHEMA, cap=1)
        model = db.train("people", **TINY)
    with duckdb.connect(str(tmp_path / LEDGER)) as connection:
        connection.execute(f"CREATE MACRO main.{macro}")
    with connect(tmp_path) as db:
        assert [budget.spent_text for budget in db.budgets()] == ["0.5"]
        assert list(db.models()["name"]) == [model.name]
        assert_no_free_look(db, "people")
