"""Spending: one guarded UPDATE of the dataset's row decides, whoever else is charging at that moment.

A sum that is checked first and written afterwards overspends when two do it at once. Here the comparison with
the cap is part of the statement that adds: it changes one row, or none, and then the charge is refused.
"""

from __future__ import annotations

import shlex

from dpsql.engines.base import Transaction
from dpsql.errors import BudgetExceeded, ChargeTooSmall, NotRegistered, ParameterError, RunsUnfinished
from dpsql.ledger import budget as budgets
from dpsql.ledger.amount import format_epsilon
from dpsql.ledger.budget import Budget
from dpsql.ledger.charge import Charge, scope_column


def spend(transaction: Transaction, charge: Charge) -> None:
    """Add a charge to the dataset's row, its scope's and its analyst's, or raise so that the block undoes it.

    Raises NotRegistered, BudgetExceeded, ChargeTooSmall, RunsUnfinished, or ParameterError when the charge does not fit
    the dataset.
    """
    before = _budget_for(transaction, charge)
    _check_limits(charge, before)
    if charge.scope:
        _check_partition(charge, before)
        changed = _spend_scope(transaction, charge)
    else:
        amount = charge.amount
        changed = transaction.run(_SPEND_ON_TABLE, (amount, amount, charge.dataset, charge.kind, amount))
    if changed != 1:
        raise _dataset_refusal(charge, before)
    if _spend_analyst(transaction, charge) != 1:
        raise _analyst_refusal(charge, before)


def _spend_scope(transaction: Transaction, charge: Charge) -> int:
    """Add a charge to its scope's row and the dataset's; return how many rows of datasets changed, 1 or 0."""
    key = (charge.dataset, charge.kind, charge.scope)
    transaction.run(_OPEN_SCOPE, (*key, *key))
    transaction.run(_RAISE_SCOPE, (charge.amount, *key))
    return transaction.run(_SPEND_SCOPE, (*key, charge.dataset, charge.kind, *key))


def _spend_analyst(transaction: Transaction, charge: Charge) -> int:
    """Add a charge to its analyst's row, and return how many rows changed, 1 or 0."""
    key = (charge.dataset, charge.kind, charge.who)
    transaction.run(OPEN_ANALYST, (*key, *key))
    others = (charge.dataset, charge.kind, budgets.ANY_ANALYST)
    return transaction.run(_SPEND_ANALYST, (charge.amount, *key, charge.amount, *others))


def _budget_for(transaction: Transaction, charge: Charge) -> Budget:
    """Return the budget that a charge would draw on; whether it suffices is for the guarded UPDATE to decide."""
    budget = budgets.read_budget(transaction, charge.dataset, charge.kind)
    if budget is None:
        rows = transaction.rows("SELECT dataset, table_name FROM dpsql.budget")
        if any(row["dataset"] == charge.dataset for row in rows):
            raise _no_such_kind(charge)
        raise NotRegistered(charge.table, [row["table_name"] for row in rows])
    if budget.table.casefold() != charge.table.casefold():
        raise ParameterError("table", allowed=f'"{budget.table}", the table of its dataset', given=charge.table)
    return budget


def _check_limits(charge: Charge, before: Budget) -> None:
    """Refuse a charge below the least one, and any charge while too many runs are unfinished.

    The counts are right however many runs start at once: writers of the ledger queue, and each reads after those before
    it. Data without a cap is public: there is nothing that a failure could tell of it.
    """
    if before.cap is None:
        return
    if charge.amount < before.least_charge:
        least = format_epsilon(before.least_charge)
        raise ChargeTooSmall(charge.table, needed=charge.amount_text, least=least, measure=charge.measure)
    standing = before.standing
    if standing.waits:
        hint = f"let runs under way end; then, as owner: dpsql ledger accept --table {shlex.quote(charge.table)}"
        limit = standing.limits.lost_runs
        raise RunsUnfinished(charge.table, lost=standing.lost, reserved=standing.reserved, limit=limit, hint=hint)


def _check_partition(charge: Charge, before: Budget) -> None:
    """Refuse a scope of another column than the dataset's other scopes have.

    Scopes of one column are disjoint, so that no row loses more than the largest of them. Scopes of two columns
    overlap, and the maximum would then understate what a row has lost.
    """
    columns = {scope_column(share.name) for share in before.scopes} - {charge.scope_column}
    if columns:
        raise ParameterError(
            "scope",
            allowed=f'of the form "{min(columns)}=VALUE", as this dataset is already split by that column',
            given=charge.scope,
            hint="charge the whole table",
        )


def _dataset_refusal(charge: Charge, before: Budget) -> BudgetExceeded:
    where = f'table "{charge.table}"' + (f' in scope "{charge.scope}"' if charge.scope else "")
    return BudgetExceeded(
        where,
        needed=charge.amount_text,
        left=budgets.amount_text(before.left_in(charge.scope)),
        cap=budgets.amount_text(before.cap),
        measure=charge.measure,
        hint=f"dpsql ledger --table {shlex.quote(charge.table)}",
    )


def _analyst_refusal(charge: Charge, before: Budget) -> BudgetExceeded:
    own = [share for share in before.analysts if share.name == charge.who]
    cap = own[0].cap if own and own[0].cap is not None else before.default_analyst_cap
    return BudgetExceeded(
        f'analyst "{charge.who}" on table "{charge.table}"',
        needed=charge.amount_text,
        left=budgets.amount_text(budgets.left_of(cap, own[0].spent if own else 0)),
        cap=budgets.amount_text(cap),
        measure=charge.measure,
        hint=f"dpsql budget --table {shlex.quote(charge.table)}",
    )


def _no_such_kind(charge: Charge) -> BudgetExceeded:
    return BudgetExceeded(
        f'table "{charge.table}", for kind "{charge.kind}",',
        needed=charge.amount_text,
        left=format_epsilon(0),
        cap=format_epsilon(0),
        measure=charge.measure,
        hint=how_to_open(charge.table, charge.kind),
    )


def how_to_open(table: str, kind: str) -> str:
    """Return the next step where a dataset has no budget of a kind: its owner must open it."""
    command = f"as owner: dpsql budget --table {shlex.quote(table)} --kind {kind} --set-cap E"
    return f"leave out --delta, or {command} --delta D" if kind == "approximate" else command


# Without a cap a row still ends at 8 * 10**18, so that no sum leaves a BIGINT.
_SPEND_ON_TABLE = """
UPDATE dpsql.budget
SET whole = whole + ?, spent = spent + ?
WHERE dataset = ? AND kind = ? AND spent + ? <= coalesce(cap, 8000000000000000000)
"""
_OPEN_SCOPE = """
INSERT INTO dpsql.scope_budget (dataset, kind, scope, spent)
SELECT ?, ?, ?, 0
WHERE NOT EXISTS (SELECT 1 FROM dpsql.scope_budget WHERE dataset = ? AND kind = ? AND scope = ?)
"""
_RAISE_SCOPE = "UPDATE dpsql.scope_budget SET spent = spent + ? WHERE dataset = ? AND kind = ? AND scope = ?"
# The scope's own row is raised just before; if this statement changes nothing, the block undoes both.
_SPEND_SCOPE = """
UPDATE dpsql.budget
SET spent = greatest(spent, whole + (
    SELECT part.spent FROM dpsql.scope_budget AS part
    WHERE part.dataset = ? AND part.kind = ? AND part.scope = ?))
WHERE dataset = ? AND kind = ? AND whole + (
    SELECT part.spent FROM dpsql.scope_budget AS part
    WHERE part.dataset = ? AND part.kind = ? AND part.scope = ?
) <= coalesce(cap, 8000000000000000000)
"""
OPEN_ANALYST = """
INSERT INTO dpsql.analyst_budget (dataset, kind, analyst, cap, spent)
SELECT ?, ?, ?, NULL, 0
WHERE NOT EXISTS (SELECT 1 FROM dpsql.analyst_budget WHERE dataset = ? AND kind = ? AND analyst = ?)
"""
_SPEND_ANALYST = """
UPDATE dpsql.analyst_budget
SET spent = spent + ?
WHERE dataset = ? AND kind = ? AND analyst = ? AND spent + ? <= coalesce(cap, (
    SELECT others.cap FROM dpsql.analyst_budget AS others
    WHERE others.dataset = ? AND others.kind = ? AND others.analyst = ?
), 8000000000000000000)
"""
