"""The public schema: domains, cells, edges, and the refusal of whatever does not hold together."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dpsql.errors import SchemaError
from dpsql.schema import Boolean, Categorical, Numeric, Schema, Unit, category_text

GOOD: dict[str, Any] = {
    "label": "y",
    "classes": ["no", "yes"],
    "features": {"x": {"type": "numeric", "lower": 0, "upper": 1}, "c": {"type": "categorical", "values": ["a"]}},
}
numbers = st.floats(allow_nan=False, allow_infinity=False)


def changed(**changes: object) -> dict[str, Any]:
    """Return the good schema with some of its keys changed."""
    return {**GOOD, **changes}


def feature(**details: object) -> dict[str, Any]:
    """Return the good schema with one feature x of these details."""
    return changed(features={"x": details})


@given(numbers, numbers, st.integers(2, 64), numbers)
@example(-64.0, 64.0, 64, 0.0)
@example(-1e308, 1e307, 64, 0.0)
def test_edges_and_cells_agree(lower: float, upper: float, cells: int, number: float) -> None:
    """A number lies below an edge exactly when its cell is below the edge's cell."""
    assume(lower < upper)
    try:
        grid = Numeric("x", lower, upper, cells)
    except SchemaError:
        assume(False)
    assert grid.cell(number) == sum(number >= edge for edge in grid.edges)


@given(numbers, numbers, st.integers(2, 64))
def test_edges_rise(lower: float, upper: float, cells: int) -> None:
    """The edges of a grid that is accepted rise strictly and lie within the bounds."""
    assume(lower < upper)
    try:
        edges = Numeric("x", lower, upper, cells).edges
    except SchemaError:
        assume(False)
    assert list(edges) == sorted(set(edges))
    assert lower < edges[0]
    assert edges[-1] <= upper


def test_edges_around_zero_come_at_once() -> None:
    """A grid that spans zero has its edges at once, though floats are dense around zero."""
    assert len(Numeric("x", -64, 64).edges) == 63


def test_bounds_become_floats() -> None:
    """Whole numbers as bounds give the same grid as floats."""
    assert repr(Numeric("x", 0, 64)) == repr(Numeric("x", 0.0, 64.0))


@pytest.mark.parametrize("number", [-math.inf, -1.0, 0.0])
def test_low_numbers_are_clamped(number: float) -> None:
    """Numbers below the lower bound go into the first cell."""
    assert Numeric("x", 0, 10).cell(number) == 0


@pytest.mark.parametrize("number", [10.0, 11.0, math.inf])
def test_high_numbers_are_clamped(number: float) -> None:
    """Numbers above the upper bound go into the last cell."""
    assert Numeric("x", 0, 10).cell(number) == 63


def test_missing_number_goes_where_null_says() -> None:
    """NaN goes into the cell of the declared null value."""
    grid = Numeric("x", 0, 64, null=5)
    assert grid.cell(math.nan) == grid.null_cell == 5


def test_unknown_category_has_a_cell_of_its_own() -> None:
    """A value that is not declared goes into the cell after the last value."""
    assert Categorical("c", ("a", "b")).cell("z") == 2


def test_unknown_category_goes_where_declared() -> None:
    """A value that is not declared goes where `unknown` says."""
    assert Categorical("c", ("a", "b"), unknown="b").cell("z") == 1


def test_boolean_cells() -> None:
    """False and true, as Python's own or as text, are the two cells of a boolean."""
    assert [Boolean("f").cell(value) for value in (False, True, "true", None)] == [0, 1, 1, 2]


@pytest.mark.parametrize(("value", "text"), [(1.0, "1"), (True, "true"), (1.5, "1.5"), (None, None), ("", "")])
def test_category_text(value: object, text: str | None) -> None:
    """Categories are compared by a text that whole floats and booleans share with SQL."""
    assert category_text(value) == text


@pytest.mark.parametrize("bound", [10**400, -(10**400), math.nan, math.inf, True, "1", None, [1], {}])
@pytest.mark.parametrize("name", ["lower", "upper"])
def test_bad_bound_is_refused(name: str, bound: object) -> None:
    """A bound that is not a finite number is a SchemaError."""
    details = {"type": "numeric", "lower": 0, "upper": 1, name: bound}
    with pytest.raises(SchemaError, match="bounds|finite number"):
        Schema.from_dict(feature(**details))


@pytest.mark.parametrize(
    ("lower", "upper"), [(1, 1), (2, 1), (0, 5e-324), (-1.7e308, 1.7e308), (1e16, 1e16 + 20), (-(10**308), 10**308)]
)
def test_impossible_range_is_refused(lower: float, upper: float) -> None:
    """A range that is empty, too narrow or too wide for its cells is refused when it is declared."""
    with pytest.raises(SchemaError, match="lower|range"):
        Numeric("x", lower, upper)


BAD: dict[str, object] = {
    "not a mapping": [1],
    "nothing": None,
    "text": "label",
    "no label": {"classes": [0, 1], "features": {}},
    "no label value": changed(label=None),
    "boolean label": changed(label=True),
    "list label": changed(label=["y"]),
    "empty label": changed(label=""),
    "NUL label": changed(label="a\x00"),
    "surrogate label": changed(label="\ud800"),
    "long label": changed(label=10**5000),
    "unknown key": changed(labels="y"),
    "odd key": changed(features={None: {"type": "boolean"}}),
    "tuple key": {**GOOD, (1, 2): 3},
    "classes as text": changed(classes="no"),
    "classes as bytes": changed(classes=b"no"),
    "one class": changed(classes=["no"]),
    "class twice": changed(classes=["1", 1]),
    "class missing": changed(classes=["no", None]),
    "class NaN": changed(classes=["no", math.nan]),
    "class nested": changed(classes=["no", ["yes"]]),
    "class mapping": changed(classes=["no", {"a": 1}]),
    "class too long": changed(classes=["no", 10**5000]),
    "class with NUL": changed(classes=["no", "\x00"]),
    "class with surrogate": changed(classes=["no", "\udfff"]),
    "no features": changed(features={}),
    "features as list": changed(features=["x"]),
    "feature as text": changed(features={"x": "numeric"}),
    "type as list": feature(type=["numeric"]),
    "type unknown": feature(type="text"),
    "type missing": feature(lower=0, upper=1),
    "values missing": feature(type="categorical"),
    "values empty": feature(type="categorical", values=[]),
    "values as mapping to a list": feature(type="categorical", values={"a": ["b"]}),
    "stored text that is another word": feature(type="categorical", values={"a": "b", "b": "a"}),
    "stored text twice": feature(type="categorical", values={1: "a", "1": "b"}),
    "values as empty mapping": feature(type="categorical", values={}),
    "values nested": feature(type="categorical", values=[["a"]]),
    "null not a value": feature(type="categorical", values=["a"], null="b"),
    "null nested": feature(type="categorical", values=["a"], null=["a"]),
    "null too long": feature(type="categorical", values=["a"], null=10**5000),
    "number null as text": feature(type="numeric", lower=0, upper=1, null="0"),
    "cells as text": feature(type="numeric", lower=0, upper=1, cells="8"),
    "cells as boolean": feature(type="numeric", lower=0, upper=1, cells=True),
    "one cell": feature(type="numeric", lower=0, upper=1, cells=1),
    "too many cells": feature(type="numeric", lower=0, upper=1, cells=65),
    "label as feature": changed(label="X"),
    "columns twice": changed(features={"x": {"type": "boolean"}, "X": {"type": "boolean"}}),
    "unit as number": changed(privacy_unit=3),
    "unit without rows": changed(privacy_unit="person"),
    "unit without column": changed(privacy_unit={"column": None, "max_rows": 1}),
    "unit rows zero": changed(privacy_unit={"column": "p", "max_rows": 0}),
    "unit rows text": changed(privacy_unit={"column": "p", "max_rows": "many"}),
    "unit is a feature": changed(privacy_unit={"column": "x", "max_rows": 1}),
    "rows as text": changed(rows="many"),
    "rows zero": changed(rows=0),
    "rows huge": changed(rows=10**400),
    "partition as list": changed(partition=["a"]),
    "partition empty": changed(partition=""),
    "partition is the label": changed(partition="y"),
}


@pytest.mark.parametrize("declared", BAD.values(), ids=BAD.keys())
def test_bad_schema_is_refused(declared: Any) -> None:
    """Whatever does not hold together is a SchemaError, never an error of another kind."""
    with pytest.raises(SchemaError):
        Schema.from_dict(declared)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(scalars, inner, max_size=3), max_leaves=6
)


@given(st.sampled_from(["label", "classes", "features", "privacy_unit", "rows", "partition", "batch"]), anything)
def test_any_part_gives_a_schema_or_a_schema_error(key: str, value: object) -> None:
    """Any value for any key is either accepted or a SchemaError."""
    try:
        result: object = Schema.from_dict(changed(**{key: value}))
    except SchemaError as error:
        result = error
    assert isinstance(result, Schema | SchemaError)


@given(st.sampled_from(["type", "lower", "upper", "cells", "null", "values", "unknown"]), anything)
def test_any_feature_detail_gives_a_schema_or_a_schema_error(key: str, value: object) -> None:
    """Any value for any detail of a feature is either accepted or a SchemaError."""
    for details in ({"type": "numeric", "lower": 0, "upper": 1}, {"type": "categorical", "values": ["a"]}):
        try:
            result: object = Schema.from_dict(feature(**{**details, key: value}))
        except SchemaError as error:
            result = error
        assert isinstance(result, Schema | SchemaError)


def test_plain_values_come_back_the_same() -> None:
    """A schema written as plain values is read back the same."""
    schema = Schema(
        "y", ("0", "1"), (Numeric("x", -1, 1, 8, null=0), Categorical("c", ("a", "b"), "a", "b"), Boolean("f")),
        unit=Unit("person", 3), rows=100, partition="ticket", batch="month",
    )  # fmt: skip
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_a_schema_without_batches_does_not_speak_of_them() -> None:
    """The key is left out where there is no batch column, and null is as good as leaving it out."""
    assert "batch" not in Schema.from_dict(GOOD).to_dict()
    assert Schema.from_dict(changed(batch=None)) == Schema.from_dict(GOOD)


@pytest.mark.parametrize("batch", ["y", "Y", "a=b", "=", "", "a\0b", True, ["month"], {"column": "month"}], ids=ascii)
def test_a_bad_batch_column_is_refused(batch: object) -> None:
    """A batch column is a column's name, not the label's, and without a =, which separates it from its value."""
    with pytest.raises(SchemaError):
        Schema.from_dict(changed(batch=batch))


@pytest.mark.parametrize("batch", ["month", "x", "c", 'the month\'s "name"'])
def test_any_other_column_may_be_the_batch_column(batch: str) -> None:
    """A feature may be it too, and odd names are kept as they are."""
    assert Schema.from_dict(changed(batch=batch)).batch == batch


def test_unit_called_row_is_not_the_row() -> None:
    """A unit column that is called row comes back as that column."""
    schema = Schema("y", ("0", "1"), (Boolean("f"),), unit=Unit("row", 2))
    assert Schema.from_dict(schema.to_dict()).unit.column == "row"


def test_neighbours_are_told() -> None:
    """The neighbour relation names the unit and how many of its rows are used."""
    assert Unit("person", 3).neighbours == 'add or remove all rows of one "person" (at most 3 are used)'


@pytest.mark.parametrize("key", ["ignore", "source", "nulls", "file", "class_counts", "max_rows_per_unit", "columns"])
def test_keys_beyond_the_grammar_are_refused(key: str) -> None:
    """A key that would do nothing is an error, and the message names the keys of the grammar alone."""
    with pytest.raises(SchemaError, match=f'"{key}" is not known') as refused:
        Schema.from_dict(changed(**{key: ["x"]}))
    known = refused.value.message.rpartition("Known: ")[2].rstrip(".").split(", ")
    assert set(known) == {
        "label", "classes", "target", "features", "privacy_unit", "rows", "partition", "batch", "public_features",
        "disjoint_from", "conditions", "looked_up", "public_tables", "description",
    }  # fmt: skip


@pytest.mark.parametrize("key", ["lo", "hi", "domain_from", "mrf_cutoffs", "ordinal"])
def test_keys_of_a_feature_beyond_the_grammar_are_refused(key: str) -> None:
    """A feature has its type, domain and remark, and nothing else."""
    with pytest.raises(SchemaError, match=f'"{key}" is not known'):
        Schema.from_dict(feature(type="numeric", lower=0, upper=1, **{key: 1}))


@pytest.mark.parametrize(("given", "meant"), [("lable", '"label"'), ("clases", '"classes"'), ("row", '"rows"')])
def test_a_typo_is_answered_with_the_nearest_key(given: str, meant: str) -> None:
    """The message offers the key that was meant."""
    with pytest.raises(SchemaError, match=f"Did you mean .*{meant}"):
        Schema.from_dict(changed(**{given: "y"}))


def test_a_description_is_a_remark_and_nothing_else() -> None:
    """It may stand in the schema and in a feature, and changes nothing."""
    plain = feature(type="boolean")
    described = {**feature(type="boolean", description="insured or not"), "description": "people"}
    assert Schema.from_dict(described) == Schema.from_dict(plain)


def test_a_unit_needs_its_column_and_most_rows_in_a_mapping() -> None:
    """A bare name is refused: it would not say how many rows of a unit are used."""
    with pytest.raises(SchemaError, match="privacy_unit must be"):
        Schema.from_dict(changed(privacy_unit="person"))


def test_conditions_come_back_as_they_were() -> None:
    """Conditions have an order, names and texts, and are found by name in any letter case."""
    declared = {"label": "y", "classes": ["a", "b"], "features": {"x": {"type": "boolean"}}}
    schema = Schema.from_dict(declared | {"conditions": {"young": "x = TRUE", "Old": "x IS NULL"}})
    assert Schema.from_dict(schema.to_dict()) == schema
    assert (schema.condition("YOUNG"), schema.condition("old"), schema.condition("x")) == (
        "x = TRUE",
        "x IS NULL",
        None,
    )


@pytest.mark.parametrize(
    "conditions",
    [[], "x", {"a b": "x IS NULL"}, {"": "x IS NULL"}, {"a": 1}, {"a": None}, {"a": "x", "A": "y"}, {"a": "\0"}],
)
def test_conditions_need_plain_names_and_texts(conditions: object) -> None:
    """A name that could be taken for a condition, or a condition that is no text, is refused."""
    with pytest.raises(SchemaError):
        Schema.from_dict(
            {"label": "y", "classes": ["a", "b"], "features": {"x": {"type": "boolean"}}, "conditions": conditions}
        )
