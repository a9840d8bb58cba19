"""DuckDB: a hardened connection, its catalog, its transactions, and the functions that are its own.

A connection that dpsql opens cannot reach files, other databases, extensions or Python variables, and its
configuration is locked. A connection that the caller opened cannot be locked down: `weaknesses` says what is open.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from sqlglot import exp

from dpsql.engines.base import Conflict, Health, TableInfo, Transaction, check_same
from dpsql.engines.duckdb import is_table_files
from dpsql.engines.duckdb.catalog import (
    CHECKS,
    COLUMNS,
    LOGGED,
    LOGS,
    NO_LOGS,
    OPTIMIZERS,
    PATH,
    TABLES,
    TEXT,
    columns_of,
)
from dpsql.engines.duckdb.cursor import (
    DuckDBTransaction,
    DuckDBWorkspace,
    StandIn,
    compare_bytes,
    fetch_from_duckdb,
    hold_one_state,
    load_into_duckdb,
    no_stand_in,
    render_for_this_database,
    replace_errors,
    rollback_quietly,
    try_set,
)
from dpsql.engines.duckdb.folder import FileTables, SessionFiles
from dpsql.engines.duckdb.opening import HAND_SHAPED, HARDENING, SPILL, open_duckdb_connection, secure
from dpsql.engines.duckdb.table_identity import write_identity
from dpsql.engines.duckdb.typed_statements import Answer, run_typed
from dpsql.engines.duckdb.user_functions import is_internal, replaced_functions, users_functions
from dpsql.engines.duckdb.vocabulary import DIALECT, DuckDBVocabulary
from dpsql.engines.error_replacement import COUNTING
from dpsql.engines.files import file_parts, spill_folder
from dpsql.engines.files.table_files import find_tables, ledger_file
from dpsql.engines.identity_texts import mark_in
from dpsql.engines.spec import NotAConnection, Opening
from dpsql.engines.table_names import find_entry, full_name
from dpsql.errors import DatabaseError, DatabaseLocked, DatabaseReadOnly, UsageError

Connection = duckdb.DuckDBPyConnection
#: The files that a connection was opened with, for whoever wraps it again.
_FILES: weakref.WeakKeyDictionary[Connection, FileTables] = weakref.WeakKeyDictionary()


def open_target(target: str, opening: Opening) -> DuckDBEngine:
    """Open a DuckDB file, or files of Parquet and CSV with a DuckDB file that holds their ledger."""
    if is_table_files(target):
        return open_files(Path(target), opening)
    return open_file(target, create=opening.create, read_only=opening.read_only, wait=opening.wait)


def open_files(target: Path, opening: Opening) -> DuckDBEngine:
    """Open files through a DuckDB file that holds their ledger, and that is made when they are first opened."""
    tables = find_tables(target)
    place = ledger_file(target, tables, opening.ledger_place)
    if opening.read_only and not place.exists():
        raise DatabaseReadOnly(f'"{target}" has no ledger yet.', hint="open it once without --read-only")
    if not opening.read_only and not os.access(place if place.exists() else place.parent, os.W_OK):
        raise DatabaseReadOnly(
            f'the ledger "{place}" cannot be written.', hint="--ledger FILE, in a folder that can be written"
        )
    files = FileTables(tables)
    return open_file(place, create=True, read_only=opening.read_only, wait=opening.wait, files=files)


def adopt_connection(connection: object, opening: Opening) -> DuckDBEngine:
    """Wrap a connection that the caller opened."""
    if not isinstance(connection, Connection):
        raise NotAConnection
    return adopt(connection)


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
    connection = open_duckdb_connection(path, read_only=read_only, wait=wait)
    spill = secure(connection, file, files=files, read_only=read_only)
    if files is not None:
        _FILES[connection] = files
    compare_bytes(connection)
    engine = DuckDBEngine(connection, path=file, owned=True, spill=spill)
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
        rows = fetch_from_duckdb(cursor, PATH)
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
    driver = "duckdb"
    home = implicit_schema = "main"

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, *, path: Path | None, owned: bool, spill: str = ""
    ) -> None:
        self.connection = connection
        self._spill = spill
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
            values = {
                name: str(fetch_from_duckdb(cursor, "SELECT system.main.current_setting(?)", [name])[0][0])
                for name in names
            }
            spill, logged = fetch_from_duckdb(cursor, SPILL)[0][0], _is_logged(cursor)
        safe_values = HARDENING | {"lock_configuration": "true"}
        weak = [
            f"{name} is {values[name].lower()}, not {safe}."
            for name, safe in safe_values.items()
            if values[name].lower() != safe
        ]
        if logged:
            weak.append(f"its log holds the text of statements: no run is charged before {NO_LOGS}.")
        readable = f"temp_directory is {spill}: rows that do not fit in memory lie there, where others can read them."
        return [*weak, readable] if spill and spill_folder.open_to_others(spill) else weak

    @contextmanager
    def transaction(self) -> Iterator[DuckDBTransaction]:
        """Open a write transaction on a cursor of its own: durable at the end of the block, undone when it raises."""
        with self._cursor("write to its own tables") as cursor:
            replace_errors("begin a transaction", cursor.begin)
            done = False
            try:
                yield DuckDBTransaction(cursor)
                replace_errors("commit", cursor.commit)
                done = True
            finally:
                if not done:
                    rollback_quietly(cursor)

    def snapshot(self) -> AbstractContextManager[DuckDBTransaction]:
        """Open a transaction for reading: in DuckDB any sees one state of the database."""
        return self.transaction()

    def tables(self) -> list[str]:
        """Return the user's tables and views, by the names that `table` takes."""
        with self._cursor("read its catalog") as cursor:
            rows = fetch_from_duckdb(cursor, TABLES)
        files = self._files.names() if self._files else []
        return sorted({*files, *(full_name((row[0], row[1]), self.home) for row in rows)})

    def table(self, name: str, *, schema: str | None = None) -> TableInfo | None:
        """Return what the catalog says of a table or view. Reads no row, not even the estimated size.

        DuckDB numbers its tables anew whenever a file is opened. What lasts, whatever a table is called and however its
        columns change, is its comment: there the identity of a registered table is kept.
        """
        with self._cursor("read its catalog") as cursor:
            return self._description(cursor, name, schema)

    def _description(self, cursor: Connection, name: str, schema: str | None) -> TableInfo | None:
        info = self._catalog_entry(cursor, name, schema)
        return replace(info, unfit=LOGGED, remedy=NO_LOGS) if info is not None and _is_logged(cursor) else info

    def _catalog_entry(self, cursor: Connection, name: str, schema: str | None) -> TableInfo | None:
        files = self._files.find(name) if self._files and schema in (None, self.home) else None
        if self._files is not None and files is not None:
            return self._files.info(files, DuckDBTransaction(cursor))
        entries = {(row[0], row[1]): row for row in fetch_from_duckdb(cursor, TABLES)}
        entry = find_entry(entries, name, schema=schema, home=self.home)  # "É" and "é" are two tables in DuckDB
        if entry is None:
            return None
        place, (schema, table, definition, comment, number) = entry
        columns = fetch_from_duckdb(cursor, COLUMNS, [schema, table])
        checks = fetch_from_duckdb(cursor, CHECKS, [schema, table])
        own = [(None,)] if definition else fetch_from_duckdb(cursor, TEXT, [schema, table]) or [("",)]
        identity = mark_in(comment)
        return TableInfo(
            name=full_name(place, self.home),
            schema=schema,
            table=table,
            columns=columns_of(columns, own[0][0]),
            kind="view" if definition else "table",
            definition=definition or "",
            checks=tuple(text for (text,) in checks),
            identity=identity,
            rows=frozenset([identity] if identity else []),
            version=str(number),
        )

    def identify(self, transaction: Transaction, info: TableInfo) -> TableInfo:
        """Return a base table with its identity, which is written into its comment, after what stands there."""
        files = self._files is not None and self._files.find(info.name) is not None
        return info if files or info.identity else write_identity(transaction, info)

    def user_functions(self) -> list[str]:
        """Return the names of macros and functions that users defined, in lower case."""
        with self._cursor("read its catalog") as cursor:
            return sorted(users_functions(cursor))

    def redefined_functions(self) -> list[str]:
        """Return the built-in functions that a user's macro or Python function stands in for."""
        with self._cursor("read its catalog") as cursor:
            return sorted(replaced_functions(cursor))

    def is_built_in(self, name: str) -> bool:
        """Return whether a function of DuckDB's own has that name, in whatever letter case."""
        with self._cursor("read its catalog") as cursor:
            return is_internal(cursor, name)

    def ways_in(self, info: TableInfo) -> list[Health]:
        """Return nothing: there are no roles, so whoever can name a table can read it."""
        return []

    def readers(self, info: TableInfo) -> list[Health]:
        """Return nothing: there are no roles."""
        return []

    @contextmanager
    def workspace(self, reads: Sequence[TableInfo] = ()) -> Iterator[DuckDBWorkspace]:
        """Open a workspace: one transaction on a cursor of its own, whose temporary tables nobody else sees.

        Rows that the caller's own connection has not committed are not in it.
        """
        if self._files is not None:
            file_parts.remember(self.transaction, self._files.stamps(reads))
        with self._cursor(COUNTING) as cursor, self._tune_optimizer(cursor), hold_one_state(cursor):
            for before in reads:
                check_same(before, self._description(cursor, before.table, before.schema))
            if self._files is None:
                yield DuckDBWorkspace(cursor)
            else:
                files = SessionFiles(self._files, cursor)
                yield DuckDBWorkspace(cursor, files.stand_in, files.check)

    def frame(self, query: exp.Expr, tables: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Run a query over public or released tables and return it as a DataFrame (predictions, never training)."""
        with self._cursor("read the table") as cursor, self._tune_optimizer(cursor):
            for name, columns in (tables or {}).items():
                load_into_duckdb(cursor, name, columns)
            text = render_for_this_database(cursor, query, self._stand_in)
            return replace_errors("read the table", lambda: cursor.execute(text).fetchdf())

    def create(self, name: str, query: exp.Expr, tables: Mapping[str, Any] | None = None) -> None:
        """Create a table from a query over public or released tables; nothing is left when it fails."""
        statement = exp.Create(this=exp.table_(name, quoted=True), kind="TABLE", expression=query)
        with self._cursor("create the table") as cursor, self._tune_optimizer(cursor):
            for table, columns in (tables or {}).items():
                load_into_duckdb(cursor, table, columns)
            text = render_for_this_database(cursor, statement, self._stand_in)
            replace_errors("create the table", lambda: cursor.execute(text))

    def add_column(self, info: TableInfo, column: str, make: Callable[[int], np.ndarray[Any, Any]]) -> None:
        """Add a BIGINT column to a base table and fill it, row address by row address, in one transaction."""
        if self._files is not None and self._files.find(info.name) is not None:
            raise UsageError(f'table "{info.name}" is files, which dpsql never writes to.', hint="its rows need no ids")
        table = exp.table_(info.table, db=info.schema, quoted=True)
        name = exp.to_identifier(column, quoted=True)
        defined = exp.ColumnDef(this=name, kind=exp.DataType.build("BIGINT"))
        addresses = exp.select("rowid").from_(table)
        ids = f"{info.table}_made"  # never the table's own name, whatever that is
        filled = exp.Update(
            this=table.copy(),
            expressions=[exp.column(name.copy()).eq(exp.column("id", ids, quoted=True))],
            from_=exp.From(this=exp.table_(ids, quoted=True)),
            where=exp.Where(
                this=exp.column("rowid", info.table, quoted=True).eq(exp.column("address", ids, quoted=True))
            ),
        )
        with self.transaction() as transaction:
            transaction.run(exp.Alter(this=table.copy(), kind="TABLE", actions=[defined]))
            rows = transaction.arrays(addresses)["rowid"]
            transaction.load(ids, {"address": rows, "id": make(len(rows))})
            transaction.run(filled)

    def interactive(self, text: str) -> Iterator[Answer]:
        """Run what the file's holder typed; yield columns, rows and error of each statement."""
        return run_typed(self.connection, text, on_files=self._files is not None)

    def close(self) -> None:
        """Close the connection if dpsql opened it."""
        if self.owned:
            self.connection.close()
            spill, self._spill = self._spill, ""
            spill_folder.leave(spill)

    @property
    def _stand_in(self) -> StandIn:
        return self._files.stand_in if self._files else no_stand_in

    @contextmanager
    def _tune_optimizer(self, cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Replace the caller's optimizer setting, which is global, for one block, and restore it afterwards.

        A connection that dpsql opened has the setting from the start.
        """
        before = None if self.owned else fetch_from_duckdb(cursor, OPTIMIZERS)[0][0]
        tuned = before is not None and try_set(cursor, HAND_SHAPED)
        try:
            yield
        finally:
            if tuned:
                try_set(cursor, f"SET disabled_optimizers = {exp.Literal.string(before or '').sql(DIALECT)}")

    @contextmanager
    def _cursor(self, doing: str) -> Iterator[duckdb.DuckDBPyConnection]:
        cursor = replace_errors(doing, self.connection.cursor)
        try:
            if not self.owned:
                compare_bytes(cursor)
            yield cursor
        finally:
            cursor.close()


def _is_logged(cursor: Connection) -> bool:
    """Whether statements of this cursor are written down."""
    log, file = fetch_from_duckdb(cursor, LOGS)[0]
    return str(log).lower() in ("true", "1") or bool(file)
