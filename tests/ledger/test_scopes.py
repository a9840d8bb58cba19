"""Scopes: a row loses what the whole table spent plus what its own scope spent, and no more than the cap."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.engines.duckdb.open_database import open_file
from dpsql.errors import BudgetExceeded, ParameterError
from dpsql.ledger import Ledger, parse_epsilon

from .helpers import LENIENT, charge

SCOPES = ("", "region=north", "region=south", "region=west")


def test_disjoint_scopes_cost_only_their_own_rows(ledger: Ledger) -> None:
    """Two scopes may each spend the whole cap: no row is in both."""
    ledger.reserve(charge("r1", "2", scope="region=north"))
    ledger.reserve(charge("r2", "2", scope="region=south"))
    assert ledger.budget("adult").spent_text == "2"
    with pytest.raises(BudgetExceeded):
        ledger.reserve(charge("r3", "0.1", scope="region=north"))


def test_the_whole_table_costs_every_scope(ledger: Ledger) -> None:
    """After 1.5 on the whole table each scope has 0.5 left."""
    ledger.reserve(charge("r1", "1.5"))
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve(charge("r2", "0.6", scope="region=north"))
    assert refused.value.left == "0.5"
    ledger.reserve(charge("r3", "0.5", scope="region=north"))
    assert ledger.budget("adult").left_in("region=south") == parse_epsilon("0.5")


def test_the_largest_scope_bounds_the_whole_table(ledger: Ledger) -> None:
    """A charge on the whole table needs room beside the scope that spent most."""
    ledger.reserve(charge("r1", "1.5", scope="region=north"))
    ledger.reserve(charge("r2", "0.25", scope="region=south"))
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve(charge("r3", "0.6"))
    assert refused.value.left == "0.5"


def test_scopes_of_two_columns_overlap_and_are_refused(ledger: Ledger) -> None:
    """A row can be in the north and in batch 3: one dataset is split by one column."""
    ledger.reserve(charge("r1", "0.5", scope="region=north"))
    with pytest.raises(ParameterError, match="region=VALUE"):
        ledger.reserve(charge("r2", "0.5", scope="batch=3"))
    assert ledger.verify() == []


def test_an_analysts_charges_add_up_over_scopes(ledger: Ledger) -> None:
    """An analyst's own cap counts all charges, whatever their scope."""
    ledger.set_cap("adult", parse_epsilon("1"), "ann", analyst="eve")
    ledger.reserve(charge("r1", "0.6", scope="region=north"))
    with pytest.raises(BudgetExceeded, match="analyst"):
        ledger.reserve(charge("r2", "0.6", scope="region=south"))


STEP = st.tuples(st.sampled_from(SCOPES), st.integers(1, 6))


@settings(max_examples=20, deadline=None)
@given(cap=st.integers(0, 12), steps=st.lists(STEP, min_size=1, max_size=8))
def test_scopes_add_up_as_in_plain_python(cap: int, steps: list[tuple[str, int]]) -> None:
    """For any order of charges the ledger accepts, refuses and sums as the loss of each kind of row says."""
    engine = open_file(":memory:")
    ledger = Ledger(engine)
    ledger.register("adult", "adult", cap, LENIENT, "ann")
    losses = dict.fromkeys(("region=north", "region=south", "region=west", "region=elsewhere"), 0)
    for number, (scope, amount) in enumerate(steps):
        touched = [row for row in losses if scope in ("", row)]
        allowed = all(losses[row] + amount <= cap for row in touched)
        try:
            ledger.reserve(charge(f"r{number}", Fraction(amount, 10**9), scope=scope))
            accepted = True
        except BudgetExceeded:
            accepted = False
        assert accepted == allowed
        if allowed:
            losses |= {row: losses[row] + amount for row in touched}
        assert ledger.budget("adult").spent == max(losses.values())
    assert ledger.verify() == []
    engine.close()
