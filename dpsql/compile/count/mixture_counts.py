"""Counts how many rows of each class each of several mixtures of a forest's trees labels right, in one scan.

    WITH packed AS (…), numbered AS (rows with a number), start, depth_1, …,
         scores AS (for each row and class, what each part of the trees says),
         winner AS (for each row the best class of each mixture)
    SELECT class, COUNT(CASE WHEN the best class of mixture 0 is the row's THEN 1 END) AS right_0, …
    FROM winner GROUP BY class

The parts are added up once; each mixture takes a few more multiplications, so that many mixtures cost little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.compile.count.leaves import ROOTS, START, Statement, root_table
from dpsql.compile.count.levels import node_tables, walk
from dpsql.compile.predict.votes import NUMBERED, ROW, SCORES, WINNER, class_of_rank, rank_of_class
from dpsql.compile.rows import PACKED, Part, Source, Tickets, pack_rows, word_name
from dpsql.compile.vocabulary import Vocabulary, int_literal, name_as, paren
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import Forest
from dpsql.trees.grid import words

LEAVES = "leaf_votes"
TRUTH = "truth"


def right_rows(source: Source, mixtures: Mixtures, vocabulary: Vocabulary, tickets: Tickets, part: Part) -> Statement:
    """Return the statement that counts the rows of each class which each mixture labels right, as `right_0`, …"""
    forest = mixtures.released.forest
    words_of_row = [word_name(number) for number in range(words(len(forest.axes)))]
    query = exp.Select().with_(PACKED, pack_rows(source, vocabulary, tickets, part), copy=False)
    label = exp.alias_(exp.column("class"), TRUTH)
    numbered = exp.select(exp.alias_(vocabulary.row_number(), ROW), label, *words_of_row).from_(PACKED)
    query = query.with_(NUMBERED, numbered, materialized=True, copy=False)
    query = _with_part_scores(query, mixtures, vocabulary)
    query = query.with_(WINNER, _winners(mixtures, len(source.schema.classes)), copy=False)
    key = exp.column("class")
    right = [_count_right(number, len(source.schema.classes)) for number in range(len(mixtures.factors))]
    tables = node_tables(forest, vocabulary) | {ROOTS: root_table(forest.trees), LEAVES: _leaf_table(mixtures)}
    query = query.select(key, *right, copy=False).from_(exp.to_table(WINNER), copy=False)
    return Statement(query.group_by(key.copy(), copy=False), tables)


def _with_part_scores(query: exp.Select, mixtures: Mixtures, vocabulary: Vocabulary) -> exp.Select:
    """Take the rows through all trees and add up what they say; trees that end early are walked no further."""
    forest = mixtures.released.forest
    leading, ends = forest.trees_ending_early
    if not leading:
        return _with_scores_of(query, forest, vocabulary, list(range(mixtures.factors.shape[1])), None, SCORES)
    first = int(forest.first_leaf[leading])
    shallow, deep = (np.unique(part).tolist() for part in np.split(mixtures.leaf_part, [first]))
    cut = Forest(forest.axes, forest.trees, forest.levels[:ends])
    query = _with_scores_of(
        query, cut, vocabulary, shallow, exp.LT(this=_root(), expression=int_literal(leading)), "shallow"
    )
    query = _with_scores_of(
        query, forest, vocabulary, deep, exp.GTE(this=_root(), expression=int_literal(leading)), "deep"
    )
    same = [exp.column(name, "deep").eq(exp.column(name, "shallow")) for name in (ROW, TRUTH, "class")]
    keys = [exp.column(name, "deep") for name in (ROW, TRUTH, "class")]
    sums = [name_as(_sum_of_both(part, shallow, deep), f"part_{part}") for part in range(mixtures.factors.shape[1])]
    both = exp.select(*keys, *sums).from_("deep").join("shallow", on=exp.and_(*same))
    return query.with_(SCORES, both, copy=False)


def _sum_of_both(part: int, shallow: Sequence[int], deep: Sequence[int]) -> exp.Expr:
    """Return the sum of one part over all trees: most parts have leaves in the shallow or in the deep trees alone."""
    terms = [
        exp.column(f"part_{part}", name) for name, parts in (("deep", deep), ("shallow", shallow)) if part in parts
    ]
    if not terms:
        return int_literal(0)
    return exp.Add(this=terms[0], expression=terms[1]) if len(terms) == 2 else terms[0]


def _root() -> exp.Column:
    return exp.column("node", ROOTS)


def _with_scores_of(
    query: exp.Select,
    forest: Forest,
    vocabulary: Vocabulary,
    parts: Sequence[int],
    test: exp.Expr | None,
    name: str,
) -> exp.Select:
    start = exp.select(_root(), exp.column(exp.Star(), NUMBERED)).from_(NUMBERED).join(ROOTS, join_type="cross")
    query = query.with_(f"{START}_{name}", start if test is None else start.where(test), copy=False)
    query, last = walk(query, forest, vocabulary, start=f"{START}_{name}", carried=(ROW, TRUTH), suffix=f"_{name}")
    return query.with_(name, _scores(last, parts), copy=False)


def right_name(number: int) -> str:
    """Return the name of the column that counts a mixture's right rows."""
    return f"right_{number}"


def _scores(last: str, parts: Sequence[int]) -> exp.Select:
    """Add up, for each row and class, what each part of the trees says."""
    keys = [exp.column(ROW, last), exp.column(TRUTH, last), exp.column("class", LEAVES)]
    sums = [
        exp.alias_(exp.cast(exp.Sum(this=exp.column(f"part_{part}", LEAVES)), exp.DataType.Type.BIGINT), f"part_{part}")
        for part in parts
    ]
    query = exp.select(*keys, *sums).from_(last)
    query = query.join(LEAVES, on=exp.column("leaf", LEAVES).eq(exp.column("node", last)))
    return query.group_by(*(key.copy() for key in keys))


def _winners(mixtures: Mixtures, classes: int) -> exp.Select:
    """Return the best class of each mixture beside the row's own, which is its `class` from here on."""
    keys = [exp.column(ROW), exp.column(TRUTH)]
    best = [
        exp.alias_(exp.Max(this=rank_of_class(_mixture_score(row), classes)), f"best_{number}")
        for number, row in enumerate(mixtures.factors.tolist())
    ]
    own = exp.alias_(exp.column(TRUTH), "class")
    query = exp.Select().select(exp.column(ROW), own, *best, copy=False).from_(exp.to_table(SCORES), copy=False)
    return query.group_by(*(key.copy() for key in keys), copy=False)


def _mixture_score(factors: list[int]) -> exp.Expr:
    total: exp.Expr = int_literal(0)
    for part, factor in enumerate(factors):
        if factor:
            total = exp.Add(
                this=total, expression=exp.Mul(this=exp.column(f"part_{part}"), expression=int_literal(factor))
            )
    return paren(total)


def _count_right(number: int, classes: int) -> exp.Expr:
    best = class_of_rank(classes, f"best_{number}")
    same = exp.EQ(this=paren(best), expression=exp.column("class"))
    return exp.alias_(exp.Count(this=exp.case().when(same, int_literal(1))), right_name(number))


def _leaf_table(mixtures: Mixtures) -> dict[str, np.ndarray[Any, Any]]:
    leaves, classes = mixtures.released.weights.shape
    part = np.repeat(mixtures.leaf_part, classes)
    weight = mixtures.released.weights.reshape(-1).astype(np.int64)
    table: dict[str, np.ndarray[Any, Any]] = {
        "leaf": np.repeat(np.arange(leaves, dtype=np.int32), classes),
        "class": np.tile(np.arange(classes, dtype=np.int32), leaves),
    }
    return table | {f"part_{n}": np.where(part == n, weight, 0) for n in range(mixtures.factors.shape[1])}
