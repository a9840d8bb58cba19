"""Opens a DuckDB file: it reaches nothing else, its settings are locked, and rows that it spills stay private."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import duckdb
from sqlglot import exp

from dpsql.engines.duckdb.attaching import Attached, attach_files, check_attached
from dpsql.engines.duckdb.cursor import fetch_from_duckdb, replace_errors, try_set
from dpsql.engines.duckdb.folder import FileTables
from dpsql.engines.duckdb.vocabulary import DIALECT
from dpsql.engines.files import spill_folder
from dpsql.errors import DatabaseError, DatabaseLocked, DatabaseReadOnly, ParameterError

#: Statements are shaped by hand; these two rewrites turn a level join into a build on the data side.
HAND_SHAPED = "SET disabled_optimizers = 'join_order,build_side_probe_side'"
HARDENING = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
#: DuckDB takes the list of allowed files, and where rows are spilled, only once the database is open and before its
#: door is shut. Nothing is run in between.
_NOT_YET_CLOSED = {name: value for name, value in HARDENING.items() if name != "enable_external_access"}
#: The format of a new file, which DuckDB 1.2 and later open. A file that exists keeps its own.
_FILE_FORMAT: dict[str, str | bool | int | float | list[str]] = {"storage_compatibility_version": "v1.2.0"}
#: Where rows that do not fit in memory are put.
SPILL = "SELECT system.main.current_setting('temp_directory')"
READ_ONLY_HINT = "check the file's permissions, or keep ledger and models in another file: --ledger FILE"
LEAVE_OUT_READ_ONLY = "leave out --read-only (read_only=True in Python)"
_ONE_AT_A_TIME = threading.Lock()


def open_duckdb_connection(path: str | Path, *, read_only: bool, wait: float) -> duckdb.DuckDBPyConnection:
    """Open a file or ":memory:"; wait up to `wait` seconds for another process that has it open.

    DuckDB opens a file in one way in a process: where this one writes to it already, `read_only`
    means nothing.
    """
    deadline = time.monotonic() + wait
    while True:
        connection, problem = _try_open(path, read_only)
        if connection is not None:
            return connection
        if not isinstance(problem, DatabaseLocked) or time.monotonic() >= deadline:
            raise problem
        time.sleep(0.05)


def limit_memory(connection: duckdb.DuckDBPyConnection, limit: str | None) -> None:
    """Let DuckDB take no more memory than a limit such as "512MB"; a database that is open already keeps its own."""
    if limit is None or _is_locked(connection):
        return
    text = exp.Literal.string(str(limit)).sql(DIALECT)
    if not try_set(connection, f"SET memory_limit = {text}"):
        raise ParameterError("memory_limit", allowed='a size such as "512MB" or "4GB"', given=limit)


def secure(
    connection: duckdb.DuckDBPyConnection,
    file: Path | None,
    *,
    files: FileTables | None,
    read_only: bool,
    attach: Sequence[Attached] = (),
    wait: float = 0.0,
) -> str:
    """Close a connection to the outside, files of its own apart, and lock its settings; return where rows are spilled.

    The databases of `attach` are attached before. Where the same process has the database open, that was done before.
    """
    with _ONE_AT_A_TIME:
        return _secure(connection, file, files, attach, read_only=read_only, wait=wait)


def _secure(
    connection: duckdb.DuckDBPyConnection,
    file: Path | None,
    files: FileTables | None,
    attach: Sequence[Attached],
    *,
    read_only: bool,
    wait: float,
) -> str:
    if _is_locked(connection):
        if files is not None:
            files.check_allowed(connection)
        check_attached(connection, attach)
        spill = str(fetch_from_duckdb(connection, SPILL)[0][0])
        spill_folder.share(spill)
        return spill
    attach_files(connection, attach, read_only=read_only, wait=wait)
    if file is not None and not read_only:
        _remove_left_rows(file)
    spill = str(spill_folder.make(file, near=files.place if files is not None else None))
    place = exp.Literal.string(spill).sql(DIALECT)
    replace_errors("set where it spills", lambda: connection.execute(f"SET temp_directory = {place}"))
    connection.execute(HAND_SHAPED)
    if files is not None:
        files.allow(connection)
    replace_errors("close itself", lambda: connection.execute("SET enable_external_access = false"))
    connection.execute("SET lock_configuration = true")
    return spill


def _is_locked(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether this process has the database open already, with its settings locked."""
    return bool(fetch_from_duckdb(connection, "SELECT system.main.current_setting('lock_configuration')")[0][0])


def refuse_to_make(ledger: Path, *, read_only: bool) -> Callable[[], NoReturn]:
    """Return what refuses to make a ledger's file: it was opened read-only, or its folder cannot be written."""

    def refuse() -> NoReturn:
        hint = LEAVE_OUT_READ_ONLY if read_only else "--ledger FILE, in a folder that can be written"
        raise DatabaseReadOnly(f'the ledger "{ledger}" is not there and cannot be written.', hint=hint)

    return refuse


def _remove_left_rows(file: Path) -> None:
    """Remove the rows that a killed process of another tool left where DuckDB puts them by itself.

    Called where the file was opened to be written, by this process alone; readers cannot tell whether others use it.
    """
    folder = file.with_name(file.name + ".tmp")
    if folder.is_dir() and not folder.is_symlink():
        for left in folder.glob("duckdb_temp_*"):
            left.unlink(missing_ok=True)
        with suppress(OSError):  # something else lies there
            folder.rmdir()


def _try_open(path: str | Path, read_only: bool) -> tuple[duckdb.DuckDBPyConnection | None, DatabaseError]:
    """Open the file or say why not, in our own words."""
    try:
        return duckdb.connect(
            str(path), read_only=read_only, config={**_NOT_YET_CLOSED, **_FILE_FORMAT}
        ), DatabaseError("")
    except duckdb.IOException as error:
        text = str(error)
    except duckdb.ConnectionException:
        if read_only:
            return _try_open(path, read_only=False)
        return None, DatabaseError(
            f'"{path}" is already open in this process with other settings.',
            hint="pass that connection: dpsql.connect(connection)",
        )
    except duckdb.Error:
        text = ""
    if "could not set lock on" in text.lower() or "used by another process" in text.lower():
        return None, DatabaseLocked(f'another process holds "{path}".', hint="close it, or wait longer: --wait SECONDS")
    if "read-only file system" in text.lower() or "permission denied" in text.lower():
        return None, DatabaseReadOnly(f'"{path}" cannot be written.', hint=READ_ONLY_HINT)
    return None, DatabaseError(f'"{path}" cannot be opened as a DuckDB database.', hint="check --db")
