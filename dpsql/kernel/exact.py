"""Exact counts: the one place where they enter Python.

Only `kernel/session.py` may call this module, and it stores no exact count anywhere. Every statement passes
`compile/check.py`. The database returns non-empty groups alone; before anything else happens to their counts, this
module lays them out on the full public grid, with a zero for each empty cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.compile.check import check_cached_rows, check_statement, check_unlabelled, check_value_counts
from dpsql.compile.count import hash_counts, literal, mixture_counts, score_counts, value_counts
from dpsql.compile.count import histograms as histogram_counts
from dpsql.compile.count import leaves as counts
from dpsql.compile.count import magnitudes as magnitude_statements
from dpsql.compile.count import pseudo_counts as pseudo
from dpsql.compile.count.histograms import Asks
from dpsql.compile.count.leaves import Slice, Statement
from dpsql.compile.count.levels import Tables
from dpsql.compile.rows import PACKED, Part, Source, Tickets, pack_rows, packed_names
from dpsql.compile.vocabulary import Vocabulary
from dpsql.engines.base import Arrays, Engine, Workspace
from dpsql.kernel import published
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.datasets.many_tables import QUERY
from dpsql.kernel.operations import Choose
from dpsql.kernel.plan import Step
from dpsql.kernel.statement_size import GROUPS_PER_STATEMENT, tree_ranges
from dpsql.kernel.utility import utilities
from dpsql.mechanisms.rng import random_key
from dpsql.schema import CELLS, WIDE_HASH_CELLS, Feature
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import PASS, Forest, Level
from dpsql.trees.magnitude_grid import MAGNITUDES
from dpsql.trees.score_grid import ScoreGrid
from dpsql.trees.voting import VotingForest

Counts = NDArray[np.int64]
#: The name of the workspace's table of packed rows.
PACKED_TABLE = "kept_packed"
#: The names of the workspace's tables of rows at nodes: one is read while the other is written.
_NODE_TABLES = ("kept_0", "kept_1")
#: The name of the workspace's table of unlabelled rows with their predicted classes.
_GUESSED_TABLE = "kept_guessed"


class Rows:
    """The private rows of one session. Their ticket keys are drawn for this session, and forgotten when it ends."""

    def __init__(self, engine: Engine, source: Source, sides: Mapping[str, Source]) -> None:
        self._engine = engine
        self._source = source
        self._sides = sides
        reads = (table for rows in (source, *sides.values()) for table in rows.reads)
        self._reads = tuple(dict.fromkeys(table for table in reads if table.kind != QUERY))
        self._tickets = Tickets(tuple(random_key() >> 1 for _ in range(3)))
        self._classes = len(source.schema.classes)
        self._open = ExitStack()
        self._workspace: Workspace | None = None
        self._node_rows: _NodeRows | None = None

    def close(self) -> None:
        """Close the workspace, with every table that was stored in it."""
        self._node_rows = self._workspace = None
        self._open.close()

    def __repr__(self) -> str:
        return "<private rows>"

    def narrow(self, bounds: Mapping[str, tuple[float, float]]) -> None:
        """Clamp numbers to these bounds from now on; rows that were stored with their old cells are not used again.

        A side may be another table, with a label and a unit of its own: only the bounds in its schema change.
        """
        self._source = _narrow_source(self._source, bounds)
        self._sides = {side: _narrow_source(source, bounds) for side, source in self._sides.items()}
        self._node_rows = None

    def hold(self) -> None:
        """Store the packed rows in the workspace: later questions read them there, and no longer read the table."""
        source = replace(self._source, cached_rows="")
        names = packed_names(source.schema)
        query = exp.Select().with_(PACKED, pack_rows(source, self._engine.vocabulary, self._tickets), copy=False)
        query = query.select(*(exp.column(name) for name in names), copy=False).from_(PACKED, copy=False)
        check_cached_rows(query, self._engine.vocabulary)
        self._opened_workspace.keep(PACKED_TABLE, query, {})
        self._source = replace(source, cached_rows=PACKED_TABLE)

    def size(self, part: Part) -> int:
        """Return the exact number of rows that training would use. One scan."""
        statement = counts.row_count(self._source_of(part), self._engine.vocabulary, self._tickets, part)
        return int(self._run(statement)["rows"][0])

    def leaf_counts(self, forest: Forest, part: Part, *, shared: bool) -> Counts:
        """Return the exact count of each (leaf, class) of the full grid. One scan for each range of trees."""
        if self._counts_literally(forest, part):
            return self._literal_counts(forest, part, shared=shared)
        if _walks_several_trees(forest, shared) and _has_single_splits(forest):
            return self._cell_counts(forest, part)
        grid = np.zeros((forest.leaves, self._classes), np.int64)
        if self._continues_to(forest, part, shared=shared):
            query, last_rows, tables = self._at_nodes(forest, part, shared=shared)
            add_on_grid(grid, self._run(counts.count_by_leaf(query, last_rows, tables)), "leaf", "class")
            return grid
        for first, last in tree_ranges(forest, self._classes):
            statement = counts.leaf_counts(*self._range_arguments(forest, first, last, part, shared=shared))
            leaves = slice(int(forest.first_leaf[first]), int(forest.first_leaf[last]))
            add_on_grid(grid[leaves], self._run(statement), "leaf", "class")
        return grid

    def _cell_counts(self, forest: Forest, part: Part) -> Counts:
        """Return the same counts for trees of a single split, from the counts of each cell of each axis. One scan."""
        level = forest.levels[0]
        split_axes = np.unique(level.axis[level.axis != PASS])
        asks = Asks.of(split_axes[None, :])
        cells = self.histograms(Forest(forest.axes, 1, ()), asks, part, shared=False, by_class=True)
        grid = np.zeros((forest.leaves, self._classes), np.int64)
        for tree, axis in enumerate(level.axis):
            # All rows are in the only leaf of a tree without a split. The cells of any axis add up to all rows.
            place = 0 if axis == PASS else int(np.searchsorted(split_axes, axis))
            slots = level.slots(np.full(CELLS, tree), np.arange(CELLS))
            np.add.at(grid, level.child[tree] + slots, cells[place])
        return grid

    def leaf_sums(self, forest: Forest, part: Part, *, shared: bool) -> Counts:
        """Return for each leaf of the full grid how many steps its targets are below `upper`, and above `lower`.

        The two sums of a leaf add up to its rows × steps. One scan for each range of trees.
        """
        grid = np.zeros((forest.leaves, 2), np.int64)
        steps = self._source.schema.steps
        if self._counts_literally(forest, part):
            for leaf in range(forest.leaves):
                _add_two_sums(
                    grid,
                    self._run(literal.literal_sums(*self._leaf_arguments(forest, leaf, part, shared=shared))),
                    steps,
                )
            return grid
        if self._continues_to(forest, part, shared=shared):
            statement = counts.sum_by_leaf(*self._at_nodes(forest, part, shared=shared), steps=steps)
            _add_two_sums(grid, self._run(statement), steps)
            return grid
        for first, last in tree_ranges(forest, 2):
            statement = counts.leaf_sums(*self._range_arguments(forest, first, last, part, shared=shared))
            leaves = slice(int(forest.first_leaf[first]), int(forest.first_leaf[last]))
            _add_two_sums(grid[leaves], self._run(statement), steps)
        return grid

    def _counts_literally(self, forest: Forest, part: Part) -> bool:
        """Whether each leaf is counted by a statement of its own. It follows from the request and public trees."""
        return self._source_of(part).literal and forest.leaves <= literal.MOST_LEAVES

    def _literal_counts(self, forest: Forest, part: Part, *, shared: bool) -> Counts:
        """Return the counts of `leaf_counts`, by one statement for each leaf. As many scans as there are leaves."""
        grid = np.zeros((forest.leaves, self._classes), np.int64)
        for leaf in range(forest.leaves):
            statement = literal.literal_counts(*self._leaf_arguments(forest, leaf, part, shared=shared))
            add_on_grid(grid[leaf], self._run(statement), "class")
        return grid

    def _leaf_arguments(
        self, forest: Forest, leaf: int, part: Part, *, shared: bool
    ) -> tuple[Source, Forest, int, Vocabulary, Tickets, Slice, Part]:
        """Return what a statement about one leaf is built from. The statement is logged, without the secret keys."""
        source = replace(self._source_of(part), cached_rows="")
        trees = Slice.of(source.schema, forest, shared=shared)
        literal.log_statement(source, forest, leaf, self._engine.vocabulary, trees, part)
        return source, forest, leaf, self._engine.vocabulary, self._tickets, trees, part

    def _range_arguments(
        self, forest: Forest, first: int, last: int, part: Part, *, shared: bool
    ) -> tuple[Source, Forest, Vocabulary, Tickets, Slice, Part]:
        """Return what a statement about the trees from `first` to `last` (excluded) is built from."""
        trees = forest if (first, last) == (0, forest.trees) else forest.part(first, last)
        numbers = Slice.of(self._source_of(part).schema, forest, shared=shared, first=first)
        return self._source_of(part), trees, self._engine.vocabulary, self._tickets, numbers, part

    def histograms(self, forest: Forest, asks: Asks, part: Part, *, shared: bool, by_class: bool) -> Counts:
        """Return the exact count of each (ask, cell, class) of the full grid, or of each (ask, cell) as one class."""
        query, rows, tables = self._at_nodes(forest, part, shared=shared)
        statement = histogram_counts.histograms(query, rows, tables, len(forest.axes), asks, by_class=by_class)
        grid = np.zeros((len(asks), CELLS, self._classes if by_class else 1), np.int64)
        if by_class:
            add_on_grid(grid, self._run(statement), "ask", "cell", "class")
        else:
            add_on_grid(grid[:, :, 0], self._run(statement), "ask", "cell")
        return grid

    def scores(
        self, forest: Forest, candidates: Candidates, parts: Sequence[Part], operation: Choose, *, shared: bool
    ) -> Counts:
        """Return the exact utility of each candidate of each leaf that asks, as leaves × candidates.

        The rows of all `parts` count together. One statement counts the cells of a few leaves at a time, so that
        memory stays bounded.
        """
        asking = candidates.asking_leaves
        by_class = operation.needs_classes
        scores = np.zeros((len(asking), candidates.axis.shape[1], candidates.splits.most), np.int64)
        groups_per_leaf = candidates.axis.shape[1] * CELLS * (self._classes if by_class else 1)
        at_once = max(1, GROUPS_PER_STATEMENT // groups_per_leaf)
        for start in range(0, len(asking), at_once):
            block = slice(start, start + at_once)
            axis = np.full(candidates.axis.shape, PASS)
            axis[asking[block]] = candidates.axis[asking[block]]
            asks = Asks.of(axis)
            by_part = [self.histograms(forest, asks, part, shared=shared, by_class=by_class) for part in parts]
            counts = np.sum(by_part, axis=0)
            scores[block][candidates.axis[asking[block]] != PASS] = _scores_of_asks(asks, counts, candidates, operation)
        return scores.reshape(len(asking), -1)

    def published_medians(self, forest: Forest, candidates: Candidates, part: Part, step: Step) -> Counts:
        """Return the choices of Huang et al. as published.

        They have no proof, so `kernel/run.py` refuses them where the dataset has a cap.
        """
        counts = self.histograms(forest, Asks.of(candidates.axis), part, shared=step.shared, by_class=False)
        return published.medians(counts[:, :, 0], candidates, float(step.epsilon))

    def pseudo_counts(self, teacher: VotingForest, forest: Forest, part: Part) -> Counts:
        """Return the exact count of (leaf, predicted class) of rows whose features are public."""
        source = self._source_of(part)
        statement = pseudo.labelled_rows(source, teacher, self._engine.vocabulary, self._tickets)
        check_unlabelled(statement.query, source.schema.label)
        self._opened_workspace.keep(_GUESSED_TABLE, statement.query, statement.tables)
        grid = np.zeros((forest.leaves, self._classes), np.int64)
        groups = self._run(pseudo.pseudo_leaf_counts(_GUESSED_TABLE, forest, self._engine.vocabulary))
        add_on_grid(grid, groups, "leaf", "class")
        return grid

    def score_counts(
        self, released: VotingForest, features: tuple[Feature, ...], grid: ScoreGrid, part: Part
    ) -> Counts:
        """Return the exact count of every cell of every histogram of a grid, one after the other. One scan."""
        rows = self._source_of(part)
        cached_rows = rows.cached_rows if rows.schema.features == features else ""
        known_by = rows.known_by or tuple(feature.name for feature in rows.schema.features)
        schema = replace(rows.schema, features=features)
        rows = replace(rows, schema=schema, cached_rows=cached_rows, known_by=known_by)
        statement = score_counts.score_counts(rows, released, grid, self._engine.vocabulary, self._tickets, part)
        cells = np.zeros((len(grid.histograms), max(size for _, size in grid.histograms)), np.int64)
        add_on_grid(cells, self._run(statement), "ask", "cell")
        return np.concatenate([row[:size] for row, (_, size) in zip(cells, grid.histograms, strict=True)])

    def right_rows(self, mixtures: Mixtures, part: Part) -> Counts:
        """Return what each option of mixtures of a released forest's trees is worth by its right rows. One scan."""
        source = self._source_of(part)
        statement = mixture_counts.right_rows(source, mixtures, self._engine.vocabulary, self._tickets, part)
        groups = self._run(statement)
        grid = np.zeros((len(mixtures.factors), self._classes), np.int64)
        for number, right in enumerate(grid):
            add_on_grid(right, groups | {"rows": groups[mixture_counts.right_name(number)]}, "class")
        return mixtures.worth(grid)

    def magnitudes(self, names: Sequence[str], part: Part) -> Counts:
        """Return the exact count of each (column, cell) of the fixed grid of powers of two. One scan."""
        source = replace(self._source_of(part), cached_rows="")  # packed words do not hold the column
        statement = magnitude_statements.magnitude_counts(source, names, self._engine.vocabulary, self._tickets, part)
        grid = np.zeros((len(names), MAGNITUDES), np.int64)
        add_on_grid(grid, self._run(statement), "ask", "cell")
        return grid

    def hash_counts(self, names: Sequence[str], part: Part) -> Counts:
        """Return the exact count of each (column, cell) of the wide public hash; NULL has the last cell. One scan."""
        source = replace(self._source_of(part), cached_rows="")  # packed words do not hold the column
        statement = hash_counts.hash_counts(source, names, self._engine.vocabulary, self._tickets, part)
        grid = np.zeros((len(names), WIDE_HASH_CELLS + 1), np.int64)
        add_on_grid(grid, self._run(statement), "ask", "cell")
        return grid

    def common_values(self, names: Sequence[str], part: Part, *, more_than: int) -> dict[tuple[str, str], int]:
        """Return the exact count of each (column, text) that more than so many rows have, in order. One scan.

        Which texts there are depends on the rows: the caller shows none before noise and a threshold have decided.
        """
        source = replace(self._source_of(part), cached_rows="")  # packed words do not hold the column
        statement = value_counts.value_counts(
            source, names, self._engine.vocabulary, self._tickets, part, more_than=more_than
        )
        check_value_counts(statement.query, self._engine.vocabulary)
        groups = self._opened_workspace.aggregate(statement.query, statement.tables)
        rows = zip(groups["ask"].tolist(), groups["value"].tolist(), groups["rows"].tolist(), strict=True)
        counted = sorted((int(ask), text, int(count)) for ask, text, count in rows if type(text) is str)
        return {(names[ask], text): count for ask, text, count in counted}

    def _at_nodes(self, forest: Forest, part: Part, *, shared: bool) -> tuple[exp.Select, str, Tables]:
        """Return an unfinished query that brings every row to its leaf.

        It begins at the roots, or at the nodes where the rows are stored already.
        """
        if _walks_several_trees(forest, shared) or (forest.depth == 0 and self._source_of(part).cached_rows):
            arguments = self._range_arguments(forest, 0, forest.trees, part, shared=shared)
            return counts.rows_at_nodes(*arguments, words_too=True)
        stored = self._node_rows
        if stored is None or not stored.leads_to(forest, part):
            roots = Forest(forest.axes, forest.trees, ())
            stored = _NodeRows(_NODE_TABLES[0], roots, part)
            arguments = self._range_arguments(roots, 0, forest.trees, part, shared=shared)
            self._store(stored, counts.rows_at_nodes_statement(*arguments))
        if stored.forest.depth < forest.depth:
            query, last, tables = counts.walk_on(stored.name, forest, stored.forest.depth, self._engine.vocabulary)
            other_table = _NODE_TABLES[1] if stored.name == _NODE_TABLES[0] else _NODE_TABLES[0]
            stored = _NodeRows(other_table, forest, part)
            self._store(stored, Statement(counts.select_node_rows(query, last, forest), tables))
        return counts.walk_on(stored.name, forest, forest.depth, self._engine.vocabulary)

    def _continues_to(self, forest: Forest, part: Part, *, shared: bool) -> bool:
        """Whether rows are stored at nodes from which they can walk on to the leaves of a forest."""
        if _walks_several_trees(forest, shared) or self._node_rows is None:
            return False
        return self._node_rows.leads_to(forest, part)

    def _store(self, rows: _NodeRows, statement: Statement) -> None:
        """Store the rows that a statement selects in the workspace, in place of those that were stored before."""
        check_cached_rows(statement.query, self._engine.vocabulary)
        self._opened_workspace.keep(rows.name, statement.query, statement.tables)
        self._node_rows = rows

    def _source_of(self, part: Part) -> Source:
        """Return the rows of a part's side.

        A side that has no rows of its own is a KeyError: the rows of another side are never read in its place.
        """
        return self._sides[part.side] if part.side else self._source

    @property
    def _opened_workspace(self) -> Workspace:
        """The workspace of the session, which is opened when it is first used."""
        if self._workspace is None:
            self._workspace = self._open.enter_context(self._engine.workspace(self._reads))
        return self._workspace

    def _run(self, statement: Statement) -> Arrays:
        """Return the groups of a statement, after checking that it gives out aggregates alone."""
        check_statement(statement.query, self._engine.vocabulary)
        return self._opened_workspace.aggregate(statement.query, statement.tables)


@dataclass(frozen=True, eq=False)
class _NodeRows:
    """Rows that are stored in the workspace: in which table, at the leaves of which forest, which part of the units."""

    name: str
    forest: Forest
    part: Part

    def leads_to(self, forest: Forest, part: Part) -> bool:
        """Whether a forest is about the same part, and begins with exactly the levels that these rows have walked."""
        walked = self.forest.levels
        return (
            (self.part, self.forest.trees, self.forest.axes) == (part, forest.trees, forest.axes)
            and len(walked) <= len(forest.levels)
            and all(_equal_levels(mine, theirs) for mine, theirs in zip(walked, forest.levels, strict=False))
        )


def _equal_levels(first: Level, second: Level) -> bool:
    return (
        np.array_equal(first.axis, second.axis)
        and np.array_equal(first.arity, second.arity)
        and np.array_equal(first.planes, second.planes)
    )


def _narrow_source(source: Source, bounds: Mapping[str, tuple[float, float]]) -> Source:
    return replace(source, schema=source.schema.with_bounds(bounds), cached_rows="")


def _scores_of_asks(asks: Asks, counts: Counts, candidates: Candidates, operation: Choose) -> Counts:
    """Return the exact utility of each split (second axis) for each ask (first axis), from the counts of its cells."""
    scores = np.empty((len(asks), candidates.splits.most), np.int64)
    for axis in np.unique(asks.axis):
        here = asks.axis == axis
        scores[here] = utilities(operation.utility, counts[here], candidates.splits, int(axis), most=operation.most)
    return scores


def _walks_several_trees(forest: Forest, shared: bool) -> bool:
    """Whether each row walks several trees. Such rows are not stored: each would be stored once for every tree."""
    return shared and forest.trees > 1


def _has_single_splits(forest: Forest) -> bool:
    """Whether no tree has more than one split, and at least one tree has one."""
    return forest.depth > 0 and bool((forest.levels[0].axis != PASS).any()) and _passes_all_on(forest.levels[1:])


def _passes_all_on(levels: Sequence[Level]) -> bool:
    return all((level.axis == PASS).all() for level in levels)


def add_on_grid(grid: Counts, groups: Arrays, *keys: str) -> None:
    """Add the rows of each group to its cell of a public grid; groups outside the grid are left out.

    A sound statement has no group outside the grid, and no two groups for one cell. Should a broken statement have
    them, this function neither raises an error nor overwrites a count: whether such groups exist depends on the rows.
    """
    places = tuple(groups[key].astype(np.int64) for key in keys)
    inside = np.ones(len(groups["rows"]), bool)
    for place, size in zip(places, grid.shape, strict=True):
        inside &= (place >= 0) & (place < size)
    np.add.at(grid, tuple(place[inside] for place in places), groups["rows"][inside].astype(np.int64))


def _add_two_sums(grid: Counts, groups: Arrays, steps: int) -> None:
    """Add to a grid of (leaf, 2) the steps of each leaf's targets below `upper`, and those above `lower`."""
    above = groups["steps"]
    add_on_grid(grid[:, 0], groups | {"rows": groups["rows"] * steps - above}, "leaf")
    add_on_grid(grid[:, 1], groups | {"rows": above}, "leaf")
