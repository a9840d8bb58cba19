"""Which engine a name means: a file of DuckDB, or a server by the beginning of its URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpsql.engines import duckdb
from dpsql.engines.base import Engine
from dpsql.errors import DatabaseError, ParameterError

_SERVERS = ("postgresql://", "postgres://")
_ALLOWED = "the path of a DuckDB file, a postgresql:// URL, or an open connection of DuckDB or psycopg"


def open_engine(target: Any, *, create: bool = False, read_only: bool = False, wait: float = 2.0) -> Engine:
    """Open what a name means, or wrap a connection that the caller opened."""
    if isinstance(target, duckdb.Connection):
        return duckdb.adopt(target)
    if str(type(target).__module__).split(".")[0] == "psycopg":
        return _postgres().adopt(target)
    if not isinstance(target, str | Path) or "\x00" in str(target) or not str(target):
        raise ParameterError("db", allowed=_ALLOWED, given=target if isinstance(target, str) else type(target))
    if str(target).startswith(_SERVERS):
        return _postgres().open_server(str(target), wait=wait)
    if not _nameable(target):
        raise ParameterError("db", allowed=_ALLOWED, given=str(target))
    return duckdb.open_file(target, create=create, read_only=read_only, wait=wait)


def _postgres() -> Any:
    try:
        from dpsql.engines import postgres
    except ImportError:
        missing = DatabaseError(
            "PostgreSQL needs psycopg, which is not installed.", hint="pip install 'dpsql[postgres]'"
        )
    else:
        return postgres
    raise missing


def _nameable(path: str | Path) -> bool:
    """Whether the system takes a path as a file's name at all."""
    try:
        return Path(path).exists() in (True, False)
    except (OSError, ValueError):
        return False
