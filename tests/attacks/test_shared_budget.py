"""One budget per person: whatever views and tables are registered over the same rows, they pay from one account."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpsql.api.database import Database, connect
from dpsql.errors import BudgetError, DpsqlError, NotPrivate, ParameterError, UsageError
from dpsql.models.score import public_table
from dpsql.schema import Numeric, Schema, Unit
from tests.servers import fresh_database
from tests.tables import run
from tests.warehouse import FEATURES, HOME, SCHEMA, create_warehouse

OPEN: dict[str, Callable[[], Database]] = {
    "duckdb": lambda: connect(":memory:", who="ann"),
    "postgres": lambda: connect(fresh_database(), who="ann"),
}
#: A second view, which shares the table of visits with the first one and adds prescriptions.
COSTS = """
SELECT v.person_id, COUNT(*) AS visits, SUM(d.dose) AS dose FROM visits v
LEFT JOIN drugs d ON v.person_id = d.person_id GROUP BY v.person_id
"""
COSTS_SCHEMA = Schema("", (), (Numeric("visits", 0, 64), Numeric("dose", 0, 64)), Unit("person_id"))
DRUGS = Schema("", (), (Numeric("dose", 0, 64),), Unit("person_id", 3))
VISITS = Schema("", (), (Numeric("ward", 0, 64),), Unit("person_id", 3))


@pytest.fixture(params=sorted(OPEN))
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Open a warehouse with a few people, of which nothing is registered."""
    with OPEN[request.param]() as opened:
        create_warehouse(opened.engine)
        home = HOME[opened.engine.dialect]
        people = ", ".join(f"({n}, {20 + n}, 'f', '{'yes' if n % 2 else 'no'}', 60)" for n in range(40))
        visits = ", ".join(f"({n % 40}, DATE '2020-01-01', 3.5, 'a', 1, 2.5)" for n in range(90))
        run(opened.engine, f"INSERT INTO {home}.persons VALUES {people}", f"INSERT INTO {home}.visits VALUES {visits}")
        yield opened


def test_a_second_view_on_the_same_rows_has_no_budget_of_its_own(db: Database) -> None:
    """A view that shares a table with a registered one is refused, unless it pays from the same budget."""
    db.register("features", SCHEMA, cap=1, view=FEATURES)
    with pytest.raises(UsageError, match="one budget, not two"):
        db.register("costs", COSTS_SCHEMA, cap=1, view=COSTS)
    shared = db.register("costs", COSTS_SCHEMA, cap=None, view=COSTS, share_budget=True)
    assert shared.account_table == "features"
    assert db.budget("costs") == db.budget("features")


def test_two_views_spend_one_budget(db: Database) -> None:
    """What a run on one view spends is gone for the other, and the ledger adds up."""
    db.register("features", SCHEMA, cap=1, view=FEATURES)
    labelled = replace(SCHEMA, features=(Numeric("age", 0, 100),))
    db.register("ages", labelled, cap=None, view="SELECT person_id, age, ill FROM persons", share_budget=True)
    db.train("features", epsilon=0.6, method="rdt", trees=2, depth=1)
    with pytest.raises(BudgetError):
        db.train("ages", epsilon=0.6, method="rdt", trees=2, depth=1)
    model = db.train("ages", epsilon=0.4, method="rdt", trees=2, depth=1)
    assert model.certificate["table"] == "ages"
    assert db.budget("features").left == db.budget("ages").left == 0
    assert db.book.verify() == []
    charged = [entry for entry in db.book.entries() if entry.event == "reserve"]
    assert {entry.dataset for entry in charged} == {db.budget("features").dataset}
    assert [entry.plan.get("view") for entry in charged] == [None, "ages"]
    assert list(db.ledger("ages").table.unique()) == ["features"]


def test_a_table_of_a_view_has_no_second_budget(db: Database) -> None:
    """Every private table behind a view has its budget, not the first one alone."""
    db.register("features", SCHEMA, cap=1, view=FEATURES)
    persons = replace(VISITS, features=(Numeric("age", 0, 100),))
    for name, schema in (("visits", VISITS), ("persons", persons)):
        with pytest.raises(UsageError, match="one budget, not two"):
            db.register(name, schema, cap=1)
    db.register("visits", VISITS, cap=None, share_budget=True)
    assert db.budget("visits") == db.budget("features")


def test_a_view_over_rows_of_two_budgets_is_refused(db: Database) -> None:
    """Two budgets cannot become one, with or without the wish to share."""
    db.register("visits", VISITS, cap=1)
    db.register("drugs", DRUGS, cap=1)
    for share in (False, True):
        with pytest.raises(UsageError, match="one budget, not two|two budgets"):
            db.register("costs", COSTS_SCHEMA, cap=None if share else 1, view=COSTS, share_budget=share)
    assert len(db.book.datasets()) == 2


def test_a_table_that_joins_an_account_by_a_second_view_has_it_too(db: Database) -> None:
    """A table that only the second view of an account reads cannot be registered on its own, nor be read for free."""
    db.register("features", SCHEMA, cap=1, view=FEATURES)
    db.register("costs", COSTS_SCHEMA, cap=None, view=COSTS, share_budget=True)
    with pytest.raises(UsageError, match="one budget, not two"):
        db.register("drugs", DRUGS, cap=1)
    for name in ("persons", "visits", "drugs"):
        with pytest.raises(DpsqlError, match="registered"):
            public_table(db, name)


OPEN_VISITS = Schema("code", ("a", "b"), (Numeric("ward", 0, 64),), Unit("person_id", 3), public_features=True)
CLOSED_VISITS = replace(OPEN_VISITS, public_features=False)


def test_labels_alone_are_protected_in_no_account_of_several_datasets(db: Database) -> None:
    """A dataset with public features neither joins an account nor is joined, whichever was registered first."""
    features = db.register("features", SCHEMA, cap=1, view=FEATURES)
    with pytest.raises(UsageError, match="declares its features public"):
        db.register("visits", OPEN_VISITS, cap=None, share_budget=True)
    assert db.book.datasets() == [features.id]
    db.register("drugs", replace(OPEN_VISITS, features=(Numeric("dose", 0, 64),)), cap=1)
    text = "SELECT a.person_id, a.dose, b.code FROM drugs a JOIN drugs b ON a.person_id = b.person_id"
    schema = replace(CLOSED_VISITS, features=(Numeric("dose", 0, 64),))
    with pytest.raises(UsageError, match='"drugs" declares its features public'):
        db.register("costs", schema, cap=None, view=text, share_budget=True)


def test_replacing_opens_no_features_in_an_account_of_several_datasets(db: Database) -> None:
    """Neither the account nor what pays from it becomes a dataset with public features while there are both."""
    db.register("visits", CLOSED_VISITS, cap=1)
    db.register("features", SCHEMA, cap=None, view=FEATURES, share_budget=True)
    with pytest.raises(UsageError, match="declares its features public"):
        db.register("visits", OPEN_VISITS, cap=1, replace=True)
    with pytest.raises(NotPrivate):
        db.set_cap("visits", 5, kind="label")


def test_a_private_table_of_a_view_does_not_become_public(db: Database) -> None:
    """A view that is replaced keeps its private tables' budget, and the refusal says so; no other ledger is blamed."""
    db.register("features", SCHEMA, cap=1, view=FEATURES)
    run(db.engine, f"ALTER TABLE {HOME[db.engine.dialect]}.drugs ADD UNIQUE (dose)")
    text = FEATURES.replace("LEFT JOIN", "LEFT JOIN drugs d ON d.dose = p.age LEFT JOIN")
    schema = replace(SCHEMA, public_tables=("drugs",))
    db.register("features", schema, cap=1, view=text, replace=True)
    both = FEATURES.replace("LEFT JOIN", "JOIN drugs d ON d.person_id = p.person_id LEFT JOIN")
    db.register("features", SCHEMA, cap=1, view=both, replace=True)
    with pytest.raises(UsageError, match='"drugs" cannot be a public table .* its rows keep their budget'):
        db.register("features", schema, cap=1, view=text, replace=True)


def test_a_public_table_whose_values_were_looked_up_stays_public(db: Database) -> None:
    """A lookup marks a table; a view may still take it for public, when it is registered and in its runs."""
    home = HOME[db.engine.dialect]
    run(db.engine, f"INSERT INTO {home}.codes VALUES ('a', 'A', 1, 0.5, 1), ('b', 'A', 2, 0.5, 2)")
    db.draft("codes", values_are_public=["chapter"])
    text = FEATURES.replace("LEFT JOIN", "LEFT JOIN codes c ON c.ward = p.age LEFT JOIN")
    db.register("features", SCHEMA, cap=1, view=text)
    db.train("features", epsilon=0.5, method="rdt", trees=2, depth=1)


@pytest.mark.parametrize("unit", [Unit(), Unit("ward", 3)])
def test_an_account_protects_one_kind_of_unit(db: Database, unit: Unit) -> None:
    """A view cannot pay from a budget that holds the losses of rows, or of another unit."""
    db.register("visits", replace(VISITS, unit=unit, features=(Numeric("cost", 0, 64),)), cap=1)
    with pytest.raises(UsageError, match="one kind of unit"):
        db.register("features", SCHEMA, cap=None, view=FEATURES, share_budget=True)
    with pytest.raises(UsageError, match="one budget, not two"):
        db.register("features", SCHEMA, cap=1, view=FEATURES)


def test_the_cap_of_a_shared_budget_is_the_accounts(db: Database) -> None:
    """Another cap is refused; the same one is taken, and changes nothing."""
    db.register("features", SCHEMA, cap=1, view=FEATURES)
    with pytest.raises(ParameterError, match="cap of the shared budget"):
        db.register("costs", COSTS_SCHEMA, cap=2, view=COSTS, share_budget=True)
    db.register("costs", COSTS_SCHEMA, cap=1, view=COSTS, share_budget=True)
    assert db.budget("costs").cap_text == "1"
    db.set_cap("costs", 2)
    assert db.budget("features").cap_text == "2"


def test_sharing_needs_rows_to_share(db: Database) -> None:
    """Without a registered table that has the same rows there is no budget to share, and nothing is registered."""
    with pytest.raises(UsageError, match="no budget to share"):
        db.register("features", SCHEMA, cap=None, view=FEATURES, share_budget=True)
    assert db.book.datasets() == []


def test_public_rows_have_no_budget_to_share(db: Database) -> None:
    """A budget without a cap is not one that private rows could pay from."""
    db.register("visits", VISITS, cap=None)
    with pytest.raises(UsageError, match="has no cap"):
        db.register("features", SCHEMA, cap=None, view=FEATURES, share_budget=True)


def test_replacing_keeps_the_account(db: Database) -> None:
    """A dataset that pays from an account cannot get a cap of its own by being replaced, nor the account's lose its."""
    db.register("features", SCHEMA, cap=1, view=FEATURES)
    db.register("costs", COSTS_SCHEMA, cap=None, view=COSTS, share_budget=True)
    with pytest.raises(UsageError, match="pays from another"):
        db.register("costs", COSTS_SCHEMA, cap=5, view=COSTS, replace=True)
    with pytest.raises(UsageError, match="budget of its own"):
        db.register("features", SCHEMA, cap=None, view=FEATURES, replace=True, share_budget=True)
    again = db.register("costs", COSTS_SCHEMA, cap=None, view=COSTS + " ", replace=True, share_budget=True)
    assert again.account_table == "features"
    db.register("features", SCHEMA, cap=2, view=FEATURES, replace=True)
    assert db.budget("costs").cap_text == "2"


def test_a_replaced_view_keeps_the_rows_that_it_had(db: Database) -> None:
    """A view that no longer reads a table still holds that table's budget: rows never lose what they have spent."""
    db.register("features", SCHEMA, cap=1, view=FEATURES)
    ages = replace(SCHEMA, features=(Numeric("age", 0, 100),), public_tables=())
    db.register("features", ages, cap=1, view="SELECT person_id, age, ill FROM persons", replace=True)
    with pytest.raises(UsageError, match="one budget, not two"):
        db.register("visits", VISITS, cap=1)


def test_a_query_may_not_take_a_tables_name(db: Database) -> None:
    """A dataset called like a table that it is not would be mistaken for it."""
    with pytest.raises(UsageError, match="name of its own"):
        db.register("visits", SCHEMA, cap=1, view=FEATURES)


def test_a_view_of_the_database_is_registered_by_its_name(db: Database) -> None:
    """A view that is stored in the database, and is not row-to-row, is proved from its own text."""
    home = HOME[db.engine.dialect]
    text = f"""CREATE VIEW {home}.per_person AS SELECT p.person_id, p.age, p.sex, p.ill, v.n AS visits
        FROM {home}.persons p LEFT JOIN (SELECT person_id, COUNT(*) AS n FROM {home}.visits GROUP BY person_id) v
        ON p.person_id = v.person_id"""
    run(db.engine, text)
    dataset = db.register("per_person", SCHEMA, cap=1)
    assert dataset.many
    assert dataset.schema.unit == Unit("person_id", 1)
    db.train("per_person", epsilon=0.5, method="rdt", trees=2, depth=1)
    run(db.engine, f"DROP VIEW {home}.per_person", text.replace("LEFT JOIN", "JOIN"))
    with pytest.raises(DpsqlError, match="redefined"):
        db.train("per_person", epsilon=0.5, method="rdt")


def test_files_of_a_view_have_one_budget(tmp_path: Path) -> None:
    """A query over Parquet files runs, and none of its files gets a second budget."""
    with duckdb.connect() as connection:
        people = (
            "SELECT i AS person_id, CAST(i % 60 AS INTEGER) AS age, 'f' AS sex, 'yes' AS ill FROM range(50) AS r(i)"
        )
        connection.execute(f"COPY ({people}) TO '{tmp_path / 'persons.parquet'}'")
        visits = "SELECT i % 50 AS person_id, CAST(i % 7 AS INTEGER) AS ward FROM range(200) AS r(i)"
        connection.execute(f"COPY ({visits}) TO '{tmp_path / 'visits.parquet'}'")
    with connect(tmp_path, who="ann") as db:
        db.register("features", replace(SCHEMA, public_tables=()), cap=1, view=FEATURES)
        db.train("features", epsilon=0.5, method="rdt", trees=2, depth=1)
        with pytest.raises(UsageError, match="one budget, not two"):
            db.register("visits", VISITS, cap=1)
        assert db.budget("features").spent_text == "0.5"
