"""The hash chain: each event carries the hash of the one before, so that no event can change unseen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

from sqlglot import exp

from dpsql.engines.base import Row, Transaction
from dpsql.errors import LedgerBroken
from dpsql.ledger import json_text


@dataclass(frozen=True)
class Event:
    """One row of `dpsql.entry`; the fields are its columns. `amount` is in billionths of epsilon, or of rho."""

    sequence: int
    event: str
    entry_id: int
    request_id: str | None = None
    dataset: str = ""
    table_name: str = ""
    kind: str = ""
    scope: str = ""
    method: str = ""
    plan: str = "{}"
    neighbours: str = ""
    unit: str = ""
    amount: int = 0
    cap: int | None = None
    analyst: str = ""
    digest: str = ""
    details: str = "{}"
    who: str = ""
    recorded_at: str = ""
    previous_hash: str = ""
    hash: str = ""


#: What the hash of an event covers: a label and the field that it stands for. The labels are part of every hash that
#: was ever written. They are not names of fields or columns, and stay as they are whatever those are called.
HASHED = (
    ("sequence", "sequence"),
    ("event", "event"),
    ("entry_id", "entry_id"),
    ("request_id", "request_id"),
    ("dataset", "dataset"),
    ("table_name", "table_name"),
    ("kind", "kind"),
    ("scope", "scope"),
    ("method", "method"),
    ("plan", "plan"),
    ("neighbours", "neighbours"),
    ("unit", "unit"),
    ("nano_epsilon", "amount"),
    ("cap", "cap"),
    ("analyst", "analyst"),
    ("digest", "digest"),
    ("details", "details"),
    ("who", "who"),
    ("recorded_at", "recorded_at"),
    ("previous_hash", "previous_hash"),
)
#: What a column was called in ledgers of format 1.
_FORMER_COLUMNS = {"nano_epsilon": "amount"}


@dataclass(frozen=True)
class Head:
    """Where a chain ends: the last sequence number (0 when empty) and its hash."""

    sequence: int
    hash: str


def genesis(ledger_id: str) -> str:
    """Return the hash that the first event of a ledger follows.

    >>> genesis("a") != genesis("b")
    True
    """
    return hashlib.sha256(f"dpsql ledger {ledger_id}".encode()).hexdigest()


def hash_of(event: Event) -> str:
    """Return the SHA-256 of everything in `HASHED`; the previous hash is part of it.

    >>> hash_of(Event(1, "anchor", 1, who="ann")) == hash_of(Event(1, "anchor", 1, who="eve"))
    False
    """
    covered = {label: getattr(event, name) for label, name in HASHED}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def link(event: Event, previous: Head) -> Event:
    """Return the event with its place in the chain: the next number, the previous hash, its own hash."""
    number = previous.sequence + 1
    linked = replace(event, sequence=number, entry_id=event.entry_id or number, previous_hash=previous.hash)
    return replace(linked, hash=hash_of(linked))


def read_chain(transaction: Transaction, equal: Mapping[str, object] | None = None, *, after: int = 0) -> list[Event]:
    """Return, in order, the events after number `after` whose columns have the values that `equal` gives. One scan.

    Ledgers of every format are read: all columns are asked for, and a former name is taken for the present one.
    """
    equal = equal or {}
    conditions: list[exp.Expr] = [exp.column(name).eq(exp.Placeholder()) for name in equal]
    later = exp.GT(this=exp.column("sequence"), expression=exp.Placeholder())
    query = exp.select("*").from_(exp.table_("entry", db="dpsql")).where(later, *conditions).order_by("sequence")
    return [_event_of(row) for row in transaction.rows(query.sql(), (after, *equal.values()))]


def read_last_registrations(transaction: Transaction, table: str | None = None) -> list[Event]:
    """Return each dataset's last registration, in order: of all datasets, or of those with the table of that name.

    The database compares a table's name without regard to case, by its own rules for letters.
    """
    if table is None:
        return [_event_of(row) for row in transaction.rows(_LAST)]
    return [_event_of(row) for row in transaction.rows(_LAST_OF_TABLE, (table,))]


def _event_of(row: Row) -> Event:
    """Return the event of a row; raise LedgerBroken where the table has other columns than dpsql's."""
    for former, name in _FORMER_COLUMNS.items():
        if former in row and name not in row:  # beside the present one it would hide what that one says
            row[name] = row.pop(former)
    if row.keys() != _COLUMNS:
        raise LedgerBroken(["dpsql.entry has other columns than those that dpsql made."])
    return Event(**row)


def parse_json_column(text: str) -> Any:
    """Return what a column of JSON holds; raise LedgerBroken where somebody made it unreadable."""
    try:
        return json_text.parse(text)
    except ValueError:
        broken = LedgerBroken(["an event's plan or details cannot be read: it was changed after it was written."])
    raise broken


def store(transaction: Transaction, event: Event) -> None:
    """Append one linked event to `dpsql.entry`."""
    transaction.run(_STORE, tuple(vars(event).values()))


def chain_findings(ledger_id: str, events: Sequence[Event], checked: Head | None = None) -> list[str]:
    """Return one sentence for each place where the chain does not hold (none when it does).

    `checked` is the head up to which the chain was checked before; the events are then those after it.

    >>> first = link(Event(0, "anchor", 0, who="ann"), Head(0, genesis("x")))
    >>> chain_findings("x", [first]), chain_findings("x", [replace(first, who="eve")])
    ([], ['event 1 was changed after it was written.'])
    """
    return list(_breaks(checked or Head(0, genesis(ledger_id)), events))


def _breaks(checked: Head, events: Sequence[Event]) -> Iterator[str]:
    if events and events[0].sequence != checked.sequence + 1:
        yield f"events before {events[0].sequence} are missing."
    elif events and events[0].previous_hash != checked.hash:
        yield f"event {events[0].sequence} belongs to another ledger."
    for before, after in pairwise(events):
        if after.sequence != before.sequence + 1:
            yield f"there is a gap between events {before.sequence} and {after.sequence}."
        elif after.previous_hash != before.hash:
            yield f"event {after.sequence} does not follow event {before.sequence}."
    for event in events:
        if event.hash != hash_of(event):
            yield f"event {event.sequence} was changed after it was written."


_LAST = """
SELECT * FROM dpsql.entry
WHERE sequence IN (SELECT max(sequence) FROM dpsql.entry WHERE event = 'register' GROUP BY dataset)
ORDER BY sequence
"""
_LAST_OF_TABLE = """
SELECT * FROM dpsql.entry
WHERE lower(table_name) = lower(?)
    AND sequence IN (SELECT max(sequence) FROM dpsql.entry WHERE event = 'register' GROUP BY dataset)
ORDER BY sequence
"""
_COLUMNS = {field.name for field in fields(Event)}
_STORE = """
INSERT INTO dpsql.entry (sequence, event, entry_id, request_id, dataset, table_name, kind, scope, method,
    plan, neighbours, unit, amount, cap, analyst, digest, details, who, recorded_at, previous_hash,
    hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
