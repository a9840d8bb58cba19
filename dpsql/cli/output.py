"""What commands print: tables and JSON on stdout, notes, progress and errors on stderr."""

from __future__ import annotations

import csv
import io
import json
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpsql.errors import DpsqlError


def clean(text: object) -> str:
    """Return text without control characters: a table's name must not be able to steer the terminal.

    >>> clean("a\\x1b[31mb")
    'a�[31mb'
    """
    return "".join(c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf") else "�" for c in str(text))


def say(text: str) -> None:
    """Print a result to stdout."""
    click.echo(clean(text))


def note(text: str) -> None:
    """Print a remark to stderr."""
    click.echo(clean(text), err=True)


def print_json(value: Any) -> None:
    """Print one JSON value to stdout and nothing else."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_csv(columns: Sequence[str], rows: Sequence[Mapping[Any, Any]]) -> None:
    """Print rows as CSV to stdout."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    click.echo(buffer.getvalue(), nl=False)


def print_table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows as a table to stdout; nothing in a cell is taken for markup."""
    table = Table(title=Text(clean(title)) if title else None, title_justify="left", show_edge=False, pad_edge=False)
    for name in columns:
        table.add_column(Text(clean(name)), overflow="fold")
    for row in rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    Console(file=sys.stdout, soft_wrap=False, width=_width()).print(table)


@contextmanager
def working(doing: str) -> Iterator[None]:
    """Show that something long is going on, on stderr and only on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(Text(clean(doing))):
        yield


def report(error: DpsqlError) -> None:
    """Print an error and its next step to stderr."""
    click.echo(f"Error: {clean(error.message)}", err=True)
    if error.hint:
        click.echo(f"Try:   {clean(error.hint)}", err=True)


def _width() -> int | None:
    return None if sys.stdout.isatty() else 120
