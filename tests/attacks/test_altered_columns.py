"""A view keeps the types that its columns had when it was made; what is read is the table, as it is now."""

from __future__ import annotations

import pytest

from dpsql.errors import DpsqlError
from dpsql.schema import Schema
from tests.tables import SCHEMA, UNITS, Row, memory, run

PEOPLE: list[Row] = [(k, k / 7, "ab"[k % 2], "no") for k in range(60)]


@pytest.mark.parametrize(
    ("schema", "change"), [(UNITS, "person TYPE DOUBLE"), (SCHEMA, "x TYPE FLOAT")], ids=["units", "rows"]
)
def test_units_do_not_change_sides_when_a_column_behind_a_view_changes_its_type(schema: Schema, change: str) -> None:
    """The text of 1 is then 1.0, and its hash another: a unit that paid in one dataset would pay anew in the other."""
    with memory(PEOPLE, schema=schema, cap=2, holdout="30%") as database:
        run(database.engine, "CREATE VIEW seen AS SELECT person, x, c, y FROM people")
        database.register("seen", schema, cap=2, replace=True)
        database.train("seen", epsilon=0.5, method="rdt", trees=1, depth=1, evaluate=0.5)
        run(database.engine, f"ALTER TABLE people ALTER {change}")
        with pytest.raises(DpsqlError, match="make the view anew"):
            database.train("seen", epsilon=0.5, method="rdt", trees=1, depth=1)
        with pytest.raises(DpsqlError, match='of view "seen" is'):
            database.register("seen", schema, cap=2, replace=True)
        run(database.engine, "CREATE OR REPLACE VIEW seen AS SELECT person, x, c, y FROM people")
        with pytest.raises(DpsqlError, match="was (BIGINT|DOUBLE) when registered"):
            database.train("seen", epsilon=0.5, method="rdt", trees=1, depth=1)
        with pytest.raises(DpsqlError, match="would have other units"):
            database.register("seen", schema, cap=2, replace=True)
        assert database.budget("seen").spent_text == "0.5"
