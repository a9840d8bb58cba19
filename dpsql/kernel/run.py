"""Runs a plan: charge, then ask, then store the release together with its ledger entry.

reserve (durable) ──▶ session: queries and noise ──▶ one transaction: what was released + "released"
      │                        │ fails
      └ refused: no trace      └▶ "lost": the charge stays, because a failure can depend on the rows

Ctrl-C is such a failure, and is raised as `Interrupted`, which says what stays charged. Pressed while the ledger is
written (the charge, the release, "lost") it waits for the end of that, however often it is pressed.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from dpsql.engines.base import Engine, Transaction
from dpsql.engines.interruption import hold_interrupts
from dpsql.errors import DpsqlError, NotPrivate, ParameterError, QueryFailed, RunFailed, TableChanged
from dpsql.kernel.border import AllowanceExceeded, rebuild_plan
from dpsql.kernel.charges_made import name_charges, note_charges
from dpsql.kernel.datasets.dataset import Dataset, scope
from dpsql.kernel.plan import LABELLED, UNLABELLED, Plan
from dpsql.kernel.progress import RunProgress
from dpsql.kernel.session import Session
from dpsql.kernel.unlabelled_rows import rows_to_read
from dpsql.ledger import Block, Charge, Entry, Ledger

_Value = TypeVar("_Value")
_Stored = TypeVar("_Stored", covariant=True)


class Release(Protocol[_Stored]):
    """What a run makes public, from noisy answers alone: its digest in the ledger, and how it is stored."""

    @property
    def digest(self) -> str:
        """The hash that the ledger's release event carries."""
        ...

    def save(self, transaction: Transaction, entry: Entry) -> _Stored:
        """Store the release in the transaction that also writes its ledger event, and return it as it is stored.

        If another writer was faster, the transaction is tried again, and this method is called once more.
        """
        ...


@dataclass(frozen=True)
class Released(Generic[_Value]):
    """How a run ended: its ledger entry, and what was stored; no value if the same request was made before."""

    entry: Entry
    value: _Value | None


@dataclass(frozen=True)
class Job:
    """A run to be charged: the dataset, the plan, its charge, and which rows it is about.

    `batch` is one batch of the dataset, or None for all rows. `other` is the dataset that holds the unlabelled rows, if
    it is another one. If `literal` is true, each leaf is counted by a statement of its own.
    """

    dataset: Dataset
    plan: Plan
    charge: Charge
    batch: str | None = None
    other: Dataset | None = None
    literal: bool = False

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        plan: Plan,
        *,
        who: str,
        request_id: str | None,
        batch: str | None = None,
        other: Dataset | None = None,
        literal: bool = False,
    ) -> Job:
        """Return a job with the charge that its plan costs."""
        charge = charge_for(dataset, plan, who=who, request_id=request_id, batch=batch, other=other)
        return cls(dataset, plan, charge, batch, other, literal)


def charge_for(
    dataset: Dataset,
    plan: Plan,
    *,
    who: str,
    request_id: str | None,
    batch: str | None = None,
    other: Dataset | None = None,
) -> Charge:
    """Return what the ledger is asked to charge for a plan, on the whole table or on one batch of it.

    With an `other` dataset, which holds the unlabelled rows, each dataset pays for its own side; see `other_charge`. If
    no request id is given, a new one is drawn. An empty one is refused: it is likely an unset variable in a script, and
    the second run of that script would charge again.
    """
    if request_id == "":
        raise ParameterError("request_id", allowed="text, not empty", given=request_id)
    return Charge(
        request_id=request_id or secrets.token_hex(16),
        dataset=dataset.payer,
        table=dataset.payer_table,
        method=plan.method,
        plan=plan.to_dict() | ({} if batch is None else {"batch": batch}) | _charged_view(dataset),
        amount=plan.charge if other is None else plan.cost_of(LABELLED),
        neighbours=plan.promise.neighbours,
        unit=str(plan.promise),
        scope=scope(dataset, batch),
        kind=plan.kind,
        who=who,
    )


def _charged_view(dataset: Dataset) -> dict[str, str]:
    """Return which dataset a charge is for, where it is not the one whose budget pays."""
    return {"view": dataset.table} if dataset.account else {}


def other_charge(charge: Charge, plan: Plan, other: Dataset) -> Charge | None:
    """Return the charge on the dataset of the unlabelled rows, or None where their side costs nothing."""
    cost = plan.cost_of(UNLABELLED)
    if not cost:
        return None
    return replace(
        charge,
        request_id=f"{charge.request_id}/unlabelled",
        dataset=other.payer,
        table=other.payer_table,
        amount=cost,
        scope="",
    )


def run(engine: Engine, ledger: Ledger, job: Job, ask: Callable[[Session], Release[_Value]]) -> Released[_Value]:
    """Charge a job, let `ask` use its session, store the release that it returns, and return what was stored.

    If the same request was made before, nothing is asked or stored, and the caller hands out what its entry released.
    With a second dataset both are charged in one step, or neither is. Ctrl-C stops the statement that runs, and is
    raised as Interrupted.
    """
    return name_charges(lambda: _run(engine, ledger, job, ask))


def _run(engine: Engine, ledger: Ledger, job: Job, ask: Callable[[Session], Release[_Value]]) -> Released[_Value]:
    plan = rebuild_plan(job.plan)
    dataset, batch, other, literal = job.dataset, job.batch, job.other, job.literal is True
    if any(side is not None and side.base.named_alone for side in (dataset, other)):
        raise TableChanged("the ledger was upgraded while the run was planned.", hint="ask again")
    due = charge_for(dataset, plan, who=job.charge.who, request_id=job.charge.request_id, batch=batch, other=other)
    _check_charge(job.charge, due)
    # From here on the kernel uses its own plan and charge: those that were handed over could answer otherwise later.
    for side in (dataset, other):
        if side is not None:
            refuse_unproven(ledger, side, plan)
    rows, sides = rows_to_read(engine, dataset, other, plan, batch)
    rows, sides = replace(rows, literal=literal), {side: replace(own, literal=literal) for side, own in sides.items()}
    second = None if other is None else other_charge(due, plan, other)
    registrations = {side.id: side.registration for side in (dataset, other) if side is not None}
    progress = RunProgress(plan)
    progress.announce()
    entries: list[Entry] = []
    problem: Exception | None = None
    interrupted = False
    done = False
    try:
        with hold_interrupts():
            entries = ledger.reserve_all([due] if second is None else [due, second], registrations)
            note_charges([entry for entry in entries if entry.fresh])
        if not entries[0].fresh:
            return Released(entries[0], None)
        try:
            with _close_at_end(Session(engine, rows, plan, sides, progress)) as session:
                release = _ask(session, ask)
            if progress.error is not None:
                raise progress.error
            with hold_interrupts():
                released = _store(ledger, entries, release)
                done = True
                note_charges([replace(entry, state="released") for entry in entries])
            progress.end()
        except Exception as error:  # noqa: BLE001  the border of the kernel: no error passes it unchanged
            problem = progress.error or _safe_error(error)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if not done:
            _lose(ledger, [entry for entry in entries if entry.fresh], "interrupted" if interrupted else "failed")
    if interrupted:
        raise KeyboardInterrupt
    if problem is not None:
        raise problem  # Outside the except block, so that not even its context holds the old error.
    return released


@contextlib.contextmanager
def _close_at_end(session: Session) -> Iterator[Session]:
    """Close a session at the end of a block, all of it."""
    try:
        yield session
    finally:
        with hold_interrupts():
            session.close()


def _lose(ledger: Ledger, entries: Sequence[Entry], reason_kind: str) -> None:
    """Mark entries lost. A charge that cannot be marked stays reserved, that is charged and unfinished."""
    with hold_interrupts():
        for entry in entries:
            with contextlib.suppress(DpsqlError):  # the first error is the one to raise
                note_charges([ledger.mark_lost(entry, reason_kind)])


def _ask(session: Session, ask: Callable[[Session], _Value]) -> _Value:
    """Let a method use a session, and return what it made of the answers.

    If an operation failed while rows were read, the session's own error is raised, whatever the method returns or
    raises: after such a failure the method may know more than noisy answers.
    """
    problem: Exception | None = None
    try:
        released = ask(session)
    except Exception as error:  # noqa: BLE001  raised below, unless the session has failed
        problem = error
    finally:
        object.__setattr__(session, "__class__", Session)  # a method may have written another one there
    if session.has_failed:
        raise session.failure
    if problem is not None:
        raise problem
    return released


def _safe_error(error: Exception) -> DpsqlError:
    """Return an error that is safe to show, because the text and the frames of an error can hold exact counts.

    A failed query and an unexpected error get the same sentence: which of the two it was could depend on rows.
    """
    if not isinstance(error, DpsqlError) or isinstance(error, QueryFailed):
        return RunFailed()
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def _check_charge(given: Charge, due: Charge) -> None:
    """Raise AllowanceExceeded unless the charge that was handed over is exactly the one that is due for the plan."""
    if given != due:
        raise AllowanceExceeded("a run was asked for whose charge is not that of its plan.")


def refuse_unproven(ledger: Ledger, dataset: Dataset, plan: Plan) -> None:
    """Raise NotPrivate if a plan has a step without a proof, and a dataset that it reads has a cap."""
    if not plan.private and ledger.budget(dataset.payer).cap is not None:
        raise NotPrivate(
            f'method "{plan.method}" as published is not differentially private, and "{dataset.table}" has a cap.',
            hint="leave out --as-published, or register a public copy with --no-cap",
        )


def _store(ledger: Ledger, entries: Sequence[Entry], release: Release[_Value]) -> Released[_Value]:
    """Store a release and mark its entries released, both or neither."""
    digest = release.digest

    def store(transaction: Block) -> Released[_Value]:
        value = release.save(transaction, entries[0])
        released = [ledger.release(entry, digest, transaction) for entry in entries]
        return Released(released[0], value)

    return ledger.write(store)
