"""The matrix random forest of Tajima, Wu & Houmansadr 2025, exact: what trees need, asked of their common cells.

Random trees over the same features need sums of the same cells. Instead of noise on every leaf of every tree, which
would have to share epsilon, the rows are asked a *strategy*: a few whole-number questions about the cells from which
all leaves follow by least squares. Which strategy is best depends on the trees alone (`trees/strategies/optimize.py`),
so it is looked for before any row is read, and the search costs no epsilon.

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

Proof: trees and strategies are functions of schema and parameters. The steps are one `linear` release for each
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
from dpsql.methods.base import Choice, Integer, Method, Parameter, Trained, resolve_parameters
from dpsql.methods.mrf.ensembles import MOST_CELLS, Ensemble, ensembles, joined_forest
from dpsql.schema import Schema
from dpsql.trees.forest import Forest
from dpsql.trees.strategies.least_squares import least_squares
from dpsql.trees.strategies.optimize import EFFORT, KINDS, BestStrategy, best_strategy
from dpsql.trees.voting import VotingForest, largest_weight

#: How leaves vote: with their counts, or each for its largest class.
SUMMED = "summed"
HARD = "hard"
#: The parameter `strategy` where all kinds are tried and the best is taken.
BEST = "best"
#: Points of a vote for each row that a leaf counts: counts from least squares are fractions, votes whole numbers.
POINTS_PER_ROW = 16


class Mrf(Method):
    """Random trees over common cells, and the strategy from which all their leaves follow best."""

    name = "mrf"
    summary = "random trees, one question for all their leaves (Tajima et al. 2025)"
    when = "few features of few values; a batch of rows to label once"
    parameters: Mapping[str, Parameter] = {
        "trees": Integer(128, 1, 10_000, "number of trees; of all ensembles together"),
        "depth": Integer(None, 1, 20, "depth of the trees; by default three fifths of an ensemble's features"),
        "bins": Integer(5, 2, 64, "bins of a number, of equal width"),
        "ensembles": Integer(
            None, 1, 64, "number of ensembles, which share epsilon [1, or 4 where cells are too many]"
        ),
        "features": Integer(None, 1, 20, "features of each ensemble, drawn at random; by default as many as fit"),
        "cells": Integer(MOST_CELLS, 2, 2**17, "most cells of one ensemble"),
        "votes": Choice((SUMMED, HARD), "leaves vote with their counts, or each for its largest class"),
        "strategy": Choice((BEST, *KINDS), "what is asked of the cells; best tries all of them"),
        "effort": Integer(
            EFFORT, 1, 100_000, "work for each ensemble's search; then the best strategy so far is taken"
        ),
        "seed": Integer(0, 0, 2**62, "shapes the trees, never touches noise; draws the ensembles too"),
    }

    def plan(
        self, schema: Schema, nano_epsilon: int, parameters: Mapping[str, Any], promise: Promise | None = None
    ) -> Plan:
        """Return the plan: one question-and-answer for each ensemble."""
        settings = resolve_parameters(self, parameters)
        all_ensembles = ensembles(schema, settings)
        strategies = [_strategy(ensemble, settings) for ensemble in all_ensembles]
        facts = {
            "cells": [ensemble.domain.cells for ensemble in all_ensembles],
            "strategies": [best.strategy.name for best in strategies],
            "error_to_identity": [round(best.ratio, 4) for best in strategies],
            "leaves": sum(ensemble.forest.leaves for ensemble in all_ensembles),
        }
        return Plan(
            self.name,
            mrf_steps(strategies, nano_epsilon, schema),
            promise or Promise(schema.unit),
            settings | {"chosen": facts},
        )

    def public_trees(self, schema: Schema, plan: Plan) -> Forest:
        """Return the trees: they need no rows."""
        return joined_forest(ensembles(schema, plan.parameters))

    def train(self, session: Session) -> Trained:
        """Return the forest whose leaves vote with what follows from the answers."""
        settings = session.plan.parameters
        all_ensembles = ensembles(session.schema, settings)
        strategies = [_strategy(ensemble, settings) for ensemble in all_ensembles]
        return Trained(ask_strategies(session, all_ensembles, strategies, hard=settings["votes"] == HARD))


def _strategy(ensemble: Ensemble, settings: Mapping[str, Any]) -> BestStrategy:
    kind = "" if settings["strategy"] == BEST else settings["strategy"]
    return best_strategy(ensemble.workload, kind=kind, effort=settings["effort"])


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
                cells=best.strategy.questions * classes,
                classes=classes,
                row_weight=best.strategy.sensitivity,
                note=f"{best.strategy.name} strategy: {best.ratio:.3g} times the error of asking for every cell",
            )
            for number, best in enumerate(strategies)
        )
    )


def step_name(number: int) -> str:
    """Return the name of an ensemble's step."""
    return f"ensemble_{number + 1}"


def ask_strategies(
    session: Session, all_ensembles: Sequence[Ensemble], strategies: Sequence[BestStrategy], *, hard: bool
) -> VotingForest:
    """Ask each ensemble's strategy and return the forest of all of them."""
    weights = []
    for number, (ensemble, best) in enumerate(zip(all_ensembles, strategies, strict=True)):
        noisy_answers = session.linear(step_name(number), ensemble.cells, best.strategy)
        cells = least_squares(best.strategy, noisy_answers.astype(np.float64))
        weights.append(leaf_votes(ensemble.workload.answer(cells), hard=hard))
    forest = joined_forest(list(all_ensembles))
    most = largest_weight(forest.trees, len(session.schema.classes))
    return VotingForest(forest, np.clip(np.concatenate(weights), -most, most))


def leaf_votes(leaves: NDArray[np.float64], *, hard: bool) -> NDArray[np.int64]:
    """Return the votes of leaves: their counts in points, or one vote of each leaf for its largest class."""
    if not hard:
        return np.rint(POINTS_PER_ROW * leaves).astype(np.int64)
    votes = np.zeros(leaves.shape, np.int64)
    votes[np.arange(len(leaves)), leaves.argmax(axis=1)] = 1
    return votes
