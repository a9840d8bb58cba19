"""Code books: files in which somebody wrote down what the columns of a table may hold.

CSV comes in three forms, told by the names in its first line: a line for each value (column, value and perhaps its
meaning), a line for each column with its bounds (column, min, max), or with its list (column, values, as "a|b|c").
YAML is a mapping from columns to lists or bounds, or the properties file of a dbt project.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dpsql.engines.base import Column, TableInfo
from dpsql.errors import SchemaError
from dpsql.owner.drafts.code_book_csv import csv_entries
from dpsql.owner.drafts.code_book_entry import CodeBookEntry
from dpsql.owner.drafts.code_book_yaml import yaml_entries
from dpsql.owner.drafts.proposal import FEATURE, GAP, IDENTIFIER, Proposal, Source, as_number, from_bounds, from_values


@dataclass(frozen=True)
class CodeBook:
    """All entries of a code book, in their order, and the file's name."""

    name: str
    entries: tuple[CodeBookEntry, ...]


def read_code_book(path: Path) -> CodeBook:
    """Return what a code book says; its form is told by the file's ending and by its first line or keys."""
    kind = path.suffix.lower()
    if not path.is_file():
        raise SchemaError(f'there is no code book "{path}".', hint="--dictionary FILE, in CSV or YAML")
    if kind in (".csv", ".tsv", ".txt"):
        entries = list(csv_entries(path))
    elif kind in (".yml", ".yaml"):
        entries = list(yaml_entries(path))
    else:
        raise SchemaError(f'"{path}" is no code book: its name must end in .csv, .tsv, .yml or .yaml.')
    problems = [problem for entry in entries for problem in _bounds_problems(entry)]
    if problems:
        raise SchemaError(f'code book "{path.name}": {"; ".join(problems)}.')
    if all(entry.is_empty for entry in entries):
        raise SchemaError(f'the code book "{path.name}" says nothing of any column.', hint="see docs/reference/schema")
    return CodeBook(path.name, tuple(entry for entry in entries if not entry.is_empty))


def code_book_source(book: CodeBook, info: TableInfo) -> Source:
    """Return the source of what a code book says of a table's columns; letter case does not matter."""
    entries = _entries_of(book, info)

    def propose(column: Column) -> Proposal | None:
        entry = entries.get(column.name.lower())
        if entry is None:
            return None
        origin = f"code book {book.name} line {entry.line}"
        if entry.values:
            proposal = from_values(column, entry.values, origin)
        elif entry.lower or entry.upper:
            proposal = from_bounds(column, entry.lower or None, entry.upper or None, origin)
        else:
            return Proposal(column.name, IDENTIFIER, origin=f"{origin}: no two rows share a value")
        if proposal is not None:
            return proposal
        advice = f"what it says does not fit type {column.type[:40]}"
        return Proposal(column.name, FEATURE, {"type": GAP}, origin=origin, advice=advice)

    return propose


def _entries_of(book: CodeBook, info: TableInfo) -> dict[str, CodeBookEntry]:
    """Return the entries of a table's columns: those that name the table, or that name no table at all."""
    names = {info.name.lower(), info.table.lower()}
    tables = {entry.table.lower() for entry in book.entries if entry.table}
    chosen_tables = {""} | (tables & names or (tables if len(tables) == 1 else set()))
    if tables and not tables & names and len(tables) > 1:
        known = ", ".join(f'"{table}"' for table in sorted(tables)[:8])
        raise SchemaError(f'the code book "{book.name}" has no table "{info.table}". It has: {known}.')
    entries: dict[str, CodeBookEntry] = {}
    for entry in book.entries:
        if entry.table.lower() in chosen_tables:
            entries.setdefault(entry.column.lower(), entry)
    if not any(column.name.lower() in entries for column in info.columns):
        raise SchemaError(
            f'the code book "{book.name}" names no column of table "{info.name}".',
            hint="its column names must be those of the table",
        )
    return entries


def names_passed_over(book: CodeBook, info: TableInfo) -> list[str]:
    """Return one sentence for each entry of a code book that names no column of a table, with its line."""
    known = {column.name.lower() for column in info.columns}
    return [
        f'code book {book.name} line {entry.line}: there is no column "{entry.column[:80]}"'
        for name, entry in _entries_of(book, info).items()
        if name not in known
    ]


def _bounds_problems(entry: CodeBookEntry) -> Iterator[str]:
    """Yield what is wrong with the bounds of an entry: they are no numbers, or in the wrong order."""
    numbers = []
    for bound in (entry.lower, entry.upper):
        number = as_number(bound) if bound else None
        if bound and number is None:
            yield f'line {entry.line}: a bound of "{entry.column[:80]}" is no number'
        numbers.append(number)
    if None not in numbers and not numbers[0] < numbers[1]:  # type: ignore[operator]
        yield f'line {entry.line}: min of "{entry.column[:80]}" must be below max'
