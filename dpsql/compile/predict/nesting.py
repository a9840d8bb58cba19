"""Writes the CTEs of a query as subqueries, for what a database stores parsed instead of as text.

DuckDB stores a macro as its parser understood it, and other versions read that. DuckDB 1.4.0 and 1.4.1 do not find the
CTEs of a table macro that another version stored; subqueries are read by all.
"""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

_Query = TypeVar("_Query", bound=exp.Expr)


def nest_ctes(query: exp.Select) -> exp.Select:
    """Return the query with each CTE in the place where it is named, which is one place only.

    >>> from sqlglot import parse_one
    >>> nest_ctes(parse_one("WITH a AS (SELECT 1 AS x), b AS (SELECT a.x FROM a) SELECT b.x FROM b")).sql()
    'SELECT b.x FROM (SELECT a.x FROM (SELECT 1 AS x) AS a) AS b'
    """
    nested = query.copy()
    bodies: dict[str, exp.Expr] = {}
    ctes = list(nested.ctes)
    nested.set("with_", None)
    for cte in ctes:
        bodies[cte.alias] = _with_bodies(cte.this, bodies)
    return _with_bodies(nested, bodies)


def _with_bodies(query: _Query, bodies: dict[str, exp.Expr]) -> _Query:
    """Replace the names of CTEs in a query by their bodies."""
    for table in list(query.find_all(exp.Table)):
        if not table.db and isinstance(table.this, exp.Identifier) and table.name in bodies:
            table.replace(exp.Subquery(this=bodies[table.name], alias=exp.TableAlias(this=table.this)))
    return query
