"""The warning of a model that was trained on about no rows, from its released counts: post-processing alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpsql.kernel.plan import Plan, Step
from dpsql.methods.rdt import Rdt
from dpsql.methods.shared.row_evidence import surely_no_rows
from dpsql.trees.voting import VotingForest


def no_rows_warning(
    plan: Plan, forest: VotingForest, facts: Mapping[str, Any], *, rows: int | None, reasons: str
) -> str | None:
    """Return a sentence where the released counts of a model say that about no row was counted; None where they do not.

    `rows` is the size that the owner declared, and `reasons` says why it may be. Methods that release no counts of
    classes tell nothing.
    """
    total, deviation = _noisy_total(plan, forest, facts)
    if total is None or not surely_no_rows(total, deviation, declared=rows):
        return None
    declared = "" if rows is None else f", and the declared size is {rows}"
    return (
        f"about no row was counted: the released counts add up to {total:.0f} rows (standard deviation "
        f"{deviation:.3g}){declared}. The model is made of noise, and its epsilon is spent. {reasons}"
    )


def _noisy_total(plan: Plan, forest: VotingForest, facts: Mapping[str, Any]) -> tuple[float | None, float]:
    """Return the number of rows that released counts add up to, and the standard deviation of its noise at most."""
    steps = {step.name: step for step in plan.steps}
    classes, counts = facts.get("classes"), steps.get("counts")
    if isinstance(classes, Mapping) and "classes_deviation" in facts:
        return float(sum(classes.values())), float(facts["classes_deviation"])
    cells = forest.weights.size
    if isinstance(classes, Mapping) and counts is not None:
        return float(sum(classes.values())), _deviation(plan, counts) * math.sqrt(cells) / forest.forest.trees
    if plan.method == Rdt.name and counts is not None and not counts.row_weight > 1:
        trees = forest.forest.trees if counts.shared else 1
        return float(forest.weights.sum()) / trees, _deviation(plan, counts) * math.sqrt(cells) / trees
    return None, 0.0


def _deviation(plan: Plan, step: Step) -> float:
    return math.sqrt(2) * float(step.scale(plan.promise))
