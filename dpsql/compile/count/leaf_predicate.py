"""Turns the path to a leaf into WHERE: the readable form, and the oracle for tests of the one-statement form.

    SELECT "income", COUNT(*) FROM "adult"
    WHERE "age" < 39.8 AND "sex" = 'Male' GROUP BY "income"

The predicates are total: every row, also one with NULL, NaN, infinities or unknown values, satisfies the predicate of
exactly one leaf of a tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.compile.count.tree_slice import Slice
from dpsql.compile.hashed_cells import hash_category, hashed_condition
from dpsql.compile.rows import Source, known_label, label_text, target_steps
from dpsql.compile.stored_parts import in_tree
from dpsql.compile.vocabulary import Vocabulary, double, int_literal, paren
from dpsql.compile.word_text import word_text
from dpsql.schema import CELLS, Categorical, Dated, Feature, Hashed, Numeric
from dpsql.trees.forest import Forest
from dpsql.trees.grid import BITS

Flags = NDArray[np.bool_]


def leaf_predicate(source: Source, forest: Forest, leaf: int, vocabulary: Vocabulary) -> exp.Expr:
    """Return the condition that a row reaches this leaf in this leaf's tree."""
    allowed: dict[int, Flags] = {}
    for axis, taken in forest.path(leaf):
        allowed[axis] = taken & allowed.get(axis, np.ones(CELLS, bool))
    conditions = []
    for position in sorted({forest.axes[axis].feature for axis in allowed}):
        feature = source.schema.features[position]
        cells = feature_cells_allowed(forest, position, feature, allowed)
        conditions.append(feature_condition(feature, source, cells, vocabulary))
    return exp.and_(*conditions) if conditions else exp.true()


def tree_predicate(source: Source, trees: Slice, tree: int, ticket: exp.Expr | None) -> exp.Expr | None:
    """Return the condition that a row is in a tree: `part = 3` where the schema names a column that says the part.

    Otherwise the row's ticket decides, if it is given. None where every row is in every tree, or nothing is known.
    """
    if trees.shared or trees.total == 1:
        return None
    if trees.parts is not None and source.schema.partition is not None:
        return in_tree(source.column(source.schema.partition), trees.parts, trees.total, tree)
    if ticket is None:
        return None
    remainder = paren(exp.Mod(this=ticket, expression=int_literal(trees.total)))
    return exp.EQ(this=remainder, expression=int_literal(tree))


def leaf_query(
    source: Source, forest: Forest, leaf: int, vocabulary: Vocabulary, trees: Slice | None = None
) -> exp.Select:
    """Return the readable query of one leaf: `SELECT label, COUNT(*) … WHERE path AND part = 3 GROUP BY label`.

    Without a column that says the part, the test on it is left out. With a numeric target:
    `SELECT COUNT(*), SUM(steps) … WHERE path`.
    """
    label, rows = source.column(source.schema.label), exp.Count(this=exp.Star()).as_("rows")
    query = exp.Select().from_(source.table.copy())
    if source.where is not None:
        query = query.where(source.where.copy())
    path = leaf_predicate(source, forest, leaf, vocabulary)
    by_tree = None if trees is None else tree_predicate(source, trees, int(forest.leaf_tree[leaf]), None)
    for test in (path, by_tree):
        if test is not None and test != exp.true():
            query = query.where(test)
    if source.schema.target is not None:
        number = source.number(source.schema.label, vocabulary)
        total = exp.Sum(this=target_steps(source.schema.target, number, vocabulary))
        return query.select(rows, total.as_("steps")).where(known_label(source, vocabulary))
    if source.schema.class_synonyms:
        label = label_text(source)
        query = query.select(exp.alias_(label, source.schema.label, quoted=True), rows)
    else:
        query = query.select(label, rows)
    has_class = _one_of(label_text(source), source.schema.classes, negated=False)
    return query.where(has_class).group_by(label.copy())


def feature_cells_allowed(forest: Forest, position: int, feature: Feature, allowed: dict[int, Flags]) -> Flags:
    """Return which of a feature's cells all tests on its axes let through."""
    cells = np.arange(feature.cells)
    keep = np.ones(feature.cells, bool)
    for axis, taken in allowed.items():
        if forest.axes[axis].feature == position:
            keep &= taken[cells >> (BITS * forest.axes[axis].digit) & (CELLS - 1)]
    return keep


def feature_condition(feature: Feature, source: Source, cells: Flags, vocabulary: Vocabulary) -> exp.Expr:
    """Return the condition that a row's value of a feature falls into one of the marked cells."""
    if isinstance(feature, Dated):
        condition = _numeric_condition(feature, source, cells, vocabulary)
        if _moment_range(feature, source, (0, 0), vocabulary) is None:
            condition.add_comments([_dates(feature, run) for run in _runs(cells)])
        return condition
    if isinstance(feature, Numeric):
        return _numeric_condition(feature, source, cells, vocabulary)
    if isinstance(feature, Hashed) and feature.listed:
        return _category_condition(*hash_category(feature, source.column(feature.name), vocabulary), cells)
    if isinstance(feature, Hashed):
        return hashed_condition(feature, source.column(feature.name), cells, vocabulary)
    return _category_condition(feature, source.column(feature.name), cells)


def _numeric_condition(feature: Numeric, source: Source, cells: Flags, vocabulary: Vocabulary) -> exp.Expr:
    runs = _runs(cells)
    if runs == [(0, feature.cells - 1)]:
        return exp.true()
    value, number = source.column(feature.name), source.number(feature.name, vocabulary)
    integer, dated = feature.name in source.integers, isinstance(feature, Dated)
    one_by_one = vocabulary.row_by_row is not None
    compared = number if dated or (one_by_one and not integer) else value
    ranges = [_range(feature, compared, run, rounded=one_by_one and integer) for run in runs]
    if isinstance(feature, Dated):
        ranges = [
            _moment_range(feature, source, run, vocabulary) or numbers
            for run, numbers in zip(runs, ranges, strict=True)
        ]
    missing: list[exp.Expr] = [value.copy().is_(exp.null())]
    never_nan = source.never_nan(feature)
    if not never_nan:
        missing.append(vocabulary.is_nan(number))
    if bool(cells[feature.null_cell]):
        return paren(exp.or_(*ranges, *missing))
    inside = exp.or_(*ranges) if ranges else exp.false()
    if not never_nan and runs and runs[-1][1] == feature.cells - 1:
        return exp.and_(inside, exp.not_(missing[1]))
    return paren(inside) if len(ranges) > 1 else inside


def _moment_range(feature: Dated, source: Source, run: tuple[int, int], vocabulary: Vocabulary) -> exp.Expr | None:
    """Return that a date or timestamp lies in a range of cells, by literals of its column's own type, or None.

    A column of dates reaches an edge on the first day that begins at or after it.
    """
    kind = source.types.get(feature.name)
    if kind is None:
        return None
    tests: list[exp.Expr] = []
    for test, edge in ((exp.GTE, run[0]), (exp.LT, run[1] + 1)):
        if 0 < edge < feature.cells:
            at_midnight = kind.lower() == "date"
            literal = vocabulary.moment(*feature.first_day_and_time(edge, at_midnight=at_midnight), kind)
            if literal is None:
                return None
            tests.append(test(this=source.column(feature.name), expression=literal))
    return exp.and_(*tests)


def _dates(feature: Dated, run: tuple[int, int]) -> str:
    """Return what a comment says of a range of cells: the dates that the numbers stand for."""
    from_day = f"{feature.edge_text(run[0])} <= " if run[0] > 0 else ""
    to_day = f" < {feature.edge_text(run[1] + 1)}" if run[1] < feature.cells - 1 else ""
    return f"{from_day}{feature.name}{to_day}"


def _range(feature: Numeric, value: exp.Expr, run: tuple[int, int], *, rounded: bool) -> exp.Expr:
    tests: list[exp.Expr] = []
    if run[0] > 0:
        tests.append(exp.GTE(this=value.copy(), expression=_edge(feature.edges[run[0] - 1], rounded=rounded)))
    if run[1] < feature.cells - 1:
        tests.append(exp.LT(this=value.copy(), expression=_edge(feature.edges[run[1]], rounded=rounded)))
    return exp.and_(*tests) if len(tests) > 1 else tests[0]


def _edge(edge: float, *, rounded: bool) -> exp.Expr:
    """Return an edge as a literal; with `rounded` it is rounded up, for comparing integers with an integer."""
    return int_literal(math.ceil(edge)) if rounded and abs(edge) < 2**53 else double(edge)


def _category_condition(feature: Categorical, value: exp.Expr, cells: Flags) -> exp.Expr:
    text = word_text(value.copy(), feature.synonyms)
    inside = [v for v, keep in zip(feature.values, cells, strict=False) if keep]
    outside = [v for v, keep in zip(feature.values, cells, strict=False) if not keep]
    null, unknown = bool(cells[feature.null_cell]), bool(cells[feature.unknown_cell])
    if unknown:
        test = _one_of(text, outside, negated=True) if outside else exp.Not(this=_is_null(value))
    else:
        test = _one_of(text, inside, negated=False) if inside else exp.false()
    if not null:
        return test
    if unknown and not outside:
        return exp.true()
    return paren(exp.Or(this=test, expression=_is_null(value)))


def _is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=value.copy(), expression=exp.Null())


def _one_of(text: exp.Expr, values: Sequence[str], *, negated: bool) -> exp.Expr:
    literals = [exp.Literal.string(value) for value in values]
    if len(literals) == 1:
        return (exp.NEQ if negated else exp.EQ)(this=text, expression=literals[0])
    test = exp.In(this=text, expressions=literals)
    return exp.Not(this=test) if negated else test


def _runs(cells: Flags) -> list[tuple[int, int]]:
    """Return the runs of consecutive marked cells as (first, last).

    >>> _runs(np.array([True, True, False, True]))
    [(0, 1), (3, 3)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate(([0], cells.astype(np.int8), [0]))))
    return [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]
