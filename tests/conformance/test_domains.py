"""Exact counts behind bought domains, on every engine, against plain Python; and no cell makes them fail."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dpsql.compile.rows import EVERY_UNIT
from dpsql.engines.base import Engine
from dpsql.errors import SchemaError
from dpsql.kernel.datasets.dataset import resolve, source
from dpsql.kernel.exact import Rows
from dpsql.schema import WIDE_HASH_CELLS, Categorical, Numeric, Schema, category_text, hashed_cell
from dpsql.trees.magnitude_grid import EDGES, MAGNITUDES, MISSING, magnitude
from tests.conformance.tables import possible, put, source_in
from tests.conformance.test_counts import enough
from tests.conformance.test_extremes import extremes, names  # noqa: F401  (a fixture)
from tests.rows import Table, class_of, random_table, schemas
from tests.tables import dataset_of

_FEW = settings(max_examples=12, suppress_health_check=list(HealthCheck))
#: Numbers at, just below and just above every edge of the grid, and the odd ones.
BORDERS = [
    *(number for edge in EDGES for number in (edge, np.nextafter(edge, -np.inf), np.nextafter(edge, np.inf))),
    0.0, -0.0, 5e-324, 1.7e308, -1.7e308, float("inf"), float("-inf"), float("nan"), None,
]  # fmt: skip


def expected_magnitudes(numbers: list[Any]) -> np.ndarray:
    """Return how many numbers each cell has, by the definition."""
    counted = Counter(magnitude(float("nan") if number is None else float(number)) for number in numbers)
    return np.array([counted[cell] for cell in range(MAGNITUDES)])


def expected_hashes(values: list[Any]) -> np.ndarray:
    """Return how many values each cell of the wide hash has, NULL the last one."""
    counted = Counter(hashed_cell(value, WIDE_HASH_CELLS) for value in values)
    return np.array([counted[cell] for cell in range(WIDE_HASH_CELLS + 1)])


def test_every_border_of_the_grid_is_where_python_has_it(engine: Engine) -> None:
    """Numbers next to each power of two fall into the same cell in SQL and in Python."""
    numbers = [None if number is None else float(number) for number in BORDERS]
    put(engine, "t", Table({"x": "DOUBLE", "y": "VARCHAR"}, {"x": numbers, "y": ["a"] * len(numbers)}))
    schema = Schema("y", ("a", "b"), (Numeric("x", -1, 1),))
    rows = Rows(engine, source_in(engine, schema, "t"), {})
    try:
        assert (rows.magnitudes(["x"], EVERY_UNIT)[0] == expected_magnitudes(numbers)).all()
    finally:
        rows.close()


@given(schema=schemas(most=8), seed=st.integers(0, 2**20))
@_FEW
def test_magnitudes_and_texts_are_counted_exactly(engine: Engine, schema: Schema, seed: int) -> None:
    """Every column of numbers and every column of texts, of tables with hostile names and values."""
    if enough(engine, "domains"):
        return
    made = random_table(schema, 60, seed)
    assume(possible(engine, made))
    put(engine, "t", made)
    numbers = [feature.name for feature in schema.features if type(feature) is Numeric]
    texts = [feature.name for feature in schema.features if isinstance(feature, Categorical)]
    counted_rows = [row for row in made.rows if class_of(schema, row) is not None]
    rows = Rows(engine, source_in(engine, schema, "t"), {})
    try:
        if numbers:
            counts = rows.magnitudes(numbers, EVERY_UNIT)
            for name, cells in zip(numbers, counts, strict=True):
                assert (cells == expected_magnitudes([row[name] for row in counted_rows])).all()
                assert cells[MISSING] == sum(row[name] is None or row[name] != row[name] for row in counted_rows)
        if texts:
            every = Counter((name, category_text(row[name])) for row in counted_rows for name in texts)
            expected = {key: count for key, count in every.items() if key[1] is not None and count > 2}
            assert rows.common_values(texts, EVERY_UNIT, more_than=2) == expected
            hashes = rows.hash_counts(texts, EVERY_UNIT)
            for name, cells in zip(texts, hashes, strict=True):
                assert (cells == expected_hashes([row[name] for row in counted_rows])).all()
    finally:
        rows.close()


@pytest.mark.parametrize("role", ["numeric", "categorical", "hashed"])
def test_no_cell_makes_a_purchase_fail(extremes: Engine, role: str) -> None:  # noqa: F811
    """A column of any type is refused by its name alone, or counted whatever it holds."""
    domains = {"numeric": {"lower": 0, "upper": 1}, "categorical": {"values": ["?"]}, "hashed": {}}
    feature = {"type": role, **domains[role]}
    accepted = []
    for name in names(extremes):
        try:
            resolve(extremes, "extremes", Schema.from_dict({"label": None, "features": {name: feature}}))
        except SchemaError:
            continue
        accepted.append(name)
    assert accepted
    schema = Schema.from_dict({"label": None, "features": dict.fromkeys(accepted, feature)})
    rows = Rows(extremes, source(extremes, dataset_of(extremes, "extremes", schema)), {})
    try:
        if role == "numeric":
            counts = rows.magnitudes(accepted, EVERY_UNIT)
            assert len({int(cells.sum()) for cells in counts}) == 1
        elif role == "hashed":
            counts = rows.hash_counts(accepted, EVERY_UNIT)
            assert len({int(cells.sum()) for cells in counts}) == 1
        else:
            assert all(count > 1 for count in rows.common_values(accepted, EVERY_UNIT, more_than=1).values())
    finally:
        rows.close()
