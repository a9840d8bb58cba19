"""Measures several models on the same rows: free on public rows, charged on private ones.

On private rows `epsilon` is what the whole comparison costs. It is shared evenly, rounded down to a billionth: each
model is an evaluation of its own, with its own ledger entry, noise and intervals. All models are measured on the same
rows. Where one of them was trained on the named table, these are the rows of its hold-out, so that no model is measured
on rows that another one was trained on. What would be refused for one model is refused before any is charged.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from dpsql.engines.base import Engine
from dpsql.errors import BudgetExceeded, ChargeTooSmall, DpsqlError, ParameterError, UsageError
from dpsql.kernel.datasets.dataset import Dataset, look_at_dataset
from dpsql.kernel.plan import Plan, Sequential
from dpsql.ledger import Ledger, format_epsilon, parse_epsilon
from dpsql.models.evaluate import Evaluation, NumericEvaluation, evaluate
from dpsql.models.usable_model import Model
from dpsql.runs.private_evaluation import charged_table, evaluate_private, measured_dataset, plan_evaluation

METHOD = "compare"
#: The figures of a comparison of classifiers; more is better in all but the last two.
FIGURES = ("accuracy", "balanced_accuracy", "f1", "auc", "log_loss", "brier")
#: The figures of a comparison of models of numbers.
NUMERIC_FIGURES = ("rmse", "mae", "r2")
#: Figures of which less is better.
LESS_IS_BETTER = ("log_loss", "brier", "rmse", "mae")


@dataclass(frozen=True)
class Comparison:
    """The evaluations of several models on the same rows, in the order of the models; what they cost together.

    `epsilon` is None where the rows are public.
    """

    table: str
    evaluations: tuple[Evaluation | NumericEvaluation, ...]
    epsilon: str | None = None

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of the figures that are compared."""
        return NUMERIC_FIGURES if isinstance(self.evaluations[0], NumericEvaluation) else FIGURES

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each model with its figures; on private rows with the ends of their 95 % intervals."""
        lines = []
        for evaluation in self.evaluations:
            line: dict[str, Any] = {"model": evaluation.model, "rows": evaluation.rows}
            for name in self.figures:
                line[name] = getattr(evaluation, name)
                if self.epsilon is not None:
                    line[f"{name}_low"], line[f"{name}_high"] = interval(evaluation, name)
            lines.append(line)
        return pd.DataFrame(lines)

    def leaders(self, name: str) -> tuple[str, ...]:
        """Return the models that may be the best by a figure, the best first; () where no model has the figure.

        On private rows these are all whose interval meets that of the best one: the others are behind by more than
        noise and chance explain. On public rows the figures of these rows are exact, and the best stands alone.
        """
        sign = -1 if name in LESS_IS_BETTER else 1
        valued = [measured for measured in self.evaluations if _value(measured, name) is not None]
        valued.sort(key=lambda measured: -sign * float(_value(measured, name) or 0))
        if not valued:
            return ()
        best = valued[0]
        if self.epsilon is None:
            return tuple(measured.model for measured in valued if _value(measured, name) == _value(best, name))
        low, high = _ends(best, name)
        ends = {measured.model: _ends(measured, name) for measured in valued}
        return tuple(model for model, (own_low, own_high) in ends.items() if own_high >= low and own_low <= high)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values."""
        return {
            "table": self.table,
            "epsilon": self.epsilon,
            "models": [evaluation.to_dict() for evaluation in self.evaluations],
            "best": {name: list(self.leaders(name)) for name in self.figures},
        }

    def __str__(self) -> str:
        return "\n".join(str(evaluation) for evaluation in self.evaluations)


def interval(evaluation: Evaluation | NumericEvaluation, name: str) -> tuple[float | None, float | None]:
    """Return the ends of a figure's interval; None where it has none."""
    bounds: Mapping[str, tuple[float, float]] = getattr(evaluation, "intervals", {})
    return bounds.get(name, (None, None))


def compare(models: Sequence[Model], data: pd.DataFrame | str) -> Comparison:
    """Measure several models on the same public rows, for free."""
    check_models(models)
    evaluations = tuple(evaluate(model, data) for model in models)
    return Comparison(evaluations[0].table, evaluations)


def plan_comparison(engine: Engine, ledger: Ledger, models: Sequence[Model], data: object, *, epsilon: object) -> Plan:
    """Return what a comparison on private rows would ask and cost in all. Reads no row, charges nothing."""
    table, each = _same_rows(engine, ledger, models, data), _share(epsilon, models)
    plans = [plan_evaluation(engine, ledger, model, table, epsilon=each) for model in models]
    steps = tuple(replace(plan.steps[0], name=model.name) for plan, model in zip(plans, models, strict=True))
    parameters = {"models": [model.name for model in models], "table": table}
    return Plan(METHOD, Sequential(steps), plans[0].promise, parameters)


def compare_private(
    engine: Engine,
    ledger: Ledger,
    models: Sequence[Model],
    data: object,
    *,
    epsilon: object,
    who: str,
    request_id: str | None,
    progress: Callable[[str], None] = lambda model: None,
) -> Comparison:
    """Charge epsilon in all, measure each model for an even share of it, and return the figures with their intervals.

    Asked again under the same `request_id`, the figures are the same and nothing is charged.
    """
    ledger.upgrade()
    table, each = _same_rows(engine, ledger, models, data), _share(epsilon, models)
    plan = plan_comparison(engine, ledger, models, data, epsilon=epsilon)
    if request_id is None or ledger.find_request(request_of_model(request_id, 1)) is None:
        _check_affordable(ledger, look_at_dataset(engine, ledger, table), plan, parse_epsilon(each), who)
    evaluations: list[Evaluation | NumericEvaluation] = []
    for place, model in enumerate(models, start=1):
        progress(model.name)
        own = request_of_model(request_id, place) if request_id else request_id
        try:
            evaluation = evaluate_private(engine, ledger, model, table, epsilon=each, who=who, request_id=own)
        except DpsqlError as error:
            if evaluations:
                error.add_note(f"{len(evaluations)} of {len(models)} models are measured and charged for.")
            raise
        evaluations.append(evaluation)
    return Comparison(table, tuple(evaluations), format_epsilon(plan.nano_epsilon))


def request_of_model(request_id: str, place: int) -> str:
    """Return the request id of one model's evaluation in a comparison, by the model's place from 1."""
    return f"{request_id}/{place}"


def compared_table(engine: Engine, ledger: Ledger, models: Sequence[Model], data: object) -> str:
    """Return the name of the private dataset that all models are measured on, and that pays."""
    return _same_rows(engine, ledger, models, data)


def check_models(models: Sequence[Model]) -> None:
    """Raise an error unless there are several different models, all of classes or all of numbers."""
    names = [model.name for model in models]
    if len(set(names)) < 2 or len(set(names)) < len(names):
        raise ParameterError("models", allowed="two or more different models", given=", ".join(names) or "none")
    if len({model.schema.target is None for model in models}) > 1:
        raise UsageError("classes and numbers have no figure in common.", hint="compare models of one kind")


def _same_rows(engine: Engine, ledger: Ledger, models: Sequence[Model], data: object) -> str:
    """Return the dataset that all models are measured on: the hold-out, where one was trained on the named table."""
    check_models(models)
    named = look_at_dataset(engine, ledger, charged_table(engine, ledger, data))
    measured = [measured_dataset(ledger, model, named) for model in models]
    return next((dataset for dataset in measured if dataset.id != named.id), named).table


def _share(epsilon: object, models: Sequence[Model]) -> str:
    """Return each model's share of epsilon, rounded down to a billionth so that all together never cost more."""
    each = parse_epsilon(epsilon) // len(models)
    if not each:
        raise ParameterError("epsilon", allowed="enough for each model", given=epsilon)
    return format_epsilon(each)


def _check_affordable(ledger: Ledger, dataset: Dataset, plan: Plan, each: int, who: str) -> None:
    """Raise an error unless the budget can pay for all models; the charges themselves decide in the end."""
    budget = ledger.budget(dataset.payer)
    left = budget.left_for(who)
    if left is not None and left < plan.nano_epsilon:
        raise BudgetExceeded(
            f'table "{dataset.table}"',
            needed=format_epsilon(plan.nano_epsilon),
            left=format_epsilon(left),
            cap=budget.cap_text,
            hint=f"dpsql budget --table {shlex.quote(dataset.table)}",
        )
    if each < budget.least_charge:
        least = format_epsilon(budget.least_charge)
        raise ChargeTooSmall(dataset.table, needed=format_epsilon(each), least=least)


def _value(evaluation: Evaluation | NumericEvaluation, name: str) -> float | None:
    value = getattr(evaluation, name)
    return None if value is None or value != value else float(value)


def _ends(evaluation: Evaluation | NumericEvaluation, name: str) -> tuple[float, float]:
    low, high = interval(evaluation, name)
    value = float(_value(evaluation, name) or 0)
    return (value if low is None else low, value if high is None else high)
