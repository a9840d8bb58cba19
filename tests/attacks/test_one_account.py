"""Datasets of one account hold the same people: what is made of two of them says that its costs add up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import BudgetExceeded, UsageError
from dpsql.runs.parties import merge, unite
from dpsql.schema import Numeric, Schema, Unit
from tests.tables import run

SCHEMA = Schema("y", ("a", "b"), (Numeric("x", 0, 100),), Unit("person"))
OTHER = Schema("y", ("a", "b"), (Numeric("z", 0, 100),), Unit("person"))


@pytest.fixture
def db() -> Iterator[Database]:
    """Open a database with a table and two views of it that share its budget."""
    with connect(":memory:", who="ann") as opened:
        rows = "SELECT range AS person, range * 1.0 :: DOUBLE AS x, range * 1.0 :: DOUBLE AS z, 'a' AS y FROM range(60)"
        run(opened.engine, f"CREATE TABLE people AS {rows}")
        opened.register("people", SCHEMA, cap=1)
        for name, schema, column in (("seen", SCHEMA, "x"), ("again", SCHEMA, "x"), ("others", OTHER, "z")):
            text = f"SELECT person, {column}, y FROM people"
            opened.register(name, schema, cap=None, view=text, share_budget=True)
        yield opened


@pytest.mark.parametrize("tables", [("people", "seen"), ("seen", "people"), ("seen", "again")])
def test_contributions_of_one_account_are_not_of_different_people(db: Database, tables: tuple[str, str]) -> None:
    """Merged they would cost the larger of two epsilons by their certificate, and their sum in truth."""
    structure = db.export_structure("people", trees=1, depth=1)
    models = [db.contribute(table, structure, epsilon=0.4) for table in tables]
    assert db.budget("people").spent_text == "0.8"
    with pytest.raises(UsageError, match="pay twice"):
        merge(models)


def test_united_they_add_up(db: Database) -> None:
    """Different columns of the same people: the certificate has the sum, which is what the account has paid."""
    models = [db.train(table, epsilon=0.4, method="rdt", trees=1, depth=1) for table in ("people", "others")]
    assert unite(models).certificate["epsilon"] == db.budget("people").spent_text == "0.8"


def test_both_sides_of_a_run_are_paid_from_one_account(db: Database) -> None:
    """A table and its unlabelled rows of the same account are charged together, or not at all."""
    disjoint = Schema("y", ("a", "b"), (Numeric("x", 0, 100),), Unit("person"), disjoint_from=("seen",))
    db.register("people", disjoint, cap=1, replace=True)
    with pytest.raises(BudgetExceeded):
        db.train("people", epsilon=0.6, method="sspe", unlabelled="seen", trees=1)
    assert db.budget("people").spent_text == "0"
    db.train("people", epsilon=0.5, method="sspe", unlabelled="seen", trees=1)
    assert db.budget("seen").left == 0
