"""How the bench prints figures: as a table or as JSON, on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console
from rich.table import Table


def number_text(value: float | None, *, places: int = 2, sign: bool = False) -> str:
    """Return a number with `places` decimal places, or nothing for None.

    >>> number_text(1.234), number_text(1, places=1, sign=True), number_text(None)
    ('1.23', '+1.0', '')
    """
    return "" if value is None else f"{value:{'+' if sign else ''}.{places}f}"


def either(figures: Mapping[str, Any], shown: Table, *, as_json: bool) -> None:
    """Print figures as JSON and nothing else, or as a table."""
    if as_json:
        click.echo(json.dumps(figures, indent=2))
    else:
        text_table(shown)


def text_table(shown: Table) -> None:
    """Print a table. A pipe has no width: take one at which no line is broken."""
    Console(width=None if sys.stdout.isatty() else 160).print(shown)
