"""The ledger: register datasets, set caps, reserve before a query, release after it, verify at any time."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from dpsql.engines import sql_files
from dpsql.engines.base import Engine, Transaction
from dpsql.errors import DatabaseLocked, LedgerBroken, NotRegistered, ParameterError, TableChanged
from dpsql.ledger import budget as budgets
from dpsql.ledger import chain, formats, owner_acts, receipt
from dpsql.ledger import transaction as ledger_transaction
from dpsql.ledger import upgrade as ledger_upgrade
from dpsql.ledger.budget import Budget
from dpsql.ledger.chain import Event
from dpsql.ledger.charge import Charge, canonical_json, check_text
from dpsql.ledger.entry import Entry, Registration, differences, entry_of, event_of, fold
from dpsql.ledger.limits import limit_details
from dpsql.ledger.selection import check_selection
from dpsql.ledger.spend import spend
from dpsql.ledger.transaction import Block
from dpsql.ledger.waiting import PATIENCE, wait_in_turn

_Result = TypeVar("_Result")


class Ledger:
    """The ledger of one database. Threads may share it. An entry that `reserve` has returned is on disk."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.receipt_path = receipt.anchor_path(engine.path) if engine.path else None
        self.patience = PATIENCE
        self._lock = receipt.lock_for(engine.path) if engine.path else threading.RLock()
        self._memory = ledger_transaction.Memory()

    # The owner's acts.

    def install(self) -> None:
        """Create the ledger's tables from `sql/ledger.sql`, unless they are there."""
        self._in_turn(self._install)

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

        `cap_nano` None means no cap. That is for public data alone, and never for a dataset that has had a cap.
        """
        registration = Registration(dataset, table, details, replace=replace)
        return self.register_as(lambda into: registration, cap_nano, who, kind=kind)

    def register_as(
        self, decide: Callable[[Block], Registration], cap_nano: int | None, who: str, *, kind: str = "pure"
    ) -> Entry:
        """Give a budget to the dataset that `decide` returns. It is called inside the block, where no other writer is.

        So of two who register at the same time the second sees what the first did. `decide` is called again when
        another writer was faster.
        """
        self.install()
        check_text("who", who)

        def enter(into: Block, registration: Registration, cap_nano: int | None) -> Entry:
            event = Event(0, "register", 0, dataset=check_text("dataset", registration.dataset), kind=kind,
                          cap=cap_nano, table_name=check_text("table", registration.table), who=who,
                          details=canonical_json("details", registration.stored_values()))  # fmt: skip
            return owner_acts.enter_registration(into, event, replace=registration.replace)

        def register(into: Block) -> Entry:
            registration = decide(into)
            entry = enter(into, registration, cap_nano)
            if registration.beside is not None:
                enter(into, *registration.beside)
            return entry

        return self.write(register)

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
        kind "approximate" is in nano-rho; `details` then hold the epsilon and the delta that the owner declared.
        """
        self._require_installed(dataset)
        event = Event(0, "cap", 0, dataset=dataset, kind=kind, cap=cap_nano, who=check_text("who", who),
                      analyst="" if analyst is None else check_text("analyst", analyst),
                      details=canonical_json("details", details or {}))  # fmt: skip
        return self.write(lambda into: owner_acts.set_cap(into, event))

    def set_limits(
        self, dataset: str, who: str, *, lost_runs: object | None = None, least_epsilon: object | None = None
    ) -> Entry:
        """Set how many of a dataset's runs may stay unfinished, the least charge of a run, or both."""
        self._require_installed(dataset)
        details = limit_details(lost_runs, least_epsilon)
        if not details:
            raise ParameterError("limits", allowed="lost_runs, least_epsilon or both", given=None)
        event = Event(0, "limit", 0, dataset=dataset, who=check_text("who", who),
                      details=canonical_json("details", details))  # fmt: skip
        return self.write(lambda into: owner_acts.set_limits(into, event))

    def record_lookup(self, table: str, details: Callable[[Block], Mapping[str, Any]], who: str) -> Entry:
        """Record that the owner had the values of columns looked up, outside the guarantee of any run.

        `details` is called inside the block, and returns what the entry stores. The table need not be registered yet.
        """
        self.install()
        check_text("who", who)

        def enter(into: Block) -> Entry:
            stored = canonical_json("details", details(into))
            event = Event(0, "lookup", 0, table_name=check_text("table", table), who=who, details=stored)
            return owner_acts.enter_lookup(into, event)

        return self.write(enter)

    def accept_runs(self, dataset: str, who: str) -> Entry:
        """Accept a dataset's unfinished runs, so that they count no longer: the owner has looked into them."""
        self._require_installed(dataset)
        event = Event(0, "accept", 0, dataset=dataset, who=check_text("who", who))
        return self.write(lambda into: owner_acts.accept_runs(into, event))

    def accept(self, who: str) -> Entry:
        """Take the chain as it stands for the truth: rebuild the sums, write a new receipt, record the act.

        This is for an owner who restored a backup or lost the receipt. Charges that are not in the chain are forgotten
        by this: the owner should lower the cap by them. A chain that was edited cannot be accepted (LedgerBroken).
        """
        check_text("who", who)
        self.install()
        return self._in_turn(lambda: owner_acts.enter_acceptance(self.engine, self._lock, who))

    def upgrade(self) -> None:
        """Bring a ledger of an older format to the present one. Does nothing where it is up to date or there is none.

        Raises LedgerBroken, and changes nothing, where the older ledger does not hold together.
        """
        checked = self._memory.state
        if checked is not None and checked.replayed.format == formats.LEDGER:
            return
        if self._look(formats.read_ledger_format) not in (None, formats.LEDGER):
            self._in_turn(self._upgrade)

    # A run: reserve, then query, then release or lost.

    def reserve(self, charge: Charge) -> Entry:
        """Charge first: return an entry that is on disk, before any private row is read.

        The entry is `fresh` when this call made the charge. A repeated request id with the same content
        returns the stored entry, which is not fresh, and charges nothing: the caller hands out its release and runs
        nothing. Raises BudgetExceeded, ChargeTooSmall, RunsUnfinished, NotRegistered, LedgerBroken or
        ParameterError; then nothing has changed.
        """
        return self.reserve_all([charge])[0]

    def reserve_all(self, charges: Sequence[Charge], registered: Mapping[str, int] | None = None) -> list[Entry]:
        """Make several charges in one step, all of them or none; each is as `reserve` makes it.

        `registered` names the registration entry that each dataset was read from. Raises TableChanged where the owner
        registered one anew since: a scope may mean other rows by now.
        """
        self._require_installed(charges[0].table)

        def reserve(into: Block) -> list[Entry]:
            for dataset, entry_id in (registered or {}).items():
                _check_registration(into, dataset, entry_id)
            return [_reserve(into, charge) for charge in charges]

        return self.write(reserve)

    def release(self, entry: Entry, digest: str, transaction: Transaction) -> Entry:
        """Mark an entry released, in a block of `transaction()` or `write`, with what it releases."""
        if not entry.fresh:
            raise ParameterError("entry", allowed="one that this caller reserved", given=entry.entry_id)
        if not isinstance(transaction, Block) or not transaction.open:
            raise ParameterError("transaction", allowed="an open block of this ledger", given=transaction)
        return _close(transaction, entry, "release", digest=check_text("digest", digest))

    def mark_lost(self, entry: Entry, reason_kind: str) -> Entry:
        """Mark an entry lost: its run failed. The charge stays; `reason_kind` is a class, never a value."""
        details = canonical_json("reason_kind", {"reason": check_text("reason_kind", reason_kind)})
        return self.write(lambda into: _close(into, entry, "lost", details=details))

    def transaction(self) -> AbstractContextManager[Block]:
        """Open a block: a transaction on a sound ledger whose events get a receipt.

        It may end in Conflict where another writer was faster. A ledger of an older format is upgraded first.
        """
        self.upgrade()
        return ledger_transaction.sound_block(self.engine, self._lock, self._memory)

    def write(self, work: Callable[[Block], _Result]) -> _Result:
        """Do `work` in a block and return its result; try again while other writers are faster."""

        def attempt() -> _Result:
            with self.transaction() as into:
                return work(into)

        return self._in_turn(attempt)

    # Looking, which changes nothing.

    def find_request(self, request_id: str) -> Entry | None:
        """Return the entry of a request, or None."""
        return self._look(lambda transaction: _entry_of_request(transaction, request_id))

    def find_entry(self, entry_id: int) -> Entry | None:
        """Return the entry of a number, or None."""
        events = self._look(lambda transaction: chain.read_chain(transaction, {"entry_id": entry_id}))
        return entry_of(events) if events else None

    def registrations(self, table: str | None = None) -> list[Entry]:
        """Return each dataset's last registration: of all datasets, or of those with that table, in any case."""
        events = self._look(lambda transaction: chain.read_last_registrations(transaction, table))
        return [entry_of([event]) for event in events or []]

    def entries(self, dataset: str | None = None, *, who: str | None = None, event: str | None = None) -> list[Entry]:
        """Return entries in order, each with its state: all, or those of a dataset, a person, an event."""
        # Not by event "reserve": later events of the same entry say what became of a charge.
        columns = {"dataset": dataset, "event": None if event == "reserve" else event}
        equal = {name: value for name, value in columns.items() if value is not None}
        return [
            entry
            for entry in fold(self._look(lambda transaction: chain.read_chain(transaction, equal)) or [])
            if who in (None, entry.who) and event in (None, entry.event)
        ]

    def budget(self, dataset: str, kind: str = "pure") -> Budget:
        """Return a dataset's cap, spending, analysts, scopes. Raises NotRegistered when it has none."""
        budget = self._look(lambda transaction: budgets.read_budget(transaction, dataset, kind))
        if budget is None:
            raise NotRegistered(dataset, self.datasets())
        return budget

    def kinds(self, dataset: str) -> list[str]:
        """Return the kinds of budget that a dataset has, "pure" first."""
        query = "SELECT kind FROM dpsql.budget WHERE dataset = ?"
        rows = self._look(lambda transaction: transaction.rows(query, (dataset,)))
        return sorted((row["kind"] for row in rows or []), key=lambda kind: (kind != "pure", kind))

    def datasets(self) -> list[str]:
        """Return the registered datasets."""
        query = "SELECT DISTINCT dataset FROM dpsql.budget ORDER BY dataset"
        rows = self._look(lambda transaction: transaction.rows(query))
        return [row["dataset"] for row in rows or []]

    def verify(self) -> list[str]:
        """Return one sentence for each thing that does not hold in chain, sums or receipt; [] is good."""
        deadline = time.monotonic() + self.patience
        with self._lock:
            while True:
                before = receipt.receipt_bytes(self.receipt_path)
                findings = self._findings()
                # A receipt that was replaced in between belongs to another state than the one that was read.
                if not findings or receipt.receipt_bytes(self.receipt_path) == before or time.monotonic() > deadline:
                    return findings

    # Inside.

    def _findings(self) -> list[str]:
        try:
            findings = self._look(
                lambda transaction: ledger_transaction.all_findings(
                    transaction, ledger_transaction.check_all(transaction), self.receipt_path
                )
            )
        except LedgerBroken as broken:
            return broken.findings
        return self._receipt_without_ledger() if findings is None else findings

    def _look(self, read: Callable[[Transaction], _Result]) -> _Result | None:
        """Return what `read` returns from one state of the ledger, the same for all statements; None without one."""
        with self.engine.snapshot() as transaction:
            return read(transaction) if _is_installed(transaction) else None

    def _in_turn(self, attempt: Callable[[], _Result]) -> _Result:
        return wait_in_turn(attempt, turn=self._turn, patience=self.patience)

    def _turn(self) -> object:
        """Return how many writers have had their turn; None where that cannot be told now."""
        try:
            rows = self._look(lambda transaction: transaction.rows("SELECT turn FROM dpsql.chain"))
        except DatabaseLocked:
            return None
        return rows[0]["turn"] if rows else None

    def _install(self) -> None:
        with self._lock, self.engine.transaction() as transaction:
            if _is_installed(transaction):
                return
            for statement in sql_files.statements("ledger.sql"):
                transaction.run(statement)
            transaction.run(_NAME, (secrets.token_hex(16), ledger_transaction.now()))

    def _upgrade(self) -> None:
        with ledger_transaction.sound_block(self.engine, self._lock, self._memory) as into:
            ledger_upgrade.upgrade(into, self.engine)

    def _require_installed(self, table: str) -> None:
        with self.engine.snapshot() as transaction:
            if _is_installed(transaction):
                return
        findings = self._receipt_without_ledger()
        raise LedgerBroken(findings) if findings else NotRegistered(table)

    def _receipt_without_ledger(self) -> list[str]:
        has_receipt = self.receipt_path is not None and self.receipt_path.exists()
        return ["there is a receipt, but no ledger in the database."] if has_receipt else []


def _check_registration(into: Block, dataset: str, entry_id: int) -> None:
    """Raise TableChanged where a dataset's last registration is not the entry that a run was planned from."""
    runs = into.state.replayed.runs.get(dataset)
    if runs is not None and runs.registered != entry_id:
        raise TableChanged("the table was registered anew while the run was planned.", hint="ask again")


def _reserve(into: Block, charge: Charge) -> Entry:
    """Make a charge in an open block, or return the stored entry of a request that was made before."""
    for earlier in chain.read_chain(into, {"request_id": charge.request_id}):
        changed = differences(earlier, charge)
        if changed:
            raise ParameterError(
                "request_id",
                allowed=f"new for a new request (this one was used with another {', '.join(changed)})",
                given=charge.request_id,
            )
        return entry_of(into.events_of(earlier.entry_id))
    check_selection(charge, into.state.replayed.accounts.get((charge.dataset, charge.kind)))
    spend(into, charge)
    return entry_of([into.append(event_of(charge))], fresh=True)


def _entry_of_request(transaction: Transaction, request_id: str) -> Entry | None:
    opened = chain.read_chain(transaction, {"request_id": request_id})
    return entry_of(chain.read_chain(transaction, {"entry_id": opened[0].entry_id})) if opened else None


def _close(into: Block, entry: Entry, event: str, *, digest: str = "", details: str = "{}") -> Entry:
    """Append the event that ends a charge; raise ParameterError unless the entry is reserved in this ledger."""
    group = into.events_of(entry.entry_id)
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


def _is_installed(transaction: Transaction) -> bool:
    return formats.has_part(transaction, "ledger")


_NAME = "INSERT INTO dpsql.chain (ledger_id, installed_at, turn) VALUES (?, ?, 0)"
