"""Attaches other DuckDB files to a connection while it is opened: afterwards it reaches these files and no others."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
from sqlglot import exp

from dpsql.engines.duckdb.attached import read_catalogs
from dpsql.engines.duckdb.vocabulary import DIALECT
from dpsql.engines.other_databases import file_refusal, url_refusal
from dpsql.errors import DatabaseError, DatabaseLocked, ParameterError, UsageError

#: Names that mean something else in a DuckDB connection.
_TAKEN = ("dpsql", "system", "temp", "main")
_FORM = "a DuckDB file, or NAME=FILE"


@dataclass(frozen=True)
class Attached:
    """A DuckDB file to attach, and the name that its tables go by."""

    name: str
    path: Path

    @staticmethod
    def parse(text: str) -> Attached:
        """Return what `--attach` names: NAME=FILE, or a file, which goes by its name without ending as in DuckDB.

        >>> Attached.parse("hr=/data/people.duckdb").name, Attached.parse("/data/people.duckdb").name
        ('hr', 'people')
        """
        name, equals, place = text.partition("=")
        if not equals or os.sep in name or Path(text).exists():
            name, place = "", text
        refusal = url_refusal(place)
        if place.startswith(("postgresql://", "postgres://")):
            refusal = UsageError("a PostgreSQL server is opened itself, not attached.", hint=f"--db {_SERVER}")
        if refusal is not None:
            raise refusal
        if not place or "\x00" in text:
            raise ParameterError("attach", allowed=_FORM, given=text)
        return Attached(name or Path(place).name.split(".")[0], Path(place))


_SERVER = "postgresql://USER@HOST/DATABASE"


def attach_files(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Attached], *, read_only: bool, wait: float
) -> None:
    """Attach files to a connection that is not locked yet, each to be written where it can be."""
    for file in files:
        _check(connection, file)
        _attach(connection, file, read_only=read_only or not is_writable(file.path), wait=wait)


def check_attached(connection: duckdb.DuckDBPyConnection, files: Sequence[Attached]) -> None:
    """Raise DatabaseError unless a connection that was locked before has these files attached."""
    present = {catalog.name.lower() for catalog in read_catalogs(connection)}
    for file in files:
        if file.name.lower() not in present:
            raise DatabaseError(
                f'the database is already open in this process, without "{file.name}".', hint="close it first"
            )


def is_writable(path: Path) -> bool:
    """Whether a file may be written: by this account, and by the file's own mode, which root could pass by."""
    try:
        return bool(path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)) and os.access(path, os.W_OK)
    except OSError:
        return False


def _check(connection: duckdb.DuckDBPyConnection, file: Attached) -> None:
    """Raise an error unless a file is there to be attached under its name."""
    if not file.path.is_file():
        raise DatabaseError(f'there is no database file "{file.path}" to attach.', hint="check --attach and --db")
    refusal = file_refusal(file.path)
    if refusal is not None:
        raise refusal
    names = {catalog.name.lower() for catalog in read_catalogs(connection)}
    if file.name.lower() in names or file.name.lower() in _TAKEN or not file.name:
        raise ParameterError("attach", allowed="under a name that is not taken: NAME=FILE", given=file.name)


def _attach(connection: duckdb.DuckDBPyConnection, file: Attached, *, read_only: bool, wait: float) -> None:
    deadline = time.monotonic() + wait
    while True:
        problem = _try_attach(connection, file, read_only=read_only)
        if problem is None:
            return
        if not isinstance(problem, DatabaseLocked) or time.monotonic() >= deadline:
            raise problem
        time.sleep(0.05)


def _try_attach(connection: duckdb.DuckDBPyConnection, file: Attached, *, read_only: bool) -> DatabaseError | None:
    """Attach a file, or say why not, in our own words."""
    place = exp.Literal.string(str(file.path.resolve())).sql(DIALECT)
    name = exp.to_identifier(file.name, quoted=True).sql(DIALECT)
    try:
        connection.execute(f"ATTACH {place} AS {name} (TYPE duckdb, {'READ_ONLY' if read_only else 'READ_WRITE'})")
        return None
    except duckdb.Error as error:
        text = str(error).lower()
    if "could not set lock on" in text or "used by another process" in text:
        return DatabaseLocked(f'another process holds "{file.path}".', hint="close it, or wait longer: --wait SECONDS")
    if "already attached" in text or "already open" in text or "unique file handle conflict" in text:
        return DatabaseError(f'"{file.path}" is already open in this process.', hint="close it first")
    return DatabaseError(f'"{file.path}" cannot be opened as a DuckDB database.', hint="check --attach and --db")
