"""Reads code books in CSV: a line for each value, or a line for each column with its bounds or its list."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from dpsql.engines.files.csv_header import read_header
from dpsql.errors import SchemaError
from dpsql.owner.drafts.code_book_entry import HEADERS, CodeBookEntry, listed_texts

#: The most lines that are read: a code book of more is a table of rows by mistake.
MOST_LINES = 200_000


def csv_entries(path: Path) -> Iterator[CodeBookEntry]:
    """Yield an entry for each column of a table, in the order of their first lines."""
    header = read_header(path)
    places = _places(header.names)
    if "column" not in places or not places.keys() & {"value", "values", "lower", "upper"}:
        raise SchemaError(
            f'code book "{path.name}", line 1: its first line must name a column for the columns, and one for their '
            "values or bounds.",
            hint="column,value,label  or  column,min,max  or  column,values",
        )
    entries: dict[tuple[str, str], CodeBookEntry] = {}
    table = column = ""
    for line, cells in _csv_lines(path, header.delimiter):
        row = {name: cells[place].strip() for name, place in places.items() if place < len(cells)}
        if not any(cell.strip() for cell in cells):
            continue
        table, column = row.get("table") or table, row.get("column") or column  # a blank repeats the line above
        if not column:
            raise SchemaError(f'code book "{path.name}", line {line}: it names no column.')
        entry = entries.setdefault((table.lower(), column.lower()), CodeBookEntry(column, line, table=table))
        entry.values += [text for text in (row.get("value", ""), *listed_texts(row.get("values", ""))) if text]
        entry.lower, entry.upper = entry.lower or row.get("lower", ""), entry.upper or row.get("upper", "")
    yield from entries.values()


def _places(names: tuple[str, ...]) -> dict[str, int]:
    """Return which column of the code book has which meaning."""
    lowered = [re.sub(r"[\W_]+", "_", name.strip().lower()).strip("_") for name in names]
    places: dict[str, int] = {}
    for meaning, words in HEADERS.items():
        place = next((lowered.index(word) for word in words if word in lowered), None)
        if place is not None and place not in places.values():
            places[meaning] = place
    return places


def _csv_lines(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each line after the first, with its number."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            for cells in reader:
                if reader.line_num > MOST_LINES:
                    raise SchemaError(
                        f'code book "{path.name}" has more than {MOST_LINES} lines.',
                        hint="a sample of rows is no code book: --like FILE",
                    )
                if reader.line_num > 1:
                    yield reader.line_num, cells
        except csv.Error:
            raise SchemaError(f'code book "{path.name}", line {reader.line_num}: it is not CSV.') from None
        except UnicodeDecodeError:
            raise SchemaError(f'code book "{path.name}" is not UTF-8 text.', hint="save it as UTF-8") from None
