"""The figures of a run before it is run: the plan that training would make at a size and epsilon, and its prospects."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from dpsql import methods
from dpsql.advice.reference_problem import INVISIBLE, VISIBLE, Problem
from dpsql.kernel.plan import NANO, Plan, Step
from dpsql.ledger import format_epsilon
from dpsql.methods.auto.auto_steps import MARGINALS
from dpsql.methods.auto.epsilon_shares import DEEPEST
from dpsql.methods.shared.noisy_leaves import SIZE_SHARE
from dpsql.schema import Schema

#: Verdicts, from too little epsilon to more than needed; users see these words.
WASTE = "not worth the budget"
DOUBTFUL = "doubtful"
HELPS = "likely to help"
AMPLE = "more than needed"
_REGIMES = {
    "public": "too little for marginals: trees grown without data are counted, and nothing else",
    "alone": "marginals of every feature and nothing else: trees would add more noise than they tell",
    "guided": "marginals of every feature, trees that they guide, and a private choice of how to read both",
}


@dataclass(frozen=True)
class Outlook:
    """What training would do with one size and one epsilon, and what it is likely to bring."""

    rows: int
    epsilon: float
    plan: Plan
    problem: Problem

    @property
    def regime(self) -> str:
        """What the method does with this epsilon, in words."""
        name = self.plan.parameters.get("regime")
        return _REGIMES[name] if name else "random trees grown without data; each leaf tells a noisy mean"

    @property
    def trees(self) -> int:
        """The number of all trees that are counted, those of one feature too: as many as a model can have."""
        return self.of_one_feature + (self._leaves.trees if self._leaves.name != MARGINALS else 0)

    @property
    def of_one_feature(self) -> int:
        """The number of trees that read one feature each: one for each feature, where marginals are asked for."""
        return next((step.trees for step in self.plan.steps if step.name == MARGINALS), 0)

    @property
    def depth(self) -> int:
        """The planned depth of the deep trees."""
        parameters = self.plan.parameters
        return int(parameters["planned_depth"] if "planned_depth" in parameters else parameters["grown_depth"])

    @property
    def leaf_deviation(self) -> float:
        """The standard deviation of the noise on one count of a leaf, in rows (on a sum of targets, in ranges)."""
        return math.sqrt(2) * float(self._leaves.scale(self.plan.promise)) / self._leaves.row_weight

    @property
    def rows_per_leaf(self) -> float:
        """How many rows a leaf has on average."""
        leaves = self.plan.parameters.get("leaves")
        return self.rows * self._leaves.trees / leaves if leaves else self.rows / 2**self.depth

    @property
    def bin_deviation(self) -> float | None:
        """The standard deviation of the noise on a marginal's bin, in rows; None where no marginals are asked for."""
        names = {step.name for step in self.plan.steps}
        return math.sqrt(2) * float(self.plan.noise_scale(MARGINALS)) if MARGINALS in names else None

    @property
    def signal_kept(self) -> float:
        """The share of the reference problem's signal that survives noise and sampling."""
        return self.problem.signal_kept(self.rows, self.epsilon)

    @property
    def gain(self) -> float:
        """The expected share of rows labelled right beyond the majority class (for a number, of variance explained)."""
        return self.problem.gain(self.rows, self.epsilon)

    @property
    def break_even(self) -> float | None:
        """The smallest epsilon at which a model is likely to beat the majority class (the mean); None for none."""
        return self.problem.break_even(self.rows)

    @property
    def rows_needed(self) -> float | None:
        """The smallest number of rows with which a model is likely to help at this epsilon; None for no number."""
        return self.problem.rows_needed(self.epsilon)

    @property
    def verdict(self) -> str:
        """Whether a model is worth its epsilon: no; only if classes are equally frequent; yes; or with less too."""
        if self.gain < VISIBLE:
            return WASTE if self.problem.easiest.gain(self.rows, self.epsilon) < VISIBLE else DOUBTFUL
        more = self.problem.gain(self.rows, 2 * self.epsilon) - self.gain
        return AMPLE if more < INVISIBLE and self._full else HELPS

    @property
    def _full(self) -> bool:
        """Whether the trees are as deep as they get, and their leaves have more rows than noise."""
        deepest = self.plan.parameters.get("planned_depth", DEEPEST) >= DEEPEST
        return deepest and self.rows_per_leaf >= self.leaf_deviation

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "rows": self.rows,
            "epsilon": format_epsilon(round(self.epsilon * NANO)),
            "method": self.plan.method,
            "regime": self.regime,
            "trees": self.trees,
            "trees_of_one_feature": self.of_one_feature,
            "depth": self.depth,
            "noise_per_leaf": self.leaf_deviation,
            "rows_per_leaf": self.rows_per_leaf,
            "noise_per_bin": self.bin_deviation,
            "signal_kept": self.signal_kept,
            "expected_gain": self.gain,
            "smallest_epsilon": self.break_even,
            "rows_needed": self.rows_needed,
            "verdict": self.verdict,
        }

    @property
    def _leaves(self) -> Step:
        """The step that counts the leaves that are read; where marginals stand alone, their bins are the leaves."""
        return next(step for step in reversed(self.plan.steps) if step.operation.fills_leaves)


def outlook(schema: Schema, rows: int, nano_epsilon: int, problem: Problem) -> Outlook:
    """Return the outlook of the recommended method; where the schema declares no size, training buys it first."""
    method = methods.get_fitting(recommended_method(schema), schema)
    left = nano_epsilon if schema.rows is not None else nano_epsilon - nano_epsilon * SIZE_SHARE // 100
    plan = method.plan(replace(schema, rows=rows), left, {})
    return Outlook(rows, nano_epsilon / NANO, plan, problem)


def recommended_method(schema: Schema) -> str:
    """Return the name of the method for a label: `auto` for classes, another for a number."""
    return methods.REGRESSION if schema.target is not None else "auto"
