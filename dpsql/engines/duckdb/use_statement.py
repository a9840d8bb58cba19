"""What a caller has said by USE on a connection: the database and the schema in which names are looked up.

A cursor of a connection does not take over its USE, and dpsql works on cursors. So the caller's USE is read once, when
the connection is handed over, and holds for every cursor of dpsql's from then on.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import duckdb
from sqlglot import exp

from dpsql.engines.duckdb.attached import MAIN, read_catalogs
from dpsql.engines.duckdb.cursor import replace_errors
from dpsql.engines.duckdb.vocabulary import DIALECT

_HERE = "SELECT system.main.current_database(), system.main.current_schema()"
_DUCKDB = "duckdb"


@dataclass(frozen=True)
class Use:
    """The database to work in, None for the connection's first; the schema of names alone, None for the home schema.

    `elsewhere` is a database that was named by USE and that can hold no ledger: names alone are looked up in it first.
    """

    database: str | None = None
    schema: str | None = None
    elsewhere: str | None = None

    def apply(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Let a cursor work in the database."""
        if self.database is None:
            return
        place = exp.table_(MAIN, db=self.database, quoted=True).sql(DIALECT)
        replace_errors("use the database", lambda: cursor.execute(f"USE {place}"))


NO_USE = Use()
#: What was said by USE when a connection was prepared for calls from SQL: inside a call it cannot be asked.
_REMEMBERED: weakref.WeakKeyDictionary[duckdb.DuckDBPyConnection, Use] = weakref.WeakKeyDictionary()


def remember_use(connection: duckdb.DuckDBPyConnection) -> None:
    """Remember what a connection's USE says now, for calls that come while the connection is at work."""
    _REMEMBERED.pop(connection, None)
    _REMEMBERED[connection] = use_of(connection)


def use_of(connection: duckdb.DuckDBPyConnection) -> Use:
    """Return what the caller has said by USE; nothing where the connection has a result that is not fetched yet."""
    remembered = _REMEMBERED.get(connection)
    if remembered is not None:
        return remembered
    try:
        rows = connection.sql(_HERE).fetchall()  # `execute` would throw an unfetched result away, this fails on it
    except duckdb.Error:
        return NO_USE
    cursor = connection.cursor()
    try:
        return _as_use(cursor, *rows[0])
    finally:
        cursor.close()


def _as_use(cursor: duckdb.DuckDBPyConnection, database: str, schema: str) -> Use:
    catalogs = {catalog.name: catalog for catalog in read_catalogs(cursor)}
    used = catalogs.get(database)
    if used is None:
        return NO_USE
    named = None if schema == used.main else schema
    if used.own:
        return Use(None, named)
    if used.kind == _DUCKDB and not used.read_only:
        return Use(database, named)
    return Use(None, named, elsewhere=database)
