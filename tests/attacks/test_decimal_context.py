"""A method runs in the kernel's process, and may set how decimals are rounded there. No amount follows from it."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_DOWN, Decimal, getcontext, localcontext

import pytest

from dpsql.errors import BudgetExceeded
from dpsql.kernel import noise
from dpsql.kernel.operations import CommonValues
from dpsql.kernel.plan import Step
from dpsql.kernel.promise import Promise
from dpsql.ledger.accounts import ReplayedEvents
from dpsql.ledger.chain import Event
from dpsql.ledger.charge import Charge, canonical_json
from dpsql.ledger.selection import check_selection
from dpsql.schema import Unit

STEP = Step("v", CommonValues(), 10**9)
PROMISE = Promise(Unit(), approximate=noise.approximate(10**9, Decimal("1e-6"), Decimal("5e-7")))


@pytest.fixture
def coarse() -> Iterator[None]:
    """Round every decimal down to one digit, as a method could before it asks."""
    with localcontext():
        getcontext().prec, getcontext().rounding = 1, ROUND_DOWN
        yield


def test_the_threshold_of_a_selection_is_the_same_under_every_context(request: pytest.FixtureRequest) -> None:
    """A lower one would show the text of one unit more often than delta allows."""
    honest = noise.least_common(STEP, PROMISE)
    request.getfixturevalue("coarse")
    assert noise.least_common(STEP, PROMISE) == honest


@pytest.mark.usefixtures("coarse")
def test_selection_deltas_add_up_under_every_context() -> None:
    """Rounded down, many small ones would add up to nothing, and the owner's part of delta would last forever."""
    replayed = ReplayedEvents()
    details = canonical_json("details", {"epsilon": "1", "delta": "1e-6", "selection_delta": "5e-7"})
    replayed.take(Event(1, "cap", 1, dataset="d", kind="approximate", cap=10**12, table_name="t", details=details))
    charges = ["4e-7", "4.1e-8", "4.1e-8"]
    for place, delta in enumerate(charges):
        plan = canonical_json("plan", {"selection_delta": delta})
        event = Event(2 + place, "reserve", 2 + place, dataset="d", kind="approximate", amount=10**10, plan=plan)
        assert replayed.take(event) == []
    account = replayed.accounts["d", "approximate"]
    assert account.selection_used == Decimal("4.82e-7")
    check_selection(_charge("1.8e-8"), account)
    with pytest.raises(BudgetExceeded):
        check_selection(_charge("1.9e-8"), account)


def _charge(delta: str) -> Charge:
    """Return a charge for a selection with this selection delta."""
    return Charge(
        request_id="r",
        dataset="d",
        table="t",
        method="m",
        plan={"selection_delta": delta},
        amount=10**7,
        neighbours="add or remove one row",
        unit="row",
        scope="",
        kind="approximate",
        who="ann",
    )
