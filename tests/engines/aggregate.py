"""One aggregate in a workspace of its own."""

from __future__ import annotations

from sqlglot import exp

from dpsql.engines.base import Arrays, Engine, Tables


def aggregate(engine: Engine, query: exp.Expr, tables: Tables) -> Arrays:
    """Return what one statement over private rows answers, with `tables` loaded for it."""
    with engine.workspace() as here:
        return here.aggregate(query, tables)
