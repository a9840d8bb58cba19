"""The matrix random forest of Tajima, Wu & Houmansadr 2025, exact: what trees need, asked of their common cells.

Random trees over the same features need sums of the same cells. Instead of noise on every leaf of every tree, which
would have to share epsilon, the rows are asked a *strategy*: a few whole-number questions about the cells from which
all leaves follow by least squares. Which strategy is best depends on the trees alone (`trees/strategies/optimize.py`),
so it is found before any row is read, and costs nothing.

1. Features: all of them where their cells (combinations of bins) are few, else `ensembles` random subsets.
2. Random trees on the bins, one branch for each bin (`trees/grow/common_cells.py`).
3. For each ensemble one question-and-answer of the kernel, `linear`, at its share of epsilon: one GROUP BY of cells.
4. Least squares gives the cells; each leaf is the sum of its cells. Leaves vote with their counts (`summed`) or with
   their largest class (`hard`, as in the paper).

Where we differ, and why:

- The paper adds float Laplace noise times a pseudo-inverse. Here strategies are whole numbers, rounded before their
  sensitivity is worked out; answers are whole numbers, noise is discrete Laplace.
- The paper's optimiser is OPT_0 alone. Here the identity, marginals (OPT_M), the trees themselves, and trees with cells
  are tried beside it, and the smallest error wins. Where trees are deep the identity is hard to beat (the paper's
  gain is over noise on every leaf); marginals win where they are shallow.
- Summed counts are the default: they are better than hard votes on every table that we tried.

Proof: structure and strategies are functions of schema and parameters. The steps are one `linear` release for each
ensemble, all on the same rows: their epsilons add up. The rest is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.operations import Linear
from dpsql.kernel.plan import Composition, Plan, Sequential, Step
from dpsql.kernel.promise import Promise
from dpsql.kernel.session import Session
from dpsql.methods.base import Choice, Method, Parameter, Trained, Whole, resolve_parameters
from dpsql.methods.mrf.ensembles import MOST_CELLS, Ensemble, ensembles, joined_forest
from dpsql.schema import Schema
from dpsql.trees.forest import Forest
from dpsql.trees.strategies.least_squares import least_squares
from dpsql.trees.strategies.optimize import EFFORT, KINDS, BestStrategy, best_strategy
from dpsql.trees.voting import VotingForest, largest_weight

SUMMED, HARD = "summed", "hard"
BEST = "best"
#: A count of 1 is so many points of a vote.
POINTS_PER_ROW = 16


class Mrf(Method):
    """Random trees over common cells, and the strategy from which all their leaves follow best."""

    name = "mrf"
    summary = "random trees, one optimised question for all leaves (Tajima et al. 2025)"
    parameters: Mapping[str, Parameter] = {
        "trees": Whole(128, 1, 10_000, "number of trees; of all ensembles together"),
        "depth": Whole(None, 1, 20, "depth of the trees; by default three fifths of an ensemble's features"),
        "bins": Whole(5, 2, 64, "bins of a number, of equal width"),
        "ensembles": Whole(None, 1, 64, "number of ensembles, which share epsilon [1, or 4 where cells are too many]"),
        "features": Whole(None, 1, 20, "features of each ensemble, drawn at random; by default as many as fit"),
        "cells": Whole(MOST_CELLS, 2, 2**17, "most cells of one ensemble"),
        "votes": Choice((SUMMED, HARD), "leaves vote with their counts, or each for its largest class"),
        "strategy": Choice((BEST, *KINDS), "what is asked of the cells; best tries all of them"),
        "effort": Whole(EFFORT, 1, 100_000, "work for each ensemble's search; then the best strategy so far is taken"),
        "seed": Whole(0, 0, 2**62, "shapes the trees, never touches noise; draws the ensembles too"),
    }

    def plan(
        self, schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], promise: Promise | None = None
    ) -> Plan:
        """Return the plan: one question-and-answer for each ensemble."""
        chosen = resolve_parameters(self, parameters)
        found = ensembles(schema, chosen)
        strategies = [_strategy(one, chosen) for one in found]
        facts = {
            "cells": [one.domain.cells for one in found],
            "strategies": [one.strategy.name for one in strategies],
            "error_to_identity": [round(one.ratio, 4) for one in strategies],
            "leaves": sum(one.forest.leaves for one in found),
        }
        return Plan(
            self.name,
            mrf_steps(strategies, nano_epsilon, schema),
            promise or Promise(schema.unit),
            chosen | {"chosen": facts},
        )

    def public_trees(self, schema: Schema, plan: Plan) -> Forest:
        """Return the trees: they need no rows."""
        return joined_forest(ensembles(schema, plan.parameters))

    def train(self, session: Session) -> Trained:
        """Return the forest whose leaves vote with what follows from the answers."""
        chosen = session.plan.parameters
        found = ensembles(session.schema, chosen)
        strategies = [_strategy(one, chosen) for one in found]
        return Trained(ask_strategies(session, found, strategies, hard=chosen["votes"] == HARD))


def _strategy(ensemble: Ensemble, chosen: Mapping[str, Any]) -> BestStrategy:
    kind = "" if chosen["strategy"] == BEST else chosen["strategy"]
    return best_strategy(ensemble.workload, kind=kind, effort=chosen["effort"])


def mrf_steps(strategies: Sequence[BestStrategy], nano_epsilon: int, schema: Schema) -> Composition:
    """Return one step for each ensemble; they share epsilon evenly, and add up to it exactly."""
    count, classes = len(strategies), len(schema.classes)
    ends = [nano_epsilon * number // count for number in range(count + 1)]
    return Sequential(
        tuple(
            Step(
                step_name(number),
                Linear(),
                ends[number + 1] - ends[number],
                cells=one.strategy.questions * classes,
                classes=classes,
                row_weight=one.strategy.sensitivity,
                note=f"{one.strategy.name} strategy: {one.ratio:.3g} times the error of asking for every cell",
            )
            for number, one in enumerate(strategies)
        )
    )


def step_name(number: int) -> str:
    """Return the name of an ensemble's step."""
    return f"ensemble_{number + 1}"


def ask_strategies(
    session: Session, found: Sequence[Ensemble], strategies: Sequence[BestStrategy], *, hard: bool
) -> VotingForest:
    """Ask each ensemble's strategy and return the forest of all of them."""
    weights = []
    for number, (ensemble, one) in enumerate(zip(found, strategies, strict=True)):
        answers = session.linear(step_name(number), ensemble.cells, one.strategy)
        cells = least_squares(one.strategy, answers.astype(np.float64))
        weights.append(leaf_votes(ensemble.workload.answer(cells), hard=hard))
    forest = joined_forest(list(found))
    most = largest_weight(forest.trees, len(session.schema.classes))
    return VotingForest(forest, np.clip(np.concatenate(weights), -most, most))


def leaf_votes(leaves: NDArray[np.float64], *, hard: bool) -> NDArray[np.int64]:
    """Return what leaves say: their counts in points, or one vote for the largest."""
    if not hard:
        return np.rint(POINTS_PER_ROW * leaves).astype(np.int64)
    votes = np.zeros(leaves.shape, np.int64)
    votes[np.arange(len(leaves)), leaves.argmax(axis=1)] = 1
    return votes
