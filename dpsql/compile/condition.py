"""Conditions that an analyst writes: a test on one row of the private table that no value in it can make fail."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpsql.compile.view import row_to_row, why_not


class NotTotal(Exception):
    """Why a condition is refused, in words that follow "it"."""


def total_condition(text: str, dialect: str, *, types: Mapping[str, str], macros: Collection[str]) -> exp.Expr:
    """Return a condition over a table's columns, or raise NotTotal unless it is sure to hold or not for every row.

    It is checked as the WHERE of a view would be: columns, comparisons, IN, BETWEEN, LIKE, IS NULL and the like.

    >>> total_condition("age > 30", "duckdb", types={"age": "INTEGER"}, macros=()).sql()
    '(age > 30)'
    """
    _check_alone(text, dialect)
    column = exp.to_identifier(next(iter(types)), quoted=True).sql(dialect)
    view = f"CREATE VIEW v AS SELECT {column} FROM rows_of_it WHERE ({text}\n)"
    found = row_to_row(view, dialect, types=types, macros=macros)
    if found is None or found.where is None:
        raise NotTotal(why_not(view, dialect, types=types, macros=macros) or "says nothing")
    return found.where


def _check_alone(text: str, dialect: str) -> None:
    """Refuse a text that is not one condition: it may not close our bracket, or bring clauses of its own."""
    try:
        query: exp.Expr = exp.maybe_parse(f"SELECT 1 WHERE ({text}\n)", dialect=dialect)
    except (SqlglotError, RecursionError):
        raise NotTotal("is not a condition that dpsql can read") from None
    given = {name for name, value in query.args.items() if value}
    where = query.args.get("where")
    if not isinstance(query, exp.Select) or given != {"expressions", "where"} or not isinstance(where, exp.Where):
        raise NotTotal("is more than one condition")
    if not isinstance(where.this, exp.Paren):
        raise NotTotal("closes a bracket that it did not open")
