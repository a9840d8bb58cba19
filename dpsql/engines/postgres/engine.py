"""PostgreSQL: connections on which SQL means what it says, the catalog, transactions, and a workspace in one snapshot.

Every connection is dpsql's own: its search path has the built-in functions alone, commits wait for the disk, and
waiting has an end. Private rows are read in one REPEATABLE READ transaction, so that a row's address stays the row's
own while a session lasts; what is kept there is in temporary tables that go with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psycopg
from sqlglot import exp

from dpsql.engines.base import ColumnNote, Health, TableInfo, Transaction, check_same
from dpsql.engines.error_replacement import COUNTING
from dpsql.engines.interruption import hold_interrupts
from dpsql.engines.postgres.catalog import HOME, KEYS, TABLES, describe, read_notes
from dpsql.engines.postgres.cursor import (
    Connection,
    PostgresTransaction,
    PostgresWorkspace,
    execute,
    fetch_chunks,
    fetch_from_postgres,
    load_into_postgres,
    lock,
    postgres_arrays,
    replace_errors,
    stop_of,
)
from dpsql.engines.postgres.health import (
    COUNTERS_OPEN,
    HAS_ANALYSTS,
    OPEN_SCHEMAS,
    PLACE,
    PREPARED,
    SHUT,
    SIBLINGS,
    examine_server,
    examine_wall,
)
from dpsql.engines.postgres.vocabulary import DIALECT, PostgresVocabulary
from dpsql.engines.postgres.wall import readers, ways_in
from dpsql.engines.spec import NotAConnection, Opening
from dpsql.engines.table_names import full_name
from dpsql.errors import DatabaseError

#: What every connection is set to, whatever the role's or the database's own settings are.
SETTINGS = {
    "search_path": "pg_catalog, pg_temp",
    "synchronous_commit": "on",
    "datestyle": "ISO, YMD",
    "enable_sort": "off",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "row_security": "off",
    "jit": "off",
    "enable_mergejoin": "off",
    "enable_nestloop": "off",
    "work_mem": "64MB",
    "application_name": "dpsql",
}


def open_target(target: str, opening: Opening) -> PostgresEngine:
    """Connect to a server by its URL."""
    return open_server(target, wait=opening.wait)


def adopt_connection(connection: object, opening: Opening) -> PostgresEngine:
    """Return an engine that connects as a connection of the caller's does."""
    if not isinstance(connection, psycopg.BaseConnection):
        raise NotAConnection
    return adopt(connection)


def open_server(target: str, *, wait: float = 2.0) -> PostgresEngine:
    """Connect to a server by its URL; `wait` is in seconds, for locks. The URL can say how long statements may take."""
    engine = PostgresEngine(target, wait=wait)
    with engine._connection("connect"):
        return engine


def open_postgres_connection(conninfo: str, *, wait: float) -> Connection:
    """Return a new connection of dpsql's own, set to what every one of them is set to."""
    problem: DatabaseError
    try:
        connection: Connection = psycopg.connect(conninfo, autocommit=True, connect_timeout=10)
    except psycopg.Error:
        problem = DatabaseError(
            f"{_server_words(conninfo)} cannot be reached.", hint="check --db, the password (PGPASSWORD) and the server"
        )
    else:
        # In another encoding (of the server's, a role's or PGCLIENTENCODING) some texts could not be sent at all, and
        # from a database of SQL_ASCII even names would come as bytes.
        limits = {"lock_timeout": f"{max(1, round(wait * 1000))}ms", "client_encoding": "UTF8"}
        for name, value in {**SETTINGS, **limits}.items():
            replace_errors("set its own settings", lambda n=name, v=value: execute(connection, _SET, (n, v)))  # type: ignore[misc]
        for statement in (_UNCOUNTED, _ALONE):
            replace_errors("set its own settings", lambda s=statement: execute(connection, s))  # type: ignore[misc]
        return connection
    raise problem


def _server_words(conninfo: str) -> str:
    settings = psycopg.conninfo.conninfo_to_dict(conninfo)
    return f"PostgreSQL {settings.get('dbname', '')} on {settings.get('host', 'this machine')}"


def adopt(connection: psycopg.BaseConnection[Any]) -> PostgresEngine:
    """Return an engine that connects as a connection of the caller's does; that one is left alone."""
    parameters = {**connection.info.get_parameters(), "password": connection.info.password}
    return open_server(psycopg.conninfo.make_conninfo(**{k: v for k, v in parameters.items() if v}))


class PostgresEngine:
    """A PostgreSQL database behind the protocol of `engines/base.py`."""

    dialect = own_dialect = DIALECT
    driver = "psycopg"
    home = HOME
    implicit_schema = ""
    path: Path | None = None

    def __init__(self, conninfo: str, *, wait: float, opener: Callable[[], Connection] | None = None) -> None:
        self._conninfo = conninfo
        self._connect = opener or (lambda: open_postgres_connection(conninfo, wait=wait))
        self.vocabulary = PostgresVocabulary()
        self._idle: list[Connection] = []
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{_server_words(self._conninfo)}>"

    def health(self) -> list[Health]:
        """Return versions, what the role may do, how far the server's clock is from ours, what analysts could reach."""
        with self._connection("read its settings") as connection:
            return [*examine_server(connection), *examine_wall(connection), *self._sibling_counters(connection)]

    def siblings(self) -> list[str]:
        """Return the names of the server's other databases."""
        with self._connection("read its settings") as connection:
            return [name for (name,) in fetch_from_postgres(connection, SIBLINGS)]

    def engine_on(self, name: str) -> PostgresEngine:
        """Return an engine on another database of the same server, for whoever this one is connected as."""
        return open_server(psycopg.conninfo.make_conninfo(self._conninfo, dbname=name))

    def place(self) -> tuple[str, str]:
        """Return which database this is, and where `dpsql init` was run ("" where it was not): two texts to compare."""
        with self._connection("read its settings") as connection:
            prepared = fetch_from_postgres(connection, PREPARED)
            return str(fetch_from_postgres(connection, PLACE)[0][0]), str((prepared and prepared[0][0]) or "")

    def open_schemas(self) -> list[str]:
        """Return the schemas that others meet and analysts can create in, with the roles."""
        with self._connection("read its settings") as connection:
            return [f'"{name}" ({roles})' for name, roles in fetch_from_postgres(connection, OPEN_SCHEMAS)]

    def shut_databases(self) -> list[str]:
        """Return the names of databases that nobody can enter now, and whoever owns one can open again."""
        with self._connection("read its settings") as connection:
            return [name for (name,) in fetch_from_postgres(connection, SHUT)]

    def counters_open(self) -> bool:
        """Whether roles other than monitors read the server's counters in this database."""
        with self._connection("read its settings") as connection:
            return bool(fetch_from_postgres(connection, COUNTERS_OPEN)[0][0])

    def unique_keys(self, info: TableInfo) -> list[frozenset[str]] | None:
        """Return the columns of each unique index over plain columns of all rows that holds at every moment."""
        with self._connection("read its catalog") as connection:
            rows = fetch_from_postgres(connection, KEYS, [int(info.version)])
        return [frozenset(name.lower() for name in names) for (names,) in rows]

    def ways_in(self, info: TableInfo) -> list[Health]:
        """Return the names by which an analyst gets the planner's row counts of a table, each with what closes it."""
        with self._connection("read its catalog") as connection:
            return ways_in(connection, int(info.version))

    def readers(self, info: TableInfo) -> list[Health]:
        """Return which analysts may read the rows of a table themselves, each with what closes the way."""
        with self._connection("read its catalog") as connection:
            return readers(connection, int(info.version))

    def _sibling_counters(self, connection: Connection) -> list[Health]:
        """Say in which other databases the server's counters are open, where they are closed in this one."""
        if fetch_from_postgres(connection, COUNTERS_OPEN)[0][0]:
            return []
        names = [name for name in self.siblings() if self._shows_counters(name)]
        finding = f"open in {', '.join(names)}" if names else "closed in every database that this role can enter"
        shut = [name for (name,) in fetch_from_postgres(connection, SHUT)]
        if shut:
            finding += f"; not looked at, as they are shut: {', '.join(shut)}"
        fix = "dpsql init closes them again, as a superuser" + ("; ALLOW_CONNECTIONS true first" if shut else "")
        return [Health("other databases", not names and not shut, finding, fix)]

    def _shows_counters(self, name: str) -> bool:
        with suppress(DatabaseError), closing(self.engine_on(name)) as other, other._connection("look") as connection:
            return bool(fetch_from_postgres(connection, COUNTERS_OPEN)[0][0])
        return False

    def weaknesses(self) -> list[str]:
        """Return nothing: every connection is dpsql's own."""
        return []

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        """Open a write transaction: durable at the end of the block, undone when it raises."""
        with (
            self._connection("write to its own tables") as connection,
            self._in_transaction(connection, "READ COMMITTED"),
        ):
            yield PostgresTransaction(connection)

    @contextmanager
    def snapshot(self) -> Iterator[PostgresTransaction]:
        """Open a transaction for reading dpsql's own tables: all of its statements see one state of them."""
        isolation = "REPEATABLE READ READ ONLY"
        with (
            self._connection("read its own tables") as connection,
            self._in_transaction(connection, isolation, keep=False),
        ):
            yield PostgresTransaction(connection)

    def tables(self) -> list[str]:
        """Return the user's tables and views, by the names that `table` takes."""
        with self._connection("read its catalog") as connection:
            return sorted(full_name((row[0], row[1]), HOME) for row in fetch_from_postgres(connection, TABLES))

    def table(self, name: str, *, schema: str | None = None) -> TableInfo | None:
        """Return what the catalog says of a table or view. Reads no row, no statistic, not the estimated size.

        A table is identified by its number (oid), which outlasts renames and moves to other schemas.
        """
        with self._connection("read its catalog") as connection:
            return describe(connection, name, schema)

    def column_notes(self, info: TableInfo) -> dict[str, ColumnNote]:
        """Return comments, unique keys and foreign keys by column."""
        with self._connection("read its catalog") as connection:
            return read_notes(connection, info)

    def identify(self, transaction: Transaction, info: TableInfo) -> TableInfo:
        """Return the table as it is: its number is its identity."""
        return info

    def user_functions(self) -> list[str]:
        """Return nothing: the search path has no place for functions of users, and a view names them with a schema."""
        return []

    def macros(self) -> dict[str, str]:
        """Return the body of each function in SQL by its name, those of the server and of dpsql left out."""
        with self._connection("read its catalog") as connection:
            return {str(row[0]): str(row[1]) for row in fetch_from_postgres(connection, _SQL_FUNCTIONS)}

    def redefined_functions(self) -> list[str]:
        """Return nothing: the built-in functions are what the search path finds."""
        return []

    def is_built_in(self, name: str) -> bool:
        """Return False: there are no macros, and a function in schema public is found after the server's own."""
        return False

    @contextmanager
    def workspace(self, reads: Sequence[TableInfo] = ()) -> Iterator[PostgresWorkspace]:
        """Open a workspace: one snapshot, whose temporary tables nobody else sees and which go with it.

        A snapshot does not hold against TRUNCATE and ALTER TABLE, and names are looked up in the newest catalog. So the
        tables are locked against both before the snapshot is taken, and it is checked that the locked ones were meant.
        """
        with self._connection(COUNTING) as connection, self._in_transaction(connection, "REPEATABLE READ", keep=False):
            tables = [info for info in reads if info.kind == "table"]
            for before in tables:
                lock(connection, before)
            for before in reads:
                check_same(before, describe(connection, before.table, before.schema))
            yield PostgresWorkspace(connection, tables)

    def frame(self, query: exp.Expr, tables: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Run a query over public or released tables and return it as a DataFrame (predictions, never training)."""
        with (
            self._connection("read the table") as connection,
            self._in_transaction(connection, "REPEATABLE READ", keep=False),
        ):
            for name, columns in (tables or {}).items():
                load_into_postgres(connection, name, columns)
            stop = stop_of(connection)
            return pd.DataFrame(
                replace_errors("read the table", lambda: postgres_arrays(execute(connection, query)), stop)
            )

    def chunks(self, query: exp.Expr, rows: int) -> Iterator[pd.DataFrame]:
        """Run a query over public or released tables, and yield its rows as a cursor of the server's hands them out."""
        with (
            self._connection("read the table") as connection,
            self._in_transaction(connection, "REPEATABLE READ", keep=False),
        ):
            yield from fetch_chunks(connection, query, rows)

    def create(self, name: str, query: exp.Expr, tables: Mapping[str, Any] | None = None) -> None:
        """Create a table in schema public from a query over public or released tables, or leave nothing."""
        statement = exp.Create(this=exp.table_(name, db=HOME, quoted=True), kind="TABLE", expression=query)
        with self._connection("create the table") as connection, self._in_transaction(connection, "READ COMMITTED"):
            for table, columns in (tables or {}).items():
                load_into_postgres(connection, table, columns)
            replace_errors("create the table", lambda: execute(connection, statement), stop_of(connection))
            for table in tables or {}:
                execute(connection, exp.Drop(tables=[exp.table_(table, db="pg_temp", quoted=True)], kind="TABLE"))

    def add_column(self, info: TableInfo, column: str, make: Callable[[int], np.ndarray[Any, Any]]) -> None:
        """Add a BIGINT column to a base table and fill it, row address by row address, in one transaction."""
        table = exp.table_(info.table, db=info.schema, quoted=True)
        defined = exp.ColumnDef(this=exp.to_identifier(column, quoted=True), kind=exp.DataType.build("BIGINT"))
        with self._connection("add a column") as connection, self._in_transaction(connection, "READ COMMITTED"):

            def add() -> None:
                execute(connection, exp.Alter(this=table.copy(), kind="TABLE", actions=[defined]))
                rows = execute(connection, exp.select(exp.Count(this=exp.Star())).from_(table.copy())).fetchall()[0][0]
                load_into_postgres(connection, _IDS, {"place": np.arange(1, rows + 1), "id": make(rows)})
                execute(connection, _fill_ids(table, column))
                execute(connection, exp.Drop(tables=[exp.table_(_IDS, db="pg_temp")], kind="TABLE"))

            replace_errors("add a column", add, stop_of(connection))

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _connection(self, doing: str) -> Iterator[Connection]:
        """Lend a connection; one that is broken or in the middle of something is not lent again."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None or connection.closed:
            connection = self._connect()
        try:
            yield connection
        finally:
            ready = psycopg.pq.TransactionStatus.IDLE
            if not connection.closed and connection.info.transaction_status == ready:
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()

    @contextmanager
    def _in_transaction(self, connection: Connection, isolation: str, *, keep: bool = True) -> Iterator[None]:
        """Hold a transaction: committed at the end where something is to be kept, else undone."""
        replace_errors("begin a transaction", lambda: execute(connection, f"BEGIN ISOLATION LEVEL {isolation}"))
        done = False
        try:
            yield
            replace_errors("commit", lambda: execute(connection, "COMMIT" if keep else "ROLLBACK"))
            done = True
        finally:
            if not done:
                with hold_interrupts(), suppress(psycopg.Error):  # a lost connection undid it already
                    connection.execute("ROLLBACK")


_IDS = "dpsql_ids"
_SET = "SELECT pg_catalog.set_config(?, ?, false)"
#: Everybody can read the counters of rows and files. A superuser may stop them; `dpsql init` stops them for the owner.
_UNCOUNTED = """
SELECT pg_catalog.set_config('track_counts', 'off', false),
       pg_catalog.set_config('pg_stat_statements.track', 'none', false)
FROM pg_catalog.pg_roles WHERE rolname = current_user AND rolsuper
"""
_SQL_FUNCTIONS = """
SELECT proname, coalesce(prosrc, '') FROM pg_catalog.pg_proc
JOIN pg_catalog.pg_namespace AS home ON home.oid = pronamespace
JOIN pg_catalog.pg_language AS language ON language.oid = prolang
WHERE lanname = 'sql' AND nspname NOT IN ('pg_catalog', 'information_schema', 'dpsql')
"""
#: How many processes read a table follows from its size, and every role sees them (pg_locks, pg_stat_activity). So
#: there is one, wherever anybody but its owner was let into schema dpsql.
_ALONE = f"SELECT pg_catalog.set_config('max_parallel_workers_per_gather', '0', false) WHERE EXISTS ({HAS_ANALYSTS})"


def _fill_ids(table: exp.Table, column: str) -> exp.Update:
    """Return the statement that gives each row the id of its place; rows are numbered in the order they are read in."""
    address, place = exp.column("ctid"), exp.Window(this=exp.RowNumber())
    lying = exp.select(exp.alias_(address, "address"), exp.alias_(place, "place")).from_(table.copy()).subquery("lying")
    ids_by_address = exp.select("lying.address", f"{_IDS}.id").from_(lying).join(_IDS, on=f"{_IDS}.place = lying.place")
    return exp.Update(
        this=exp.alias_(table.copy(), "filled", table=True),
        expressions=[exp.EQ(this=exp.to_identifier(column, quoted=True), expression=exp.column("id", "made"))],
        from_=exp.From(this=ids_by_address.subquery("made")),
        where=exp.Where(this=exp.column("ctid", "filled").eq(exp.column("address", "made"))),
    )
