"""Predicts in SQL on databases that can look numbers up in lists: each row is scored by itself, as rows stream by.

    WITH packed AS (SELECT [words] AS dpsql_words, * FROM the rows to score),
         scored AS (SELECT each class's score AS dpsql_scores, * FROM packed CROSS JOIN (the model's lists) AS model)
    SELECT …, CASE WHEN dpsql_scores > 0 THEN '>50K' ELSE '<=50K' END AS prediction FROM scored

Every part is named once, nothing is materialized and no row has a number, so the columns of a row need not be joined
back to its label. Where there are two classes, the score says by how much the second is ahead. dpsql's own columns come
first: if a column of the table had the same name, the name would mean dpsql's.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.compile.predict.lookups import MODEL, WORDS, Lookups, let, list_of_words
from dpsql.compile.predict.probabilities import as_real, number_of_target, power
from dpsql.compile.rows import PACKED, Source, packed_words
from dpsql.compile.vocabulary import Lists, Vocabulary, case, column, double, int_literal, name_as, paren
from dpsql.trees.estimate.decisions import ClassWeights, Decision

#: Columns that are added to a row while it is scored.
SCORES = "dpsql_scores"
WEIGHTS = "dpsql_weights"
TOTAL = "dpsql_total"
OWN_COLUMNS = (WORDS, SCORES, WEIGHTS, TOTAL)
#: Names inside expressions over lists.
_SCORE = "score"
_HIGHEST = "highest"
_PRODUCTS = "products"
#: CTEs, in order: with scores, then with the weight of each class, then with their total.
_SCORED = "scored"
_WEIGHED = "weighed"
_SUMMED = "summed"


def row_predictions(
    source: Source,
    lookups: Lookups,
    vocabulary: Vocabulary,
    *,
    row: str,
    keys: Sequence[str] | None,
    result: str,
    nat: int,
    probabilities: bool,
    decision: Decision | None,
    ordered: bool,
    relation: exp.Expr | None,
) -> exp.Select:
    """Return the query that `votes.predictions` describes; `row` names the row numbers, where they are needed."""
    classes, shares = source.schema.classes, probabilities or decision is not None
    numbered = [name_as(vocabulary.row_number(), row)] if ordered or row in (keys or ()) else []
    own = [*numbered, name_as(list_of_words(packed_words(source, vocabulary), vocabulary), WORDS)]
    table = relation if relation is not None else source.table.copy()
    query = exp.Select().with_(PACKED, exp.select(*own, "*").from_(table), copy=False)
    scores = lookups.scores() if shares else _label_scores(source, lookups)
    scored = exp.select(name_as(scores, SCORES), exp.column(exp.Star(), PACKED)).from_(PACKED)
    query = query.with_(_SCORED, scored.join(lookups.model().subquery(MODEL), join_type="cross"), copy=False)
    last, hidden = _SCORED, [SCORES, WORDS, *([row] if numbered else [])]
    if shares:
        query, last, hidden = _with_weights(query, lookups, nat), _SUMMED, [TOTAL, WEIGHTS, *hidden]
    label = _label(source, lookups, listed=shares)
    if decision is not None:
        label = _decided_label(lookups.lists, classes, decision)
    shown = _columns(keys, last, hidden)
    query = query.select(*shown, named_result(label, result), copy=False).from_(last, copy=False)
    if probabilities:
        parts = (_share(lookups.lists, number, len(classes)) for number in range(len(classes)))
        query = query.select(*(named_result(part, f"p_{name}") for part, name in zip(parts, classes, strict=True)))
    return query.order_by(exp.column(row, last)) if ordered else query


def row_scalar(source: Source, lookups: Lookups, vocabulary: Vocabulary) -> exp.Expr:
    """Return the label of one row as an expression over its feature columns: the body of a scalar macro.

    The model's lists are one struct, from a subquery that does not depend on the row and so is computed once.
    """
    lists = lookups.lists
    fields = [exp.PropertyEQ(this=exp.to_identifier(name), expression=exp.column(name)) for name in lookups.names()]
    model = exp.select(exp.Struct(expressions=fields)).from_(lookups.model().subquery(MODEL)).subquery()
    label = let(lists, SCORES, _label_scores(source, lookups), _label(source, lookups, listed=False))
    label = let(lists, WORDS, list_of_words(packed_words(source, vocabulary), vocabulary), label)
    return let(lists, MODEL, model, label)


def looks_at_difference(classes: int, *, target: bool, shares: bool, nat: int) -> bool:
    """Whether the difference of two classes is enough: for labels, and for probabilities of log-scores."""
    return classes == 2 and not target and (nat > 0 or not shares)


def named_result(value: exp.Expr, name: str) -> exp.Expr:
    """Return a column of the result under its name, in quotes."""
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))


def _columns(keys: Sequence[str] | None, last: str, hidden: Sequence[str]) -> list[exp.Expr]:
    if keys is not None:
        return [column(key, last) for key in keys]
    return [exp.Column(this=exp.Star(except_=[*map(exp.to_identifier, hidden)]), table=exp.to_identifier(last))]


def _by_own_classes(lookups: Lookups) -> bool:
    return not lookups.complete and not lookups.difference and lookups.forest.trees < lookups.classes


def _label_scores(source: Source, lookups: Lookups) -> exp.Expr:
    """Return what a label needs: the difference of two classes, the number of the class, or all scores."""
    if lookups.difference:
        return lookups.difference_of_classes()
    return lookups.own_class() if _by_own_classes(lookups) and source.schema.target is None else lookups.scores()


def _label(source: Source, lookups: Lookups, *, listed: bool) -> exp.Expr:
    """Return the label from what `_label_scores` gave, or from all scores `listed`; the first class among equals."""
    lists, scores, target = lookups.lists, exp.column(SCORES), source.schema.target
    if target is not None:
        upper = lists.at(scores, int_literal(2))
        return number_of_target(
            target, upper, exp.Add(this=lists.at(scores.copy(), int_literal(1)), expression=upper.copy())
        )
    names: list[exp.Expr] = [exp.Literal.string(name) for name in source.schema.classes]
    if lookups.difference and not listed:
        return case([(exp.GT(this=scores, expression=int_literal(0)), names[1])], names[0])
    if _by_own_classes(lookups) and not listed:
        return lists.at(lists.of(names), exp.Add(this=scores, expression=int_literal(1)))
    return _best(lists, scores, names)


def _best(lists: Lists, scores: exp.Expr, names: Sequence[exp.Expr]) -> exp.Expr:
    """Return the name at the first place of the highest score."""
    return lists.at(lists.of(names), lists.place(scores, lists.largest(scores.copy())))


def _decided_label(lists: Lists, classes: Sequence[str], decision: Decision) -> exp.Expr:
    """Return the class that a decision names: one that is probable enough, or the one that weighs the most."""
    if isinstance(decision, ClassWeights):
        return _heaviest(lists, classes, decision.weights)
    return _past_threshold(lists, classes, decision.number, decision.least)


def _heaviest(lists: Lists, classes: Sequence[str], factors: Sequence[float]) -> exp.Expr:
    """Return the class whose factor times probability is the largest, the first among equals."""
    products: list[exp.Expr] = [
        exp.Mul(this=paren(_share(lists, number, len(classes))), expression=double(factor))
        for number, factor in enumerate(factors)
    ]
    best = _best(lists, exp.column(_PRODUCTS), [exp.Literal.string(name) for name in classes])
    return let(lists, _PRODUCTS, lists.of(products), best)


def _past_threshold(lists: Lists, classes: Sequence[str], number: int, least: float) -> exp.Expr:
    """Return one class where it is probable enough, else the best of the others."""
    enough = exp.GTE(this=paren(_share(lists, number, len(classes))), expression=double(least))
    others = [other for other in range(len(classes)) if other != number]
    scores = lists.of([lists.at(exp.column(SCORES), int_literal(other + 1)) for other in others])
    best = _best(lists, scores, [exp.Literal.string(classes[other]) for other in others])
    return case([(enough, exp.Literal.string(classes[number]))], best)


def _with_weights(query: exp.Select, lookups: Lookups, nat: int) -> exp.Select:
    """Add the weights of the classes, and their sum in the order of classes: equal to the last bit to Python's sum."""
    lists = lookups.lists
    each = lists.each(exp.column(SCORES), _SCORE, power(exp.column(_SCORE), exp.column(_HIGHEST), nat))
    weights = let(lists, _HIGHEST, lists.largest(exp.column(SCORES)), each)
    query = query.with_(_WEIGHED, exp.select(name_as(weights, WEIGHTS), "*").from_(_SCORED), copy=False)
    total = lists.at(exp.column(WEIGHTS), int_literal(1))
    for place in range(2, lookups.classes + 1):
        total = exp.Add(this=total, expression=lists.at(exp.column(WEIGHTS), int_literal(place)))
    return query.with_(_SUMMED, exp.select(name_as(total, TOTAL), "*").from_(_WEIGHED), copy=False)


def _share(lists: Lists, number: int, classes: int) -> exp.Expr:
    """Return a class's probability; it is 1 / `classes` where no class has any weight."""
    weight = as_real(lists.at(exp.column(WEIGHTS), int_literal(number + 1)))
    part = exp.Div(this=weight, expression=as_real(exp.column(TOTAL)))
    has_weight = exp.GT(this=exp.column(TOTAL), expression=int_literal(0))
    return case([(has_weight, part)], exp.Div(this=double(1), expression=double(classes)))
