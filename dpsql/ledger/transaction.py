"""A block of the ledger: a transaction that starts from a sound chain and ends in a receipt.

The order never varies: lock, queue, check chain, sums and receipt, do the work, name the coming head in the
receipt, commit, confirm the receipt, unlock. A block that raises leaves no trace.

Others wait while a block is open, so a block does little. A chain that this process has checked before is checked from
there on. One that it has not checked is read before the block queues. `verify` always reads all of the chain.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.engines.base import Arrays, Engine, Row, Transaction
from dpsql.errors import LedgerBroken
from dpsql.ledger import accounts, chain, formats, receipt
from dpsql.ledger.accounts import ReplayedEvents
from dpsql.ledger.chain import Event, Head
from dpsql.ledger.receipt import Receipt


@dataclass(frozen=True)
class Checked:
    """A chain as it was read: its name and head, what its events add up to, and what is wrong with it.

    `broken` has a sentence for each place where the chain itself does not hold; `replayed` is then empty.
    `breaches` has one for each charge that passed a cap or a limit.
    """

    ledger_id: str
    head: Head
    replayed: ReplayedEvents
    broken: list[str] = field(default_factory=list)
    breaches: list[str] = field(default_factory=list)


class Block:
    """A transaction in which events can be appended. Use it wherever a `Transaction` is asked for."""

    def __init__(self, inner: Transaction, state: Checked) -> None:
        self._inner = inner
        self.state = state
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

    def has_table(self, name: str) -> bool:
        """Return whether schema `dpsql` has a table of that name."""
        return self._inner.has_table(name)

    def catalog_columns(self) -> list[Row]:
        """Return a row for each column of each table and view."""
        return self._inner.catalog_columns()

    @property
    def ledger_id(self) -> str:
        """Return the ledger's own name."""
        return self.state.ledger_id

    @property
    def head(self) -> Head:
        """Return where the chain ends, with what this block has appended."""
        return self.state.head

    def append(self, event: Event) -> Event:
        """Date an event, link it to the chain, store it, and return it as stored."""
        linked = chain.link(replace(event, recorded_at=now()), self.head)
        chain.store(self._inner, linked)
        # `replayed` is the block's own: what is remembered of the chain was copied for it.
        breaches = [*self.state.breaches, *self.state.replayed.take(linked)]
        self.state = replace(self.state, head=Head(linked.sequence, linked.hash), breaches=breaches)
        return linked

    def registrations(self) -> list[Event]:
        """Return every registration, in order, as the block sees them: nobody adds one while it is open."""
        return chain.read_chain(self._inner, {"event": "register"})

    def lookups(self) -> list[Event]:
        """Return every lookup, in order, as the block sees them."""
        return chain.read_chain(self._inner, {"event": "lookup"})

    def events_of(self, entry_id: int) -> list[Event]:
        """Return the events of one entry, in order."""
        return chain.read_chain(self._inner, {"entry_id": entry_id})


class Memory:
    """The state of the chain that this process last found sound: a later block checks the chain from there on."""

    def __init__(self) -> None:
        self.state: Checked | None = None


@contextmanager
def sound_block(engine: Engine, lock: threading.RLock, memory: Memory) -> Iterator[Block]:
    """Open a block on a ledger that holds together; raise LedgerBroken, and change nothing, on any other."""
    with lock:
        receipt_path = receipt.anchor_path(engine.path) if engine.path else None
        if memory.state is None:
            memory.state = _read_ahead(engine)
        with engine.transaction() as transaction:
            queue(transaction)
            state = check_since(transaction, memory.state) or check_all(transaction)
            findings = all_findings(transaction, state, receipt_path)
            if findings:
                memory.state = None
                raise LedgerBroken(findings)
            before, block = state.head, Block(transaction, state)
            try:
                yield block
            finally:
                block.open = False
            after = block.head
            if receipt_path and after != before:
                receipt.write_receipt(receipt_path, Receipt(block.ledger_id, before, pending=after))
        if receipt_path and after != before:
            receipt.write_receipt(receipt_path, Receipt(block.ledger_id, after))
        memory.state = None if block.state.breaches else block.state


def _read_ahead(engine: Engine) -> Checked | None:
    """Check the whole chain before queueing, so that others need not wait for it; return None unless it holds."""
    with engine.snapshot() as transaction:
        state = check_all(transaction)
    return None if state.broken or state.breaches else state


def queue(transaction: Transaction) -> None:
    """Wait behind other writers, or raise Conflict. From then on none of them changes what this transaction reads.

    Raises NewerFormat where a newer dpsql has brought the ledger to its own format.
    """
    if formats.read_ledger_format(transaction) == formats.FIRST:
        transaction.run(_ADD_TURN)  # where `turn` is there already, this still waits for the others
    transaction.run("UPDATE dpsql.chain SET turn = turn + 1")
    formats.check(transaction)


def check_all(transaction: Transaction) -> Checked:
    """Read and check the whole chain. One scan."""
    ledger_id, events = _name(transaction), chain.read_chain(transaction)
    number = formats.read_ledger_format(transaction) or formats.FIRST
    state = _check(ledger_id, Head(0, chain.genesis(ledger_id)), ReplayedEvents(number), events)
    if state.broken or state.replayed.format == number:
        return state
    finding = f"dpsql.format says that the ledger has format {number}, its events say {state.replayed.format}."
    return replace(state, broken=[finding])


def check_since(transaction: Transaction, before: Checked | None) -> Checked | None:
    """Read and check what follows a chain that was found sound before; None where this is no longer that chain."""
    if before is None or _name(transaction) != before.ledger_id:
        return None
    place = transaction.rows(_PLACE, (before.head.sequence,))[0]
    has_head = before.head.sequence == 0 or place["hash"] == before.head.hash
    if not has_head or place["events"] != place["last"]:
        return None
    events = chain.read_chain(transaction, after=before.head.sequence)
    return _check(before.ledger_id, before.head, before.replayed, events)


def _check(ledger_id: str, checked: Head, before: ReplayedEvents, events: list[Event]) -> Checked:
    """Check the events after the head `checked`; `before` is what all events up to there add up to."""
    head = Head(events[-1].sequence, events[-1].hash) if events else checked
    broken = chain.chain_findings(ledger_id, events, checked)
    if broken:
        return Checked(ledger_id, head, ReplayedEvents(), broken)
    if checked.sequence == 0:
        before = replace(before, format=accounts.first_format(events, before.format))
    replayed, breaches = accounts.replay_events(events, before)
    return Checked(ledger_id, head, replayed, breaches=breaches)


def all_findings(transaction: Transaction, state: Checked, receipt_path: Path | None) -> list[str]:
    """Return everything that does not hold: in the chain, in the sums, against the receipt."""
    findings = state.broken or [*state.breaches, *accounts.account_findings(transaction, state.replayed.accounts)]
    if receipt_path:
        findings = findings + receipt.receipt_findings(receipt_path, state.ledger_id, state.head)
    return findings


def _name(transaction: Transaction) -> str:
    """Return the ledger's own name."""
    rows = transaction.rows("SELECT ledger_id FROM dpsql.chain")
    if len(rows) != 1:
        raise LedgerBroken(["dpsql.chain must hold one row, the ledger's name."])
    return str(rows[0]["ledger_id"])


def now() -> str:
    """Return the present in UTC as ISO 8601 text."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


#: Ledgers of format 1 may lack the column that writers queue by. PostgreSQL locks the table for this, DuckDB the file.
_ADD_TURN = "ALTER TABLE dpsql.chain ADD COLUMN IF NOT EXISTS turn BIGINT DEFAULT 0"
#: How many events there are, the number of the last one, and the hash of the event of a given number.
_PLACE = """
SELECT count(*) AS events, coalesce(max(sequence), 0) AS last, max(CASE WHEN sequence = ? THEN hash END) AS hash
FROM dpsql.entry
"""
