"""Refuses to label rows of a registered private table one by one, as far as the text of the statement shows them.

`dpsql_predict('m', t)` gets the values of a row, which do not say where they come from. The statement does: DuckDB
tells its text, and the row's columns are followed to the tables of the FROM that they stand under. What stands behind
a prepared statement, a view with the call in it, or a macro is not seen. Whoever holds the connection can read the rows
in any case, so this protects from mistakes and not from intent; `dpsql_score` knows its table, and always refuses.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope

from dpsql.engines.base import Engine, TableInfo
from dpsql.errors import BudgetError
from dpsql.kernel.datasets.dataset import why_not_free
from dpsql.models.model import Home

#: The functions that label a row, which is their second argument.
_LABEL_ROWS = ("dpsql_predict", "dpsql_predict_proba")
#: For how many seconds a statement that was looked at is not looked at again: it asks once for each row.
_LASTS = 1.0
_DUCKDB = "duckdb"


class RowsAsked:
    """Looks at the statements of a connection that label rows: once for a statement, not once for each of its rows."""

    def __init__(self) -> None:
        self._free: tuple[str, float] | None = None

    def check(self, database: Home, statement: str | None) -> None:
        """Raise BudgetError where a statement labels rows of a registered private table."""
        if statement is None or self.is_known(statement):
            return
        for table in tables_asked(statement):
            info = _info_of(database.engine, table)
            private = None if info is None else why_not_free(database.engine, database.book, info)
            if info is not None and private is not None:
                raise BudgetError(
                    f'"{info.name}" {private}: they cannot be labelled for free.', hint="label a table of new rows"
                )
        self._free = statement, time.monotonic()

    def is_known(self, statement: str | None) -> bool:
        """Return whether a statement was looked at a moment ago, and labels no private rows."""
        free = self._free
        return free is not None and free[0] == statement and time.monotonic() - free[1] < _LASTS


def tables_asked(statement: str) -> list[exp.Table]:
    """Return the tables whose rows a statement labels one by one, as far as its text shows them.

    >>> [table.name for table in tables_asked("SELECT dpsql_predict('m', t) FROM people AS t, other")]
    ['people']
    >>> [table.name for table in tables_asked("SELECT dpsql_predict('m', {age: age}) FROM (FROM people LIMIT 3)")]
    ['people']
    >>> tables_asked("SELECT dpsql_predict('m', {age: 3})")
    []
    """
    try:
        trees = sqlglot.parse(statement, dialect=_DUCKDB)
        return [table for tree in trees if tree is not None for table in _tables_in(tree)]
    except SqlglotError:  # what sqlglot cannot read is not seen
        return []


def _tables_in(tree: exp.Expr) -> Iterator[exp.Table]:
    for scope in traverse_scope(tree):
        sources = {name.lower(): source for name, source in scope.sources.items()}
        for call in scope.find_all(exp.Anonymous):
            if call.name.lower() in _LABEL_ROWS and len(call.expressions) > 1:
                for column in call.expressions[1].find_all(exp.Column):
                    yield from _tables_behind(_source_of(column, sources))


def _source_of(column: exp.Column, sources: Mapping[str, exp.Expr | Scope]) -> exp.Expr | Scope | None:
    """Return the source that a column, or a whole row, comes from; None where its name alone does not say."""
    named = sources.get((column.table or column.name).lower())
    return next(iter(sources.values())) if named is None and len(sources) == 1 else named


def _tables_behind(source: exp.Expr | Scope | None) -> Iterator[exp.Table]:
    if isinstance(source, exp.Table):
        yield source
    elif isinstance(source, Scope):
        for scope in source.traverse():
            yield from (table for table in scope.sources.values() if isinstance(table, exp.Table))


def _info_of(engine: Engine, table: exp.Table) -> TableInfo | None:
    """Return what the catalog says of a table that a statement names; None where it is no table."""
    info = engine.table(table.name, schema=table.db or None)
    return info if info is not None or not table.db else engine.table(f"{table.db}.{table.name}")
