"""Plans and trains: from a registered table, a budget and a method to a released model on the shelf."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from dpsql import methods
from dpsql.engines.base import Engine, Transaction
from dpsql.errors import BudgetExceeded, DpsqlError, ParameterError
from dpsql.kernel.border import AllowanceExceeded, plain, rebuild_voting_forest
from dpsql.kernel.dataset import Dataset, find, scope
from dpsql.kernel.noise import approximate
from dpsql.kernel.plan import UNLABELLED, Plan
from dpsql.kernel.run import charge_for, run
from dpsql.kernel.session import Session
from dpsql.kernel.unlabelled_rows import apart, check_plan, partner, settled
from dpsql.ledger import Charge, Entry, Ledger, format_epsilon, formats, parse_delta, parse_epsilon
from dpsql.models import store as shelf
from dpsql.models.model import CERTIFICATE, Model
from dpsql.schema import Schema
from dpsql.trees.grid import axes
from dpsql.trees.voting import VotingForest


def plan(
    engine: Engine,
    ledger: Ledger,
    table: str,
    *,
    epsilon: object,
    method: str,
    parameters: Mapping[str, Any],
    batch: str | None = None,
    delta: object | None = None,
) -> Plan:
    """Return what a training run would ask and cost. Reads no row, charges nothing."""
    dataset = find(engine, ledger, table)
    scope(dataset, batch)  # refuses a batch that the schema knows nothing of
    _refuse_batch(batch, delta)
    return planned(engine, ledger, dataset, method, parse_epsilon(epsilon), parameters, delta)[0]


def planned(
    engine: Engine,
    ledger: Ledger,
    dataset: Dataset,
    method: str,
    nano_epsilon: int,
    parameters: Mapping[str, Any],
    delta: object | None = None,
) -> tuple[Plan, Dataset | None]:
    """Return a method's plan, and the other dataset that its unlabelled rows come from, where there is one.

    Where somebody may be on both sides, each side gets half of epsilon: they add up to what was asked for.
    """
    schema = dataset.schema if delta is None else _approximated(dataset.schema, nano_epsilon, delta)
    chosen = methods.fitting(method, dataset.schema)
    wanted = parameters.get("unlabelled") if "unlabelled" in chosen.parameters else None
    other = partner(engine, ledger, dataset, wanted) if isinstance(wanted, str) else None
    found, separate = chosen.plan(schema, nano_epsilon, parameters), apart(dataset, other)
    if not separate and found.cost_of(UNLABELLED):
        found = chosen.plan(schema, nano_epsilon // 2, parameters)
    found = settled(found, apart=separate)
    if found.nano_epsilon > nano_epsilon:
        raise AllowanceExceeded(
            f'method "{method}" planned epsilon {format_epsilon(found.nano_epsilon)}, '
            f"and {format_epsilon(nano_epsilon)} was asked for."
        )
    check_plan(engine, dataset, other, found)
    return found, other


def _approximated(schema: Schema, nano_epsilon: int, delta: object) -> Schema:
    """Return the schema as a run for (epsilon, delta) sees it: its unit says which noise protects it."""
    return replace(schema, unit=replace(schema.unit, approximate=approximate(nano_epsilon, parse_delta(delta))))


def _refuse_batch(batch: str | None, delta: object | None) -> None:
    if batch is not None and delta is not None:
        raise ParameterError("delta", allowed="left out for a batch: updates add up epsilon alone", given=delta)


def train(
    engine: Engine,
    ledger: Ledger,
    table: str,
    *,
    epsilon: object,
    method: str,
    parameters: Mapping[str, Any],
    name: str | None,
    who: str,
    request_id: str | None = None,
    batch: str | None = None,
    delta: object | None = None,
    planning: AbstractContextManager[object] | None = None,
) -> Model:
    """Train under a charged budget, on the whole table or on one batch of it, and return the stored model.

    A repeated `request_id` returns the stored model and charges nothing. With `delta` the run is
    (epsilon, delta)-private, and pays rho from a budget of kind "approximate". `planning` is held while the plan is
    made: a server ends a search for one that takes too long.
    """
    _refuse_batch(batch, delta)
    nano_epsilon = parse_epsilon(epsilon)
    dataset = find(engine, ledger, table)
    if delta is None and "unlabelled" not in parameters and not _known(ledger, request_id):
        check_affordable(ledger, dataset, nano_epsilon, scope(dataset, batch))
    with planning or nullcontext():
        found, other = planned(engine, ledger, dataset, method, nano_epsilon, parameters, delta)
    charge = charge_for(dataset, found, who=who, request_id=request_id, batch=batch, other=other)
    job = Job(dataset, found, charge, batch, name=name, base=dataset.table, other=other)
    return carry_out(engine, ledger, job, ask=methods.get(found.method).train)


def check_affordable(ledger: Ledger, dataset: Dataset, nano_epsilon: int, part: str) -> None:
    """Raise BudgetExceeded when no budget of the dataset can pay: before a plan is searched for, which can take long.

    It is the charge itself that decides; what is refused here it would refuse too.
    """
    budgets = [ledger.budget(dataset.id, kind) for kind in ledger.kinds(dataset.id) if kind != "approximate"]
    lefts = [budget.left_in(part) for budget in budgets]
    if budgets and all(left is not None and left < nano_epsilon for left in lefts):
        raise BudgetExceeded(
            f'table "{dataset.table}"' + (f' in scope "{part}"' if part else ""),
            needed=format_epsilon(nano_epsilon),
            left=budgets[0].text(lefts[0]),
            cap=budgets[0].cap_text,
            hint=f"dpsql ledger --table {shlex.quote(dataset.table)}",
        )


def _known(ledger: Ledger, request_id: str | None) -> bool:
    return request_id is not None and ledger.find_request(request_id) is not None


@dataclass(frozen=True)
class Job:
    """A charged run that ends in a model: what is asked, what it is called, what its certificate adds."""

    dataset: Dataset
    plan: Plan
    charge: Charge
    batch: str | None = None
    name: str | None = None
    base: str = "model"
    notes: Mapping[str, Any] = field(default_factory=dict)
    other: Dataset | None = None


def carry_out(engine: Engine, ledger: Ledger, job: Job, *, ask: Callable[[Session], VotingForest]) -> Model:
    """Charge a job, let `ask` use its session, and return the stored model; a repeated request asks nothing."""
    repeated = _repeated(engine, ledger, job.charge)
    if repeated is not None:
        return repeated
    shelf.install(engine)
    if job.name is not None:
        shelf.check_free(engine, job.name)
    stored: list[Model] = []
    learned: dict[str, Any] = {}

    def asked(session: Session) -> VotingForest:
        given = ask(session)
        schema = session.own_schema()
        learned.update(schema=schema, facts=plain(session.facts))
        return rebuild_voting_forest(given, axes(schema), schema.leaf_values)

    def store(transaction: Transaction, released: VotingForest, entry: Entry) -> None:
        model = Model(
            name=shelf.name_for(transaction, job.name, job.base),
            method=job.plan.method,
            table=job.dataset.table,
            schema=replace(learned["schema"], unit=job.dataset.schema.unit),
            released=released,
            certificate=certificate(job, entry, released) | ({"facts": learned["facts"]} if learned["facts"] else {}),
        )
        stored[:] = [shelf.save(transaction, model, entry_id=entry.entry_id)]

    entry = run(
        engine,
        ledger,
        job.dataset,
        job.charge,
        job.plan,
        ask=asked,
        digest=VotingForest.digest,
        store=store,
        batch=job.batch,
        other=job.other,
    )
    return stored[0] if stored else _stored(engine, entry)


def certificate(job: Job, entry: Entry, released: VotingForest) -> dict[str, Any]:
    """Return what a model says of itself: cost, neighbours, plan, where it is in the ledger, what made it."""
    dataset, planned, charge = job.dataset, job.plan, job.charge
    batches = {} if job.batch is None else {"batches": [job.batch]}
    beside = {} if job.other is None else {"unlabelled_table": job.other.table, "unlabelled_dataset": job.other.id}
    made = {
        **formats.stamp(CERTIFICATE),
        "private": planned.private,
        "kind": planned.kind,
        **planned.loss,
        "neighbours": planned.unit.neighbours,
        "unit": str(planned.unit),
        "dataset": dataset.id,
        "table": dataset.table,
        "method": planned.method,
        "plan": planned.to_dict(),
        "request_id": charge.request_id,
        "ledger_entry": entry.entry_id,
        "ledger_hash": entry.hash,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "digest": released.digest(),
        "versions": {package: version(package) for package in ("dpsql", "duckdb", "numpy", "sqlglot")},
    }
    return made | batches | beside | dict(job.notes)


def _repeated(engine: Engine, ledger: Ledger, charge: Charge) -> Model | None:
    """Return the stored model of a request made before; the ledger checks that it is the same request."""
    if ledger.find_request(charge.request_id) is None:
        return None
    return _stored(engine, ledger.reserve(charge))


def _stored(engine: Engine, entry: Entry) -> Model:
    model = shelf.load_entry(engine, entry.entry_id) if entry.state == "released" else None
    if model is None:
        raise DpsqlError(
            f"request {entry.request_id} was charged but released no model (its entry is {entry.state}).",
            hint="ask again under another request id; the charge stays",
        )
    return model
