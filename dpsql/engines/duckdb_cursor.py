"""Work on one DuckDB cursor: statements with their errors replaced, temporary tables, transactions, a workspace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import duckdb
import numpy as np
import pandas as pd
from sqlglot import exp

from dpsql.engines.base import Arrays, Conflict, Row
from dpsql.engines.duckdb_vocabulary import DIALECT
from dpsql.errors import DatabaseReadOnly, QueryFailed

_Result = TypeVar("_Result")
StandIn = Callable[[exp.Table], exp.Expr | None]
#: The one thing done on private rows: not even the kind of its failure is told.
COUNTING = "count the rows"
READ_ONLY = "the database was opened read-only, and this needs to write to its ledger."

#: Tables of up to so many rows are handed over as lists, and the types that these may have.
SHORT = 4096
_LISTED = {
    "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "uint8": "UTINYINT", "uint64": "UBIGINT",
}  # fmt: skip


def guarded(doing: str, act: Callable[[], _Result]) -> _Result:
    """Do something in the engine; replace its errors, whose texts can quote cells, by our own.

    The new error is raised outside the except block, so that not even its context holds the old text.
    """
    problem: Exception
    try:
        return act()
    except duckdb.TransactionException:
        problem = Conflict()
    except duckdb.ConstraintException:
        problem = Conflict()
    except duckdb.InvalidInputException as error:
        read_only = "read-only" in str(error).lower()
        problem = DatabaseReadOnly(READ_ONLY) if read_only else QueryFailed(doing, type(error).__name__)
    except duckdb.OutOfMemoryException as error:
        problem = QueryFailed(doing, type(error).__name__, hint="fewer trees, less depth, or more memory")
    except duckdb.Error as error:
        problem = QueryFailed(doing, type(error).__name__)
    if doing == COUNTING and isinstance(problem, QueryFailed):
        problem = QueryFailed(COUNTING, "why is withheld too")
    raise problem


def fetch(cursor: duckdb.DuckDBPyConnection, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """Run a query on the catalog or the settings and return its rows."""
    return guarded("read its catalog", lambda: cursor.execute(query, list(parameters)).fetchall())


def no_stand_in(table: exp.Table) -> exp.Expr | None:
    """Leave every table as it is."""
    return None


def in_this_database(cursor: duckdb.DuckDBPyConnection, query: exp.Expr, stand_in: StandIn = no_stand_in) -> str:
    """Render a query; a table with a schema gets the database too, so that no temporary table can stand in for it.

    `stand_in` gives what to read in place of a table that is files.
    """
    if not any(table.db for table in query.find_all(exp.Table)):
        return query.sql(DIALECT, copy=False)
    database = fetch(cursor, "SELECT current_database()")[0][0]

    def qualify(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Table) and node.args.get("db") and not node.args.get("catalog"):
            other = stand_in(node)
            if other is not None:
                return other
            node.set("catalog", exp.to_identifier(database, quoted=True))
        return node

    return query.transform(qualify).sql(DIALECT, copy=False)


def load(
    cursor: duckdb.DuckDBPyConnection, name: str, columns: pd.DataFrame | Mapping[str, np.ndarray[Any, Any]]
) -> None:
    """Create a temporary table of the cursor's own from whole columns."""
    if not isinstance(columns, pd.DataFrame) and all(_listed(values) for values in columns.values()):
        lists = [values.tolist() for values in columns.values()]
        text = _from_lists(name, tuple((column, str(values.dtype)) for column, values in columns.items()))
        guarded("load a temporary table", lambda: cursor.execute(text, lists))
        return
    frame = columns if isinstance(columns, pd.DataFrame) else pd.DataFrame(dict(columns))
    statement = temporary(name, exp.select("*").from_("dpsql_batch"))

    def create() -> None:
        cursor.register("dpsql_batch", frame)
        cursor.execute(statement.sql(DIALECT))
        cursor.unregister("dpsql_batch")

    guarded("load a temporary table", create)


def _listed(values: np.ndarray[Any, Any]) -> bool:
    """Whether a column is short and of whole numbers: handed over as a list it is there in a third of the time."""
    return 0 < len(values) <= SHORT and str(values.dtype) in _LISTED


@cache
def _from_lists(name: str, columns: tuple[tuple[str, str], ...]) -> str:
    """Return the statement that makes a temporary table of one list for each column."""
    query = exp.Select()
    for column, kind in columns:
        values = exp.cast(exp.Placeholder(), exp.DataType.build(f"{_LISTED[kind]}[]", dialect=DIALECT))
        query = query.select(exp.alias_(exp.func("UNNEST", values), column, quoted=True), copy=False)
    return temporary(name, query).sql(DIALECT)


def temporary(name: str, query: exp.Expr) -> exp.Create:
    """Return the statement that keeps a query's rows in a temporary table, in place of one of the same name."""
    return exp.Create(
        this=exp.table_(name, quoted=True),
        kind="TABLE",
        replace=True,
        properties=exp.Properties(expressions=[exp.TemporaryProperty()]),
        expression=query,
    )


class DuckDBWorkspace:
    """Temporary tables and aggregates on one cursor; `check` raises when what stands in for tables has changed."""

    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        stand_in: StandIn = no_stand_in,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._cursor = cursor
        self._stand_in = stand_in
        self._check = check

    def keep(self, name: str, query: exp.Expr, tables: Mapping[str, Mapping[str, np.ndarray[Any, Any]]]) -> None:
        """Keep the rows of a checked query in a temporary table of the cursor's own."""
        text = self._ready(temporary(name, query), tables)
        guarded(COUNTING, lambda: self._cursor.execute(text).fetchall())
        self._check()

    def aggregate(self, query: exp.Expr, tables: Mapping[str, Mapping[str, np.ndarray[Any, Any]]]) -> Arrays:
        """Run one checked aggregate over private or kept rows."""
        text = self._ready(query, tables)
        result = guarded(COUNTING, lambda: self._cursor.execute(text).fetchnumpy())
        self._check()
        return {name: np.ma.getdata(values) for name, values in result.items()}

    def _ready(self, query: exp.Expr, tables: Mapping[str, Mapping[str, np.ndarray[Any, Any]]]) -> str:
        for name, columns in tables.items():
            load(self._cursor, name, columns)
        text = in_this_database(self._cursor, query, self._stand_in)
        self._check()
        return text


class DuckDBTransaction:
    """Statements on one cursor inside an open transaction."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor

    def run(self, statement: str | exp.Expr, parameters: Sequence[object] = ()) -> int:
        """Run a statement and return the number of rows it changed."""
        result = guarded("write to its own tables", lambda: self._execute(statement, parameters).fetchall())
        return int(result[0][0]) if result and len(result[0]) == 1 and isinstance(result[0][0], int) else 0

    def rows(self, statement: str | exp.Expr, parameters: Sequence[object] = ()) -> list[Row]:
        """Run a query and return its rows as dictionaries."""

        def read() -> list[Row]:
            result = self._execute(statement, parameters)
            names = [column[0] for column in result.description or []]
            return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

        return guarded("read its own tables", read)

    def arrays(self, statement: str | exp.Expr, parameters: Sequence[object] = ()) -> Arrays:
        """Run a query and return its columns as arrays."""
        found = guarded("read its own tables", lambda: self._execute(statement, parameters).fetchnumpy())
        return {name: np.ma.getdata(values) for name, values in found.items()}

    def load(self, name: str, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Create a temporary table from whole columns."""
        load(self._cursor, name, columns)

    def insert(self, table: str, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Append whole columns to a table of schema `dpsql`."""
        names = [exp.to_identifier(name, quoted=True) for name in columns]
        statement = exp.Insert(
            this=exp.Schema(this=exp.table_(table, db="dpsql", quoted=True), expressions=names),
            expression=exp.select(*names).from_(exp.to_table("dpsql_batch")),
        )

        def append() -> None:
            self._cursor.register("dpsql_batch", pd.DataFrame(dict(columns)))
            self._cursor.execute(statement.sql(DIALECT))
            self._cursor.unregister("dpsql_batch")

        guarded("write to its own tables", append)

    def _execute(self, statement: str | exp.Expr, parameters: Sequence[object]) -> duckdb.DuckDBPyConnection:
        text = statement if isinstance(statement, str) else statement.sql(DIALECT)
        return self._cursor.execute(text, list(parameters))
