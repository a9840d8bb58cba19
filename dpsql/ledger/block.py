"""A block of the ledger: a transaction that starts from a sound chain and ends in a receipt.

The order never varies: lock, queue, check chain, sums and receipt, do the work, name the coming head in the
receipt, commit, confirm the receipt, unlock. A block that raises leaves no trace.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.engines.base import Arrays, Engine, Row, Transaction
from dpsql.errors import LedgerBroken
from dpsql.ledger import anchor, chain, sums
from dpsql.ledger.anchor import Receipt
from dpsql.ledger.chain import Event, Head


class Block:
    """A transaction in which events can be appended. Use it wherever a `Transaction` is asked for."""

    def __init__(self, inner: Transaction, ledger_id: str, events: list[Event]) -> None:
        self._inner = inner
        self.ledger_id = ledger_id
        self.events = events
        self.open = True

    def run(self, statement: str | exp.Expr, parameters: Sequence[object] = ()) -> int:
        """Run a statement and return the number of rows it changed."""
        return self._inner.run(statement, parameters)

    def rows(self, statement: str | exp.Expr, parameters: Sequence[object] = ()) -> list[Row]:
        """Run a query on dpsql's own or public tables and return its rows as dictionaries."""
        return self._inner.rows(statement, parameters)

    def arrays(self, statement: str | exp.Expr, parameters: Sequence[object] = ()) -> Arrays:
        """Run a query on dpsql's own or public tables and return its columns as arrays."""
        return self._inner.arrays(statement, parameters)

    def insert(self, table: str, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Append whole columns to a table of schema `dpsql`."""
        self._inner.insert(table, columns)

    @property
    def head(self) -> Head:
        """Return where the chain ends, with what this block has appended."""
        return chain.head(self.ledger_id, self.events)

    def append(self, event: Event) -> Event:
        """Date an event, link it to the chain, store it, and return it as stored."""
        placed = chain.link(replace(event, recorded_at=now()), self.head)
        chain.store(self._inner, placed)
        self.events.append(placed)
        return placed

    def about(self, entry_id: int) -> list[Event]:
        """Return the events of one entry, in order."""
        return [event for event in self.events if event.entry_id == entry_id]


@contextmanager
def sound_block(engine: Engine, lock: threading.RLock) -> Iterator[Block]:
    """Open a block on a ledger that holds together; raise LedgerBroken, and change nothing, on any other."""
    with lock:
        receipt_path = anchor.anchor_path(engine.path) if engine.path else None
        with engine.transaction() as transaction:
            block = queue(transaction)
            before = block.head
            found = findings(block, receipt_path)
            if found:
                raise LedgerBroken(found)
            try:
                yield block
            finally:
                block.open = False
            after = block.head
            if receipt_path and after != before:
                anchor.write(receipt_path, Receipt(block.ledger_id, before, pending=after))
        if receipt_path and after != before:
            anchor.write(receipt_path, Receipt(block.ledger_id, after))


def queue(transaction: Transaction) -> Block:
    """Wait behind other writers (or raise Conflict), then read the chain."""
    transaction.run("UPDATE dpsql.chain SET ledger_id = ledger_id")
    return load(transaction)


def load(transaction: Transaction) -> Block:
    """Read the chain without queueing: for looking, not for writing."""
    rows = transaction.rows("SELECT ledger_id FROM dpsql.chain")
    if len(rows) != 1:
        raise LedgerBroken(["dpsql.chain must hold one row, the ledger's name."])
    return Block(transaction, rows[0]["ledger_id"], chain.read(transaction))


def findings(block: Block, receipt_path: Path | None) -> list[str]:
    """Return everything that does not hold: in the chain, in the sums, against the receipt."""
    found = chain.findings(block.ledger_id, block.events)
    if not found:
        found = sums.findings(block, block.events)
    if receipt_path:
        found += anchor.findings(receipt_path, block.ledger_id, block.head)
    return found


def now() -> str:
    """Return the present in UTC as ISO 8601 text."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
