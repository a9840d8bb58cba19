"""The owner's acts are entries: registering, caps, accepting."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.open_database import open_file
from dpsql.errors import BudgetExceeded, LedgerBroken, NotRegistered, ParameterError
from dpsql.ledger import Ledger, anchor_path, parse_epsilon

from .helpers import LENIENT, charge, dump, meddle


def test_installing_twice_changes_nothing(ledger: Ledger, engine: DuckDBEngine) -> None:
    """The tables and the ledger's name stay."""
    before = dump(engine)
    ledger.install()
    assert dump(engine) == before


def test_registering_is_an_entry_with_its_details(ledger: Ledger) -> None:
    """The schema the owner declared is in the chain."""
    (entry,) = ledger.entries("adult")
    assert (entry.event, entry.who, entry.cap, entry.details) == (
        "register",
        "ann",
        2 * 10**9,
        {"label": "income"} | LENIENT,
    )
    assert ledger.datasets() == ["adult"]


def test_a_dataset_is_registered_once_unless_replaced(ledger: Ledger) -> None:
    """Registering again by accident is refused."""
    with pytest.raises(ParameterError) as refused:
        ledger.register("adult", "adult", 10**9, {}, "ann")
    assert refused.value.hint


def test_replacing_keeps_what_is_spent(ledger: Ledger) -> None:
    """A new registration sets table and cap, never the spending."""
    ledger.reserve(charge("r1", "0.5"))
    ledger.register("adult", "adult_clean", 10**9, {}, "ann", replace=True)
    budget = ledger.budget("adult")
    assert (budget.table, budget.cap_text, budget.spent_text) == ("adult_clean", "1", "0.5")
    assert ledger.verify() == []


def test_a_table_has_one_budget(ledger: Ledger) -> None:
    """The same table under a second dataset's name is refused, in any case of letters."""
    with pytest.raises(ParameterError, match='in "adult"'):
        ledger.register("copy", "ADULT", 10**9, {}, "ann")


def test_a_cap_is_never_taken_off(ledger: Ledger) -> None:
    """A dataset that had a cap keeps one."""
    with pytest.raises(ParameterError):
        ledger.register("adult", "adult", None, {}, "ann", replace=True)
    with pytest.raises(ParameterError):
        ledger.set_cap("adult", None, "ann")


@pytest.mark.parametrize("cap", [-1, 10**18 + 1, 1.5, True])
def test_a_cap_is_a_whole_number_in_range(ledger: Ledger, cap: int) -> None:
    """Negative, oversized and fractional caps are refused."""
    with pytest.raises(ParameterError):
        ledger.set_cap("adult", cap, "ann")


def test_a_cap_below_what_is_spent_leaves_nothing(ledger: Ledger) -> None:
    """Lowering is allowed; nothing more can be spent, and the ledger still holds together."""
    ledger.reserve(charge("r1", "1"))
    ledger.set_cap("adult", parse_epsilon("0.5"), "ann")
    assert ledger.budget("adult").left == 0
    with pytest.raises(BudgetExceeded):
        ledger.reserve(charge("r2", "0.000000001"))
    assert ledger.verify() == []


def test_a_raised_cap_can_be_spent(ledger: Ledger) -> None:
    """Raising is an entry and takes effect at once."""
    ledger.reserve(charge("r1", "2"))
    assert ledger.set_cap("adult", parse_epsilon("3"), "ann").event == "cap"
    assert ledger.reserve(charge("r2", "1")).fresh


def test_an_analysts_cap_can_be_lifted(ledger: Ledger) -> None:
    """None takes an analyst's own cap away; the dataset's remains."""
    ledger.set_cap("adult", 0, "ann", analyst="eve")
    ledger.set_cap("adult", None, "ann", analyst="eve")
    assert ledger.reserve(charge("r1", "2")).fresh
    assert ledger.verify() == []


def test_only_a_registered_dataset_has_a_cap(ledger: Ledger) -> None:
    """Setting a cap does not register."""
    with pytest.raises(NotRegistered):
        ledger.set_cap("other", 10**9, "ann")


def test_a_restored_ledger_goes_on_once_the_owner_accepts_it(
    ledger: Ledger, engine: DuckDBEngine, path: Path, tmp_path: Path
) -> None:
    """Accepting records what was wrong and what the receipt said; then charges are possible again."""
    engine.close()
    shutil.copy(path, tmp_path / "old")
    later = open_file(path)
    Ledger(later).reserve(charge("r1"))
    later.close()
    shutil.copy(tmp_path / "old", path)
    restored = open_file(path)
    entry = Ledger(restored).accept("ann")
    assert entry.details["receipt"]["head"]["sequence"] == 2
    assert "old copy" in entry.details["findings"][0]
    assert Ledger(restored).verify() == []
    assert Ledger(restored).reserve(charge("r2")).fresh
    restored.close()


def test_accepting_makes_the_sums_follow_the_chain(ledger: Ledger, engine: DuckDBEngine, path: Path) -> None:
    """Budget rows that were edited are rebuilt from the events, caps, analysts and scopes too."""
    ledger.set_cap("adult", 10**9, "ann", analyst="eve")
    ledger.reserve(charge("r1", "0.5"))
    ledger.reserve(charge("r2", "0.25", scope="region=north"))
    before = dump(engine)
    engine.close()
    meddle(path, "UPDATE dpsql.budget SET spent = 0, whole = 0", "DELETE FROM dpsql.scope_budget",
           "UPDATE dpsql.analyst_budget SET cap = NULL")  # fmt: skip
    again = open_file(path)
    Ledger(again).accept("ann")
    after = dump(again)
    assert [after[name] for name in ("budget", "scope_budget", "analyst_budget")] == [
        before[name] for name in ("budget", "scope_budget", "analyst_budget")
    ]
    again.close()


def test_an_edited_chain_cannot_be_accepted(ledger: Ledger, engine: DuckDBEngine, path: Path) -> None:
    """Accepting never covers up a changed event, and leaves the receipt alone."""
    ledger.reserve(charge("r1"))
    engine.close()
    meddle(path, "UPDATE dpsql.entry SET amount = 1 WHERE sequence = 2")
    receipt = anchor_path(path).read_bytes()
    again = open_file(path)
    with pytest.raises(LedgerBroken):
        Ledger(again).accept("ann")
    assert anchor_path(path).read_bytes() == receipt
    again.close()
