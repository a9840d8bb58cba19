"""A connection that Ibis opened is as good as its driver's own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.api import census
from dpsql.errors import ParameterError
from dpsql.schema import Numeric, Schema
from tests.servers import fresh_database

ibis = pytest.importorskip("ibis")


def test_an_ibis_connection_to_duckdb(tmp_path: Path) -> None:
    """Register and train through it; it stays open, and the charge is in the file."""
    backend = ibis.duckdb.connect(str(tmp_path / "people.duckdb"))
    backend.con.register("made", census.rows(300, seed=1))
    backend.con.execute("CREATE TABLE adult AS SELECT * FROM made")
    with dpsql.connect(backend) as db:
        db.register("adult", census.SCHEMA, cap=1)
        db.train("adult", method="rdt", trees=2, depth=2)
        assert db.budget("adult").spent_text == "1"
    assert backend.con.execute("SELECT COUNT(*) FROM adult").fetchall() == [(300,)]
    backend.disconnect()


def test_an_ibis_connection_to_postgresql() -> None:
    """Its own connection is left alone."""
    url = fresh_database()
    backend = ibis.connect(url)
    label = "CASE WHEN random() < 0.5 THEN 'a' ELSE 'b' END"
    backend.con.execute(f"CREATE TABLE people AS SELECT random() AS x, {label} AS y FROM generate_series(1, 200)")
    backend.con.commit()
    schema = Schema("y", ("a", "b"), (Numeric("x", 0, 1),))
    with dpsql.connect(backend) as db:
        db.register("people", schema, cap=1)
        db.train("people", method="rdt", trees=2, depth=2)
        assert db.budget("people").spent_text == "1"
    assert backend.list_tables() == ["people"]
    backend.disconnect()


@pytest.mark.parametrize("con", [None, object(), "duckdb"])
def test_another_backend_is_refused(con: Any) -> None:
    """The error says what to pass instead."""
    backend = type("Backend", (SimpleNamespace,), {"__module__": "ibis.backends.trino"})(con=con, name="trino")
    with pytest.raises(ParameterError, match="Ibis connection to DuckDB or PostgreSQL, not 'trino'"):
        dpsql.connect(backend)


def test_a_connection_of_duckdb_itself_is_one_too() -> None:
    """With or without Ibis around it."""
    connection = duckdb.connect()
    dpsql.connect(connection).close()
    assert connection.execute("SELECT 1").fetchall() == [(1,)]
