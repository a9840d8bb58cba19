"""Which engine a target means: a DuckDB file, files of Parquet and CSV with a ledger beside them, or a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dpsql.engines import duckdb
from dpsql.engines.base import Engine
from dpsql.engines.duckdb_folder import FileTables
from dpsql.engines.tablefiles import find_tables, is_files, ledger_file
from dpsql.errors import DatabaseError, DatabaseReadOnly, ParameterError

_POSTGRES = ("postgresql://", "postgres://")
_ALLOWED = "the path of a DuckDB file or of files, a postgresql:// URL, or a connection of DuckDB or psycopg"


def open_engine(
    target: Any,
    *,
    create: bool = False,
    read_only: bool = False,
    wait: float = 2.0,
    ledger: str | Path | None = None,
) -> Engine:
    """Open what a target names, or wrap a connection. `ledger` says where the ledger of files lies."""
    if _connection_of(target, "psycopg"):
        return _own_ledger(ledger) or _postgres().adopt(target)
    if isinstance(target, duckdb.Connection):
        return _own_ledger(ledger) or duckdb.adopt(target)
    if not isinstance(target, str | Path) or "\x00" in str(target) or not str(target):
        raise ParameterError("db", allowed=_ALLOWED, given=target if isinstance(target, str) else type(target))
    if str(target).startswith(_POSTGRES):
        return _own_ledger(ledger) or _postgres().open_server(str(target), wait=wait)
    if not _nameable(target):
        raise ParameterError("db", allowed=_ALLOWED, given=str(target))
    if str(target) != ":memory:" and is_files(Path(target)):
        return _open_files(Path(target), read_only=read_only, wait=wait, ledger=ledger)
    return _own_ledger(ledger) or duckdb.open_file(target, create=create, read_only=read_only, wait=wait)


def _own_ledger(ledger: str | Path | None) -> Any:
    """Refuse another ledger for a database that keeps its own."""
    if ledger is not None:
        raise ParameterError(
            "ledger",
            allowed="given only for files, which cannot keep one themselves",
            given=str(ledger),
            hint="leave it out: a database has its own ledger",
        )


def _open_files(target: Path, *, read_only: bool, wait: float, ledger: str | Path | None) -> Engine:
    """Open files through a DuckDB file that holds their ledger, made at the first time."""
    tables = find_tables(target)
    place = ledger_file(target, tables, ledger)
    if read_only and not place.exists():
        raise DatabaseReadOnly(f'"{target}" has no ledger yet.', hint="open it once without --read-only")
    if not read_only and not os.access(place if place.exists() else place.parent, os.W_OK):
        raise DatabaseReadOnly(
            f'the ledger "{place}" cannot be written.', hint="--ledger FILE, in a folder that can be written"
        )
    return duckdb.open_file(place, create=True, read_only=read_only, wait=wait, files=FileTables(tables))


def _connection_of(target: object, driver: str) -> bool:
    """Whether a target is an object of a driver, told without importing it."""
    return type(target).__module__.split(".")[0] == driver


def _postgres() -> Any:
    try:
        from dpsql.engines import postgres
    except ImportError:
        missing = DatabaseError("PostgreSQL needs psycopg, which is missing.", hint="pip install 'dpsql[postgres]'")
    else:
        return postgres
    raise missing


def _nameable(path: str | Path) -> bool:
    """Whether the system takes a path as a file's name at all."""
    try:
        return Path(path).exists() in (True, False)
    except (OSError, ValueError):
        return False
