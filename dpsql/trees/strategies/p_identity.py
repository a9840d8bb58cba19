"""p-identity strategies: every cell, and p more questions that may weigh all cells (HDMM's OPT_0).

A = [I; Θ] with Θ ≥ 0 of p × n, each column divided by its sum s = 1 + 1ᵀΘ, so that the sensitivity is 1. With
G = WᵀW the error is

    tr(G·(AᵀA)⁻¹) = tr(S·G·S·X),   X = (I + ΘᵀΘ)⁻¹ = I − Θᵀ·(I + ΘΘᵀ)⁻¹·Θ,   S = diag(s)

(Woodbury): nothing larger than p × n is ever held, and G is used by products alone. The gradient is analytic.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpsql.trees.strategies.descent import descend
from dpsql.trees.strategies.effort import Effort
from dpsql.trees.strategies.strategy import DENSE, LARGEST_ENTRY, Dense, Floats, Partition, Strategy
from dpsql.trees.strategies.workload import Sums, Workload

#: Entries are rounded to whole numbers of this many parts of 1.
PARTS = 1 << 12
#: Beside the cells there is one question for each so many cells,
CELLS_PER_QUESTION = 16
#: but at least so many,
FEWEST_QUESTIONS = 1
#: and at most so many.
MOST_QUESTIONS = 64
#: The most steps of one descent.
STEPS = 60
#: How many random starts are tried.
STARTS = 2
#: How much more than a cell a sum of the workload weighs at the start.
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
            if not error > 0:  # so far out that digits are lost: no way to go
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
    """Return how many questions there are beside so many cells."""
    return max(FEWEST_QUESTIONS, min(MOST_QUESTIONS, cells // CELLS_PER_QUESTION))


def _starts(workload: Workload, questions: int | None) -> Iterator[Floats]:
    """Yield where to start: the workload's own sums, heavily weighed, where they are few; sparse random questions.

    None where p × cells would be too large.
    """
    cells = workload.cells
    count = questions or usual_questions(cells)
    if isinstance(workload, Sums) and questions is None and len(workload.matrix) <= MOST_QUESTIONS:
        yield HEAVY * np.abs(workload.matrix) / max(float(np.abs(workload.matrix).max()), 1e-300) + 1e-6
    for seed in range(STARTS if count * cells <= DENSE else 0):
        generator = np.random.default_rng(seed)
        yield generator.random((count, cells)) * (generator.random((count, cells)) < 0.3) / 4 + 1e-6


def error_and_gradient(workload: Workload, theta: Floats) -> tuple[float, Floats]:
    """Return the error of p more questions, in units of the noise of one count, and its gradient by theta."""
    scale, diagonal = 1 + theta.sum(axis=0), workload.diagonal
    inner = np.linalg.inv(np.eye(len(theta)) + theta @ theta.T)
    mixed = workload.gram((theta * scale).T).T  # Θ·S·G
    solved, seen = inner @ (mixed * scale), inner @ theta
    error = float((scale**2 * diagonal).sum() - (solved * theta).sum())
    inside = -2 * (solved - (solved @ theta.T) @ seen)
    by_scale = 2 * (scale * diagonal - (seen * mixed).sum(axis=0))
    return error, inside + by_scale


def starting_matrix(workload: Workload, own: Floats, matrix: Floats) -> float:
    """Return tr(WᵀW·(AᵀA)⁻¹) for A = [diag(own); matrix], exactly as it was rounded."""
    theta, scale = matrix / own, 1 / own
    inner = np.linalg.inv(np.eye(len(theta)) + theta @ theta.T)
    pushed = workload.gram((theta * scale).T).T * scale
    return float((scale**2 * workload.diagonal).sum() - ((inner @ pushed) * theta).sum())


def round_strategy(theta: Floats) -> Strategy:
    """Return the strategy in whole numbers: each column is a share of PARTS, and every cell is still asked for."""
    scale = 1 + theta.sum(axis=0)
    matrix = np.minimum(np.rint(theta / scale * PARTS), LARGEST_ENTRY).astype(np.int64)
    own = np.maximum(np.rint(PARTS / scale), 1).astype(np.int64)
    told = matrix.any(axis=1)
    more = (Dense(matrix[told]),) if told.any() else ()
    return Strategy("pidentity", len(own), (Partition(np.arange(len(own)), own), *more))
