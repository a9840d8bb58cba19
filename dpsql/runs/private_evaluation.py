"""Measures a model on a private registered table: charged first, from noisy counts, with confidence intervals.

One kernel operation counts how the model scores the rows; every figure comes from those noisy counts. They are stored
with their ledger entry, so that asking again under the same request id gives the same figures and charges nothing.

A model that is measured on the table that it was trained on is measured on the table's hold-out, where there is one.
Without one the rows may be those that it was trained on, and the figures are too good, as they then always are.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpsql.engines.base import Engine, Transaction
from dpsql.errors import BudgetExceeded, ChargeTooSmall, DpsqlError, ParameterError, SchemaError, UsageError
from dpsql.kernel.datasets.dataset import Dataset, find_dataset, hold_out_of, look_at_dataset, why_not_free
from dpsql.kernel.datasets.hold_out import without_suffix
from dpsql.kernel.operations import ScoreCounts
from dpsql.kernel.plan import Plan, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.run import Job
from dpsql.kernel.session import Session
from dpsql.ledger import Entry, Ledger, format_epsilon, parse_epsilon
from dpsql.models import store
from dpsql.models.curves import RowsByProbability, rows_at_points
from dpsql.models.evaluate import Evaluation, number_or_none
from dpsql.models.noisy_figures import Estimate, NoisyFigures, noise_variance, noisy_figures
from dpsql.models.release_store import EVALUATIONS, digest_of
from dpsql.models.usable_model import Model
from dpsql.runs.release import release_once
from dpsql.schema.synonyms import with_synonyms_of
from dpsql.trees.score_grid import MOST_CLASSES, ScoreGrid

METHOD = "evaluate"
_STEP = "scores"
#: What a model's certificate does not keep of an evaluation: its own name, and tables.
_LEFT_OUT = ("model", "confusion", "reliability", "curve")
#: The figures that are fields of an `Evaluation` under the same names.
_FIGURES = ("balanced_accuracy", "f1", "auc", "log_loss", "brier")


@dataclass(frozen=True)
class EvaluationRequest:
    """A checked request: the model, the registered table, and the plan of the one step that counts."""

    model: Model
    dataset: Dataset
    plan: Plan


def plan_evaluation(engine: Engine, ledger: Ledger, model: Model, table: str, *, epsilon: object) -> Plan:
    """Return what an evaluation on a private table would ask and cost. Reads no row, charges nothing."""
    return _check_request(engine, ledger, model, table, epsilon).plan


def evaluate_private(
    engine: Engine, ledger: Ledger, model: Model, table: str, *, epsilon: object, who: str, request_id: str | None
) -> Evaluation:
    """Charge epsilon, count on the private rows, and return the figures with their intervals."""
    ledger.upgrade()
    request = _check_request(engine, ledger, model, table, epsilon)
    job = Job.of(request.dataset, request.plan, who=who, request_id=request_id)
    features = with_synonyms_of(model.schema, request.dataset.schema).features

    def ask(session: Session) -> _EvaluationRelease:
        return _EvaluationRelease(request, session.score_counts(_STEP, model.released, features))

    def load(row: dict[str, Any], entry: Entry) -> Evaluation:
        return _evaluation(request, np.array(json.loads(row["noisy_counts"]), np.int64), entry)

    return release_once(engine, ledger, job, EVALUATIONS, ask=ask, load=load)


@dataclass(frozen=True)
class _EvaluationRelease:
    """The noisy counts of an evaluation, about to be stored."""

    request: EvaluationRequest
    noisy_counts: NDArray[np.int64]

    @property
    def digest(self) -> str:
        """The hash of the counts."""
        return digest_of(self.noisy_counts.tolist())

    def save(self, transaction: Transaction, entry: Entry) -> Evaluation:
        """Store the counts with their ledger entry, and return the figures that follow from them."""
        model, table = self.request.model, self.request.dataset.table
        text = json.dumps(self.noisy_counts.tolist())
        values = (entry.entry_id, model.name, model.released.digest(), table, text)
        transaction.run("INSERT INTO dpsql.evaluation VALUES (?, ?, ?, ?, ?)", values)
        evaluation = _evaluation(self.request, self.noisy_counts, entry)
        summary = {name: value for name, value in evaluation.to_dict().items() if name not in _LEFT_OUT}
        store.add_evaluation(transaction, model, summary | {"request_id": entry.request_id})
        return evaluation


def evaluation_of_training(model: Model) -> Mapping[str, Any] | None:
    """Return the figures of the evaluation that ended a model's training, as its certificate keeps them, or None."""
    request_id = _evaluation_id(model)
    summaries = model.certificate.get("evaluations", [])
    return next((summary for summary in summaries if summary.get("request_id") == request_id), None)


def _evaluation_id(model: Model) -> str:
    """Return the request id of the evaluation that ends a training: who asks for both again pays nothing."""
    return f"{model.certificate.get('request_id')}/evaluation"


def measured_dataset(ledger: Ledger, model: Model, dataset: Dataset) -> Dataset:
    """Return the dataset that a model is measured on: the hold-out of the table that it was trained on, if it has one.

    Any other model is measured on the rows that were named.
    """
    hold_out = hold_out_of(ledger, dataset)
    return hold_out if hold_out is not None and dataset.id in _trained_on(model.certificate) else dataset


def measured_table(engine: Engine, ledger: Ledger, model: Model, table: str) -> str:
    """Return the name of the dataset that a charged evaluation on a table is made on, and paid by."""
    return measured_dataset(ledger, model, find_dataset(engine, ledger, table)).table


def _trained_on(certificate: Mapping[str, Any]) -> set[str]:
    """Return the datasets whose rows a model was made from: its own, that of unlabelled rows, those of all parties."""
    named = {str(certificate[name]) for name in ("dataset", "unlabelled_dataset") if name in certificate}
    return named.union(*(_trained_on(party) for party in certificate.get("parties", [])))


def check_hold_out_pays(ledger: Ledger, dataset: Dataset, epsilon: object, *, who: str = "") -> None:
    """Raise an error unless a table has a hold-out whose budget can pay for an evaluation; nothing is charged.

    The charge itself decides in the end: somebody else may have spent the budget by then.
    """
    hold_out, nano_epsilon = hold_out_of(ledger, dataset), parse_epsilon(epsilon, "evaluate")
    if hold_out is None:
        named = shlex.quote(dataset.table)
        raise UsageError(
            f'"{dataset.table}" has no hold-out to measure a model on.',
            hint=f"as owner, before anything is spent: dpsql register --table {named} … --holdout 10%",
        )
    budget = ledger.budget(hold_out.id)
    left = budget.left_for(who)
    if left is not None and left < nano_epsilon:
        raise BudgetExceeded(
            f'table "{hold_out.table}"',
            needed=format_epsilon(nano_epsilon),
            left=format_epsilon(left),
            cap=budget.cap_text,
            hint=f"dpsql budget --table {shlex.quote(hold_out.table)}",
        )
    if nano_epsilon < budget.least_charge:
        least = format_epsilon(budget.least_charge)
        raise ChargeTooSmall(hold_out.table, needed=format_epsilon(nano_epsilon), least=least)


def evaluate_trained(
    engine: Engine, ledger: Ledger, model: Model, dataset: Dataset, *, epsilon: object, who: str
) -> Model:
    """Measure a model that was just trained on its table's hold-out, and return it with the figures that it keeps."""
    asked = _evaluation_id(model)
    try:
        evaluate_private(engine, ledger, model, dataset.table, epsilon=epsilon, who=who, request_id=asked)
    except DpsqlError as error:
        named = f"dpsql evaluate --model {shlex.quote(model.name)} --table {shlex.quote(dataset.table)} --epsilon E"
        error.hint = f'the model "{model.name}" is stored and paid for; measure it later: {named}'
        raise
    return store.load_model(engine, model.name)


def _check_request(engine: Engine, ledger: Ledger, model: Model, table: str, epsilon: object) -> EvaluationRequest:
    """Return a request with its plan; raise where the model does not fit the table."""
    nano_epsilon = parse_epsilon(epsilon)
    dataset = measured_dataset(ledger, model, look_at_dataset(engine, ledger, table))
    _check_fit(model, dataset)
    grid = ScoreGrid(len(model.classes))
    step = Step(
        _STEP,
        ScoreCounts(),
        nano_epsilon,
        axes=len(grid.histograms),
        cells=grid.cells,
        classes=grid.classes,
        note="counts rows by true class, named class and probability; every figure comes from these counts",
    )
    parameters = {"model": model.name, "model_digest": model.released.digest()}
    return EvaluationRequest(model, dataset, Plan(METHOD, step, Promise(dataset.schema.unit), parameters))


def _check_fit(model: Model, dataset: Dataset) -> None:
    """Raise unless the model's label, classes and features are those of the registered table."""
    schema, model_schema = dataset.schema, model.schema
    if model_schema.target is not None or schema.target is not None:
        raise UsageError(
            f'"{model.name}" on "{dataset.table}": numbers are not measured on private rows, only classes are.',
            hint="evaluate on a public table",
        )
    if not schema.has_label:
        raise SchemaError(f'table "{dataset.table}" was registered without a label, so nothing can be compared.')
    classes = ", ".join(model_schema.classes)
    if (schema.label, schema.classes) != (model_schema.label, model_schema.classes):
        raise SchemaError(
            f'the label or the classes of "{dataset.table}" are not those of model "{model.name}".',
            hint=f'register a table with label "{model_schema.label}" and the classes {classes}'[:200],
        )
    if len(schema.classes) > MOST_CLASSES:
        raise SchemaError(f"on private rows at most {MOST_CLASSES} classes are counted, not {len(schema.classes)}.")
    for feature in model_schema.features:
        registered = schema.feature(feature.name)
        if registered is None or type(registered) is not type(feature):
            raise SchemaError(
                f'model "{model.name}" reads the {feature.kind} feature "{feature.name}", '
                f'which "{dataset.table}" was not registered with.',
                hint=f"dpsql register --table {shlex.quote(dataset.table)} --schema FILE --cap EPSILON --replace",
            )


def _evaluation(request: EvaluationRequest, noisy_counts: NDArray[np.int64], entry: Entry) -> Evaluation:
    """Return the figures that released counts stand for: post-processing, free and always the same."""
    model, plan = request.model, request.plan
    scale = float(plan.noise_scale(_STEP))
    noisy = noisy_figures(noisy_counts, len(model.classes), scale)
    values = {name: number_or_none(estimate.value) for name, estimate in noisy.estimates.items()}
    of_classes = {what: dict(zip(model.classes, each, strict=True)) for what, each in noisy.by_class.items()}
    each = {f"{what} of {name}": value for what, by_name in of_classes.items() for name, value in by_name.items()}
    estimates = noisy.estimates | each
    bounds = {
        name: (estimate.low, estimate.high)
        for name, estimate in estimates.items()
        if number_or_none(estimate.value) is not None
    }
    confusion = np.maximum(np.rint(noisy.confusion), 0).astype(int)
    return Evaluation(
        model=model.name,
        table=request.dataset.table,
        rows=max(round(noisy.estimates["rows"].value), 0),
        accuracy=noisy.estimates["accuracy"].value,
        majority=noisy.estimates["majority_class_share"].value,
        confusion=pd.DataFrame(confusion, index=list(model.classes), columns=list(model.classes)),
        class_f1=_plain(of_classes["f1"]),
        class_precision=_plain(of_classes["precision"]),
        class_recall=_plain(of_classes["recall"]),
        calibration_error=number_or_none(noisy.calibration_error),
        reliability=_reliability(noisy),
        intervals=bounds,
        epsilon=format_epsilon(plan.nano_epsilon),
        entry=entry.entry_id,
        rows_by_probability=_rows_by_probability(model, noisy, scale),
        **{name: values[name] for name in _FIGURES},
    )


def _plain(by_class: Mapping[str, Estimate]) -> dict[str, float | None]:
    return {name: number_or_none(estimate.value) for name, estimate in by_class.items()}


def _rows_by_probability(model: Model, noisy: NoisyFigures, scale: float) -> tuple[RowsByProbability, ...]:
    """Return the counts that a curve follows from: of two classes the second's, of more none were asked for."""
    if noisy.halves is None:
        return ()
    return (rows_at_points(model.classes[1], *noisy.halves, noise_variance(scale)),)


def _reliability(noisy: NoisyFigures) -> pd.DataFrame:
    table = pd.DataFrame(noisy.reliability, columns=["predicted", "observed", "low", "high", "rows"])
    return table.astype({"rows": int})[["predicted", "observed", "rows", "low", "high"]]


def charged_table(engine: Engine, book: Ledger, data: object) -> str:
    """Return the name of a private table that an evaluation is charged on; refuse what costs nothing to evaluate on."""
    if not isinstance(data, str):
        raise ParameterError("epsilon", allowed="given only with a private registered table", given="a DataFrame")
    info = engine.table(data) if without_suffix(data) == data else None
    if info is not None and why_not_free(engine, book, info) is None:
        raise UsageError(f'"{info.name}" is not a registered private table.', hint="leave out epsilon: it is free")
    return data
