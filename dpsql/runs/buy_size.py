"""Buys the size of a private table: a noisy number of rows, charged first, kept with its ledger entry.

A bought size is a release like any other: asking again under the same request id gives the same number and charges
nothing, and whoever asks for advice later has the least noisy one for free, of equally noisy ones the latest.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from dpsql import sqlfiles
from dpsql.engines.base import Engine, Transaction
from dpsql.errors import DpsqlError
from dpsql.kernel.dataset import Dataset
from dpsql.kernel.plan import Plan, Step
from dpsql.kernel.run import charge_for, run
from dpsql.kernel.session import Session
from dpsql.ledger import Entry, Ledger, parse_epsilon
from dpsql.ledger.formats import has_part

METHOD = "advise"
_STEP = "size"


@dataclass(frozen=True)
class BoughtSize:
    """A noisy number of rows, what it cost as decimal text, and the ledger entry that paid for it."""

    rows: int
    epsilon: str
    deviation: float
    entry: int


def plan_size(dataset: Dataset, *, epsilon: object) -> Plan:
    """Return what buying a table's size would ask and cost. Reads no row, charges nothing."""
    note = "the number of rows that training would use; advice about this table is free from then on"
    return Plan(METHOD, Step(_STEP, "size", parse_epsilon(epsilon, "buy"), note=note), dataset.schema.unit)


def buy_size(
    engine: Engine, ledger: Ledger, dataset: Dataset, *, epsilon: object, who: str, request_id: str | None = None
) -> BoughtSize:
    """Charge epsilon, count the rows with noise, keep the number, and return it."""
    plan = plan_size(dataset, epsilon=epsilon)
    charge = charge_for(dataset, plan, who=who, request_id=request_id)
    if ledger.find_request(charge.request_id) is not None:
        return _stored(engine, ledger.reserve(charge))
    _install(engine, ledger)

    def store(transaction: Transaction, noisy_rows: int, entry: Entry) -> None:
        transaction.run("INSERT INTO dpsql.size VALUES (?, ?, ?)", (entry.entry_id, dataset.id, noisy_rows))

    def ask(session: Session) -> int:
        return session.size(_STEP)

    return _stored(engine, run(engine, ledger, dataset, charge, plan, ask=ask, digest=_digest, store=store))


def best_size(engine: Engine, ledger: Ledger, dataset: Dataset) -> BoughtSize | None:
    """Return the least noisy size that was bought for a dataset, or None; of equally noisy ones the latest.

    A later, cheaper purchase does not push out a better one that was paid for.
    """
    if not _installed(engine):
        return None
    with engine.snapshot() as transaction:
        rows = transaction.rows(_OF_DATASET, (dataset.id,))
    bought = [(row, ledger.find_entry(row["entry_id"])) for row in rows]
    sizes = [_sized(row, entry) for row, entry in bought if entry is not None and entry.dataset == dataset.id]
    return min(sizes, key=lambda size: (size.deviation, -size.entry), default=None)


def _stored(engine: Engine, entry: Entry) -> BoughtSize:
    """Return what an earlier request released; the ledger has checked that it asked for the same."""
    found: list[dict[str, Any]] = []
    if entry.state == "released":
        with engine.transaction() as transaction:
            found = transaction.rows(_OF_ENTRY, (entry.entry_id,))
    if not found:
        raise DpsqlError(
            f"request {entry.request_id} was charged but released no size (its entry is {entry.state}).",
            hint="ask again under another request id; the charge stays",
        )
    return _sized(found[0], entry)


def _sized(row: dict[str, Any], entry: Entry) -> BoughtSize:
    scale = float(entry.plan["steps"][0]["noise_scale"])
    return BoughtSize(max(1, int(row["noisy_rows"])), entry.epsilon, 2**0.5 * scale, entry.entry_id)


def _digest(noisy_rows: int) -> str:
    return hashlib.sha256(str(noisy_rows).encode()).hexdigest()


def _installed(engine: Engine) -> bool:
    with engine.transaction() as transaction:
        return has_part(transaction, "size")


def _install(engine: Engine, ledger: Ledger) -> None:
    """Create the table of bought sizes, unless it is there."""
    if not _installed(engine):
        statements = sqlfiles.statements("size.sql")
        ledger.write(lambda into: [into.run(statement) for statement in statements])


_OF_ENTRY = "SELECT entry_id, noisy_rows FROM dpsql.size WHERE entry_id = ?"
_OF_DATASET = "SELECT entry_id, noisy_rows FROM dpsql.size WHERE dataset = ?"
