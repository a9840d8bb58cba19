"""Exact counts: the one place where they enter Python. Only `kernel/session.py` may call this, and keeps nothing.

Every statement passes `compile/check.py`. What comes back from the database are non-empty groups; here they are laid
out on the full public grid, zeros included, before anything else happens to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.compile.check import check_cached_rows, check_statement, check_unlabelled
from dpsql.compile.count import histograms as splits
from dpsql.compile.count import leaves as counts
from dpsql.compile.count import mixture_counts
from dpsql.compile.count import pseudo_counts as pseudo
from dpsql.compile.count import score_counts as scorecounts
from dpsql.compile.count.histograms import Asks
from dpsql.compile.count.leaves import Slice, Statement
from dpsql.compile.count.levels import Tables
from dpsql.compile.rows import PACKED, Part, Source, Tickets, pack_rows, word_name
from dpsql.engines.base import Arrays, Engine, Workspace
from dpsql.kernel import published
from dpsql.kernel.candidates import Candidates
from dpsql.kernel.operations import Choose
from dpsql.kernel.plan import Step
from dpsql.kernel.statement_size import GROUPS_PER_STATEMENT, batches
from dpsql.kernel.utility import utilities
from dpsql.mechanisms.rng import random_key
from dpsql.schema import CELLS, Feature
from dpsql.trees.estimate.mixtures import Mixtures
from dpsql.trees.forest import PASS, Forest, Level
from dpsql.trees.grid import axes, words
from dpsql.trees.score_grid import ScoreGrid
from dpsql.trees.voting import VotingForest

Counts = NDArray[np.int64]
#: The workspace's table of packed rows.
HELD = "kept_packed"


class Rows:
    """The private rows of one session, under ticket keys drawn for it and forgotten with it."""

    def __init__(self, engine: Engine, source: Source, sides: Mapping[str, Source]) -> None:
        self._engine = engine
        self._source = source
        self._sides = sides
        self._reads = tuple(dict.fromkeys(table for rows in (source, *sides.values()) for table in rows.reads))
        self._tickets = Tickets(tuple(random_key() >> 1 for _ in range(3)))
        self._classes = len(source.schema.classes)
        self._open = ExitStack()
        self._workspace: Workspace | None = None
        self._kept: _Kept | None = None

    def close(self) -> None:
        """Let the workspace go, and what was kept in it."""
        self._kept = self._workspace = None
        self._open.close()

    def __repr__(self) -> str:
        return "<private rows>"

    def narrow(self, bounds: Mapping[str, tuple[float, float]]) -> None:
        """Clamp numbers to these bounds from now on; rows that were kept with other cells are not used again.

        A side may be another table, with a label and a unit of its own: each keeps its own schema.
        """
        self._source = _narrow_source(self._source, bounds)
        self._sides = {side: _narrow_source(source, bounds) for side, source in self._sides.items()}
        self._kept = None

    def hold(self) -> None:
        """Keep the packed rows in the workspace: what is asked from now on reads them there, not the table."""
        source = replace(self._source, cached_rows="")
        names = ["class", "ticket", *(word_name(number) for number in range(words(len(axes(source.schema)))))]
        query = exp.Select().with_(PACKED, pack_rows(source, self._engine.vocabulary, self._tickets), copy=False)
        query = query.select(*(exp.column(name) for name in names), copy=False).from_(PACKED, copy=False)
        check_cached_rows(query, self._engine.vocabulary)
        self._here.keep(HELD, query, {})
        self._source = replace(source, cached_rows=HELD)

    def size(self, part: Part) -> int:
        """Return the exact number of rows that count. One scan."""
        statement = counts.row_count(self._of(part), self._engine.vocabulary, self._tickets, part)
        return int(self._run(statement)["rows"][0])

    def leaf_counts(self, forest: Forest, part: Part, *, shared: bool) -> Counts:
        """Return the exact count of each (leaf, class) of the full grid. One scan per batch of trees."""
        if _many(forest, shared) and _flat(forest):
            return self._cell_counts(forest, part)
        found = np.zeros((forest.leaves, self._classes), np.int64)
        if not _many(forest, shared) and self._kept is not None and self._kept.leads_to(forest, part):
            query, last_rows, tables = self._at_nodes(forest, part, shared=shared)
            add_on_grid(found, self._run(counts.count_by_leaf(query, last_rows, tables)), "leaf", "class")
            return found
        for first, last in batches(forest, self._classes):
            trees = Slice(shared, first, forest.trees)
            batch = forest if (first, last) == (0, forest.trees) else forest.part(first, last)
            statement = counts.leaf_counts(self._of(part), batch, self._engine.vocabulary, self._tickets, trees, part)
            leaves = slice(int(forest.first_leaf[first]), int(forest.first_leaf[last]))
            add_on_grid(found[leaves], self._run(statement), "leaf", "class")
        return found

    def _cell_counts(self, forest: Forest, part: Part) -> Counts:
        """Return the same for trees of a single split: every cell of each axis is counted once. One scan."""
        level = forest.levels[0]
        asked = np.unique(level.axis[level.axis != PASS])
        asks = Asks.of(asked[None, :])
        cells = self.histograms(Forest(forest.axes, 1, ()), asks, part, shared=False, by_class=True)
        found = np.zeros((forest.leaves, self._classes), np.int64)
        for tree, axis in enumerate(level.axis):
            # A tree of one leaf holds all rows: those of any axis, added up.
            place = 0 if axis == PASS else int(np.searchsorted(asked, axis))
            slots = level.slots(np.full(CELLS, tree), np.arange(CELLS))
            np.add.at(found, level.child[tree] + slots, cells[place])
        return found

    def leaf_sums(self, forest: Forest, part: Part, *, shared: bool) -> Counts:
        """Return for each leaf of the full grid how many steps its targets are below `upper`, and above `lower`.

        Both together are the leaf's rows × steps. One scan per batch of trees.
        """
        found, steps = np.zeros((forest.leaves, 2), np.int64), self._source.schema.steps
        kept = not _many(forest, shared) and self._kept is not None and self._kept.leads_to(forest, part)
        for first, last in [(0, forest.trees)] if kept else batches(forest, 2):
            batch = forest if (first, last) == (0, forest.trees) else forest.part(first, last)
            trees = Slice(shared, first, forest.trees)
            where = (self._of(part), batch, self._engine.vocabulary, self._tickets, trees, part)
            statement = (
                counts.sum_by_leaf(*self._at_nodes(forest, part, shared=shared), steps=steps)
                if kept
                else counts.leaf_sums(*where)
            )
            groups = self._run(statement)
            leaves = found[slice(int(forest.first_leaf[first]), int(forest.first_leaf[last]))]
            add_on_grid(leaves[:, 0], groups | {"rows": groups["rows"] * steps - groups["steps"]}, "leaf")
            add_on_grid(leaves[:, 1], groups | {"rows": groups["steps"]}, "leaf")
        return found

    def histograms(self, forest: Forest, asks: Asks, part: Part, *, shared: bool, by_class: bool) -> Counts:
        """Return the exact count of each (ask, cell, class) of the full grid (one class when not by class)."""
        query, rows, tables = self._at_nodes(forest, part, shared=shared)
        statement = splits.histograms(query, rows, tables, len(forest.axes), asks, by_class=by_class)
        found = np.zeros((len(asks), CELLS, self._classes if by_class else 1), np.int64)
        keys = ("ask", "cell", "class")
        add_on_grid(found if by_class else found[:, :, 0], self._run(statement), *keys[: 3 if by_class else 2])
        return found

    def scores(
        self, forest: Forest, candidates: Candidates, parts: Sequence[Part], operation: Choose, *, shared: bool
    ) -> Counts:
        """Return the exact utility of each candidate of each leaf that asks, as leaves × candidates.

        The rows of all `parts` count together. A few leaves at a time: one statement counts their cells, and memory
        stays bounded.
        """
        asking, by_class = candidates.asking_leaves, operation.needs_classes
        found = np.zeros((len(asking), candidates.axis.shape[1], candidates.splits.most), np.int64)
        each = candidates.axis.shape[1] * CELLS * (self._classes if by_class else 1)
        for start in range(0, len(asking), at_once := max(1, GROUPS_PER_STATEMENT // each)):
            block = slice(start, start + at_once)
            axis = np.full(candidates.axis.shape, PASS)
            axis[asking[block]] = candidates.axis[asking[block]]
            asks = Asks.of(axis)
            found_in = (self.histograms(forest, asks, p, shared=shared, by_class=by_class) for p in parts)
            counts = np.sum(list(found_in), axis=0)
            held = np.empty((len(asks), candidates.splits.most), np.int64)
            for one in np.unique(asks.axis):
                here = asks.axis == one
                held[here] = utilities(
                    operation.utility, counts[here], candidates.splits, int(one), most=operation.most
                )
            found[block][candidates.axis[asking[block]] != PASS] = held
        return found.reshape(len(asking), -1)

    def published_medians(self, forest: Forest, candidates: Candidates, part: Part, step: Step) -> Counts:
        """Return the choices of Huang et al. as published: no proof, so `kernel/run.py` refuses it under a cap."""
        counts = self.histograms(forest, Asks.of(candidates.axis), part, shared=step.shared, by_class=False)
        return published.medians(counts[:, :, 0], candidates, float(step.epsilon))

    def pseudo_counts(self, teacher: VotingForest, forest: Forest, part: Part) -> Counts:
        """Return the exact count of (leaf, predicted class) of rows whose features are public."""
        statement = pseudo.labelled_rows(self._of(part), teacher, self._engine.vocabulary, self._tickets)
        check_unlabelled(statement.query, self._of(part).schema.label)
        self._here.keep("kept_guessed", statement.query, statement.tables)
        found = np.zeros((forest.leaves, self._classes), np.int64)
        groups = self._run(pseudo.pseudo_leaf_counts("kept_guessed", forest, self._engine.vocabulary))
        add_on_grid(found, groups, "leaf", "class")
        return found

    def score_counts(
        self, released: VotingForest, features: tuple[Feature, ...], grid: ScoreGrid, part: Part
    ) -> Counts:
        """Return the exact count of every cell of every histogram of a grid, one after the other. One scan."""
        rows = self._of(part)
        held = rows.cached_rows if rows.schema.features == features else ""
        known_by = rows.known_by or tuple(feature.name for feature in rows.schema.features)
        rows = replace(rows, schema=replace(rows.schema, features=features), cached_rows=held, known_by=known_by)
        statement = scorecounts.score_counts(rows, released, grid, self._engine.vocabulary, self._tickets, part)
        found = np.zeros((len(grid.histograms), max(size for _, size in grid.histograms)), np.int64)
        add_on_grid(found, self._run(statement), "ask", "cell")
        return np.concatenate([row[:size] for row, (_, size) in zip(found, grid.histograms, strict=True)])

    def right(self, mixtures: Mixtures, part: Part) -> Counts:
        """Return how many rows each mixture of a released forest's trees labels as they are. One scan."""
        statement = mixture_counts.right_rows(self._of(part), mixtures, self._engine.vocabulary, self._tickets, part)
        found = self._run(statement)
        return np.array(
            [found[mixture_counts.right_name(number)][0] for number in range(len(mixtures.factors))], np.int64
        )

    def _at_nodes(self, forest: Forest, part: Part, *, shared: bool) -> tuple[exp.Select, str, Tables]:
        """Return an unfinished query that brings every row to its leaf: from scratch, or from where rows were kept."""
        trees = Slice(shared, 0, forest.trees)
        if _many(forest, shared) or (forest.depth == 0 and self._of(part).cached_rows):
            where = (self._of(part), forest, self._engine.vocabulary, self._tickets, trees, part)
            return counts.rows_at_nodes(*where, words_too=True)
        kept = self._kept
        if kept is None or not kept.leads_to(forest, part):
            kept = _Kept("kept_0", Forest(forest.axes, forest.trees, ()), part)
            where = (self._of(part), kept.forest, self._engine.vocabulary, self._tickets, trees, part)
            self._keep(kept, counts.rows_at_nodes_statement(*where))
        if kept.forest.depth < forest.depth:
            query, last, tables = counts.walk_on(kept.name, forest, kept.forest.depth, self._engine.vocabulary)
            kept = _Kept("kept_1" if kept.name == "kept_0" else "kept_0", forest, part)
            self._keep(kept, Statement(counts.select_node_rows(query, last, forest), tables))
        return counts.walk_on(kept.name, forest, forest.depth, self._engine.vocabulary)

    def _keep(self, kept: _Kept, statement: Statement) -> None:
        check_cached_rows(statement.query, self._engine.vocabulary)
        self._here.keep(kept.name, statement.query, statement.tables)
        self._kept = kept

    def _of(self, part: Part) -> Source:
        """Return the rows of a side: never those of another, even where a plan and its sources do not fit."""
        return self._sides[part.side] if part.side else self._source

    @property
    def _here(self) -> Workspace:
        if self._workspace is None:
            self._workspace = self._open.enter_context(self._engine.workspace(self._reads))
        return self._workspace

    def _run(self, statement: Statement) -> Arrays:
        check_statement(statement.query, self._engine.vocabulary)
        return self._here.aggregate(statement.query, statement.tables)


@dataclass(frozen=True, eq=False)
class _Kept:
    """Rows that wait in the workspace: under what name, at the leaves of which forest, which part of the units."""

    name: str
    forest: Forest
    part: Part

    def leads_to(self, forest: Forest, part: Part) -> bool:
        """Whether a forest begins with the very levels that these rows have walked."""
        walked = self.forest.levels
        return (
            (self.part, self.forest.trees, self.forest.axes) == (part, forest.trees, forest.axes)
            and len(walked) <= len(forest.levels)
            and all(_equal_levels(mine, theirs) for mine, theirs in zip(walked, forest.levels, strict=False))
        )


def _equal_levels(one: Level, other: Level) -> bool:
    return (
        np.array_equal(one.axis, other.axis)
        and np.array_equal(one.arity, other.arity)
        and np.array_equal(one.planes, other.planes)
    )


def _narrow_source(source: Source, bounds: Mapping[str, tuple[float, float]]) -> Source:
    return replace(source, schema=source.schema.with_bounds(bounds), cached_rows="")


def _many(forest: Forest, shared: bool) -> bool:
    """Whether each row walks several trees: it would be kept once for each of them, so it is not."""
    return shared and forest.trees > 1


def _flat(forest: Forest) -> bool:
    """Whether no tree has more than one split, and some have one."""
    return forest.depth > 0 and bool((forest.levels[0].axis != PASS).any()) and _passes_all_on(forest.levels[1:])


def _passes_all_on(levels: Sequence[Level]) -> bool:
    return all((level.axis == PASS).all() for level in levels)


def add_on_grid(grid: Counts, groups: Arrays, *keys: str) -> None:
    """Add the rows of each group to its cell of a public grid; groups outside the grid are left out.

    A sound statement has no group outside, and no two for one cell. A broken one must not be an error here, nor
    overwrite a count: whether a row gets there depends on the rows.
    """
    places = tuple(groups[key].astype(np.int64) for key in keys)
    inside = np.ones(len(groups["rows"]), bool)
    for place, size in zip(places, grid.shape, strict=True):
        inside &= (place >= 0) & (place < size)
    np.add.at(grid, tuple(place[inside] for place in places), groups["rows"][inside].astype(np.int64))
