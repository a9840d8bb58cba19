"""Strategies for new rows that are to be labelled together: the matrix random forest's batch prediction, in two forms.

The new rows are public; the private rows answer. For the new rows Q and the trees T, what is needed is the workload W:

- *batch*: every tree sees all private rows. The new rows need sums of leaves over all trees, W = Q·Tᵀ·T over the cells.
- *subsample*: each private row is in one tree (subsample and aggregate). The new rows need sums of leaves, W = Q·Tᵀ,
  and the leaves themselves are the cells.

A strategy for what the new rows need has less error on them than a strategy for all leaves. What comes out is a forest
like any other, since least squares gives every cell: reading it again is free, and so is labelling other rows with it,
though the noise was not shaped for them.

Proof: the new rows are public, so trees and strategies are as public as in `methods/mrf/mrf.py`; the steps are `linear`
releases, over cells of which each private row is in exactly one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsql.kernel.operations import Linear
from dpsql.kernel.plan import Plan, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.methods.base import resolve_parameters
from dpsql.methods.mrf.ensembles import Ensemble, ensembles, joined_forest
from dpsql.methods.mrf.mrf import BEST, HARD, SUMMED, Mrf, ask_strategies, leaf_votes, mrf_steps
from dpsql.schema import Schema
from dpsql.trees.forest import Forest
from dpsql.trees.grid import Cells
from dpsql.trees.strategies.least_squares import least_squares
from dpsql.trees.strategies.optimize import BestStrategy, best_strategy
from dpsql.trees.strategies.workload import Sums, reached_leaves, vote_workload
from dpsql.trees.voting import VotingForest, largest_weight

#: Which private rows the trees see, by the words that plans store: all rows in each tree, or each row in one tree.
SHARED = "batch"
DISJOINT = "subsample"
#: The name of the one step of disjoint trees.
_STEP = "leaves"


@dataclass(frozen=True, eq=False)
class PreparedStrategies:
    """What is ready to be asked for some new rows: the plan, and how the noisy answers become a forest."""

    plan: Plan
    ensembles: tuple[Ensemble, ...]
    strategies: tuple[BestStrategy, ...]
    forest: Forest

    def ask(self, session: Session) -> VotingForest:
        """Return the forest that labels the new rows, from the session's noisy answers alone."""
        if self.plan.parameters["way"] == SHARED:
            return ask_strategies(session, self.ensembles, self.strategies, hard=False)
        strategy = self.strategies[0].strategy
        noisy_answers = session.linear(_STEP, self.forest, strategy)
        leaves = least_squares(strategy, noisy_answers.astype(np.float64))
        most = largest_weight(self.forest.trees, len(session.schema.classes))
        return VotingForest(self.forest, np.clip(leaf_votes(leaves, hard=False), -most, most))


def prepare(
    schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], new_rows: Cells, way: str
) -> PreparedStrategies:
    """Return the plan for new rows, which are given by their cells on the schema's grid. No private row is read."""
    settings = resolve_parameters(Mrf(), parameters)
    if settings["votes"] == HARD:
        settings["votes"] = SUMMED  # strategies are optimised for sums
    all_ensembles = tuple(ensembles(schema, settings))
    forest = joined_forest(list(all_ensembles))
    workloads = _workloads(all_ensembles, forest, new_rows, way)
    kind = "" if settings["strategy"] == BEST else settings["strategy"]
    strategies = tuple(best_strategy(workload, kind=kind, effort=settings["effort"]) for workload in workloads)
    composition = mrf_steps(strategies, nano_epsilon, schema)
    if way == DISJOINT:
        composition = _disjoint_step(strategies[0], nano_epsilon, schema, forest)
    facts = {
        "way": way,
        "batch_rows": len(new_rows),
        "batch_digest": hashlib.sha256(np.ascontiguousarray(new_rows).tobytes()).hexdigest(),
        "strategies": [best.strategy.name for best in strategies],
        "error_to_identity": [round(best.ratio, 4) for best in strategies],
    }
    return PreparedStrategies(
        Plan(Mrf.name, composition, Promise(schema.unit), settings | facts), all_ensembles, strategies, forest
    )


def _workloads(all_ensembles: tuple[Ensemble, ...], forest: Forest, new_rows: Cells, way: str) -> list[Sums]:
    """Return what the new rows need: a workload for each ensemble, or one for all where trees are disjoint."""
    if way == SHARED:
        return [vote_workload(ensemble.workload, ensemble.domain.cell_numbers(new_rows)) for ensemble in all_ensembles]
    different, place = np.unique(new_rows, axis=0, return_inverse=True)
    return [reached_leaves(forest.route(different).T, forest.leaves, place.ravel())]


def _disjoint_step(best: BestStrategy, nano_epsilon: int, schema: Schema, forest: Forest) -> Step:
    """Return the one step of trees that see disjoint rows."""
    return Step(
        _STEP,
        Linear(),
        nano_epsilon,
        trees=forest.trees,
        cells=best.strategy.questions * len(schema.classes),
        classes=len(schema.classes),
        row_weight=best.strategy.sensitivity,
        note=f"one tree for each row; {best.strategy.name} strategy: {best.ratio:.3g} times the error of every leaf",
    )
