"""The second half of portable prediction: from leaves to scores, and from scores to a label, number or probabilities.

    scores AS (SUM(weight) by cells and class), winner AS (the best rank for each text of cells)

and with probabilities, between the two:

    tally AS (… and each class's score side by side), weights AS (… and each class's weight),
    winner AS (… and the total of the weights)

Each CTE is read once, by the next one, so that databases which compute a CTE anew for each reader still walk the trees
once. All scores are whole numbers. The rank of a class is score · classes + (classes − 1 − class): the highest score
wins, and among equal scores the first class. Probabilities take one division; those of log-scores take EXP too, whose
last digit databases may round differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from dpsql.compile.predict.dialects import Dialect, as_double
from dpsql.compile.predict.portable_walk import ROWS, Portable
from dpsql.compile.predict.votes import SCORES, WINNER, class_of_rank, rank_of_class
from dpsql.compile.vocabulary import case, double, int_literal, paren
from dpsql.schema import Target

#: EXP of less than this is written as 0: some databases fail where a result is too small for a double.
_LEAST_LOG = -700.0


def portable_predictions(
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

    With `probabilities` each class's probability follows, as `p_<class>`; `nat` says what scores mean, as in
    `VotingForest`.
    """
    dialect, classes, target = portable.dialect, portable.schema.classes, portable.schema.target
    query, last = portable.walk(exp.Select(), source, nodes)
    query = query.with_(SCORES, _scores(last, leaves, walked=portable.forest.depth > 0), copy=False)
    query = _with_winner(query, len(classes), target, nat=nat, probabilities=probabilities)
    label = _label(classes, dialect) if target is None else _number(target, dialect)
    shown = [_alias_as(label, result, dialect)]
    if probabilities:
        shares = (_share(number, len(classes), dialect) for number in range(len(classes)))
        shown += [_alias_as(share, f"p_{name}", dialect) for name, share in zip(classes, shares, strict=True)]
    query = query.select(exp.Column(this=exp.Star(), table=exp.to_identifier(ROWS)), *shown, copy=False)
    query = query.from_(exp.alias_(source.copy(), ROWS, table=True), copy=False)
    own_cells = exp.column("cells", WINNER).eq(portable.cells())
    # In SQLite a cross join is one whose tables are read in the order in which they are written.
    return query.join(WINNER, on=own_cells, join_type="cross" if dialect.rows_first else "", copy=False)


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


def _with_winner(
    query: exp.Select, classes: int, target: Target | None, *, nat: int, probabilities: bool
) -> exp.Select:
    """Add the CTE `winner`: for each text of cells the best rank and the highest score.

    For a numeric target it has the votes for the upper bound, and all votes.
    """
    score: exp.Expr = exp.column("score", SCORES)
    if target is None:
        rank = rank_of_class(score, classes)
        columns: dict[str, exp.Expr] = {"best": exp.Max(this=rank), "top": exp.Max(this=score.copy())}
    else:
        columns = {"best": _total(_if_class(1, score)), "top": _total(score.copy())}
    if not probabilities:
        return query.with_(WINNER, _by_cells(columns), copy=False)
    scores = {_score(number): _total(_if_class(number, score.copy())) for number in range(classes)}
    query = query.with_("tally", _by_cells(columns | scores), copy=False)
    weights = {_weight(number): _power(exp.column(_score(number), "tally"), nat) for number in range(classes)}
    query = query.with_("weights", _with_columns("tally", weights), copy=False)
    names = [_weight(number) for number in range(classes)]
    weight_columns: dict[str, exp.Expr] = {name: exp.column(name, "weights") for name in names}
    return query.with_(
        WINNER, _with_columns("weights", weight_columns | {"total": _sum(list(weight_columns.values()))}), copy=False
    )


def _if_class(number: int, score: exp.Expr) -> exp.Expr:
    return case([(exp.column("class", SCORES).eq(int_literal(number)), score)], int_literal(0))


def _by_cells(named: Mapping[str, exp.Expr]) -> exp.Select:
    columns = [exp.alias_(value, name) for name, value in named.items()]
    return exp.select(exp.column("cells", SCORES), *columns).from_(SCORES).group_by(exp.column("cells", SCORES))


def _with_columns(last: str, named: Mapping[str, exp.Expr]) -> exp.Select:
    carried = [exp.column(name, last) for name in ("cells", "best", "top")]
    return exp.select(*carried, *(exp.alias_(value, name) for name, value in named.items())).from_(last)


def _total(value: exp.Expr) -> exp.Expr:
    return exp.cast(exp.Sum(this=value), exp.DataType.Type.BIGINT)


def _label(classes: Sequence[str], dialect: Dialect) -> exp.Expr:
    label = exp.Case(this=class_of_rank(len(classes)))
    for number, name in enumerate(classes[:-1]):
        label.append("ifs", exp.If(this=int_literal(number), true=dialect.label(name)))
    label.set("default", dialect.label(classes[-1]))
    return label


def _number(target: Target, dialect: Dialect) -> exp.Expr:
    """Return lower + width · (votes for the upper bound / all votes), within the bounds."""
    votes = as_double(exp.column("top", WINNER))
    has_votes = exp.GT(this=exp.column("top", WINNER), expression=int_literal(0))
    share = exp.Div(
        this=as_double(exp.column("best", WINNER)), expression=case([(has_votes, votes)], dialect.number(1.0))
    )
    moved = exp.Mul(this=paren(dialect.number(target.width)), expression=paren(share))
    value = exp.Add(this=paren(dialect.number(target.lower)), expression=moved)
    below = exp.LT(this=value, expression=dialect.number(target.lower))
    above = exp.GT(this=value.copy(), expression=dialect.number(target.upper))
    bounds = [(below, dialect.number(target.lower)), (above, dialect.number(target.upper))]
    return case(bounds, value.copy())


def _power(score: exp.Expr, nat: int) -> exp.Expr:
    """Return the weight of a class: max(score, 0), or for log-scores (`nat` > 0) EXP((score − highest) / nat)."""
    if not nat:
        return case([(exp.GT(this=score, expression=int_literal(0)), score.copy())], int_literal(0))
    below = as_double(paren(exp.Sub(this=score, expression=exp.column("top", "tally"))))
    log = exp.Div(this=below, expression=double(nat))
    return case([(exp.LT(this=log, expression=double(_LEAST_LOG)), double(0))], exp.Exp(this=log.copy()))


def _share(number: int, classes: int, dialect: Dialect) -> exp.Expr:
    total: exp.Expr = exp.column("total", WINNER)
    share = exp.Div(this=as_double(exp.column(_weight(number), WINNER)), expression=as_double(total))
    return case([(exp.GT(this=total.copy(), expression=int_literal(0)), share)], dialect.number(1 / classes))


def _sum(parts: Sequence[exp.Expr]) -> exp.Expr:
    """Return the sum, in the order of the parts."""
    total = parts[0].copy()
    for part in parts[1:]:
        total = exp.Add(this=total, expression=part.copy())
    return total


def _score(number: int) -> str:
    return f"score_{number}"


def _weight(number: int) -> str:
    return f"weight_{number}"


def _alias_as(value: exp.Expr, name: str, dialect: Dialect) -> exp.Expr:
    return exp.Alias(this=value, alias=dialect.identifier(name))
