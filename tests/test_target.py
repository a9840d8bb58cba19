"""A numeric target in a schema: bounds and steps, files, drafts, and the refusal of whatever does not hold together."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.api.database import connect
from dpsql.errors import SchemaError
from dpsql.schema import DEFAULT_STEPS, Numeric, Schema, Target, schema_file
from tests.tables import TARGET, memory, run

FEATURES = {"x": {"type": "numeric", "lower": 0, "upper": 1}}
bounds = st.floats(-1e12, 1e12)


def declared(**changes: object) -> dict[str, Any]:
    """Return a schema with a target, some of its keys changed; None takes a key away."""
    whole = {"label": "y", "target": {"lower": 0, "upper": 9}, "features": FEATURES, **changes}
    return {key: value for key, value in whole.items() if value is not None}


def test_a_schema_may_have_a_target_instead_of_classes() -> None:
    """A target gives bounds and steps, no classes, and two values for each leaf."""
    schema = Schema.from_dict(declared())
    assert (schema.target, schema.classes, schema.leaf_values) == (Target(0.0, 9.0, DEFAULT_STEPS), (), 2)
    assert schema.steps == DEFAULT_STEPS


@pytest.mark.parametrize("steps", [DEFAULT_STEPS, 7])
def test_what_is_written_is_read_back_the_same(steps: int) -> None:
    """Plain values and YAML keep the target."""
    schema = Schema("y", (), (Numeric("x", 0, 1),), target=Target(-1.5, 1e6, steps))
    assert Schema.from_dict(schema.to_dict()) == schema
    assert schema_file.loads(schema_file.dump(schema)) == schema


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": ["a", "b"]}, "not both"),
        ({"target": None}, 'no "classes"'),
        ({"target": 5}, "public bounds"),
        ({"target": {"lower": 0}}, "public bounds"),
        ({"target": {"lower": 1, "upper": 1}}, "must be below"),
        ({"target": {"lower": 2, "upper": 1}}, "must be below"),
        ({"target": {"lower": "0", "upper": 1}}, "finite"),
        ({"target": {"lower": True, "upper": 3}}, "finite"),
        ({"target": {"lower": 0, "upper": math.inf}}, "finite"),
        ({"target": {"lower": math.nan, "upper": 1}}, "finite"),
        ({"target": {"lower": -1e308, "upper": 1e308}}, "too wide"),
        ({"target": {"lower": 0, "upper": 5e-324}}, "too narrow"),
        ({"target": {"lower": 0, "upper": 1, "steps": 1}}, "from 2"),
        ({"target": {"lower": 0, "upper": 1, "steps": 2**20 + 1}}, "from 2"),
        ({"target": {"lower": 0, "upper": 1, "steps": 10.0}}, "from 2"),
        ({"target": {"lower": 0, "upper": 1, "steps": True}}, "from 2"),
        ({"target": {"lower": 0, "upper": 1, "cells": 3}}, '"cells" is not known'),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(changes: dict[str, Any], words: str) -> None:
    """The message says what is wrong."""
    with pytest.raises(SchemaError, match=words):
        Schema.from_dict(declared(**changes))


@given(lower=bounds, width=st.floats(1e-3, 1e12), steps=st.integers(2, 2**20), number=st.floats())
def test_every_number_has_a_step_within_the_bounds(lower: float, width: float, steps: int, number: float) -> None:
    """A step is a whole number from 0 to `steps`, None for NaN alone; the bounds are the first and the last."""
    target = Target(lower, lower + width, steps)
    step = target.step(number)
    assert (step is None) == math.isnan(number)
    assert step is None or 0 <= step <= steps
    assert (target.step(target.lower), target.step(target.upper)) == (0, steps)
    assert (target.step(-math.inf), target.step(math.inf)) == (0, steps)


@given(steps=st.integers(2, 1000), number=st.floats(0, 1))
def test_a_step_is_at_most_half_a_step_off(steps: int, number: float) -> None:
    """Rounding moves a number by no more than half a step."""
    step = Target(0, 1, steps).step(number)
    assert step is not None
    assert abs(step / steps - number) <= 0.5 / steps + 1e-12


@pytest.mark.parametrize("kind", ["VARCHAR", "BOOLEAN", "DATE"])
def test_a_target_must_be_a_number(kind: str) -> None:
    """Registering a column that holds no numbers as a target is refused."""
    with connect(":memory:") as database:
        run(database.engine, f"CREATE TABLE people (x DOUBLE, c VARCHAR, y {kind}, person BIGINT)")
        with pytest.raises(SchemaError, match="a numeric target must be integer or real"):
            database.register("people", TARGET, cap=1)


@pytest.mark.parametrize("kind", ["TINYINT", "HUGEINT", "FLOAT", "DECIMAL(18,3)"])
def test_a_target_may_be_any_number(kind: str) -> None:
    """Integers, floats and decimals can be targets."""
    with connect(":memory:") as database:
        run(database.engine, f"CREATE TABLE people (x DOUBLE, c VARCHAR, y {kind}, person BIGINT)")
        assert database.register("people", TARGET, cap=1).schema.target == TARGET.target


def test_a_registered_target_is_found_again() -> None:
    """The ledger keeps the target with the schema."""
    with memory(schema=TARGET) as database:
        assert database.plan("people", method="rdt", depth=1).steps[-1].row_weight == 100


def test_a_draft_asks_for_the_bounds_of_a_real_label() -> None:
    """A label of a real type becomes a target: bounds from a CHECK, else a gap to fill in."""
    with connect(":memory:") as database:
        run(database.engine, "CREATE TABLE t (x BOOLEAN, price DOUBLE CHECK (price BETWEEN 0 AND 90), weight DOUBLE)")
        text = database.draft("t", label="price").text.replace("???", "1").replace("upper: 1", "upper: 2")
        assert schema_file.loads(text).target == Target(0, 90)
        with pytest.raises(SchemaError, match="target: lower is still the placeholder"):
            schema_file.loads(database.draft("t", label="weight").text)


def test_a_draft_tells_of_targets_where_the_label_is_an_integer() -> None:
    """An integer may be a class or a number: the draft says how to write the latter."""
    with connect(":memory:") as database:
        run(database.engine, "CREATE TABLE t (x BOOLEAN, age INTEGER)")
        draft = database.draft("t", label="age").text
        assert "target: {lower: 0, upper: 100}" in draft
        assert "classes: ???" in draft
