"""Reads the SQL written by hand: inside the wheel it lies in `dpsql/sql`, in a working copy one level up."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
#: Marks around the bodies of functions and blocks, in which a semicolon ends no statement of the file.
_BODIES = ("$function$", "$block$")
PLACES = (_PACKAGE / "sql", _PACKAGE.parent / "sql")


def read_sql(name: str) -> str:
    """Return the text of one file of `sql/`, such as `ledger.sql` or `duckdb/macros.sql`.

    >>> "CREATE SCHEMA" in read_sql("ledger.sql")
    True
    """
    for place in PLACES:
        if (place / name).is_file():
            return (place / name).read_text(encoding="utf-8")
    raise FileNotFoundError(f"sql/{name} is missing from this installation of dpsql")


def exists(name: str) -> bool:
    """Return whether `sql/` has a file of that name."""
    return any((place / name).is_file() for place in PLACES)


def statements(name: str, dialect: str = "") -> list[str]:
    """Return the statements of a file, or of a dialect's own one: each ends with a semicolon and a new line."""
    own = f"{dialect}/{name}"
    file = own if dialect and exists(own) else name
    parts: list[str] = []
    for part in read_sql(file).split(";\n"):
        if parts and sum(parts[-1].count(mark) for mark in _BODIES) % 2:  # inside a body
            parts[-1] += ";\n" + part
        else:
            parts.append(part)
    return [part for part in parts if part.strip()]
