"""Plans and trains: from a registered table, a budget and a method to a released model in the database."""

from __future__ import annotations

import shlex
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from dpsql import methods
from dpsql.engines.base import Engine
from dpsql.errors import BudgetExceeded
from dpsql.kernel.border import AllowanceExceeded
from dpsql.kernel.dataset import Dataset, find, scope
from dpsql.kernel.noise import approximate
from dpsql.kernel.plan import UNLABELLED, Plan
from dpsql.kernel.run import Job
from dpsql.kernel.unlabelled_rows import apart, partner, rows_to_read, settled
from dpsql.ledger import Ledger, format_epsilon
from dpsql.models.usable_model import Model
from dpsql.runs.release_model import ModelLabel, release_model
from dpsql.runs.request import TrainRequest
from dpsql.schema import Schema


@dataclass(frozen=True)
class PlannedRun:
    """A request with its plan: the dataset it is about, and the other one that holds its unlabelled rows, if any."""

    request: TrainRequest
    dataset: Dataset
    plan: Plan
    other: Dataset | None


def plan(engine: Engine, ledger: Ledger, request: TrainRequest) -> Plan:
    """Return what a training run would ask and cost, or raise what would refuse it. Reads no row, charges nothing."""
    return plan_run(engine, ledger, request).plan


def plan_run(engine: Engine, ledger: Ledger, request: TrainRequest) -> PlannedRun:
    """Return a request with its plan, after the checks that a run makes before it is charged."""
    dataset = find(engine, ledger, request.table)
    scope(dataset, request.batch)  # refuses a batch that the schema knows nothing of
    planned = _make_plan(engine, ledger, request, dataset)
    rows_to_read(engine, dataset, planned.other, planned.plan)
    return planned


def train(
    engine: Engine,
    ledger: Ledger,
    request: TrainRequest,
    *,
    who: str,
    planning: AbstractContextManager[object] | None = None,
) -> Model:
    """Train under a charged budget, on the whole table or on one batch of it, and return the stored model.

    A repeated `request_id` returns the stored model and charges nothing. With `delta` the run is
    (epsilon, delta)-private, and pays rho from a budget of kind "approximate". `planning` is held while the plan is
    made: a server ends a search for one that takes too long.
    """
    dataset = find(engine, ledger, request.table)
    if request.delta is None and "unlabelled" not in request.parameters and not _is_known(ledger, request.request_id):
        check_affordable(ledger, dataset, request.nano_epsilon, scope(dataset, request.batch))
    with planning or nullcontext():
        planned = _make_plan(engine, ledger, request, dataset)
    job = Job.of(
        dataset,
        planned.plan,
        who=who,
        request_id=request.request_id,
        batch=request.batch,
        other=planned.other,
    )
    label = ModelLabel(dataset.table, request.name)
    return release_model(engine, ledger, job, label, ask=methods.get(planned.plan.method).train)


def _make_plan(engine: Engine, ledger: Ledger, request: TrainRequest, dataset: Dataset) -> PlannedRun:
    """Return a request with its method's plan; whether its rows may be read so is for the run to check.

    Where somebody may be on both sides of a semi-supervised run, each side gets half of epsilon: they add up to what
    was asked for.
    """
    nano_epsilon, parameters = request.nano_epsilon, request.parameters
    schema = dataset.schema if request.delta is None else _with_delta(dataset.schema, request)
    method = methods.fitting(request.method, dataset.schema)
    unlabelled = parameters.get("unlabelled") if "unlabelled" in method.parameters else None
    other = partner(engine, ledger, dataset, unlabelled) if isinstance(unlabelled, str) else None
    plan, separate = method.plan(schema, nano_epsilon, parameters), apart(dataset, other)
    if not separate and plan.cost_of(UNLABELLED):
        plan = method.plan(schema, nano_epsilon // 2, parameters)
    plan = settled(plan, apart=separate)
    if plan.nano_epsilon > nano_epsilon:
        raise AllowanceExceeded(
            f'method "{request.method}" planned epsilon {format_epsilon(plan.nano_epsilon)}, '
            f"and {format_epsilon(nano_epsilon)} was asked for."
        )
    return PlannedRun(request, dataset, plan, other)


def _with_delta(schema: Schema, request: TrainRequest) -> Schema:
    """Return the schema as a run for (epsilon, delta) sees it: its unit says which noise protects it."""
    noise = approximate(request.nano_epsilon, request.delta_value)
    return replace(schema, unit=replace(schema.unit, approximate=noise))


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


def _is_known(ledger: Ledger, request_id: str | None) -> bool:
    return request_id is not None and ledger.find_request(request_id) is not None
