"""Checks on the syntax tree of a view's rows: a second lock beside the proof of `compile/views/unit_view.py`.

Every SELECT of such rows has the column `unit`. It reads one stored table, and then leaves out the rows whose unit is
NULL; or it reads private relations (`rows_…`) and public tables (`public_…`), and then

- the first is private, each other private one equates its unit with that of an earlier one, by INNER or LEFT JOIN;
- its groups have the unit among their keys, and so have the rows that a window sees;
- it has nothing that orders, limits, unites or samples, no subquery in an expression, and no DISTINCT but in COUNT.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dpsql.compile.views.unit_relations import PRIVATE_ALIAS, PUBLIC_ALIAS, UNIT

#: The parts that a SELECT may have.
_PARTS = frozenset(("expressions", "from_", "joins", "where", "group"))
_WORDS = ("LEFT", "INNER")


class NotUnitLocal(Exception):
    """The rows of a view are not of the form that was proved: a programming error."""


def check_unit_rows(rows: exp.Subquery) -> None:
    """Raise NotUnitLocal unless the rows have the form that every proved view has."""
    _check_private(rows.this)


def _check_private(select: exp.Expr) -> None:
    """Check a SELECT with private rows."""
    _check_parts(select)
    source = select.args["from_"].this
    if not any(item.alias == UNIT and _is_unit(item.this, source) for item in select.expressions):
        raise NotUnitLocal("a SELECT does not give out its unit")
    if isinstance(source, exp.Table):
        unit = next(item.this for item in select.expressions if item.alias == UNIT)
        where = select.args.get("where")
        if select.args.get("joins") or select.args.get("group") or where is None:
            raise NotUnitLocal("a stored table is read with more than a test for NULL")
        if where.this != unit.is_(exp.null()).not_():
            raise NotUnitLocal("rows whose unit is NULL are not left out")
        return
    aliases = [_check_source(source)]
    if not aliases[0].startswith(PRIVATE_ALIAS):
        raise NotUnitLocal("the first source is not private")
    for join in select.args.get("joins") or ():
        aliases.append(_check_source(join.this))
        _check_join(join, aliases)
    group = select.args.get("group")
    if group is not None and not any(_unit_alias(key) == aliases[0] for key in group.expressions):
        raise NotUnitLocal("groups have no unit among their keys")
    for node in _own_nodes(select):
        _check_node(node, aliases[0])


def _check_parts(select: exp.Expr) -> None:
    if not isinstance(select, exp.Select) or {name for name, value in select.args.items() if value} - _PARTS:
        raise NotUnitLocal("a relation is not a plain SELECT")


def _check_source(source: exp.Expr) -> str:
    """Check a source in FROM, and return its alias."""
    if not isinstance(source, exp.Subquery):
        raise NotUnitLocal("a source is not a subquery")
    if source.alias.startswith(PUBLIC_ALIAS):
        _check_parts(source.this)
        extra = [source.this.args.get(part) for part in ("where", "joins", "group")]
        if not isinstance(source.this.args["from_"].this, exp.Table) or any(extra):
            raise NotUnitLocal("a public table is not read as it is")
    else:
        _check_private(source.this)
    return str(source.alias)


def _check_join(join: exp.Join, aliases: list[str]) -> None:
    word = str(join.args.get("side") or join.args.get("kind") or "")
    if word not in _WORDS or join.args.get("on") is None or join.args.get("method") or join.args.get("using"):
        raise NotUnitLocal("a join is neither INNER nor LEFT with ON")
    if aliases[-1].startswith(PUBLIC_ALIAS):
        return
    for test in join.args["on"].flatten() if isinstance(join.args["on"], exp.And) else [join.args["on"]]:
        sides = {_unit_alias(test.this), _unit_alias(test.expression)} if isinstance(test, exp.EQ) else set()
        if aliases[-1] in sides and sides & set(aliases[:-1]):
            return
    raise NotUnitLocal("a private relation is joined without its unit")


def _check_node(node: exp.Expr, first: str) -> None:
    """Check a node of a SELECT's own expressions."""
    if isinstance(node, exp.Query | exp.SubqueryPredicate | exp.Star | exp.Table):
        raise NotUnitLocal("an expression reads a table")
    if isinstance(node, exp.Distinct) and not isinstance(node.parent, exp.Count):
        raise NotUnitLocal("DISTINCT stands outside of COUNT")
    if isinstance(node, exp.Window):
        keys = node.args.get("partition_by") or ()
        if not any(_unit_alias(key) == first for key in keys) or not isinstance(node.this, exp.Max | exp.Min):
            raise NotUnitLocal("a window sees rows of several units")


def _own_nodes(select: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of a SELECT's items, tests and keys, without those of its sources."""
    parts = [*select.expressions, select.args.get("where"), select.args.get("group")]
    parts += [join.args["on"] for join in select.args.get("joins") or ()]
    for part in parts:
        if part is not None:
            yield from part.walk()


def _is_unit(value: exp.Expr, source: exp.Expr) -> bool:
    """Whether an item is the unit of the first source, or a column of the stored table that is read."""
    if isinstance(source, exp.Table):
        return isinstance(value, exp.Column) and not value.table
    return _unit_alias(value) == source.alias


def _unit_alias(node: exp.Expr) -> str | None:
    """Return the alias of the relation whose unit a node is, also where it is compared byte by byte; or None."""
    inner = node.unnest()
    if isinstance(inner, exp.Collate):
        inner = inner.this
    return inner.table if isinstance(inner, exp.Column) and inner.name == UNIT else None
