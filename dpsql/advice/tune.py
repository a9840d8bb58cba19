"""Tuning that costs nothing: the error of leaves and votes over a grid of trees and depths, before any row is read.

For methods whose noise is known in closed form the error of a leaf's count, and of the votes that a row adds up, follow
from schema, parameters and epsilon. What is picked is the deepest forest in which a leaf's share of the rows, for
one class, still stands out of the noise on its votes, and of those the one whose votes stand out most. How good the
splits are is not known without rows, so this weighs noise alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpsql import methods
from dpsql.errors import ParameterError, UsageError
from dpsql.ledger import parse_epsilon
from dpsql.methods.base import resolved
from dpsql.methods.mrf.ensembles import Ensemble, ensembles
from dpsql.methods.mrf.mrf import Mrf
from dpsql.schema import Schema
from dpsql.trees.strategies.marginals import marginals
from dpsql.trees.strategies.workload import Workload, votes

METHODS = ("mrf", "rdt", "rosnam", "snr", "spe")
TREES = (4, 16, 64, 128)
DEPTHS = (1, 2, 3, 4, 6, 8)
#: Ensembles and the features of each; None stands for all that fit.
SHAPES = ((1, None), (4, 4), (4, 8))
#: The cells of a batch for which the error of votes is worked out.
BATCH = 128
NANO = 10**9


@dataclass(frozen=True)
class Setting:
    """One point of the grid. Deviations are of the noise, in rows: on one count of a leaf, and on a row's summed votes.

    `signal` is how many rows of a class such a row finds in its leaves on average, if all leaves and classes were
    alike; `clear` is that over the deviation of the votes.
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
        """What a training run is to be asked with."""
        shape = {"ensembles": self.ensembles, "features": self.features} if self.ensembles > 1 else {}
        return {"trees": self.trees, "depth": self.depth, **shape}

    def to_dict(self) -> dict[str, Any]:
        """Return the setting as plain values."""
        return asdict(self) | {"clear": self.clear}


@dataclass(frozen=True)
class Tuned:
    """The whole grid for one method and epsilon, and the setting that was picked."""

    method: str
    settings: tuple[Setting, ...]

    @property
    def picked(self) -> Setting:
        """The deepest setting whose votes stand out; where none do, the one that stands out most."""
        clear = [one for one in self.settings if one.clear >= 1]
        if not clear:
            return max(self.settings, key=lambda one: one.clear)
        return max(clear, key=lambda one: (one.depth, one.clear))

    def to_dict(self) -> dict[str, Any]:
        """Return the grid as plain values."""
        return {
            "method": self.method,
            "picked": self.picked.parameters,
            "settings": [one.to_dict() for one in self.settings],
        }


def tune(
    schema: Schema,
    method: str,
    *,
    epsilon: object,
    rows: int | None = None,
    progress: Callable[[str], None] = lambda what: None,
) -> Tuned:
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
    look = _matrix if method == Mrf.name else _plain
    found = tuple(look(schema, method, parse_epsilon(epsilon), size, progress))
    if not found:
        raise UsageError("no setting of the grid fits this schema.", hint="set trees and depth yourself")
    return Tuned(method, found)


def _plain(
    schema: Schema, method: str, nano_epsilon: int, rows: int, progress: Callable[[str], None]
) -> Iterator[Setting]:
    """Yield the settings of a method that puts noise on every leaf: its plan says how much."""
    one = methods.get(method)
    for trees, depth in ((trees, depth) for trees in TREES for depth in DEPTHS if depth <= len(schema.features)):
        progress(f"{trees} trees of depth {depth}")
        plan = one.plan(schema, nano_epsilon, {"trees": trees, "depth": depth})
        step = next(step for step in reversed(plan.steps) if step.operation.fills_leaves)
        leaves = int(plan.parameters.get("leaves") or trees * 2**depth)
        deviation = math.sqrt(2) * float(step.scale(plan.promise))
        seen = trees if step.shared else 1  # in how many trees a row is counted
        signal = rows * seen / (leaves / trees) / len(schema.classes)
        yield Setting(trees, depth, 1, len(schema.features), leaves, "every leaf", deviation,
                      deviation * math.sqrt(trees), signal)  # fmt: skip


def _matrix(
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
                found = ensembles(schema, resolved(Mrf(), given))
            except ParameterError:  # more cells than an ensemble may have
                continue
            if features is None and len(found[0].domain.sizes) < len(schema.features):
                continue
            progress(f"{trees} trees of depth {depth}")
            yield _ensemble(schema, found, nano_epsilon, rows, trees, depth)


def _ensemble(schema: Schema, found: list[Ensemble], nano_epsilon: int, rows: int, trees: int, depth: int) -> Setting:
    """Return the setting of ensembles that are alike: the first one stands for all."""
    one, count = found[0], len(found)
    name, total = _quick(one.workload)
    scale = math.sqrt(2) * schema.unit.max_rows * NANO * count / nano_epsilon
    leaf = scale * math.sqrt(total / one.workload.leaves)
    batch = np.linspace(0, one.workload.cells - 1, min(BATCH, one.workload.cells)).astype(np.int64)
    error = _quick(votes(one.workload, batch))[1] / len(batch)
    leaves = sum(part.forest.leaves for part in found)
    signal = rows * trees / (leaves / trees) / len(schema.classes)
    return Setting(trees, depth, count, len(one.domain.sizes), leaves, name, leaf,
                   scale * math.sqrt(error * count), signal)  # fmt: skip


def _quick(workload: Workload) -> tuple[str, float]:
    """Return the better of the two kinds of strategy that are found at once, and its error: cells, or marginals."""
    found = marginals(workload)
    error = math.inf if found is None else found[0].sensitivity ** 2 * found[1]
    return ("marginals", error) if error < workload.length else ("identity", workload.length)
