"""Plans and trains: from a request to a released model in the database.

`TrainRequest` is the one place that knows the arguments of `train`. The command line, Python, SQL and PL/Python offer
its fields and the methods' own parameters (`runs/arguments.py`). A new argument is a new field, and what it does
follows in this file.
"""

from __future__ import annotations

import copy
import secrets
import shlex
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import Any

from dpsql import methods
from dpsql.compile.count.literal import MOST_LEAVES
from dpsql.engines.base import Engine
from dpsql.errors import BudgetExceeded, NoRowsWarning, ParameterError, UsageError
from dpsql.kernel.border import AllowanceExceeded
from dpsql.kernel.charges_made import name_charges
from dpsql.kernel.datasets.dataset import Dataset, find_dataset, look_at_dataset, scope
from dpsql.kernel.noise import approximate as approximate_promise
from dpsql.kernel.operations import Later, LeafLabels, Linear, PseudoCounts
from dpsql.kernel.plan import UNLABELLED, Plan
from dpsql.kernel.promise import Promise
from dpsql.kernel.run import Job
from dpsql.kernel.session import Session
from dpsql.kernel.unlabelled_rows import are_disjoint, partner, refuse_hold_out, rows_to_read, with_sides
from dpsql.ledger import Ledger, format_epsilon, parse_delta, parse_epsilon
from dpsql.ledger.odds import note_large
from dpsql.methods.auto.auto_steps import MARGINALS
from dpsql.methods.base import Method, Trained
from dpsql.models import store
from dpsql.models.monotone_request import (
    MONOTONE,
    check_monotone,
    monotone_forest,
    parse_monotone,
)
from dpsql.models.usable_model import Model
from dpsql.runs.private_evaluation import check_hold_out_pays, evaluate_trained
from dpsql.runs.release_model import ModelLabel, release_model
from dpsql.runs.size_first import (
    FOR_THIS_RUN,
    SIZE_ENTRY,
    KnownSize,
    earlier_size,
    find_size,
    known_size,
    least_charge,
    size_request,
    size_step,
    with_two_charges,
)
from dpsql.schema import Schema
from dpsql.trees.monotone import LARGEST_TREE

#: The numbers of rows for which a plan shows its steps, where the size is still to be bought.
LIKELY_SIZES = (1_000, 10_000, 100_000)
_METHOD = f"One of: {', '.join(methods.METHODS)}. For a number auto is {methods.REGRESSION}. See dpsql methods."


def _argument(
    sentence: str,
    *,
    default: Any = MISSING,
    metavar: str | None = None,
    must_be: str | None = None,
    names_release: bool = False,
    flag: str | None = None,
) -> Any:
    """Return a field of the request: its help, how help shows its value, and what it must be where it must be text.

    `names_release` marks an argument that a plan has no use for. `flag` is the option of one that is true or false.
    """
    metadata = {"help": sentence, "metavar": metavar, "must_be": must_be, "names_release": names_release, "flag": flag}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """A request to train, checked as far as that needs no database."""

    table: str = _argument("The registered table.", must_be="the name of a table")
    epsilon: object = _argument("What the run may cost.", metavar="E", default=1)
    delta: object | None = _argument(
        "Approximate privacy: (epsilon, delta), far below 1 over the rows.", metavar="D", default=None
    )
    method: str = _argument(_METHOD, default=methods.DEFAULT, must_be="the name of a method")
    batch: str | None = _argument(
        "Only the rows of one batch, charged on that batch alone.", metavar="VALUE", default=None
    )
    literal: bool = _argument(
        "Count each leaf by a statement of its own, WHERE … GROUP BY: for small forests, to read and to time.",
        flag="--literal",
        default=False,
    )
    name: str | None = _argument(
        "Name of the model [default: the table's name and a number].", names_release=True, default=None
    )
    request_id: str | None = _argument(
        "Ask twice under one id: the same model, one charge.", metavar="ID", names_release=True, default=None
    )
    evaluate: object | None = _argument(
        "Then measure the model on the table's hold-out, for this much of its budget.",
        metavar="E",
        names_release=True,
        default=None,
    )
    monotone: object | None = _argument(
        "Numbers that only raise (age=up) or lower (debt=down) the prediction: a number, or the second of two classes.",
        metavar="FEATURE=up|down,…",
        names_release=True,
        default=None,
    )
    allow_large: bool = _argument("An epsilon above 20 is meant.", names_release=True, default=False, flag="--yes")
    #: The method's own parameters, as far as they were given.
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, argument in ARGUMENTS.items():
            value = getattr(self, name)
            if argument.metadata["must_be"] and not isinstance(value, str):
                shown = "NULL" if value is None else value
                raise ParameterError(name, allowed=argument.metadata["must_be"], given=shown)
            if argument.metadata["flag"]:
                object.__setattr__(self, name, parse_flag(name, value))
        if self.batch is not None and self.delta is not None:
            raise ParameterError(
                "delta", allowed="left out for a batch: updates add up epsilon alone", given=self.delta
            )
        # Stored as they were read here: an object of the caller's might say something else when it is read again.
        object.__setattr__(self, "epsilon", format_epsilon(parse_epsilon(self.epsilon)))
        if self.delta is not None:
            object.__setattr__(self, "delta", parse_delta(self.delta))
        if self.evaluate is not None:
            object.__setattr__(self, "evaluate", format_epsilon(parse_epsilon(self.evaluate, "evaluate")))

        if self.monotone is not None:
            object.__setattr__(self, "monotone", parse_monotone(self.monotone))

    @property
    def nano_epsilon(self) -> int:
        """Epsilon in billionths, as the ledger counts it."""
        return parse_epsilon(self.epsilon)

    @classmethod
    def of(cls, table: str, given: Mapping[str, Any]) -> TrainRequest:
        """Return a request from named arguments; those that `train` does not have are parameters of its method."""
        own = {name: value for name, value in given.items() if name in ARGUMENTS}
        parameters = {name: value for name, value in given.items() if name not in ARGUMENTS}
        return cls(**{**own, "table": table}, parameters=parameters)

    @classmethod
    def from_text(cls, given: Mapping[str, str | None]) -> TrainRequest:
        """Return a request from arguments and parameters that are all written as text, as SQL hands them over.

        A parameter that is NULL is left to the method; a name that no method knows is refused, whatever its value. An
        argument that is NULL is not left out: it is checked like any other value, so that an expression that turned out
        NULL never stands for a charge that nobody named.
        """
        own = {name: text for name, text in given.items() if name in ARGUMENTS}
        parameters = {
            name: parse_parameter(name, text)
            for name, text in given.items()
            if name not in ARGUMENTS and (text is not None or name not in methods.PARAMETERS)
        }
        return cls(**own, parameters=parameters)  # type: ignore[arg-type]  # checked above


#: The arguments of `train` by their names, without the methods' own parameters.
ARGUMENTS: dict[str, Field[Any]] = {
    argument.name: argument for argument in fields(TrainRequest) if argument.name != "parameters"
}


@dataclass(frozen=True)
class PlannedRun:
    """A request with its plan: the dataset it is about, and the other one that holds its unlabelled rows, if any."""

    request: TrainRequest
    dataset: Dataset
    plan: Plan
    other: Dataset | None


def plan(engine: Engine, ledger: Ledger, request: TrainRequest) -> Plan:
    """Return what a training run would ask and cost, or raise what would refuse it. Reads no row, charges nothing."""
    return _plan_with_size(engine, ledger, plan_run(engine, ledger, request)).plan


def plans_by_size(engine: Engine, ledger: Ledger, request: TrainRequest) -> tuple[tuple[int, Plan], ...]:
    """Return what would follow after the size is bought, for each of a few likely sizes; () where it is not bought.

    Reads no row: the sizes are the same for every table.
    """
    planned = plan_run(engine, ledger, request)
    step = size_step(planned.plan, least=least_charge(ledger, planned.dataset))
    if step is None or SIZE_ENTRY in _plan_with_size(engine, ledger, planned).plan.parameters:
        return ()
    left = request.nano_epsilon - step.nano_epsilon
    sized = ((rows, replace(planned.dataset.schema, rows=rows)) for rows in LIKELY_SIZES)
    return tuple(
        (rows, _make_plan(engine, ledger, request, replace(planned.dataset, schema=schema), nano_epsilon=left).plan)
        for rows, schema in sized
    )


def plan_run(engine: Engine, ledger: Ledger, request: TrainRequest) -> PlannedRun:
    """Return a request with its plan, after the checks that a run makes before it is charged."""
    dataset = look_at_dataset(engine, ledger, request.table)
    if request.evaluate is not None:
        check_hold_out_pays(ledger, dataset, request.evaluate)
    scope(dataset, request.batch)  # refuses a batch that the schema knows nothing of
    planned = _make_plan(engine, ledger, request, dataset)
    rows_to_read(engine, dataset, planned.other, planned.plan)
    return planned


def _plan_with_size(engine: Engine, ledger: Ledger, planned: PlannedRun) -> PlannedRun:
    """Return the plan as it would be charged: from a size that was bought before, or with the size charged first."""
    dataset, request = planned.dataset, planned.request
    step = size_step(planned.plan, least=least_charge(ledger, dataset))
    if step is None:
        return planned
    deviation = 2**0.5 * float(step.scale(planned.plan.promise))
    size = earlier_size(engine, ledger, dataset, step, batch=request.batch, unit_scale=deviation)
    if size is None:
        return replace(planned, plan=with_two_charges(planned.plan, step))
    return _plan_for_size(engine, ledger, request, known_size(dataset, request.nano_epsilon, size, bought=False))


def _plan_for_size(engine: Engine, ledger: Ledger, request: TrainRequest, known: KnownSize) -> PlannedRun:
    """Return the plan for a bought size: as if that size were declared, with what is left of epsilon."""
    planned = _make_plan(engine, ledger, request, known.dataset, nano_epsilon=known.nano_epsilon)
    parameters = {**planned.plan.parameters, **known.parameters}
    return replace(planned, plan=replace(planned.plan, parameters=parameters))


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
    (epsilon, delta)-private, and pays rho from a budget of kind "approximate". `planning` is entered while the plan is
    made: with it a server ends a search for a plan that takes too long.

    Where the method starts with a bought size, that is charged first, and the rest only if rows are there
    (`runs/size_first.py`): otherwise NoRowsCounted is raised. A model whose released counts say that about no row was
    counted is stored all the same, and NoRowsWarning is issued. Ctrl-C is raised as Interrupted, with each charge that
    was made.
    """
    return name_charges(lambda: _train(engine, ledger, request, who=who, planning=planning or nullcontext()))


def _train(
    engine: Engine, ledger: Ledger, request: TrainRequest, *, who: str, planning: AbstractContextManager[object]
) -> Model:
    dataset = find_dataset(engine, ledger, request.table)
    if not _is_known(ledger, request.request_id):
        check_request(ledger, dataset, request, who=who)
    if request.delta is None and "unlabelled" not in request.parameters and not _is_known(ledger, request.request_id):
        check_affordable(ledger, dataset, request.nano_epsilon, scope(dataset, request.batch))
    with planning:
        planned = _make_plan(engine, ledger, request, dataset)
    if request.monotone is not None:
        _check_leaves(planned.plan, dataset.schema)
    request_id = secrets.token_hex(16) if request.request_id is None else request.request_id
    label = ModelLabel(dataset.table, request.name)
    if planned.other is None and request_id:
        if request.name is not None and not _is_known(ledger, request_id):
            store.check_free(engine, request.name)
        known = find_size(engine, ledger, dataset, planned.plan, request_id=request_id, who=who, batch=request.batch)
        if known is not None:
            planned = _plan_for_size(engine, ledger, request, known)
            notes = _size_notes(planned.plan, known)
            label = replace(label, notes=notes, size_is_bought=True)
    job = Job.of(
        planned.dataset,
        planned.plan,
        who=who,
        request_id=request_id,
        batch=request.batch,
        other=planned.other,
        literal=request.literal,
    )
    if request.monotone is not None:
        label = replace(label, notes={**label.notes, MONOTONE: request.monotone})
    ask = _training_step(methods.get(planned.plan.method), request.monotone)
    model = release_model(engine, ledger, job, label, ask=ask)
    for sentence in model.certificate.get("warnings", ()):
        warnings.warn(str(sentence), NoRowsWarning, stacklevel=5)
    if request.evaluate is None:
        return model
    return evaluate_trained(engine, ledger, model, dataset, epsilon=request.evaluate, who=who)


def _training_step(method: Method, monotone: object | None) -> Callable[[Session], Trained]:
    """Return how a session becomes a forest: by the method, and made monotone afterwards if that was asked for."""
    if not isinstance(monotone, Mapping):
        return method.train

    def train_monotone(session: Session) -> Trained:
        trained = method.train(session)
        return replace(trained, forest=monotone_forest(session.own_schema(), trained.forest, monotone))

    return train_monotone


def check_request(ledger: Ledger, dataset: Dataset, request: TrainRequest, *, who: str) -> None:
    """Raise an error where a request is refused before anything is planned or charged: a hold-out that cannot pay.

    An epsilon above 20 on private data is refused too, unless the request says that it is meant.
    """
    refuse_hold_out(dataset)
    if isinstance(request.monotone, Mapping):
        check_monotone(dataset.schema, request.monotone)
        if request.batch is not None:
            raise UsageError("a model of batches is not monotone: later counts would break it.", hint="leave out one")
    if request.evaluate is not None:
        check_hold_out_pays(ledger, dataset, request.evaluate, who=who)
    if ledger.budget(dataset.payer).cap is not None:
        note_large("epsilon", request.nano_epsilon, allow_large=request.allow_large, table=dataset.table)


def _size_notes(plan: Plan, known: KnownSize) -> dict[str, Any]:
    """Return what a certificate says of a bought size; its epsilon covers both charges of a run that bought it."""
    size = known.notes["size"]
    own = parse_epsilon(size["epsilon"]) if size["bought"] == FOR_THIS_RUN else 0
    return {**known.notes, "epsilon": format_epsilon(plan.nano_epsilon + own)}


def _make_plan(
    engine: Engine, ledger: Ledger, request: TrainRequest, dataset: Dataset, *, nano_epsilon: int | None = None
) -> PlannedRun:
    """Return a request with its method's plan. Whether its rows may be read in this way is for the run to check.

    `nano_epsilon` is what the plan may cost, where that is less than was asked for: its size has been paid already.

    Where somebody may be on both sides of a semi-supervised run, each side gets half of epsilon: they add up to what
    was asked for.
    """
    refuse_hold_out(dataset)
    nano_epsilon = request.nano_epsilon if nano_epsilon is None else nano_epsilon
    parameters = request.parameters
    schema = copy.deepcopy(dataset.schema)  # the method's own: what it writes there changes no unit and no domain
    approximate = None if request.delta is None else approximate_promise(nano_epsilon, parse_delta(request.delta))
    promise = Promise(schema.unit, approximate=approximate)
    method = methods.get_fitting(request.method, dataset.schema)
    unlabelled = parameters.get("unlabelled") if "unlabelled" in method.parameters else None
    other = partner(engine, ledger, dataset, unlabelled) if isinstance(unlabelled, str) else None
    plan, separate = method.plan(schema, nano_epsilon, parameters, promise), are_disjoint(dataset, other)
    if not separate and plan.cost_of(UNLABELLED):
        plan = method.plan(schema, nano_epsilon // 2, parameters, promise)
    plan = with_sides(plan, disjoint=separate)
    if plan.nano_epsilon > nano_epsilon:
        raise AllowanceExceeded(
            f'method "{request.method}" planned epsilon {format_epsilon(plan.nano_epsilon)}, '
            f"and {format_epsilon(nano_epsilon)} was asked for."
        )
    _check_delta(request, plan)
    if request.literal:
        _check_literal(plan, schema)
    return PlannedRun(request, dataset, plan, other)


def _check_delta(request: TrainRequest, plan: Plan) -> None:
    """Raise AllowanceExceeded where a method planned for another delta than was asked for, or for one with none asked.

    Such a run would be charged what it costs, but from a budget and with a guarantee that nobody asked for.
    """
    asked = None if request.delta is None else parse_delta(request.delta)
    planned = None if plan.promise.approximate is None else plan.promise.approximate.delta
    if planned != asked:
        raise AllowanceExceeded(f'method "{request.method}" planned delta {planned}, and {asked} was asked for.')


def _check_literal(plan: Plan, schema: Schema) -> None:
    """Raise UsageError where leaves cannot be counted one by one, or where nobody knows yet how many there are."""
    hint = f"leave out --literal, or: --method rdt --trees 10 --depth 4 (at most {MOST_LEAVES} leaves)"
    leaf_steps = [step for step in plan.steps if step.operation.fills_leaves]
    if not leaf_steps or any(type(step.operation) in (Later, Linear, PseudoCounts) for step in plan.steps):
        raise UsageError(f'method "{plan.method}" has no leaves that can be counted one by one.', hint=hint)
    leaves = max(step.cells // (1 if type(step.operation) is LeafLabels else schema.leaf_values) for step in leaf_steps)
    if leaves > MOST_LEAVES:
        raise UsageError(f"up to {leaves} leaves are too many to count one by one.", hint=hint)


def _check_leaves(plan: Plan, schema: Schema) -> None:
    """Raise UsageError where trees may get more leaves than can be compared in pairs: nothing is charged then."""
    steps = [step for step in plan.steps if step.operation.fills_leaves and step.name != MARGINALS]
    leaves = max((step.cells // step.trees // schema.leaf_values for step in steps), default=0)
    if leaves > LARGEST_TREE:
        raise UsageError(
            f'method "{plan.method}" may grow {leaves} leaves a tree: monotone takes up to {LARGEST_TREE}.',
            hint="--method auto, or fewer leaves, as with --depth 8",
        )


def check_affordable(ledger: Ledger, dataset: Dataset, nano_epsilon: int, part: str) -> None:
    """Raise BudgetExceeded when no budget of the dataset can pay.

    This comes before a plan is searched for, which can take long. The charge itself decides in the end, and would
    refuse whatever is refused here.
    """
    budgets = [ledger.budget(dataset.payer, kind) for kind in ledger.kinds(dataset.payer) if kind != "approximate"]
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
    """Whether a request was made before, or has paid for its size at least."""
    ids = () if request_id is None else (request_id, size_request(request_id))
    return any(ledger.find_request(known_id) is not None for known_id in ids)


def parse_flag(name: str, given: object) -> bool:
    """Return an argument that is true or false, also as the text that SQL hands over."""
    values = {"true": True, "false": False}
    if isinstance(given, bool) or str(given).lower() in values:
        return values[str(given).lower()]
    raise ParameterError(name, allowed="true or false", given="NULL" if given is None else given)


def parse_parameter(name: str, text: str | None) -> Any:
    """Return the value that a text gives a parameter.

    For a name that no method has this is the text itself, which is refused later.
    """
    kinds = methods.PARAMETERS.get(name)
    return text if kinds is None or text is None else next(iter(kinds.values())).parse(name, text)
