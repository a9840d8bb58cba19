"""Measures a model on a private registered table: charged first, from noisy counts, with confidence intervals.

One kernel operation counts how the model scores the rows; every figure comes from those noisy counts. They are stored
with their ledger entry, so that asking again under the same request id gives the same figures and charges nothing. The
rows may be those that the model was trained on: that is allowed, and as optimistic as it always is.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpsql import sqlfiles
from dpsql.engines.base import Engine, Transaction
from dpsql.errors import DpsqlError, ParameterError, SchemaError, UsageError
from dpsql.kernel.dataset import Dataset, exposed, find
from dpsql.kernel.plan import Plan, Step
from dpsql.kernel.run import charge_for, run
from dpsql.kernel.session import Session
from dpsql.ledger import Entry, Ledger, format_epsilon, parse_epsilon
from dpsql.ledger.formats import has_part
from dpsql.models.evaluate import Evaluation, known
from dpsql.models.model import Model
from dpsql.models.noisy_figures import NoisyFigures, figures
from dpsql.trees.score_grid import MOST_CLASSES, ScoreGrid

METHOD = "evaluate"
_STEP = "scores"
_FIGURES = ("balanced_accuracy", "f1", "auc", "log_loss", "brier")


@dataclass(frozen=True)
class Asked:
    """A checked request: the model, the registered table, and the plan of the one step that counts."""

    model: Model
    dataset: Dataset
    plan: Plan


def plan_evaluation(engine: Engine, ledger: Ledger, model: Model, table: str, *, epsilon: object) -> Plan:
    """Return what an evaluation on a private table would ask and cost. Reads no row, charges nothing."""
    return _asked(engine, ledger, model, table, epsilon).plan


def evaluate_private(
    engine: Engine, ledger: Ledger, model: Model, table: str, *, epsilon: object, who: str, request_id: str | None
) -> Evaluation:
    """Charge epsilon, count on the private rows, and return the figures with their intervals."""
    asked = _asked(engine, ledger, model, table, epsilon)
    charge = charge_for(asked.dataset, asked.plan, who=who, request_id=request_id)
    if ledger.find_request(charge.request_id) is not None:
        return _stored(engine, asked, ledger.reserve(charge))
    _install(engine, ledger)
    released: list[NDArray[np.int64]] = []

    def store(transaction: Transaction, noisy_counts: NDArray[np.int64], entry: Entry) -> None:
        text = json.dumps(noisy_counts.tolist())
        values = (entry.entry_id, model.name, model.released.digest(), asked.dataset.table, text)
        transaction.run("INSERT INTO dpsql.evaluation VALUES (?, ?, ?, ?, ?)", values)
        released[:] = [noisy_counts]

    def ask(session: Session) -> NDArray[np.int64]:
        return session.score_counts(_STEP, model.released, model.schema.features)

    entry = run(engine, ledger, asked.dataset, charge, asked.plan, ask=ask, digest=_digest, store=store)
    return _evaluation(asked, released[0], entry) if released else _stored(engine, asked, entry)


def _asked(engine: Engine, ledger: Ledger, model: Model, table: str, epsilon: object) -> Asked:
    nano_epsilon = parse_epsilon(epsilon)
    dataset = find(engine, ledger, table)
    _check_fit(model, dataset)
    grid = ScoreGrid(len(model.classes))
    step = Step(
        _STEP,
        "score_counts",
        nano_epsilon,
        axes=len(grid.histograms),
        cells=grid.cells,
        classes=grid.classes,
        note="counts rows by true class, named class and probability; every figure comes from these counts",
    )
    parameters = {"model": model.name, "model_digest": model.released.digest()}
    return Asked(model, dataset, Plan(METHOD, step, dataset.schema.unit, parameters))


def _check_fit(model: Model, dataset: Dataset) -> None:
    """Raise unless the model's label, classes and features are those of the registered table."""
    schema, wanted = dataset.schema, model.schema
    if wanted.target is not None or schema.target is not None:
        raise UsageError(
            f'"{model.name}" on "{dataset.table}": numbers are not measured on private rows, only classes are.',
            hint="evaluate on a public table",
        )
    if not schema.labelled:
        raise SchemaError(f'table "{dataset.table}" was registered without a label, so nothing can be compared.')
    if (schema.label, schema.classes) != (wanted.label, wanted.classes):
        raise SchemaError(
            f'the label or the classes of "{dataset.table}" are not those of model "{model.name}".',
            hint=f'register a table with label "{wanted.label}" and the classes {", ".join(wanted.classes)}'[:200],
        )
    if len(schema.classes) > MOST_CLASSES:
        raise SchemaError(f"on private rows at most {MOST_CLASSES} classes are counted, not {len(schema.classes)}.")
    for feature in wanted.features:
        registered = schema.feature(feature.name)
        if registered is None or type(registered) is not type(feature):
            raise SchemaError(
                f'model "{model.name}" reads the {feature.kind} feature "{feature.name}", '
                f'which "{dataset.table}" was not registered with.',
                hint=f"dpsql register --table {dataset.table} --schema FILE --replace",
            )


def _evaluation(asked: Asked, noisy_counts: NDArray[np.int64], entry: Entry) -> Evaluation:
    """Return the figures that released counts stand for: post-processing, free and always the same."""
    model, plan = asked.model, asked.plan
    scale = float(plan.step(_STEP).scale(plan.unit))
    found = figures(noisy_counts, len(model.classes), scale)
    values = {name: known(estimate.value) for name, estimate in found.estimates.items()}
    each = {f"f1 of {name}": one for name, one in zip(model.classes, found.class_f1, strict=True)}
    estimates = found.estimates | each
    bounds = {name: (one.low, one.high) for name, one in estimates.items() if known(one.value) is not None}
    confusion = np.maximum(np.rint(found.confusion), 0).astype(int)
    return Evaluation(
        model=model.name,
        table=asked.dataset.table,
        rows=max(round(found.estimates["rows"].value), 0),
        accuracy=found.estimates["accuracy"].value,
        majority=found.estimates["majority_class_share"].value,
        confusion=pd.DataFrame(confusion, index=list(model.classes), columns=list(model.classes)),
        class_f1={name: known(one.value) for name, one in zip(model.classes, found.class_f1, strict=True)},
        calibration_error=known(found.calibration_error),
        reliability=_reliability(found),
        intervals=bounds,
        epsilon=format_epsilon(plan.nano_epsilon),
        entry=entry.entry_id,
        **{name: values[name] for name in _FIGURES},
    )


def _reliability(found: NoisyFigures) -> pd.DataFrame:
    table = pd.DataFrame(found.reliability, columns=["predicted", "observed", "low", "high", "rows"])
    return table.astype({"rows": int})[["predicted", "observed", "rows", "low", "high"]]


def _digest(noisy_counts: NDArray[np.int64]) -> str:
    return hashlib.sha256(json.dumps(noisy_counts.tolist()).encode()).hexdigest()


def _stored(engine: Engine, asked: Asked, entry: Entry) -> Evaluation:
    """Return what an earlier request released; the ledger has checked that it asked for the same."""
    found = []
    if entry.state == "released":
        with engine.transaction() as transaction:
            found = transaction.rows("SELECT noisy_counts FROM dpsql.evaluation WHERE entry_id = ?", (entry.entry_id,))
    if not found:
        raise DpsqlError(
            f"request {entry.request_id} was charged but released no evaluation (its entry is {entry.state}).",
            hint="ask again under another request id; the charge stays",
        )
    return _evaluation(asked, np.array(json.loads(found[0]["noisy_counts"]), np.int64), entry)


def _install(engine: Engine, ledger: Ledger) -> None:
    """Create the table of evaluations, unless it is there."""
    with engine.transaction() as transaction:
        if has_part(transaction, "evaluation"):
            return
    statements = sqlfiles.statements("evaluation.sql")
    ledger.write(lambda into: [into.run(statement) for statement in statements])


def charged_table(engine: Engine, book: Ledger, data: object) -> str:
    """Return the name of a table that epsilon is asked for; a DataFrame or a public table needs none."""
    if not isinstance(data, str):
        raise ParameterError("epsilon", allowed="given only with a private registered table", given="a DataFrame")
    info = engine.table(data)
    if info is not None and exposed(engine, book, info) is None:
        raise UsageError(f'"{info.name}" is not a registered private table.', hint="leave out epsilon: it is free")
    return data
