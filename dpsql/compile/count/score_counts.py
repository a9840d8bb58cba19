"""Scores private rows by a released forest and counts them on a public grid, in one statement.

    WITH numbered AS (the rows that count), packed AS (each with a number), … scores, totals (probabilities),
         told AS (true class, predicted class, probabilities),
         placed AS (for each histogram the row's cell in it)
    SELECT ask, cell, COUNT(*) AS rows FROM placed GROUP BY ask, cell

The private table is scanned once. A row is in one cell of each histogram of `trees/score_grid.py`, and which cell that
is depends on that row, its unit's ticket and the released forest alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.compile.count.leaves import ROOTS, Statement, root_table
from dpsql.compile.count.levels import node_tables
from dpsql.compile.count.pseudo_counts import LEAVES, leaf_table
from dpsql.compile.predict.probabilities import TOTALS, best_class, class_share, share_of, with_totals
from dpsql.compile.predict.votes import ROW, Parts, with_scores
from dpsql.compile.rows import EVERY_UNIT, PACKED, Part, Source, Tickets, pack_rows, word_name
from dpsql.compile.vocabulary import Vocabulary, as_int, double, int_literal, paren
from dpsql.trees.grid import words
from dpsql.trees.score_grid import BRIER_SCORES, LEAST_PROBABILITY, LOG_LOSSES, LOWER, POINTS, UPPER, ScoreGrid
from dpsql.trees.voting import VotingForest

NUMBERED = "numbered"
ASKS = "asked"
_SCORED_ROWS = "told"
#: How many values the random number has that decides at which of two neighbouring points a row counts.
CHANCES = 2**20


def score_counts(
    source: Source,
    released: VotingForest,
    grid: ScoreGrid,
    vocabulary: Vocabulary,
    tickets: Tickets,
    part: Part = EVERY_UNIT,
) -> Statement:
    """Return the statement that counts (ask, cell): which histogram of the grid, and which cell of it."""
    forest, classes = released.forest, grid.classes
    query = exp.Select().with_(NUMBERED, pack_rows(source, vocabulary, tickets, part), copy=False)
    names = [word_name(number) for number in range(words(len(forest.axes)))]
    own = [exp.alias_(exp.column("class"), "truth"), exp.alias_(_chance(), "chance")]
    rows = exp.select(exp.alias_(vocabulary.row_number(), ROW), *own, *names).from_(NUMBERED)
    query = query.with_(PACKED, rows, materialized=True, copy=False)
    parts = Parts({}, exp.to_table(LEAVES), exp.to_table(ROOTS), complete=True)
    query = with_scores(query, forest, parts, vocabulary, carried=(ROW,))
    materialized = True if vocabulary.row_by_row else None
    query = with_totals(query, classes, released.nat, key=ROW, once=materialized)
    query = query.with_(_SCORED_ROWS, _scored_rows(classes), copy=False)
    placed = exp.select(exp.column("ask", ASKS), exp.alias_(_cell(grid), "cell")).from_(_SCORED_ROWS)
    query = query.with_("placed", placed.join(ASKS, join_type="cross"), copy=False)
    keys = [exp.column("ask"), exp.column("cell")]
    query = query.select(*keys, exp.alias_(exp.Count(this=exp.Star()), "rows", copy=False), copy=False)
    query = query.from_(exp.to_table("placed"), copy=False).group_by(*(key.copy() for key in keys), copy=False)
    tables: dict[str, Any] = node_tables(forest, vocabulary)
    tables |= {ROOTS: root_table(forest.trees), LEAVES: leaf_table(released), ASKS: _ask_table(grid)}
    return Statement(query, tables)


def _scored_rows(classes: int) -> exp.Select:
    """Return each row's true and predicted class, and what the histograms need of its probabilities."""
    predicted = best_class([int_literal(number) for number in range(classes)])
    truth = exp.column("truth", PACKED)
    query = exp.select(truth, exp.column("chance", PACKED), exp.alias_(predicted, "predicted"))
    if classes == 2:
        query = query.select(exp.alias_(class_share(1, classes), "second"))
    else:
        squares: exp.Expr = double(0)
        for number in range(classes):
            probability = paren(class_share(number, classes))
            squares = exp.Add(this=squares, expression=exp.Mul(this=probability, expression=probability.copy()))
        columns = {
            "confidence": share_of(predicted.copy(), classes),
            "held": share_of(truth.copy(), classes),
            "squares": squares,
        }
        query = query.select(*(exp.alias_(value, name) for name, value in columns.items()))
    return query.from_(TOTALS).join(PACKED, on=exp.column(ROW, PACKED).eq(exp.column(ROW, TOTALS)))


def _cell(grid: ScoreGrid) -> exp.Expr:
    """Return the row's cell in the histogram that `ask` numbers."""
    truth, predicted = exp.column("truth"), exp.column("predicted")
    if grid.classes == 2:
        upper = predicted.copy().eq(int_literal(1))
        return as_int(_pair_number(truth, len(POINTS), _two_sided(exp.column("second"), upper)))
    right = exp.case().when(truth.eq(predicted), int_literal(1)).else_(int_literal(0))
    confidence = exp.column("confidence")
    likely = exp.GTE(this=confidence.copy(), expression=double(0.5))
    floored = exp.Greatest(this=exp.column("held"), expressions=[double(LEAST_PROBABILITY)], ignore_nulls=True)
    missed = exp.Sub(this=double(1), expression=exp.Mul(this=double(2), expression=exp.column("held")))
    sure = _pair_number(right, len(POINTS), _two_sided(confidence, likely))
    if grid.confidence_alone:
        return as_int(sure)
    cells = [
        _pair_number(truth, grid.classes, predicted),
        sure,
        _point_number(exp.Neg(this=exp.Ln(this=floored)), LOG_LOSSES),
        _point_number(paren(exp.Add(this=missed, expression=exp.column("squares"))), BRIER_SCORES),
    ]
    case = exp.Case(this=exp.column("ask", ASKS))
    for ask, cell in enumerate(cells[:-1]):
        case = case.when(int_literal(ask), cell)
    return as_int(case.else_(cells[-1]))


def _pair_number(first: exp.Expr, size: int, second: exp.Expr) -> exp.Expr:
    return exp.Add(this=exp.Mul(this=first.copy(), expression=int_literal(size)), expression=second.copy())


def _two_sided(share: exp.Expr, upper: exp.Expr) -> exp.Expr:
    """Return the point of a probability: one of the upper half where the test `upper` holds, else of the lower half.

    A probability of exactly 1/2 may be in either half.
    """
    above = exp.Add(this=int_literal(len(LOWER)), expression=paren(_point_number(share.copy(), UPPER)))
    return paren(exp.case().when(upper, above).else_(_point_number(share.copy(), LOWER)))


def _point_number(value: exp.Expr, points: Sequence[float]) -> exp.Expr:
    """Return the number of one of the two points around a value, by the row's random number.

    The nearer point is the likelier one, in such a proportion that the point equals the value on average.
    """
    case = exp.Case()
    for number, (point, following) in enumerate(pairwise(points)):
        width = exp.Mul(this=exp.column("chance"), expression=double(round(following - point, 9)))
        edge = exp.Add(this=double(point), expression=width)
        case = case.when(exp.LT(this=value.copy(), expression=paren(edge)), int_literal(number))
    return case.else_(int_literal(len(points) - 1))


def _chance() -> exp.Expr:
    """Return a number from 0 to 1 that depends on a row's unit and the session's secret keys alone."""
    remainder = exp.Mod(this=exp.column("ticket"), expression=int_literal(CHANCES))
    return exp.Div(this=exp.cast(paren(remainder), exp.DataType.Type.DOUBLE), expression=double(CHANCES))


def _ask_table(grid: ScoreGrid) -> dict[str, np.ndarray[Any, Any]]:
    return {"ask": np.arange(len(grid.histograms), dtype=np.int32)}
