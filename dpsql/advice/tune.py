"""Tuning that costs nothing: the error of leaves and votes over a grid of trees and depths, before any row is read.

For methods whose noise is known in closed form, the error of a leaf's count and the error of the votes that are summed
for a row follow from schema, parameters and epsilon. What is picked is the deepest forest in which a leaf's share of
the rows, for one class, still stands out of the noise on its votes, and of those the one whose votes stand out most.
How good the splits are is not known without rows, so this weighs noise alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpsql import methods
from dpsql.errors import ParameterError, UsageError
from dpsql.kernel.plan import NANO
from dpsql.ledger import parse_epsilon
from dpsql.methods.base import resolve_parameters
from dpsql.methods.mrf.ensembles import Ensemble, ensembles
from dpsql.methods.mrf.mrf import Mrf
from dpsql.schema import Schema
from dpsql.trees.strategies.marginals import marginals
from dpsql.trees.strategies.workload import Workload, vote_workload

#: The methods whose noise is known in closed form.
METHODS = ("mrf", "rdt", "rosnam", "snr", "spe")
#: The numbers of trees of the grid.
TREES = (4, 16, 64, 128)
#: The depths of the grid.
DEPTHS = (1, 2, 3, 4, 6, 8)
#: Ensembles and the features of each; None stands for all that fit.
SHAPES = ((1, None), (4, 4), (4, 8))
#: Cells of the public grid for which the error of votes is worked out, evenly spaced.
ASKED_CELLS = 128


@dataclass(frozen=True)
class Setting:
    """One point of the grid. Deviations are of the noise, in rows: on one count of a leaf, and on a row's summed votes.

    `signal` is how many rows of one class the leaves of a row have on average, if all leaves and classes had equally
    many rows; `clear` is `signal` over the deviation of the votes.
    """

    trees: int
    depth: int
    ensembles: int
    features: int
    leaves: int
    strategy: str
    leaf_deviation: float
    vote_deviation: float
    signal: float

    @property
    def clear(self) -> float:
        """How far the votes stand out of their noise."""
        return self.signal / self.vote_deviation

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters with which a training run has this setting."""
        shape = {"ensembles": self.ensembles, "features": self.features} if self.ensembles > 1 else {}
        return {"trees": self.trees, "depth": self.depth, **shape}

    def to_dict(self) -> dict[str, Any]:
        """Return the setting as plain values."""
        return asdict(self) | {"clear": self.clear}


@dataclass(frozen=True)
class Tuning:
    """The whole grid for one method and epsilon, and the setting that was picked."""

    method: str
    settings: tuple[Setting, ...]

    @property
    def best_setting(self) -> Setting:
        """The deepest setting whose votes stand out; where none do, the one that stands out most."""
        clear = [setting for setting in self.settings if setting.clear >= 1]
        if not clear:
            return max(self.settings, key=lambda setting: setting.clear)
        return max(clear, key=lambda setting: (setting.depth, setting.clear))

    def to_dict(self) -> dict[str, Any]:
        """Return the grid as plain values."""
        return {
            "method": self.method,
            "picked": self.best_setting.parameters,
            "settings": [setting.to_dict() for setting in self.settings],
        }


def tune(
    schema: Schema,
    method: str,
    *,
    epsilon: object,
    rows: int | None = None,
    progress: Callable[[str], None] = lambda what: None,
) -> Tuning:
    """Return the expected errors of a method over a grid of settings, by default for the declared number of rows.

    Reads no row, charges nothing.
    """
    size = rows or schema.rows
    if size is None:
        raise UsageError("tuning weighs noise against rows, and nobody told how many there are.", hint="rows=N")
    if method not in METHODS:
        raise ParameterError("tune", allowed=f"one of {', '.join(METHODS)}", given=method)
    methods.get_fitting(method, schema)
    if schema.target is not None:
        raise UsageError("only forests for classes are tuned.", hint="leave out --tune")
    list_settings = _settings_of_mrf if method == Mrf.name else _settings_of_plan
    settings = tuple(list_settings(schema, method, parse_epsilon(epsilon), size, progress))
    if not settings:
        raise UsageError("no setting of the grid fits this schema.", hint="set trees and depth yourself")
    return Tuning(method, settings)


def _settings_of_plan(
    schema: Schema, method: str, nano_epsilon: int, rows: int, progress: Callable[[str], None]
) -> Iterator[Setting]:
    """Yield the settings of a method that puts noise on every leaf: its plan says how much."""
    planned_method = methods.get(method)
    for trees, depth in ((trees, depth) for trees in TREES for depth in DEPTHS if depth <= len(schema.features)):
        progress(f"{trees} trees of depth {depth}")
        plan = planned_method.plan(schema, nano_epsilon, {"trees": trees, "depth": depth})
        step = next(step for step in reversed(plan.steps) if step.operation.fills_leaves)
        leaves = int(plan.parameters.get("leaves") or trees * 2**depth)
        deviation = math.sqrt(2) * float(step.scale(plan.promise))
        seen = trees if step.shared else 1  # in how many trees a row is counted
        signal = rows * seen / (leaves / trees) / len(schema.classes)
        yield Setting(trees, depth, 1, len(schema.features), leaves, "every leaf", deviation,
                      deviation * math.sqrt(trees), signal)  # fmt: skip


def _settings_of_mrf(
    schema: Schema, method: str, nano_epsilon: int, rows: int, progress: Callable[[str], None]
) -> Iterator[Setting]:
    """Yield the settings of the matrix random forest, each with the strategy that is best for it."""
    for count, features in SHAPES:
        if features is not None and features >= len(schema.features):
            continue
        for trees, depth in ((trees, depth) for trees in TREES for depth in DEPTHS):
            if trees < count or depth > (features or len(schema.features)):
                continue
            given = {"trees": trees, "depth": depth, "ensembles": count, "features": features}
            try:
                alike = ensembles(schema, resolve_parameters(Mrf(), given))
            except ParameterError:  # more cells than an ensemble may have
                continue
            if features is None and len(alike[0].domain.sizes) < len(schema.features):
                continue
            progress(f"{trees} trees of depth {depth}")
            yield _ensemble_setting(schema, alike, nano_epsilon, rows, trees, depth)


def _ensemble_setting(
    schema: Schema, alike: list[Ensemble], nano_epsilon: int, rows: int, trees: int, depth: int
) -> Setting:
    """Return the setting of ensembles that are alike; the first of them stands for all."""
    first, count = alike[0], len(alike)
    name, total = _better_strategy(first.workload)
    scale = math.sqrt(2) * schema.unit.max_rows * NANO * count / nano_epsilon
    leaf = scale * math.sqrt(total / first.workload.leaves)
    asked_cells = np.linspace(0, first.workload.cells - 1, min(ASKED_CELLS, first.workload.cells)).astype(np.int64)
    error = _better_strategy(vote_workload(first.workload, asked_cells))[1] / len(asked_cells)
    leaves = sum(part.forest.leaves for part in alike)
    signal = rows * trees / (leaves / trees) / len(schema.classes)
    return Setting(trees, depth, count, len(first.domain.sizes), leaves, name, leaf,
                   scale * math.sqrt(error * count), signal)  # fmt: skip


def _better_strategy(workload: Workload) -> tuple[str, float]:
    """Return the better of the two kinds of strategy that need no search, cells or marginals, and its error."""
    strategy = marginals(workload)
    error = math.inf if strategy is None else strategy[0].sensitivity ** 2 * strategy[1]
    return ("marginals", error) if error < workload.length else ("identity", workload.length)
