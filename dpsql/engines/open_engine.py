"""Which engine a target means: a DuckDB file, files, a server, or Spark or chDB with a ledger elsewhere."""

from __future__ import annotations

import os
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from dpsql.engines.base import Engine
from dpsql.engines.duckdb import engine
from dpsql.engines.duckdb.folder import FileTables
from dpsql.engines.files.table_files import find_tables, is_files, ledger_file
from dpsql.errors import DatabaseError, DatabaseReadOnly, ParameterError, UsageError

_SERVERS = ("postgresql://", "postgres://")
_CLUSTER = "spark://"
_FOLDER = "chdb://"
_ALLOWED = "a path, a postgresql://, spark:// or chdb:// URL, or a connection of DuckDB, psycopg, Ibis, Spark or chDB"
_EXTRAS = {
    "postgres": ("PostgreSQL", "psycopg"),
    "spark": ("Spark", "pyspark and pyarrow"),
    "chdb": ("chDB", "chdb and pyarrow"),
}


def open_engine(
    target: Any,
    *,
    create: bool = False,
    read_only: bool = False,
    wait: float = 2.0,
    ledger: str | Path | None = None,
) -> Engine:
    """Open what a target names, or wrap a connection. `ledger` says where the ledger of files, Spark or chDB lies."""
    driver = str(type(target).__module__).split(".")[0]
    if driver == "ibis":
        target, driver = _behind(target)
    if driver == "pyspark" or (isinstance(target, str) and target.startswith(_CLUSTER)):
        return _open_spark(target, read_only=read_only, wait=wait, ledger=ledger)
    if driver == "chdb" or (isinstance(target, str) and target.startswith(_FOLDER)):
        return _open_chdb(target, read_only=read_only, wait=wait, ledger=ledger)
    if driver == "psycopg":
        return _own_ledger(ledger) or _extra("postgres").adopt(target)
    if isinstance(target, engine.Connection):
        return _own_ledger(ledger) or engine.adopt(target)
    if not isinstance(target, str | Path) or "\x00" in str(target) or not str(target):
        raise ParameterError("db", allowed=_ALLOWED, given=target if isinstance(target, str) else type(target))
    if str(target).startswith(_SERVERS):
        return _own_ledger(ledger) or _extra("postgres").open_server(str(target), wait=wait)
    if not _nameable(target):
        raise ParameterError("db", allowed=_ALLOWED, given=str(target))
    if str(target) != ":memory:" and is_files(Path(target)):
        return _open_files(Path(target), read_only=read_only, wait=wait, ledger=ledger)
    return _own_ledger(ledger) or engine.open_file(target, create=create, read_only=read_only, wait=wait)


def _behind(backend: Any) -> tuple[Any, str]:
    """Return the connection of an Ibis backend, and its driver; Ibis shows those of DuckDB and PostgreSQL as `con`."""
    found = getattr(backend, "con", None)
    driver = str(type(found).__module__).split(".")[0]
    if driver != "psycopg" and not isinstance(found, engine.Connection):
        raise ParameterError(
            "db",
            allowed="an Ibis connection to DuckDB or PostgreSQL",
            given=getattr(backend, "name", type(backend)),
            hint="for Spark pass the SparkSession itself, and ledger=…",
        )
    return found, driver


def _own_ledger(ledger: str | Path | None) -> Any:
    """Refuse another ledger for a database that keeps its own."""
    if ledger is not None:
        raise ParameterError(
            "ledger",
            allowed="given only for files, Spark and chDB, which cannot keep one themselves",
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
    return engine.open_file(place, create=True, read_only=read_only, wait=wait, files=FileTables(tables))


def _open_spark(target: Any, *, read_only: bool, wait: float, ledger: str | Path | None) -> Engine:
    """Open the ledger first: where it cannot be reached, Spark is not started."""
    book, spark = _book("Spark", "spark", read_only=read_only, wait=wait, ledger=ledger)
    with ExitStack() as undo:
        undo.callback(book.close)
        opened = spark.open_cluster(target, book, wait=wait) if isinstance(target, str) else spark.adopt(target, book)
        undo.pop_all()
    return opened


def _open_chdb(target: Any, *, read_only: bool, wait: float, ledger: str | Path | None) -> Engine:
    """Open the ledger first: where it cannot be reached, chDB is not started."""
    book, chdb = _book("chDB", "chdb", read_only=read_only, wait=wait, ledger=ledger)
    with ExitStack() as undo:
        undo.callback(book.close)
        opened = chdb.open_folder(target, book) if isinstance(target, str) else chdb.adopt(target, book)
        undo.pop_all()
    return opened


def _book(what: str, extra: str, *, read_only: bool, wait: float, ledger: str | Path | None) -> tuple[Engine, Any]:
    """Return the database that keeps the ledger of one without transactions, and the module of that one."""
    if ledger is None:
        raise UsageError(
            f"{what} has no transactions, so its ledger and models must be kept elsewhere.",
            hint="--ledger FILE.duckdb, or --ledger postgresql://… (ledger=… in Python)",
        )
    if str(ledger).startswith((_CLUSTER, _FOLDER)):
        raise ParameterError("ledger", allowed="a DuckDB file or a postgresql:// URL", given=str(ledger))
    module = _extra(extra)
    return open_engine(ledger, create=not read_only, read_only=read_only, wait=wait), module


def _extra(name: str) -> Any:
    """Return an engine whose driver is not installed with dpsql."""
    try:
        return import_module(f"dpsql.engines.{name}.engine")
    except ImportError:
        what, needed = _EXTRAS[name]
        missing = DatabaseError(f"{what} needs {needed}, which is not installed.", hint=f"pip install 'dpsql[{name}]'")
    raise missing


def _nameable(path: str | Path) -> bool:
    """Whether the system takes a path as a file's name at all."""
    try:
        return Path(path).exists() in (True, False)
    except (OSError, ValueError):
        return False
