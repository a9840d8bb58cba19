"""The ledger: register datasets, set caps, reserve before a query, release after it, verify at any time."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from dpsql import sqlfiles
from dpsql.engines.base import Conflict, Engine, Transaction
from dpsql.errors import DatabaseLocked, LedgerBroken, NotRegistered, ParameterError
from dpsql.ledger import anchor, block, owner
from dpsql.ledger import budget as budgets
from dpsql.ledger.block import Block
from dpsql.ledger.budget import Budget
from dpsql.ledger.chain import Event
from dpsql.ledger.charge import Charge, canonical_json, check_text
from dpsql.ledger.entry import Entry, differences, entry_of, event_of, fold
from dpsql.ledger.spend import spend

TRIES = 50
_Result = TypeVar("_Result")


class Ledger:
    """The ledger of one database. Threads may share it; what `reserve` returned is on disk."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.receipt_path = anchor.anchor_path(engine.path) if engine.path else None
        self._lock = anchor.lock_for(engine.path) if engine.path else threading.RLock()

    # The owner's acts.

    def install(self) -> None:
        """Create the ledger's tables from `sql/ledger.sql`, unless they are there."""
        self._retry(self._install)

    def register(
        self,
        dataset: str,
        table: str,
        cap_nano: int | None,
        details: Mapping[str, Any],
        who: str,
        *,
        replace: bool = False,
        kind: str = "pure",
    ) -> Entry:
        """Give a dataset a budget. With `replace` its table, cap and details change; what is spent stays.

        `cap_nano` None is no cap: for public data alone, and never for a dataset that has had one.
        """
        self.install()
        event = Event(0, "register", 0, dataset=check_text("dataset", dataset), kind=kind, cap=cap_nano,
                      table_name=check_text("table", table), who=check_text("who", who),
                      details=canonical_json("details", details))  # fmt: skip
        return self.write(lambda into: owner.register(into, event, replace=replace))

    def set_cap(
        self,
        dataset: str,
        cap_nano: int | None,
        who: str,
        *,
        analyst: str | None = None,
        kind: str = "pure",
        details: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Set a dataset's cap, or one analyst's under it (None lifts an analyst's cap).

        A cap below what is spent leaves nothing to spend. A dataset's first cap of a kind opens that kind. The cap of
        kind "approximate" is in nano-rho; `details` say the epsilon and delta that the owner declared.
        """
        self._require_installed(dataset)
        event = Event(0, "cap", 0, dataset=dataset, kind=kind, cap=cap_nano, who=check_text("who", who),
                      analyst="" if analyst is None else check_text("analyst", analyst),
                      details=canonical_json("details", details or {}))  # fmt: skip
        return self.write(lambda into: owner.set_cap(into, event))

    def accept(self, who: str) -> Entry:
        """Take the chain as it stands for the truth: rebuild the sums, write a new receipt, record the act.

        For an owner who restored a backup or lost the receipt. Charges that the chain does not hold are
        forgotten by this: lower the cap by them. A chain that was edited cannot be accepted (LedgerBroken).
        """
        check_text("who", who)
        self.install()
        return self._retry(lambda: owner.accept(self.engine, self._lock, who))

    # A run: reserve, then query, then release or lost.

    def reserve(self, charge: Charge) -> Entry:
        """Charge first: return an entry that is on disk, before any private row is read.

        The entry is `fresh` when this call made the charge. A repeated request id with the same content
        returns the stored entry, charges nothing, and is not fresh: hand out its release, run nothing.
        Raises BudgetExceeded, NotRegistered, LedgerBroken, ParameterError; then nothing has changed.
        """
        return self.reserve_all([charge])[0]

    def reserve_all(self, charges: Sequence[Charge]) -> list[Entry]:
        """Make several charges in one step, all of them or none; each is as `reserve` makes it."""
        self._require_installed(charges[0].table)
        return self.write(lambda into: [_reserve(into, charge) for charge in charges])

    def release(self, entry: Entry, digest: str, transaction: Transaction) -> Entry:
        """Mark an entry released, in a block of `transaction()` or `write`, with what it releases."""
        if not entry.fresh:
            raise ParameterError("entry", allowed="one that this caller reserved", given=entry.entry_id)
        if not isinstance(transaction, Block) or not transaction.open:
            raise ParameterError("transaction", allowed="an open block of this ledger", given=transaction)
        return _close(transaction, entry, "release", digest=check_text("digest", digest))

    def lost(self, entry: Entry, reason_kind: str) -> Entry:
        """Mark an entry lost: its run failed. The charge stays; `reason_kind` is a class, never a value."""
        details = canonical_json("reason_kind", {"reason": check_text("reason_kind", reason_kind)})
        return self.write(lambda into: _close(into, entry, "lost", details=details))

    def transaction(self) -> AbstractContextManager[Block]:
        """Open a block: a transaction on a sound ledger whose events get a receipt. Conflict may end it."""
        return block.sound_block(self.engine, self._lock)

    def write(self, work: Callable[[Block], _Result]) -> _Result:
        """Do `work` in a block, anew while other writers are faster (at most `TRIES` times)."""

        def attempt() -> _Result:
            with self.transaction() as into:
                return work(into)

        return self._retry(attempt)

    # Looking, which changes nothing.

    def find_request(self, request_id: str) -> Entry | None:
        """Return the entry of a request, or None."""
        return next((entry for entry in self.entries() if entry.request_id == request_id), None)

    def entries(self, dataset: str | None = None, *, who: str | None = None, event: str | None = None) -> list[Entry]:
        """Return entries in order, each with its state: all, or those of a dataset, a person, an event."""
        return [
            entry
            for entry in fold(self._look(lambda found: found.events) or [])
            if dataset in (None, entry.dataset) and who in (None, entry.who) and event in (None, entry.event)
        ]

    def budget(self, dataset: str, kind: str = "pure") -> Budget:
        """Return a dataset's cap, spending, analysts, scopes. Raises NotRegistered when it has none."""
        found = self._look(lambda into: budgets.read(into, dataset, kind))
        if found is None:
            raise NotRegistered(dataset, self.datasets())
        return found

    def kinds(self, dataset: str) -> list[str]:
        """Return the kinds of budget that a dataset has, "pure" first."""
        rows = self._look(lambda into: into.rows("SELECT kind FROM dpsql.budget WHERE dataset = ?", (dataset,)))
        return sorted((row["kind"] for row in rows or []), key=lambda kind: (kind != "pure", kind))

    def datasets(self) -> list[str]:
        """Return the registered datasets."""
        rows = self._look(lambda into: into.rows("SELECT DISTINCT dataset FROM dpsql.budget ORDER BY dataset"))
        return [row["dataset"] for row in rows or []]

    def verify(self) -> list[str]:
        """Return one sentence for each thing that does not hold in chain, sums or receipt; [] is good."""
        with self._lock:
            try:
                found = self._look(lambda into: block.findings(into, self.receipt_path))
            except LedgerBroken as broken:
                return broken.findings
            return self._receipt_without_ledger() if found is None else found

    # Inside.

    def _look(self, read: Callable[[Block], _Result]) -> _Result | None:
        with self.engine.transaction() as transaction:
            return read(block.load(transaction)) if _installed(transaction) else None

    def _retry(self, attempt: Callable[[], _Result]) -> _Result:
        for tries in range(TRIES):
            try:
                return attempt()
            except Conflict:
                time.sleep((1 + secrets.randbelow(1000)) * 1e-6 * min(2**tries, 50))
        raise DatabaseLocked(f"other writers were faster {TRIES} times in a row.", hint="try again")

    def _install(self) -> None:
        with self._lock, self.engine.transaction() as transaction:
            if _installed(transaction):
                return
            for statement in _statements(sqlfiles.read("ledger.sql")):
                transaction.run(statement)
            transaction.run("INSERT INTO dpsql.chain VALUES (?, ?)", (secrets.token_hex(16), block.now()))

    def _require_installed(self, table: str) -> None:
        with self.engine.transaction() as transaction:
            if _installed(transaction):
                return
        found = self._receipt_without_ledger()
        raise LedgerBroken(found) if found else NotRegistered(table)

    def _receipt_without_ledger(self) -> list[str]:
        there = self.receipt_path is not None and self.receipt_path.exists()
        return ["there is a receipt, but no ledger in the database."] if there else []


def _reserve(into: Block, charge: Charge) -> Entry:
    earlier = next((event for event in into.events if event.request_id == charge.request_id), None)
    if earlier is not None:
        changed = differences(earlier, charge)
        if changed:
            raise ParameterError(
                "request_id",
                allowed=f"new for a new request (this one was used with another {', '.join(changed)})",
                given=charge.request_id,
            )
        return entry_of(into.about(earlier.entry_id))
    spend(into, charge)
    return entry_of([into.append(event_of(charge))], fresh=True)


def _close(into: Block, entry: Entry, event: str, *, digest: str = "", details: str = "{}") -> Entry:
    group = into.about(entry.entry_id)
    state = entry_of(group).state if group and group[0].hash == entry.hash else "not in this ledger"
    if state != "reserved":
        raise ParameterError("entry", allowed="one that is reserved", given=f"{entry.entry_id} ({state})")
    opened = group[0]
    ended = into.append(
        Event(0, event, opened.entry_id, dataset=opened.dataset, table_name=opened.table_name,
              kind=opened.kind, scope=opened.scope, method=opened.method, who=opened.who,
              digest=digest, details=details)
    )  # fmt: skip
    return entry_of([*group, ended])


def _installed(transaction: Transaction) -> bool:
    return bool(transaction.rows(_INSTALLED))


def _statements(text: str) -> list[str]:
    """Return the statements of a hand-written file: each ends with a semicolon at the end of its line."""
    return [part for part in text.split(";\n") if part.strip()]


_INSTALLED = "SELECT 1 FROM information_schema.tables WHERE table_schema = 'dpsql' AND table_name = 'chain'"
