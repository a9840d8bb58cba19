"""Builders of SQL expressions that every statement needs; what databases spell differently is in `dpsql/spelling.py`.

Everything is built from sqlglot's standard expressions, so that a dialect is a short class, not a branch in the
compiler.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.spelling import Lists as Lists
from dpsql.spelling import RowByRow as RowByRow
from dpsql.spelling import Vocabulary as Vocabulary


def double(number: float) -> exp.Expr:
    """Return a number as a double literal: `0.64` would be a slow and inexact decimal in some databases.

    >>> double(0.64).sql(), double(-2).sql(), double(1e-7).sql()
    ('0.64e0', '-2.0e0', '1e-07')
    """
    text = repr(abs(float(number)))
    return literal(text if "e" in text else text + "e0", negative=number < 0)


def int_literal(number: int) -> exp.Expr:
    """Return a whole number as a literal."""
    return literal(str(abs(number)), negative=number < 0)


def literal(digits: str, *, negative: bool = False) -> exp.Expr:
    """Return digits as a number; sqlglot's own builder parses them again, which costs five times all the rest."""
    number = exp.Literal(this=digits, is_string=False)
    return exp.Neg(this=number) if negative else number


def column(name: str, table: str | None = None) -> exp.Column:
    """Return a quoted column, whatever characters its name has.

    >>> column("odd name").sql()
    '"odd name"'
    """
    return exp.column(exp.to_identifier(name, quoted=True), table=table)


def as_int(value: exp.Expr) -> exp.Expr:
    """Return a value cast to a 32-bit integer (only ever applied to small public numbers)."""
    return exp.cast(value, exp.DataType.Type.INT)


def case(branches: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr) -> exp.Case:
    """Return a CASE made of (condition, value) branches, uncopied; sqlglot's own builder copies all at each branch.

    >>> case([(exp.column("a").is_(exp.null()), int_literal(1))], int_literal(2)).sql()
    'CASE WHEN a IS NULL THEN 1 ELSE 2 END'
    """
    return exp.Case(ifs=[exp.If(this=test, true=value) for test, value in branches], default=default)


def name_as(value: exp.Expr, name: str) -> exp.Alias:
    """Return the expression itself, not a copy, under a name."""
    return exp.Alias(this=value, alias=exp.to_identifier(name))


def paren(value: exp.Expr) -> exp.Expr:
    """Return an expression in parentheses, so that operators bind as meant in every dialect."""
    return exp.Paren(this=value)
