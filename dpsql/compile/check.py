"""Refuses a query over private rows unless its result is an aggregate over a public grid.

This is a second lock, not the proof: the kernel only ever runs statements built in `compile/`. These are the checks on
the syntax tree:

- The outermost SELECT gives nothing but counts (or sums of zeros and ones, or of whole numbers clamped to literal
  bounds) and the keys they are grouped by.
- Every key is one of the public grid's names, and no group is left out by a condition on its rows.
- Every function is on a short list of total ones, which never fail, whatever a cell holds. The list is common to all
  databases, or declared by the vocabulary of the one that is asked.
- Nothing is ordered, limited, sampled or made distinct.
- Of the tables with private rows (those named with a schema, and cached rows) at most one is read, and only once. The
  rows of a view over several tables (`unit_rows`) count as one, and have checks of their own
  (`compile/views/unit_rows_check.py`): each of them depends on one unit.
"""

from __future__ import annotations

import re

from sqlglot import exp

from dpsql.compile.predict.probabilities import LEAST_LOG
from dpsql.compile.views.unit_relations import UNIT_ROWS
from dpsql.compile.views.unit_rows_check import NotUnitLocal, check_unit_rows
from dpsql.compile.vocabulary import Vocabulary, double
from dpsql.schema.features import MAX_STEPS

#: How the names of tables with cached rows begin.
CACHED_PREFIX = "kept_"
#: The columns that cached rows may have.
_CACHED_COLUMNS = re.compile(r"node|class|ticket|part|word_[0-9]+")
#: Keys whose values are numbers on a public grid, whatever the rows hold.
GRID_KEYS = frozenset(("leaf", "node", "class", "ask", "cell"))
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
#: The total functions that statements may call on every database; those of one database alone are in its vocabulary.
COMMON_FUNCTIONS = frozenset(
    [
        "greatest",
        "least",
        "floor",
        "coalesce",
        "cast",
        "case",
        "if",
        "count",
        "sum",
        "max",
        "row_number",
        "array",
        "mod",
        "and",
        "or",
        # What a row-to-row view or an analyst's condition may call (`compile/views/row_to_row.py`).
        "lower",
        "upper",
        "trim",
        "nullif",
        "try_cast",
    ]
)
#: What a view over several tables may call besides (`compile/views/unit_aggregates.py`); they take any value.
_VIEW_FUNCTIONS = frozenset(("min", "is_nan"))
#: The function that builds a map. A map of constants cannot fail; a map of a row's own values could, because it may
#: have the same key twice or NULL as a key.
_MAP = "map"


class NotAggregate(Exception):
    """A query over private rows would return something that is not an aggregate: a programming error."""


def check_statement(query: exp.Expr, vocabulary: Vocabulary) -> None:
    """Raise NotAggregate unless the query is an aggregate over a public grid.

    `vocabulary` is that of the database which is asked: it declares which of that database's functions may be called.
    """
    if not isinstance(query, exp.Select):
        raise NotAggregate("only a SELECT can be an aggregate")
    _check_parts(query, vocabulary)
    keys = _keys(query.args.get("group"))
    for projection in query.selects:
        _check_projection(projection, keys)


def check_value_counts(query: exp.Expr, vocabulary: Vocabulary) -> None:
    """Raise NotAggregate unless the query gives the texts of `compile/count/value_counts.py` that many rows have.

    This is the one statement whose groups are not those of a public grid. Its groups must be counted in one part of it,
    by `ask` and `value` alone, and then be compared with a number, so that texts which few rows have stay inside.
    """
    if not isinstance(query, exp.Select) or query.args.get("group"):
        raise NotAggregate("only common texts can be selected")
    _check_parts(query, vocabulary)
    parts = {part.alias: part.this for part in query.ctes}
    source, counted = query.args.get("from_"), parts.get("counted")
    if source is None or source.sql() != "FROM counted" or query.args.get("joins") or counted is None:
        raise NotAggregate("common texts are selected from counted ones")
    if [column.sql() for column in query.selects] != ["ask", "value", "rows"]:
        raise NotAggregate("a common text has an ask, a value and its rows, and nothing else")
    test = query.args["where"].this if query.args.get("where") else None
    if not isinstance(test, exp.GT) or test.this.sql() != "rows" or not test.expression.is_int:
        raise NotAggregate("texts that few rows have must be left out")
    if [column.sql() for column in counted.selects] != ["ask", "value", "COUNT(*) AS rows"]:
        raise NotAggregate("texts are counted by ask and value")
    group = counted.args.get("group")
    if group is None or [key.sql() for key in group.expressions] != ["ask", "value"]:
        raise NotAggregate("texts are counted by ask and value")


def check_cached_rows(query: exp.Expr, vocabulary: Vocabulary) -> None:
    """Raise NotAggregate unless the query gives rows that may be cached in a workspace.

    These have a node, a class, a ticket, a stored part and words of cells, and nothing else.

    For example, the rows of `SELECT node, class, word_0 FROM depth_1` may be cached.
    """
    if not isinstance(query, exp.Select) or query.args.get("group"):
        raise NotAggregate("only rows as they are can be kept")
    _check_parts(query, vocabulary)
    for projection in query.selects:
        if not isinstance(projection, exp.Column) or not _CACHED_COLUMNS.fullmatch(projection.name):
            raise NotAggregate("a kept row has a node, a class, a ticket, a part and words of cells, and nothing else")


def check_unlabelled(query: exp.Expr, label: str) -> None:
    """Raise NotAggregate if a query over rows with public features selects anything that is computed from the label.

    Which rows it reads may depend on whether they have a label: that is public too.
    """
    if not isinstance(query, exp.Select) or any(
        isinstance(node, (exp.Command, exp.DML, exp.DDL)) for node in _inner(query)
    ):
        raise NotAggregate("only a SELECT can be kept")
    for select in query.find_all(exp.Select):
        source = select.args.get("from_")
        reads_table = source is not None and isinstance(source.this, exp.Table) and bool(source.this.db)
        if reads_table and any(value.is_star for value in select.expressions):
            raise NotAggregate("only features are public here: a star takes the label too")
        for column in (column for value in select.expressions for column in value.find_all(exp.Column)):
            # The table's columns are quoted, dpsql's own are not: the label may have the name of one of those.
            if getattr(column.this, "quoted", False) and column.name.lower() == label.lower():
                raise NotAggregate("only features are public here")


def _inner(query: exp.Select) -> list[exp.Expr]:
    """Return all nodes of a query except its SELECTs (sqlglot counts a SELECT among the statements)."""
    return [node for node in query.walk() if not isinstance(node, exp.Select)]


def _check_parts(query: exp.Select, vocabulary: Vocabulary) -> None:
    allowed = (COMMON_FUNCTIONS | vocabulary.functions) - {_MAP}
    maps = _MAP in vocabulary.functions
    private = 0
    for node in query.walk(prune=_is_unit_rows):
        if isinstance(node, (exp.Identifier, exp.Literal, exp.Column)):
            continue  # these are most of the nodes of a large statement
        if _is_unit_rows(node):
            _check_unit_rows(node, allowed)
            private += 1
            continue
        if isinstance(node, _FORBIDDEN):
            raise NotAggregate(f"{type(node).__name__} has no place in a count")
        if isinstance(node, exp.Func) and _name(node) not in allowed and not _cannot_fail(node, maps=maps):
            raise NotAggregate(f"the function {_name(node)} is not on the list")
        if isinstance(node, exp.Table):
            private += bool(node.db) or node.name.startswith(CACHED_PREFIX)
    if query.args.get("order"):
        raise NotAggregate("a count is not ordered")
    if private > 1:
        raise NotAggregate("private rows are read once: joined with themselves, one row would count many times")


def _is_unit_rows(node: exp.Expr) -> bool:
    """Whether a node is the rows of a view over several tables."""
    return isinstance(node, exp.Subquery) and node.alias == UNIT_ROWS


def _check_unit_rows(rows: exp.Expr, allowed: frozenset[str]) -> None:
    """Refuse rows of a view that do not each depend on one unit, or that call a function that may fail."""
    assert isinstance(rows, exp.Subquery)
    try:
        check_unit_rows(rows)
    except NotUnitLocal as reason:
        raise NotAggregate(f"the rows of a view are not of one unit each: {reason}") from None
    for node in rows.walk():
        if isinstance(node, _FORBIDDEN) and not isinstance(node, exp.Distinct):
            raise NotAggregate(f"{type(node).__name__} has no place in a view")
        if isinstance(node, exp.Func) and _name(node) not in allowed | _VIEW_FUNCTIONS:
            raise NotAggregate(f"the function {_name(node)} is not on the list")


def _keys(group: exp.Expr | None) -> set[str]:
    """Return the names a query is grouped by; each must be a key of a public grid, whether it is selected or not."""
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
    if isinstance(inner, exp.Count) or (isinstance(inner, exp.Sum) and _is_bounded(inner.this)):
        return
    if not isinstance(inner, exp.Column) or inner.name not in keys:
        raise NotAggregate("a result column is neither a count nor a key it is grouped by")


def _is_bounded(value: exp.Expr) -> bool:
    """Tell whether an expression is within public bounds: 0 or 1, or LEAST(GREATEST(column, 0), steps)."""
    if not isinstance(value, exp.Least):
        return _zero_or_one(value)
    inner, upper = value.this, value.expressions
    if not (isinstance(inner, exp.Greatest) and isinstance(inner.this, exp.Column) and len(upper) == 1):
        return False
    return _literals(inner.expressions, 0) and _literals(upper, MAX_STEPS)


def _cannot_fail(function: exp.Func, *, maps: bool) -> bool:
    """Tell whether a function that can fail has arguments on which it does not.

    Such calls are EXP(LEAST(GREATEST(…, -300), 0)), LN(GREATEST(…, c)) for a constant c > 0 and, in a database that has
    maps (`maps`), a map of constants.
    """
    if _name(function) == _MAP:
        return maps and function.find(exp.Column) is None
    inner = function.this
    guards = {exp.Exp: exp.Least, exp.Ln: exp.Greatest}
    guard = guards.get(type(function))
    if guard is None or not isinstance(inner, guard) or len(inner.expressions) != 1:
        return False
    bound = inner.expressions[0]
    if not isinstance(bound, exp.Literal) or bound.is_string:
        return False
    if isinstance(function, exp.Exp):
        floored = isinstance(inner.this, exp.Greatest) and inner.this.expressions == [double(LEAST_LOG)]
        return floored and float(bound.this) == 0
    return float(bound.this) > 0


def _literals(values: list[exp.Expr], most: int) -> bool:
    """Tell whether all expressions are whole number literals from 0 to `most`."""
    return all(isinstance(value, exp.Literal) and value.is_int and 0 <= int(value.this) <= most for value in values)


def _zero_or_one(value: exp.Expr) -> bool:
    """Tell whether an expression is a CASE that gives 0 or 1 and nothing else."""
    if not isinstance(value, exp.Case):
        return False
    results = [branch.args["true"] for branch in value.args["ifs"]] + [value.args.get("default")]
    return all(isinstance(result, exp.Literal) and result.this in ("0", "1") for result in results)


def _name(function: exp.Func) -> str:
    return function.name.lower() if isinstance(function, exp.Anonymous) else function.sql_names()[0].lower()
