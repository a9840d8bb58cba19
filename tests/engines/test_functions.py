"""What users define in a database: macros are listed, those in place of a built-in are told apart; added row ids."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.open_database import adopt, open_file
from dpsql.errors import QueryFailed
from tests.hostile import HOSTILE


def test_a_macro_in_place_of_a_built_in_is_found() -> None:
    """A user's macro called like a built-in function is named, others are not."""
    connection = duckdb.connect()
    connection.execute("CREATE MACRO hash(a) AS 1")
    connection.execute("CREATE MACRO mine(a) AS a")
    engine = adopt(connection)
    assert engine.redefined_functions() == ["hash"]
    assert sorted(engine.user_functions()) == ["hash", "mine"]
    connection.close()


def test_a_plain_database_redefines_nothing() -> None:
    """A new database has no functions of users."""
    engine = open_file(":memory:")
    assert (engine.redefined_functions(), engine.user_functions()) == ([], [])
    engine.close()


def with_ids(name: str, make: object = np.arange) -> DuckDBEngine:
    """Create a table of three rows under a name and give it ids."""
    engine = open_file(":memory:")
    quoted = '"' + name.replace('"', '""') + '"'
    with engine.transaction() as transaction:
        transaction.run(f"CREATE TABLE {quoted} AS SELECT range AS n FROM range(3)")
    info = engine.table(name)
    assert info is not None
    engine.add_column(info, "row id", make)  # type: ignore[arg-type]
    return engine


@pytest.mark.parametrize("name", ["people", "made", "rowid", "level_0", *HOSTILE[::20]])
def test_ids_are_added_to_a_table_of_any_name(name: str) -> None:
    """Each row gets its own id, whatever the table is called."""
    engine = with_ids(name)
    info = engine.table(name)
    assert info is not None
    assert [column.name for column in info.columns] == ["n", "row id"]
    quoted = '"' + name.replace('"', '""') + '"'
    with engine.transaction() as transaction:
        rows = transaction.rows(f'SELECT n, "row id" AS id FROM {quoted} ORDER BY n')
    assert [row["id"] for row in rows] == [0, 1, 2]
    engine.close()


def test_ids_that_do_not_fit_leave_no_column() -> None:
    """When the ids cannot be stored, the table is as it was."""
    engine = open_file(":memory:")
    with engine.transaction() as transaction:
        transaction.run("CREATE TABLE people AS SELECT range AS n FROM range(3)")
    info = engine.table("people")
    assert info is not None
    with pytest.raises(QueryFailed):
        engine.add_column(info, "id", lambda count: np.array(["x"] * count, object))
    assert engine.table("people") == info
    engine.close()
