"""Aggregates over the rows of one unit: those that never fail and do not depend on the order of rows.

    COUNT(*)  COUNT(x)  COUNT(DISTINCT x)  SUM(x)  AVG(x)  MIN(x)  MAX(x)  ARG_MAX(x, d)  ARG_MIN(x, d)

and each of them with FILTER (WHERE …). Three things are done to the text's own meaning, so that the result is the same
on every run, whatever the order in which a database adds rows up:

- A sum of doubles depends on their order in its last bits, and can overflow. So a sum of integers is exact, and a sum
  of other numbers must be clamped to literal bounds (`LEAST(GREATEST(x, 0), 1000)`, or a CASE of literals): each number
  is then rounded to a multiple of 2^-k, with at least 2^31 of them between the bounds, and those are added up exactly.
- ARG_MAX(x, d), the x of the row with the largest d, has many answers where d is tied. Here the largest x of those rows
  is taken (and for ARG_MIN, the x with the smallest d, too).
- Zero has two signs, and MIN or MAX could give either: it is made the positive one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpsql.compile.views.total_expressions import Refused, refuse_other_parts, unbracket
from dpsql.compile.views.unit_relations import ColumnFacts, by_bytes
from dpsql.compile.vocabulary import case, double
from dpsql.spelling import Vocabulary

#: The classes of aggregates that are allowed.
AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.ArgMax, exp.ArgMin)
#: How many multiples there are at most between the bounds of a number that is added up.
_STEPS = 2**32
#: The largest bound of a sum, and the least but 0: beyond them PostgreSQL's arithmetic can fail.
_LARGEST, _SMALLEST = 1e15, 1e-9
#: Families of values that are ordered alike by every database.
_ORDERED = ("number", "date", "timestamp")

INTEGER = ColumnFacts("", "BIGINT", "integer", integer=True)
REAL = ColumnFacts("", "DOUBLE PRECISION", "real")
CONDITION = ColumnFacts("", "BOOLEAN", "boolean")


@dataclass(frozen=True, eq=False)
class Aggregate:
    """An aggregate of a query's text: its kind, its argument, the argument of its order (ARG_MAX), and its filter.

    `kind` is the aggregate's name in lower case: "rows" for COUNT(*), and "distinct" for COUNT(DISTINCT …).
    """

    kind: str
    argument: exp.Expression | None = None
    by: exp.Expression | None = None
    condition: exp.Expression | None = None


def is_aggregate(node: object) -> bool:
    """Whether a node is an aggregate, with or without its filter."""
    return isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup)


def read_aggregate(node: exp.Expression) -> Aggregate:
    """Return what an aggregate of a text asks for, or refuse it."""
    condition = None
    if isinstance(node, exp.Filter):
        refuse_other_parts(node, "this", "expression")
        refuse_other_parts(node.expression, "this")
        node, condition = node.this, node.expression.this
    if not isinstance(node, AGGREGATES) or type(node) not in AGGREGATES:
        name = node.name if isinstance(node, exp.AnonymousAggFunc | exp.Anonymous) else type(node).__name__
        raise Refused(f'uses the aggregate "{name.lower()}", which is none of COUNT, SUM, AVG, MIN, MAX, ARG_MAX')
    if isinstance(node, exp.Count):
        return _read_count(node, condition)
    refuse_other_parts(node, "this", "expression")
    if isinstance(node.this, exp.Distinct):
        raise Refused("uses DISTINCT inside an aggregate other than COUNT")
    return Aggregate(type(node).__name__.lower(), node.this, node.args.get("expression"), condition)


def _read_count(node: exp.Count, condition: exp.Expression | None) -> Aggregate:
    refuse_other_parts(node, "this", "big_int")
    inner = node.this
    if isinstance(inner, exp.Star):
        refuse_other_parts(inner)
        return Aggregate("rows", None, None, condition)
    if isinstance(inner, exp.Distinct):
        refuse_other_parts(inner, "expressions")
        if len(inner.expressions) != 1:
            raise Refused("counts distinct values of several expressions at once")
        return Aggregate("distinct", inner.expressions[0], None, condition)
    return Aggregate("count", inner, None, condition)


def clamp_bounds(node: exp.Expression) -> tuple[exp.Expression, float, float] | None:
    """Return the expression that a text clamps and the literal bounds, or None where it clamps nothing.

    `LEAST(GREATEST(x, 0), 10)` and `GREATEST(LEAST(x, 10), 0)` are clamped; the literals may stand first.
    """
    node = unbracket(node)
    outer = _literal_and_rest(node)
    inner = None if outer is None else _literal_and_rest(unbracket(outer[1]))
    if outer is None or inner is None or type(node) is type(unbracket(outer[1])):
        return None
    lower, upper = (inner[0], outer[0]) if isinstance(node, exp.Least) else (outer[0], inner[0])
    if not lower < upper or any(abs(bound) > _LARGEST or 0 < abs(bound) < _SMALLEST for bound in (lower, upper)):
        raise Refused(f"clamps a number to bounds that are not LOWER < UPPER, from -{_LARGEST:g} to {_LARGEST:g}")
    if upper - lower < _SMALLEST:
        raise Refused("clamps a number to bounds that are too close")
    return inner[1], lower, upper


def _literal_and_rest(node: exp.Expression) -> tuple[float, exp.Expression] | None:
    """Return the literal and the other argument of LEAST or GREATEST, or None where it has another form."""
    if not isinstance(node, exp.Least | exp.Greatest):
        return None
    refuse_other_parts(node, "this", "expressions", "ignore_nulls")
    arguments = [node.this, *node.expressions]
    numbers = [number for argument in arguments if (number := literal_number(argument)) is not None]
    rest = [argument for argument in arguments if literal_number(argument) is None]
    return (numbers[0], rest[0]) if len(numbers) == len(rest) == 1 else None


def literal_number(node: exp.Expression) -> float | None:
    """Return the number that a literal is, or None for anything else."""
    node = unbracket(node)
    if isinstance(node, exp.Neg):
        inner = literal_number(node.this)
        return None if inner is None else -inner
    if not isinstance(node, exp.Literal) or node.is_string or len(node.name) > 30:
        return None
    try:
        number = float(node.name)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def clamp(value: exp.Expr, lower: float, upper: float, *, floor_first: bool) -> exp.Expr:
    """Return a double between two bounds. NULL becomes the bound that stands first; NaN is above all numbers."""
    if floor_first:
        floored = exp.Greatest(this=value, expressions=[double(lower)], ignore_nulls=True)
        return exp.Least(this=floored, expressions=[double(upper)], ignore_nulls=True)
    capped = exp.Least(this=value, expressions=[double(upper)], ignore_nulls=True)
    return exp.Greatest(this=capped, expressions=[double(lower)], ignore_nulls=True)


def scale_of(lower: float, upper: float) -> float:
    """Return how many multiples there are in 1: the power of two with 2^31 to 2^32 multiples between the bounds."""
    return 2.0 ** math.floor(math.log2(_STEPS / (upper - lower)))


def steps(value: exp.Expr, lower: float, upper: float) -> exp.Expr:
    """Return a double between two bounds as whole multiples above the lower one; NULL stays NULL.

    No product is near 0, where PostgreSQL's arithmetic fails: what is less than a quarter of a step counts as 0.
    """
    scale = scale_of(lower, upper)
    above = exp.Paren(this=exp.Sub(this=value, expression=double(lower)))
    scaled = exp.Add(this=exp.Mul(this=above.copy(), expression=double(scale)), expression=double(0.5))
    small = exp.LT(this=above, expression=double(0.25 / scale))
    return exp.cast(exp.Floor(this=case([(small, double(0))], scaled)), exp.DataType.Type.BIGINT)


def aggregate_sql(
    aggregate: Aggregate,
    values: Sequence[exp.Expr],
    family: str,
    facts: ColumnFacts,
    bounds: tuple[float, float] | None,
    vocabulary: Vocabulary,
) -> tuple[exp.Expr, ColumnFacts]:
    """Return an aggregate over columns of rows, and what is known of its result.

    `values` are the columns with its argument, which is NULL where the filter does not hold, and for ARG_MAX its order
    and the largest order of the group. `bounds` are those of a number that was turned into steps above them.
    """
    value = values[0]
    if aggregate.kind in ("rows", "count"):
        return exp.cast(exp.Count(this=value), exp.DataType.Type.BIGINT), INTEGER
    if aggregate.kind == "distinct":
        inner = by_bytes(value, vocabulary) if family == "text" else value
        return exp.cast(exp.Count(this=exp.Distinct(expressions=[inner])), exp.DataType.Type.BIGINT), INTEGER
    if aggregate.kind in ("sum", "avg"):
        return _sum(aggregate.kind, value, bounds), REAL
    if aggregate.kind in ("argmax", "argmin"):
        value = case([(values[1].eq(values[2]), value)], exp.null())
    word = exp.Min if aggregate.kind == "min" else exp.Max
    if family == "text":
        return word(this=by_bytes(value, vocabulary)), facts
    chosen = word(this=value)
    if family == "number" and not facts.integer:
        return case([(chosen.copy().eq(double(0)), double(0))], chosen), facts
    return chosen, facts


def _sum(kind: str, value: exp.Expr, bounds: tuple[float, float] | None) -> exp.Expr:
    """Return a sum or mean of whole numbers: of integers, or of steps above a lower bound."""
    total: exp.Expr = exp.cast(exp.Sum(this=value), exp.DataType.Type.DOUBLE)
    count = exp.cast(exp.Count(this=value.copy()), exp.DataType.Type.DOUBLE)
    if bounds is not None:
        lower, upper = bounds
        total = exp.Mul(this=total, expression=double(1 / scale_of(lower, upper)))
        if lower:
            total = exp.Add(this=total, expression=exp.Mul(this=count.copy(), expression=double(lower)))
        total = exp.Paren(this=total)
    if kind == "sum":
        return total
    return exp.Div(this=total, expression=exp.Nullif(this=count, expression=double(0)), typed=False, safe=False)


def check_order(family: str, kind: str) -> None:
    """Refuse MIN, MAX and the order of ARG_MAX on values that databases order differently."""
    if family not in _ORDERED:
        raise Refused(f"takes {kind.upper()} of a value of type {family}; numbers, dates and timestamps have an order")
