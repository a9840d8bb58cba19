"""The text of what a run stored: the same for the same releases, and different for anything else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.api.database import Database
from dpsql.audit.database_text import database_text, table_places
from dpsql.audit.ways import database_in_memory
from tests.audit.pairs import PEOPLE, SCHEMA, TYPES, MadeUpTable


@pytest.fixture
def database() -> Iterator[Database]:
    """A database in memory with a registered table."""
    with opened() as made:
        yield made


def opened() -> Database:
    """Return a database in memory with a registered table."""
    made = database_in_memory([MadeUpTable("people", TYPES, PEOPLE, SCHEMA)])
    made.register("people", SCHEMA, cap=10)
    return made


def text_of(database: Database) -> dict[str, str]:
    """Return the text of all but the private table."""
    with database.engine.snapshot() as transaction:
        return database_text(transaction, database.book, before={("main", "people")})


def test_two_databases_of_the_same_acts_have_one_text(database: Database) -> None:
    """Times, random ids and hashes differ between any two databases, and are not told."""
    with opened() as other:
        ids = [one.book.datasets() for one in (database, other)]
        assert ids[0] != ids[1]
        assert text_of(database) == text_of(other)


def test_a_charge_is_in_the_text(database: Database) -> None:
    """Another epsilon is another text, in the entries, the budget and everywhere it stands."""
    with opened() as other:
        for made, epsilon in ((database, 1), (other, 2)):
            made.advise("people", buy=epsilon, request_id="r")
        one, two = text_of(database), text_of(other)
    differing = {table for table in one if one[table] != two[table]}
    assert {"dpsql.entry", "dpsql.budget", "dpsql.analyst_budget", "dpsql.ledger"} <= differing


def test_rows_of_private_tables_are_left_out(database: Database) -> None:
    """What was there before is known by its columns alone; a table that was made since is told with its rows."""
    with database.engine.transaction() as transaction:
        transaction.run("CREATE TABLE fresh AS SELECT 41 + 1 AS held")
        assert {("main", "people"), ("main", "fresh"), ("dpsql", "entry")} <= table_places(transaction)
    found = text_of(database)
    assert found["main.fresh"] == '{"held": 42}'
    assert "main.people" not in found
