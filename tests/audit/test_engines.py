"""The replay audit on every engine: the same promise, whatever database holds the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import psycopg
import pytest

from dpsql.api.database import Database, connect
from dpsql.audit.neighbours import MadeUpTable
from dpsql.audit.ways import AuditCase
from tests.audit.pairs import case_with_a_loss
from tests.conformance.tables import put
from tests.rows import Table as Columns
from tests.servers import OPEN_EMPTY, fresh_database
from tests.tables import quote

#: What is replayed where. Spark takes seconds for each statement, so it has one way alone.
FEW = ("spe of numbers",)
MORE = ("rdt", "sspe", "spe", "rosnam with a delta", "rdt of numbers", "evaluation", "update")
CASES = [
    (engine, way) for engine in sorted(OPEN_EMPTY) if engine != "duckdb" for way in (FEW if engine == "spark" else MORE)
]
Opened = Callable[[Sequence[MadeUpTable]], Database]


def put_all(database: Database, tables: Sequence[MadeUpTable]) -> Database:
    """Return the database with the tables in it, without the rows that are gone: rows there have no address."""
    for table in tables:
        columns = {name: [row[place] for row in table.present] for place, name in enumerate(table.types)}
        put(database.engine, table.name, Columns(dict(table.types), columns))
    return database


def copies_of_one(case: AuditCase) -> Opened:
    """Return how to open PostgreSQL with a case's tables, so that the rows of both have the same addresses.

    An address there names the table by its number in the catalog, so both databases are copies of one that holds all
    rows; those that are gone are deleted after.
    """
    origin = fresh_database()
    with connect(origin, who="audit") as database:
        put_all(database, [replace(table, gone=frozenset()) for table in case.first])

    def opened(tables: Sequence[MadeUpTable]) -> Database:
        copy = fresh_database()
        server, name = copy.rsplit("/", 1)
        with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name}")
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {origin.rsplit('/', 1)[1]}")
        database = connect(copy, who="audit")
        with database.engine.transaction() as transaction:
            for table in tables:
                place = f"{quote(database.engine.home)}.{quote(table.name)}"
                addresses = [row["ctid"] for row in transaction.rows(f"SELECT ctid::text AS ctid FROM {place}")]
                for number in table.gone:
                    transaction.run(f"DELETE FROM {place} WHERE ctid = CAST(? AS tid)", [addresses[number]])
        return database

    return opened


@pytest.mark.parametrize(("engine", "way"), CASES)
def test_no_run_loses_more_than_it_was_charged(engine: str, way: str) -> None:
    """A recorded run and its replay on a neighbour, on one engine: no loss above the promise, nothing else differs."""
    case = case_with_a_loss(way)
    if engine == "postgres":
        opened = copies_of_one(case)
    else:
        opened = lambda tables: put_all(Database(OPEN_EMPTY[engine](), who="audit"), tables)  # noqa: E731
    found = case.replay(opened)
    assert found.holds, str(found)
    assert not found.failed
    assert found.loss > 0
