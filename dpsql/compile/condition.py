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
    condition = _parsed(text, dialect)
    column = exp.column(exp.to_identifier(next(iter(types)), quoted=True))
    select = exp.select(column).from_(exp.to_table("rows_of_it")).where(exp.paren(condition))
    view = exp.Create(this=exp.to_table("v"), kind="VIEW", expression=select).sql(dialect)
    found = row_to_row(view, dialect, types=types, macros=macros)
    if found is None or found.where is None:
        raise NotTotal(why_not(view, dialect, types=types, macros=macros) or "says nothing")
    return found.where


def _parsed(text: str, dialect: str) -> exp.Expr:
    """Return the one expression that a text is; it is read alone, so it cannot close a bracket of ours."""
    try:
        found: exp.Expr = exp.maybe_parse(text, dialect=dialect)
    except (SqlglotError, RecursionError):
        raise NotTotal("is not a condition that dpsql can read") from None
    if not isinstance(found, exp.Condition):
        raise NotTotal("is not a condition")
    return found
