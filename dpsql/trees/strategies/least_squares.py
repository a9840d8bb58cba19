"""Least squares: the cell counts that fit noisy answers best, by conjugate gradients on the normal equations.

All answers of a strategy have noise of the same scale, so plain least squares is the best linear unbiased estimate; an
answer counts for more where the strategy gives its question a larger weight. Where a strategy does not determine every
cell, the solution of least length is returned, and every sum that the strategy does determine is right.
"""

from __future__ import annotations

import numpy as np

from dpsql.trees.strategies.strategy import Floats, Strategy

#: The length of the residual at which the iteration ends, relative to the length of the right-hand side.
TOLERANCE = 1e-10


def least_squares(strategy: Strategy, answers: Floats) -> Floats:
    """Return the counts (cells × columns) that fit the answers (questions × columns) best.

    >>> from dpsql.trees.strategies.strategy import identity
    >>> least_squares(identity(2), np.array([[3.0], [-1.0]])).ravel().tolist()
    [3.0, -1.0]
    """
    return solve(strategy, strategy.back(np.asarray(answers, np.float64)))


def solve(strategy: Strategy, right_side: Floats) -> Floats:
    """Return x with AᵀA·x = right_side, for each column on its own; of several solutions, the one of least length."""
    solution, residual = np.zeros_like(right_side), right_side.copy()
    direction, size = residual.copy(), (residual**2).sum(axis=0)
    enough = TOLERANCE**2 * np.maximum(size, 1e-300)
    for _ in range(4 * len(right_side) + 50):
        if (size <= enough).all():
            break
        product = strategy.normal(direction)
        along = (direction * product).sum(axis=0)
        step = np.where(size > enough, size / np.where(along > 0, along, 1.0), 0.0)
        solution += step * direction
        residual -= step * product
        new_size = (residual**2).sum(axis=0)
        direction = residual + new_size / np.where(size > 0, size, 1.0) * direction
        size = new_size
    return solution
