"""Work on one DuckDB cursor: statements with their errors replaced, temporary tables, transactions, a workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from sqlglot import exp

from dpsql.engines.base import Arrays, Conflict, Row, Tables
from dpsql.engines.duckdb.vocabulary import DIALECT
from dpsql.engines.error_replacement import COUNTING, ErrorReplacement
from dpsql.engines.interruption import hold_interrupts
from dpsql.errors import DatabaseError, DatabaseReadOnly, DiskFull, DpsqlError, QueryFailed

#: Returns what to read in place of a table, or None to leave the table as it is.
StandIn = Callable[[exp.Table], exp.Expr | None]
#: A question to the catalog of the present database.
_LOOK = "SELECT COUNT(*) FROM system.main.duckdb_tables() WHERE database_name = system.main.current_database()"
#: Whether dpsql's own schema has a table. Attached databases are listed, too; their tables are not this database's.
_HAS_TABLE = """
SELECT 1 FROM system.main.duckdb_tables()
WHERE database_name = system.main.current_database() AND schema_name = 'dpsql' AND table_name = ?
"""
_CATALOG_COLUMNS = """
SELECT table_schema, table_name, column_name, data_type, column_default FROM information_schema.columns
WHERE table_schema NOT IN ('information_schema', 'pg_catalog') AND table_catalog = system.main.current_database()
"""
_LOADING = "load a temporary table"
READ_ONLY = "the database was opened read-only, and this needs to write to its ledger."
DISK_FULL = "there is no room left on the disk for the database file."
#: The system's words for a full disk, a full quota, and a file at its size limit; DuckDB's for its temporary folder.
_FULL = ("no space left on device", "disk quota exceeded", "file too large", "not enough disk space")

#: The rows that DuckDB computes at a time.
_VECTOR = 2048
#: Rows up to which a table is handed over as lists.
SHORT = 4096
#: Types of columns that are handed over as lists, each with DuckDB's name for it.
_LISTED = {
    "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "uint8": "UTINYINT", "uint64": "UBIGINT",
}  # fmt: skip


def is_full(error: duckdb.Error) -> bool:
    """Whether an error says that there is no room on the disk. A failed commit has the class of a conflict."""
    text = str(error).lower()
    return any(words in text for words in _FULL)


def _reword(doing: str, error: Exception) -> Exception:
    """Return our own error for one of DuckDB's."""
    assert isinstance(error, duckdb.Error)
    lost = isinstance(error, duckdb.TransactionException) and not is_full(error)
    if lost or isinstance(error, duckdb.ConstraintException):
        # Nobody competes for a temporary table: there it is an earlier failure that ended the transaction.
        return replace_errors.failed_count() if doing == _LOADING else Conflict()
    return _reword_failure(doing, error)


def _reword_failure(doing: str, error: duckdb.Error) -> DpsqlError:
    kind = type(error).__name__
    if isinstance(error, duckdb.InvalidInputException):
        return DatabaseReadOnly(READ_ONLY) if "read-only" in str(error).lower() else QueryFailed(doing, kind)
    if isinstance(error, duckdb.OutOfMemoryException):
        return QueryFailed(doing, kind, hint="fewer trees, less depth, or more memory")
    return DiskFull(DISK_FULL, hint="make room, then try again") if is_full(error) else QueryFailed(doing, kind)


replace_errors = ErrorReplacement((duckdb.Error,), _reword)


def fetch_from_duckdb(
    cursor: duckdb.DuckDBPyConnection, query: str, parameters: Sequence[object] = ()
) -> list[tuple[Any, ...]]:
    """Run a query on the catalog or the settings and return its rows."""
    return replace_errors("read its catalog", lambda: cursor.execute(query, list(parameters)).fetchall())


@contextmanager
def hold_one_state(cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Hold one state of the database for all statements of a block; what they kept is gone after it.

    BEGIN alone fixes nothing: DuckDB takes the state of a database when a transaction first looks at it, so the catalog
    is looked at right away. Others may write, alter, drop and check-point meanwhile; rows and their addresses stay.
    """
    replace_errors("begin a transaction", cursor.begin)
    try:
        fetch_from_duckdb(cursor, _LOOK)
        yield
    finally:
        rollback_quietly(cursor)


def fetch_chunks(cursor: duckdb.DuckDBPyConnection, text: str, rows: int) -> Iterator[pd.DataFrame]:
    """Run a query and yield its rows while it runs; days are `datetime.date`, to tell them from moments."""
    doing, vectors = "read the table", max(1, rows // _VECTOR)
    replace_errors(doing, lambda: cursor.execute(text), cursor.interrupt)
    days = [name for name, kind, *_ in cursor.description or [] if str(kind) == "DATE"]
    first = True
    while True:
        chunk = replace_errors(doing, lambda: cursor.fetch_df_chunk(vectors), cursor.interrupt)
        if chunk.empty and not first:
            return
        first = False
        yield chunk.assign(**{name: chunk[name].dt.date for name in days}) if days else chunk


def rollback_quietly(cursor: duckdb.DuckDBPyConnection) -> None:
    """Undo a transaction, unless a failed commit already did."""
    with hold_interrupts(), suppress(duckdb.Error):
        cursor.rollback()


def compare_bytes(cursor: duckdb.DuckDBPyConnection) -> None:
    """Let texts be equal where their bytes are, on this cursor alone, whatever the caller's default collation is.

    Raises DatabaseError where that collation is locked.
    """
    if try_set(cursor, "SET SESSION default_collation = ''"):
        return
    rule = fetch_from_duckdb(cursor, "SELECT system.main.current_setting('default_collation')")[0][0]
    if rule:
        raise DatabaseError(
            f'this connection compares texts by the collation "{rule}", under which different texts are equal.',
            hint="connect without default_collation",
        )


def try_set(cursor: duckdb.DuckDBPyConnection, statement: str) -> bool:
    """Change a setting, and return whether that was allowed."""
    try:
        cursor.execute(statement)
    except duckdb.Error:
        return False  # a locked configuration
    return True


def no_stand_in(table: exp.Table) -> exp.Expr | None:
    """Leave every table as it is."""
    return None


def render_for_this_database(
    cursor: duckdb.DuckDBPyConnection, query: exp.Expr, stand_in: StandIn = no_stand_in
) -> str:
    """Render a query; a table with a schema gets the database too, so that no temporary table can stand in for it.

    `stand_in` gives what to read in place of a table that is files.
    """
    if not any(table.db for table in query.find_all(exp.Table)):
        return query.sql(DIALECT, copy=False)
    database = fetch_from_duckdb(cursor, "SELECT system.main.current_database()")[0][0]

    def qualify(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Table) and node.args.get("db") and not node.args.get("catalog"):
            other = stand_in(node)
            if other is not None:
                return other
            node.set("catalog", exp.to_identifier(database, quoted=True))
        return node

    return query.transform(qualify).sql(DIALECT, copy=False)


def load_into_duckdb(
    cursor: duckdb.DuckDBPyConnection, name: str, columns: pd.DataFrame | Mapping[str, np.ndarray[Any, Any]]
) -> None:
    """Create a temporary table of the cursor's own from whole columns."""
    if not isinstance(columns, pd.DataFrame) and all(_is_short_list(values) for values in columns.values()):
        lists = [values.tolist() for values in columns.values()]
        text = _table_from_lists(name, tuple((column, str(values.dtype)) for column, values in columns.items()))
        replace_errors(_LOADING, lambda: cursor.execute(text, lists))
        return
    frame = columns if isinstance(columns, pd.DataFrame) else pd.DataFrame(dict(columns))
    statement = create_temporary(name, exp.select("*").from_("dpsql_batch"))

    def create() -> None:
        cursor.register("dpsql_batch", frame)
        cursor.execute(statement.sql(DIALECT))
        cursor.unregister("dpsql_batch")

    replace_errors(_LOADING, create)


def _is_short_list(values: np.ndarray[Any, Any]) -> bool:
    """Whether a column is short and of whole numbers: handed over as a list it is there in a third of the time."""
    return 0 < len(values) <= SHORT and str(values.dtype) in _LISTED


@cache
def _table_from_lists(name: str, columns: tuple[tuple[str, str], ...]) -> str:
    """Return the statement that makes a temporary table of one list for each column."""
    query = exp.Select()
    for column, kind in columns:
        values = exp.cast(exp.Placeholder(), exp.DataType.build(f"{_LISTED[kind]}[]", dialect=DIALECT))
        query = query.select(exp.alias_(exp.func("UNNEST", values), column, quoted=True), copy=False)
    return create_temporary(name, query).sql(DIALECT)


def create_temporary(name: str, query: exp.Expr) -> exp.Create:
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

    def keep(self, name: str, query: exp.Expr, tables: Tables) -> None:
        """Keep the rows of a checked query in a temporary table of the cursor's own."""
        text = self._prepare(create_temporary(name, query), tables)
        replace_errors(COUNTING, lambda: self._cursor.execute(text).fetchall(), self._cursor.interrupt)
        self._check()

    def aggregate(self, query: exp.Expr, tables: Tables) -> Arrays:
        """Run one checked aggregate over private or kept rows."""
        text = self._prepare(query, tables)
        result = replace_errors(COUNTING, lambda: self._cursor.execute(text).fetchnumpy(), self._cursor.interrupt)
        self._check()
        return {name: np.ma.getdata(values) for name, values in result.items()}

    def _prepare(self, query: exp.Expr, tables: Tables) -> str:
        for name, columns in tables.items():
            load_into_duckdb(self._cursor, name, columns)
        text = render_for_this_database(self._cursor, query, self._stand_in)
        self._check()
        return text


class DuckDBTransaction:
    """Statements on one cursor inside an open transaction."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor

    def run(self, statement: str | exp.Expr, parameters: Sequence[object] = ()) -> int:
        """Run a statement and return the number of rows it changed."""
        result = replace_errors("write to its own tables", lambda: self._execute(statement, parameters).fetchall())
        return int(result[0][0]) if result and len(result[0]) == 1 and isinstance(result[0][0], int) else 0

    def rows(self, statement: str | exp.Expr, parameters: Sequence[object] = ()) -> list[Row]:
        """Run a query and return its rows as dictionaries."""

        def read() -> list[Row]:
            result = self._execute(statement, parameters)
            names = [column[0] for column in result.description or []]
            return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

        return replace_errors("read its own tables", read)

    def arrays(self, statement: str | exp.Expr, parameters: Sequence[object] = ()) -> Arrays:
        """Run a query and return its columns as arrays."""
        columns = replace_errors("read its own tables", lambda: self._execute(statement, parameters).fetchnumpy())
        return {name: np.ma.getdata(values) for name, values in columns.items()}

    def load(self, name: str, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Create a temporary table from whole columns."""
        load_into_duckdb(self._cursor, name, columns)

    def has_table(self, name: str) -> bool:
        """Return whether schema `dpsql` of this database has a table of that name."""
        return bool(self.rows(_HAS_TABLE, (name,)))

    def catalog_columns(self) -> list[Row]:
        """Return a row for each column of each table and view, those of the database's own catalog left out."""
        return self.rows(_CATALOG_COLUMNS)

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

        replace_errors("write to its own tables", append)

    def _execute(self, statement: str | exp.Expr, parameters: Sequence[object]) -> duckdb.DuckDBPyConnection:
        text = statement if isinstance(statement, str) else statement.sql(DIALECT)
        return self._cursor.execute(text, list(parameters))
