"""Reserving: charge first, refuse without a trace, one request one charge, kinds and analysts apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.engines.duckdb.open_database import open_file
from dpsql.errors import BudgetExceeded, DatabaseReadOnly, NotRegistered, ParameterError
from dpsql.ledger import Charge, Ledger, anchor_path, parse_epsilon

from .helpers import LENIENT, charge, dump


def test_a_charge_is_on_disk_when_reserve_returns(ledger: Ledger, engine: DuckDBEngine, path: Path) -> None:
    """A new connection after the old one closed finds the charge."""
    ledger.reserve(charge("r1", "0.5"))
    engine.close()
    again = open_file(path)
    assert Ledger(again).budget("adult").spent_text == "0.5"
    again.close()


def test_an_entry_says_what_was_charged(ledger: Ledger) -> None:
    """The stored entry holds the charge, its state and its neighbours."""
    made = ledger.reserve(charge("r1", "0.25"))
    (found,) = ledger.entries("adult", event="reserve")
    assert found == made
    assert (found.amount_text, found.state, found.who, found.plan) == ("0.25", "reserved", "eve", {"trees": 3})
    assert found.neighbours == "add/remove one row"


def test_a_budget_can_be_spent_to_the_last_nano(ledger: Ledger) -> None:
    """Exactly the cap is allowed, one nano more is not."""
    ledger.reserve(charge("r1", "1.999999999"))
    ledger.reserve(charge("r2", "0.000000001"))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(charge("r3", "0.000000001"))
    assert ledger.budget("adult").left == 0


def test_ten_tenths_are_one(ledger: Ledger) -> None:
    """Sums are exact: twenty charges of 0.1 fit a cap of 2, where floats would not add up."""
    for number in range(20):
        ledger.reserve(charge(f"r{number}", 0.1))
    assert ledger.budget("adult").left == 0


def test_a_refusal_leaves_no_trace(ledger: Ledger, engine: DuckDBEngine, path: Path) -> None:
    """After a refusal every ledger table and the receipt are what they were, byte for byte."""
    ledger.reserve(charge("r1", "1.5"))
    before, receipt = dump(engine), anchor_path(path).read_bytes()
    with pytest.raises(BudgetExceeded):
        ledger.reserve(charge("r2", "0.6", who="mallory"))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(charge("r3", "0.6", scope="region=north"))
    assert dump(engine) == before
    assert anchor_path(path).read_bytes() == receipt
    assert [file.name for file in path.parent.iterdir() if ".anchor." in file.name] == []


def test_a_refusal_has_figures_and_a_next_step(ledger: Ledger) -> None:
    """BudgetExceeded carries needed, left and cap as decimal text, and a command to run."""
    ledger.reserve(charge("r1", "1.6"))
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve(charge("r2", "1"))
    assert (refused.value.needed, refused.value.left, refused.value.cap) == ("1", "0.4", "2")
    assert refused.value.hint == "dpsql ledger --table adult"


def test_an_unregistered_dataset_has_no_budget(ledger: Ledger) -> None:
    """NotRegistered names the nearest table that is."""
    with pytest.raises(NotRegistered, match='Did you mean "adult"'):
        ledger.reserve(charge("r1", dataset="adlt", table="adlt"))


def test_a_database_without_a_ledger_has_no_budget(engine: DuckDBEngine) -> None:
    """Reserving before anything was registered is NotRegistered, and creates nothing."""
    with pytest.raises(NotRegistered):
        Ledger(engine).reserve(charge("r1"))
    assert Ledger(engine).datasets() == []


def test_the_table_must_be_the_datasets(ledger: Ledger) -> None:
    """A charge that names another table than the registered one is refused."""
    with pytest.raises(ParameterError):
        ledger.reserve(charge("r1", table="other"))


def test_a_repeated_request_charges_nothing(ledger: Ledger, engine: DuckDBEngine) -> None:
    """The same request again returns the stored entry, not fresh, and changes nothing."""
    first = ledger.reserve(charge("r1", "0.5"))
    before = dump(engine)
    second = ledger.reserve(charge("r1", "0.5", who="bob"))
    assert first.fresh
    assert not second.fresh
    assert second == first
    assert dump(engine) == before


def test_a_repeated_request_returns_even_when_nothing_is_left(ledger: Ledger) -> None:
    """What was paid for can be had again after the budget is gone."""
    ledger.reserve(charge("r1", "2"))
    assert not ledger.reserve(charge("r1", "2")).fresh


def test_find_request_finds_what_was_reserved(ledger: Ledger) -> None:
    """A request is found by its id; an unknown one is None."""
    made = ledger.reserve(charge("r1"))
    assert ledger.find_request("r1") == made
    assert ledger.find_request("r2") is None


@pytest.mark.parametrize(
    "other",
    [charge("r1", "0.6"), charge("r1", method="snr"), charge("r1", plan={"trees": 4}),
     charge("r1", kind="approximate"), charge("r1", scope="region=north"), charge("r1", dataset="other")],
    ids=["epsilon", "method", "plan", "kind", "scope", "dataset"],
)  # fmt: skip
def test_a_request_id_stands_for_one_content(ledger: Ledger, other: Charge) -> None:
    """A request id that comes again with other content is an error, and charges nothing."""
    ledger.reserve(charge("r1"))
    with pytest.raises(ParameterError) as refused:
        ledger.reserve(other)
    assert refused.value.name == "request_id"
    assert ledger.budget("adult").spent_text == "0.5"


def test_an_analysts_cap_holds_under_the_datasets(ledger: Ledger) -> None:
    """An analyst with a cap is refused at it while others may go on."""
    ledger.set_cap("adult", parse_epsilon("0.5"), "ann", analyst="eve")
    ledger.reserve(charge("r1", "0.4"))
    with pytest.raises(BudgetExceeded, match='analyst "eve"') as refused:
        ledger.reserve(charge("r2", "0.2"))
    assert refused.value.left == "0.1"
    assert ledger.reserve(charge("r3", "0.2", who="bob")).fresh


def test_the_datasets_cap_counts_every_analyst(ledger: Ledger) -> None:
    """A generous cap for one analyst does not raise the dataset's."""
    ledger.set_cap("adult", parse_epsilon("5"), "ann", analyst="eve")
    ledger.reserve(charge("r1", "1.5", who="bob"))
    with pytest.raises(BudgetExceeded, match='table "adult"'):
        ledger.reserve(charge("r2", "0.6"))


def test_an_analysts_cap_counts_what_was_spent_before(ledger: Ledger) -> None:
    """A cap set later counts the analyst's earlier charges."""
    ledger.reserve(charge("r1", "0.4"))
    ledger.set_cap("adult", parse_epsilon("0.5"), "ann", analyst="eve")
    with pytest.raises(BudgetExceeded):
        ledger.reserve(charge("r2", "0.2"))
    assert ledger.verify() == []


def test_an_analysts_refusal_gives_back_the_datasets_part(ledger: Ledger) -> None:
    """When only the analyst's cap refuses, the dataset's row is as it was."""
    ledger.set_cap("adult", 0, "ann", analyst="eve")
    with pytest.raises(BudgetExceeded):
        ledger.reserve(charge("r1"))
    assert ledger.budget("adult").spent == 0


def test_kinds_never_mix(ledger: Ledger) -> None:
    """Spending of one kind leaves the other's budget alone, and a kind without a cap has nothing to spend."""
    ledger.reserve(charge("r1", "1.5"))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(charge("r2", "0.5", kind="approximate"))
    ledger.set_cap("adult", parse_epsilon("1"), "ann", kind="approximate")
    ledger.reserve(charge("r2", "1", kind="approximate"))
    assert ledger.budget("adult").spent_text == "1.5"
    assert ledger.budget("adult", "approximate").left == 0
    assert ledger.verify() == []


def test_without_a_cap_every_charge_is_still_recorded(ledger: Ledger) -> None:
    """A public dataset has no cap, but its spending and entries are kept, up to the largest sum."""
    ledger.register("iris", "iris", None, {}, "ann")
    for number in range(8):
        ledger.reserve(charge(f"r{number}", "1e9", dataset="iris", table="iris"))
    assert ledger.budget("iris").spent == 8 * 10**18
    assert (ledger.budget("iris").left, ledger.budget("iris").left_text) == (None, "no cap")
    with pytest.raises(BudgetExceeded):
        ledger.reserve(charge("r9", "1", dataset="iris", table="iris"))
    assert ledger.verify() == []


def test_a_read_only_database_charges_nothing_but_can_be_read(ledger: Ledger, engine: DuckDBEngine, path: Path) -> None:
    """Reserving on a read-only connection is DatabaseReadOnly; looking works."""
    ledger.reserve(charge("r1"))
    engine.close()
    reader = open_file(path, read_only=True)
    with pytest.raises(DatabaseReadOnly):
        Ledger(reader).reserve(charge("r2"))
    assert Ledger(reader).budget("adult").spent_text == "0.5"
    assert Ledger(reader).verify() == []
    reader.close()


def test_a_folder_that_cannot_be_written_charges_nothing(
    ledger: Ledger, engine: DuckDBEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the receipt cannot be written, the charge is undone."""
    before = dump(engine)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("dpsql.ledger.receipt._write_through", refuse)
    with pytest.raises(DatabaseReadOnly, match="receipt"):
        ledger.reserve(charge("r1"))
    assert dump(engine) == before


def test_a_database_in_memory_needs_no_receipt(tmp_path: Path) -> None:
    """In memory there is nothing to restore, so there is no receipt, and the chain still holds."""
    engine = open_file(":memory:")
    ledger = Ledger(engine)
    ledger.register("adult", "adult", 10**9, LENIENT, "ann")
    ledger.reserve(charge("r1"))
    assert ledger.receipt_path is None
    assert ledger.verify() == []
    engine.close()
