"""What is said when budgets are made: what a cap means, whether any run fits, what a name is worth, who is held out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from dpsql.api.database import Database
from dpsql.cli.printing.output import note, say
from dpsql.kernel.datasets.dataset import Dataset
from dpsql.ledger import Budget
from dpsql.ledger.budget import ANY_ANALYST, Share, amount_text, left_of
from dpsql.ledger.odds import LargeEpsilonWarning

#: What the cap of all analysts without one of their own is called in tables.
OTHERS = "all others"


@contextmanager
def note_warnings() -> Iterator[None]:
    """Show warnings of large epsilons as notes on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LargeEpsilonWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, LargeEpsilonWarning):
            note(f"Warning: {warning.message}")
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def note_exhausted(budget: Budget, analyst: str | None) -> None:
    """Say where the cap of a table, or that of an analyst under it, leaves too little for any run."""
    if _is_too_little(budget, budget.left):
        _note_no_run(f'on "{budget.table}"', budget.spent, budget.cap)
        return
    for other in _without_own_cap(budget) if analyst == ANY_ANALYST else ():
        if _is_too_little(budget, left_of(budget.default_analyst_cap, other.spent)):
            where = f'on "{budget.table}" by {analyst_text(other.name)}'
            _note_no_run(where, other.spent, budget.default_analyst_cap)
    share = next((share for share in budget.analysts if share.name == analyst), None)
    if share is not None and share.cap is not None and _is_too_little(budget, share.left):
        _note_no_run(f'on "{budget.table}" by {analyst_text(share.name)}', share.spent, share.cap)


def _without_own_cap(budget: Budget) -> list[Share]:
    """Return the analysts who have spent something and have no cap of their own."""
    return [share for share in budget.analysts if share.name != ANY_ANALYST and share.cap is None]


def _is_too_little(budget: Budget, left: int | None) -> bool:
    return left is not None and left < max(budget.least_charge, 1)


def _note_no_run(where: str, spent: int, cap: int | None) -> None:
    note(f"Already spent {amount_text(spent)} {where}: no run will fit under a cap of {amount_text(cap)}.")


def note_claimed_names(db: Database) -> None:
    """Say that a name is a claim wherever the ledger is a file."""
    if db.engine.path is not None:
        note("--as is a claim, not a login: whoever opens this file can take any name, and can read its rows.")
        note("Analysts who must not see rows need a server: dpsql init on PostgreSQL.")


def say_hold_out(dataset: Dataset, beside: Budget | None) -> None:
    """Say which share of a table is held out and under which cap, and what an edit of a row would do to it."""
    if dataset.hold_out is None or beside is None:
        return
    share = dataset.hold_out.share_text
    say(f'Hold-out: "{beside.table}", {share} of the units, with a cap of {beside.cap_text}.')
    if dataset.schema.unit.column is None:
        note("Rows are held out by what stands in them: one that is edited may change sides, and lose both budgets.")
        note("Where rows are edited, take a column that stays as the unit: --unit COLUMN:MAX_ROWS.")


def analyst_text(name: str) -> str:
    """Return how an analyst is shown; all without a cap of their own share one name."""
    return OTHERS if name == ANY_ANALYST else name
