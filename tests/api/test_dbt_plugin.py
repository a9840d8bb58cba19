"""The plugin of dbt-duckdb, without dbt: functions on the connection, macros on each cursor."""

from __future__ import annotations

from types import SimpleNamespace

import duckdb
import pytest

import dpsql
from dpsql.api.dbt_plugin import Plugin
from tests import tables


def test_each_cursor_can_call_dpsql() -> None:
    """A cursor of dbt's trains within a transaction, under the name of the profile; another one reads the model."""
    connection = duckdb.connect()
    plugin = Plugin("dpsql", {"who": "dbt", "threads": "2"}, SimpleNamespace(settings={"threads": "2"}))
    plugin.update_connection_config(None, {})
    plugin.configure_connection(connection)
    db = dpsql.connect(connection)
    tables.fill(db.engine, "people", tables.some_rows())
    tables.fill(db.engine, "fresh", tables.some_rows(12))
    db.register("people", tables.SCHEMA, cap=2)
    with connection.cursor() as first, connection.cursor() as second:
        plugin.configure_cursor(first)
        first.execute("BEGIN")
        train = "FROM dpsql_train('people', method := 'rdt', trees := 2, depth := 2, request_id := 'v1', name := 'm')"
        first.execute(f"CREATE TABLE trained AS {train}")
        first.execute("COMMIT")
        plugin.configure_cursor(second)
        [(query,)] = second.execute("SELECT dpsql_score_sql(model, 'fresh') FROM trained").fetchall()
        second.execute(f"CREATE VIEW scored AS {query}")
    assert [share.name for share in db.budget("people").analysts] == ["dbt"]
    assert connection.execute("SELECT count(prediction) FROM scored").fetchall() == [(18,)]
    connection.close()


def test_the_text_of_a_score_is_that_of_a_public_table() -> None:
    """`dpsql_score_sql` refuses what `dpsql_score` refuses."""
    with duckdb.connect() as connection:
        db = dpsql.attach(connection)
        tables.fill(db.engine, "people", tables.some_rows())
        db.register("people", tables.SCHEMA, cap=2)
        db.train("people", method="rdt", trees=2, depth=2, name="m")
        with pytest.raises(duckdb.Error, match="cannot be read for free"):
            connection.execute("SELECT dpsql_score_sql('m', 'people')").fetchall()


def test_an_unknown_setting_is_refused() -> None:
    """A slip in the profile is told with what there is."""
    with pytest.raises(dpsql.UnknownName, match='Did you mean "who"'):
        Plugin("dpsql", {"whom": "dbt"})
