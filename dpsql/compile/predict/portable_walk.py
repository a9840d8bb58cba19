"""Predicts in SQL on any database: with two small tables, equality joins, SUBSTRING and whole numbers, nothing else.

    WITH cells AS (the distinct cells of the rows: text of two digits for each axis that the trees read),
         depth_1 …, scores AS (SUM(weight) by cells and class), winner AS (the best class of each)
    SELECT scored.*, CASE … END AS prediction FROM new_rows AS scored JOIN winner ON winner.cells = …

The tables are `<name>_node (node, place, child, ways)` and `<name>_leaf (leaf, class, weight)`. A node reads two digits
at `place` of a row's cells; the digit that `ways` has for that cell is added to `child`, the first of its children.
Nodes are numbered through all levels, roots first, so that a node's number alone is the key of each join: with the
level in that key, SQLite joined levels in an order that took hours.

This form was chosen over others because of what databases differ in:

- no bit shifts and no unsigned 64-bit numbers, which several lack: a set of cells is text, one digit per cell;
- no arithmetic on a row's numbers, which may overflow or be rounded differently: a cell is found by comparing with the
  edges of `Numeric.edges`, doubles that agree with our own arithmetic for every number;
- inner joins on equal keys alone: unlike outer joins, they are fast everywhere and mean the same everywhere;
- no row numbers: where a CTE is computed twice, they may differ. Rows of equal cells are predicted once, and each row
  finds its prediction by its cells. So no key is needed, and the work grows with the number of distinct cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.compile.hashed_cells import hash_or_last
from dpsql.compile.predict.dialects import Dialect, as_double
from dpsql.compile.vocabulary import as_int, case, int_literal, paren
from dpsql.schema import CELLS, Categorical, Dated, Feature, Hashed, Numeric, Schema
from dpsql.trees.forest import PASS, Forest
from dpsql.trees.grid import BITS

#: The alias of the table to score.
ROWS = "scored"
#: The CTE of the distinct texts of cells.
CELLS_TABLE = "cells"
#: How many digits one cell has in a row's text of cells.
_DIGITS = 2
#: The most parts of one concatenation; more are joined in groups, because databases limit the depth of an expression.
_MOST_CONCATENATED = 50


@dataclass(frozen=True, eq=False)
class Portable:
    """A forest over a schema, as one database is to read it."""

    schema: Schema
    forest: Forest
    dialect: Dialect

    @cached_property
    def axes_read(self) -> list[int]:
        """The axes that some node reads, in order: those that a row's text of cells holds."""
        read = [np.unique(level.axis) for level in self.forest.levels]
        return [int(axis) for axis in np.unique(np.concatenate(read)) if axis != PASS] if read else []

    @cached_property
    def width(self) -> int:
        """How many digits a way has: one, or two where a node has more than ten children."""
        return 1 + any(int(level.arity.max(initial=0)) > 10 for level in self.forest.levels)

    def node_rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the node table: node, place, child and ways. Children on the last level are leaves, from 0.

        A node that passes all rows on reads the axis with the fewest cells, and all go one way: the shortest text.
        """
        passed = min(self.axes_read, key=lambda axis: self.forest.axes[axis].cells) if self.axes_read else None
        first, levels = 0, self.forest.levels
        for level in levels:
            below = 0 if level is levels[-1] else first + len(level.axis)
            slots = level.slots(np.arange(len(level.axis))[:, None], np.arange(CELLS))
            for node, (axis, child, ways) in enumerate(zip(level.axis, level.child, slots, strict=True)):
                read = passed if axis == PASS else int(axis)
                cells = 1 if read is None else self.forest.axes[read].cells
                text = "".join(f"{way:0{self.width}d}" for way in ways[:cells].tolist())
                yield first + node, self._place(read), below + int(child), text
            first = below

    def cells(self) -> exp.Expr:
        """Return a row's text of cells, never NULL."""
        parts = [
            self._digits(position) for position in sorted({self.forest.axes[axis].feature for axis in self.axes_read})
        ]
        return _concatenate(parts) if parts else exp.Literal.string(_digits(0))

    def walk(self, query: exp.Select, source: exp.Table, nodes: exp.Table) -> tuple[exp.Select, str]:
        """Return the query with CTEs that take the distinct cells through all trees at once, and the last one's name.

        The last has a column `node`, the leaf; without levels it has the cells alone.
        """
        distinct = exp.select(exp.alias_(self.cells(), "cells")).distinct()
        query = query.with_(CELLS_TABLE, distinct.from_(exp.alias_(source.copy(), ROWS, table=True)))
        last = CELLS_TABLE
        for depth in range(self.forest.depth):
            query = query.with_(f"depth_{depth + 1}", self._step(depth, last, nodes), copy=False)
            last = f"depth_{depth + 1}"
        return query, last

    def _step(self, depth: int, last: str, nodes: exp.Table) -> exp.Select:
        step = exp.select(exp.column("cells", "walker"), exp.alias_(self._next(), "node"))
        step = step.from_(exp.alias_(exp.to_table(last), "walker", table=True))
        split = exp.alias_(nodes.copy(), "split", table=True)
        if depth:
            return step.join(split, on=exp.column("node", "split").eq(exp.column("node", "walker")))
        roots = exp.LT(this=exp.column("node", "split"), expression=int_literal(self.forest.trees))
        return step.join(split, join_type="cross").where(roots)

    def _next(self) -> exp.Expr:
        cell: exp.Expr = as_int(_part(exp.column("cells", "walker"), exp.column("place", "split"), _DIGITS))
        if self.width > 1:
            cell = exp.Mul(this=cell, expression=int_literal(self.width))
        way = _part(exp.column("ways", "split"), exp.Add(this=cell, expression=int_literal(1)), self.width)
        return exp.Add(this=exp.column("child", "split"), expression=as_int(way))

    def _place(self, axis: int | None) -> int:
        return 1 if axis is None else 1 + _DIGITS * self.axes_read.index(axis)

    def _digits(self, position: int) -> exp.Expr:
        """Return the digits of one feature: of all its axes that are read."""
        feature = self.schema.features[position]
        value = self.dialect.column(feature.name, ROWS)
        read = [axis for axis in self.axes_read if self.forest.axes[axis].feature == position]
        if isinstance(feature, Dated):
            return self._moment_digits(feature, value, read[0])
        if isinstance(feature, Numeric):
            return self._number_digits(feature, value, read[0])
        if isinstance(feature, Hashed):
            return self._hashed_digits(feature, value)
        places = [self.forest.axes[axis].digit for axis in read]
        shown = [exp.Literal.string(_digits(cell, *places)) for cell in range(feature.cells)]
        return self._category_digits(feature, value, shown)

    def _hashed_digits(self, feature: Hashed, value: exp.Expr) -> exp.Expr:
        """Return the digits of a hashed category's cell.

        They are cut out of those of all cells of the hash, because a CASE may hash anew at each WHEN; where few cells
        of a wide hash are listed, all these digits would be too long, and it is a CASE.
        """
        cell = as_int(hash_or_last(self.dialect.text_hash(value), feature.hash_cells))
        if feature.listed:
            ifs = [
                exp.If(this=int_literal(number), true=exp.Literal.string(_digits(place)))
                for place, number in enumerate(feature.listed)
            ]
            return exp.Case(this=cell, ifs=ifs, default=exp.Literal.string(_digits(feature.null_cell)))
        start = exp.Add(this=exp.Mul(this=cell, expression=int_literal(_DIGITS)), expression=int_literal(1))
        return _part(exp.Literal.string("".join(map(_digits, range(feature.cells)))), start, _DIGITS)

    def _number_digits(self, feature: Numeric, value: exp.Expr, axis: int) -> exp.Expr:
        number = as_double(value)
        missing: exp.Expr = value.copy().is_(exp.null())
        nan = self.dialect.is_nan(number)
        branches = [(missing if nan is None else exp.or_(missing, nan), _digits(feature.null_cell))]
        first = 0
        for start in self._starts(axis):
            edge = self.dialect.number(feature.edges[start - 1])
            branches.append((exp.LT(this=number.copy(), expression=edge), _digits(first)))
            first = start
        literals = [(test, exp.Literal.string(shown)) for test, shown in branches]
        return case(literals, exp.Literal.string(_digits(first)))

    def _moment_digits(self, feature: Dated, value: exp.Expr, axis: int) -> exp.Expr:
        """Return the digits of a date or timestamp, which is compared with the first moment of each cell."""
        branches: list[tuple[exp.Expr, str]] = [(value.copy().is_(exp.null()), _digits(feature.null_cell))]
        first = 0
        for start in self._starts(axis):
            edge = self.dialect.moments.edge(feature.first_moment(feature.edges[start - 1]))
            branches.append((exp.LT(this=self.dialect.moments.value(value.copy()), expression=edge), _digits(first)))
            first = start
        literals = [(test, exp.Literal.string(shown)) for test, shown in branches]
        return case(literals, exp.Literal.string(_digits(first)))

    def _starts(self, axis: int) -> list[int]:
        """Return the cells, in order, that some node sends another way than the cell before."""
        changes = np.uint64(0)
        for level in self.forest.levels:
            planes: NDArray[np.uint64] = level.planes[:, level.axis == axis]
            changes |= np.bitwise_or.reduce(planes ^ (planes >> np.uint64(1)), axis=None, initial=np.uint64(0))
        return [cell for cell in range(1, self.forest.axes[axis].cells) if int(changes) >> (cell - 1) & 1]

    def _category_digits(self, feature: Categorical, value: exp.Expr, shown: Sequence[exp.Expr]) -> exp.Expr:
        missing = value.is_(exp.null())
        null, unknown = shown[feature.null_cell], shown[feature.unknown_cell]
        if is_boolean(feature) and self.dialect.booleans == "test":
            cells = {text: shown[feature.cell(text)] for text in ("true", "false")}
            return case([(missing, null), (value.copy(), cells["true"])], cells["false"])
        names = list(feature.positions.items())
        if is_boolean(feature) and self.dialect.booleans == "digit":
            names += [(digit, feature.cell(text)) for digit, text in (("1", "true"), ("0", "false"))]
        digits = self._text_of_value(value, [(self.dialect.word(text), shown[cell]) for text, cell in names], unknown)
        return digits if feature.null_cell == feature.unknown_cell else case([(missing, null.copy())], digits)

    def _text_of_value(
        self, value: exp.Expr, words: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr
    ) -> exp.Expr:
        """Return what belongs to the word that a value equals; of many words, the group that has it is found first."""
        if len(words) <= CELLS:
            ifs = [exp.If(this=word.copy(), true=shown.copy()) for word, shown in words]
            return exp.Case(this=self.dialect.text(value.copy()), ifs=ifs, default=default.copy())
        groups = [words[start : start + CELLS] for start in range(0, len(words), CELLS)]
        branches: list[tuple[exp.Expr, exp.Expr]] = []
        for group in groups:
            listed = exp.In(this=self.dialect.text(value.copy()), expressions=[word.copy() for word, _ in group])
            branches.append((listed, self._text_of_value(value, group, default)))
        return case(branches, default.copy())


def is_boolean(feature: Feature) -> bool:
    """Return whether a category is stored as a boolean: its values, or all of its synonyms, are true and false."""
    if not isinstance(feature, Categorical):
        return False
    stored = {text for text, _ in feature.synonyms} or set(feature.values)
    return stored <= {"true", "false"}


def _digits(cell: int, *places: int) -> str:
    """Return a cell as text: two digits for each of its places in base 64, the lowest alone unless some are named."""
    return "".join(f"{cell >> (BITS * place) & (CELLS - 1):0{_DIGITS}d}" for place in places or (0,))


def _part(text: exp.Expr, start: exp.Expr, length: int) -> exp.Expr:
    return exp.Substring(this=text, start=start, length=int_literal(length))


def _concatenate(parts: Sequence[exp.Expr]) -> exp.Expr:
    """Return texts joined one after the other; many are joined in groups."""
    while len(parts) > 1:
        groups = [list(parts[start : start + _MOST_CONCATENATED]) for start in range(0, len(parts), _MOST_CONCATENATED)]
        parts = [paren(exp.Concat(expressions=group)) if len(group) > 1 else group[0] for group in groups]
    return parts[0]
