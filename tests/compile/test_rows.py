"""The packed words of a row hold, axis by axis, the cells that plain Python gives."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.compile.rows import pack_rows
from dpsql.compile.vocabulary import double
from dpsql.engines.base import Engine
from dpsql.schema import Numeric, Schema
from dpsql.trees.grid import axes
from tests.compile.running import KEYS
from tests.rows import BOUNDS, SPECIAL, Table, class_of, create, one_cell, random_table, schemas, source_of

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def sql_cells(engine: Engine, schema: Schema, made: Table) -> list[list[int]]:
    """Return the cell of each row on each axis as SQL packs them, in the order of the table."""
    with engine.transaction() as transaction:
        rows = transaction.rows(pack_rows(source_of(schema, made=made), engine.vocabulary, KEYS))
    places = [divmod(axis, 10) for axis in range(len(axes(schema)))]
    return [[row[f"word_{word}"] >> (6 * place) & 63 for word, place in places] for row in rows]


def python_cells(schema: Schema, row: dict[str, Any]) -> list[int]:
    """Return the cell of one row on each axis."""
    cells = [one_cell(feature, row[feature.name]) for feature in schema.features]
    return [cells[axis.feature] // 64**axis.digit % 64 for axis in axes(schema)]


@settings(max_examples=15)
@given(schema=schemas(), seed=st.integers(0, 2**32 - 1))
def test_words_hold_the_cells_of_any_table(engine: Engine, schema: Schema, seed: int) -> None:
    """For any schema and table the words, read back by six bits, are the cells of plain Python."""
    made = random_table(schema, 40, seed)
    create(engine, "people", made)
    expected = [python_cells(schema, row) for row in made.rows if class_of(schema, row) is not None]
    assert sql_cells(engine, schema, made) == expected


@pytest.mark.parametrize("cells", [64, 63, 10, 3])
def test_words_are_exact_at_every_edge(engine: Engine, cells: int) -> None:
    """At each edge of huge, tiny and lopsided ranges, and at the floats beside it, SQL and Python agree."""
    features = tuple(Numeric(f"x{k}", *bounds, cells=cells) for k, bounds in enumerate(BOUNDS))
    schema = Schema("label", ("no", "yes"), features)
    columns: dict[str, list[Any]] = {}
    for feature in features:
        edges = [feature.lower, *feature.edges, feature.upper]
        columns[feature.name] = [
            number
            for edge in edges
            for number in (math.nextafter(edge, -math.inf), edge, math.nextafter(edge, math.inf))
        ] + SPECIAL
    columns["label"] = ["no"] * len(columns["x0"])
    made = Table(dict.fromkeys(columns, "DOUBLE") | {"label": "VARCHAR"}, columns)
    create(engine, "people", made)
    assert sql_cells(engine, schema, made) == [python_cells(schema, row) for row in made.rows]


@given(number=FINITE | st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, 0.1, 1e16, 123456789.0]))
def test_double_literals_come_back_the_same(engine: Engine, number: float) -> None:
    """A number written as SQL is the same double when the database reads it, to the last bit."""
    with engine.transaction() as transaction:
        [row] = transaction.rows(f"SELECT {double(number).sql('duckdb')} AS n, typeof(n) AS kind")
    assert (row["n"], row["kind"]) == (number, "DOUBLE")
