"""Entries: events folded into what a person reads, one per charge or owner's act, with its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpsql.ledger.amount import format_epsilon
from dpsql.ledger.chain import Event, parse_json_column
from dpsql.ledger.charge import Charge

_STATES = {"release": "released", "lost": "lost"}


@dataclass(frozen=True)
class Entry:
    """What the ledger holds of one charge, registration, cap or acceptance.

    Attributes:
        entry_id: its number; event: what opened it, such as "reserve", "register", "cap" or "anchor".
        state: "reserved", "released" or "lost" for a charge, "" for the owner's acts.
        fresh: True only for the caller whose `reserve` made this charge. Only that caller may
            query and release under it; anyone else gets the stored release.
        digest: SHA-256 of the release; hash: of the opening event.
    """

    entry_id: int
    event: str
    state: str
    dataset: str
    table: str
    kind: str
    who: str
    recorded_at: str
    hash: str
    request_id: str | None = None
    scope: str = ""
    method: str = ""
    plan: Mapping[str, Any] = field(default_factory=dict, hash=False)
    neighbours: str = ""
    unit: str = ""
    amount: int = 0
    cap: int | None = None
    analyst: str = ""
    digest: str = ""
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    fresh: bool = field(default=False, compare=False)

    @property
    def amount_text(self) -> str:
        """Return what the entry charges as exact decimal text: epsilon, or rho where the kind is "approximate"."""
        return format_epsilon(self.amount)


@dataclass(frozen=True)
class Registration:
    """What an owner registers.

    `fold` says that scopes mean other rows from now on. What was charged on any scope then counts for every row.
    `beside` is a second dataset of the same table that is registered in the same step, with its cap.
    """

    dataset: str
    table: str
    details: Mapping[str, Any] = field(hash=False)
    replace: bool = False
    fold: bool = False
    beside: tuple[Registration, int | None] | None = None

    def stored_values(self) -> dict[str, Any]:
        """Return what the entry stores."""
        return {**self.details, "folded": True} if self.fold else dict(self.details)


def folds_scopes(event: Event) -> bool:
    """Whether an event counts what was charged on scopes for every row."""
    return event.event == "register" and parse_json_column(event.details).get("folded") is True


def fold(events: Iterable[Event]) -> list[Entry]:
    """Return one entry per opening event, in order, each with the state its last event left it in."""
    opened: dict[int, list[Event]] = {}
    for event in events:
        opened.setdefault(event.entry_id, []).append(event)
    return [entry_of(group) for group in opened.values()]


def entry_of(group: list[Event], *, fresh: bool = False) -> Entry:
    """Return the entry that one opening event and those after it make."""
    first, last = group[0], group[-1]
    return Entry(
        entry_id=first.entry_id,
        event=first.event,
        state=_STATES.get(last.event, "reserved") if first.event == "reserve" else "",
        dataset=first.dataset,
        table=first.table_name,
        kind=first.kind,
        who=first.who,
        recorded_at=first.recorded_at,
        hash=first.hash,
        request_id=first.request_id,
        scope=first.scope,
        method=first.method,
        plan=parse_json_column(first.plan),
        neighbours=first.neighbours,
        unit=first.unit,
        amount=first.amount,
        cap=first.cap,
        analyst=first.analyst,
        digest=last.digest,
        details=parse_json_column(last.details),
        fresh=fresh,
    )


def event_of(charge: Charge) -> Event:
    """Return the 'reserve' event of a charge, not yet placed in the chain."""
    return Event(
        sequence=0,
        event="reserve",
        entry_id=0,
        request_id=charge.request_id,
        dataset=charge.dataset,
        table_name=charge.table,
        kind=charge.kind,
        scope=charge.scope,
        method=charge.method,
        plan=charge.plan_text,
        neighbours=charge.neighbours,
        unit=charge.unit,
        amount=charge.amount,
        who=charge.who,
    )


def differences(event: Event, charge: Charge) -> list[str]:
    """Return the names of the fields in which a charge differs from the stored event of the same request.

    Who asks does not count: a release is public, and anyone may have it again.
    """
    asked_for = event_of(charge)
    compared = (
        "dataset", "table_name", "kind", "scope", "method", "plan", "neighbours", "unit", "amount",
    )  # fmt: skip
    return [name for name in compared if getattr(event, name) != getattr(asked_for, name)]
