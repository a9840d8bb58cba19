"""Reads the SQL written by hand: inside the wheel it lies in `dpsql/sql`, in a working copy one level up."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent
PLACES = (_HERE / "sql", _HERE.parent / "sql")


def read(name: str) -> str:
    """Return the text of one file of `sql/`, such as `ledger.sql` or `duckdb/macros.sql`.

    >>> "CREATE SCHEMA" in read("ledger.sql")
    True
    """
    for place in PLACES:
        if (place / name).is_file():
            return (place / name).read_text(encoding="utf-8")
    raise FileNotFoundError(f"sql/{name} is missing from this installation of dpsql")


def statements(name: str) -> list[str]:
    """Return the statements of a hand-written file: each ends with a semicolon at the end of its line."""
    return [part for part in read(name).split(";\n") if part.strip()]
