"""Runs a plan: charge, then ask, then store the release together with its ledger entry.

reserve (durable) ──▶ session: queries and noise ──▶ one transaction: what was released + "released"
      │                        │ fails
      └ refused: no trace      └▶ "lost": the charge stays, for a failure can depend on data
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from dpsql.engines.base import Engine, Transaction
from dpsql.errors import DpsqlError, NotPrivate, QueryFailed
from dpsql.kernel.dataset import Dataset, scope, source
from dpsql.kernel.plan import Plan
from dpsql.kernel.session import Session
from dpsql.ledger import Block, Charge, Entry, Ledger

_Release = TypeVar("_Release")


def charge_for(dataset: Dataset, plan: Plan, *, who: str, request_id: str, batch: str | None = None) -> Charge:
    """Return what the ledger is asked to charge for a plan, on the whole table or on one batch of it."""
    return Charge(
        request_id=request_id,
        dataset=dataset.id,
        table=dataset.table,
        method=plan.method,
        plan=plan.to_dict() | ({} if batch is None else {"batch": batch}),
        nano_epsilon=plan.nano_epsilon,
        neighbours=plan.unit.neighbours,
        unit=str(plan.unit),
        scope=scope(dataset, batch),
        who=who,
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
) -> Entry:
    """Charge the plan, let `ask` use its session, store what comes out, and return the entry.

    When the request was made before, nothing is asked or stored: what its entry released is to be handed out.
    """
    refuse_unproven(ledger, dataset, plan)
    where = source(engine, dataset, batch)
    entry = ledger.reserve(charge)
    if not entry.fresh:
        return entry
    problem: DpsqlError | None = None
    done = False
    try:
        released = ask(Session(engine, where, plan))
        entry = _store(ledger, entry, released, digest(released), store)
        done = True
    except Exception as error:  # noqa: BLE001  the border of the kernel: nothing passes it unsealed
        problem = _sealed(error)
    finally:
        if not done:
            # The first error is the one to tell; a charge that cannot be marked lost stays reserved, and charged.
            with contextlib.suppress(DpsqlError):
                ledger.lost(entry, "failed")
    if problem is not None:
        raise problem  # outside the except block: not even its context holds the old error
    return entry


def _sealed(error: Exception) -> DpsqlError:
    """Return an error that is safe to show: an error's text, and the frames it came through, can hold exact counts."""
    if not isinstance(error, DpsqlError):
        return QueryFailed("finish the run", type(error).__name__, hint="ask again; if it stays so, report it")
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def refuse_unproven(ledger: Ledger, dataset: Dataset, plan: Plan) -> None:
    """Raise NotPrivate when a plan has an unproven step and its dataset has a cap."""
    if not plan.private and ledger.budget(dataset.id).cap is not None:
        raise NotPrivate(
            f'method "{plan.method}" as published is not differentially private, and "{dataset.table}" has a cap.',
            hint="leave out --as-published, or register a public copy with --no-cap",
        )


def _store(
    ledger: Ledger,
    entry: Entry,
    released: _Release,
    digest: str,
    store: Callable[[Transaction, _Release, Entry], None],
) -> Entry:
    def together(transaction: Block) -> Entry:
        store(transaction, released, entry)
        return ledger.release(entry, digest, transaction)

    return ledger.write(together)
