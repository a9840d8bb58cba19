"""Least squares: the cell counts that fit noisy answers best, by conjugate gradients on the normal equations.

All answers of a strategy have noise of the same scale, so plain least squares is the best linear unbiased estimate; a
weight inside the strategy is what makes an answer count for more. Where a strategy does not determine every cell, the
solution of least length is found, and what the strategy does determine is right.
"""

from __future__ import annotations

import numpy as np

from dpsql.trees.strategies.strategy import Floats, Strategy

TOLERANCE = 1e-10


def least_squares(strategy: Strategy, answers: Floats) -> Floats:
    """Return cells × columns that fit the answers (questions × columns) best.

    >>> from dpsql.trees.strategies.strategy import identity
    >>> least_squares(identity(2), np.array([[3.0], [-1.0]])).ravel().tolist()
    [3.0, -1.0]
    """
    wanted = strategy.back(np.asarray(answers, np.float64))
    return solve(strategy, wanted)


def solve(strategy: Strategy, wanted: Floats) -> Floats:
    """Return x with AᵀA·x = wanted, each column on its own, of least length where there are several."""
    found, rest = np.zeros_like(wanted), wanted.copy()
    direction, size = rest.copy(), (rest**2).sum(axis=0)
    enough = TOLERANCE**2 * np.maximum(size, 1e-300)
    for _ in range(4 * len(wanted) + 50):
        if (size <= enough).all():
            break
        pushed = strategy.normal(direction)
        along = (direction * pushed).sum(axis=0)
        step = np.where(size > enough, size / np.where(along > 0, along, 1.0), 0.0)
        found += step * direction
        rest -= step * pushed
        new = (rest**2).sum(axis=0)
        direction = rest + new / np.where(size > 0, size, 1.0) * direction
        size = new
    return found
