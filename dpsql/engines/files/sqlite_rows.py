"""Reads tables of a SQLite file as texts, so that no cell can make reading fail.

A column of SQLite has no type that its cells must have: one declared INTEGER may hold 'abc', or bytes that are no text.
DuckDB's own scanner of SQLite fails on such a cell, and a failure that one row causes is a message about that row. So
dpsql reads the file itself, with the SQLite of Python: every cell is a text or NULL, as in CSV, and the declared schema
says how to read it. One statement reads a table, so that a run sees one state of it, whoever writes meanwhile.

A cell's text is a function of the cell alone, and cells are equal where their texts are: that is what a declared
privacy unit, a category or a key means in a SQLite file. So the integer 5, the text '5' and the bytes of that text are
one unit, as they would be in CSV, and 5.0 is another; a cell cannot change what others mean. Whatever else differs has
different texts: bytes that are no UTF-8 are spelled out, a cell of more than a million bytes stands as its SHA-256, and
a text that looks like one of these is marked as a text. Nothing is cut off. Memory holds one long cell at a time, twice
for a moment (SQLite's own copy, and ours); SQLite lets a cell have a thousand million bytes.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from sqlglot import exp

from dpsql.engines.error_replacement import COUNTING, ErrorReplacement
from dpsql.errors import DatabaseError

_MAGIC = b"SQLite format 3\x00"
#: Rows that are handed over at once, and characters in them, by which the last row may go beyond.
_ROWS = 20_000
_CHARACTERS = 1 << 24
#: Bytes of the longest cell that stands as it is.
LONGEST_CELL = 1_000_000
#: How the texts begin that do not stand as they are in the file.
_MARK = "dpsql cell "
#: Stored tables, without SQLite's own and without those that a module computes.
_TABLES = """
SELECT name FROM sqlite_master
WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' AND upper(substr(sql, 1, 14)) <> 'CREATE VIRTUAL' ORDER BY name
"""
_COLUMNS = "SELECT name FROM pragma_table_info(?) ORDER BY cid"
_replace_errors = ErrorReplacement(
    (sqlite3.Error, MemoryError), lambda doing, error: DatabaseError(f"SQLite could not {doing}.")
)


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
    # A column that is gone must fail: SQLite takes a quoted name for a text unless the table's name is before it.
    cells = [exp.column(name, table, quoted=True) for name in columns]
    statement = exp.select(*cells).from_(exp.table_(table, quoted=True)).sql("sqlite")
    with closing(_replace_errors(COUNTING, lambda: _connect(path))) as connection:
        cursor = _replace_errors(COUNTING, lambda: connection.execute(statement))
        while rows := _replace_errors(COUNTING, lambda: _next_rows(cursor)):
            yield {name: list(cells) for name, cells in zip(columns, zip(*rows, strict=True), strict=True)}


def _next_rows(cursor: sqlite3.Cursor) -> list[tuple[str | None, ...]]:
    """Return the next rows as texts: as many as are handed over at once, and no more than fit into memory."""
    rows: list[tuple[str | None, ...]] = []
    characters = 0
    for row in cursor:
        texts = tuple(map(_as_text, row))
        rows.append(texts)
        characters += sum(map(len, filter(None, texts)))
        if len(rows) >= _ROWS or characters >= _CHARACTERS:
            break
    return rows


def _as_text(cell: object) -> str | None:
    """Return a cell as text. Of two cells that are both numbers, or both bytes, no two different ones have one text.

    Numbers: `repr` of a float, and only that, tells it from all others. Bytes: UTF-8 is decoded one to one; every other
    text begins with the mark and the kind of the cell, and so does a text that began with the mark itself. For two long
    cells to have one text, their SHA-256 would have to be the same.

    >>> [_as_text(cell) for cell in (1, 0.1, b"Ann", b"\\xff", b"dpsql cell of mine", None)]
    ['1', '0.1', 'Ann', 'dpsql cell bytes ff', 'dpsql cell text dpsql cell of mine', None]
    """
    if cell is None:
        return None
    return _text_of(cell) if isinstance(cell, bytes) else str(cell)


def _text_of(data: bytes) -> str:
    if len(data) > LONGEST_CELL:
        return f"{_MARK}sha256 {hashlib.sha256(data).hexdigest()}"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"{_MARK}bytes {data.hex()}"
    return f"{_MARK}text {text}" if text.startswith(_MARK) else text


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
