"""The part of delta that selections use up: set aside by the owner, added up by the ledger, never passed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from dpsql.api.database import Database
from dpsql.errors import BudgetExceeded, LedgerBroken, ParameterError
from dpsql.kernel.datasets.dataset import find_dataset
from dpsql.runs.buy_domains import Wishes, buy_domains, plan_domains
from dpsql.schema import Unit
from tests.tables import memory, some_rows

WISHES = Wishes(("x",), ("c", "y"))


def opened(**cap: Any) -> Database:
    """Return a database whose table waits for its domains, with a cap of kind "approximate"."""
    database = memory(some_rows(), schema=WISHES.schema(Unit()))
    database.set_cap("people", 3, kind="approximate", **cap)
    return database


def buy(database: Database, request: str = "r", delta: str = "1e-6") -> Any:
    """Buy the table's domains at epsilon 1."""
    dataset = find_dataset(database.engine, database.book, "people")
    return buy_domains(
        database.engine, database.book, dataset, WISHES, epsilon=1, delta=delta, who=database.who, request_id=request
    )


def test_a_purchase_uses_up_its_part_of_delta() -> None:
    """The second one, which would use up more than was set aside, is refused, and charges nothing."""
    database = opened(delta="1e-5", selection_delta="6e-7")
    buy(database)
    spent = database.budget("people", "approximate").spent
    with pytest.raises(BudgetExceeded, match="selection delta 5e-7, but .* has 1e-7 of 6e-7 left"):
        buy(database, "again")
    assert database.budget("people", "approximate").spent == spent
    assert database.verify() == []


def test_without_a_part_set_aside_nothing_is_selected() -> None:
    """A budget with a delta alone pays for noise, not for selections."""
    with pytest.raises(BudgetExceeded, match="selection delta"):
        buy(opened(delta="1e-5"))


def test_the_cap_in_rho_is_that_of_the_rest_of_delta() -> None:
    """Half of delta set aside: the same rho as with half of delta and nothing set aside."""
    aside = opened(delta="1e-5", selection_delta="5e-6").budget("people", "approximate")
    assert aside.cap == opened(delta="5e-6").budget("people", "approximate").cap
    assert aside.epsilon_text(aside.cap or 0) == "3"


def test_what_is_used_up_stays_set_aside() -> None:
    """A later cap keeps the part where it names none, and cannot go below what is used."""
    database = opened(delta="1e-5", selection_delta="6e-7")
    buy(database)
    kept = database.set_cap("people", 5, kind="approximate", delta="2e-5")
    assert kept.selection_delta == Decimal("6e-7")
    with pytest.raises(ParameterError, match="used up"):
        database.set_cap("people", 5, kind="approximate", delta="2e-5", selection_delta="4e-7")
    with pytest.raises(ParameterError, match="less than delta"):
        database.set_cap("people", 5, kind="approximate", delta="5e-7")


def test_the_plan_and_the_ledger_say_the_part() -> None:
    """It stands in the entry's plan, beside delta and rho."""
    plan = plan_domains(WISHES, Unit(), epsilon=1, delta="1e-6")
    assert plan.to_dict()["selection_delta"] == "5e-7"
    database = opened(delta="1e-5", selection_delta="5e-6")
    bought = buy(database)
    entry = database.book.find_entry(bought.entry)
    assert entry is not None
    assert entry.plan["selection_delta"] == "5e-7"


def test_a_ledger_in_which_too_much_was_used_up_does_not_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    """The events alone tell it, whoever wrote them."""
    database = opened(delta="1e-5", selection_delta="5e-7")
    buy(database)
    monkeypatch.setattr("dpsql.ledger.ledger.check_selection", lambda charge, account: None)
    with pytest.raises(LedgerBroken, match="passes the cap that held then"):
        buy(database, "again")
    assert any("passes the cap that held then" in finding for finding in database.verify())
