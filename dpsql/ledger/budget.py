"""Budgets as values: what a dataset allows, what is spent and left, by analyst and by scope."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction

from dpsql.engines.base import Transaction
from dpsql.ledger import limits
from dpsql.ledger.amount import NANO, format_delta, format_epsilon, parse_epsilon
from dpsql.ledger.chain import parse_json_column
from dpsql.ledger.limits import Standing
from dpsql.ledger.selection import selection_delta_of
from dpsql.mechanisms.concentrated import smallest_epsilon
from dpsql.notebook_html import Readable, html_table

#: The name under which the cap of all analysts without a cap of their own is kept.
ANY_ANALYST = "*"


@dataclass(frozen=True)
class Share:
    """One analyst's or one scope's part of a budget; `cap` is None where it has none of its own."""

    name: str
    cap: int | None
    spent: int

    @property
    def left(self) -> int | None:
        """Return what is left under this cap alone, or None without one."""
        return left_of(self.cap, self.spent)

    @property
    def cap_text(self) -> str:
        """Return the cap as decimal text."""
        return amount_text(self.cap)

    @property
    def spent_text(self) -> str:
        """Return what is spent as decimal text."""
        return amount_text(self.spent)

    @property
    def left_text(self) -> str:
        """Return what is left as decimal text."""
        return amount_text(self.left)


@dataclass(frozen=True, repr=False)
class Budget(Readable):
    """A dataset's budget of one kind, in nano-epsilon.

    `spent_on_table` is what charges on the whole table add up to; `spent` is that plus the largest scope's spending.

    The amounts of kind "approximate" are nano-rho. The owner declared such a cap as an epsilon and a delta: `declared`,
    in nano-epsilon, and `delta`. A part of that delta, `selection_delta`, is set aside for selections of common values,
    and amounts of rho stand for epsilon at the rest. `standing` is the dataset's, whatever the kind: its limits and its
    unfinished runs.

    >>> budget = Budget("adult", "adult", "pure", cap=2_000_000_000, spent_on_table=0, spent=500_000_000)
    >>> budget.left_text
    '1.5'
    >>> budget
    Budget of "adult": 0.5 of 2 spent, 1.5 left
    """

    dataset: str
    table: str
    kind: str
    cap: int | None
    spent_on_table: int
    spent: int
    analysts: tuple[Share, ...] = ()
    scopes: tuple[Share, ...] = ()
    delta: Decimal | None = None
    declared: int | None = None
    selection_delta: Decimal = Decimal(0)
    standing: Standing = field(default_factory=Standing)

    def __str__(self) -> str:
        kind = "" if self.kind == "pure" else f" ({self.kind_text})"
        parts = [f'Budget of "{self.table}"{kind}: {_spent_and_left(self)}']
        parts += [f"{share.name} {_spent_and_left(share)}" for share in self.analysts if share.cap is not None]
        return "; ".join(parts)

    def _repr_html_(self) -> str:
        """Return a table for a notebook: the budget, and the parts of analysts and scopes."""
        whose: list[tuple[str, Budget | Share]] = [
            (self.table, self),
            *((f"analyst {share.name}", share) for share in self.analysts),
        ]
        whose += [(f"scope {share.name}", share) for share in self.scopes]
        rows = [(name, part.cap_text, part.spent_text, part.left_text) for name, part in whose]
        return html_table((f"budget ({self.kind_text})", "cap", "spent", "left"), rows)

    @property
    def least_charge(self) -> int:
        """Return the least charge of a run against this budget, in its own measure."""
        return self.standing.limits.least_charge(self.cap, self.declared)

    @property
    def left(self) -> int | None:
        """Return what a charge on the whole table may still cost, or None without a cap."""
        return left_of(self.cap, self.spent)

    def left_in(self, scope: str) -> int | None:
        """Return what a charge on one scope may still cost, or None without a cap."""
        spent = next((share.spent for share in self.scopes if share.name == scope), 0)
        return left_of(self.cap, self.spent_on_table + spent if scope else self.spent)

    @property
    def default_analyst_cap(self) -> int | None:
        """Return the cap of each analyst who has none of their own, or None."""
        return next((share.cap for share in self.analysts if share.name == ANY_ANALYST), None)

    def left_for(self, analyst: str) -> int | None:
        """Return what one analyst may still spend on the whole table: the least of all caps that hold for them.

        >>> shares = (Share("ann", None, 5), Share(ANY_ANALYST, 20, 0))
        >>> budget = Budget("adult", "adult", "pure", cap=100, spent_on_table=90, spent=90, analysts=shares)
        >>> budget.left_for("ann"), budget.left_for("bob")
        (10, 10)
        """
        limits = [left for left in (self.left, self.share_of(analyst).left) if left is not None]
        return min(limits) if limits else None

    def share_of(self, analyst: str) -> Share:
        """Return one analyst's part with the cap that holds for them: their own, or that of all others."""
        own = next((share for share in self.analysts if share.name == analyst), Share(analyst, None, 0))
        return own if own.cap is not None else replace(own, cap=self.default_analyst_cap)

    @property
    def cap_text(self) -> str:
        """Return the cap as decimal text, or "no cap"."""
        return self.text(self.cap)

    @property
    def spent_text(self) -> str:
        """Return what is spent as decimal text."""
        return self.text(self.spent, up=True)

    @property
    def left_text(self) -> str:
        """Return what is left as decimal text, or "no cap"."""
        return self.text(self.left)

    def epsilon_text(self, nano_rho: int, *, up: bool = False) -> str:
        """Return the epsilon that an amount of rho stands for at the owner's delta, to four decimals.

        With `up` it is rounded up, and says what is lost. Otherwise it is rounded down, and says what a run may ask
        for: runs pay whole nano-rho, rounded down.
        """
        if self.delta is None or nano_rho == 0:
            return format_epsilon(nano_rho)
        delta = Fraction(self.delta) - Fraction(self.selection_delta)
        exact = smallest_epsilon(Fraction(nano_rho if up else nano_rho + 1, NANO), delta)
        steps = exact * NANO / _SHOWN
        return format_epsilon((math.ceil(steps) if up else math.floor(steps)) * _SHOWN)

    def text(self, nano: int | None, *, up: bool = False) -> str:
        """Return an amount of this kind: epsilon, or rho and the epsilon that it stands for."""
        if nano is None or self.delta is None:
            return amount_text(nano)
        return f"rho {amount_text(nano)} (epsilon {self.epsilon_text(nano, up=up)})"

    @property
    def kind_text(self) -> str:
        """Return the kind, with the delta that its owner declared where there is one."""
        return self.kind if self.delta is None else f"{self.kind}, delta {format_delta(self.delta)}"


def _spent_and_left(part: Budget | Share) -> str:
    """Return what is spent and left of a budget or of a share of it, in words."""
    if part.cap is None:
        return f"{part.spent_text} spent, no cap"
    return f"{part.spent_text} of {part.cap_text} spent, {part.left_text} left"


#: Epsilons that are worked out from rho are shown in steps of this many nano-epsilon: to four decimals.
_SHOWN = 100_000


def left_of(cap: int | None, spent: int) -> int | None:
    """Return what is left under a cap: never below 0, None without a cap.

    >>> left_of(10, 3), left_of(10, 12), left_of(None, 3)
    (7, 0, None)
    """
    return None if cap is None else max(0, cap - spent)


def amount_text(nano: int | None) -> str:
    """Return an amount of epsilon or rho as decimal text, and "no cap" for None."""
    return "no cap" if nano is None else format_epsilon(nano)


def read_budget(transaction: Transaction, dataset: str, kind: str) -> Budget | None:
    """Return a dataset's budget as its rows stand, or None when it has none of that kind."""
    rows = transaction.rows(_BUDGET, (dataset, kind))
    if not rows:
        return None
    row = rows[0]
    declared = _declared_delta(transaction, dataset) if kind == "approximate" else {}
    return Budget(
        dataset,
        row["table_name"],
        kind,
        cap=row["cap"],
        spent_on_table=row["whole"],
        spent=row["spent"],
        analysts=tuple(Share(**share) for share in transaction.rows(_ANALYSTS, (dataset, kind))),
        scopes=tuple(Share(**share) for share in transaction.rows(_SCOPES, (dataset, kind))),
        delta=Decimal(declared["delta"]) if "delta" in declared else None,
        declared=parse_epsilon(declared["epsilon"]) if "epsilon" in declared else None,
        selection_delta=selection_delta_of(declared),
        standing=limits.read_standing(transaction, dataset),
    )


def _declared_delta(transaction: Transaction, dataset: str) -> dict[str, str]:
    """Return the epsilon and the delta of the owner's last cap of kind "approximate"."""
    rows = transaction.rows(_DETAILS, (dataset,))
    return dict(parse_json_column(rows[0]["details"])) if rows else {}


_BUDGET = "SELECT table_name, cap, whole, spent FROM dpsql.budget WHERE dataset = ? AND kind = ?"
_ANALYSTS = """
SELECT analyst AS name, cap, spent FROM dpsql.analyst_budget WHERE dataset = ? AND kind = ? ORDER BY analyst
"""
_DETAILS = """
SELECT details FROM dpsql.entry
WHERE event = 'cap' AND kind = 'approximate' AND analyst = '' AND dataset = ? ORDER BY sequence DESC LIMIT 1
"""
_SCOPES = """
SELECT scope AS name, NULL AS cap, spent FROM dpsql.scope_budget WHERE dataset = ? AND kind = ? ORDER BY scope
"""
