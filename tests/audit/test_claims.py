"""What ledger, budget and certificates say that an act cost, each beside what was lost."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from dpsql.audit.claims import BUDGET, CHARGES, NANO, Claim, Outcome, claims_of, model_outcome
from dpsql.audit.ways import DELTA, database_in_memory
from tests.audit.pairs import PEOPLE, SCHEMA, TYPES, MadeUpTable, updated


def charge(epsilon: int, dataset: str = "people-1") -> Any:
    """Return what a claim reads of an entry."""
    return SimpleNamespace(dataset=dataset, kind="pure", amount=epsilon * NANO)


def test_a_budget_claims_what_it_grew_by() -> None:
    """What was spent before the act is no promise of the act's, and other budgets are not the unit's."""
    before = {("people-1", "pure"): 5 * NANO, ("others-1", "pure"): 0}
    after = {("people-1", "pure"): 7 * NANO, ("others-1", "pure"): 9 * NANO}
    claims = claims_of({0: Fraction(1)}, [charge(1), charge(2)], [], before=before, after=after)
    assert claims == (Claim(CHARGES, Fraction(1), Fraction(3)), Claim(BUDGET, Fraction(1), Fraction(2)))


def test_a_certificate_speaks_of_its_own_sessions() -> None:
    """The loss of a session that did not go into a model is not held against that model's certificate."""
    losses = {0: Fraction(1), 1: Fraction(2), 2: Fraction(4)}
    outcomes = [Outcome("structure"), Outcome("model", Fraction(3), range(2))]
    *_, last = claims_of(losses, [], outcomes, before={}, after={})
    assert last == Claim("certificate 2", Fraction(3), Fraction(3))
    assert last.holds


def test_nothing_promised_is_nothing_to_lose() -> None:
    """Where no record promises anything the smallest loss is infinitely more; no loss is none."""
    assert Claim(CHARGES, Fraction(1, 10**9), Fraction(0)).ratio == math.inf
    assert Claim(CHARGES, Fraction(0), Fraction(0)).ratio == 0


def test_a_model_with_a_delta_states_its_rho() -> None:
    """Losses with a delta are added up in rho, so that is what a certificate is asked for."""
    table = MadeUpTable("people", TYPES, PEOPLE, SCHEMA)
    with database_in_memory([table]) as database:
        database.register("people", SCHEMA, cap=10)
        database.set_cap("people", 10, kind="approximate", delta=DELTA)
        pure = database.train("people", method="rdt", depth=1)
        approximate = database.train("people", method="rdt", depth=1, delta=DELTA)
        charges = [Fraction(entry.amount, NANO) for entry in database.book.entries(event="reserve")]
        assert [model_outcome(pure).certified, model_outcome(approximate).certified] == charges


def test_all_records_of_an_update_agree() -> None:
    """A person in both batches loses two epsilons; charges, budget and the second certificate say so."""
    found = updated()
    assert [(claim.loss, claim.promise) for claim in found.claims] == [(2, 2), (2, 2), (1, 1), (2, 2)]
