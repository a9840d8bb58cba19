"""Strategies for a batch of rows to be labelled: the matrix random forest's batch prediction, and its second form.

*batch*: every tree sees all rows, and what a batch needs are sums of leaves over all trees, W = Q·Tᵀ·T over the cells.
*subsample*: each row is in one tree (subsample and aggregate); what is needed are sums of leaves, W = Q·Tᵀ, and the
leaves themselves are the cells.

A strategy for what a batch needs has less error there than one for all leaves. What comes out is a forest like any
other, since least squares gives every cell: reading it again is free, and so are other rows, though the noise was not
shaped for them.

Proof: the batch is public, so structure and strategies are as public as in `methods/mrf/mrf.py`; the steps are `linear`
releases, over cells in which each row is once.
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

BATCH, SUBSAMPLE = "batch", "subsample"
WAYS = (BATCH, SUBSAMPLE)
_STEP = "leaves"


@dataclass(frozen=True, eq=False)
class PreparedStrategies:
    """A batch that is ready to be asked: its plan, and how the answers become a forest."""

    plan: Plan
    ensembles: tuple[Ensemble, ...]
    strategies: tuple[BestStrategy, ...]
    forest: Forest

    def ask(self, session: Session) -> VotingForest:
        """Return the forest whose votes were asked for, from the session's noisy answers alone."""
        if self.plan.parameters["way"] == BATCH:
            return ask_strategies(session, self.ensembles, self.strategies, hard=False)
        strategy = self.strategies[0].strategy
        noisy_answers = session.linear(_STEP, self.forest, strategy)
        leaves = least_squares(strategy, noisy_answers.astype(np.float64))
        most = largest_weight(self.forest.trees, len(session.schema.classes))
        return VotingForest(self.forest, np.clip(leaf_votes(leaves, hard=False), -most, most))


def prepare(
    schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], batch: Cells, way: str
) -> PreparedStrategies:
    """Return the plan for a batch, whose rows are given by their cells on the schema's grid. No private row is read."""
    chosen = resolve_parameters(Mrf(), parameters)
    if chosen["votes"] == HARD:
        chosen["votes"] = SUMMED  # what is optimised are sums
    found = tuple(ensembles(schema, chosen))
    forest = joined_forest(list(found))
    looked = _workloads(found, forest, batch, way)
    kind = "" if chosen["strategy"] == BEST else chosen["strategy"]
    strategies = tuple(best_strategy(one, kind=kind, effort=chosen["effort"]) for one in looked)
    composition = mrf_steps(strategies, nano_epsilon, schema)
    if way == SUBSAMPLE:
        composition = _disjoint_step(strategies[0], nano_epsilon, schema, forest)
    facts = {
        "way": way,
        "batch_rows": len(batch),
        "batch_digest": hashlib.sha256(np.ascontiguousarray(batch).tobytes()).hexdigest(),
        "strategies": [one.strategy.name for one in strategies],
        "error_to_identity": [round(one.ratio, 4) for one in strategies],
    }
    return PreparedStrategies(
        Plan(Mrf.name, composition, Promise(schema.unit), chosen | facts), found, strategies, forest
    )


def _workloads(found: tuple[Ensemble, ...], forest: Forest, batch: Cells, way: str) -> list[Sums]:
    if way == BATCH:
        return [vote_workload(one.workload, one.domain.cell_numbers(batch)) for one in found]
    different, place = np.unique(batch, axis=0, return_inverse=True)
    return [reached_leaves(forest.route(different).T, forest.leaves, place.ravel())]


def _disjoint_step(found: BestStrategy, nano_epsilon: int, schema: Schema, forest: Forest) -> Step:
    """Return the one step of trees that see disjoint rows."""
    return Step(
        _STEP,
        Linear(),
        nano_epsilon,
        trees=forest.trees,
        cells=found.strategy.questions * len(schema.classes),
        classes=len(schema.classes),
        row_weight=found.strategy.sensitivity,
        note=f"one tree for each row; {found.strategy.name} strategy: {found.ratio:.3g} times the error of every leaf",
    )
