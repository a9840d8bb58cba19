"""The second half of portable prediction: leaves to scores, scores to a label, a number or probabilities.

    scores AS (SUM(weight) by cells and class), winner AS (the best rank of each cells), shares AS (what classes weigh)

All scores are whole numbers. Of a class the rank is score · classes + (classes − 1 − class): the highest score wins,
of equal ones the first class. Probabilities follow from scores by one division; of log-scores by EXP too, whose last
digit databases may round differently.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.compile.dialects import Dialect, as_double
from dpsql.compile.portable import ROWS, Portable
from dpsql.compile.vocabulary import case, double, paren, whole
from dpsql.compile.votes import SCORES, WINNER, class_of_rank, rank_of_class
from dpsql.schema import Target

SHARES = "shares"
#: Below this EXP is left out: some databases make an error of a result that is too small.
_LEAST_LOG = -700.0


def predictions(
    portable: Portable,
    source: exp.Table,
    *,
    nodes: exp.Table,
    leaves: exp.Table,
    result: str,
    nat: int = 0,
    probabilities: bool = False,
) -> exp.Select:
    """Return the query that gives all columns of the rows to score and their label, as `result`.

    With `probabilities` each class's follows, as `p_<class>`; `nat` says what scores mean, as in `VotingForest`.
    """
    dialect = portable.dialect
    query, last = portable.walk(exp.Select(), source, nodes)
    query = query.with_(SCORES, _scores(last, leaves, walked=portable.forest.depth > 0), copy=False)
    target = portable.schema.target
    query = query.with_(WINNER, _winner(len(portable.schema.classes), target), copy=False)
    label = _label(portable.schema.classes, dialect) if target is None else _number(target, dialect)
    query = query.select(
        exp.Column(this=exp.Star(), table=exp.to_identifier(ROWS)), _named(label, result, dialect), copy=False
    )
    query = query.from_(exp.alias_(source.copy(), ROWS, table=True), copy=False)
    query = query.join(WINNER, on=exp.column("cells", WINNER).eq(portable.cells()), copy=False)
    return _with_shares(query, portable, nat) if probabilities else query


def _scores(last: str, leaves: exp.Table, *, walked: bool) -> exp.Select:
    keys = [exp.column("cells", "walker"), exp.column("class", "vote")]
    total = exp.cast(exp.Sum(this=exp.column("weight", "vote")), exp.DataType.Type.BIGINT)
    query = exp.select(*keys, exp.alias_(total, "score")).from_(exp.alias_(exp.to_table(last), "walker", table=True))
    vote = exp.alias_(leaves.copy(), "vote", table=True)
    if walked:
        query = query.join(vote, on=exp.column("leaf", "vote").eq(exp.column("node", "walker")))
    else:
        query = query.join(vote, join_type="cross")
    return query.group_by(*(key.copy() for key in keys))


def _winner(classes: int, target: Target | None) -> exp.Select:
    """Return the best rank and the highest score of each cells; of a target the votes for its upper bound, and all."""
    score: exp.Expr = exp.column("score", SCORES)
    if target is None:
        rank = rank_of_class(score, classes)
        found: dict[str, exp.Expr] = {"best": exp.Max(this=rank), "top": exp.Max(this=score.copy())}
    else:
        upper = case([(exp.column("class", SCORES).eq(whole(1)), score)], whole(0))
        found = {"best": _total(upper), "top": _total(score.copy())}
    columns = [exp.alias_(value, name) for name, value in found.items()]
    return exp.select(exp.column("cells", SCORES), *columns).from_(SCORES).group_by(exp.column("cells", SCORES))


def _total(value: exp.Expr) -> exp.Expr:
    return exp.cast(exp.Sum(this=value), exp.DataType.Type.BIGINT)


def _label(classes: Sequence[str], dialect: Dialect) -> exp.Expr:
    found = exp.Case(this=class_of_rank(len(classes)))
    for number, name in enumerate(classes[:-1]):
        found.append("ifs", exp.If(this=whole(number), true=dialect.label(name)))
    found.set("default", dialect.label(classes[-1]))
    return found


def _number(target: Target, dialect: Dialect) -> exp.Expr:
    """Return lower + width · (votes for the upper bound / all votes), within the bounds."""
    votes = as_double(exp.column("top", WINNER))
    known = exp.GT(this=exp.column("top", WINNER), expression=whole(0))
    share = exp.Div(this=as_double(exp.column("best", WINNER)), expression=case([(known, votes)], dialect.number(1.0)))
    moved = exp.Mul(this=paren(dialect.number(target.width)), expression=paren(share))
    value = exp.Add(this=paren(dialect.number(target.lower)), expression=moved)
    below = exp.LT(this=value, expression=dialect.number(target.lower))
    above = exp.GT(this=value.copy(), expression=dialect.number(target.upper))
    bounds = [(below, dialect.number(target.lower)), (above, dialect.number(target.upper))]
    return case(bounds, value.copy())


def _with_shares(query: exp.Select, portable: Portable, nat: int) -> exp.Select:
    """Add each class's probability, as `p_<class>`: its weight by the sum of all, added in the order of classes."""
    classes, dialect = portable.schema.classes, portable.dialect
    weights = [exp.alias_(_weight(number, nat), _weight_name(number)) for number in range(len(classes))]
    shares = exp.select(exp.column("cells", SCORES), *weights).from_(SCORES)
    if nat:
        shares = shares.join(WINNER, on=exp.column("cells", WINNER).eq(exp.column("cells", SCORES)))
    query = query.with_(SHARES, shares.group_by(exp.column("cells", SCORES)), copy=False)
    query = query.join(SHARES, on=exp.column("cells", SHARES).eq(exp.column("cells", WINNER)), copy=False)
    for number, name in enumerate(classes):
        query = query.select(_named(_share(number, len(classes), dialect), f"p_{name}", dialect), copy=False)
    return query


def _weight(number: int, nat: int) -> exp.Expr:
    """Return what one class weighs: its positive votes, a whole number, or EXP of its log-score below the highest."""
    score: exp.Expr = exp.column("score", SCORES)
    of_class = exp.column("class", SCORES).eq(whole(number))
    if nat:
        return exp.Sum(this=case([(of_class, _power(score, nat))], double(0)))
    positive = exp.and_(of_class, exp.GT(this=score, expression=whole(0)))
    return _total(case([(positive, score.copy())], whole(0)))


def _power(score: exp.Expr, nat: int) -> exp.Expr:
    below = as_double(paren(exp.Sub(this=score, expression=exp.column("top", WINNER))))
    log = exp.Div(this=below, expression=double(nat))
    return case([(exp.LT(this=log, expression=double(_LEAST_LOG)), double(0))], exp.Exp(this=log.copy()))


def _share(number: int, classes: int, dialect: Dialect) -> exp.Expr:
    total: exp.Expr = exp.column(_weight_name(0), SHARES)
    for other in range(1, classes):
        total = exp.Add(this=total, expression=exp.column(_weight_name(other), SHARES))
    share = exp.Div(this=as_double(exp.column(_weight_name(number), SHARES)), expression=as_double(paren(total)))
    return case([(exp.GT(this=total.copy(), expression=whole(0)), share)], dialect.number(1 / classes))


def _weight_name(number: int) -> str:
    return f"weight_{number}"


def _named(value: exp.Expr, name: str, dialect: Dialect) -> exp.Expr:
    return exp.Alias(this=value, alias=dialect.identifier(name))
