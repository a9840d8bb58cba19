"""Which engine a name means: a file of DuckDB, a server by its URL, or Spark with a ledger elsewhere."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from dpsql.engines import duckdb
from dpsql.engines.base import Engine
from dpsql.errors import DatabaseError, ParameterError, UsageError

_SERVERS = ("postgresql://", "postgres://")
_CLUSTER = "spark://"
_ALLOWED = (
    "the path of a DuckDB file, a postgresql:// or spark:// URL, or an open connection of DuckDB, psycopg or Spark"
)
_EXTRAS = {"postgres": ("PostgreSQL", "psycopg"), "spark": ("Spark", "pyspark and pyarrow")}


def open_engine(
    target: Any,
    *,
    create: bool = False,
    read_only: bool = False,
    wait: float = 2.0,
    ledger: str | Path | None = None,
) -> Engine:
    """Open what a name means, or wrap a connection that the caller opened. `ledger` is for Spark, which keeps none."""
    driver = str(type(target).__module__).split(".")[0]
    if driver == "pyspark" or (isinstance(target, str) and target.startswith(_CLUSTER)):
        return _open_spark(target, read_only=read_only, wait=wait, ledger=ledger)
    if ledger is not None:
        raise ParameterError(
            "ledger",
            allowed="given only for Spark, which cannot keep one itself",
            given=str(ledger),
            hint="leave it out",
        )
    if isinstance(target, duckdb.Connection):
        return duckdb.adopt(target)
    if driver == "psycopg":
        return _extra("postgres").adopt(target)
    if not isinstance(target, str | Path) or "\x00" in str(target) or not str(target):
        raise ParameterError("db", allowed=_ALLOWED, given=target if isinstance(target, str) else type(target))
    if str(target).startswith(_SERVERS):
        return _extra("postgres").open_server(str(target), wait=wait)
    if not _nameable(target):
        raise ParameterError("db", allowed=_ALLOWED, given=str(target))
    return duckdb.open_file(target, create=create, read_only=read_only, wait=wait)


def _open_spark(target: Any, *, read_only: bool, wait: float, ledger: str | Path | None) -> Engine:
    """Open the ledger first: where it cannot be reached, Spark is not started."""
    if ledger is None:
        raise UsageError(
            "Spark has no transactions, so its ledger and models must be kept elsewhere.",
            hint="--ledger FILE.duckdb, or --ledger postgresql://… (ledger=… in Python)",
        )
    if str(ledger).startswith(_CLUSTER):
        raise ParameterError("ledger", allowed="a DuckDB file or a postgresql:// URL", given=str(ledger))
    spark = _extra("spark")
    book = open_engine(ledger, create=not read_only, read_only=read_only, wait=wait)
    done = False
    try:
        opened = spark.open_cluster(target, book, wait=wait) if isinstance(target, str) else spark.adopt(target, book)
        done = True
    finally:
        if not done:
            book.close()
    return opened


def _extra(name: str) -> Any:
    """Return an engine whose driver is not installed with dpsql."""
    try:
        return import_module(f"dpsql.engines.{name}")
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
