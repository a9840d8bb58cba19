"""Writes a forest as lists of whole numbers, and a row's scores as one expression that looks numbers up in them.

    each(each(model.level_0, split → model.level_1[child + way]), split → model.votes[child + way])

An element of `level_k` is a node of that level as one packed number: its first child, the place of its ways, the word
that it reads and the place in that word. A node's ways say for each cell which child (counted from 0) the cell goes to.
For each tree, looking up one element leads to a node of the next level, and at last to a leaf. A row is scored by
itself: there is no join, no group and no number for the row, so that LIMIT, EXISTS and a filter on a key read the rows
that they need and no others. (The other form, in `votes.py`, joins a materialized part of the query with itself; DuckDB
2.0.0 never returns from that under a LIMIT.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from sqlglot import exp

from dpsql.compile.vocabulary import Lists, Vocabulary, case, int_literal, name_as, paren
from dpsql.errors import SchemaError
from dpsql.schema import CELLS
from dpsql.trees.forest import Forest
from dpsql.trees.grid import BITS, words

#: The relation that holds the model's lists.
MODEL = "model"
#: The column of a row's packed words.
WORDS = "dpsql_words"
#: Names of the elements of lists inside expressions.
SPLIT = "split"
LEAF = "leaf"
VOTE = "vote"
NUMBER = "number"
#: The model's lists, and the subqueries that make them.
_VOTES = "votes"
_WAYS = "ways"
_PLANES = "planes"
_NODES = "nodes"
_LEAF_LISTS = "voices"
#: The most different ways of nodes that are spelled out cell by cell, in 64 bytes each.
_MOST_WAYS = 2**16
#: The bits of a signed 64-bit integer besides its sign.
_BITS_OF_A_NUMBER = 63


@dataclass(frozen=True, eq=False)
class Lookups:
    """A stored forest as lists, made from its tables of nodes (`splits`) and of what leaves say (`leaves`).

    `splits` has the columns level, node, word, shift, child, plane_0, …; `leaves` has leaf, class, weight.
    If `difference` is true, there are two classes, and all that is looked up is by how much the second is ahead. If
    `complete` is true, each leaf has a row for every class; otherwise it has one row, a vote for one class.
    """

    forest: Forest
    splits: exp.Expr
    leaves: exp.Expr
    lists: Lists
    classes: int
    difference: bool
    complete: bool

    def model(self) -> exp.Select:
        """Return the query of one row that holds the lists."""
        query = exp.select("*").from_(self._leaf_lists().subquery(_LEAF_LISTS))
        return query.join(self._nodes().subquery(_NODES), join_type="cross") if self.forest.depth else query

    def names(self) -> list[str]:
        """Return the names of the lists."""
        return [_VOTES, *(self._node_lists() if self.forest.depth else {})]

    def difference_of_classes(self) -> exp.Expr:
        """Return by how much the second of two classes is ahead: where it is not, the first class wins."""
        return self.lists.sum(self._leaves_reached())

    def scores(self) -> exp.Expr:
        """Return the list of the scores of all classes."""
        if self.difference:
            return self.lists.of([int_literal(0), self.difference_of_classes()])
        total = self.lists.sum(self.lists.each(_name(LEAF), VOTE, self._score_of(_name(VOTE), _name(NUMBER))))
        scores = self.lists.each(self.lists.numbers(self.classes), NUMBER, total)
        return let(self.lists, LEAF, self._leaves_reached(), scores)

    def own_class(self) -> exp.Expr:
        """Return the number of the winning class where each leaf votes for one, and there are fewer trees than classes.

        The classes of the row's own leaves are compared, as score · C + (C − 1 − class).
        """
        count = int_literal(self.classes)
        named_class = paren(exp.Mod(this=_name(NUMBER), expression=count))
        score = self.lists.sum(self.lists.each(_name(LEAF), VOTE, self._score_of(_name(VOTE), named_class)))
        after = paren(exp.Sub(this=int_literal(self.classes - 1), expression=named_class.copy()))
        rank = exp.Add(this=exp.Mul(this=score, expression=count.copy()), expression=after)
        best = self.lists.largest(self.lists.each(_name(LEAF), NUMBER, rank))
        number = exp.Sub(
            this=int_literal(self.classes - 1), expression=paren(exp.Mod(this=paren(best), expression=count.copy()))
        )
        return let(self.lists, LEAF, self._leaves_reached(), number)

    def _score_of(self, vote: exp.Expr, number: exp.Expr) -> exp.Expr:
        """Return the weight that a leaf gives to the class of that number."""
        count = int_literal(self.classes)
        if self.complete:
            place = exp.Add(
                this=exp.Mul(this=vote, expression=count), expression=exp.Add(this=number, expression=_one())
            )
            return self.lists.at(_list(_VOTES), place)
        same = exp.EQ(this=paren(exp.Mod(this=vote, expression=count)), expression=number)
        return case([(same, exp.IntDiv(this=vote.copy(), expression=count.copy()))], int_literal(0))

    def _leaves_reached(self) -> exp.Expr:
        """Return for each tree the row's leaf or its vote; leading trees that end early are walked no further."""
        leading, ends = self.forest.trees_ending_early
        if not leading:
            return self._walk(1, self.forest.trees, self.forest.depth)
        rest = self._walk(leading + 1, self.forest.trees, self.forest.depth)
        return self.lists.both(self._walk(1, leading, ends), rest)

    def _walk(self, first: int, last: int, depth: int) -> exp.Expr:
        if not depth:
            leaves = self.lists.part(self.lists.numbers(last), first, last)
            return self.lists.each(leaves, SPLIT, self._vote(_name(SPLIT)))
        nodes = _list(_level(0))
        if last - first + 1 < self.forest.trees:
            nodes = self.lists.part(nodes, first, last)
        for level in range(depth):
            child = self._child(level)
            onward = self._vote(child) if level + 1 == depth else self.lists.at(_list(_level(level + 1)), _next(child))
            nodes = self.lists.each(nodes, SPLIT, onward)
        return nodes

    def _vote(self, leaf: exp.Expr) -> exp.Expr:
        """Return what a walk gives for a leaf: its vote, or its number where it has weights of many classes."""
        return leaf if self.complete and not self.difference else self.lists.at(_list(_VOTES), _next(leaf))

    def _child(self, level: int) -> exp.Expr:
        split = _name(SPLIT)
        first = paren(exp.BitwiseRightShift(this=split, expression=int_literal(self._layout.child)))
        way = _bits(split.copy(), self._layout.way, self._layout.child)
        cell = self._cell()
        if not self._has_own_ways:
            start = paren(exp.BitwiseLeftShift(this=way, expression=int_literal(BITS)))
            place = exp.Add(this=exp.Add(this=start, expression=cell), expression=_one())
            return paren(exp.Add(this=first, expression=self.lists.at(_list(_WAYS), place)))
        bits = [
            _bit(self.lists.at(_list(_plane(level, plane)), _next(way.copy())), cell.copy(), plane)
            for plane in range(len(self.forest.levels[level].planes))
        ]
        return paren(_sum([first, *bits]))

    def _cell(self) -> exp.Expr:
        """Return the cell of the row on the axis that a node reads."""
        split, word = _name(SPLIT), _name(WORDS)
        if words(len(self.forest.axes)) > 1:
            word = self.lists.at(word, _next(_bits(split.copy(), BITS, self._layout.way)))
        moved = paren(exp.BitwiseRightShift(this=word, expression=_bits(split, 0, BITS)))
        return paren(exp.BitwiseAnd(this=moved, expression=int_literal(CELLS - 1)))

    @cached_property
    def _layout(self) -> _Layout:
        """Where the parts of a node's packed number start: place in the word, word, way, first child."""
        nodes = max((len(level.axis) for level in self.forest.levels), default=1)
        way = BITS + (words(len(self.forest.axes)) - 1).bit_length()
        child = way + (nodes if self._has_own_ways else _MOST_WAYS).bit_length()
        if child + self.forest.leaves.bit_length() > _BITS_OF_A_NUMBER:
            raise SchemaError("the model has too many leaves and features to be read in SQL; score a DataFrame.")
        return _Layout(way, child)

    @cached_property
    def _has_own_ways(self) -> bool:
        """Whether each node has its ways as bit planes: ways need one plane only, or too many of them are different."""
        planes = max((len(level.planes) for level in self.forest.levels), default=1)
        nodes = sum(len(level.axis) for level in self.forest.levels)
        if planes == 1 or nodes <= _MOST_WAYS:
            return planes == 1
        padded = [np.pad(level.planes, ((0, planes - len(level.planes)), (0, 0))) for level in self.forest.levels]
        return bool(np.unique(np.concatenate(padded, axis=1), axis=1).shape[1] > _MOST_WAYS)

    @property
    def _all_planes(self) -> exp.Expr:
        planes = max(len(level.planes) for level in self.forest.levels)
        return self.lists.of([exp.column(f"plane_{plane}") for plane in range(planes)])

    def _nodes(self) -> exp.Select:
        """Return the query of one row that has the nodes of each level as one list, and their ways."""
        way: exp.Expr = exp.column("node")
        query = exp.select("*", name_as(self._all_planes, _PLANES)).from_(self.splits.copy())
        if not self._has_own_ways:
            rank = exp.Window(
                this=exp.Anonymous(this="DENSE_RANK"),
                order=exp.Order(expressions=[exp.Ordered(this=self._all_planes, nulls_first=False)]),
            )
            query = query.select(name_as(exp.Sub(this=rank, expression=_one()), "way"))
            way = exp.column("way")
        parts = [(exp.column("child"), self._layout.child), (way, self._layout.way), (exp.column("word"), BITS)]
        packed: exp.Expr = _big(exp.column("shift"))
        for part, start in parts:
            moved = paren(exp.BitwiseLeftShift(this=_big(part), expression=int_literal(start)))
            packed = exp.BitwiseOr(this=moved, expression=packed)
        numbered = exp.select("*", name_as(paren(packed), SPLIT)).from_(query.subquery(_NODES))
        node_lists = [name_as(value, name) for name, value in self._node_lists().items()]
        return exp.select(*node_lists).from_(numbered.subquery(_NODES))

    def _node_lists(self) -> dict[str, exp.Expr]:
        lists: dict[str, exp.Expr] = {}
        for number, level in enumerate(self.forest.levels):
            here = exp.EQ(this=exp.column("level"), expression=int_literal(number))
            lists[_level(number)] = self.lists.collect(exp.column(SPLIT), exp.column("node"), here)
            for plane in range(len(level.planes) if self._has_own_ways else 0):
                bits = exp.column(f"plane_{plane}")
                lists[_plane(number, plane)] = self.lists.collect(bits, exp.column("node"), here.copy())
        return lists if self._has_own_ways else lists | {_WAYS: self._ways()}

    def _ways(self) -> exp.Expr:
        """Return, for each of the different ways and each of 64 cells, which child the cell goes to."""
        planes = max(len(level.planes) for level in self.forest.levels)
        cell = _name(NUMBER)
        bits = [_bit(self.lists.at(_name(SPLIT), int_literal(plane + 1)), cell, plane) for plane in range(planes)]
        offsets = self.lists.each(self.lists.numbers(CELLS), NUMBER, _sum(bits))
        return self.lists.flat(self.lists.each(self.lists.collect_once(exp.column(_PLANES)), SPLIT, offsets))

    def _leaf_lists(self) -> exp.Select:
        """Return the query of one row that has the votes of the leaves as one list."""
        weight, count = exp.column("weight"), int_literal(self.classes)
        if self.difference:
            ahead = case([(exp.column("class").eq(int_literal(1)), weight)], exp.Neg(this=weight.copy()))
            total = exp.cast(exp.Sum(this=ahead), exp.DataType.Type.BIGINT)
            sums = exp.select("leaf", name_as(total, VOTE)).from_(self.leaves.copy()).group_by("leaf")
            votes = self.lists.collect(exp.column(VOTE), exp.column("leaf"))
            return exp.select(name_as(votes, _VOTES)).from_(sums.subquery(_LEAF_LISTS))
        place = exp.Add(this=exp.Mul(this=_big(exp.column("leaf")), expression=count), expression=exp.column("class"))
        vote = exp.Add(this=exp.Mul(this=weight, expression=count.copy()), expression=exp.column("class"))
        votes = self.lists.collect(weight.copy() if self.complete else vote, place)
        return exp.select(name_as(votes, _VOTES)).from_(self.leaves.copy())


@dataclass(frozen=True)
class _Layout:
    """The bits of a node's packed number at which its way and its first child start."""

    way: int
    child: int


def let(lists: Lists, name: str, value: exp.Expr, result: exp.Expr) -> exp.Expr:
    """Return an expression that knows a value by a name; the value is computed once."""
    return lists.at(lists.each(lists.of([value]), name, result), int_literal(1))


def list_of_words(source_words: list[exp.Expr], vocabulary: Vocabulary) -> exp.Expr:
    """Return a row's packed words as one list of signed numbers; a single word stays a number."""
    assert vocabulary.lists is not None
    signed = [_big(paren(word.this)) for word in source_words]
    return vocabulary.lists.of(signed) if len(signed) > 1 else signed[0]


def _one() -> exp.Expr:
    return int_literal(1)


def _level(level: int) -> str:
    return f"level_{level}"


def _plane(level: int, plane: int) -> str:
    return f"plane_{level}_{plane}"


def _name(name: str) -> exp.Expr:
    return exp.column(name)


def _list(name: str) -> exp.Expr:
    return exp.column(name, MODEL)


def _next(number: exp.Expr) -> exp.Expr:
    return exp.Add(this=number, expression=_one())


def _bits(number: exp.Expr, first: int, end: int) -> exp.Expr:
    """Return the bits of a number from one place up to another."""
    moved = paren(exp.BitwiseRightShift(this=number, expression=int_literal(first))) if first else number
    return paren(exp.BitwiseAnd(this=moved, expression=int_literal(2 ** (end - first) - 1)))


def _bit(plane: exp.Expr, cell: exp.Expr, place: int) -> exp.Expr:
    """Return the bit that an unsigned plane has for a cell, moved to a place."""
    unsigned = exp.cast(cell, exp.DataType.Type.UBIGINT)
    moved = paren(exp.BitwiseRightShift(this=plane, expression=unsigned))
    bit = _big(paren(exp.BitwiseAnd(this=moved, expression=_one())))
    return exp.Mul(this=bit, expression=int_literal(2**place)) if place else bit


def _big(value: exp.Expr) -> exp.Expr:
    return exp.cast(value, exp.DataType.Type.BIGINT)


def _sum(parts: list[exp.Expr]) -> exp.Expr:
    return reduce(lambda total, part: exp.Add(this=total, expression=part), parts)
