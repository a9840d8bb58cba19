"""Exact counts: the one place where they enter Python. Only `kernel/session.py` may call this, and keeps nothing.

Every statement passes `compile/check.py`. What comes back from the database are non-empty groups; here they are laid
out on the full public grid, zeros included, before anything else happens to them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.compile import counts, splits
from dpsql.compile.check import check
from dpsql.compile.counts import Part, Slice, Statement
from dpsql.compile.source import Source, Tickets
from dpsql.engines.base import Arrays, Engine
from dpsql.kernel.batches import batches
from dpsql.mechanisms.rng import random_key
from dpsql.schema import CELLS
from dpsql.trees.forest import Forest

Counts = NDArray[np.int64]


class Rows:
    """The private rows of one session, under ticket keys drawn for it and forgotten with it."""

    def __init__(self, engine: Engine, source: Source) -> None:
        self._engine = engine
        self._source = source
        self._tickets = Tickets(tuple(random_key() >> 1 for _ in range(3)))
        self._classes = len(source.schema.classes)

    def __repr__(self) -> str:
        return "<private rows>"

    def size(self, part: Part) -> int:
        """Return the exact number of rows that count. One scan."""
        statement = counts.row_count(self._source, self._engine.vocabulary, self._tickets, part)
        return int(self._run(statement)["rows"][0])

    def leaf_counts(self, forest: Forest, part: Part, *, shared: bool) -> Counts:
        """Return the exact count of each (leaf, class) of the full grid. One scan per batch of trees."""
        found = np.zeros((forest.leaves, self._classes), np.int64)
        for first, last in batches(forest, self._classes):
            trees = Slice(shared, first, forest.trees)
            batch = forest if (first, last) == (0, forest.trees) else forest.part(first, last)
            statement = counts.leaf_counts(self._source, batch, self._engine.vocabulary, self._tickets, trees, part)
            groups = _on_grid(self._run(statement), "leaf", batch.leaves)
            found[forest.first_leaf[first] + groups["leaf"], groups["class"]] = groups["rows"]
        return found

    def histograms(self, forest: Forest, axes: Sequence[int], part: Part, *, shared: bool, by_class: bool) -> Counts:
        """Return the exact count of each (leaf, axis, cell, class) of the full grid (one class when not by class)."""
        statement = splits.histograms(
            self._source,
            forest,
            self._engine.vocabulary,
            self._tickets,
            Slice(shared, 0, forest.trees),
            axes,
            by_class=by_class,
            part=part,
        )
        groups = _on_grid(self._run(statement), "node", forest.leaves)
        found = np.zeros((forest.leaves, len(axes), CELLS, self._classes if by_class else 1), np.int64)
        place = np.full(len(forest.axes), -1)
        place[list(axes)] = np.arange(len(axes))
        classes = groups["class"] if by_class else 0
        found[groups["node"], place[groups["axis"]], groups["cell"], classes] = groups["rows"]
        return found

    def _run(self, statement: Statement) -> Arrays:
        check(statement.query)
        return self._engine.aggregate(statement.query, statement.tables)


def _on_grid(groups: Arrays, key: str, count: int) -> Arrays:
    """Leave out groups past the last leaf.

    A sound forest has none. A broken one must not be an error here: whether a row gets there depends on the rows.
    """
    kept = groups[key] < count
    return {name: values[kept] for name, values in groups.items()}
