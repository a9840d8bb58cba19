"""Groups of a view over several tables: GROUP BY with the unit's column, aggregates, and expressions over both.

A SELECT with groups becomes three relations: the joined rows with the keys and the aggregates' arguments as columns,
the groups with the keys and the aggregates, and expressions over those. Each is unit-local
(`compile/views/unit_relations.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpsql.compile.views.joined_rows import JoinedRows, expression_facts
from dpsql.compile.views.total_expressions import Refused, unbracket
from dpsql.compile.views.unit_aggregates import (
    INTEGER,
    Aggregate,
    aggregate_sql,
    check_order,
    clamp,
    clamp_bounds,
    is_aggregate,
    literal_number,
    read_aggregate,
    steps,
)
from dpsql.compile.views.unit_relations import (
    PRIVATE_ALIAS,
    ColumnFacts,
    Joined,
    Relation,
    add_windows,
    group,
    number_name,
    project,
    start_join,
)
from dpsql.compile.vocabulary import case, column, int_literal

#: The name of the groups among the sources of the expressions over them; no text can have it.
_GROUPS = "groups of rows"
#: The name of the unit's column in the groups: never that of a key or an aggregate, whatever the text calls its own.
_UNIT_NAME = "unit"
#: The families that a column may have that rows are grouped by, besides integers: equal values are the same.
_KEYS = ("text", "boolean", "date", "timestamp")
#: The catalog's word for columns whose values nothing can be keyed by: some have no equality, and some a user's.
_NO_EQUALITY = "opaque"
_Items = Sequence[tuple[str, exp.Expression]]


@dataclass(frozen=True, eq=False)
class _Argument:
    """An aggregate with its argument in SQL, which is NULL where its filter does not hold."""

    aggregate: Aggregate
    value: exp.Expr
    facts: ColumnFacts
    family: str
    order: exp.Expr | None = None
    order_facts: ColumnFacts = INTEGER
    bounds: tuple[float, float] | None = None


def group_rows(select: exp.Select, items: _Items, joined: Joined, rows: JoinedRows) -> Relation:
    """Return the relation of a SELECT with groups, or refuse it."""
    keys = _keys(select, rows)
    aggregates: list[tuple[exp.Expression, _Argument]] = []
    replaced = [(name, _with_names(item, rows, keys, aggregates)) for name, item in items]
    units = [name for name, item in items if rows.is_unit(item)]
    if not units:
        raise Refused("does not give out the unit's column that it is grouped by")
    single = all(_is_of_single(joined, rows, key) for key in keys)
    groups = _groups(keys, [argument for _, argument in aggregates], joined, rows, single=single)
    over = start_join(groups)
    outer = JoinedRows(over, {_GROUPS: over.first_alias}, rows.dialect, rows.vocabulary)
    columns = [
        (outer.value(item), replace(expression_facts(outer, item), name=name))
        for name, item in replaced
        if name != units[0]
    ]
    return replace(project(over, columns, single=single), unit_name=units[0])


def _keys(select: exp.Select, rows: JoinedRows) -> list[exp.Column]:
    """Return the columns that a SELECT is grouped by beside the unit's column, which must be among them."""
    clause = select.args.get("group")
    if clause is None:
        raise Refused("uses an aggregate without GROUP BY: it would add up the rows of all units")
    for part, value in clause.args.items():
        if value and part != "expressions":
            raise Refused(f"uses GROUP BY {part.upper()}; name the columns")
    keys = []
    for key in clause.expressions:
        if type(key) is not exp.Column:
            words = type(key).__name__ if isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets) else "an expression"
            raise Refused(f"has a GROUP BY with {words}, which is not a column; name the columns, not their numbers")
        keys.append(key)
    if not any(rows.is_unit(key) for key in keys):
        raise Refused("has a GROUP BY without the unit's column of its first source")
    others = [key for key in keys if not rows.is_unit(key)]
    for key in others:
        facts = rows.place(key)[1]
        if not facts.integer and facts.type.lower() != "uuid" and rows.family(key) not in _KEYS:
            raise Refused(f'groups by "{key.name}" of type {facts.type}, in which equal values have several spellings')
    return others


def _is_of_single(joined: Joined, rows: JoinedRows, key: exp.Column) -> bool:
    """Whether a key has one value in all joined rows of a unit.

    It has where its source has at most one row of each unit, and all joined rows of a unit have that row: the source is
    the first one, or joined by INNER, or by LEFT on the unit alone, where all of them have it or all have NULL. With
    a further test in a LEFT JOIN some rows of a unit have the source's value and others NULL.
    """
    alias = rows.place(key)[0]
    relation = joined.relations[alias]
    return bool(relation.unit) and relation.single and alias not in joined.optional


def _with_names(
    item: exp.Expression,
    rows: JoinedRows,
    keys: Sequence[exp.Column],
    aggregates: list[tuple[exp.Expression, _Argument]],
) -> exp.Expression:
    """Return an item with the names of columns of the groups in place of its keys and aggregates, which are added."""
    if is_aggregate(item):
        for number, (known, _) in enumerate(aggregates):
            if known == item:
                return column(_aggregate_name(number))
        aggregates.append((item, _argument(read_aggregate(item), rows)))
        return column(_aggregate_name(len(aggregates) - 1))
    if isinstance(item, exp.Window):
        raise Refused("uses a window function")
    if isinstance(item, exp.Query | exp.SubqueryPredicate):
        raise Refused("uses a subquery inside an expression")
    if isinstance(item, exp.Column):
        if rows.is_unit(item):
            return column(_UNIT_NAME)
        place = rows.place(item)
        for number, key in enumerate(keys):
            if rows.place(key) == place:
                return column(_key_name(number))
        raise Refused(f'gives out "{item.name}", which is neither in GROUP BY nor inside an aggregate')
    copied = item.copy()
    for part, value in item.args.items():
        if isinstance(value, exp.Expression):
            copied.set(part, _with_names(value, rows, keys, aggregates))
        elif isinstance(value, list):
            copied.set(
                part,
                [
                    _with_names(each, rows, keys, aggregates) if isinstance(each, exp.Expression) else each
                    for each in value
                ],
            )
    return copied


def _argument(aggregate: Aggregate, rows: JoinedRows) -> _Argument:
    """Return an aggregate's argument in SQL, or refuse it."""
    test = None if aggregate.condition is None else rows.condition(aggregate.condition)
    for node in (aggregate.argument, aggregate.by):
        if node is not None and node.find(exp.AggFunc):
            raise Refused("uses an aggregate inside an aggregate")
    if aggregate.argument is None:
        return _Argument(aggregate, _where(test, int_literal(1)), INTEGER, "number")
    if aggregate.kind in ("sum", "avg"):
        return _number_to_add(aggregate, aggregate.argument, test, rows)
    family, facts = rows.family(aggregate.argument), expression_facts(rows, aggregate.argument)
    value = rows.value(aggregate.argument)
    if aggregate.kind == "distinct" and facts.family == _NO_EQUALITY:
        raise Refused(f"counts distinct values of type {facts.type}, whose equality dpsql cannot rely on")
    if aggregate.kind in ("min", "max"):
        check_order(family, aggregate.kind)
    if family == "number" and not facts.integer:
        value, facts = rows.number(aggregate.argument), replace(facts, type="DOUBLE PRECISION", decimal=False)
    if aggregate.by is None:
        return _Argument(aggregate, _where(test, value), facts, family)
    if family not in ("number", "text", "date", "timestamp"):
        raise Refused(f"takes {aggregate.kind.upper()} of a value of type {family}")
    order_family = rows.family(aggregate.by)
    check_order(order_family, aggregate.kind)
    present = exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))
    both = present if test is None else exp.And(this=test.copy(), expression=present)
    order = case([(both, rows.value(aggregate.by))], exp.null())
    order_facts = expression_facts(rows, aggregate.by)
    if facts.type.upper().startswith("ENUM"):
        value, facts = exp.cast(value, exp.DataType.Type.TEXT), ColumnFacts("", "TEXT", "text")
    return _Argument(aggregate, _where(test, value), facts, family, order, order_facts)


def _number_to_add(aggregate: Aggregate, node: exp.Expression, test: exp.Expr | None, rows: JoinedRows) -> _Argument:
    """Return a number as integers that are added up exactly: itself, or steps above its lower bound."""
    clamped = clamp_bounds(node)
    inner = node if clamped is None else clamped[0]
    family = rows.family(inner)
    if family != "number":
        raise Refused(f"adds up values of type {family}")
    if clamped is None and rows.is_whole(inner):
        return _Argument(
            aggregate, _where(test, exp.cast(rows.translate(inner), exp.DataType.Type.BIGINT)), INTEGER, family
        )
    if clamped is not None:
        _, lower, upper = clamped
        number = clamp(rows.number(inner), lower, upper, floor_first=isinstance(unbracket(node), exp.Least))
    else:
        lower, upper = _literal_bounds(inner)
        number = rows.number(inner)
    value = case([(exp.Is(this=number.copy(), expression=exp.null()), exp.null())], steps(number, lower, upper))
    return _Argument(aggregate, _where(test, value), INTEGER, family, bounds=(lower, upper))


def _literal_bounds(node: exp.Expression) -> tuple[float, float]:
    """Return the bounds of a CASE whose results are all literals, or refuse the number: nobody knows its bounds."""
    node = unbracket(node)
    results = []
    if isinstance(node, exp.Case):
        results = [branch.args["true"] for branch in node.args["ifs"]]
        results += [node.args["default"]] if node.args.get("default") else []
    numbers = [literal_number(result) for result in results if not isinstance(unbracket(result), exp.Null)]
    known = [number for number in numbers if number is not None and abs(number) <= 1e9]
    if not known or len(known) < len(numbers):
        raise Refused("adds up a number without bounds; clamp it: SUM(LEAST(GREATEST(x, 0), 1000))")
    return math.floor(min(known)), math.floor(max(known)) + 1


def _where(test: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    """Return a value that is NULL where a test does not hold."""
    return value if test is None else case([(test.copy(), value)], exp.null())


def _key_name(number: int) -> str:
    return f"key {number}"


def _aggregate_name(number: int) -> str:
    return f"aggregate {number}"


def _groups(
    keys: Sequence[exp.Column], arguments: Sequence[_Argument], joined: Joined, rows: JoinedRows, *, single: bool
) -> Relation:
    """Return the groups: the keys, then the aggregates."""
    columns = [(rows.translate(key), replace(rows.place(key)[1], name=_key_name(k))) for k, key in enumerate(keys)]
    places: list[list[int]] = []
    for argument in arguments:
        parts = [(argument.value, argument.facts)]
        parts += [] if argument.order is None else [(argument.order, argument.order_facts)]
        places.append(list(range(len(columns), len(columns) + len(parts))))
        columns += parts
    relation = project(joined, columns, single=False)
    relation = _with_largest_orders(relation, len(keys), arguments, places)
    alias = f"{PRIVATE_ALIAS}0"
    values = []
    for number, (argument, own) in enumerate(zip(arguments, places, strict=True)):
        parts_sql = [column(number_name(place), alias) for place in own]
        value, facts = aggregate_sql(
            argument.aggregate, parts_sql, argument.family, argument.facts, argument.bounds, rows.vocabulary
        )
        values.append((value, replace(facts, name=_aggregate_name(number))))
    return replace(group(relation, len(keys), values, single=single), unit_name=_UNIT_NAME)


def _with_largest_orders(
    relation: Relation, keys: int, arguments: Sequence[_Argument], places: Sequence[list[int]]
) -> Relation:
    """Return the rows with the largest (or smallest) order of their group beside each, for ARG_MAX and ARG_MIN."""
    windows = []
    alias = f"{PRIVATE_ALIAS}0"
    for argument, own in zip(arguments, places, strict=True):
        if argument.order is None:
            continue
        word = exp.Max if argument.aggregate.kind == "argmax" else exp.Min
        windows.append((word(this=column(number_name(own[1]), alias)), keys, argument.order_facts))
        own.append(len(relation.columns) + len(windows) - 1)
    return add_windows(relation, windows) if windows else relation
