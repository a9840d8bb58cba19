"""`IS NOT NULL` means the same on every engine that keeps views: a view with it can be registered and counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.api.database import Database, connect
from tests import servers
from tests.tables import SCHEMA, SMALL, run

ROWS = "INSERT INTO people VALUES (1, 1, 'a', 'no'), (2, 2, NULL, 'yes'), (3, NULL, 'b', 'maybe'), (4, 4, 'a', NULL)"


@pytest.fixture(params=["duckdb", "postgres"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open a database with four rows, three of them with a label."""
    target = ":memory:" if request.param == "duckdb" else servers.fresh_database()
    with connect(target) as opened:
        home = opened.engine.home
        run(
            opened.engine,
            f"CREATE TABLE {home}.people (person BIGINT, x DOUBLE PRECISION, c VARCHAR, y VARCHAR)",
            ROWS.replace("people", f"{home}.people"),
        )
        yield opened


@pytest.mark.parametrize(
    ("kept", "rows"),
    [
        ("y IS NOT NULL", 3),
        ("NOT y IS NULL", 3),
        ("y IS NOT NULL AND x IS NOT NULL", 2),
        ("c IS NULL OR x IS NULL", 2),
    ],
)
def test_a_view_that_keeps_labelled_rows_is_registered_and_counted(db: Database, kept: str, rows: int) -> None:
    """The filter is understood however the server spells it, and the size that is bought is the view's."""
    home = db.engine.home
    run(db.engine, f"CREATE VIEW {home}.kept AS SELECT x, c, y FROM {home}.people WHERE {kept}")
    db.register("kept", SCHEMA, cap=10**6)
    bought = db.advise("kept", buy=10**5).bought
    assert bought is not None
    assert bought.rows == rows
    assert db.train("kept", method="rosnam", **SMALL).name == "kept_1"
