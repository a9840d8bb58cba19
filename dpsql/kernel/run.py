"""Runs a plan: charge, then ask, then store the release together with its ledger entry.

reserve (durable) ──▶ session: queries and noise ──▶ one transaction: what was released + "released"
      │                        │ fails
      └ refused: no trace      └▶ "lost": the charge stays, for a failure can depend on data
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from dpsql.engines.base import Engine, Transaction
from dpsql.errors import DpsqlError, NotPrivate, ParameterError, QueryFailed, RunFailed
from dpsql.kernel.border import AllowanceExceeded, rebuild_plan
from dpsql.kernel.datasets.dataset import Dataset, scope
from dpsql.kernel.plan import LABELLED, UNLABELLED, Plan
from dpsql.kernel.session import Session
from dpsql.kernel.unlabelled_rows import rows_to_read
from dpsql.ledger import Block, Charge, Entry, Ledger

_Value = TypeVar("_Value")
_Stored = TypeVar("_Stored", covariant=True)


class Release(Protocol[_Stored]):
    """What a run makes public, made from noisy answers alone: how it is known in the ledger, and how it is stored."""

    @property
    def digest(self) -> str:
        """The hash that the ledger's release event carries."""
        ...

    def save(self, transaction: Transaction, entry: Entry) -> _Stored:
        """Store the release in the transaction that also writes its ledger event, and return it as it is stored.

        The transaction may be tried anew when another writer was faster; then it is saved once more.
        """
        ...


@dataclass(frozen=True)
class Released(Generic[_Value]):
    """How a run ended: its ledger entry, and what was stored. No value where the request had been made before."""

    entry: Entry
    value: _Value | None


@dataclass(frozen=True)
class Job:
    """A run to be charged: the dataset, the plan, the charge that goes with it, and which rows it is about.

    `batch` is one batch of the dataset; `other` is a second dataset, where that one holds the unlabelled rows.
    """

    dataset: Dataset
    plan: Plan
    charge: Charge
    batch: str | None = None
    other: Dataset | None = None

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
    ) -> Job:
        """Return a job with the charge that its plan costs."""
        charge = charge_for(dataset, plan, who=who, request_id=request_id, batch=batch, other=other)
        return cls(dataset, plan, charge, batch, other)


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

    With an `other` dataset, which holds the unlabelled rows, each pays for its own side; see `other_charge`. No request
    id is a new one; an empty one is refused: an unset variable in a script, whose second run would charge again.
    """
    if request_id == "":
        raise ParameterError("request_id", allowed="text, not empty", given=request_id)
    return Charge(
        request_id=request_id or secrets.token_hex(16),
        dataset=dataset.id,
        table=dataset.table,
        method=plan.method,
        plan=plan.to_dict() | ({} if batch is None else {"batch": batch}),
        amount=plan.charge if other is None else plan.cost_of(LABELLED),
        neighbours=plan.promise.neighbours,
        unit=str(plan.promise),
        scope=scope(dataset, batch),
        kind=plan.kind,
        who=who,
    )


def other_charge(charge: Charge, plan: Plan, other: Dataset) -> Charge | None:
    """Return what the dataset of the unlabelled rows is charged beside; None where its features are public."""
    cost = plan.cost_of(UNLABELLED)
    if not cost:
        return None
    return replace(
        charge,
        request_id=f"{charge.request_id}/unlabelled",
        dataset=other.id,
        table=other.table,
        amount=cost,
        scope="",
    )


def run(engine: Engine, ledger: Ledger, job: Job, ask: Callable[[Session], Release[_Value]]) -> Released[_Value]:
    """Charge a job, let `ask` use its session, store the release that it returns, and return what was stored.

    When the request was made before, nothing is asked or stored: what its entry released is to be handed out. With a
    second dataset both are charged in one step, or neither is.
    """
    plan = rebuild_plan(job.plan)
    dataset, given, batch, other = job.dataset, job.charge, job.batch, job.other
    charge = charge_for(dataset, plan, who=given.who, request_id=given.request_id, batch=batch, other=other)
    _check_charge(given, charge)  # from here on the kernel's own: what was handed over might answer otherwise later
    refuse_unproven(ledger, dataset, plan)
    rows, sides = rows_to_read(engine, dataset, other, plan, batch)
    second = None if other is None else other_charge(charge, plan, other)
    registered = {known.id: known.registration for known in (dataset, other) if known is not None}
    entries = ledger.reserve_all([charge] if second is None else [charge, second], registered)
    if not entries[0].fresh:
        return Released(entries[0], None)
    problem: DpsqlError | None = None
    done = False
    try:
        with closing(Session(engine, rows, plan, sides)) as session:
            release = _ask(session, ask)
        released = _store(ledger, entries, release)
        done = True
    except Exception as error:  # noqa: BLE001  the border of the kernel: nothing passes it unsealed
        problem = _safe_error(error)
    finally:
        if not done:
            # The first error is the one to tell; a charge that cannot be marked lost stays reserved, and charged.
            for entry in entries:
                with contextlib.suppress(DpsqlError):
                    ledger.mark_lost(entry, "failed")
    if problem is not None:
        raise problem  # outside the except block: not even its context holds the old error
    return released


def _ask(session: Session, ask: Callable[[Session], _Value]) -> _Value:
    """Let a method use a session, and return what it made of the answers.

    Where an operation failed while rows were read, the session's own error is raised, whatever the method says of it or
    makes of it: only before that did it know nothing but noisy answers.
    """
    problem: Exception | None = None
    try:
        released = ask(session)
    except Exception as error:  # noqa: BLE001  told below, or not at all
        problem = error
    finally:
        object.__setattr__(session, "__class__", Session)  # a method may have written another one there
    if session.has_failed:
        raise session.failure
    if problem is not None:
        raise problem
    return released


def _safe_error(error: Exception) -> DpsqlError:
    """Return an error that is safe to show: an error's text, and the frames it came through, can hold exact counts.

    A failed count and an unexpected error have one sentence: which of the two it was could depend on rows.
    """
    if not isinstance(error, DpsqlError) or isinstance(error, QueryFailed):
        return RunFailed()
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def _check_charge(given: Charge, due: Charge) -> None:
    """Raise AllowanceExceeded unless the ledger is asked for just what the plan costs."""
    if given != due:
        raise AllowanceExceeded("a run was asked for whose charge is not that of its plan.")


def refuse_unproven(ledger: Ledger, dataset: Dataset, plan: Plan) -> None:
    """Raise NotPrivate when a plan has an unproven step and its dataset has a cap."""
    if not plan.private and ledger.budget(dataset.id).cap is not None:
        raise NotPrivate(
            f'method "{plan.method}" as published is not differentially private, and "{dataset.table}" has a cap.',
            hint="leave out --as-published, or register a public copy with --no-cap",
        )


def _store(ledger: Ledger, entries: Sequence[Entry], release: Release[_Value]) -> Released[_Value]:
    """Store a release and mark its entries released, both or neither."""
    digest = release.digest

    def store(transaction: Block) -> Released[_Value]:
        value = release.save(transaction, entries[0])
        ended = [ledger.release(entry, digest, transaction) for entry in entries]
        return Released(ended[0], value)

    return ledger.write(store)
