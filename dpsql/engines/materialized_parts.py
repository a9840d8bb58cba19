"""MATERIALIZED parts of a query, for databases that have no such word and evaluate a part wherever it is named.

Numbers given to rows must not change while they are used, so these parts are evaluated first, and stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp


def store_materialized_parts(query: exp.Expr, store: Callable[[exp.Select], exp.Select]) -> exp.Expr:
    """Return a query whose MATERIALIZED parts are replaced by what `store` returns: a SELECT of the rows it stored.

    The query is changed.
    """
    for part in list(_materialized_parts(query)):
        above = part.parent
        assert isinstance(above, exp.With)
        earlier = above.expressions[: above.expressions.index(part)]
        body = exp.select("*").from_(exp.to_table(part.alias))
        body.set("with_", exp.With(expressions=[needed.copy() for needed in (*earlier, part)]))
        for needed in body.args["with_"].expressions:
            needed.set("materialized", None)
        part.set("this", store(body))
        part.set("materialized", None)
        part.args["alias"].set("columns", None)
    return query


def _materialized_parts(node: exp.Expr) -> Iterator[exp.CTE]:
    """Yield the MATERIALIZED parts of a query, those inside others and those before others first."""
    for inner in node.iter_expressions():
        yield from _materialized_parts(inner)
    if isinstance(node, exp.CTE) and node.args.get("materialized"):
        yield node
