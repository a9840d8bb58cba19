"""Runs SQL typed by the file's holder on a hardened connection in which dpsql can be called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from dpsql import errors
from dpsql.api.database import Database
from dpsql.api.duckdb_sql import attach, macro_statements
from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.kernel.datasets.dataset import why_not_free

#: Where the name of a macro stands in the statement that makes it.
_MACRO = re.compile(r"MACRO (dpsql_\w+)")


@dataclass(frozen=True)
class Answer:
    """What one statement gave: columns and rows, or an error in words that quote no cell."""

    columns: list[str] = field(default_factory=list)
    rows: list[tuple[object, ...]] = field(default_factory=list)
    error: str | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of the error: dpsql's own ones keep theirs."""
        kind = self._kind
        return kind.exit_code if kind else 1

    @property
    def message(self) -> str:
        """The error in words, without the name of its class."""
        text = self.error or ""
        return text.partition(": ")[2] if self._kind else text

    @property
    def _kind(self) -> type[errors.DpsqlError] | None:
        kind = getattr(errors, (self.error or "").partition(": ")[0], None)
        return kind if isinstance(kind, type) and issubclass(kind, errors.DpsqlError) else None


class Shell:
    """A prepared connection; closing it lets the database go."""

    def __init__(self, database: Database) -> None:
        if not isinstance(database.engine, DuckDBEngine):
            raise errors.UsageError("the shell works on DuckDB files alone.")
        self._engine, self._book = database.engine, database.book
        self._engine.prepare_for_statements()  # its users may write, in the connection that is prepared here
        attach(self._engine.connection, who=database.who)

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()

    def run(self, text: str) -> Iterator[Answer]:
        """Run every statement in a text and yield what each gave; stop at the first error."""
        for columns, rows, error in self._engine.interactive(text):
            yield Answer(columns, rows, error)
            if error is not None:
                return

    def tables(self) -> list[tuple[str, str]]:
        """Return the tables and views, each with "private" where rows of a registered table are in it."""
        infos = {name: self._engine.table(name) for name in self._engine.tables()}
        return [
            (name, "private" if info is not None and why_not_free(self._engine, self._book, info) else "")
            for name, info in infos.items()
        ]

    def names(self) -> list[str]:
        """Return the names of tables, views and models."""
        models = [row for answer in self.run("SELECT name FROM dpsql.model") for row in answer.rows]
        return [*self._engine.tables(), *(str(name) for (name,) in models)]

    def functions(self) -> list[str]:
        """Return the functions of dpsql that can be called."""
        return [name for statement in macro_statements() for name in _MACRO.findall(statement)]
