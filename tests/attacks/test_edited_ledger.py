"""A ledger that was edited behind dpsql's back is told to be broken: no edit passes for an older format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import BudgetError, LedgerBroken
from tests.tables import on_disk, run, some_rows
from tests.upgrades.old_databases import unpack_duckdb

SMALL: dict[str, Any] = {"method": "rdt", "trees": 1, "depth": 1}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database whose table "people" has been charged once, as a process does that has not seen it before."""
    file = tmp_path / "data.duckdb"
    with on_disk(file, some_rows(), cap=5) as first:
        first.train("people", epsilon=1, **SMALL)
    with connect(file, who="eve") as opened:
        yield opened


def assert_broken(database: Database) -> None:
    """Verify finds it, and nothing is charged."""
    assert database.verify()
    with pytest.raises(LedgerBroken):
        database.train("people", epsilon="0.1", **SMALL)


def test_a_former_column_beside_the_present_one_hides_no_edit(database: Database) -> None:
    """Amounts are read from the column that everybody is shown, not from one under its former name beside it."""
    run(
        database.engine,
        "DROP VIEW dpsql.ledger",
        "ALTER TABLE dpsql.entry ADD COLUMN nano_epsilon BIGINT",
        "UPDATE dpsql.entry SET nano_epsilon = amount",
        "UPDATE dpsql.entry SET amount = 1 WHERE event = 'reserve'",
    )
    assert_broken(database)


FORGED = ("('ledger', 0)", "('ledger', NULL)", "('ledger', 'x')", "('ledger', 2), ('ledger', 1)")


@pytest.mark.parametrize("rows", FORGED)
def test_a_format_that_is_no_number_is_found(database: Database, rows: str) -> None:
    """The table of formats holds one whole number above 0 for each part."""
    kind = "VARCHAR" if "x" in rows else "INTEGER"
    run(
        database.engine,
        "DROP TABLE dpsql.format",
        f"CREATE TABLE dpsql.format (part VARCHAR, number {kind})",
        f"INSERT INTO dpsql.format VALUES {rows}",
    )
    assert_broken(database)


def test_the_table_behind_a_lost_view_keeps_its_budget(tmp_path: Path) -> None:
    """Where the view of an old registration is gone, its stored table is still known, whatever it is called later."""
    with connect(unpack_duckdb(tmp_path).place, who="nora") as old:
        run(old.engine, "DROP VIEW adults")
        old.book.upgrade()
        run(old.engine, "ALTER TABLE everyone RENAME TO somebody")
        with pytest.raises(BudgetError, match="registered private table"):
            old.evaluate(str(old.models()["name"][0]), "somebody")
