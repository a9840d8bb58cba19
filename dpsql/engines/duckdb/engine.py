"""DuckDB: a hardened connection, its catalog, its transactions, and the functions that are its own.

A connection that dpsql opens cannot reach files, other databases, extensions or Python variables, and its
configuration is locked. A connection that the caller opened cannot be locked down: `weaknesses` says what is open.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from sqlglot import exp

from dpsql.engines.base import ColumnNote, Health, TableInfo, Transaction, check_same
from dpsql.engines.duckdb.attached import MAIN, describe_table, list_names, read_catalogs
from dpsql.engines.duckdb.catalog import (
    COMMENTS,
    KEYS,
    LEDGER_OF,
    LOGGED,
    LOGS,
    NO_LOGS,
    OPTIMIZERS,
    UNIQUE_KEYS,
    notes_of,
)
from dpsql.engines.duckdb.cursor import (
    READ_ONLY,
    DuckDBTransaction,
    DuckDBWorkspace,
    StandIn,
    compare_bytes,
    fetch_chunks,
    fetch_from_duckdb,
    hold_one_state,
    load_into_duckdb,
    no_stand_in,
    render_for_this_database,
    replace_errors,
    rollback_quietly,
    try_set,
)
from dpsql.engines.duckdb.files import MARK
from dpsql.engines.duckdb.folder import VIEWS, FileTables, SessionFiles
from dpsql.engines.duckdb.opening import (
    HAND_SHAPED,
    HARDENING,
    SPILL,
)
from dpsql.engines.duckdb.table_identity import remove_identity, write_identity
from dpsql.engines.duckdb.typed_statements import Answer, run_typed
from dpsql.engines.duckdb.use_statement import NO_USE, Use
from dpsql.engines.duckdb.user_functions import is_internal, read_macros, replaced_functions, users_functions
from dpsql.engines.duckdb.vocabulary import DIALECT, DuckDBVocabulary
from dpsql.engines.error_replacement import COUNTING
from dpsql.engines.files import file_parts, spill_folder
from dpsql.errors import DatabaseReadOnly, UsageError
from dpsql.spelling import split_catalog

Connection = duckdb.DuckDBPyConnection


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
    home = implicit_schema = MAIN

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        *,
        path: Path | None,
        owned: bool,
        files: FileTables | None = None,
        spill: str = "",
        use: Use = NO_USE,
        home_database: str | None = None,
    ) -> None:
        self.connection = connection
        self._spill = spill
        self.vocabulary = DuckDBVocabulary()
        self.path = path
        self.owned = owned
        self._files = files
        self._use = use
        self._used_schema = use.schema
        self._home_database = home_database or use.elsewhere
        self._marked = threading.local()
        #: What is done before the first write: it makes the file that a database in memory stands for, and returns it
        #: open; or it writes what belongs there, and returns None.
        self.before_writing: Callable[[], DuckDBEngine | None] | None = None
        #: The next step for whoever wants to write to a database that was opened read-only; "" where it was not.
        self.read_only_hint = ""
        self._first_write = threading.RLock()

    def prepare_for_statements(self) -> None:
        """Do what comes before statements that people type; where the file is read-only, DuckDB refuses to write."""
        if not self.read_only_hint:
            self.prepare_to_write()

    def prepare_to_write(self) -> None:
        """Do what comes before the first write, or refuse it. Whatever only reads does not call this."""
        if self.read_only_hint:
            raise DatabaseReadOnly(READ_ONLY, hint=self.read_only_hint)
        with self._first_write:
            prepare, self.before_writing = self.before_writing, None
            if prepare is None:
                return
            done = False
            try:
                written = prepare()
                done = True
            finally:
                if not done:
                    self.before_writing = prepare
            if written is not None:
                empty, spill = self.connection, self._spill
                self.connection, self._spill = written.connection, written._spill
                self._files, self.before_writing = written._files, written.before_writing
                empty.close()
                spill_folder.leave(spill)
                self.prepare_to_write()

    def __repr__(self) -> str:
        return f"<DuckDB {self.path or 'in memory'}>"

    def health(self) -> list[Health]:
        """Return the driver's version, how the connection is hardened, and whether the file can be written."""
        weak = self.weaknesses()
        writable = self.path is None or os.access(self.path if self.path.exists() else self.path.parent, os.W_OK)
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
        self.prepare_to_write()
        with self.snapshot() as transaction:
            yield transaction

    @contextmanager
    def snapshot(self) -> Iterator[DuckDBTransaction]:
        """Open a transaction for reading: in DuckDB any sees one state of the database."""
        with self._cursor("write to its own tables") as cursor:
            replace_errors("begin a transaction", cursor.begin)
            done = False
            around, self._marked.tables = self._marked_tables(), []
            try:
                yield DuckDBTransaction(cursor)
                replace_errors("commit", cursor.commit)
                done = True
            finally:
                if not done:
                    rollback_quietly(cursor)
                    self._remove_marks()
                self._marked.tables = around

    def tables(self) -> list[str]:
        """Return the user's tables and views, by the names that `table` takes."""
        with self._cursor("read its catalog") as cursor:
            names = set(list_names(cursor, self._home_database)) - self._file_views(cursor)
        return sorted({*names, *(self._files.names() if self._files else [])})

    def _file_views(self, cursor: Connection) -> set[str]:
        """Return the names of views that stand for files: the files themselves are asked, and some may be gone."""
        return set() if self._files is None else {name for name, _ in fetch_from_duckdb(cursor, VIEWS, [MARK])}

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
        info = describe_table(cursor, name, schema, home=self._home_database, used=self._used_schema)
        return None if info is not None and info.name in self._file_views(cursor) else info

    def column_notes(self, info: TableInfo) -> dict[str, ColumnNote]:
        """Return comments and keys by column; files have none."""
        if self._files is not None and self._files.find(info.name) is not None:
            return {}
        with self._cursor("read its catalog") as cursor:
            place = [*split_catalog(info.schema), info.table]
            comments, keys = (fetch_from_duckdb(cursor, query, place) for query in (COMMENTS, KEYS))
            return notes_of(comments, keys, info.schema)

    def identify(self, transaction: Transaction, info: TableInfo) -> TableInfo:
        """Return a base table with its identity, which is written into its comment, after what stands there.

        DuckDB writes to one database in a transaction. The mark of a table of an attached database is therefore
        committed on its own, and taken away again when the ledger's transaction is undone.
        """
        files = self._files is not None and self._files.find(info.name) is not None
        if files or info.identity:
            return info
        database, _ = split_catalog(info.schema)
        if database is None:
            return write_identity(transaction, info)
        if self._is_read_only(database):
            return info
        with self.transaction() as other:
            marked = write_identity(other, info)
        self._marked_tables().append(marked)
        return marked

    def holds_ledger(self, database: str) -> bool:
        """Return whether an attached database has a ledger of its own."""
        with self._cursor("read its catalog") as cursor:
            return bool(fetch_from_duckdb(cursor, LEDGER_OF, [database]))

    def _is_read_only(self, database: str) -> bool:
        with self._cursor("read its catalog") as cursor:
            return any(catalog.name == database and catalog.read_only for catalog in read_catalogs(cursor))

    def _marked_tables(self) -> list[TableInfo]:
        """Return the attached tables that the present transaction of this thread has marked."""
        if not hasattr(self._marked, "tables"):
            self._marked.tables = []
        tables: list[TableInfo] = self._marked.tables
        return tables

    def _remove_marks(self) -> None:
        """Take away the marks that a transaction wrote into attached databases before it was undone."""
        tables, self._marked.tables = self._marked_tables(), []
        for info in tables:
            with self.transaction() as other:
                remove_identity(other, info)

    def user_functions(self) -> list[str]:
        """Return the names of macros and functions that users defined, in lower case."""
        with self._cursor("read its catalog") as cursor:
            return sorted(users_functions(cursor))

    def macros(self) -> dict[str, str]:
        """Return the text of each macro by its name."""
        with self._cursor("read its catalog") as cursor:
            return read_macros(cursor)

    def redefined_functions(self) -> list[str]:
        """Return the built-in functions that a user's macro or Python function stands in for."""
        with self._cursor("read its catalog") as cursor:
            return sorted(replaced_functions(cursor))

    def is_built_in(self, name: str) -> bool:
        """Return whether a function of DuckDB's own has that name, in whatever letter case."""
        with self._cursor("read its catalog") as cursor:
            return is_internal(cursor, name)

    def unique_keys(self, info: TableInfo) -> list[frozenset[str]] | None:
        """Return the columns of each PRIMARY KEY and UNIQUE constraint; DuckDB checks them at every commit."""
        with self._cursor("read its catalog") as cursor:
            rows = fetch_from_duckdb(cursor, UNIQUE_KEYS, [*split_catalog(info.schema), info.table])
        return [frozenset(name.lower() for name in names) for (names,) in rows]

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
            text = render_for_this_database(cursor, query, self._stand_in(cursor))
            return replace_errors("read the table", lambda: cursor.execute(text).fetchdf(), cursor.interrupt)

    def chunks(self, query: exp.Expr, rows: int) -> Iterator[pd.DataFrame]:
        """Run a query over public or released tables, and yield its rows as they come, about `rows` at a time."""
        with self._cursor("read the table") as cursor, self._tune_optimizer(cursor):
            text = render_for_this_database(cursor, query, self._stand_in(cursor))
            yield from fetch_chunks(cursor, text, rows)

    def create(self, name: str, query: exp.Expr, tables: Mapping[str, Any] | None = None) -> None:
        """Create a table from a query over public or released tables; nothing is left when it fails."""
        self.prepare_to_write()
        statement = exp.Create(this=exp.table_(name, quoted=True), kind="TABLE", expression=query)
        with self._cursor("create the table") as cursor, self._tune_optimizer(cursor):
            for table, columns in (tables or {}).items():
                load_into_duckdb(cursor, table, columns)
            text = render_for_this_database(cursor, statement, self._stand_in(cursor))
            replace_errors("create the table", lambda: cursor.execute(text), cursor.interrupt)

    def add_column(self, info: TableInfo, column: str, make: Callable[[int], np.ndarray[Any, Any]]) -> None:
        """Add a BIGINT column to a base table and fill it, row address by row address, in one transaction."""
        if self._files is not None and self._files.find(info.name) is not None:
            raise UsageError(f'table "{info.name}" is files, which dpsql never writes to.', hint="its rows need no ids")
        database, schema = split_catalog(info.schema)
        table = exp.table_(info.table, db=schema, catalog=database, quoted=True)
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
        self.prepare_for_statements()
        return run_typed(self.connection, text, on_files=self._files is not None)

    def close(self) -> None:
        """Close the connection if dpsql opened it."""
        if self.owned:
            self.connection.close()
            spill, self._spill = self._spill, ""
            spill_folder.leave(spill)

    def _stand_in(self, cursor: Connection) -> StandIn:
        return SessionFiles(self._files, cursor).stand_in_for_public if self._files else no_stand_in

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
                self._use.apply(cursor)
            yield cursor
        finally:
            cursor.close()


def _is_logged(cursor: Connection) -> bool:
    """Whether statements of this cursor are written down."""
    log, file = fetch_from_duckdb(cursor, LOGS)[0]
    return str(log).lower() in ("true", "1") or bool(file)
