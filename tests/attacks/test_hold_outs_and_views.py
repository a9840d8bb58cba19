"""A view over several tables cannot take the place of a table with a hold-out: it would read the hold-out's units."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpsql.errors import UsageError
from dpsql.kernel.datasets.dataset import registered_datasets
from dpsql.schema import Unit
from tests.tables import SCHEMA, Row, memory, run

PEOPLE: list[Row] = [(k, float(k), "ab"[k % 2], "no") for k in range(60)]
UNITS = replace(SCHEMA, unit=Unit("person", 2))
QUERY = "SELECT person, x, c, y FROM people"
JOINED = "SELECT p.person, p.x, p.c, p.y FROM people p LEFT JOIN visits v ON p.person = v.person"


@pytest.mark.parametrize("spent", [True, False], ids=["spent", "new"])
@pytest.mark.parametrize("text", [QUERY, JOINED], ids=["query", "join"])
def test_a_query_does_not_replace_a_table_with_a_hold_out(text: str, *, spent: bool) -> None:
    """Whether anything is spent or not: the hold-out keeps its budget, and a query would read its units too."""
    with memory(PEOPLE, schema=UNITS, cap=1, holdout="30%") as database:
        run(database.engine, "CREATE TABLE visits (person INTEGER)")
        if spent:
            database.train("people", epsilon=0.5, method="rdt", trees=1, depth=1, evaluate=0.5)
        with pytest.raises(UsageError, match="has a hold-out"):
            database.register("q", UNITS, cap=1, view=text, replace=True)
        assert sorted(registered_datasets(database.book)) == ["people", "people:holdout"]
        assert registered_datasets(database.book)["people"].hold_out is not None


def test_nor_does_a_view_of_the_database() -> None:
    """The same holds for a view that the database stores, under its own name."""
    with memory(PEOPLE, schema=UNITS, cap=1, holdout="30%") as database:
        run(database.engine, "CREATE TABLE visits (person INTEGER)", f"CREATE VIEW joined AS {JOINED}")
        with pytest.raises(UsageError, match="has a hold-out"):
            database.register("joined", UNITS, cap=1, replace=True)
