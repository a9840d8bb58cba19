"""What an owner looked up is named in every certificate: behind a view's second table, and of unlabelled rows too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.api.database import Database, connect
from dpsql.schema import Categorical, Schema, Unit
from tests.tables import run

JOBS = Categorical("job", ("clerk", "cook"))
UNITS = Schema("y", ("no", "yes"), (JOBS,), Unit("person"))
ROWS = Schema("y", ("no", "yes"), (JOBS,))
ROW = "CASE WHEN range % 2 = 0 THEN 'clerk' ELSE 'cook' END AS job, 'no' AS y"


@pytest.fixture
def db() -> Iterator[Database]:
    """Open a database with two tables of the same people and one of others."""
    with connect(":memory:", who="ann") as opened:
        for table in ("people", "visits", "others"):
            run(opened.engine, f"CREATE TABLE {table} AS SELECT range AS person, {ROW} FROM range(60)")
        yield opened


def test_a_second_table_that_was_made_anew_keeps_its_mark(db: Database) -> None:
    """A lookup counts for the table in its place, wherever among a view's tables that is."""
    db.draft("visits", label="y", values_are_public=["job"])
    run(db.engine, "CREATE TABLE anew AS FROM visits", "DROP TABLE visits", "ALTER TABLE anew RENAME TO visits")
    text = "SELECT p.person, p.y, v.job FROM people p JOIN visits v ON p.person = v.person"
    assert db.register("joined", UNITS, cap=9, view=text).schema.looked_up == ("job",)
    assert db.train("joined", epsilon=1, method="rdt", trees=1, depth=1).certificate["looked_up"] == ["job"]


def test_a_model_names_what_was_looked_up_in_its_unlabelled_rows(db: Database) -> None:
    """A certificate is about the rows of both sides."""
    db.draft("others", label="y", values_are_public=["job"])
    db.register("people", ROWS, cap=9)
    db.register("others", ROWS, cap=9)
    model = db.train("people", epsilon=1, method="sspe", unlabelled="others", trees=1)
    assert model.certificate["looked_up"] == ["job"]
