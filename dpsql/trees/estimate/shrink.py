"""Turns noisy class counts of leaves into log P(class | leaf) / P(class), shrunk along the path from the root.

Only released counts are read. The counts of a node are the sums over its leaves. From the root down, the class shares
of each node are mixed with those of its parent, as if the node had 1 + σ·√(C·leaves) more rows with its parent's class
shares (σ is the standard deviation of the noise on a count, C the number of classes). Where rows outweigh noise a
leaf's own counts decide; elsewhere the nodes above it do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsql.trees.forest import PASS, Forest, sums_by_level

Floats = NDArray[np.float64]


def path_lifts(forest: Forest, noisy_counts: NDArray[np.int64], prior: Floats, deviation: float) -> Floats:
    """Return the log of each class's share in each leaf over its share of all rows (leaves × classes).

    `deviation` is the standard deviation of the noise on each count.
    """
    totals = sums_by_level(forest, noisy_counts.astype(np.float64))
    leaves = sums_by_level(forest, np.ones(forest.leaves))
    shares = _shrink_to_prior(totals[0], np.tile(prior, (forest.trees, 1)), deviation, leaves[0])
    for level, counts, below in zip(forest.levels, totals[1:], leaves[1:], strict=True):
        above = np.repeat(shares, level.arity, axis=0)
        split = np.repeat(level.axis != PASS, level.arity)
        shares = np.where(split[:, None], _shrink_to_prior(counts, above, deviation, below), above)
    return np.asarray(np.log(shares) - np.log(prior))


def _shrink_to_prior(counts: Floats, prior: Floats, deviation: float, leaves: Floats) -> Floats:
    """Return the class shares of nodes, mixed with `prior` as the head of this file says."""
    lent = (1 + deviation * np.sqrt(leaves * counts.shape[1]))[:, None]
    positive = np.maximum(counts, 0)
    return np.asarray((positive + lent * prior) / (positive.sum(axis=1, keepdims=True) + lent))
