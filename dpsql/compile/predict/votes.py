"""Predicts in SQL: every row walks every tree, its leaves' weights are added up, and the heaviest class is named.

    WITH numbered AS (the rows to score), packed AS (their words), start AS (each at every root),
         depth_1 …, scores AS (SUM(weight) by row and class), winner AS (the best class of each row)
    SELECT …, CASE class WHEN 0 THEN '<=50K' … END FROM numbered JOIN winner

The same CTEs make a SELECT, a view, a table macro, and a scalar macro. All numbers are whole and ties go to the
first class, so Python gives the same label for every input. Where the label is a numeric target, the votes are for its
two bounds, and the prediction is lower + width · (votes for the upper bound / all votes), with one division of whole
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from dpsql.compile.count.leaves import ROOTS, START
from dpsql.compile.count.levels import walk
from dpsql.compile.predict import row_votes
from dpsql.compile.predict.lookups import Lookups
from dpsql.compile.predict.probabilities import (
    TOTALS,
    best_class,
    class_share,
    heaviest_class,
    number_of_target,
    with_totals,
)
from dpsql.compile.rows import PACKED, Source, packed_words
from dpsql.compile.vocabulary import Vocabulary, column, double, int_literal, paren
from dpsql.schema import Schema
from dpsql.trees.estimate.decisions import ClassWeights, Decision
from dpsql.trees.forest import Forest
from dpsql.trees.serialize import PLANES, one_vote_each
from dpsql.trees.voting import VotingForest

#: The column of row numbers.
ROW = "dpsql_row"
#: Columns that the statements add to a table's own while they score it.
OWN_COLUMNS = (ROW, *row_votes.OWN_COLUMNS)
#: The CTE of the rows to score, each with a number.
NUMBERED = "numbered"
#: The CTE of each row's score for each class.
SCORES = "scores"
#: The CTE of each row's best class.
WINNER = "winner"
#: The alias of the relation of leaves.
_LEAVES = "vote"


@dataclass(frozen=True, eq=False)
class Parts:
    """Where a model's numbers are: one relation per level, one for the leaves, one with a row for each tree.

    `complete` says that the leaves have a row for every class, zeros included. `splits` has the nodes of all levels.
    """

    nodes: Mapping[int, exp.Expr]
    leaves: exp.Expr
    roots: exp.Expr
    complete: bool = False
    splits: exp.Expr | None = None


def stored_parts(model_id: int, released: VotingForest) -> Parts:
    """Return the parts of a model that lies in `dpsql.model_node` and `dpsql.model_leaf`."""
    forest = released.forest
    nodes = {
        level: _stored_relation(
            "model_node", model_id, ("node", "word", "shift", "child", *_planes(forest, level)), level=level
        )
        for level in range(forest.depth)
    }
    roots = (
        _stored_relation("model_node", model_id, ("node",), level=0)
        if forest.depth
        else _stored_relation("model_leaf", model_id, ("leaf",), renamed={"leaf": "node"}, distinct=True)
    )
    leaves = _stored_relation("model_leaf", model_id, ("leaf", "class", "weight"))
    planes = [f"plane_{plane}" for plane in range(PLANES)]
    splits = _stored_relation("model_node", model_id, ("level", "node", "word", "shift", "child", *planes))
    return Parts(nodes, leaves, roots, complete=not one_vote_each(released), splits=splits)


def predictions(
    source: Source,
    forest: Forest,
    parts: Parts,
    vocabulary: Vocabulary,
    *,
    keys: Sequence[str] | None,
    result: str,
    nat: int = 0,
    probabilities: bool = False,
    decision: Decision | None = None,
    ordered: bool = False,
    relation: exp.Expr | None = None,
) -> exp.Select:
    """Return the query that gives each row's `keys` (all its columns when None) and its predicted label.

    With `probabilities` each class's probability follows, as `p_<class>`; `nat` says what scores mean. A `decision`
    says how the label follows from probabilities. `ordered` keeps the table's own order; `relation`
    replaces the table (a table macro's argument).
    """
    if vocabulary.lists is not None:
        looked_up = _lookups(source, forest, parts, vocabulary, shares=probabilities or decision is not None, nat=nat)
        return row_votes.row_predictions(
            source,
            looked_up,
            vocabulary,
            row=ROW,
            keys=keys,
            result=result,
            nat=nat,
            probabilities=probabilities,
            decision=decision,
            ordered=ordered,
            relation=relation,
        )
    read = exp.select(exp.alias_(vocabulary.row_number(), ROW), "*").from_(
        relation if relation is not None else source.table.copy()
    )
    query = exp.Select().with_(NUMBERED, read, materialized=True)
    words = packed_words(source, vocabulary)
    # A database that takes rows one at a time would otherwise compute a CTE's expressions wherever they are named.
    materialized = True if vocabulary.row_by_row else None
    query = query.with_(PACKED, exp.select(exp.column(ROW), *words).from_(NUMBERED), materialized=materialized)
    query = with_scores(query, forest, parts, vocabulary, carried=(ROW,))
    schema = source.schema
    query = query.with_(WINNER, winner(schema, (ROW,)))
    if probabilities or decision is not None:
        query = with_totals(query, len(schema.classes), nat, key=ROW, once=materialized)
    label = _label(schema) if decision is None else _decided_label(schema, decision)
    all_columns = [exp.Column(this=exp.Star(except_=[exp.to_identifier(ROW)]), table=exp.to_identifier(NUMBERED))]
    columns = all_columns if keys is None else [column(key, NUMBERED) for key in keys]
    query = query.select(*columns, exp.alias_(label, result, quoted=True))
    query = query.from_(NUMBERED).join(WINNER, on=exp.column(ROW, WINNER).eq(exp.column(ROW, NUMBERED)))
    if probabilities or decision is not None:
        query = query.join(TOTALS, on=exp.column(ROW, TOTALS).eq(exp.column(ROW, NUMBERED)))
    if probabilities:
        query = _with_shares(query, schema)
    return query.order_by(exp.column(ROW, NUMBERED)) if ordered else query


def scalar_prediction(source: Source, forest: Forest, parts: Parts, vocabulary: Vocabulary) -> exp.Expr:
    """Return the label of one row as an expression over its feature columns: the body of a scalar macro."""
    if vocabulary.lists is not None:
        return row_votes.row_scalar(source, _lookups(source, forest, parts, vocabulary), vocabulary)
    roots = exp.alias_(parts.roots.copy(), ROOTS, table=True)
    start = exp.select(exp.column("node", ROOTS), *packed_words(source, vocabulary)).from_(roots)
    query = exp.Select().with_(START, start, materialized=True if vocabulary.row_by_row else None)
    query, last = walk(query, forest, vocabulary, start=START, carried=(), nodes=parts.nodes)
    query = query.with_(SCORES, _scores(parts, last, ()))
    query = query.with_(WINNER, winner(source.schema, ()))
    return query.select(_label(source.schema)).from_(WINNER).subquery()


def _lookups(
    source: Source, forest: Forest, parts: Parts, vocabulary: Vocabulary, *, shares: bool = False, nat: int = 0
) -> Lookups:
    assert vocabulary.lists is not None
    assert parts.splits is not None
    count, target = source.schema.leaf_values, source.schema.target is not None
    difference = row_votes.looks_at_difference(count, target=target, shares=shares, nat=nat)
    return Lookups(forest, parts.splits, parts.leaves, vocabulary.lists, count, difference, parts.complete)


def with_scores(
    query: exp.Select, forest: Forest, parts: Parts, vocabulary: Vocabulary, *, carried: Sequence[str]
) -> exp.Select:
    """Return the query with CTEs that take the packed rows through every tree and add up their leaves' weights.

    Where every leaf has a weight for every class, leading trees that end early are walked apart, only to their ends.
    """
    leading, ends = forest.trees_ending_early if parts.complete else (0, 0)
    if not leading:
        return _with_walk_scores(query, forest, parts, vocabulary, carried, None, "")
    short = Forest(forest.axes, forest.trees, forest.levels[:ends])
    root = exp.column("node", ROOTS)
    query = _with_walk_scores(
        query, short, parts, vocabulary, carried, exp.LT(this=root, expression=int_literal(leading)), "_short"
    )
    query = _with_walk_scores(
        query, forest, parts, vocabulary, carried, exp.GTE(this=root.copy(), expression=int_literal(leading)), "_long"
    )
    keys, short_scores, long_scores = [*carried, "class"], f"{SCORES}_short", f"{SCORES}_long"
    total = exp.Add(this=exp.column("score", short_scores), expression=exp.column("score", long_scores))
    both = exp.select(*(exp.column(key, short_scores) for key in keys), exp.alias_(total, "score")).from_(short_scores)
    same = [exp.column(key, short_scores).eq(exp.column(key, long_scores)) for key in keys]
    return query.with_(SCORES, both.join(long_scores, on=exp.and_(*same)), copy=False)


def _with_walk_scores(
    query: exp.Select,
    forest: Forest,
    parts: Parts,
    vocabulary: Vocabulary,
    carried: Sequence[str],
    test: exp.Expr | None,
    suffix: str,
) -> exp.Select:
    """Add CTEs that walk the trees whose roots pass a test and add up the weights, as `scores` with a suffix."""
    roots = exp.alias_(parts.roots.copy(), ROOTS, table=True)
    start = exp.select(exp.column("node", ROOTS), exp.column(exp.Star(), PACKED)).from_(PACKED)
    start = start.join(roots, join_type="cross")
    start_name = f"{START}{suffix}"
    query = query.with_(start_name, start if test is None else start.where(test), copy=False)
    query, last = walk(query, forest, vocabulary, start=start_name, carried=carried, nodes=parts.nodes, suffix=suffix)
    return query.with_(f"{SCORES}{suffix}", _scores(parts, last, carried), copy=False)


def _scores(parts: Parts, last: str, carried: Sequence[str]) -> exp.Select:
    keys = [exp.column(name, last) for name in carried] + [exp.column("class", _LEAVES)]
    total = exp.cast(exp.Sum(this=exp.column("weight", _LEAVES)), exp.DataType.Type.BIGINT)
    return (
        exp.select(*keys, exp.alias_(total, "score"))
        .from_(last)
        .join(
            exp.alias_(parts.leaves.copy(), _LEAVES, table=True),
            on=exp.column("leaf", _LEAVES).eq(exp.column("node", last)),
        )
        .group_by(*(key.copy() for key in keys))
    )


def winner(schema: Schema, carried: Sequence[str]) -> exp.Select:
    """Return the highest score, and the first class that has it, as one whole number: score·C + (C − 1 − class).

    For a numeric target, return the votes for the upper bound (class 1), and all votes.
    """
    names = [exp.column(name) for name in carried]
    columns = _target_votes() if schema.target is not None else [_best_rank(len(schema.classes))]
    query = exp.select(*names, *columns).from_(SCORES)
    return query.group_by(*(name.copy() for name in names)) if names else query


def _target_votes() -> list[exp.Expr]:
    upper = exp.case().when(exp.column("class").eq(int_literal(1)), exp.column("score")).else_(int_literal(0))
    sums = {"best": exp.Sum(this=upper), "score": exp.Sum(this=exp.column("score"))}
    return [exp.alias_(exp.cast(total, exp.DataType.Type.BIGINT), name) for name, total in sums.items()]


def _best_rank(classes: int) -> exp.Expr:
    return exp.alias_(exp.Max(this=rank_of_class(exp.column("score"), classes)), "best")


def rank_of_class(score: exp.Expr, classes: int) -> exp.Expr:
    """Return score and class as one number whose largest wins: among equal scores the first class is ahead."""
    return exp.Add(
        this=exp.Mul(this=score, expression=int_literal(classes)),
        expression=paren(exp.Sub(this=int_literal(classes - 1), expression=exp.column("class"))),
    )


def _label(schema: Schema) -> exp.Expr:
    if schema.target is not None:
        return number_of_target(schema.target, exp.column("best", WINNER), exp.column("score", WINNER))
    case = exp.Case(this=class_of_rank(len(schema.classes)))
    for position, name in enumerate(schema.classes[:-1]):
        case = case.when(int_literal(position), exp.Literal.string(name))
    return case.else_(exp.Literal.string(schema.classes[-1]))


def class_of_rank(count: int, rank: str = "best") -> exp.Expr:
    """Return the number of the class of a winner's rank: the remainder is taken twice, as ranks may be negative."""
    once = paren(exp.Mod(this=exp.column(rank, WINNER), expression=int_literal(count)))
    rest = exp.Mod(this=paren(exp.Add(this=once, expression=int_literal(count))), expression=int_literal(count))
    return exp.Sub(this=int_literal(count - 1), expression=paren(rest))


def _with_shares(query: exp.Select, schema: Schema) -> exp.Select:
    """Add each class's probability, as `p_<class>`."""
    for number, name in enumerate(schema.classes):
        query = query.select(exp.alias_(class_share(number, len(schema.classes)), f"p_{name}", quoted=True))
    return query


def _decided_label(schema: Schema, decision: Decision) -> exp.Expr:
    """Return the class that a decision names: one that is probable enough, or the one that weighs the most."""
    names: list[exp.Expr] = [exp.Literal.string(name) for name in schema.classes]
    if isinstance(decision, ClassWeights):
        return heaviest_class(names, decision.weights)
    number = decision.number
    enough = exp.GTE(this=paren(class_share(number, len(names))), expression=double(decision.least))
    return exp.case().when(enough, names[number].copy()).else_(best_class(names, without=number))


def _planes(forest: Forest, level: int) -> list[str]:
    return [f"plane_{plane}" for plane in range(len(forest.levels[level].planes))]


def _stored_relation(
    name: str,
    model_id: int,
    columns: Sequence[str],
    *,
    level: int | None = None,
    renamed: Mapping[str, str] | None = None,
    distinct: bool = False,
) -> exp.Expr:
    selected = [exp.alias_(exp.column(name_of), (renamed or {}).get(name_of, name_of)) for name_of in columns]
    query = exp.select(*selected).from_(exp.table_(name, db="dpsql", quoted=True))
    query = query.where(exp.column("model_id").eq(int_literal(model_id)))
    if level is not None:
        query = query.where(exp.column("level").eq(int_literal(level)))
    return (query.distinct() if distinct else query).subquery()
