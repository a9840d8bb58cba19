"""What the ledger says, as tables and sums: entries, budgets, and what the rows of a batch have lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from dpsql.engines.base import Engine
from dpsql.kernel.datasets.dataset import account_of, look_at_dataset, registration_of, scope
from dpsql.kernel.datasets.looked_up_columns import LOOKUP, is_lookup_of
from dpsql.ledger import Budget, Entry, Ledger
from dpsql.ledger.budget import amount_text

_COLUMNS = (
    "entry", "event", "state", "when", "who", "table", "method", "kind", "epsilon", "cap", "analyst", "delta", "rho",
    "lost_runs", "least_epsilon", "neighbours", "request_id", "hash",
)  # fmt: skip


def entry_table(engine: Engine, book: Ledger, table: str | None) -> pd.DataFrame:
    """Return the ledger's entries, of one table or all, one row each, oldest first."""
    if table is None:
        return _table(book.entries())
    dataset = look_at_dataset(engine, book, table)
    lookups = [entry for entry in book.entries(event=LOOKUP) if is_lookup_of(entry, dataset.base)]
    return _table(sorted([*book.entries(dataset.payer), *lookups], key=lambda entry: entry.entry_id))


def _table(entries: Sequence[Entry]) -> pd.DataFrame:
    return pd.DataFrame([_row(entry) for entry in entries], columns=list(_COLUMNS))


def table_budget(engine: Engine, book: Ledger, table: str, kind: str) -> Budget:
    """Return a table's budget of one kind. A kind that was never opened has a cap of 0, and nothing spent."""
    dataset, name = _dataset_of(engine, book, table)
    if kind != "pure" and kind not in book.kinds(dataset):
        return Budget(dataset, name, kind, cap=0, spent_on_table=0, spent=0)
    return book.budget(dataset, kind)


def _dataset_of(engine: Engine, book: Ledger, table: str) -> tuple[str, str]:
    """Return a dataset's id and its table's name as it was registered, though the table may be gone by now."""
    registration = registration_of(book, table)
    if registration is not None:
        return account_of(registration), registration.table
    dataset = look_at_dataset(engine, book, table)
    return dataset.payer, dataset.table


def budgets(book: Ledger) -> list[Budget]:
    """Return the budgets of all registered tables, of every kind that was opened."""
    datasets = [entry.dataset for entry in book.registrations() if account_of(entry) == entry.dataset]
    return [book.budget(dataset, kind) for dataset in datasets for kind in book.kinds(dataset)]


def spent_on(engine: Engine, book: Ledger, table: str, batch: str | None, kind: str) -> int:
    """Return what the rows of a batch (or of the whole table) have lost so far, in nano-epsilon (or nano-rho)."""
    budget, where = table_budget(engine, book, table, kind), scope(look_at_dataset(engine, book, table), batch)
    on_scope = next((share.spent for share in budget.scopes if share.name == where), 0)
    return budget.spent_on_table + on_scope if where else budget.spent


def _row(entry: Entry) -> dict[str, Any]:
    """Return an entry as a row: what it charged, or the cap that it set, in epsilon and where it counts in rho."""
    charged, capped = entry.event == "reserve", entry.event in ("register", "cap")
    declared = (entry.plan if charged else entry.details) if entry.kind == "approximate" else {}
    limits = entry.details if entry.event in ("register", "limit") else {}
    amount = ""
    if charged:
        amount = entry.amount_text
    elif capped:
        amount = amount_text(entry.cap)
    return {
        "entry": entry.entry_id,
        "event": entry.event,
        "state": entry.state,
        "when": entry.recorded_at,
        "who": entry.who,
        "table": entry.table,
        "method": entry.method,
        "kind": entry.kind,
        "epsilon": declared.get("epsilon", entry.amount_text) if charged else "",
        "cap": declared.get("epsilon", amount) if capped else "",
        "analyst": entry.analyst,
        "delta": declared.get("delta", ""),
        "rho": amount if entry.kind == "approximate" else "",
        "lost_runs": str(limits.get("lost_runs", "")),
        "least_epsilon": limits.get("least_epsilon", ""),
        "neighbours": entry.neighbours,
        "request_id": entry.request_id or "",
        "hash": entry.hash,
    }
