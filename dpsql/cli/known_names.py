"""Completes names of tables, models and methods that the shell asks for while somebody types.

Names of tables come from the catalog and the ledger, names of models from the ledger's database: no row is read,
nothing is written or charged. A DuckDB file is opened read-only and without waiting for another process; of other
files the ledger beside them is. A server is not asked, and what cannot be opened has no names: a completion prints no
error. Names that a shell would have to quote are left out, so that nothing but a plain word gets onto a command line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

from dpsql.api.database import Database, connect
from dpsql.engines import duckdb
from dpsql.engines.files.table_files import usual_ledger
from dpsql.errors import DpsqlError
from dpsql.kernel.datasets.dataset import registered_datasets
from dpsql.methods import METHODS

#: What an option of this name stands for.
_KINDS = {"table": "table", "tables": "table", "model": "model", "models": "model", "method": "method"}
#: Commands whose tables may be any of the database; those of others are registered.
_ON_ANY_TABLE = ("register", "draft", "add-ids", "init", "predict", "evaluate", "sql", "export")


class KnownName(StringParamType):
    """The name of a table, a model or a method: any text is taken, and names that are known are completed."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the known names that begin as the word that is being typed."""
        return [
            CompletionItem(name, help=words)
            for name, words in _known_names(self.kind, ctx)
            if name.startswith(incomplete) and shlex.quote(name) == name
        ]


def complete_names(params: Iterable[click.Parameter]) -> None:
    """Let those parameters that name a table, a model or a method complete it."""
    for param in params:
        kind = _KINDS.get(param.name or "")
        if kind is not None and param.type is click.STRING:
            param.type = KnownName(kind)


def _known_names(kind: str, context: click.Context) -> list[tuple[str, str]]:
    """Return names and a few words on each; none where the database cannot be asked at once."""
    if kind == "method":
        return [(method.name, method.when) for method in METHODS.values()]
    file, ledger = _file_with_names(context.params)
    if file is None:
        return []
    try:
        with connect(file, read_only=True, wait=0, ledger=ledger) as db:
            return _models(db) if kind == "model" else _tables(db, any_table=context.info_name in _ON_ANY_TABLE)
    except DpsqlError:
        return []


def _file_with_names(given: Mapping[str, Any]) -> tuple[Path | None, str | None]:
    """Return the DuckDB file that has the names, and its ledger where the user named one; None for all else.

    It is the database itself, or the ledger of files of Parquet and CSV, whose rows are not looked at.
    """
    db, ledger = given.get("db"), given.get("ledger")
    if not db or not duckdb.is_path(db):
        return None, None
    if not duckdb.is_table_files(db):
        return (Path(db), ledger) if Path(db).is_file() else (None, None)
    place = Path(ledger) if ledger else usual_ledger(Path(db))
    return (place if place.is_file() else None), None


def _models(db: Database) -> list[tuple[str, str]]:
    return [(str(row["name"]), f"{row['method']} on {row['table']}") for row in db.models().to_dict("records")]


def _tables(db: Database, *, any_table: bool) -> list[tuple[str, str]]:
    """Return the registered tables, and with `any_table` those of the catalog behind them."""
    registered = [(dataset.table, "registered") for dataset in registered_datasets(db.book).values()]
    known = {name.lower() for name, _ in registered}
    others = [(name, "") for name in db.engine.tables() if name.lower() not in known] if any_table else []
    return [*registered, *others]
