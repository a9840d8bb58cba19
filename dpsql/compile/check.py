"""Refuses a query over private rows unless its result is an aggregate over a public grid.

This is a second lock, not the proof: the kernel only ever runs statements built in `compile/`. What is checked on the
syntax tree: the outermost SELECT gives nothing but counts and sums and the keys they are grouped by; every key is one
of the public grid's names; every function is on a short list of total ones; nothing is ordered, limited or sampled.
"""

from __future__ import annotations

from sqlglot import exp

#: Keys whose values are numbers on a public grid, whatever the rows hold.
GRID_KEYS = frozenset(("leaf", "node", "class", "axis", "cell"))
_AGGREGATES = (exp.Count, exp.Sum)
_FORBIDDEN = (
    exp.Limit,
    exp.Offset,
    exp.TableSample,
    exp.Lateral,
    exp.Unnest,
    exp.Command,
    exp.DML,
    exp.DDL,
    exp.SetOperation,
)
_FUNCTIONS = frozenset(
    [
        "hash",
        "xor",
        "list_position",
        "is_nan",
        "greatest",
        "least",
        "floor",
        "coalesce",
        "cast",
        "case",
        "if",
        "count",
        "sum",
        "row_number",
        "array",
        "mod",
        "and",
        "or",
    ]
)


class NotAggregate(Exception):
    """A query over private rows would return something that is not an aggregate: a programming error."""


def check(query: exp.Expr) -> None:
    """Raise NotAggregate unless the query is an aggregate over a public grid.

    >>> import sqlglot
    >>> check(sqlglot.parse_one("SELECT node AS leaf, COUNT(*) AS rows FROM t GROUP BY node"))
    >>> check(sqlglot.parse_one("SELECT age, COUNT(*) FROM t GROUP BY age"))
    Traceback (most recent call last):
    ...
    dpsql.compile.check.NotAggregate: "age" is not a key of a public grid
    """
    if not isinstance(query, exp.Select):
        raise NotAggregate("only a SELECT can be an aggregate")
    for node in query.walk():
        if isinstance(node, _FORBIDDEN):
            raise NotAggregate(f"{type(node).__name__} has no place in a count")
        if isinstance(node, exp.Func) and _name(node) not in _FUNCTIONS:
            raise NotAggregate(f"the function {_name(node)} is not on the list")
    if query.args.get("order") or query.args.get("distinct"):
        raise NotAggregate("a count is neither ordered nor made distinct")
    group = query.args.get("group")
    keys = {key.name for key in group.expressions} if group else set()
    for projection in query.selects:
        _check_projection(projection, keys)


def _check_projection(projection: exp.Expr, keys: set[str]) -> None:
    inner = projection.unalias()
    if isinstance(inner, exp.Cast):
        inner = inner.this
    if isinstance(inner, _AGGREGATES):
        return
    if not isinstance(inner, exp.Column) or inner.name not in keys:
        raise NotAggregate("a result column is neither a count nor a key it is grouped by")
    if inner.name not in GRID_KEYS:
        raise NotAggregate(f'"{inner.name}" is not a key of a public grid')


def _name(function: exp.Func) -> str:
    return function.name.lower() if isinstance(function, exp.Anonymous) else function.sql_names()[0].lower()
