"""Measures a model on a private registered table: charged first, from noisy counts, with confidence intervals.

One kernel operation counts how the model scores the rows; every figure comes from those noisy counts. They are stored
with their ledger entry, so that asking again under the same request id gives the same figures and charges nothing. The
rows may be those that the model was trained on. The figures are then too good, as figures on training rows always are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpsql.engines.base import Engine, Transaction
from dpsql.errors import ParameterError, SchemaError, UsageError
from dpsql.kernel.datasets.dataset import Dataset, find_dataset, why_not_free
from dpsql.kernel.operations import ScoreCounts
from dpsql.kernel.plan import Plan, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.run import Job
from dpsql.kernel.session import Session
from dpsql.ledger import Entry, Ledger, format_epsilon, parse_epsilon
from dpsql.models.evaluate import Evaluation, number_or_none
from dpsql.models.noisy_figures import NoisyFigures, noisy_figures
from dpsql.models.release_store import EVALUATIONS, digest_of
from dpsql.models.usable_model import Model
from dpsql.runs.release import release_once
from dpsql.trees.score_grid import MOST_CLASSES, ScoreGrid

METHOD = "evaluate"
_STEP = "scores"
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
    request = _check_request(engine, ledger, model, table, epsilon)
    job = Job.of(request.dataset, request.plan, who=who, request_id=request_id)

    def ask(session: Session) -> _EvaluationRelease:
        return _EvaluationRelease(request, session.score_counts(_STEP, model.released, model.schema.features))

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
        return _evaluation(self.request, self.noisy_counts, entry)


def _check_request(engine: Engine, ledger: Ledger, model: Model, table: str, epsilon: object) -> EvaluationRequest:
    """Return a request with its plan; raise where the model does not fit the table."""
    nano_epsilon = parse_epsilon(epsilon)
    dataset = find_dataset(engine, ledger, table)
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
                hint=f"dpsql register --table {dataset.table} --schema FILE --replace",
            )


def _evaluation(request: EvaluationRequest, noisy_counts: NDArray[np.int64], entry: Entry) -> Evaluation:
    """Return the figures that released counts stand for: post-processing, free and always the same."""
    model, plan = request.model, request.plan
    scale = float(plan.noise_scale(_STEP))
    noisy = noisy_figures(noisy_counts, len(model.classes), scale)
    values = {name: number_or_none(estimate.value) for name, estimate in noisy.estimates.items()}
    each = {f"f1 of {name}": estimate for name, estimate in zip(model.classes, noisy.class_f1, strict=True)}
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
        class_f1={name: number_or_none(f1.value) for name, f1 in zip(model.classes, noisy.class_f1, strict=True)},
        calibration_error=number_or_none(noisy.calibration_error),
        reliability=_reliability(noisy),
        intervals=bounds,
        epsilon=format_epsilon(plan.nano_epsilon),
        entry=entry.entry_id,
        **{name: values[name] for name in _FIGURES},
    )


def _reliability(noisy: NoisyFigures) -> pd.DataFrame:
    table = pd.DataFrame(noisy.reliability, columns=["predicted", "observed", "low", "high", "rows"])
    return table.astype({"rows": int})[["predicted", "observed", "rows", "low", "high"]]


def charged_table(engine: Engine, book: Ledger, data: object) -> str:
    """Return the name of a private table that an evaluation is charged on; refuse what costs nothing to evaluate on."""
    if not isinstance(data, str):
        raise ParameterError("epsilon", allowed="given only with a private registered table", given="a DataFrame")
    info = engine.table(data)
    if info is not None and why_not_free(engine, book, info) is None:
        raise UsageError(f'"{info.name}" is not a registered private table.', hint="leave out epsilon: it is free")
    return data
