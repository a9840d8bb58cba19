"""Reduces a scored public table to counts and sums in one statement: all that the figures of an evaluation need.

    WITH scored(truth, predicted, p_0, p_1, …) AS (the scoring query), measured AS (class numbers instead of labels)
    SELECT 'confusion', truth, predicted, rows, sum of log losses, sum of Brier scores … UNION ALL
    SELECT 'bin', bin, rows, sum of predicted probabilities, hits … UNION ALL
    SELECT 'ranks', class, rows, Mann–Whitney sum, rows of the class … UNION ALL
    SELECT 'ladder', class, step of its probability, rows, rows of the class …

This is for public rows alone; the kernel's own counts of private rows are in `compile/count/score_counts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.compile.vocabulary import Vocabulary, double, int_literal, paren
from dpsql.compile.word_text import Synonyms, word_text

COLUMNS = ("what", "one", "other", "rows", "first_sum", "second_sum")
_SCORED = "scored"
_MEASURED = "measured"


def evaluation_query(
    scored: exp.Select,
    classes: tuple[str, ...],
    vocabulary: Vocabulary,
    *,
    bins: int,
    least: float,
    ladders: Sequence[int] = (),
    steps: int = 1,
    slack: float = 0.0,
    synonyms: Synonyms = (),
) -> exp.Expr:
    """Return the statement over a scoring query that gives label, prediction and the probability of each class.

    `synonyms` are stored texts of labels that mean a class. `ladders` are the numbers of classes whose rows are counted
    on a grid of `steps` steps of their probability; `slack` is added before a step is rounded down.
    """
    parts = [_confusion(len(classes), least), _bins(len(classes), bins)]
    parts += [_ranks(number) for number in range(len(classes))]
    parts += [_ladder(number, steps, slack) for number in ladders]
    query: exp.Expr = parts[0]
    for part in parts[1:]:
        query = exp.union(query, part, distinct=False)
    names = ["truth", "predicted", *(_share(number) for number in range(len(classes)))]
    cte = exp.CTE(
        this=scored, alias=exp.TableAlias(this=exp.to_identifier(_SCORED), columns=[*map(exp.to_identifier, names)])
    )
    measured = exp.CTE(
        this=_measured_rows(classes, vocabulary, synonyms),
        alias=exp.TableAlias(this=exp.to_identifier(_MEASURED)),
        materialized=True,
    )
    query.set("with_", exp.With(expressions=[cte, measured]))
    return query


def _measured_rows(classes: tuple[str, ...], vocabulary: Vocabulary, synonyms: Synonyms) -> exp.Select:
    """Return each row's class numbers, all probabilities, that of the true class, and the sum of their squares."""
    text = exp.DataType.Type.TEXT
    truth = vocabulary.position(classes, word_text(exp.column("truth"), synonyms))
    predicted = vocabulary.position(classes, exp.cast(exp.column("predicted"), text))
    shares = [exp.column(_share(number)) for number in range(len(classes))]
    of_truth = exp.Case(this=truth.copy())
    squares: exp.Expr = double(0)
    for number, share in enumerate(shares):
        of_truth = of_truth.when(int_literal(number), share.copy())
        squares = exp.Add(this=squares, expression=exp.Mul(this=share.copy(), expression=share.copy()))
    columns = {"truth": truth, "predicted": predicted, "held": of_truth, "squares": squares}
    query = exp.select(*(exp.alias_(value, name) for name, value in columns.items()), *shares).from_(_SCORED)
    return query.where(truth.copy().is_(exp.null()).not_())


def _confusion(classes: int, least: float) -> exp.Select:
    of_truth, squares = exp.column("held"), exp.column("squares")
    surprise = exp.Neg(this=exp.Ln(this=exp.func("GREATEST", of_truth, double(least))))
    missed = exp.Sub(this=double(1), expression=exp.Mul(this=double(2), expression=of_truth.copy()))
    loss = exp.Mul(this=paren(exp.Add(this=missed, expression=squares)), expression=double(0.5 if classes == 2 else 1))
    query = _grouped_part("confusion", exp.column("truth"), exp.column("predicted"), surprise, loss)
    return query.from_(_MEASURED).group_by("truth", "predicted")


def _bins(classes: int, bins: int) -> exp.Select:
    """Return the bins of the second class's probability, or of the predicted class's where there are more than two."""
    if classes == 2:
        score: exp.Expr = exp.column(_share(1))
        hit: exp.Expr = exp.column("truth").eq(int_literal(1))
    else:
        score = exp.func("GREATEST", *(exp.column(_share(number)) for number in range(classes)))
        hit = exp.column("truth").eq(exp.column("predicted"))
    floor = exp.Floor(this=exp.Mul(this=score.copy(), expression=double(bins)))
    place = exp.cast(exp.func("LEAST", floor, double(bins - 1)), exp.DataType.Type.INT)
    each = exp.select(exp.alias_(place, "bin"), exp.alias_(score, "score"), exp.alias_(_flag(hit), "hit"))
    each = each.from_(_MEASURED)
    query = _grouped_part("bin", exp.column("bin"), int_literal(0), exp.column("score"), exp.column("hit"))
    return query.from_(each.subquery("binned")).group_by("bin")


def _ranks(number: int) -> exp.Select:
    """Return how many pairs of a row of the class and a row of another class are in the right order; ties count half.

    In the right order the row of the class has the higher probability of it. The number is exact: it is added up over
    the distinct probabilities.
    """
    hit = _flag(exp.column("truth").eq(int_literal(number)))
    miss = _flag(exp.column("truth").neq(int_literal(number)))
    values = exp.select(
        exp.alias_(exp.column(_share(number)), "score"),
        exp.alias_(exp.Sum(this=hit), "positives"),
        exp.alias_(exp.Sum(this=miss), "negatives"),
    )
    values = values.from_(_MEASURED).group_by(_share(number))
    running = exp.Window(
        this=exp.Sum(this=exp.column("negatives")),
        order=exp.Order(expressions=[exp.Ordered(this=exp.column("score"))]),
    )
    half = exp.Div(this=exp.column("negatives"), expression=double(2))
    below = paren(exp.Sub(this=running, expression=half))
    pairs = exp.Mul(this=exp.column("positives"), expression=below)
    counts = [exp.column(name) for name in ("positives", "negatives")]
    each = exp.select(exp.alias_(pairs, "pairs"), *counts).from_(values.subquery("distinct_scores"))
    total = exp.Sum(this=exp.Add(this=counts[0].copy(), expression=counts[1].copy()))
    values_of_class = [exp.Literal.string("ranks"), int_literal(number), int_literal(0), _as_bigint(_or_zero(total))]
    values_of_class += [_or_zero(exp.Sum(this=exp.column(name))) for name in ("pairs", "positives")]
    return _select_named(values_of_class).from_(each.subquery("ranked"))


def _ladder(number: int, steps: int, slack: float) -> exp.Select:
    """Return how many rows have a probability of a class from each step to the next, and how many are of the class."""
    scaled = exp.Mul(this=exp.column(_share(number)), expression=double(steps))
    floor = exp.Floor(this=exp.Add(this=scaled, expression=double(slack)))
    place = exp.cast(exp.func("LEAST", floor, double(steps)), exp.DataType.Type.INT)
    hit = _flag(exp.column("truth").eq(int_literal(number)))
    each = exp.select(exp.alias_(place, "step"), exp.alias_(hit, "hit")).from_(_MEASURED)
    query = _grouped_part("ladder", int_literal(number), exp.column("step"), exp.column("hit"), double(0))
    return query.from_(each.subquery("stepped")).group_by("step")


def _grouped_part(
    what: str, first_key: exp.Expr, second_key: exp.Expr, first: exp.Expr, second: exp.Expr
) -> exp.Select:
    sums = [exp.Sum(this=value) for value in (first, second)]
    return _select_named([exp.Literal.string(what), first_key, second_key, exp.Count(this=exp.Star()), *sums])


def _select_named(values: list[exp.Expr]) -> exp.Select:
    return exp.select(*(exp.alias_(value, name) for value, name in zip(values, COLUMNS, strict=True)))


def _flag(test: exp.Expr) -> exp.Expr:
    return exp.case().when(test, double(1)).else_(double(0))


def _or_zero(value: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=value, expressions=[double(0)])


def _as_bigint(value: exp.Expr) -> exp.Expr:
    return exp.cast(value, exp.DataType.Type.BIGINT)


def _share(number: int) -> str:
    return f"p_{number}"
