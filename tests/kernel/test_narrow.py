"""Narrowed ranges: within the declared ones, rows outside clamped and still counted, one schema for SQL and Python."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpsql import methods
from dpsql.compile.count.leaves import EVERY_UNIT, Part
from dpsql.errors import SchemaError
from dpsql.kernel.exact import Rows
from dpsql.kernel.operations import LeafCounts
from dpsql.kernel.plan import Plan, Sequential, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.methods.base import Trained
from dpsql.schema import Categorical, Numeric, Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import axes
from dpsql.trees.grow.one_feature import one_feature_trees
from dpsql.trees.voting import VotingForest
from tests.kernel.helpers import (
    EPSILON,
    exact_histograms,
    exact_leaf_counts,
    held,
    histogram_step,
    leaf_step,
    session,
)
from tests.rows import source_of
from tests.tables import SCHEMA, UNITS, Row, fill, frame_of, memory, rows_of, some_rows

GRID = axes(SCHEMA)
ROOT = Forest(GRID, 1, ())
LEVELS = pytest.mark.parametrize("schema", [SCHEMA, UNITS], ids=["row", "unit"])
MUCH = 10**14


def bins(name: str) -> Step:
    """Return a step for the histogram of x, nearly without noise."""
    return replace(histogram_step(ROOT, [1], 3, shared=False), name=name, nano_epsilon=MUCH)


@pytest.mark.parametrize(
    "bounds",
    [(-1, 8), (8, 65), (8, 8), (9, 8), (float("nan"), 8), (8, float("nan")), (float("-inf"), 8), (8, float("inf"))],
)
def test_only_narrower_ranges_are_taken(bounds: tuple[float, float]) -> None:
    """Bounds beyond the declared ones, empty or turned ranges and NaN are refused, and the schema stays."""
    opened = session(held(some_rows()), bins("bins"))
    with pytest.raises(SchemaError):
        opened.narrow({"x": bounds})
    assert opened.schema == opened._rows._source.schema == SCHEMA


def test_a_category_is_not_narrowed() -> None:
    """Only numbers have bounds."""
    with pytest.raises(SchemaError):
        session(held(some_rows()), bins("bins")).narrow({"c": (0, 1)})


def test_a_narrowed_range_cannot_be_widened_again() -> None:
    """The second time the narrowed bounds are the declared ones."""
    opened = session(held(some_rows()), bins("bins"))
    opened.narrow({"x": (8, 16)})
    with pytest.raises(SchemaError):
        opened.narrow({"x": (0, 64)})
    opened.narrow({"x": (10, 12)})
    assert opened.schema.features[1] == Numeric("x", 10, 12)


@LEVELS
def test_rows_outside_are_clamped_and_still_count(schema: Schema) -> None:
    """Every row stays in the histogram: those below in the first cell, those above in the last."""
    database = held(some_rows(60), schema=schema)
    opened = session(database, Sequential((bins("wide"), bins("narrow"))))
    wide = opened.histograms("wide", ROOT, [1])[0, 0]
    opened.narrow({"x": (16, 32)})
    narrow = opened.histograms("narrow", ROOT, [1])[0, 0]
    assert narrow.sum(axis=0).tolist() == wide.sum(axis=0).tolist()
    assert narrow[0].sum() >= wide[:16].sum() > 0
    assert narrow[63].sum() >= wide[32:].sum() > 0
    # Four new cells are one old one.
    assert narrow[4:60].reshape(14, 4, 3).sum(axis=1).tolist() == wide[17:31].tolist()


def test_what_was_kept_with_other_cells_is_not_used_again() -> None:
    """After a histogram rows wait in the database with their cells; narrowed, all steps see the new cells."""
    database = held(some_rows(60))
    forest = one_feature_trees(GRID, 64)
    counts = replace(leaf_step("leaf_counts", forest, 3, shared=True), nano_epsilon=MUCH)
    opened = session(database, Sequential((bins("wide"), bins("narrow"), counts)))
    opened.histograms("wide", ROOT, [1])
    assert opened._rows._node_rows is not None
    opened.narrow({"x": (16, 32)})
    found = opened.histograms("narrow", ROOT, [1])
    assert np.array_equal(found, exact_histograms(database, opened, ROOT, [1], shared=False))
    assert np.array_equal(
        opened.leaf_counts("leaves", forest), exact_leaf_counts(database, opened, forest, shared=True)
    )


def test_without_bounds_nothing_changes() -> None:
    """Features that are not named keep their ranges; a feature that is not there has none."""
    opened = session(held(some_rows()), bins("bins"))
    opened.narrow({})
    opened.narrow({"z": (0, 1)})
    assert opened.schema == SCHEMA


def test_each_side_keeps_its_own_label_and_unit() -> None:
    """A side may be another table: its bounds are narrowed too, and nothing else of its schema changes."""
    database = held([(k, 1.0, "a", "no") for k in range(30)], schema=UNITS)
    other: list[Row] = [(5, float(k), "a", "no") for k in range(10)]
    fill(database.engine, "others", other)
    # The same column is the unit here, and two rows of each are used.
    own = replace(UNITS, unit=replace(UNITS.unit, max_rows=2))
    rows = Rows(database.engine, database.source, {"unlabelled": source_of(own, "others")})
    rows.narrow({"x": (8, 16)})
    assert rows._sides["unlabelled"].schema == own.with_bounds({"x": (8, 16)})
    assert (rows.size(EVERY_UNIT), rows.size(Part(side="unlabelled"))) == (30, 2)
    rows.close()


class Narrowing:
    """A method that narrows x and counts its bins, to see what its model carries."""

    @staticmethod
    def train(session: Session) -> Trained:
        """Return a forest whose leaves vote with their counts."""
        session.narrow({"x": (16, 32)})
        forest = one_feature_trees(axes(session.schema), 16).tree(1)
        return Trained(VotingForest(forest, session.leaf_counts("counts", forest)))


@LEVELS
def test_a_model_carries_the_narrowed_schema(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its schema has the narrowed bounds and the declared unit; SQL and Python predict alike inside and outside."""
    rows: list[Row] = [(k, k % 64 + 0.25, "ab"[k % 2], "yes" if 20 <= k % 64 < 27 else "no") for k in range(640)]
    method = methods.get("rdt")
    step = Step("counts", LeafCounts(), 100 * EPSILON, cells=16 * 3)
    monkeypatch.setattr(
        method, "plan", lambda schema, nano, parameters, promise: Plan("rdt", step, Promise(schema.unit))
    )
    monkeypatch.setattr(method, "train", Narrowing.train)
    with memory(rows, schema=schema) as database:
        model = database.train("people", method="rdt", epsilon=100, name="m")
        stored = database.model("m")
        assert model.schema == stored.schema == schema.with_bounds({"x": (16, 32)})
        assert model.schema.unit == schema.unit
        assert stored.schema.features == (Categorical("c", ("a", "b")), Numeric("x", 16, 32))
        odd: list[Row] = [*rows[:64], *some_rows(), (1, -5.0, "a", "no"), (2, 31.99, "b", "no"), (3, 32.0, "b", "no")]
        fill(database.engine, "fresh", [(number, *row[1:]) for number, row in enumerate(odd)])
        found = stored.predict("fresh", key="person").sort_values("person")["prediction"].tolist()
        assert found == stored.predict(frame_of(odd)).tolist() == model.predict(frame_of(odd)).tolist()
        assert found[:64] == ["yes" if 20 <= k < 27 else "no" for k in range(64)]
        view = rows_of(database.engine, f"SELECT person, prediction FROM ({stored.sql('select', table='fresh')})")
        assert [row["prediction"] for row in sorted(view, key=lambda row: int(row["person"]))] == found
        # The registered schema is the owner's, and stays.
        assert database.plan("people", method="auto").promise == Promise(schema.unit)
