"""Work on one PostgreSQL connection: statements with their errors replaced, temporary tables, transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import psycopg
from psycopg import errors as server
from sqlglot import exp

from dpsql.engines.base import Arrays, Conflict, Row, TableInfo, Tables, check_same
from dpsql.engines.error_replacement import COUNTING, ErrorReplacement
from dpsql.engines.postgres.vocabulary import DIALECT
from dpsql.errors import DatabaseError, DatabaseLocked, DatabaseReadOnly, DiskFull, DpsqlError, QueryFailed

Connection = psycopg.Connection[Any]
#: Whether dpsql's own schema has a table. `pg_catalog` is the server's own: no function of a user's stands in for what
#: is called by its full name.
_HAS_TABLE = """
SELECT 1 FROM information_schema.tables
WHERE table_catalog = pg_catalog.current_database() AND table_schema = 'dpsql' AND table_name = ?
"""
_CATALOG_COLUMNS = """
SELECT table_schema, table_name, column_name, data_type, column_default FROM information_schema.columns
WHERE table_schema NOT IN ('information_schema', 'pg_catalog', 'pg_toast')
"""
#: Which table a name means at this moment, whatever the snapshot.
_MEANT = "SELECT CAST(to_regclass(?) AS OID)"
_CONFLICTS = (
    server.SerializationFailure,
    server.DeadlockDetected,
    server.UniqueViolation,
    server.DuplicateTable,
    server.DuplicateSchema,
    server.DuplicateObject,
)
#: Seconds that asking the server to stop a statement may take.
_CANCEL_WAIT = 5.0
_KINDS = {
    "bool": "BOOLEAN", "int16": "SMALLINT", "uint8": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
    "uint64": "BIGINT", "float64": "DOUBLE PRECISION", "float32": "DOUBLE PRECISION",
}  # fmt: skip
#: PostgreSQL's numbers (oids) of the types int8, int2, int4 and oid.
_INTEGER_TYPES = (20, 21, 23, 26)
#: PostgreSQL's numbers (oids) of the types float4, float8 and numeric.
_REAL_TYPES = (700, 701, 1700)


def _reword(doing: str, error: Exception) -> Exception:
    return Conflict() if isinstance(error, _CONFLICTS) else _reword_failure(doing, error)


def _reword_failure(doing: str, error: Exception) -> DpsqlError:
    if isinstance(error, server.LockNotAvailable):
        return DatabaseLocked("another session holds a lock that this needs.", hint="try again, or --wait SECONDS")
    if isinstance(error, server.QueryCanceled):
        return DatabaseError(
            f"the server stopped the attempt to {doing}: it took too long.",
            hint="raise statement_timeout, of the role or in the URL: ?options=-c%20statement_timeout%3D1h",
        )
    if isinstance(error, server.InsufficientPrivilege):
        return DatabaseError(f"this role may not {doing}.", hint="dpsql doctor --db …, or ask the owner")
    if isinstance(error, server.DiskFull):
        return DiskFull("there is no room left on the server's disk.", hint="make room there, then try again")
    if isinstance(error, server.ReadOnlySqlTransaction):
        return DatabaseReadOnly(
            "the server is read-only, and this needs to write.", hint="connect to the primary server"
        )
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and not isinstance(
        error, (server.OutOfMemory, server.DiskFull, server.ProgramLimitExceeded)
    ):
        return DatabaseError(f"the connection to the server was lost in the attempt to {doing}.", hint="try again")
    return QueryFailed(doing, type(error).__name__)


replace_errors = ErrorReplacement((psycopg.Error,), _reword)


def stop_of(connection: Connection) -> Callable[[], None]:
    """Return what has the server stop the statement that a connection runs."""

    def stop() -> None:
        with suppress(psycopg.Error):  # asked again, unless the statement has ended
            connection.cancel_safe(timeout=_CANCEL_WAIT)

    return stop


def render(query: str | exp.Expr) -> str:
    """Return the text of a statement."""
    return query if isinstance(query, str) else query.sql(DIALECT, copy=False)


def execute(
    connection: Connection, statement: str | exp.Expr, parameters: Sequence[object] = ()
) -> psycopg.Cursor[Any]:
    """Run a statement; `?` marks a parameter, whose value never becomes SQL text."""
    text = render(statement)
    if not parameters:
        return connection.execute(text.encode())
    return connection.execute(text.replace("%", "%%").replace("?", "%s").encode(), tuple(parameters))


def fetch_from_postgres(connection: Connection, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """Run a query on the catalog or the settings and return its rows."""
    return replace_errors("read its catalog", lambda: execute(connection, query, parameters).fetchall())


def fetch_chunks(connection: Connection, query: exp.Expr, rows: int) -> Iterator[pd.DataFrame]:
    """Yield a query's rows in the open transaction, `rows` at a time."""
    doing = "read the table"
    declare = exp.Command(this="DECLARE dpsql_rows NO SCROLL CURSOR FOR", expression=render(query))
    fetch = exp.Command(this="FETCH", expression=f"{rows:d} FROM dpsql_rows")
    replace_errors(doing, lambda: execute(connection, declare))
    first = True
    while True:
        arrays = replace_errors(doing, lambda: postgres_arrays(execute(connection, fetch)), stop_of(connection))
        chunk = pd.DataFrame(arrays)
        if chunk.empty and not first:
            return
        first = False
        yield chunk


def load_into_postgres(
    connection: Connection, name: str, columns: pd.DataFrame | Mapping[str, np.ndarray[Any, Any]]
) -> None:
    """Create a temporary table of the session's own from whole columns."""
    given = {str(column): np.asarray(values) for column, values in columns.items()}
    defined = [
        exp.ColumnDef(
            this=exp.to_identifier(column, quoted=True), kind=exp.DataType.build(_kind(values), dialect=DIALECT)
        )
        for column, values in given.items()
    ]
    table = exp.Schema(this=exp.table_(name, quoted=True), expressions=defined)

    def create() -> None:
        replace_temporary(connection, name, table, None)
        copy_in(connection, exp.table_(name, quoted=True), given)

    replace_errors("load a temporary table", create)


def replace_temporary(connection: Connection, name: str, table: exp.Expr, query: exp.Expr | None) -> None:
    """Create a temporary table of the session's own in place of one of the same name."""
    execute(connection, exp.Drop(tables=[exp.table_(name, db="pg_temp", quoted=True)], kind="TABLE", exists=True))
    own = exp.Properties(expressions=[exp.TemporaryProperty()])
    execute(connection, exp.Create(this=table, kind="TABLE", properties=own, expression=query))


def copy_in(connection: Connection, table: exp.Table, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Append whole columns to a table."""
    names = ", ".join(exp.to_identifier(name, quoted=True).sql(DIALECT) for name in columns)
    statement = f"COPY {table.sql(DIALECT)} ({names}) FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        if all(values.dtype.kind in "iu" for values in columns.values()):
            texts = [map(str, _as_signed(values).tolist()) for values in columns.values()]
            copy.write("".join("\t".join(row) + "\n" for row in zip(*texts, strict=True)))
            return
        for row in zip(*(_cells(values) for values in columns.values()), strict=True):
            copy.write_row(row)


def _as_signed(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return words of 64 bits as the signed numbers of the same bits."""
    return np.ascontiguousarray(values).view(np.int64) if values.dtype == np.uint64 else values


def _cells(values: np.ndarray[Any, Any]) -> Iterable[Any]:
    if values.dtype.kind in "iufb":
        return list(_as_signed(values).tolist())
    return [None if pd.isna(value) else str(value) for value in values]


def _kind(values: np.ndarray[Any, Any]) -> str:
    return _KINDS.get(str(values.dtype), "TEXT")


def postgres_arrays(cursor: psycopg.Cursor[Any]) -> Arrays:
    """Return a result as one array for each column."""
    described = cursor.description or []
    columns = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(described)
    return {column.name: _array(column.type_code, values) for column, values in zip(described, columns, strict=True)}


def _array(kind: int, values: Sequence[Any]) -> np.ndarray[Any, Any]:
    if kind in _INTEGER_TYPES and None not in values:
        return np.array(values, np.int64)
    if kind in _REAL_TYPES:
        return np.array([np.nan if value is None else float(value) for value in values], np.float64)
    return np.array(values, object)


def lock(connection: Connection, table: TableInfo) -> None:
    """Keep others from altering, emptying or dropping a table until the transaction ends; they may write rows."""
    place = exp.table_(table.table, db=table.schema, quoted=True).sql(DIALECT)
    try:
        replace_errors(
            "lock the table",
            lambda: execute(connection, f"LOCK TABLE {place} IN ACCESS SHARE MODE"),
            stop_of(connection),
        )
        return
    except QueryFailed:
        pass  # there is no such table any more
    check_same(table, None)


class PostgresWorkspace:
    """Temporary tables and aggregates in one transaction, whose snapshot never changes.

    `tables` are locked; what their names mean is looked up again after each statement, for a schema can be renamed.
    """

    def __init__(self, connection: Connection, tables: Sequence[TableInfo] = ()) -> None:
        self._connection = connection
        self._tables = tables

    def keep(self, name: str, query: exp.Expr, tables: Tables) -> None:
        """Keep the rows of a checked query in a temporary table of the session's own."""
        self._load(tables)
        table = exp.table_(name, quoted=True)
        replace_errors(
            COUNTING,
            lambda: replace_temporary(self._connection, name, table, query),
            stop_of(self._connection),
        )
        self._check()

    def aggregate(self, query: exp.Expr, tables: Tables) -> Arrays:
        """Run one checked aggregate over private or kept rows."""
        self._load(tables)
        groups = replace_errors(
            COUNTING, lambda: postgres_arrays(execute(self._connection, query)), stop_of(self._connection)
        )
        self._check()
        return groups

    def _check(self) -> None:
        for table in self._tables:
            meant = fetch_from_postgres(
                self._connection, _MEANT, [exp.table_(table.table, db=table.schema, quoted=True).sql(DIALECT)]
            )
            check_same(table, table if str(meant[0][0]) == table.version else None)

    def _load(self, tables: Tables) -> None:
        for name, columns in tables.items():
            load_into_postgres(self._connection, name, columns)


class PostgresTransaction:
    """Statements on one connection inside an open transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def run(self, statement: str | exp.Expr, parameters: Sequence[object] = ()) -> int:
        """Run a statement and return the number of rows it changed."""
        count = replace_errors(
            "write to its own tables", lambda: execute(self._connection, statement, parameters).rowcount
        )
        return max(count, 0)

    def rows(self, statement: str | exp.Expr, parameters: Sequence[object] = ()) -> list[Row]:
        """Run a query and return its rows as dictionaries."""

        def read() -> list[Row]:
            cursor = execute(self._connection, statement, parameters)
            names = [column.name for column in cursor.description or []]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

        return replace_errors("read its own tables", read)

    def arrays(self, statement: str | exp.Expr, parameters: Sequence[object] = ()) -> Arrays:
        """Run a query and return its columns as arrays."""
        return replace_errors(
            "read its own tables", lambda: postgres_arrays(execute(self._connection, statement, parameters))
        )

    def insert(self, table: str, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Append whole columns to a table of schema `dpsql`."""
        into = exp.table_(table, db="dpsql", quoted=True)
        replace_errors("write to its own tables", lambda: copy_in(self._connection, into, columns))

    def has_table(self, name: str) -> bool:
        """Return whether schema `dpsql` of this database has a table of that name."""
        return bool(self.rows(_HAS_TABLE, (name,)))

    def catalog_columns(self) -> list[Row]:
        """Return a row for each column of each table and view, those of the server's own catalog left out."""
        return self.rows(_CATALOG_COLUMNS)
