"""Rows of a registered private table are not labelled one by one, where the statement shows that they are asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator

import duckdb
import pytest

import dpsql
from dpsql.api.rows_asked import tables_asked
from dpsql.engines.duckdb.engine import Connection
from tests import tables


@pytest.fixture
def con() -> Iterator[Connection]:
    """Open a connection with "people" registered, "fresh" public, a view of each, and a model "m"."""
    connection = duckdb.connect()
    db = dpsql.attach(connection, who="ann")
    tables.fill(db.engine, "people", tables.some_rows())
    tables.fill(db.engine, "fresh", tables.some_rows(12))
    connection.execute("CREATE VIEW shown AS FROM people; CREATE VIEW open AS FROM fresh")
    db.register("people", tables.SCHEMA, cap=5)
    db.train("people", method="rdt", trees=2, depth=2, name="m")
    yield connection
    connection.close()


PRIVATE = [
    "SELECT dpsql_predict('m', people) FROM people",
    "SELECT dpsql_predict('m', t) FROM PEOPLE AS t",
    "FROM main.people AS p SELECT dpsql_predict('m', p)",
    "SELECT dpsql_predict_proba('m', p) FROM fresh AS f, people AS p",
    "SELECT dpsql_predict('m', {x: x, c: c}) FROM people",
    "SELECT dpsql_predict('m', {x: f.x, c: p.c}) FROM fresh AS f JOIN people AS p USING (person)",
    "SELECT dpsql_predict('m', t) FROM (SELECT * FROM people LIMIT 3) AS t",
    "WITH t AS (FROM people) SELECT count(*) FROM t WHERE dpsql_predict('m', t) = 'yes'",
    "SELECT dpsql_predict('m', shown) FROM shown",
    "CREATE TABLE labels AS SELECT dpsql_predict('m', people) AS label FROM people",
]
FREE = [
    "SELECT dpsql_predict('m', fresh) FROM fresh",
    "SELECT dpsql_predict('m', open) FROM open",
    "SELECT dpsql_predict('m', {x: 1, c: 'a'})",
    "SELECT dpsql_predict('m', {x: 1, c: 'a'}) FROM people",
    "SELECT dpsql_predict('m', f) FROM fresh AS f, people AS p",
    "SELECT dpsql_predict('m', t) FROM (VALUES (1, 'a')) AS t(x, c)",
    "WITH people AS (FROM fresh) SELECT dpsql_predict('m', people) FROM people",
]


@pytest.mark.parametrize("query", PRIVATE)
def test_private_rows_are_refused(con: Connection, query: str) -> None:
    """Whole rows, rows made of columns, views and subqueries: the table is named, and nothing is labelled."""
    with pytest.raises(duckdb.Error, match="cannot be labelled for free"):
        con.execute(query).fetchall()


@pytest.mark.parametrize("query", FREE)
def test_other_rows_are_labelled(con: Connection, query: str) -> None:
    """A private table beside them in the statement does not matter."""
    assert con.execute(query).fetchall()


def test_a_table_that_is_registered_later_is_refused_too(con: Connection) -> None:
    """What was found to be free is looked at again after a moment."""
    query = "SELECT count(dpsql_predict('m', fresh)) FROM fresh"
    con.execute(query).fetchall()
    dpsql.attach(con).register("fresh", tables.SCHEMA, cap=1)
    with pytest.raises(duckdb.Error, match="cannot be labelled for free"):
        _ask_until(con, query, time.monotonic() + 30)


def _ask_until(con: Connection, query: str, deadline: float) -> None:
    while time.monotonic() < deadline:
        con.execute(query).fetchall()


@pytest.mark.parametrize("statement", ["", "EXECUTE later", "SELECT dpsql_predict(", "SELECT dpsql_predict()"])
def test_what_cannot_be_read_is_not_seen(statement: str) -> None:
    """A statement without the call, or one that the parser does not know, names no table."""
    assert tables_asked(statement) == []
