"""A workspace: rows that wait between statements, seen by nobody else and gone with it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest
import sqlglot
from sqlglot import exp

from dpsql.engines.base import Workspace
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.open_database import adopt, open_file
from dpsql.errors import QueryFailed

SECRET = "a-secret-cell"
ROWS = ["CREATE TABLE people(name VARCHAR, n INTEGER)", f"INSERT INTO people VALUES ('{SECRET}', 1), ('other', 2)"]
KEEP = "SELECT n AS node FROM main.people"
COUNT = "SELECT node, COUNT(*) AS rows FROM kept_0 GROUP BY node"
ADOPTED = "adopted"


@pytest.fixture(params=["memory", "file", ADOPTED])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DuckDBEngine]:
    """Open a database with two rows: in memory, in a file, or on a connection of the caller's own."""
    if request.param == ADOPTED:
        connection = duckdb.connect()
        engine = adopt(connection)
    elif request.param == "file":
        engine = open_file(tmp_path / "data.duckdb", create=True)
        connection = engine.connection
    else:
        engine = open_file(":memory:")
        connection = engine.connection
    for statement in ROWS:
        with engine.transaction() as transaction:
            transaction.run(statement)
    yield engine
    connection.close()


def sql(text: str) -> exp.Expr:
    """Return a statement as an expression."""
    return sqlglot.parse_one(text, dialect="duckdb")


def nodes(here: Workspace, name: str = "kept_0") -> list[int]:
    """Return the nodes of the rows that are kept under a name."""
    found = here.aggregate(sql(f"SELECT node, COUNT(*) AS rows FROM {name} GROUP BY node"), {})
    return sorted(np.repeat(found["node"], found["rows"]).tolist())


def everywhere(engine: DuckDBEngine) -> list[str]:
    """Return every table that a cursor of its own sees, temporary ones too."""
    cursor = engine.connection.cursor()
    found = cursor.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY ALL").fetchall()
    cursor.close()
    return [name for (name,) in found]


def test_kept_rows_serve_the_next_statement(opened: DuckDBEngine) -> None:
    """What was kept can be counted and kept further, with small tables joined in."""
    with opened.workspace() as here:
        here.keep("kept_0", sql(KEEP), {})
        assert nodes(here) == [1, 2]
        further = sql("SELECT kept_0.node * 10 + roots.node AS node FROM kept_0 CROSS JOIN roots")
        here.keep("kept_1", further, {"roots": {"node": np.arange(2)}})
        assert nodes(here, "kept_1") == [10, 11, 20, 21]
        assert nodes(here) == [1, 2]


def test_keep_replaces_what_was_there(opened: DuckDBEngine) -> None:
    """The same name holds the last rows alone, even where they are made from those before."""
    with opened.workspace() as here:
        here.keep("kept_0", sql(KEEP), {})
        here.keep("kept_0", sql("SELECT node + 5 AS node FROM kept_0"), {})
        assert nodes(here) == [6, 7]
        here.keep("kept_0", sql("SELECT node FROM kept_0 WHERE node > 99"), {})
        assert nodes(here) == []


def test_small_tables_are_replaced_for_each_statement(opened: DuckDBEngine) -> None:
    """A table that comes with a statement takes the place of an earlier one of the same name."""
    with opened.workspace() as here:
        query = sql("SELECT SUM(CASE WHEN node > 0 THEN 1 ELSE 0 END) AS n FROM roots")
        found = [here.aggregate(query, {"roots": {"node": np.arange(k)}})["n"].tolist() for k in (5, 3)]
    assert found == [[4], [2]]


def test_a_kept_table_stands_in_for_no_real_one(opened: DuckDBEngine) -> None:
    """Rows kept under the name of a private table do not take its place where the schema is named."""
    with opened.workspace() as here:
        here.keep("people", sql("SELECT n + 100 AS n FROM main.people"), {})
        found = here.aggregate(sql("SELECT SUM(n) AS n FROM main.people"), {})
    assert found["n"].tolist() == [3]


def test_kept_rows_are_seen_by_nobody_else(opened: DuckDBEngine) -> None:
    """Another cursor, another workspace, the caller's connection and the catalog know nothing of them."""
    with opened.workspace() as here:
        here.keep("kept_0", sql(KEEP), {"roots": {"node": np.arange(2)}})
        assert everywhere(opened) == ["people"]
        for other in (opened.connection, opened.connection.cursor()):
            with pytest.raises(duckdb.CatalogException):
                other.execute("FROM kept_0")
        with opened.workspace() as there, pytest.raises(QueryFailed):
            there.aggregate(sql(COUNT), {})
        with opened.workspace() as there:
            there.keep("kept_0", sql("SELECT 77 AS node FROM main.people"), {})
            assert nodes(there) == [77, 77]
        assert nodes(here) == [1, 2]
        assert opened.tables() == ["people"]
        assert opened.table("kept_0") is None


def test_kept_rows_are_gone_when_the_workspace_closes(opened: DuckDBEngine) -> None:
    """After the block nothing is left, and the next workspace starts empty."""
    with opened.workspace() as here:
        here.keep("kept_0", sql(KEEP), {"roots": {"node": np.arange(2)}})
    assert everywhere(opened) == ["people"]
    with opened.workspace() as again, pytest.raises(QueryFailed):
        again.aggregate(sql(COUNT), {})
    with pytest.raises(QueryFailed):
        here.aggregate(sql(COUNT), {})


def test_kept_rows_are_gone_after_an_error(opened: DuckDBEngine) -> None:
    """An error inside the block goes through, and nothing is left behind it."""

    def interrupted() -> None:
        with opened.workspace() as here:
            here.keep("kept_0", sql(KEEP), {})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert everywhere(opened) == ["people"]
    with opened.workspace() as again, pytest.raises(QueryFailed):
        again.aggregate(sql(COUNT), {})


def test_no_kept_row_reaches_the_file(tmp_path: Path) -> None:
    """Temporary rows are not written to the database file, which is opened again without them."""
    path = tmp_path / "data.duckdb"
    engine = open_file(path, create=True)
    with engine.workspace() as here:
        here.keep("kept_0", sql(f"SELECT '{SECRET}' AS node"), {})
        with engine.transaction() as transaction:
            transaction.run("CHECKPOINT")
    engine.close()
    assert SECRET.encode() not in path.read_bytes()
    again = open_file(path)
    assert everywhere(again) == []
    again.close()


def test_a_read_only_database_has_workspaces_too(tmp_path: Path) -> None:
    """Rows can be kept and counted where nothing can be written."""
    engine = open_file(tmp_path / "data.duckdb", create=True)
    for statement in ROWS:
        with engine.transaction() as transaction:
            transaction.run(statement)
    engine.close()
    engine = open_file(tmp_path / "data.duckdb", read_only=True)
    with engine.workspace() as here:
        here.keep("kept_0", sql(KEEP), {})
        assert nodes(here) == [1, 2]
    engine.close()


FAILURES: dict[str, Callable[[Workspace], object]] = {
    "cast in keep": lambda here: here.keep("kept_0", sql("SELECT CAST(name AS INTEGER) AS node FROM main.people"), {}),
    "error in keep": lambda here: here.keep("kept_0", sql("SELECT error(name) AS node FROM main.people"), {}),
    "cast in aggregate": lambda here: here.aggregate(
        sql("SELECT SUM(CAST(name AS INTEGER)) AS n FROM main.people"), {}
    ),
    "cast of a kept row": lambda here: (
        here.keep("kept_0", sql("SELECT name AS node FROM main.people"), {}),
        here.aggregate(sql("SELECT SUM(CAST(node AS INTEGER)) AS n FROM kept_0"), {}),
    ),
    "a typo": lambda here: here.keep("kept_0", sql("SELECT nobody AS node FROM main.people"), {}),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_errors_say_nothing_of_the_rows(opened: DuckDBEngine, failure: str) -> None:
    """A failing statement raises one error of ours, whatever failed: no text, cause or context holds a cell."""
    with opened.workspace() as here:
        with pytest.raises(QueryFailed) as caught:
            FAILURES[failure](here)
        error = caught.value
        everything = [str(error), repr(error), repr(error.args), repr(vars(error)), *traceback.format_exception(error)]
        assert not any(SECRET in text for text in everything)
        assert (error.__cause__, error.__context__) == (None, None)
        assert error.kind == "why is withheld too"
    with opened.workspace() as again:
        again.keep("kept_1", sql(KEEP), {})
        assert nodes(again, "kept_1") == [1, 2]


def test_duckdbs_own_error_does_quote_the_cell(opened: DuckDBEngine) -> None:
    """The test above has power: the engine's own words hold the cell."""
    with pytest.raises(duckdb.Error, match=SECRET):
        opened.connection.cursor().execute("CREATE TEMP TABLE k AS SELECT name::INTEGER AS node FROM people")


@pytest.mark.parametrize("length", [2, 5000])
def test_a_workspace_answers_nothing_after_a_failure(opened: DuckDBEngine, length: int) -> None:
    """Its transaction is over: to go on would be in another state of the table."""
    with opened.workspace() as here:
        here.keep("kept_0", sql(KEEP), {})
        with pytest.raises(QueryFailed):
            FAILURES["cast in keep"](here)
        with pytest.raises(QueryFailed):
            here.aggregate(sql(COUNT), {"roots": {"node": np.arange(length)}})


def setting(connection: duckdb.DuckDBPyConnection) -> str:
    """Return the optimizers that are switched off."""
    return str(connection.execute("SELECT current_setting('disabled_optimizers')").fetchall()[0][0])


@pytest.mark.parametrize("before", ["", "filter_pushdown", "join_order,unused_columns"])
@pytest.mark.parametrize("fails", [False, True])
def test_an_adopted_connection_gets_its_optimizers_back(before: str, fails: bool) -> None:
    """The caller's setting is ours inside a workspace and the caller's own again after it, errors or not."""
    connection = duckdb.connect()
    for statement in (*ROWS, f"SET disabled_optimizers = '{before}'"):
        connection.execute(statement)
    before = setting(connection)

    def use() -> str:
        with adopt(connection).workspace() as here:
            here.keep("kept_0", sql(KEEP), {})
            inside = setting(connection)
            if fails:
                FAILURES["cast in keep"](here)
            return inside

    if fails:
        with pytest.raises(QueryFailed):
            use()
    else:
        assert set(use().split(",")) == {"join_order", "build_side_probe_side"}
    assert setting(connection) == before
    connection.close()


def test_an_adopted_connection_with_a_locked_configuration_works() -> None:
    """Where the setting cannot be changed the workspace does without, and changes nothing."""
    connection = duckdb.connect()
    for statement in (*ROWS, "SET disabled_optimizers = 'filter_pushdown'", "SET lock_configuration = true"):
        connection.execute(statement)
    with adopt(connection).workspace() as here:
        here.keep("kept_0", sql(KEEP), {})
        assert nodes(here) == [1, 2]
    assert setting(connection) == "filter_pushdown"
    connection.close()


def test_an_adopted_connection_keeps_its_own_temporary_tables_and_results() -> None:
    """A workspace touches neither the caller's temporary tables nor a result that is not yet fetched."""
    connection = duckdb.connect()
    for statement in (*ROWS, "CREATE TEMP TABLE kept_0 AS SELECT 42 AS node"):
        connection.execute(statement)
    connection.execute("SELECT n FROM people ORDER BY n")
    with adopt(connection).workspace() as here:
        here.keep("kept_0", sql(KEEP), {})
        assert nodes(here) == [1, 2]
    assert connection.fetchall() == [(1,), (2,)]
    assert connection.execute("FROM kept_0").fetchall() == [(42,)]
    connection.close()


@pytest.mark.parametrize("length", [1, 5, 5000])
def test_small_tables_keep_their_types_and_values(opened: DuckDBEngine, length: int) -> None:
    """Short tables go over as lists and long ones as frames: types and extreme values are the same."""
    columns = {
        "node": np.arange(length, dtype=np.int32),
        "shift": np.full(length, 255, np.uint8),
        "axis": np.full(length, -1, np.int16),
        "weight": np.full(length, -(2**62), np.int64),
        "plane_0": np.full(length, 2**64 - 1, np.uint64),
    }
    query = sqlglot.parse_one(
        "SELECT COUNT(*) AS rows, MAX(plane_0) AS plane, MIN(weight) AS weight, MAX(shift) AS shift, "
        "MIN(axis) AS axis, MAX(node) AS node, MAX(typeof(plane_0)) AS kind, MAX(typeof(axis)) AS small FROM level_0",
        dialect="duckdb",
    )
    with opened.workspace() as here:
        found = {name: values[0] for name, values in here.aggregate(query, {"level_0": columns}).items()}
    assert (found["rows"], found["plane"], found["weight"]) == (length, 2**64 - 1, -(2**62))
    assert (found["shift"], found["axis"], found["node"]) == (255, -1, length - 1)
    assert (found["kind"], found["small"]) == ("UBIGINT", "SMALLINT")
