"""Releases commit with what they release; a lost run keeps its charge."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from dpsql.engines.duckdb.engine import DuckDBEngine
from dpsql.errors import ParameterError
from dpsql.ledger import Ledger

from .helpers import charge, dump


def test_a_release_is_an_event_of_its_own(ledger: Ledger) -> None:
    """Releasing appends to the chain; the reserve event stays as it was."""
    entry = ledger.reserve(charge("r1"))
    with ledger.transaction() as transaction:
        ledger.release(entry, "d1", transaction)
    (found,) = ledger.entries(event="reserve")
    assert (found.state, found.digest, found.hash) == ("released", "d1", entry.hash)
    assert ledger.verify() == []


def test_a_release_commits_with_the_callers_rows(ledger: Ledger, engine: DuckDBEngine) -> None:
    """When the caller's block fails, neither its rows nor the release are kept."""
    entry = ledger.reserve(charge("r1"))
    before = dump(engine)

    def keep() -> None:
        with ledger.transaction() as transaction:
            transaction.run("CREATE TABLE dpsql.model (name VARCHAR)")
            ledger.release(entry, "d1", transaction)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        keep()
    assert dump(engine) == before
    assert ledger.verify() == []


def test_write_returns_what_the_work_returns(ledger: Ledger) -> None:
    """`write` runs a function in a block and hands back its result."""
    entry = ledger.reserve(charge("r1"))
    assert ledger.write(lambda transaction: ledger.release(entry, "d1", transaction)).state == "released"


def test_an_entry_is_released_once(ledger: Ledger) -> None:
    """A second release, or a loss after it, is refused."""
    entry = ledger.reserve(charge("r1"))
    ledger.write(lambda transaction: ledger.release(entry, "d1", transaction))
    with pytest.raises(ParameterError, match="released"):
        ledger.write(lambda transaction: ledger.release(entry, "d2", transaction))
    with pytest.raises(ParameterError, match="released"):
        ledger.mark_lost(entry, "QueryFailed")


def test_only_the_caller_that_charged_may_release(ledger: Ledger) -> None:
    """One charge, one release: an entry got by repeating a request cannot be released."""
    ledger.reserve(charge("r1"))
    repeated = ledger.reserve(charge("r1"))
    with pytest.raises(ParameterError):
        ledger.write(lambda transaction: ledger.release(repeated, "d1", transaction))


def test_a_release_needs_a_block_of_the_ledger(ledger: Ledger, engine: DuckDBEngine) -> None:
    """A bare transaction has no receipt, and a block that has ended is no block."""
    entry = ledger.reserve(charge("r1"))
    with engine.transaction() as bare, pytest.raises(ParameterError):
        ledger.release(entry, "d1", bare)
    with ledger.transaction() as ended:
        pass
    with pytest.raises(ParameterError):
        ledger.release(entry, "d1", ended)


def test_a_lost_run_keeps_its_charge(ledger: Ledger) -> None:
    """There is no refund."""
    entry = ledger.reserve(charge("r1", "0.5"))
    assert ledger.mark_lost(entry, "QueryFailed").details == {"reason": "QueryFailed"}
    assert ledger.entries(event="reserve")[0].state == "lost"
    assert ledger.budget("adult").spent_text == "0.5"
    assert ledger.verify() == []


def test_an_entry_of_another_ledger_cannot_be_closed(ledger: Ledger) -> None:
    """An entry is known by its hash, not by its number alone."""
    entry = ledger.reserve(charge("r1"))
    with pytest.raises(ParameterError, match="not in this ledger"):
        ledger.mark_lost(replace(entry, hash="0" * 64), "QueryFailed")


def test_the_view_shows_states_and_exact_epsilon(ledger: Ledger, engine: DuckDBEngine) -> None:
    """dpsql.ledger has one line per charge with its state and a decimal epsilon."""
    first = ledger.reserve(charge("r1", "0.1"))
    ledger.reserve(charge("r2", "0.000000001"))
    ledger.write(lambda transaction: ledger.release(first, "d1", transaction))
    with engine.transaction() as transaction:
        rows = transaction.rows("SELECT state, epsilon, digest FROM dpsql.ledger ORDER BY entry_id")
    assert [(row["state"], row["epsilon"], row["digest"]) for row in rows] == [
        ("released", Decimal("0.1"), "d1"),
        ("reserved", Decimal("0.000000001"), None),
    ]
