"""Stored views as texts that the check of views can read."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp


def as_view(text: str, dialect: str, names: Sequence[str] = ()) -> str:
    """Return a view's query as CREATE VIEW, word for word, with names for its columns if given. It is never run.

    The words must stay as they are: they tell which functions the view calls.

    >>> as_view("SELECT ifnull(a, 0) FROM t;", "postgres", ["b"])
    'CREATE VIEW v ("b") AS SELECT ifnull(a, 0) FROM t'
    """
    place: exp.Expr = exp.to_table("v")
    if names:
        place = exp.Schema(this=place, expressions=[exp.to_identifier(name, quoted=True) for name in names])
    body = exp.Var(this=text.strip().rstrip(";"))
    return exp.Create(this=place, kind="VIEW", expression=body).sql(dialect)
