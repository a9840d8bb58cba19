"""The owner's acts: registering a dataset, setting caps and limits, accepting unfinished runs or a restored ledger.

Each is an entry.
"""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

from dpsql.engines.base import Engine
from dpsql.errors import LedgerBroken, NotRegistered, ParameterError
from dpsql.ledger import accounts, limits
from dpsql.ledger import receipt as receipts
from dpsql.ledger import transaction as blocks
from dpsql.ledger.amount import MOST
from dpsql.ledger.chain import Event
from dpsql.ledger.charge import canonical_json, check_kind
from dpsql.ledger.entry import Entry, entry_of, folds_scopes
from dpsql.ledger.receipt import Receipt
from dpsql.ledger.spend import OPEN_ANALYST
from dpsql.ledger.transaction import Block
from dpsql.ledger.upgrade import upgrade


def enter_registration(into: Block, event: Event, *, replace: bool) -> Entry:
    """Open a dataset's budget, or with `replace` change its table, cap and details and keep what is spent."""
    check_kind(event.kind)
    _check_cap(event.cap)
    rows = into.rows("SELECT dataset, kind, table_name, cap FROM dpsql.budget")
    _check_free(event, [(row["dataset"], row["table_name"]) for row in rows])
    mine = [row for row in rows if row["dataset"] == event.dataset]
    if mine and not replace:
        raise ParameterError(
            "dataset",
            allowed="one that is not registered yet",
            given=event.dataset,
            hint="register --replace",
        )
    before = next((row for row in mine if row["kind"] == event.kind), None)
    if before and before["cap"] is not None:
        _require_cap(event.cap)
    into.run("UPDATE dpsql.budget SET table_name = ? WHERE dataset = ?", (event.table_name, event.dataset))
    if folds_scopes(event):
        into.run("UPDATE dpsql.budget SET whole = spent WHERE dataset = ?", (event.dataset,))
        into.run("DELETE FROM dpsql.scope_budget WHERE dataset = ?", (event.dataset,))
    _put_cap(into, event, known=before is not None)
    return entry_of([into.append(event)])


def set_cap(into: Block, event: Event) -> Entry:
    """Set the cap of a dataset or of one analyst."""
    check_kind(event.kind)
    _check_cap(event.cap)
    rows = into.rows("SELECT dataset, kind, table_name, cap FROM dpsql.budget")
    mine = {row["kind"]: row for row in rows if row["dataset"] == event.dataset}
    if not mine or (event.analyst and event.kind not in mine):
        raise NotRegistered(event.dataset, [row["dataset"] for row in rows])
    event = dataclasses.replace(event, table_name=next(iter(mine.values()))["table_name"])
    if event.analyst:
        seat = (event.dataset, event.kind, event.analyst)
        into.run(OPEN_ANALYST, (*seat, *seat))
        into.run(_SET_ANALYST_CAP, (event.cap, *seat))
    else:
        _require_cap(event.cap)
        _put_cap(into, event, known=event.kind in mine)
    return entry_of([into.append(event)])


def set_limits(into: Block, event: Event) -> Entry:
    """Change a dataset's least charge, or how many of its runs may stay unfinished."""
    return entry_of([into.append(_of_dataset(into, event))])


def accept_runs(into: Block, event: Event) -> Entry:
    """Accept a dataset's unfinished runs: they count no longer, and the act says how many they were."""
    standing = limits.read_limits(into, event.dataset)
    details = {"lost": standing.lost, "reserved": standing.reserved}
    event = dataclasses.replace(event, details=canonical_json("details", details))
    return entry_of([into.append(_of_dataset(into, event))])


def _of_dataset(into: Block, event: Event) -> Event:
    """Return an event about a dataset with the table that it has now; raise NotRegistered where there is none."""
    rows = into.rows("SELECT dataset, table_name FROM dpsql.budget")
    table = next((row["table_name"] for row in rows if row["dataset"] == event.dataset), None)
    if table is None:
        raise NotRegistered(event.dataset, [row["dataset"] for row in rows])
    return dataclasses.replace(event, table_name=table)


def enter_acceptance(engine: Engine, lock: threading.RLock, who: str) -> Entry:
    """Append an 'anchor' event to a sound chain, make the sums follow it, and write a new receipt.

    The receipt is written after the commit: cut off in between, the ledger still refuses, and the owner
    asks again.
    """
    with lock:
        path = receipts.anchor_path(engine.path) if engine.path else None
        with engine.transaction() as transaction:
            blocks.queue(transaction)
            state = blocks.check_all(transaction)
            if state.broken:
                raise LedgerBroken(state.broken, hint="restore a copy whose chain holds, then accept it")
            details = {"findings": blocks.all_findings(transaction, state, path), "receipt": _old_receipt(path)}
            accounts.rebuild(transaction, state.books.accounts)
            block = Block(transaction, state)
            upgrade(block, engine)
            event = Event(0, "anchor", 0, who=who, details=canonical_json("details", details))
            entry = entry_of([block.append(event)])
        if path:
            receipts.write_receipt(path, Receipt(block.ledger_id, block.head))
    return entry


def _old_receipt(path: Path | None) -> dict[str, Any] | None:
    """Return what the receipt said before it is replaced, as far as it can be read."""
    try:
        receipt = receipts.read_receipt(path) if path else None
    except ValueError:
        return None
    return dataclasses.asdict(receipt) if receipt else None


def _put_cap(into: Block, event: Event, *, known: bool) -> None:
    if known:
        into.run(_SET_CAP, (event.cap, event.dataset, event.kind))
    else:
        into.run(_OPEN_BUDGET, (event.dataset, event.kind, event.table_name, event.cap))


def _check_cap(cap: int | None) -> None:
    if cap is not None and (type(cap) is not int or not 0 <= cap <= MOST):
        raise ParameterError("cap", allowed="nano-epsilon, a whole number from 0 to 10**18", given=cap)


def _require_cap(cap: int | None) -> None:
    if cap is None:
        raise ParameterError("cap", allowed="a number: only public data has none, and only from the start", given=cap)


def _check_free(event: Event, registered: list[tuple[str, str]]) -> None:
    """A table has one budget: registered twice under two names, it could be spent twice."""
    table = event.table_name.casefold()
    other = next((name for name, known in registered if known.casefold() == table and name != event.dataset), None)
    if other is not None:
        raise ParameterError("table", allowed=f'in one dataset, and it is in "{other}"', given=event.table_name)


_OPEN_BUDGET = """
INSERT INTO dpsql.budget (dataset, kind, table_name, cap, whole, spent) VALUES (?, ?, ?, ?, 0, 0)
"""
_SET_CAP = "UPDATE dpsql.budget SET cap = ? WHERE dataset = ? AND kind = ?"
_SET_ANALYST_CAP = "UPDATE dpsql.analyst_budget SET cap = ? WHERE dataset = ? AND kind = ? AND analyst = ?"
