"""What the events add up to, and whether the budget rows say the same."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from dpsql.engines.base import Transaction
from dpsql.ledger.amount import format_epsilon, parse_epsilon
from dpsql.ledger.budget import ANY_ANALYST
from dpsql.ledger.chain import Event, parse_json_column
from dpsql.ledger.entry import folds_scopes
from dpsql.ledger.formats import LEDGER
from dpsql.ledger.limits import Limits
from dpsql.ledger.selection import add_deltas, selection_delta_of


@dataclass
class Account:
    """What the events say of one dataset and kind, in nano-epsilon, or in nano-rho for kind "approximate".

    `declared` is the nano-epsilon for which the owner declared a cap of kind "approximate". `spent_on_table` is what
    charges on the whole table add up to; charges on one scope of it are added up in `scopes`. `selection_delta` is the
    part of the owner's delta that selections of common values may use up, and `selection_used` is what they have used.
    """

    table: str
    cap: int | None
    declared: int | None = None
    spent_on_table: int = 0
    scopes: dict[str, int] = field(default_factory=dict)
    analysts: dict[str, int] = field(default_factory=dict)
    analyst_caps: dict[str, int | None] = field(default_factory=dict)
    selection_delta: Decimal = Decimal(0)
    selection_used: Decimal = Decimal(0)

    @property
    def largest_loss(self) -> int:
        """Return the largest loss of any one row: the whole table's plus the largest scope's."""
        return self.spent_on_table + max(self.scopes.values(), default=0)


#: The first format with a least charge and a limit of unfinished runs: older charges were not held to them.
_LIMITED_SINCE = 2

Accounts = dict[tuple[str, str], Account]


@dataclass
class Runs:
    """What the events say of one dataset's runs: its limits, the entries that are unfinished, its last registration."""

    registered: int = 0
    limits: Limits = field(default_factory=Limits)
    unfinished: set[int] = field(default_factory=set)


@dataclass
class ReplayedEvents:
    """What the events so far add up to, in a ledger of which format; `take` adds one."""

    format: int = LEDGER
    accounts: Accounts = field(default_factory=dict)
    runs: dict[str, Runs] = field(default_factory=dict)

    def take(self, event: Event) -> list[str]:
        """Add an event, and return one sentence for each rule that it breaks."""
        findings: list[str] = []
        runs = self.runs.setdefault(event.dataset, Runs())
        if event.event in ("register", "limit"):
            runs.limits = runs.limits.with_changes(parse_json_column(event.details))
        if event.event == "register":
            runs.registered = event.entry_id
            for (dataset, _), account in self.accounts.items():
                if dataset == event.dataset:
                    account.table = event.table_name
                    if folds_scopes(event):
                        account.spent_on_table, account.scopes = account.largest_loss, {}
        if event.event in ("register", "cap"):
            _set_cap(self.accounts, event)
        elif event.event == "reserve":
            if self.format >= _LIMITED_SINCE:
                findings += _limit_findings(self.accounts, runs, event)
            findings += _spend(self.accounts, event)
            runs.unfinished.add(event.entry_id)
        elif event.event == "release":
            runs.unfinished.discard(event.entry_id)
        elif event.event == "accept":
            runs.unfinished.clear()
        elif event.event == "upgrade":
            self.format = parse_json_column(event.details)["to"]
        return findings


def replay_events(events: Iterable[Event], before: ReplayedEvents | None = None) -> tuple[ReplayedEvents, list[str]]:
    """Return what the events and those `before` them add up to, and one sentence for each new event that broke a rule.

    A charge breaks a rule when it passes its cap or its limits. `before` itself is not changed.
    """
    so_far = ReplayedEvents() if before is None else copy.deepcopy(before)
    findings = [sentence for event in events for sentence in so_far.take(event)]
    return so_far, findings


def first_format(events: Iterable[Event], now: int) -> int:
    """Return the format that a ledger began in: what its first upgrade started from, or the format that it has now."""
    return next((int(parse_json_column(event.details)["from"]) for event in events if event.event == "upgrade"), now)


def _set_cap(accounts: Accounts, event: Event) -> None:
    account = accounts.setdefault((event.dataset, event.kind), Account(event.table_name, event.cap))
    if event.analyst:
        account.analyst_caps[event.analyst] = event.cap
        account.analysts.setdefault(event.analyst, 0)
        return
    account.cap = event.cap
    if event.kind == "approximate":
        epsilon = parse_json_column(event.details).get("epsilon")
        account.declared = None if epsilon is None else parse_epsilon(epsilon)
        account.selection_delta = selection_delta_of(parse_json_column(event.details))


def _limit_findings(accounts: Accounts, runs: Runs, event: Event) -> list[str]:
    """Return a sentence where a charge was too small, or was made while the dataset waited for its owner."""
    account = accounts.get((event.dataset, event.kind))
    if account is None or account.cap is None:
        return []
    small = event.amount < runs.limits.least_charge(account.cap, account.declared)
    early = len(runs.unfinished) >= runs.limits.lost_runs
    return [f"event {event.sequence} passes the limits that held then."] if small or early else []


def _spend(accounts: Accounts, event: Event) -> list[str]:
    """Add a charge to its account, and return a sentence where it passes the dataset's cap or the analyst's."""
    account = accounts.get((event.dataset, event.kind))
    if account is None:
        return [f"event {event.sequence} charges a dataset that was not registered."]
    account.analysts[event.who] = account.analysts.get(event.who, 0) + event.amount
    if event.scope:
        account.scopes[event.scope] = account.scopes.get(event.scope, 0) + event.amount
        loss = account.spent_on_table + account.scopes[event.scope]
    else:
        account.spent_on_table += event.amount
        loss = account.largest_loss
    own_cap = account.analyst_caps.get(event.who)
    analyst_cap = account.analyst_caps.get(ANY_ANALYST) if own_cap is None else own_cap
    over = account.cap is not None and loss > account.cap
    over_own = analyst_cap is not None and account.analysts[event.who] > analyst_cap
    if event.kind == "approximate":
        needed = selection_delta_of(parse_json_column(event.plan))
        account.selection_used = add_deltas(account.selection_used, needed)
    over_delta = account.selection_used > account.selection_delta
    return [f"event {event.sequence} passes the cap that held then."] if over or over_own or over_delta else []


#: The rows of each budget table: its name -> the row's key -> its other values.
Rows = dict[str, dict[tuple[str, ...], tuple[object, ...]]]


def expected_rows(accounts: Accounts) -> Rows:
    """Return the rows of the three budget tables, by key, as the events have them."""
    rows: Rows = {"budget": {}, "scope_budget": {}, "analyst_budget": {}}
    for (dataset, kind), account in accounts.items():
        sums = (account.spent_on_table, account.largest_loss)
        rows["budget"][(dataset, kind)] = (account.table, account.cap, *sums)
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
        values = [tuple(row.values()) for row in transaction.rows(statement)]
        rows[name] = {row[:width]: row[width:] for row in values}
    return rows


def account_findings(transaction: Transaction, accounts: Accounts) -> list[str]:
    """Return one sentence for each budget row that the events do not bear out."""
    findings: list[str] = []
    expected, stored = expected_rows(accounts), stored_rows(transaction)
    for name in expected:
        for key in sorted(expected[name].keys() | stored[name].keys()):
            if expected[name].get(key) != stored[name].get(key):
                findings.append(_difference(name, key, expected[name].get(key), stored[name].get(key)))
    return findings


def rebuild(transaction: Transaction, accounts: Accounts) -> None:
    """Write the budget rows anew from the events: the chain is the truth, the rows are its sums."""
    rows = expected_rows(accounts)
    for name, (delete, insert) in _REBUILD.items():
        transaction.run(delete)
        for key, values in rows[name].items():
            transaction.run(insert, (*key, *values))


def _difference(
    name: str, key: tuple[str, ...], expected: tuple[object, ...] | None, stored: tuple[object, ...] | None
) -> str:
    """Return how a stored row of a budget table differs from what its events add up to."""
    place = f'the row of dpsql.{name} for "{" / ".join(key)}"'
    if stored is None:
        return f"{place} is missing."
    if expected is None:
        return f"{place} has no event behind it."
    stored_sum, spent = stored[-1], expected[-1]
    if isinstance(stored_sum, int) and isinstance(spent, int) and stored_sum != spent:
        return f"{place} says {format_epsilon(stored_sum)} is spent, its events add up to {format_epsilon(spent)}."
    return f"{place} was changed: its events say otherwise."


#: The query that reads each budget table, and how many of its first columns are the key.
_READ = {
    "budget": ("SELECT dataset, kind, table_name, cap, whole, spent FROM dpsql.budget", 2),
    "scope_budget": ("SELECT dataset, kind, scope, spent FROM dpsql.scope_budget", 3),
    "analyst_budget": ("SELECT dataset, kind, analyst, cap, spent FROM dpsql.analyst_budget", 3),
}
#: The statements that empty each budget table and write a row of it.
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
