"""The owner's acts: registering a dataset, setting caps and limits, looking values up, accepting lost runs or a ledger.

Each act is an entry of the ledger.
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
from dpsql.ledger.chain import Event, parse_json_column
from dpsql.ledger.charge import canonical_json, check_kind
from dpsql.ledger.entry import Entry, entry_of, folds_scopes
from dpsql.ledger.receipt import Receipt
from dpsql.ledger.selection import check_still_covered, selection_delta_of
from dpsql.ledger.spend import OPEN_ANALYST
from dpsql.ledger.transaction import Block
from dpsql.ledger.upgrade import upgrade


def enter_registration(into: Block, event: Event, *, replace: bool) -> Entry:
    """Open a dataset's budget, or with `replace` change its table, cap and details and keep what is spent."""
    check_kind(event.kind)
    _check_cap(event.cap)
    rows = into.rows("SELECT dataset, kind, table_name, cap FROM dpsql.budget")
    _check_free(event, [(row["dataset"], row["table_name"]) for row in rows])
    own_rows = [row for row in rows if row["dataset"] == event.dataset]
    if own_rows and not replace:
        raise ParameterError(
            "dataset",
            allowed="one that is not registered yet",
            given=event.dataset,
            hint="register --replace",
        )
    before = next((row for row in own_rows if row["kind"] == event.kind), None)
    if before and before["cap"] is not None:
        _require_cap(event.cap)
    into.run("UPDATE dpsql.budget SET table_name = ? WHERE dataset = ?", (event.table_name, event.dataset))
    if folds_scopes(event):
        into.run("UPDATE dpsql.budget SET whole = spent WHERE dataset = ?", (event.dataset,))
        into.run("DELETE FROM dpsql.scope_budget WHERE dataset = ?", (event.dataset,))
    _put_cap(into, event, opened=before is not None)
    return entry_of([into.append(event)])


def set_cap(into: Block, event: Event) -> Entry:
    """Set the cap of a dataset or of one analyst."""
    check_kind(event.kind)
    _check_cap(event.cap)
    rows = into.rows("SELECT dataset, kind, table_name, cap FROM dpsql.budget")
    own_rows = {row["kind"]: row for row in rows if row["dataset"] == event.dataset}
    if not own_rows or (event.analyst and event.kind not in own_rows):
        raise NotRegistered(event.dataset, [row["dataset"] for row in rows])
    event = dataclasses.replace(event, table_name=next(iter(own_rows.values()))["table_name"])
    if event.analyst:
        key = (event.dataset, event.kind, event.analyst)
        into.run(OPEN_ANALYST, (*key, *key))
        into.run(_SET_ANALYST_CAP, (event.cap, *key))
    else:
        _require_cap(event.cap)
        account = into.state.replayed.accounts.get((event.dataset, event.kind))
        check_still_covered(account, selection_delta_of(parse_json_column(event.details)))
        _put_cap(into, event, opened=event.kind in own_rows)
    return entry_of([into.append(event)])


def set_limits(into: Block, event: Event) -> Entry:
    """Change a dataset's least charge, or how many of its runs may stay unfinished."""
    return entry_of([into.append(_with_table(into, event))])


def enter_lookup(into: Block, event: Event) -> Entry:
    """Enter that values of a table, registered or not, were looked up. Nothing is charged: it is no release."""
    return entry_of([into.append(event)])


def accept_runs(into: Block, event: Event) -> Entry:
    """Accept a dataset's unfinished runs: they count no longer, and the act says how many they were."""
    standing = limits.read_standing(into, event.dataset)
    details = {"lost": standing.lost, "reserved": standing.reserved}
    event = dataclasses.replace(event, details=canonical_json("details", details))
    return entry_of([into.append(_with_table(into, event))])


def _with_table(into: Block, event: Event) -> Event:
    """Return an event about a dataset with the table that it has now; raise NotRegistered where there is none."""
    rows = into.rows("SELECT dataset, table_name FROM dpsql.budget")
    table = next((row["table_name"] for row in rows if row["dataset"] == event.dataset), None)
    if table is None:
        raise NotRegistered(event.dataset, [row["dataset"] for row in rows])
    return dataclasses.replace(event, table_name=table)


def enter_acceptance(engine: Engine, lock: threading.RLock, who: str) -> Entry:
    """Append an 'anchor' event to a sound chain, make the sums follow it, and write a new receipt.

    The receipt is written after the commit. If this is cut off in between, the ledger still refuses to charge, and the
    owner accepts it once more.
    """
    with lock:
        path = receipts.anchor_path(engine.path) if engine.path else None
        with engine.transaction() as transaction:
            blocks.queue(transaction)
            state = blocks.check_all(transaction)
            if state.broken:
                raise LedgerBroken(state.broken, hint="restore a copy whose chain holds, then accept it")
            details = {"findings": blocks.all_findings(transaction, state, path), "receipt": _old_receipt(path)}
            accounts.rebuild(transaction, state.replayed.accounts)
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


def _put_cap(into: Block, event: Event, *, opened: bool) -> None:
    """Write the cap into the budget's row, and open the budget first where it is not."""
    if opened:
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
    """Refuse a table that another dataset has: registered twice, its rows could be spent twice."""
    table = event.table_name.casefold()
    others = (dataset for dataset, name in registered if name.casefold() == table and dataset != event.dataset)
    other = next(others, None)
    if other is not None:
        raise ParameterError("table", allowed=f'in one dataset, and it is in "{other}"', given=event.table_name)


_OPEN_BUDGET = """
INSERT INTO dpsql.budget (dataset, kind, table_name, cap, whole, spent) VALUES (?, ?, ?, ?, 0, 0)
"""
_SET_CAP = "UPDATE dpsql.budget SET cap = ? WHERE dataset = ? AND kind = ?"
_SET_ANALYST_CAP = "UPDATE dpsql.analyst_budget SET cap = ? WHERE dataset = ? AND kind = ? AND analyst = ?"
