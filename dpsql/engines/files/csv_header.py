"""The header of a CSV file: its column names and the sign between them. Nothing else of a file decides how it is read.

DuckDB's sniffer guesses delimiter, quotes and types from rows, so that one row could change what everybody sees of the
table. It is not used: the delimiter follows from the header line, quotes are double quotes, every cell is text.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from dpsql.errors import DatabaseError

#: Signs that may stand between cells; the first of them that the header line holds is taken.
_DELIMITERS = (",", ";", "\t", "|")
#: Characters of a header line that are read.
_LONGEST = 1_000_000


@dataclass(frozen=True)
class Header:
    """Column names, and the sign between cells."""

    names: tuple[str, ...]
    delimiter: str


def read_header(path: Path) -> Header:
    """Return the header of a file, which must have one. No message quotes it: without a header it would be a row."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        line = file.readline(_LONGEST)
    first = next((sign for sign in _DELIMITERS if sign in line), ",")
    delimiter = "\t" if path.suffix.lower() == ".tsv" else first
    try:
        names = next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        names = []
    if not names or not all(_is_name(name) for name in names) or len({name.lower() for name in names}) < len(names):
        raise DatabaseError(
            f'the first line of "{path.name}" does not give each column a name of its own.',
            hint="put a line of column names, all different and none a number, at its top",
        )
    return Header(tuple(names), delimiter)


def _is_name(text: str) -> bool:
    """Whether a text can name a column: neither empty nor a number, which would be a cell of a row."""
    try:
        float(text)
    except ValueError:
        return bool(text.strip()) and "\x00" not in text and "\ufffd" not in text
    return False
