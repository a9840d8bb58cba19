"""p-identity strategies: every cell, and p more questions that may weigh all cells (HDMM's OPT_0).

A = [I; Θ] with Θ ≥ 0 of p × n, each column divided by its sum s = 1 + 1ᵀΘ, so that the sensitivity is 1. With
G = WᵀW the error is

    tr(G·(AᵀA)⁻¹) = tr(S·G·S·X),   X = (I + ΘᵀΘ)⁻¹ = I − Θᵀ·(I + ΘΘᵀ)⁻¹·Θ,   S = diag(s)

(Woodbury): nothing larger than p × n is ever held, and G is used by products alone. The gradient is analytic.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpsql.strategies.descent import descend
from dpsql.strategies.strategy import DENSE, LARGEST_ENTRY, Dense, Floats, Partition, Strategy
from dpsql.strategies.workload import Workload

#: Entries are rounded to whole numbers of this many parts of 1.
PARTS = 1 << 12
#: How many questions beside the cells: one for each so many cells, within bounds.
CELLS_PER_QUESTION, FEWEST, MOST = 16, 1, 64
STEPS = 60
STARTS = 2


def p_identity(
    workload: Workload, go_on: Callable[[], bool] = lambda: True, *, questions: int | None = None
) -> Strategy | None:
    """Return the best p-identity strategy that was found; None where p × cells would be too large."""
    cells = workload.cells
    count = questions or max(FEWEST, min(MOST, cells // CELLS_PER_QUESTION))
    if count * cells > DENSE:
        return None
    best: tuple[float, Floats] | None = None
    for seed in range(STARTS):
        if best is not None and not go_on():
            break
        generator = np.random.default_rng(seed)
        # Roots of sparse random questions: each looks at a part of the cells.
        start = np.sqrt(generator.random((count, cells)) * (generator.random((count, cells)) < 0.3) / 4 + 1e-6)

        def slope(root: Floats) -> tuple[float, Floats]:
            theta = root.reshape(count, cells) ** 2
            error, gradient = error_and_gradient(workload, theta)
            return float(np.log(error)), (gradient / error).ravel() * 2 * root

        found = descend(slope, start.ravel(), steps=STEPS, go_on=go_on).reshape(count, cells) ** 2
        error, _ = error_and_gradient(workload, found)
        if best is None or error < best[0]:
            best = error, found
    assert best is not None
    return rounded(best[1])


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


def spread(workload: Workload, own: Floats, matrix: Floats) -> float:
    """Return tr(WᵀW·(AᵀA)⁻¹) for A = [diag(own); matrix], exactly as it was rounded."""
    theta, scale = matrix / own, 1 / own
    inner = np.linalg.inv(np.eye(len(theta)) + theta @ theta.T)
    pushed = workload.gram((theta * scale).T).T * scale
    return float((scale**2 * workload.diagonal).sum() - ((inner @ pushed) * theta).sum())


def rounded(theta: Floats) -> Strategy:
    """Return the strategy in whole numbers: each column is a share of PARTS, and every cell is still asked for."""
    scale = 1 + theta.sum(axis=0)
    matrix = np.minimum(np.rint(theta / scale * PARTS), LARGEST_ENTRY).astype(np.int64)
    own = np.maximum(np.rint(PARTS / scale), 1).astype(np.int64)
    told = matrix.any(axis=1)
    more = (Dense(matrix[told]),) if told.any() else ()
    return Strategy("pidentity", len(own), (Partition(np.arange(len(own)), own), *more))
