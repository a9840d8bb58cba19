"""MATERIALIZED parts of a query, for databases that have no such word and work a part out wherever it is named.

Numbers given to rows must not change while they are used, so these parts are worked out before, and stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp


def worked_out(query: exp.Expr, store: Callable[[exp.Select], exp.Select]) -> exp.Expr:
    """Return a query in whose MATERIALIZED parts stands what `store` returns: a SELECT of the rows that it stored.

    The query is changed.
    """
    for part in list(_materialized(query)):
        above = part.parent
        assert isinstance(above, exp.With)
        earlier = above.expressions[: above.expressions.index(part)]
        body = exp.select("*").from_(exp.to_table(part.alias))
        body.set("with_", exp.With(expressions=[one.copy() for one in (*earlier, part)]))
        for one in body.args["with_"].expressions:
            one.set("materialized", None)
        part.set("this", store(body))
        part.set("materialized", None)
        part.args["alias"].set("columns", None)
    return query


def _materialized(node: exp.Expr) -> Iterator[exp.CTE]:
    """Yield the MATERIALIZED parts of a query, those inside others and those before others first."""
    for inner in node.iter_expressions():
        yield from _materialized(inner)
    if isinstance(node, exp.CTE) and node.args.get("materialized"):
        yield node
