"""Names that change hands: between a check and a charge, after a declaration, and in another database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import BudgetError, TableChanged, UsageError
from dpsql.models.usable_model import Model
from dpsql.runs.train import TrainRequest, train
from tests.attacks.budgets import SCHEMA
from tests.attacks.test_one_budget import db, file, home, make
from tests.tables import run

__all__ = ["db", "file"]


def test_a_table_that_takes_the_name_while_a_run_is_planned_is_not_read(db: Database) -> None:
    """What is charged is what is read: a table that was renamed into place has a budget of its own."""
    db.register("people", SCHEMA, cap=1000)
    db.register("newcomers", SCHEMA, cap="0.001")

    @contextmanager
    def planning() -> Iterator[None]:
        run(db.engine, f"ALTER TABLE {home(db, 'people')} RENAME TO away")
        run(db.engine, f"ALTER TABLE {home(db, 'newcomers')} RENAME TO people")
        yield

    request = TrainRequest(table="people", epsilon=10, method="rdt", parameters={"trees": 1, "depth": 1})
    with pytest.raises(TableChanged, match="not the table that was registered"):
        train(db.engine, db.book, request, who="ann", planning=planning())
    assert [budget.spent for budget in db.budgets()] == [0, 0]


def test_a_declaration_does_not_pass_to_another_table_of_the_name(db: Database) -> None:
    """An owner said of one table that nobody is in both; another that takes its name must be declared anew."""
    make(db, home(db, "copied"), of=home(db, "people"))
    db.register("people", replace(SCHEMA, disjoint_from=("newcomers",)), cap=10)
    db.register("newcomers", SCHEMA, cap=10)
    db.register("copied", SCHEMA, cap=10)
    run(db.engine, f"ALTER TABLE {home(db, 'newcomers')} RENAME TO earlier")
    db.register("earlier", SCHEMA, cap=10, replace=True)
    run(db.engine, f"ALTER TABLE {home(db, 'copied')} RENAME TO newcomers")
    with pytest.raises(UsageError, match="another table then"):
        db.register("newcomers", SCHEMA, cap=10, replace=True)
    db.register("people", replace(SCHEMA, disjoint_from=("newcomers",)), cap=10, replace=True)
    assert db.register("newcomers", SCHEMA, cap=10, replace=True).table == "newcomers"


def test_a_view_of_an_attached_database_is_not_read_for_free(file: Path, tmp_path: Path) -> None:
    """Not even where this ledger has no dataset: the other database's may have one."""
    with connect(file) as owner:
        text = owner.model(str(owner.models()["name"][0])).to_json()
    connection = duckdb.connect(tmp_path / "mine.duckdb")
    connection.execute(f"ATTACH '{file}' AS other (READ_ONLY)")
    connection.execute("CREATE VIEW look AS SELECT * FROM other.people")
    with connect(connection) as db:
        model = db.add(Model.from_json(text))
        with pytest.raises(BudgetError, match="cannot be read for free"):
            db.evaluate(model.name, "look")
    connection.close()
