"""Writes a forest as one nested CASE, for databases that take rows one at a time and compute only the branch taken.

    CASE node WHEN 0 THEN
        CASE WHEN age >= 40 THEN CASE WHEN sex = 'male' THEN 3 ELSE 2 END ELSE 1 END
    WHEN 1 THEN …

A row costs the tests on its own path and nothing else: no join, and no cells of features that no test reads.
(A database that works on whole columns computes every branch; there a join per level is many times faster.) The size of
the statement grows with the trees, so forests of more than `MOST_NODES` nodes take the joins of `levels.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.compile.count.leaf_predicate import feature_cells_allowed, feature_condition
from dpsql.compile.rows import Source, word_name
from dpsql.compile.stored_parts import PART
from dpsql.compile.vocabulary import Vocabulary, case, int_literal, paren
from dpsql.schema import CELLS, Dated, Feature, Numeric
from dpsql.trees import grid
from dpsql.trees.forest import PASS, Forest

#: The most nodes that one statement spells out.
MOST_NODES = 2**15
#: The most trees that one CASE tells apart, by one comparison after the other; more are told apart in two steps.
_TREES_PER_CASE = 16
#: A test that a row's cell of an axis is one of the marked ones.
Test = Callable[[int, NDArray[np.bool_]], exp.Expr]
_CELLS = np.arange(CELLS)


def is_nested(forest: Forest, vocabulary: Vocabulary) -> bool:
    """Whether a forest is walked by a nested CASE: the database takes rows one at a time, and the trees are small."""
    return vocabulary.row_by_row is not None and sum(len(level.axis) for level in forest.levels) <= MOST_NODES


def leaf_reached(forest: Forest, node: exp.Expr, tests: Tests) -> exp.Expr:
    """Return the leaf that a row reaches from the node where it is: a root, or a node of the first of these levels."""
    if not forest.depth:
        return node
    ways = [level.slots(np.arange(len(level.axis))[:, None], _CELLS) for level in forest.levels]
    trees = [_case_below(_Walk(forest, ways, tests), 0, tree) for tree in range(len(forest.levels[0].axis))]
    if len(trees) <= _TREES_PER_CASE:
        return _way_of_number(node, dict(enumerate(trees)))
    blocks = {
        start // _TREES_PER_CASE: _way_of_number(
            node, {start + place: tree for place, tree in enumerate(trees[start : start + _TREES_PER_CASE])}
        )
        for start in range(0, len(trees), _TREES_PER_CASE)
    }
    return _way_of_number(paren(exp.IntDiv(this=paren(node), expression=int_literal(_TREES_PER_CASE))), blocks)


@dataclass(frozen=True)
class Tests:
    """The tests on a row's cells.

    `among` tests whether the row's cell of an axis is a marked one; `cell`, on packed words alone, gives that cell.
    """

    among: Test
    cell: Callable[[int], exp.Expr] | None = None


def on_words(vocabulary: Vocabulary) -> Tests:
    """Return tests on packed words."""

    def cell(axis: int) -> exp.Expr:
        word = exp.column(word_name(grid.word(axis)))
        shift = grid.shift(axis)
        moved = paren(exp.BitwiseRightShift(this=word, expression=int_literal(shift))) if shift else word
        return paren(exp.BitwiseAnd(this=moved, expression=int_literal(CELLS - 1)))

    def among(axis: int, marked: NDArray[np.bool_]) -> exp.Expr:
        first = int(np.argmax(marked))
        if marked[first:].all():  # a threshold
            return exp.GTE(this=cell(axis), expression=int_literal(first))
        plane = int(np.packbits(marked, bitorder="little").view(np.int64)[0])
        mask = exp.cast(exp.Literal.string(str(plane)), exp.DataType.Type.BIGINT)
        return exp.EQ(this=vocabulary.bit(mask, cell(axis)), expression=int_literal(1))

    return Tests(among, cell)


def on_columns(forest: Forest, source: Source, vocabulary: Vocabulary) -> Tests:
    """Return tests on the table's own columns, under the names that `as_columns` gives them."""
    plain = on_named_columns(source)
    schema = plain.schema
    rows = vocabulary.row_by_row
    assert rows is not None

    def among(axis: int, marked: NDArray[np.bool_]) -> exp.Expr:
        position = forest.axes[axis].feature
        feature = schema.features[position]
        if isinstance(feature, Numeric) and feature.name not in source.decimals:
            first = int(marked.argmax())
            if feature.null_cell < first < feature.cells and marked[first : feature.cells].all():
                edge, value = feature.edges[first - 1], exp.column(_value(position))
                if feature.name not in source.integers:
                    return rows.at_least(value, edge)
                if abs(edge) < 2**53:
                    return exp.GTE(this=value, expression=int_literal(math.ceil(edge)))
        cells = feature_cells_allowed(forest, position, feature, {axis: marked})
        return feature_condition(feature, plain, cells, vocabulary)

    return Tests(among)


def as_columns(source: Source, vocabulary: Vocabulary) -> list[exp.Expr]:
    """Return the features as they are, dates and times as numbers, under names that no other column has."""
    return [
        exp.alias_(
            source.number(feature.name, vocabulary) if isinstance(feature, Dated) else source.column(feature.name),
            _value(place),
            copy=False,
        )
        for place, feature in enumerate(source.schema.features)
    ]


def on_named_columns(source: Source) -> Source:
    """Return the rows whose columns have the names that `as_columns` gives them, and the name of a stored part."""
    columns: dict[str, exp.Expr] = {
        feature.name: exp.column(_value(place)) for place, feature in enumerate(source.schema.features)
    }
    if source.schema.partition is not None:
        columns[source.schema.partition] = exp.column(PART)
    schema = replace(source.schema, features=tuple(map(_as_number, source.schema.features)))
    return Source(schema, source.table, columns, integers=source.integers, decimals=source.decimals)


def two_ways(forest: Forest) -> bool:
    """Whether no node has more than two children."""
    return all((level.arity <= 2).all() for level in forest.levels)


def _as_number(feature: Feature) -> Feature:
    """Return a feature as `as_columns` gives it."""
    return feature.plain() if isinstance(feature, Dated) else feature


def _value(place: int) -> str:
    return f"value_{place}"


@dataclass(frozen=True, eq=False)
class _Walk:
    """What a walk needs: the forest, for each level the child offset of each (node, cell), and the tests on cells."""

    forest: Forest
    ways: Sequence[NDArray[np.int64]]
    tests: Tests


def _case_below(walk: _Walk, depth: int, node: int) -> exp.Expr:
    if depth == walk.forest.depth:
        return int_literal(node)
    level = walk.forest.levels[depth]
    axis, arity, child = int(level.axis[node]), int(level.arity[node]), int(level.child[node])
    if arity == 1 or axis == PASS:
        return _case_below(walk, depth + 1, child)
    offset = walk.ways[depth][node]
    below = [_case_below(walk, depth + 1, child + slot) for slot in range(arity)]
    if arity == 2:
        return case([(walk.tests.among(axis, offset == 1), below[1])], below[0])
    assert walk.tests.cell is not None
    return _many_ways(offset, walk.tests.cell(axis), below)


def _many_ways(offset: NDArray[np.int64], cell: exp.Expr, ways: Sequence[exp.Expr]) -> exp.Expr:
    """Return where a row goes from a node of more than two children (ways).

    The way of each cell is looked up in a list. Where the ways lead to consecutive leaves, the row's leaf is the first
    of them plus the number of the way.
    """
    listed = exp.cast(exp.Literal.string("{" + ",".join(map(str, offset)) + "}"), "INT[]")
    place = exp.cast(exp.Add(this=cell, expression=int_literal(1)), exp.DataType.Type.INT)
    way_number = exp.Bracket(this=paren(listed), expressions=[place], offset=1)
    first = ways[0]
    if all(isinstance(way, exp.Literal) and int(way.this) == int(first.this) + n for n, way in enumerate(ways)):
        return exp.Add(this=first, expression=way_number)
    return _way_of_number(way_number, dict(enumerate(ways)))


def _way_of_number(selector: exp.Expr, ways: dict[int, exp.Expr]) -> exp.Expr:
    """Return the way whose number an expression gives; the last one needs no test."""
    *others, (_, last) = ways.items()
    if not others:
        return last
    return exp.Case(
        this=selector, ifs=[exp.If(this=int_literal(number), true=way) for number, way in others], default=last
    )
