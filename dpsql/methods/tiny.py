"""Trees for very little epsilon: grown without data, counted, and read by adding up their noisy counts."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpsql.kernel.session import Session
from dpsql.methods.advice import Advice
from dpsql.trees.forest import Forest
from dpsql.trees.grid import Axis
from dpsql.trees.guided import QUANTILE, Ladders, guided_forest
from dpsql.trees.voting import VotingForest, largest_weight

#: How many standard deviations of a row's summed counts the classes' shares are worth.
PRIOR = 3.0
#: Votes are counts in this grain, so that the prior can be less than one row.
GRAIN = 64


def public_trees(axes: tuple[Axis, ...], advice: Advice, seed: int) -> Forest:
    """Return binary trees that split each axis near the middle of what is left of it, categories in a random order."""
    ladders = Ladders.even(axes, seed)
    # Every tree gives all axes the same chance: they have the same information.
    return guided_forest(axes, ladders, [QUANTILE] * advice.trees, depth=advice.depth, seed=seed)


def summed_votes(session: Session, forest: Forest) -> VotingForest:
    """Return the forest whose leaves vote with their noisy counts, and with a share of the classes' noisy totals."""
    noisy_counts = session.leaf_counts("counts", forest).astype(np.float64)
    deviation = session.deviation("counts")
    shares = shrunken_totals(forest, noisy_counts, deviation)
    lent = PRIOR * deviation * math.sqrt(forest.trees) * shares / forest.trees
    votes = np.rint(GRAIN * (noisy_counts + lent)).astype(np.int64)
    most = largest_weight(forest.trees, len(session.schema.classes))
    session.facts |= {"classes": dict(zip(session.schema.classes, _rounded(forest, noisy_counts), strict=True))}
    return VotingForest(forest, np.clip(votes, -most, most))


def shrunken_totals(forest: Forest, noisy_counts: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    """Return the classes' shares, shrunk to equal ones by as much as noise may have moved them (James & Stein)."""
    classes = noisy_counts.shape[1]
    totals = noisy_counts.sum(axis=0) / forest.trees
    rows = max(1.0, float(totals.sum()))
    away = float(((totals - rows / classes) ** 2).sum())
    variance = deviation**2 * forest.leaves / forest.trees**2
    kept = max(0.0, 1 - classes * variance / away) if away > 0 else 0.0
    shares = np.maximum(1 / classes + kept * (totals / rows - 1 / classes), 0)
    return np.asarray(shares / shares.sum()) if shares.sum() > 0 else np.full(classes, 1 / classes)


def _rounded(forest: Forest, noisy_counts: NDArray[np.float64]) -> list[int]:
    return [round(total) for total in noisy_counts.sum(axis=0) / forest.trees]
