"""What the events add up to, and whether the budget rows say the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dpsql.engines.base import Transaction
from dpsql.ledger.amount import format_epsilon
from dpsql.ledger.chain import Event


@dataclass
class Account:
    """What the events say of one dataset and kind."""

    table: str
    cap: int | None
    whole: int = 0
    scopes: dict[str, int] = field(default_factory=dict)
    analysts: dict[str, int] = field(default_factory=dict)
    analyst_caps: dict[str, int | None] = field(default_factory=dict)

    @property
    def spent(self) -> int:
        """Return the largest loss of any one row: the whole table's plus the largest scope's."""
        return self.whole + max(self.scopes.values(), default=0)


Accounts = dict[tuple[str, str], Account]


def replay(events: Iterable[Event]) -> tuple[Accounts, list[str]]:
    """Return what the events add up to, and one sentence for each charge that passed its cap."""
    accounts: Accounts = {}
    findings: list[str] = []
    for event in events:
        if event.event == "register":
            for (dataset, _), account in accounts.items():
                if dataset == event.dataset:
                    account.table = event.table_name
        if event.event in ("register", "cap"):
            _set_cap(accounts, event)
        elif event.event == "reserve":
            findings += _spend(accounts, event)
    return accounts, findings


def _set_cap(accounts: Accounts, event: Event) -> None:
    account = accounts.setdefault((event.dataset, event.kind), Account(event.table_name, event.cap))
    if event.analyst:
        account.analyst_caps[event.analyst] = event.cap
        account.analysts.setdefault(event.analyst, 0)
    else:
        account.cap = event.cap


def _spend(accounts: Accounts, event: Event) -> list[str]:
    account = accounts.get((event.dataset, event.kind))
    if account is None:
        return [f"event {event.sequence} charges a dataset that was not registered."]
    account.analysts[event.who] = account.analysts.get(event.who, 0) + event.nano_epsilon
    if event.scope:
        account.scopes[event.scope] = account.scopes.get(event.scope, 0) + event.nano_epsilon
        loss = account.whole + account.scopes[event.scope]
    else:
        account.whole += event.nano_epsilon
        loss = account.spent
    analyst_cap = account.analyst_caps.get(event.who)
    over = account.cap is not None and loss > account.cap
    over_own = analyst_cap is not None and account.analysts[event.who] > analyst_cap
    return [f"event {event.sequence} passes the cap that held then."] if over or over_own else []


Rows = dict[str, dict[tuple[str, ...], tuple[object, ...]]]


def expected_rows(accounts: Accounts) -> Rows:
    """Return the rows of the three budget tables, by key, as the events have them."""
    rows: Rows = {"budget": {}, "scope_budget": {}, "analyst_budget": {}}
    for (dataset, kind), account in accounts.items():
        rows["budget"][(dataset, kind)] = (account.table, account.cap, account.whole, account.spent)
        for scope, spent in account.scopes.items():
            rows["scope_budget"][(dataset, kind, scope)] = (spent,)
        for analyst, spent in account.analysts.items():
            cap = account.analyst_caps.get(analyst)
            rows["analyst_budget"][(dataset, kind, analyst)] = (cap, spent)
    return rows


def stored_rows(transaction: Transaction) -> Rows:
    """Return the rows of the three budget tables, by key, as they stand. One scan each."""
    rows: Rows = {}
    for name, (statement, width) in _READ.items():
        found = [tuple(row.values()) for row in transaction.rows(statement)]
        rows[name] = {row[:width]: row[width:] for row in found}
    return rows


def findings(transaction: Transaction, events: Iterable[Event]) -> list[str]:
    """Return one sentence for each budget row that the events do not bear out, and each cap passed."""
    accounts, found = replay(events)
    wanted, stored = expected_rows(accounts), stored_rows(transaction)
    for name in wanted:
        for key in sorted(wanted[name].keys() | stored[name].keys()):
            if wanted[name].get(key) != stored[name].get(key):
                found.append(_difference(name, key, wanted[name].get(key), stored[name].get(key)))
    return found


def rebuild(transaction: Transaction, events: Iterable[Event]) -> None:
    """Write the budget rows anew from the events: the chain is the truth, the rows are its sums."""
    rows = expected_rows(replay(events)[0])
    for name, (delete, insert) in _REBUILD.items():
        transaction.run(delete)
        for key, values in rows[name].items():
            transaction.run(insert, (*key, *values))


def _difference(
    name: str, key: tuple[str, ...], wanted: tuple[object, ...] | None, stored: tuple[object, ...] | None
) -> str:
    place = f'the row of dpsql.{name} for "{" / ".join(key)}"'
    if stored is None:
        return f"{place} is missing."
    if wanted is None:
        return f"{place} has no event behind it."
    said, spent = stored[-1], wanted[-1]
    if isinstance(said, int) and isinstance(spent, int) and said != spent:
        return f"{place} says {format_epsilon(said)} is spent, its events add up to {format_epsilon(spent)}."
    return f"{place} was changed: its events say otherwise."


_READ = {
    "budget": ("SELECT dataset, kind, table_name, cap, whole, spent FROM dpsql.budget", 2),
    "scope_budget": ("SELECT dataset, kind, scope, spent FROM dpsql.scope_budget", 3),
    "analyst_budget": ("SELECT dataset, kind, analyst, cap, spent FROM dpsql.analyst_budget", 3),
}
_REBUILD = {
    "budget": (
        "DELETE FROM dpsql.budget",
        "INSERT INTO dpsql.budget (dataset, kind, table_name, cap, whole, spent) VALUES (?, ?, ?, ?, ?, ?)",
    ),
    "scope_budget": (
        "DELETE FROM dpsql.scope_budget",
        "INSERT INTO dpsql.scope_budget (dataset, kind, scope, spent) VALUES (?, ?, ?, ?)",
    ),
    "analyst_budget": (
        "DELETE FROM dpsql.analyst_budget",
        "INSERT INTO dpsql.analyst_budget (dataset, kind, analyst, cap, spent) VALUES (?, ?, ?, ?, ?)",
    ),
}
