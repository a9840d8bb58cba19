"""The part of an owner's delta that selections of common values use up.

A selection shows a text that only one unit has with a small probability, which is its selection delta (`CommonValues`
of `kernel/operations.py`). These probabilities add up over all runs, beside the rho that the runs pay. So the owner
sets a part of delta aside when a budget of kind "approximate" is opened, its cap in rho is worked out for the rest of
delta, and a charge that would use up more than that part is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from dpsql.errors import BudgetExceeded, ParameterError
from dpsql.ledger.amount import format_delta
from dpsql.ledger.charge import Charge

if TYPE_CHECKING:
    from dpsql.ledger.accounts import Account

#: The key of a plan, and of a cap of kind "approximate", that holds a selection delta as decimal text.
KEY = "selection_delta"
#: Sums of deltas are exact: each is at least 1e-100 and has at most 20 digits. A method could have set other digits for
#: the whole process.
_EXACT = Context(prec=300)


def selection_delta_of(stored: Mapping[str, Any]) -> Decimal:
    """Return the selection delta that a stored plan or cap declares, 0 where it declares none."""
    return Decimal(stored.get(KEY, "0"))


def add_deltas(used: Decimal, more: Decimal) -> Decimal:
    """Return the exact sum of two selection deltas."""
    return _EXACT.add(used, more)


def check_selection(charge: Charge, account: Account | None) -> None:
    """Raise BudgetExceeded where a charge would use up more of delta than its owner has set aside for selections."""
    needed = selection_delta_of(charge.plan)
    if not needed:
        return
    allowed = account.selection_delta if account else Decimal(0)
    used = account.selection_used if account else Decimal(0)
    if add_deltas(used, needed) > allowed:
        raise BudgetExceeded(
            f'table "{charge.table}"',
            needed=format_delta(needed),
            left=format_delta(_EXACT.subtract(allowed, used)) if allowed > used else "0",
            cap=format_delta(allowed) if allowed else "0",
            measure="selection delta",
            hint="as owner set a part aside: dpsql budget … --kind approximate --delta D --selection-delta D/2",
        )


def check_still_covered(account: Account | None, selection_delta: Decimal) -> None:
    """Raise ParameterError where a new cap sets less of delta aside than selections have used up already."""
    if account is not None and account.selection_used > selection_delta:
        used = format_delta(account.selection_used)
        raise ParameterError("selection_delta", allowed=f"at least {used}, which is used up", given=selection_delta)
