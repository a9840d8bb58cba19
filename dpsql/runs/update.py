"""Adds a new batch of rows to a model: their noisy counts alone are released and added (Jagannathan 2012, Algorithm 5).

The ledger charges the new batch only: each row is in one batch, so a row pays once, whatever the number of batches.
Noise adds up with every batch; `rebuild_gain` says what training anew would bring. Where the unit is a column, a person
may have rows in several batches. Then every update is charged on the whole table, and the model's epsilons add up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpsql.engines.base import Engine
from dpsql.errors import ParameterError, SchemaError, UsageError
from dpsql.kernel.datasets.dataset import Dataset, find_dataset
from dpsql.kernel.plan import Plan
from dpsql.kernel.run import Job
from dpsql.kernel.session import Session
from dpsql.ledger import Ledger, format_epsilon, parse_epsilon
from dpsql.methods.base import Trained
from dpsql.methods.rdt import Rdt, count, counting_plan, refuse_target
from dpsql.models.usable_model import Model
from dpsql.runs.release_model import ModelLabel, release_model
from dpsql.schema import Schema


def update(
    engine: Engine,
    ledger: Ledger,
    model: Model,
    batch: str,
    *,
    epsilon: object | None,
    name: str | None,
    who: str,
    request_id: str | None = None,
) -> Model:
    """Count a batch that the model has not seen, and return a new model that has its counts too; the old one stays."""
    dataset = find_dataset(engine, ledger, model.table)
    _check_model(model, dataset, batch)
    _check_batches(ledger, model, dataset)
    earlier = model.certificate.get("updates") or [_first_update(model.certificate)]
    nano_epsilon = parse_epsilon(earlier[-1]["epsilon"] if epsilon is None else epsilon)
    forest = model.released.forest
    plan = counting_plan(dataset.schema, forest, nano_epsilon, {"update_of": model.certificate["digest"]})
    job = Job.of(dataset, plan, who=who, request_id=request_id, batch=batch)
    label = ModelLabel(dataset.table, name, _notes(model, dataset, plan, batch))

    def ask(session: Session) -> Trained:
        return Trained(model.released.plus(count(session, forest)))

    return release_model(engine, ledger, job, label, ask=ask)


def rebuild_gain(certificate: Mapping[str, Any]) -> str | None:
    """Return in words what training anew on all batches would gain, or None for a model without updates."""
    updates = certificate.get("updates")
    if not updates:
        return None
    try:
        now, anew = _deviation_of(updates), min(_deviation_of([update]) for update in updates)
        times = now / anew
    except (LookupError, TypeError, ValueError, ArithmeticError):
        raise SchemaError("the model's certificate is damaged: it does not say how noisy its counts are.") from None
    return (
        f"{len(updates)} batches, counted one by one: noise of standard deviation {now:.3g} on each count. "
        f"Trained anew on all of them at once it would be {anew:.3g} ({times:.1f} times less), "
        "charged on every row again."
    )


def _check_model(model: Model, dataset: Dataset, batch: str) -> None:
    """Refuse a model without counts of batches, a table that is not as it was, and a batch that was counted before."""
    refuse_target(model.schema, "a model of a numeric target cannot be updated: its leaves hold means, not counts.")
    if model.method != Rdt.name or "batches" not in model.certificate:
        raise UsageError(
            f'model "{model.name}" cannot be updated: only a model of noisy counts trained on a batch can.',
            hint="dpsql train --method rdt --batch VALUE",
        )
    if dataset.id != model.certificate.get("dataset") or _counts_meaning(dataset.schema) != _counts_meaning(
        model.schema
    ):
        raise UsageError(f'table "{dataset.table}" is not as it was when model "{model.name}" was trained.')
    if batch in model.certificate["batches"]:
        raise ParameterError("batch", allowed="one that the model has not counted yet", given=batch)


def _check_batches(ledger: Ledger, model: Model, dataset: Dataset) -> None:
    """Refuse where batches mean other rows than when the model was trained: a row could then be counted twice."""
    trained = int(model.certificate.get("ledger_entry", 0))
    acts = ledger.entries(dataset.id, event="register")
    if any(act.entry_id > trained and act.details.get("folded") for act in acts):
        raise UsageError(
            f'batches of "{dataset.table}" mean other rows than when model "{model.name}" was trained.',
            hint="train anew",
        )


def _counts_meaning(schema: Schema) -> Schema:
    """Return what counts and batches mean: label, classes, features, unit, batch column; the size may change."""
    return replace(schema, rows=None, partition=None, parts=None)


def _notes(model: Model, dataset: Dataset, plan: Plan, batch: str) -> dict[str, Any]:
    """Return what the new model's certificate says of all updates so far, and of what they cost together."""
    earlier = model.certificate.get("updates") or [_first_update(model.certificate)]
    scale = plan.to_dict()["steps"][-1]["noise_scale"]
    updates = [*earlier, {"batch": batch, "epsilon": format_epsilon(plan.nano_epsilon), "noise_scale": scale}]
    costs = [parse_epsilon(update["epsilon"]) for update in updates]
    disjoint = dataset.schema.unit.column is None
    return {
        "batches": [*model.certificate["batches"], batch],
        "updates": updates,
        "epsilon": format_epsilon(max(costs) if disjoint else sum(costs)),
        "composition": "parallel over disjoint batches" if disjoint else "sequential: a unit may be in several batches",
        "updated_from": model.certificate["digest"],
    }


def _first_update(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the batch that a model was trained on, in the form of an update."""
    try:
        scale = float(certificate["plan"]["steps"][-1]["noise_scale"])
        return {"batch": certificate["batches"][0], "epsilon": certificate["epsilon"], "noise_scale": scale}
    except (LookupError, TypeError, ValueError):
        raise SchemaError("the model's certificate is damaged: it does not say how noisy its counts are.") from None


def _deviation_of(updates: list[Mapping[str, Any]]) -> float:
    """Return the standard deviation of the noise that updates add up to: √(2·Σb²) for noise of scales b."""
    return math.sqrt(2 * sum(update["noise_scale"] ** 2 for update in updates))
