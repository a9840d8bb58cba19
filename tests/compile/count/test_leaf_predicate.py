"""The readable WHERE of a leaf is exact at every edge, and NULL, NaN and infinities satisfy one leaf only."""

from __future__ import annotations

import math

import pytest

from dpsql.engines.base import Engine
from dpsql.schema import Numeric, Schema
from dpsql.trees.grid import axes
from tests.compile.running import one_by_one
from tests.rows import BOUNDS, SPECIAL, Table, any_forest, create, naive_counts, source_of


@pytest.mark.parametrize("null", ["lower", "upper"])
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_predicates_are_exact_at_every_edge(engine: Engine, bounds: tuple[float, float], null: str) -> None:
    """At each edge, at the floats beside it, and at NULL, NaN and infinities, one leaf's WHERE holds: the right one."""
    feature = Numeric("x", *bounds, cells=20, null=bounds[null == "upper"])
    schema = Schema("label", ("no", "yes"), (feature,))
    beside = [math.nextafter(edge, side) for edge in feature.edges for side in (-math.inf, math.inf)]
    numbers = [*feature.edges, *beside, *SPECIAL]
    made = Table({"x": "DOUBLE", "label": "VARCHAR"}, {"x": numbers, "label": ["no"] * len(numbers)})
    create(engine, "people", made)
    for seed in range(3):
        forest = any_forest(axes(schema), trees=2, depth=2, seed=seed, wide=8)
        assert one_by_one(engine, source_of(schema), forest) == naive_counts(schema, forest, made.rows)
