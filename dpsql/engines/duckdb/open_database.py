"""Opens a DuckDB database: a file, files of rows with a ledger beside them, a ledger elsewhere; wraps connections."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import duckdb

from dpsql.engines.base import Conflict
from dpsql.engines.duckdb import is_table_files
from dpsql.engines.duckdb.attaching import Attached
from dpsql.engines.duckdb.catalog import PATH
from dpsql.engines.duckdb.cursor import compare_bytes, fetch_from_duckdb
from dpsql.engines.duckdb.engine import Connection, DuckDBEngine
from dpsql.engines.duckdb.folder import FileTables
from dpsql.engines.duckdb.opening import (
    LEAVE_OUT_READ_ONLY,
    READ_ONLY_HINT,
    limit_memory,
    open_duckdb_connection,
    refuse_to_make,
    secure,
)
from dpsql.engines.duckdb.other_ledgers import check_other_ledgers
from dpsql.engines.duckdb.use_statement import use_of
from dpsql.engines.files.table_files import find_tables, ledger_file
from dpsql.engines.other_databases import file_refusal, scheme_of
from dpsql.engines.spec import NotAConnection, Opening
from dpsql.errors import DatabaseError, DatabaseLocked, DpsqlError, ParameterError

#: The files that a connection was opened with, for whoever wraps it again.
_FILES: weakref.WeakKeyDictionary[Connection, FileTables] = weakref.WeakKeyDictionary()


def open_target(target: str, opening: Opening) -> DuckDBEngine:
    """Open a DuckDB file, or files of Parquet and CSV with a DuckDB file that holds their ledger."""
    if is_table_files(target):
        return open_files(Path(target), opening)
    refusal = file_refusal(Path(target))
    if refusal is not None:
        raise refusal
    attach = [Attached.parse(text) for text in opening.attach]
    if opening.ledger_place is not None:
        return open_beside_ledger(Path(target), attach, opening)
    if opening.made_by_writing and not attach and target != ":memory:" and not Path(target).exists():
        return open_unwritten(Path(target), read_only=opening.read_only, wait=opening.wait)
    return open_file(
        target,
        create=opening.create,
        read_only=opening.read_only,
        wait=opening.wait,
        attach=attach,
        memory_limit=opening.memory_limit,
    )


def open_beside_ledger(target: Path, attach: Sequence[Attached], opening: Opening) -> DuckDBEngine:
    """Open a DuckDB file whose ledger and models are in another one, which is made when it is first needed.

    The connection is to the ledger's file, and the rows' file is attached to it: nothing but a table's mark is ever
    written there, and that only where the file can be written.
    """
    place = Path(str(opening.ledger_place))
    source = Attached(target.name.split(".")[0], target)
    if not target.is_file():
        raise DatabaseError(f'there is no database file "{target}".', hint="check --db")
    if is_table_files(str(place)) or scheme_of(str(place)) or (place.exists() and place.samefile(target)):
        raise ParameterError("ledger", allowed="another DuckDB file, new or there already", given=str(place))
    # Where nothing is registered yet and nothing will be written, no file is made.
    unwritten = opening.read_only and not place.exists()
    is_new, done = not place.exists() and not unwritten, False
    try:
        engine = open_file(
            ":memory:" if unwritten else place,
            create=True,
            read_only=opening.read_only,
            wait=opening.wait,
            attach=[source, *attach],
            home_database=source.name,
            memory_limit=opening.memory_limit,
        )
        if unwritten:
            engine.path, engine.before_writing = place, refuse_to_make(place, read_only=True)
        if engine.holds_ledger(source.name):
            engine.close()
            allowed = "left out: this database has a ledger of its own"
            raise ParameterError("ledger", allowed=allowed, given=str(place), hint=f"--db {target}")
        done = True
    finally:
        if is_new and not done:
            place.unlink(missing_ok=True)
    return engine


def open_files(target: Path, opening: Opening) -> DuckDBEngine:
    """Open files through a DuckDB file that holds their ledger, and that is made when something is first written."""
    tables = find_tables(target)
    place = ledger_file(target, tables, opening.ledger_place)
    files = FileTables(tables)
    opened = open_file if place.exists() else open_unwritten
    engine = opened(
        place, read_only=opening.read_only, wait=opening.wait, files=files, memory_limit=opening.memory_limit
    )
    with ExitStack() as undo:
        undo.callback(engine.close)
        check_other_ledgers(engine.connection, place, tables, wait=opening.wait)
        undo.pop_all()
    return engine


def adopt_connection(connection: object, opening: Opening) -> DuckDBEngine:
    """Wrap a connection that the caller opened."""
    if not isinstance(connection, Connection):
        raise NotAConnection
    return adopt(connection)


def open_unwritten(
    place: Path,
    *,
    read_only: bool = False,
    wait: float = 2.0,
    files: FileTables | None = None,
    memory_limit: str | None = None,
) -> DuckDBEngine:
    """Open a ledger that is not there yet, as an empty database in memory. Its file is made by the first write.

    Whoever only looks leaves nothing behind. With `read_only` the first write is refused.
    """
    _check_name(place)
    refuse = refuse_to_make(place, read_only=read_only)
    if not place.parent.is_dir():
        refuse()
    engine = open_file(":memory:", files=files, memory_limit=memory_limit)
    engine.path = place

    def make_file() -> DuckDBEngine:
        if read_only or not os.access(place.parent, os.W_OK):
            refuse()
        return open_file(place, create=True, wait=wait, files=files, memory_limit=memory_limit)

    engine.before_writing = make_file
    return engine


def _check_name(file: Path) -> None:
    if file.name.split(".")[0].lower() == "dpsql":
        raise DatabaseError(f'a database called "{file}" would share its name with dpsql\'s schema.', hint="rename it")


def open_file(
    path: str | Path,
    *,
    create: bool = False,
    read_only: bool = False,
    wait: float = 2.0,
    files: FileTables | None = None,
    attach: Sequence[Attached] = (),
    home_database: str | None = None,
    memory_limit: str | None = None,
) -> DuckDBEngine:
    """Open a DuckDB file (or ":memory:") hardened and locked; wait up to `wait` seconds for another process.

    With `files` their tables are there too, and the databases of `attach`: these are all that the connection reaches
    outside its own file. Tables of `home_database`, one of those, are called by their names alone. What goes beyond
    `memory_limit` is spilled to disk.
    Raises DatabaseError when there is no such file and `create` is not given, DatabaseLocked when another
    process keeps it.
    """
    file = None if str(path) == ":memory:" else Path(path)
    if file is not None and not file.exists() and (not create or not file.parent.is_dir()):
        raise DatabaseError(f'there is no database file "{file}".', hint="check --db, or run: dpsql demo")
    if file is not None:
        _check_name(file)
    asked, read_only = read_only, read_only or (file is not None and file.exists() and not os.access(file, os.W_OK))
    connection = open_duckdb_connection(path, read_only=read_only and file is not None, wait=wait)
    try:
        limit_memory(connection, memory_limit)
        spill = secure(connection, file, files=files, attach=attach, read_only=read_only, wait=wait)
    except DpsqlError:
        connection.close()
        raise
    if files is not None:
        _FILES[connection] = files
    compare_bytes(connection)
    engine = DuckDBEngine(connection, path=file, owned=True, files=files, spill=spill, home_database=home_database)
    engine.read_only_hint = (LEAVE_OUT_READ_ONLY if asked else READ_ONLY_HINT) if read_only and file else ""
    return engine if files is None else _with_files(engine, files)


def _with_files(engine: DuckDBEngine, files: FileTables) -> DuckDBEngine:
    """Read what the files' columns are; let the database go when that fails. The first write names them in the catalog.

    So whoever only looks at files that have changed leaves the ledger as it was.
    """
    with ExitStack() as undo:
        undo.callback(engine.close)
        files.look(engine.connection)
        with engine.snapshot() as transaction:
            files.check_free(transaction)
        undo.pop_all()

    def name_files() -> None:
        try:
            with engine.transaction() as transaction:
                files.install(transaction)
        except Conflict:
            raise DatabaseLocked("another thread is opening these files.", hint="try again") from None

    engine.before_writing = name_files
    return engine


def adopt(connection: duckdb.DuckDBPyConnection) -> DuckDBEngine:
    """Wrap a connection that the caller opened. It stays the caller's: not locked down, not closed.

    What the caller has said by USE holds: the database there is the one that dpsql works in.
    """
    engine = DuckDBEngine(connection, path=None, owned=False, files=_FILES.get(connection), use=use_of(connection))
    with engine._cursor("read its catalog") as cursor:  # not the connection: it may hold a result not yet fetched
        rows = fetch_from_duckdb(cursor, PATH)
    engine.path = Path(rows[0][0]) if rows and rows[0][0] else None
    return engine
