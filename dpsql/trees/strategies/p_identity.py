"""p-identity strategies: they ask for every cell, and p more questions that may weigh all cells (OPT_0 of HDMM).

A strategy is A = [I; Θ], where Θ ≥ 0 has p rows and a column for each of n cells, and each column of A is divided by
its sum s = 1 + 1ᵀΘ, so that the sensitivity is 1. With G = WᵀW for a workload W the error is

    tr(G·(AᵀA)⁻¹) = tr(S·G·S·X),   X = (I + ΘᵀΘ)⁻¹ = I − Θᵀ·(I + ΘΘᵀ)⁻¹·Θ,   S = diag(s)

by the Woodbury identity. So no array is larger than p × n, and G is used in products alone. The gradient is analytic.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpsql.trees.strategies.descent import descend
from dpsql.trees.strategies.effort import Effort
from dpsql.trees.strategies.strategy import DENSE, LARGEST_ENTRY, Dense, Floats, Partition, Strategy
from dpsql.trees.strategies.workload import Sums, Workload

#: What 1 becomes when entries are rounded to whole numbers.
PARTS = 1 << 12
#: The number of cells for each of which there is one more question, between the two bounds that follow.
CELLS_PER_QUESTION = 16
#: The fewest questions besides the cells.
FEWEST_QUESTIONS = 1
#: The most questions besides the cells.
MOST_QUESTIONS = 64
#: The most steps of one descent.
STEPS = 60
#: The number of random starts.
STARTS = 2
#: The largest weight of a sum of the workload at the start; a cell weighs 1.
HEAVY = 8.0


def p_identity(workload: Workload, effort: Effort | None = None, *, questions: int | None = None) -> Strategy | None:
    """Return the best p-identity strategy within the effort; None where p × cells would be too large."""
    effort = effort or Effort()
    best: tuple[float, Floats] | None = None
    for start in _starts(workload, questions):
        if best is not None and not effort.allows():
            break

        def slope(root: Floats, shape: tuple[int, ...] = start.shape) -> tuple[float, Floats]:
            effort.spend(slope_work(workload, shape[0]))
            error, gradient = error_and_gradient(workload, root.reshape(shape) ** 2)
            if not error > 0:  # rounding made the error meaningless this far out: refuse the step
                return np.inf, np.zeros_like(root)
            return float(np.log(error)), (gradient / error).ravel() * 2 * root

        theta = descend(slope, np.sqrt(start).ravel(), steps=STEPS, go_on=effort.allows).reshape(start.shape) ** 2
        error, _ = error_and_gradient(workload, theta)
        if error > 0 and (best is None or error < best[0]):
            best = error, theta
    return None if best is None else round_strategy(best[1])


def slope_work(workload: Workload, questions: int | None = None) -> int:
    """Return the multiplications of one error with its gradient: WᵀW for each question, four products, one inverse."""
    count = questions or usual_questions(workload.cells)
    return count * workload.gram_work + 4 * count**2 * workload.cells + count**3


def usual_questions(cells: int) -> int:
    """Return the number p of questions that are asked besides this many cells."""
    return max(FEWEST_QUESTIONS, min(MOST_QUESTIONS, cells // CELLS_PER_QUESTION))


def _starts(workload: Workload, questions: int | None) -> Iterator[Floats]:
    """Yield the matrices Θ from which descents start.

    The first is the workload's own sums with large weights, where they are few; the others are sparse and random, from
    fixed seeds, and are left out where p × cells would be too large.
    """
    cells = workload.cells
    count = questions or usual_questions(cells)
    if isinstance(workload, Sums) and questions is None and len(workload.matrix) <= MOST_QUESTIONS:
        yield HEAVY * np.abs(workload.matrix) / max(float(np.abs(workload.matrix).max()), 1e-300) + 1e-6
    for seed in range(STARTS if count * cells <= DENSE else 0):
        generator = np.random.default_rng(seed)
        yield generator.random((count, cells)) * (generator.random((count, cells)) < 0.3) / 4 + 1e-6


def error_and_gradient(workload: Workload, theta: Floats) -> tuple[float, Floats]:
    """Return the error of [I; Θ], in units of the variance of the noise on one count, and its gradient by Θ."""
    scale, diagonal = 1 + theta.sum(axis=0), workload.diagonal
    inner = np.linalg.inv(np.eye(len(theta)) + theta @ theta.T)
    mixed = workload.gram((theta * scale).T).T  # Θ·S·G
    solved, projected = inner @ (mixed * scale), inner @ theta
    error = float((scale**2 * diagonal).sum() - (solved * theta).sum())
    inside = -2 * (solved - (solved @ theta.T) @ projected)
    by_scale = 2 * (scale * diagonal - (projected * mixed).sum(axis=0))
    return error, inside + by_scale


def p_identity_spread(workload: Workload, cell_weights: Floats, matrix: Floats) -> float:
    """Return tr(WᵀW·(AᵀA)⁻¹) for A = [diag(cell_weights); matrix], the rounded strategy itself."""
    theta, scale = matrix / cell_weights, 1 / cell_weights
    inner = np.linalg.inv(np.eye(len(theta)) + theta @ theta.T)
    product = workload.gram((theta * scale).T).T * scale
    return float((scale**2 * workload.diagonal).sum() - ((inner @ product) * theta).sum())


def round_strategy(theta: Floats) -> Strategy:
    """Return the strategy in whole numbers: each column sums to about PARTS, and no cell has weight 0."""
    scale = 1 + theta.sum(axis=0)
    matrix = np.minimum(np.rint(theta / scale * PARTS), LARGEST_ENTRY).astype(np.int64)
    cell_weights = np.maximum(np.rint(PARTS / scale), 1).astype(np.int64)
    not_zero = matrix.any(axis=1)
    more = (Dense(matrix[not_zero]),) if not_zero.any() else ()
    cells = len(cell_weights)
    return Strategy("pidentity", cells, (Partition(np.arange(cells), cell_weights), *more))
