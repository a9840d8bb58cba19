"""Turns scores into probabilities in SQL: each row's scores side by side, the weight of each, and their sum.

    shares  AS (score_0, score_1, … of each row, one after the other), topped AS (… and the highest of them),
    powers  AS (… weight_0, weight_1, …), totals AS (… and their total)

A weight is the positive part of a score, or EXP((score − highest) / nat) where scores are logarithms: never above 1,
and never below EXP(−300), so that neither it nor its square leaves the range of doubles. Weights are added in the order
of classes: a row's probabilities depend on that row alone, to the last bit, whatever other rows there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.compile.vocabulary import case, double, int_literal, paren
from dpsql.schema import Target

#: The CTE that has the weights of a row's classes, and their total.
TOTALS = "totals"
#: The least logarithm of a weight. The square of that weight, about 1e-261, is still a double; PostgreSQL fails where a
#: result is too small for one.
LEAST_LOG = -300
_SCORES = "scores"


def with_totals(query: exp.Select, classes: int, nat: int, *, key: str, once: bool | None = None) -> exp.Select:
    """Return the query with CTEs that turn `scores` (key, class, score) into weights and their total, a row per key.

    `once` says that the totals are computed once, and not again wherever they are named.
    """
    numbers = range(classes)
    wide = exp.select(exp.column(key))
    for number in numbers:
        score_of_class = (
            exp.case().when(exp.column("class").eq(int_literal(number)), exp.column("score")).else_(int_literal(0))
        )
        score = exp.cast(exp.Sum(this=score_of_class), exp.DataType.Type.BIGINT)
        wide = wide.select(exp.alias_(score, _score(number)))
    query = query.with_("shares", wide.from_(_SCORES).group_by(key), copy=False)
    first, *others = [exp.column(_score(number)) for number in numbers]
    top = exp.Greatest(this=first, expressions=others, ignore_nulls=True)
    query = query.with_("topped", exp.select("*", exp.alias_(top, "top")).from_("shares"), copy=False)
    weights = [
        exp.alias_(power(exp.column(_score(number)), exp.column("top"), nat), _weight_name(number))
        for number in numbers
    ]
    query = query.with_("powers", exp.select("*", *weights).from_("topped"), copy=False)
    total = _sum([exp.column(_weight_name(number)) for number in numbers])
    totals = exp.select("*", exp.alias_(total, "total")).from_("powers")
    return query.with_(TOTALS, totals, materialized=once, copy=False)


def class_share(number: int, classes: int) -> exp.Expr:
    """Return a class's probability, from a row of `totals`; it is 1 / `classes` where no class has any weight."""
    return _part_of(exp.column(_weight_name(number), TOTALS), classes)


def share_of(number: exp.Expr, classes: int) -> exp.Expr:
    """Return the probability of the class whose number an expression gives."""
    weight: exp.Expr = exp.column(_weight_name(classes - 1), TOTALS)
    if classes > 1:
        case = exp.Case(this=number)
        for class_number in range(classes - 1):
            case = case.when(int_literal(class_number), exp.column(_weight_name(class_number), TOTALS))
        weight = case.else_(weight)
    return _part_of(weight, classes)


def best_class(names: Sequence[exp.Expr], *, without: int | None = None) -> exp.Expr:
    """Return the name of the class with the highest score, the first among equals; `without` leaves one class out."""
    numbers = [number for number in range(len(names)) if number != without]
    first, *others = [exp.column(_score(number), TOTALS) for number in numbers]
    highest = exp.Greatest(this=first, expressions=others, ignore_nulls=True) if others else first
    case = exp.Case(this=highest)
    for number in numbers[:-1]:
        case = case.when(exp.column(_score(number), TOTALS), names[number])
    return case.else_(names[numbers[-1]]) if len(numbers) > 1 else names[numbers[0]]


def heaviest_class(names: Sequence[exp.Expr], factors: Sequence[float]) -> exp.Expr:
    """Return the name of the class whose factor times probability is the largest, the first among equals."""
    products = [
        exp.Mul(this=paren(class_share(number, len(names))), expression=double(factor))
        for number, factor in enumerate(factors)
    ]
    first, *others = products
    highest = exp.Greatest(this=first, expressions=others, ignore_nulls=True) if others else first
    branches = [
        (exp.EQ(this=product.copy(), expression=highest.copy()), name)
        for product, name in zip(products, names, strict=True)
    ]
    return case(branches[:-1], names[-1]) if others else names[0]


def number_of_target(target: Target, upper: exp.Expr, votes: exp.Expr) -> exp.Expr:
    """Return lower + width · (votes for the upper bound / all votes), within the bounds."""
    some = exp.Greatest(this=votes, expressions=[int_literal(1)], ignore_nulls=True)
    share = paren(exp.Div(this=as_real(upper), expression=as_real(some)))
    value = exp.Add(this=double(target.lower), expression=exp.Mul(this=double(target.width), expression=share))
    floored = exp.Greatest(this=value, expressions=[double(target.lower)], ignore_nulls=True)
    return exp.Least(this=floored, expressions=[double(target.upper)], ignore_nulls=True)


def _part_of(weight: exp.Expr, classes: int) -> exp.Expr:
    part = exp.Div(this=as_real(weight), expression=as_real(exp.column("total", TOTALS)))
    has_weight = exp.GT(this=exp.column("total", TOTALS), expression=int_literal(0))
    return exp.case().when(has_weight, part).else_(exp.Div(this=double(1), expression=double(classes)))


def power(score: exp.Expr, highest: exp.Expr, nat: int) -> exp.Expr:
    """Return the weight of a class: max(score, 0), or for log-scores EXP(max((score − highest) / nat, −300))."""
    if not nat:
        return exp.Greatest(this=score, expressions=[int_literal(0)], ignore_nulls=True)
    below = as_real(paren(exp.Sub(this=score, expression=highest)))
    scaled = exp.Div(this=below, expression=double(nat))
    floored = exp.Greatest(this=scaled, expressions=[double(LEAST_LOG)], ignore_nulls=True)
    return exp.Exp(this=exp.Least(this=floored, expressions=[double(0)], ignore_nulls=True))


def _sum(parts: Sequence[exp.Expr]) -> exp.Expr:
    total = parts[0]
    for part in parts[1:]:
        total = exp.Add(this=total, expression=part)
    return total


def as_real(value: exp.Expr) -> exp.Expr:
    """Return a value cast to a double."""
    return exp.cast(value, exp.DataType.Type.DOUBLE)


def _score(number: int) -> str:
    return f"score_{number}"


def _weight_name(number: int) -> str:
    return f"weight_{number}"
