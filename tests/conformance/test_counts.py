"""Exact counts of every kernel operation, on every engine, against a walk through the trees in plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dpsql.compile.count.histograms import Asks
from dpsql.compile.rows import EVERY_UNIT
from dpsql.engines.base import Engine
from dpsql.kernel.exact import Rows
from dpsql.schema import CELLS, Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from tests.conformance.tables import possible, put, source_in
from tests.rows import Table, any_forest, class_of, one_cell, random_table, schemas, walk

_SEEN: Counter[tuple[str, str]] = Counter()
#: A statement takes seconds there, so a few examples must do.
_SLOW = {"spark": 3}
_FEW = settings(max_examples=12, suppress_health_check=list(HealthCheck))


def enough(engine: Engine, test: str) -> bool:
    """Whether a slow engine has seen as many examples of a test as it has time for."""
    _SEEN[engine.dialect, test] += 1
    return _SEEN[engine.dialect, test] > _SLOW.get(engine.dialect, 10**9)


def leaf_counts(schema: Schema, made: Table, forest: Forest) -> np.ndarray:
    """Return the count of each (leaf, class) with every row in every tree."""
    found = np.zeros((forest.leaves, len(schema.classes)), np.int64)
    for row in made.rows:
        label = class_of(schema, row)
        if label is not None:
            for leaf in walk(schema, forest, row):
                found[leaf, label] += 1
    return found


@given(schema=schemas(most=14), seed=st.integers(0, 2**20), trees=st.integers(1, 4), depth=st.integers(0, 4))
@_FEW
def test_every_row_reaches_the_leaf_it_should(
    engine: Engine, schema: Schema, seed: int, trees: int, depth: int
) -> None:
    """Counts of shared trees, of one tree, and of rows that were held packed, are those of the walk."""
    if enough(engine, "leaf counts"):
        return
    made = random_table(schema, 60, seed)
    assume(possible(engine, made))
    put(engine, "t", made)
    forest = any_forest(axes(schema), trees=trees, depth=depth, seed=seed)
    expected = leaf_counts(schema, made, forest)
    rows = Rows(engine, source_in(engine, schema, "t"), {})
    try:
        assert (rows.leaf_counts(forest, EVERY_UNIT, shared=True) == expected).all()
        assert rows.leaf_counts(forest, EVERY_UNIT, shared=False).sum() == expected.sum() // forest.trees
        assert rows.size(EVERY_UNIT) == expected.sum() // forest.trees
        rows.hold()
        assert (rows.leaf_counts(forest, EVERY_UNIT, shared=True) == expected).all()
    finally:
        rows.close()


@given(schema=schemas(most=8), seed=st.integers(0, 2**20), depth=st.integers(0, 3))
@_FEW
def test_histograms_are_exact(engine: Engine, schema: Schema, seed: int, depth: int) -> None:
    """Every cell of every axis at every node of one tree."""
    if enough(engine, "histograms"):
        return
    made = random_table(schema, 60, seed)
    assume(possible(engine, made))
    put(engine, "t", made)
    found = axes(schema)
    forest = any_forest(found, trees=1, depth=depth, seed=seed)
    asks = Asks.of(np.tile(np.arange(len(found)), (forest.leaves, 1)))
    expected = np.zeros((forest.leaves, len(found), CELLS, len(schema.classes)), np.int64)
    for row in made.rows:
        label = class_of(schema, row)
        if label is not None:
            (leaf,) = walk(schema, forest, row)
            for place, axis in enumerate(found):
                feature = schema.features[axis.feature]
                cell = one_cell(feature, row[feature.name]) // CELLS**axis.digit % CELLS
                expected[leaf, place, cell, label] += 1
    rows = Rows(engine, source_in(engine, schema, "t"), {})
    try:
        seen = rows.histograms(forest, asks, EVERY_UNIT, shared=False, by_class=True)
        assert (seen.reshape(expected.shape) == expected).all()
    finally:
        rows.close()
