"""Private rows scored by a released forest and counted on a public grid, in one statement.

    WITH numbered AS (the rows that count), packed AS (each with a number), … scores, totals (probabilities),
         told AS (true class, named class, probabilities),
         placed AS (for each histogram the row's cell in it)
    SELECT ask, cell, COUNT(*) AS rows FROM placed GROUP BY ask, cell

One scan of the private table. A row is in one cell of each histogram of `trees/score_grid.py`, which follows from that
row, its unit's ticket and the released forest alone.
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
from dpsql.compile.predict.probabilities import TOTALS, best_class, share, share_of, with_totals
from dpsql.compile.predict.votes import ROW, Parts, scored
from dpsql.compile.rows import PACKED, WHOLE, Part, Source, Tickets, packed, word_name
from dpsql.compile.vocabulary import Vocabulary, as_int, double, paren, whole
from dpsql.trees.grid import words
from dpsql.trees.score_grid import BRIER_SCORES, LEAST, LOG_LOSSES, LOWER, POINTS, UPPER, ScoreGrid
from dpsql.trees.voting import VotingForest

NUMBERED = "numbered"
ASKED = "asked"
_TOLD = "told"
#: How fine the chance is by which a row between two points counts at one of them.
CHANCES = 2**20


def score_counts(
    source: Source,
    released: VotingForest,
    grid: ScoreGrid,
    vocabulary: Vocabulary,
    tickets: Tickets,
    part: Part = WHOLE,
) -> Statement:
    """Return the statement that counts (ask, cell): which histogram of the grid, and which cell of it."""
    forest, classes = released.forest, grid.classes
    query = exp.Select().with_(NUMBERED, packed(source, vocabulary, tickets, part), copy=False)
    names = [word_name(number) for number in range(words(len(forest.axes)))]
    own = [exp.alias_(exp.column("class"), "truth"), exp.alias_(_chance(), "chance")]
    rows = exp.select(exp.alias_(vocabulary.row_number(), ROW), *own, *names).from_(NUMBERED)
    query = query.with_(PACKED, rows, materialized=True, copy=False)
    parts = Parts({}, exp.to_table(LEAVES), exp.to_table(ROOTS), complete=True)
    query = scored(query, forest, parts, vocabulary, carried=(ROW,))
    kept = True if vocabulary.row_by_row else None
    query = with_totals(query, classes, released.nat, key=ROW, once=kept)
    query = query.with_(_TOLD, _told(classes), copy=False)
    placed = exp.select(exp.column("ask", ASKED), exp.alias_(_cell(grid), "cell")).from_(_TOLD)
    query = query.with_("placed", placed.join(ASKED, join_type="cross"), copy=False)
    keys = [exp.column("ask"), exp.column("cell")]
    query = query.select(*keys, exp.alias_(exp.Count(this=exp.Star()), "rows", copy=False), copy=False)
    query = query.from_(exp.to_table("placed"), copy=False).group_by(*(key.copy() for key in keys), copy=False)
    tables: dict[str, Any] = node_tables(forest, vocabulary)
    tables |= {ROOTS: root_table(forest.trees), LEAVES: leaf_table(released), ASKED: _asked(grid)}
    return Statement(query, tables)


def _told(classes: int) -> exp.Select:
    """Each row's true and named class, and what the histograms need of its probabilities."""
    predicted = best_class([whole(number) for number in range(classes)])
    truth = exp.column("truth", PACKED)
    query = exp.select(truth, exp.column("chance", PACKED), exp.alias_(predicted, "predicted"))
    if classes == 2:
        query = query.select(exp.alias_(share(1, classes), "second"))
    else:
        squares: exp.Expr = double(0)
        for number in range(classes):
            one = paren(share(number, classes))
            squares = exp.Add(this=squares, expression=exp.Mul(this=one, expression=one.copy()))
        held = {
            "confidence": share_of(predicted.copy(), classes),
            "held": share_of(truth.copy(), classes),
            "squares": squares,
        }
        query = query.select(*(exp.alias_(value, name) for name, value in held.items()))
    return query.from_(TOTALS).join(PACKED, on=exp.column(ROW, PACKED).eq(exp.column(ROW, TOTALS)))


def _cell(grid: ScoreGrid) -> exp.Expr:
    """Return the row's cell in the histogram that `ask` numbers."""
    truth, predicted = exp.column("truth"), exp.column("predicted")
    if grid.classes == 2:
        upper = predicted.copy().eq(whole(1))
        return as_int(_after(truth, len(POINTS), _two_sided(exp.column("second"), upper)))
    right = exp.case().when(truth.eq(predicted), whole(1)).else_(whole(0))
    confidence = exp.column("confidence")
    likely = exp.GTE(this=confidence.copy(), expression=double(0.5))
    floored = exp.Greatest(this=exp.column("held"), expressions=[double(LEAST)], ignore_nulls=True)
    missed = exp.Sub(this=double(1), expression=exp.Mul(this=double(2), expression=exp.column("held")))
    sure = _after(right, len(POINTS), _two_sided(confidence, likely))
    if grid.confidence_alone:
        return as_int(sure)
    cells = [
        _after(truth, grid.classes, predicted),
        sure,
        _place(exp.Neg(this=exp.Ln(this=floored)), LOG_LOSSES),
        _place(paren(exp.Add(this=missed, expression=exp.column("squares"))), BRIER_SCORES),
    ]
    case = exp.Case(this=exp.column("ask", ASKED))
    for ask, cell in enumerate(cells[:-1]):
        case = case.when(whole(ask), cell)
    return as_int(case.else_(cells[-1]))


def _after(first: exp.Expr, size: int, second: exp.Expr) -> exp.Expr:
    return exp.Add(this=exp.Mul(this=first.copy(), expression=whole(size)), expression=second.copy())


def _two_sided(share: exp.Expr, upper: exp.Expr) -> exp.Expr:
    """Return the point of a probability in the half that a test says: one half exactly may be in either."""
    above = exp.Add(this=whole(len(LOWER)), expression=paren(_place(share.copy(), UPPER)))
    return paren(exp.case().when(upper, above).else_(_place(share.copy(), LOWER)))


def _place(value: exp.Expr, points: Sequence[float]) -> exp.Expr:
    """Return the number of one of the two points around a value: of the nearer one more often, right on average."""
    case = exp.Case()
    for number, (point, following) in enumerate(pairwise(points)):
        width = exp.Mul(this=exp.column("chance"), expression=double(round(following - point, 9)))
        edge = exp.Add(this=double(point), expression=width)
        case = case.when(exp.LT(this=value.copy(), expression=paren(edge)), whole(number))
    return case.else_(whole(len(points) - 1))


def _chance() -> exp.Expr:
    """Return a number from 0 to 1 that a row's unit draws under the session's secret keys."""
    drawn = exp.Mod(this=exp.column("ticket"), expression=whole(CHANCES))
    return exp.Div(this=exp.cast(paren(drawn), exp.DataType.Type.DOUBLE), expression=double(CHANCES))


def _asked(grid: ScoreGrid) -> dict[str, np.ndarray[Any, Any]]:
    return {"ask": np.arange(len(grid.histograms), dtype=np.int32)}
