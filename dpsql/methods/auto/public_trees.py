"""Trees for very little epsilon: grown without data, counted, and the class shares of their leaves averaged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.session import Session
from dpsql.methods.auto.epsilon_shares import Advice
from dpsql.methods.auto.objectives import BALANCED, balance_votes
from dpsql.methods.base import Trained
from dpsql.trees.estimate.shrink import path_lifts
from dpsql.trees.forest import Forest
from dpsql.trees.grid import Axis
from dpsql.trees.grow.guided_trees import QUANTILE, Ladders, guided_forest
from dpsql.trees.voting import VotingForest

#: The part of the classes' shares that is spread evenly: a class whose count noise wiped out is not ruled out.
EVEN = 0.05
#: The points of a leaf's votes that a class share of 1 gives.
VOTES_PER_LEAF = 4096


def public_trees(axes: tuple[Axis, ...], advice: Advice, seed: int) -> Forest:
    """Return binary trees that split each axis near the middle of what is left of it, categories in a random order."""
    ladders = Ladders.even(axes, seed)
    # Every tree gives all axes the same chance: they have the same information.
    return guided_forest(axes, ladders, [QUANTILE] * advice.trees, depth=advice.depth, seed=seed)


def shared_votes(session: Session, forest: Forest, objective: str) -> Trained:
    """Return the forest whose leaves vote with their class shares, shrunk to those of the nodes above by the noise."""
    noisy_counts = session.leaf_counts("counts", forest)
    floats, deviation = noisy_counts.astype(np.float64), session.deviation("counts")
    shares = shrunken_totals(forest, floats, deviation)
    prior = (1 - EVEN) * shares + EVEN / len(shares)
    leaf_shares = prior * np.exp(path_lifts(forest, noisy_counts, prior, deviation))
    classes = dict(zip(session.schema.classes, _round_votes(forest, floats), strict=True))
    released = VotingForest(forest, np.rint(VOTES_PER_LEAF * leaf_shares).astype(np.int64))
    if objective == BALANCED:
        released = balance_votes(released, np.log(prior))
    return Trained(released, {"classes": classes})


def shrunken_totals(forest: Forest, noisy_counts: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    """Return the classes' shares, shrunk to equal ones by as much as noise may have moved them (James & Stein)."""
    classes = noisy_counts.shape[1]
    totals = noisy_counts.sum(axis=0) / forest.trees
    rows = max(1.0, float(totals.sum()))
    away = float(((totals - rows / classes) ** 2).sum())
    variance = deviation**2 * forest.leaves / forest.trees**2
    trust = max(0.0, 1 - classes * variance / away) if away > 0 else 0.0
    shares = np.maximum(1 / classes + trust * (totals / rows - 1 / classes), 0)
    return np.asarray(shares / shares.sum()) if shares.sum() > 0 else np.full(classes, 1 / classes)


def _round_votes(forest: Forest, noisy_counts: NDArray[np.float64]) -> list[int]:
    return [round(total) for total in noisy_counts.sum(axis=0) / forest.trees]
