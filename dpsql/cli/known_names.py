"""Completes names of tables, models and methods that the shell asks for while somebody types.

Names of tables come from the catalog, the ledger and the names of files, names of models from the ledger's database: no
row is read, nothing is written or charged. A DuckDB file, or the ledger of Parquet and CSV files, is opened read-only
and without waiting for another process. A server is not asked, and what cannot be opened has no names: a completion
prints no error. Names that a shell would have to quote are left out, so that nothing but a plain word gets onto a
command line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

from dpsql.api.database import connect
from dpsql.engines import duckdb
from dpsql.engines.files.table_files import find_tables, usual_ledger
from dpsql.errors import DpsqlError
from dpsql.kernel.datasets.dataset import registered_datasets
from dpsql.methods import METHODS
from dpsql.models.store import list_models

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
    db, ledger = context.params.get("db"), context.params.get("ledger")
    if not db or not duckdb.is_path(db):
        return []
    any_table = kind == "table" and context.info_name in _ON_ANY_TABLE
    try:
        if not duckdb.is_table_files(db):
            return _names_in(Path(db), kind, ledger=ledger, any_table=any_table)
        names = _names_in(Path(ledger) if ledger else usual_ledger(Path(db)), kind)
        return [*names, *_others(names, [table.name for table in find_tables(Path(db))] if any_table else [])]
    except (DpsqlError, OSError):  # OSError: a folder that may not be listed
        return []


def _names_in(file: Path, kind: str, *, ledger: str | None = None, any_table: bool = False) -> list[tuple[str, str]]:
    """Return the models or the registered tables of a DuckDB file, and with `any_table` all others of its catalog."""
    if not file.is_file():
        return []
    with connect(file, read_only=True, wait=0, ledger=ledger) as db:
        if kind == "model":
            return [(str(row["name"]), f"{row['method']} on {row['table_name']}") for row in list_models(db.engine)]
        names = [(dataset.table, "registered") for dataset in registered_datasets(db.book).values()]
        return [*names, *_others(names, db.engine.tables() if any_table else [])]


def _others(names: Sequence[tuple[str, str]], tables: Sequence[str]) -> list[tuple[str, str]]:
    """Return the tables that are not among the names; upper and lower case are the same."""
    known = {name.lower() for name, _ in names}
    return [(table, "") for table in tables if table.lower() not in known]
