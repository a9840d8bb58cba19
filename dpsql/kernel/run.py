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
from dataclasses import replace
from typing import TypeVar

from dpsql.engines.base import Engine, Transaction
from dpsql.errors import DpsqlError, NotPrivate, ParameterError, QueryFailed, RunFailed
from dpsql.kernel.border import AllowanceExceeded, rebuild_plan
from dpsql.kernel.dataset import Dataset, scope, source
from dpsql.kernel.plan import LABELLED, UNLABELLED, Plan
from dpsql.kernel.session import Session
from dpsql.kernel.unlabelled_rows import check_sides, sources
from dpsql.ledger import Block, Charge, Entry, Ledger

_Release = TypeVar("_Release")


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
        neighbours=plan.unit.neighbours,
        unit=str(plan.unit),
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


def run(
    engine: Engine,
    ledger: Ledger,
    dataset: Dataset,
    charge: Charge,
    plan: Plan,
    *,
    ask: Callable[[Session], _Release],
    digest: Callable[[_Release], str],
    store: Callable[[Transaction, _Release, Entry], None],
    batch: str | None = None,
    other: Dataset | None = None,
) -> Entry:
    """Charge the plan, let `ask` use its session, store what comes out, and return the entry.

    When the request was made before, nothing is asked or stored: what its entry released is to be handed out. With an
    `other` dataset both are charged in one step, or neither is.
    """
    plan = rebuild_plan(plan)
    due = charge_for(dataset, plan, who=charge.who, request_id=charge.request_id, batch=batch, other=other)
    _check_charge(charge, due)
    charge = due  # the kernel's own: what was handed over might answer otherwise the next time it is asked
    refuse_unproven(ledger, dataset, plan)
    check_sides(dataset, other, plan)
    where = source(engine, dataset, batch)
    sides = sources(engine, dataset, other, plan, where)
    beside = None if other is None else other_charge(charge, plan, other)
    registered = {one.id: one.registration for one in (dataset, other) if one is not None}
    entries = ledger.reserve_all([charge] if beside is None else [charge, beside], registered)
    if not entries[0].fresh:
        return entries[0]
    problem: DpsqlError | None = None
    done = False
    try:
        with closing(Session(engine, where, plan, sides)) as session:
            released = _ask(session, ask)
        entries[0] = _store(ledger, entries, released, digest(released), store)
        done = True
    except Exception as error:  # noqa: BLE001  the border of the kernel: nothing passes it unsealed
        problem = _sealed(error)
    finally:
        if not done:
            # The first error is the one to tell; a charge that cannot be marked lost stays reserved, and charged.
            for entry in entries:
                with contextlib.suppress(DpsqlError):
                    ledger.lost(entry, "failed")
    if problem is not None:
        raise problem  # outside the except block: not even its context holds the old error
    return entries[0]


def _ask(session: Session, ask: Callable[[Session], _Release]) -> _Release:
    """Let a method use a session, and return what it made of the answers.

    Where an operation failed while rows were read, the session's own error is raised, whatever the method says of it or
    makes of it: only before that did it know nothing but noisy answers.
    """
    problem: Exception | None = None
    try:
        released = ask(session)
    except Exception as error:  # noqa: BLE001  told below, or not at all
        problem = error
    if session.failed:
        raise session.failure
    if problem is not None:
        raise problem
    return released


def _sealed(error: Exception) -> DpsqlError:
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


def _store(
    ledger: Ledger,
    entries: Sequence[Entry],
    released: _Release,
    digest: str,
    store: Callable[[Transaction, _Release, Entry], None],
) -> Entry:
    def together(transaction: Block) -> Entry:
        store(transaction, released, entries[0])
        ended = [ledger.release(entry, digest, transaction) for entry in entries]
        return ended[0]

    return ledger.write(together)
