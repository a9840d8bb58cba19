"""Reads tables of a SQLite file as texts, so that no cell can make reading fail.

A column of SQLite has no type that its cells must have: one declared INTEGER may hold 'abc', or bytes that are no text.
DuckDB's own scanner of SQLite fails on such a cell, and a failure that one row causes is a message about that row. So
dpsql reads the file itself, with the SQLite of Python: every cell is a text or NULL, as in CSV, and the declared schema
says how to read it. One statement reads a table, so that a run sees one state of it, whoever writes meanwhile.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from dpsql.engines.error_replacement import COUNTING, ErrorReplacement
from dpsql.errors import DatabaseError

_MAGIC = b"SQLite format 3\x00"
#: Rows that are handed over at once.
_CHUNK = 20_000
#: Stored tables, without SQLite's own and without those that a module computes.
_TABLES = """
SELECT name FROM sqlite_master
WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' AND upper(substr(sql, 1, 14)) <> 'CREATE VIRTUAL' ORDER BY name
"""
_COLUMNS = "SELECT name FROM pragma_table_info(?) ORDER BY cid"
_replace_errors = ErrorReplacement((sqlite3.Error,), lambda doing, error: DatabaseError(f"SQLite could not {doing}."))


def is_sqlite(path: Path) -> bool:
    """Whether a path is a file of SQLite, by its first bytes."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):
        return False


def table_names(path: Path) -> list[str]:
    """Return the names of the stored tables of a file. Reads no row of theirs."""
    return [str(name) for (name,) in _look(path, _TABLES, ())]


def column_names(path: Path, table: str) -> list[str]:
    """Return the names of a table's stored columns."""
    return [str(name) for (name,) in _look(path, _COLUMNS, (table,))]


def read_chunks(path: Path, table: str, columns: Sequence[str]) -> Iterator[dict[str, list[str | None]]]:
    """Yield all rows of a table in chunks, as texts by column; a failure is the one error of a failed count."""
    listed = ", ".join(map(_quote, columns))
    with closing(_replace_errors(COUNTING, lambda: _connect(path))) as connection:
        cursor = _replace_errors(COUNTING, lambda: connection.execute(f"SELECT {listed} FROM {_quote(table)}"))
        while rows := _replace_errors(COUNTING, lambda: cursor.fetchmany(_CHUNK)):
            cells = zip(*rows, strict=True)
            yield {name: [_as_text(cell) for cell in column] for name, column in zip(columns, cells, strict=True)}


def _as_text(cell: object) -> str | None:
    """Return a cell as text; bytes that are no UTF-8 are replaced.

    >>> [_as_text(cell) for cell in (1, 0.1, b"\\xff", None)]
    ['1', '0.1', '\\ufffd', None]
    """
    if cell is None:
        return None
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)


def _look(path: Path, query: str, parameters: Sequence[object]) -> list[tuple[object, ...]]:
    def look() -> list[tuple[object, ...]]:
        with closing(_connect(path)) as connection:
            connection.text_factory = str
            return connection.execute(query, parameters).fetchall()

    return _replace_errors("read the file's catalog", look)


def _connect(path: Path) -> sqlite3.Connection:
    """Open a file for reading alone; texts come as bytes, because they need not be UTF-8."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    connection.text_factory = bytes
    return connection


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
