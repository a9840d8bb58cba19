"""DuckDB: a hardened connection, its catalog, its transactions, and the functions that are its own.

A connection that dpsql opens cannot reach files, other databases, extensions or Python variables, and its
configuration is locked. A connection that the caller opened cannot be locked down: `weaknesses` says what is open.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from sqlglot import exp

from dpsql.engines.base import Arrays, Column, Conflict, Health, TableInfo
from dpsql.engines.duckdb_catalog import CHECKS, COLUMNS, TABLES, enum_values, family
from dpsql.engines.duckdb_cursor import (
    COUNTING,
    DuckDBTransaction,
    DuckDBWorkspace,
    StandIn,
    fetch,
    guarded,
    in_this_database,
    load,
    no_stand_in,
)
from dpsql.engines.duckdb_folder import FileTables, SessionFiles
from dpsql.engines.duckdb_vocabulary import DIALECT, DuckDBVocabulary
from dpsql.errors import DatabaseError, DatabaseLocked, DatabaseReadOnly, UsageError

#: Statements are shaped by hand; these two rewrites turn a level join into a build on the data side (PERF.md).
HAND_SHAPED = "SET disabled_optimizers = 'join_order,build_side_probe_side'"
HARDENING = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
Connection = duckdb.DuckDBPyConnection
#: DuckDB takes the list of allowed files only once the database is open, and the door is shut right after.
_NOT_YET_CLOSED = {name: value for name, value in HARDENING.items() if name != "enable_external_access"}
#: The files that a connection was opened with, for whoever wraps it again.
_FILES: weakref.WeakKeyDictionary[Connection, FileTables] = weakref.WeakKeyDictionary()


def open_file(
    path: str | Path,
    *,
    create: bool = False,
    read_only: bool = False,
    wait: float = 2.0,
    files: FileTables | None = None,
) -> DuckDBEngine:
    """Open a DuckDB file (or ":memory:") hardened and locked; wait up to `wait` seconds for another process.

    With `files` their tables are there too, and they are all that the connection reaches outside its own file.
    Raises DatabaseError when there is no such file and `create` is not given, DatabaseLocked when another
    process keeps it.
    """
    file = None if str(path) == ":memory:" else Path(path)
    if file is not None and not file.exists() and (not create or not file.parent.is_dir()):
        raise DatabaseError(f'there is no database file "{file}".', hint="check --db, or run: dpsql demo")
    if file is not None and file.name.split(".")[0].lower() == "dpsql":
        raise DatabaseError(f'a database called "{file}" would share its name with dpsql\'s schema.', hint="rename it")
    deadline = time.monotonic() + wait
    while True:
        connection, problem = _try_open(path, read_only, HARDENING if files is None else _NOT_YET_CLOSED)
        if connection is not None:
            break
        if not isinstance(problem, DatabaseLocked) or time.monotonic() >= deadline:
            raise problem
        time.sleep(0.05)
    if not connection.execute("SELECT current_setting('lock_configuration')").fetchall()[0][0]:
        connection.execute(HAND_SHAPED)
        if files is not None:
            files.allow(connection)
        connection.execute("SET lock_configuration = true")
    elif files is not None:
        files.check_allowed(connection)
    if files is not None:
        _FILES[connection] = files
    engine = DuckDBEngine(connection, path=file, owned=True)
    return engine if files is None else _with_files(engine, files, read_only=read_only)


def _with_files(engine: DuckDBEngine, files: FileTables, *, read_only: bool) -> DuckDBEngine:
    """Read what the files' columns are, and name them in the catalog; let the database go when that fails."""
    done = False
    try:
        files.look(engine.connection)
        with engine.transaction() as transaction:
            files.install(transaction, read_only=read_only)
        done = True
    except Conflict:
        raise DatabaseLocked("another thread is opening these files.", hint="try again") from None
    finally:
        if not done:
            engine.close()
    return engine


def adopt(connection: duckdb.DuckDBPyConnection) -> DuckDBEngine:
    """Wrap a connection that the caller opened. It stays the caller's: not locked down, not closed."""
    engine = DuckDBEngine(connection, path=None, owned=False)
    with engine._cursor("read its catalog") as cursor:  # not the connection: it may hold a result not yet fetched
        rows = fetch(cursor, "SELECT path FROM duckdb_databases() WHERE database_name = current_database()")
    engine.path = Path(rows[0][0]) if rows and rows[0][0] else None
    return engine


def define(
    connection: Connection, name: str, call: Callable[..., Any], takes: list[str], gives: str, *, changes: bool = False
) -> None:
    """Register a Python function on a connection; `changes` keeps the optimiser from folding or repeating the call."""
    connection.create_function(  # type: ignore[call-overload]
        name, call, takes, gives, null_handling="special", side_effects=changes
    )


class DuckDBEngine:
    """A DuckDB database behind the protocol of `engines/base.py`."""

    dialect = own_dialect = DIALECT
    home = "main"

    def __init__(self, connection: duckdb.DuckDBPyConnection, *, path: Path | None, owned: bool) -> None:
        self.connection = connection
        self.vocabulary = DuckDBVocabulary()
        self.path = path
        self.owned = owned
        self._files = _FILES.get(connection)

    def __repr__(self) -> str:
        return f"<DuckDB {self.path or 'in memory'}>"

    def health(self) -> list[Health]:
        """Return the driver's version, how the connection is hardened, and whether the file can be written."""
        weak = self.weaknesses()
        writable = self.path is None or os.access(self.path, os.W_OK)
        return [
            Health("driver", True, f"duckdb {duckdb.__version__}"),
            Health("hardening", not weak, " ".join(weak) or "locked down", "let dpsql open the file itself: --db FILE"),
            Health("rights", writable, "writable" if writable else "read-only", "make the file writable"),
        ]

    def weaknesses(self) -> list[str]:
        """Return one sentence for each protection this connection lacks (none for one that dpsql opened)."""
        with self._cursor("read its settings") as cursor:
            names = [*HARDENING, "lock_configuration"]
            found = {name: str(fetch(cursor, "SELECT current_setting(?)", [name])[0][0]) for name in names}
        wanted = HARDENING | {"lock_configuration": "true"}
        return [
            f"{name} is {found[name].lower()}, not {value}."
            for name, value in wanted.items()
            if found[name].lower() != value
        ]

    @contextmanager
    def transaction(self) -> Iterator[DuckDBTransaction]:
        """Open a write transaction on a cursor of its own: durable at the end of the block, undone when it raises."""
        with self._cursor("write to its own tables") as cursor:
            guarded("begin a transaction", cursor.begin)
            done = False
            try:
                yield DuckDBTransaction(cursor)
                guarded("commit", cursor.commit)
                done = True
            finally:
                if not done:
                    _quiet_rollback(cursor)

    def tables(self) -> list[str]:
        """Return the user's tables and views, by the names that `table` takes."""
        with self._cursor("read its catalog") as cursor:
            found = fetch(cursor, TABLES)
        files = self._files.names() if self._files else []
        return sorted({*files, *(_full_name(schema, name) for schema, name, _ in found)})

    def table(self, name: str) -> TableInfo | None:
        """Return what the catalog says of a table or view. Reads no row, not even the estimated size."""
        files = self._files.find(name) if self._files else None
        if files is not None:
            return files.info()
        with self._cursor("read its catalog") as cursor:
            # A table called "a.b" comes before table b of schema a.
            rows = sorted(fetch(cursor, TABLES), key=lambda row: row[0] == "main")
            known = {_full_name(row[0], row[1]): row for row in rows}
            folded = {full.lower(): row for full, row in known.items()}
            found = known.get(name) or folded.get(name.lower())  # "É" and "é" are two tables in DuckDB
            if found is None:
                return None
            schema, table, definition = found
            columns = fetch(cursor, COLUMNS, [schema, table])
            checks = fetch(cursor, CHECKS, [schema, table])
        return TableInfo(
            name=_full_name(schema, table),
            schema=schema,
            table=table,
            columns=tuple(Column(column, kind, family(kind), enum_values(kind)) for column, kind in columns),
            kind="view" if definition else "table",
            definition=definition or "",
            checks=tuple(text for (text,) in checks),
        )

    def user_functions(self) -> list[str]:
        """Return the names of macros and functions that users defined, in lower case."""
        with self._cursor("read its catalog") as cursor:
            found = cursor.execute("SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE NOT internal")
            return sorted(name for (name,) in found.fetchall())

    def redefined(self) -> list[str]:
        """Return the built-in functions that a user's macro stands in for."""
        mine = self.user_functions()
        if not mine:
            return []
        with self._cursor("read its catalog") as cursor:
            found = fetch(cursor, "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE internal")
        builtin = {name for (name,) in found}
        return sorted(name for name in mine if name in builtin)

    def aggregate(self, query: exp.Expr, tables: Mapping[str, Mapping[str, np.ndarray[Any, Any]]]) -> Arrays:
        """Run one checked aggregate over private rows, with `tables` loaded as temporary tables for it."""
        with self.workspace() as here:
            return here.aggregate(query, tables)

    @contextmanager
    def workspace(self) -> Iterator[DuckDBWorkspace]:
        """Open a workspace: a cursor of its own, whose temporary tables nobody else sees and which go with it."""
        with self._cursor(COUNTING) as cursor, self._tuned(cursor):
            if self._files is None:
                yield DuckDBWorkspace(cursor)
            else:
                files = SessionFiles(self._files, cursor)
                yield DuckDBWorkspace(cursor, files.stand_in, files.check)

    def frame(self, query: exp.Expr, tables: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Run a query over public or released tables and return it as a DataFrame (predictions, never training)."""
        with self._cursor("read the table") as cursor, self._tuned(cursor):
            for name, columns in (tables or {}).items():
                load(cursor, name, columns)
            text = in_this_database(cursor, query, self._stand_in)
            return guarded("read the table", lambda: cursor.execute(text).fetchdf())

    def create(self, name: str, query: exp.Expr, tables: Mapping[str, Any] | None = None) -> None:
        """Create a table from a query over public or released tables; nothing is left when it fails."""
        statement = exp.Create(this=exp.table_(name, quoted=True), kind="TABLE", expression=query)
        with self._cursor("create the table") as cursor, self._tuned(cursor):
            for table, columns in (tables or {}).items():
                load(cursor, table, columns)
            text = in_this_database(cursor, statement, self._stand_in)
            guarded("create the table", lambda: cursor.execute(text))

    def add_column(self, info: TableInfo, column: str, make: Callable[[int], np.ndarray[Any, Any]]) -> None:
        """Add a BIGINT column to a base table and fill it, row address by row address, in one transaction."""
        if self._files is not None and self._files.find(info.name) is not None:
            raise UsageError(f'table "{info.name}" is files, which dpsql never writes to.', hint="its rows need no ids")
        table = exp.table_(info.table, db=info.schema, quoted=True)
        name = exp.to_identifier(column, quoted=True)
        defined = exp.ColumnDef(this=name, kind=exp.DataType.build("BIGINT"))
        addresses = exp.select("rowid").from_(table)
        made = f"{info.table}_made"  # never the table's own name, whatever that is
        filled = exp.Update(
            this=table.copy(),
            expressions=[exp.column(name.copy()).eq(exp.column("id", made, quoted=True))],
            from_=exp.From(this=exp.table_(made, quoted=True)),
            where=exp.Where(
                this=exp.column("rowid", info.table, quoted=True).eq(exp.column("address", made, quoted=True))
            ),
        )
        with self.transaction() as transaction:
            transaction.run(exp.Alter(this=table.copy(), kind="TABLE", actions=[defined]))
            rows = transaction.arrays(addresses)["rowid"]
            transaction.load(made, {"address": rows, "id": make(len(rows))})
            transaction.run(filled)

    def interactive(self, text: str) -> Iterator[tuple[list[str], list[tuple[object, ...]], str | None]]:
        """Run what the file's holder typed; yield columns, rows and error of each statement.

        Errors about the statement itself keep their words; those that arise from data could quote a cell and lose them.
        """
        try:
            statements = self.connection.extract_statements(text)
        except duckdb.Error as error:
            yield [], [], str(error)
            return
        for statement in statements:
            if self._files is not None and _may_write(statement):
                yield [], [], "COPY and PREPARE are off where tables are files: they could write to them."
                return
            yield self._one(statement)

    def _one(self, statement: duckdb.Statement) -> tuple[list[str], list[tuple[object, ...]], str | None]:
        try:
            result = self.connection.execute(statement)
            columns = [column[0] for column in result.description or []]
            return columns, result.fetchall(), None
        except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
            return [], [], str(error)
        except duckdb.InvalidInputException as error:
            text = str(error)
            ours = "Python exception occurred while executing the UDF: "
            return [], [], text.split(ours, 1)[1] if ours in text else "the statement failed (InvalidInputException)."
        except duckdb.Error as error:
            return [], [], f"the statement failed ({type(error).__name__}; its message could quote a private value)."

    def close(self) -> None:
        """Close the connection if dpsql opened it."""
        if self.owned:
            self.connection.close()

    @property
    def _stand_in(self) -> StandIn:
        return self._files.stand_in if self._files else no_stand_in

    @contextmanager
    def _tuned(self, cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Hold the caller's optimizer setting, which is global, for one statement; ours is set when it is opened."""
        before = None if self.owned else fetch(cursor, "SELECT current_setting('disabled_optimizers')")[0][0]
        tuned = before is not None and _try_set(cursor, HAND_SHAPED)
        try:
            yield
        finally:
            if tuned:
                _try_set(cursor, f"SET disabled_optimizers = {exp.Literal.string(before or '').sql(DIALECT)}")

    @contextmanager
    def _cursor(self, doing: str) -> Iterator[duckdb.DuckDBPyConnection]:
        cursor = guarded(doing, self.connection.cursor)
        try:
            yield cursor
        finally:
            cursor.close()


def _try_open(
    path: str | Path, read_only: bool, settings: Mapping[str, str]
) -> tuple[duckdb.DuckDBPyConnection | None, DatabaseError]:
    """Open the file or say why not, in our own words."""
    try:
        return duckdb.connect(str(path), read_only=read_only, config=dict(settings)), DatabaseError("")
    except duckdb.IOException as error:
        text = str(error)
    except duckdb.ConnectionException:
        return None, DatabaseError(
            f'"{path}" is already open in this process with other settings.',
            hint="pass that connection: dpsql.connect(connection)",
        )
    except duckdb.Error:
        text = ""
    if "could not set lock on" in text.lower() or "used by another process" in text.lower():
        return None, DatabaseLocked(f'another process holds "{path}".', hint="close it, or wait longer: --wait SECONDS")
    if "read-only file system" in text.lower() or "permission denied" in text.lower():
        return None, DatabaseReadOnly(f'"{path}" cannot be written.', hint="check the file's permissions")
    return None, DatabaseError(f'"{path}" cannot be opened as a DuckDB database.', hint="check --db")


def _may_write(statement: duckdb.Statement) -> bool:
    """Whether a statement could write to a file that the connection may read: DuckDB allows both or neither."""
    if statement.type == duckdb.StatementType.EXPLAIN:
        return "copy" in statement.query.lower()
    return statement.type in (duckdb.StatementType.COPY, duckdb.StatementType.PREPARE)


def _full_name(schema: str, table: str) -> str:
    return table if schema == "main" else f"{schema}.{table}"


def _try_set(cursor: duckdb.DuckDBPyConnection, statement: str) -> bool:
    try:
        cursor.execute(statement)
    except duckdb.Error:
        return False  # a locked configuration: slower, not wrong
    return True


def _quiet_rollback(cursor: duckdb.DuckDBPyConnection) -> None:
    try:
        cursor.rollback()
    except duckdb.Error:
        return  # the failed commit already undid it
