"""PostgreSQL: connections that mean what they say, its catalog, its transactions, and a workspace in one snapshot.

Every connection is dpsql's own: its search path has the built-in functions alone, commits wait for the disk, and
waiting has an end. Private rows are read in one REPEATABLE READ transaction, so that a row's address stays the row's
own while a session lasts; what is kept there is in temporary tables that go with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psycopg
from sqlglot import exp

from dpsql.engines.base import Arrays, Column, Health, TableInfo
from dpsql.engines.postgres_catalog import CHECKS, COLUMNS, TABLES, VIEW, family
from dpsql.engines.postgres_cursor import (
    COUNTING,
    Connection,
    PostgresTransaction,
    PostgresWorkspace,
    arrays_of,
    execute,
    fetch,
    guarded,
    load,
)
from dpsql.engines.postgres_vocabulary import DIALECT, PostgresVocabulary
from dpsql.engines.views import as_view
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
_HOME = "public"


def open_server(target: str, *, wait: float = 2.0) -> PostgresEngine:
    """Connect to a server by its URL; wait so many seconds for locks. How long statements may take, the URL can say."""
    engine = PostgresEngine(target, wait=wait)
    with engine._connection("connect"):
        return engine


def adopt(connection: psycopg.Connection[Any]) -> PostgresEngine:
    """Return an engine that connects as a connection of the caller's does; that one is left alone."""
    parameters = {**connection.info.get_parameters(), "password": connection.info.password}
    return open_server(psycopg.conninfo.make_conninfo(**{k: v for k, v in parameters.items() if v}))


class PostgresEngine:
    """A PostgreSQL database behind the protocol of `engines/base.py`."""

    dialect = own_dialect = DIALECT
    home = _HOME
    path: Path | None = None

    def __init__(self, conninfo: str, *, wait: float) -> None:
        self._conninfo = conninfo
        self._limits = {"lock_timeout": f"{max(1, round(wait * 1000))}ms"}
        self.vocabulary = PostgresVocabulary()
        self._idle: list[Connection] = []
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        known = psycopg.conninfo.conninfo_to_dict(self._conninfo)
        return f"<PostgreSQL {known.get('dbname', '')} on {known.get('host', 'this machine')}>"

    def health(self) -> list[Health]:
        """Return versions, what the role may do, and how far the server's clock is from ours."""
        with self._connection("read its settings") as connection:
            asked = datetime.now(UTC)
            version, role, superuser, schema, writes, now, syncs = fetch(connection, _HEALTH)[0]
            away = abs((now - asked).total_seconds())
        rights = f"connected as {role}" + (", a superuser" if superuser else "")
        return [
            Health("driver", True, f"psycopg {psycopg.__version__}"),
            Health("server", int(version) >= 140000, f"PostgreSQL {int(version) // 10000}", "14 or newer is needed"),
            Health("schema", bool(schema), "dpsql is there" if schema else "no schema dpsql", "dpsql init --db …"),
            Health("rights", not superuser, rights, "connect as the owner role for daily work"),
            Health("ledger rights", True, "may write the ledger" if writes else "may read the ledger"),
            Health("durability", syncs == "on", f"fsync is {syncs}", "turn fsync on: a charge must outlive a crash"),
            Health("clock", away < _MOST_SECONDS, f"{away:.1f} s apart", "set both clocks by the network"),
        ]

    def weaknesses(self) -> list[str]:
        """Return nothing: every connection is dpsql's own."""
        return []

    @contextmanager
    def transaction(self) -> Iterator[PostgresTransaction]:
        """Open a write transaction: durable at the end of the block, undone when it raises."""
        with self._connection("write to its own tables") as connection, self._in(connection, "READ COMMITTED"):
            yield PostgresTransaction(connection)

    def tables(self) -> list[str]:
        """Return the user's tables and views, by the names that `table` takes."""
        with self._connection("read its catalog") as connection:
            return sorted(_full_name(row[0], row[1]) for row in fetch(connection, TABLES))

    def table(self, name: str) -> TableInfo | None:
        """Return what the catalog says of a table or view. Reads no row, no statistic, not the estimated size."""
        with self._connection("read its catalog") as connection:
            rows = sorted(fetch(connection, TABLES), key=lambda row: row[0] == _HOME)
            known = {_full_name(row[0], row[1]): row for row in rows}
            folded = {full.lower(): row for full, row in known.items()}
            found = known.get(name) or folded.get(name.lower())
            if found is None:
                return None
            schema, table, kind, number, inherits = found
            columns = fetch(connection, COLUMNS, [number])
            checks = fetch(connection, CHECKS, [number])
            definition = _definition(connection, kind, number, inherits=inherits)
        return TableInfo(
            name=_full_name(schema, table),
            schema=schema,
            table=table,
            columns=tuple(_column(*row) for row in columns),
            kind="view" if definition else "table",
            definition=definition,
            checks=tuple(text for (text,) in checks),
        )

    def user_functions(self) -> list[str]:
        """Return nothing: the search path has no place for functions of users, and a view names them with a schema."""
        return []

    def redefined(self) -> list[str]:
        """Return nothing: the built-in functions are what the search path finds."""
        return []

    def aggregate(self, query: exp.Expr, tables: Mapping[str, Mapping[str, np.ndarray[Any, Any]]]) -> Arrays:
        """Run one checked aggregate over private rows, with `tables` loaded as temporary tables for it."""
        with self.workspace() as here:
            return here.aggregate(query, tables)

    @contextmanager
    def workspace(self) -> Iterator[PostgresWorkspace]:
        """Open a workspace: one snapshot, whose temporary tables nobody else sees and which go with it."""
        with self._connection(COUNTING) as connection, self._in(connection, "REPEATABLE READ", keep=False):
            yield PostgresWorkspace(connection)

    def frame(self, query: exp.Expr, tables: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Run a query over public or released tables and return it as a DataFrame (predictions, never training)."""
        with self._connection("read the table") as connection, self._in(connection, "REPEATABLE READ", keep=False):
            for name, columns in (tables or {}).items():
                load(connection, name, columns)
            return pd.DataFrame(guarded("read the table", lambda: arrays_of(execute(connection, query))))

    def create(self, name: str, query: exp.Expr, tables: Mapping[str, Any] | None = None) -> None:
        """Create a table in schema public from a query over public or released tables, or leave nothing."""
        statement = exp.Create(this=exp.table_(name, db=_HOME, quoted=True), kind="TABLE", expression=query)
        with self._connection("create the table") as connection, self._in(connection, "READ COMMITTED"):
            for table, columns in (tables or {}).items():
                load(connection, table, columns)
            guarded("create the table", lambda: execute(connection, statement))
            for table in tables or {}:
                execute(connection, exp.Drop(tables=[exp.table_(table, db="pg_temp", quoted=True)], kind="TABLE"))

    def add_column(self, info: TableInfo, column: str, make: Callable[[int], np.ndarray[Any, Any]]) -> None:
        """Add a BIGINT column to a base table and fill it, row address by row address, in one transaction."""
        table = exp.table_(info.table, db=info.schema, quoted=True)
        defined = exp.ColumnDef(this=exp.to_identifier(column, quoted=True), kind=exp.DataType.build("BIGINT"))
        with self._connection("add a column") as connection, self._in(connection, "READ COMMITTED"):

            def add() -> None:
                execute(connection, exp.Alter(this=table.copy(), kind="TABLE", actions=[defined]))
                rows = execute(connection, exp.select(exp.Count(this=exp.Star())).from_(table.copy())).fetchall()[0][0]
                load(connection, _IDS, {"place": np.arange(1, rows + 1), "id": make(rows)})
                execute(connection, _filled(table, column))
                execute(connection, exp.Drop(tables=[exp.table_(_IDS, db="pg_temp")], kind="TABLE"))

            guarded("add a column", add)

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
    def _in(self, connection: Connection, isolation: str, *, keep: bool = True) -> Iterator[None]:
        """Hold a transaction: committed at the end where something is to be kept, else undone."""
        guarded("begin a transaction", lambda: execute(connection, f"BEGIN ISOLATION LEVEL {isolation}"))
        done = False
        try:
            yield
            guarded("commit", lambda: execute(connection, "COMMIT" if keep else "ROLLBACK"))
            done = True
        finally:
            if not done:
                with suppress(psycopg.Error):  # a lost connection undid it already
                    connection.execute("ROLLBACK")

    def _connect(self) -> Connection:
        problem: DatabaseError
        try:
            connection: Connection = psycopg.connect(self._conninfo, autocommit=True, connect_timeout=10)
        except psycopg.Error:
            problem = DatabaseError(
                f"{self!r} cannot be reached.", hint="check --db, the password (PGPASSWORD) and the server"
            )
        else:
            for name, value in {**SETTINGS, **self._limits}.items():
                guarded("set its own settings", lambda n=name, v=value: execute(connection, _SET, (n, v)))  # type: ignore[misc]
            return connection
        raise problem


_IDS = "dpsql_ids"
_MOST_SECONDS = 5.0
_HEALTH = """
SELECT current_setting('server_version_num'), current_user,
       (SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
       to_regnamespace('dpsql') IS NOT NULL,
       CASE WHEN to_regclass('dpsql.entry') IS NULL THEN false
           ELSE has_table_privilege('dpsql.entry', 'INSERT') END,
       clock_timestamp(), current_setting('fsync')
"""
_SET = "SELECT pg_catalog.set_config(?, ?, false)"


def _filled(table: exp.Table, column: str) -> exp.Update:
    """Return the statement that gives each row the id of its place; rows are numbered as they lie."""
    address, place = exp.column("ctid"), exp.Window(this=exp.RowNumber())
    lying = exp.select(exp.alias_(address, "address"), exp.alias_(place, "place")).from_(table.copy()).subquery("lying")
    made = exp.select("lying.address", f"{_IDS}.id").from_(lying).join(_IDS, on=f"{_IDS}.place = lying.place")
    return exp.Update(
        this=exp.alias_(table.copy(), "filled", table=True),
        expressions=[exp.EQ(this=exp.to_identifier(column, quoted=True), expression=exp.column("id", "made"))],
        from_=exp.From(this=made.subquery("made")),
        where=exp.Where(this=exp.column("ctid", "filled").eq(exp.column("address", "made"))),
    )


def _column(name: str, kind: str, base: str, typtype: str, values: list[str] | None) -> Column:
    return Column(name, kind, family(base, typtype), tuple(values or ()), decimal=base.startswith("numeric"))


def _definition(connection: Connection, kind: str, number: int, *, inherits: bool) -> str:
    """Return a view's text as CREATE VIEW; for what is neither a plain table nor a view a text that proves nothing."""
    if kind == "v":
        (text,) = fetch(connection, VIEW, [number])[0]
        return as_view(text, DIALECT)
    if inherits:
        return "a part of another table, whose rows have that table's budget"
    return {"m": "a materialized view", "f": "a foreign table"}.get(kind, "")


def _full_name(schema: str, table: str) -> str:
    return table if schema == _HOME else f"{schema}.{table}"
