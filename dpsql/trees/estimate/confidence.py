"""Turns noisy leaf counts into votes: Fletcher & Islam 2015, sections 4.5 to 4.7. It reads released counts alone.

The counts of a node are the sums over its leaves, and the noise of a sum grows more slowly than the sum (signal
averaging). A node is reliable when its rows outweigh that noise. Each leaf then votes with the class shares of the most
confident reliable node on its path.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.trees.forest import Forest, sums_by_level
from dpsql.trees.voting import Weights, largest_weight

Shares = NDArray[np.float64]


def most_confident(forest: Forest, noisy_counts: NDArray[np.int64], scale: float) -> Shares:
    """Return for each leaf the class shares of the most confident reliable node on its path (leaves × classes).

    `scale` is that of the counts' noise. Where no other node is reliable the root is taken; of equally confident nodes
    it is the one nearest the root, which has the most rows.
    """
    classes = noisy_counts.shape[1]
    totals = sums_by_level(forest, noisy_counts.astype(np.float64))
    leaves = sums_by_level(forest, np.ones(forest.leaves))
    best = _shares(totals[0])
    for level, counts, below in zip(forest.levels, totals[1:], leaves[1:], strict=True):
        best = np.repeat(best, level.arity, axis=0)
        shares = _shares(counts)
        reliable = counts.sum(axis=1) >= classes * scale * np.sqrt(2 * below)
        better = reliable & (shares.max(axis=1) > best.max(axis=1))
        best[better] = shares[better]
    return best


def confidence_votes(shares: Shares, trees: int) -> Weights:
    """Return weights that grow exponentially with a share, so that in a sum the most confident tree wins.

    A share s gets the weight M^s, where M is the largest weight that a forest may have. A tree whose share is ahead of
    all others by log_M of the number of trees (0.08 for 10 trees) decides alone; below that all trees count.

    >>> confidence_votes(np.array([[0.0, 1.0]]), trees=1).tolist()
    [[1, 1099511627776]]
    """
    most = largest_weight(trees, shares.shape[1])
    return np.minimum(np.rint(np.power(float(most), shares)), most).astype(np.int64)


def _shares(counts: NDArray[np.float64]) -> Shares:
    """Return each class's share of a node's positive counts; equal shares where none is positive."""
    positive = np.maximum(counts, 0)
    total = positive.sum(axis=1, keepdims=True)
    shares: Shares = np.where(total > 0, positive / np.maximum(total, 1), 1 / counts.shape[1])
    return shares
