"""Refuses a query over private rows unless its result is an aggregate over a public grid.

This is a second lock, not the proof: the kernel only ever runs statements built in `compile/`. What is checked on the
syntax tree: the outermost SELECT gives nothing but counts (or sums of zeros and ones) and the keys they are grouped
by; every key is one of the public grid's names, and no group is left out by a condition on its rows; every function is
on a short list of total ones; nothing is ordered, limited, sampled or made distinct; one table with a schema is read,
once.
"""

from __future__ import annotations

from sqlglot import exp

#: Keys whose values are numbers on a public grid, whatever the rows hold.
GRID_KEYS = frozenset(("leaf", "node", "class", "axis", "cell"))
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
    exp.Having,
    exp.Qualify,
    exp.Distinct,
    exp.Pivot,
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
    if query.args.get("order"):
        raise NotAggregate("a count is not ordered")
    if sum(bool(table.db) for table in query.find_all(exp.Table)) > 1:
        raise NotAggregate("a private table is read once: joined with itself, one row would count many times")
    keys = _keys(query.args.get("group"))
    for projection in query.selects:
        _check_projection(projection, keys)


def _keys(group: exp.Expr | None) -> set[str]:
    """Return the names a query is grouped by; each must be a key of a public grid, shown or not."""
    if group is None:
        return set()
    if any(value for part, value in group.args.items() if part != "expressions"):
        raise NotAggregate("groups are given by their keys alone")
    for key in group.expressions:
        if not isinstance(key, exp.Column):
            raise NotAggregate("a group's key must be a column")
        if key.name not in GRID_KEYS:
            raise NotAggregate(f'"{key.name}" is not a key of a public grid')
    return {key.name for key in group.expressions}


def _check_projection(projection: exp.Expr, keys: set[str]) -> None:
    inner = projection.unalias()
    if isinstance(inner, exp.Cast):
        inner = inner.this
    if isinstance(inner, exp.Count) or (isinstance(inner, exp.Sum) and _zero_or_one(inner.this)):
        return
    if not isinstance(inner, exp.Column) or inner.name not in keys:
        raise NotAggregate("a result column is neither a count nor a key it is grouped by")


def _zero_or_one(value: exp.Expr) -> bool:
    """Tell whether an expression is a CASE that gives 0 or 1 and nothing else."""
    if not isinstance(value, exp.Case):
        return False
    results = [branch.args["true"] for branch in value.args["ifs"]] + [value.args.get("default")]
    return all(isinstance(result, exp.Literal) and result.this in ("0", "1") for result in results)


def _name(function: exp.Func) -> str:
    return function.name.lower() if isinstance(function, exp.Anonymous) else function.sql_names()[0].lower()
